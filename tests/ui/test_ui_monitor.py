"""The monitor screen: what its lines say at every size, where the focus goes, and what time does to it."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import line_with, lines, snapshot, still

from grpo_top.snapshot import Status
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.launch import theme_name
from grpo_top.ui.screens.findings import FindingsScreen
from grpo_top.ui.screens.monitor import Layout, MonitorScreen, layout_of, stack_heights
from grpo_top.ui.screens.panel import PanelScreen
from grpo_top.ui.view import View
from grpo_top.ui.widgets.banner import banner_rows
from grpo_top.ui.widgets.runs import width_of
from grpo_top.ui.widgets.title import freshness, last_written, title_runs

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 45)


# ---- what is shown where


@pytest.mark.parametrize(
    ("width", "height", "layout"),
    [
        (160, 45, Layout("panels", banner=2, stack=57, rail=46)),
        (200, 60, Layout("panels", banner=2, stack=65, rail=70)),
        (150, 45, Layout("panels", banner=2, stack=52, rail=46)),
        (120, 40, Layout("panels", banner=3, stack=60)),
        (109, 40, Layout("rows", banner=2)),
        (160, 35, Layout("rows", banner=2)),
        (80, 24, Layout("rows", banner=2)),
        (39, 24, Layout("sentence")),
        (80, 11, Layout("sentence")),
    ],
)
def test_a_size_decides_what_is_shown(width, height, layout):
    assert layout_of(width, height) == layout


async def test_a_wide_window_shows_two_stacks_and_a_rail():
    app = still("sampler_cold")
    async with app.run_test(size=LARGE) as pilot:
        await pilot.pause()
        shown = lines(app)

    assert shown[0].startswith(
        " grpo-top  add-020b24  trl · GRPO · 4 groups × 8          step 110/120 ━━━━━━━━━━━━━─ "
    )
    assert "● live  0.3 s ago   1 source" in shown[0]
    assert shown[1].startswith(" TRIAGE  ● 0 data › ● 1 learnable › ● 2 reward › ")
    assert " ›  ✖ 4 rollouts  › " in shown[1]
    assert shown[2].startswith("▌  ✖ SAMPLER_DRIFT   temperature 0.15 deployed, 1.0 intended  since step 51 ")
    assert shown[2].endswith("enter evidence ")
    assert shown[4].startswith(
        "╭─ 2 Reward and held-out ───────────────────── 0.940 ● ─╮╭─ 3 Group variance ─"
    )
    assert shown[4][114:].startswith("╭─ Findings ─")
    assert shown[14].startswith("┏━ ▸ 4 Sampler config ━━━━━━━━━━━━━━━━━━━━━━━━ DRIFT ✖ ━┓╭─ 4 Diversity ─")
    assert shown[16].startswith("┃ ✖ temperature     1.0     0.15    51   ")
    assert shown[23].startswith("┗━━━━━━━━━━━━━━━━━━━━━━━━━━━━ ✖ SAMPLER_DRIFT since 51 ━┛")
    assert shown[44].startswith(
        " ↑↓←→ panel   enter open   f findings   s rollouts   / search   space pause   [ ] time "
    )


async def test_the_rail_lists_findings_and_the_latest_groups_with_their_prompts():
    app = still("sampler_cold")
    async with app.run_test(size=LARGE) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        rail = [line[114:] for line in lines(app)]

    assert rail[5].startswith("│ ✖ 4 SAMPLER_DRIFT                 since 51 │")
    assert any(line.startswith(("│ └─▲ 4 LOW_DIVERSITY", "│ ├─▲ 4 LOW_DIVERSITY")) for line in rail)
    assert "│ step prompt   rewards   mean      σ  texts │" in rail
    assert any(line.startswith("│  110 37+11=   ") and line.endswith("1.00  0.061    3/8 │") for line in rail)
    assert any("flat    1/8" in line for line in rail)


async def test_a_middling_window_shows_two_stacks_and_names_the_consequences():
    app = still("sampler_cold")
    async with app.run_test(size=MIDDLE) as pilot:
        await pilot.pause()
        shown = lines(app)

    assert shown[0].startswith(" grpo-top  add-020b24  trl · GRPO · 4 × 8       step 110/120 ")
    assert shown[1].startswith(" ● 0 data ● 1 learnable ● 2 reward ")
    assert "  ✖ 4 rollouts  " in shown[1]
    assert shown[3].startswith("▌   first cause      ")
    assert shown[4].startswith("▌   explains         ▲ LOW_DIVERSITY since ")
    assert shown[5].startswith(
        "╭─ 2 Reward and held-out ──────────────────────── 0.940 ● ─╮╭─ 3 Group variance ─"
    )
    assert [line[0] for line in shown[5:39]].count("╭") == 3
    assert shown[39].startswith(" ↑↓←→ panel ")
    assert shown[39].rstrip().endswith("? help   q quit")
    assert {len(line) for line in shown} == {120}


async def test_a_small_window_shows_one_row_a_metric():
    app = still("sampler_cold")
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        shown = lines(app)

    assert shown[0].startswith(" grpo-top add-020b24 trl 4×8    step 110/120 ")
    assert shown[1].startswith(" ●data ●learn ●reward ")
    assert "✖rollouts ●format ●KL ○stale ○held-out" in shown[1]
    assert shown[2].startswith("▌ ✖ SAMPLER_DRIFT   temperature 0.15 deployed, 1.0 intended  since 51 ")
    assert shown[3].startswith("▌ first cause of ▲ LOW_DIVERSITY")
    assert shown[4] == "     metric          20 steps    Δ20  1         51         110     limit  state "
    assert shown[7].startswith(" ● 2 reward             0.940  +0.02  ")
    assert shown[12].startswith("▸✖ 4 temperature         0.15         ")
    assert shown[12].endswith("       1.0  FAIL  ")
    assert "? 7 logprob mismatch       –         not logged" in shown[21]
    assert shown[23].startswith(" ↑↓ row  enter open  f findings  s rollouts  / search  space pause  ? help ")
    assert len(shown) == 24


async def test_a_healthy_run_is_said_to_be_quiet_and_to_what_extent():
    app = still("healthy")
    async with app.run_test(size=LARGE) as pilot:
        await pilot.pause()
        shown = lines(app)

    passed = sum(
        int(track.status[-1]) in (Status.OK, Status.INFO) for track in app.view.snapshot.tracks.values()
    )
    assert shown[2].startswith(
        f"  ● All quiet      {passed} of {len(app.view.snapshot.tracks)} checks pass at step 110, "
    )
    assert shown[3].strip() == "Coverage 9 of 10: tier is not logged."
    assert shown[4].startswith("┏━ ▸ 2 Reward and held-out ━━━━━━━━━━━━━━━━━━━ 0.865 ● ━┓")
    assert shown[4][114:].endswith("─ none ● ─╮")
    assert not any("✖" in line for line in shown)


async def test_a_healthy_run_in_a_small_window():
    app = still("healthy")
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        shown = lines(app)

    assert shown[2].startswith(" ● All quiet")
    assert not any(word in line for line in shown for word in ("WARN", "FAIL"))


async def test_a_panel_without_its_field_is_one_line_and_its_stack_takes_the_rows():
    app = still("healthy", without=("kl",))
    async with app.run_test(size=LARGE) as pilot:
        await pilot.pause()
        shown = lines(app)

    assert shown[43].startswith("╶─ 6 KL to reference  ? no kl in this log ─")
    tops = [row for row, line in enumerate(shown) if line[0] in "╭┏╶"]
    assert tops == [4, 19, 29, 43]
    right = [row for row, line in enumerate(shown) if line[57] == "╭"]
    assert right == [4, 14, 24, 34]


def test_a_stack_shares_its_rows_and_what_a_missing_panel_leaves():
    class Facts:
        def __init__(self, missing: str = "", numbers: tuple = (1,)) -> None:
            self.missing, self.numbers, self.chart = missing, numbers, object()

    chart, table, absent = Facts(), Facts(numbers=()), Facts(missing="no kl")

    assert stack_heights(34, [chart, table, chart, chart]) == [9, 9, 8, 8]
    assert stack_heights(40, [chart, table, chart, absent]) == [15, 10, 14, 1]
    assert stack_heights(40, [absent] * 4) == [1, 1, 1, 1]


# ---- time


async def test_space_holds_the_view_and_the_title_says_how_far_live_is_ahead():
    app = still("verifier_broken")
    async with app.run_test(size=LARGE) as pilot:
        await pilot.press("space", *["left_curly_bracket"] * 6)
        await pilot.press(*["right_square_bracket"] * 6)
        await pilot.pause()
        shown = lines(app)

        assert "paused at step 56    live is 54 steps on" in shown[0]
        assert shown[2].startswith("▌  ✖ REWARD_STREAK ")
        assert "this step 0 ✖ ━┓" in shown[4]
        assert "Findings  at step 56" in shown[4]
        assert any("Groups to step 56" in line for line in shown)
        assert shown[44].startswith(" [ ] one step   { } 10 steps   end go live   space go on   enter open ")

        await pilot.press("end")
        await pilot.pause()
        assert "● live" in lines(app)[0]


async def test_the_cursor_stays_within_the_steps_there_are():
    app = still("healthy")
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("right_square_bracket")
        assert app.view.cursor == 110
        await pilot.press(*["left_curly_bracket"] * 12)
        assert app.view.cursor == 1


async def test_before_a_fault_there_is_nothing_wrong():
    app = still("sampler_cold")
    async with app.run_test(size=LARGE) as pilot:
        await pilot.press(*["left_curly_bracket"] * 8)
        await pilot.pause()

        assert app.view.cursor == 30
        assert "All quiet" in lines(app)[2]
        assert "as intended" in line_with(app, "Sampler config")


# ---- focus


async def test_arrows_and_letters_move_the_focus_between_panels():
    app = still("healthy")
    async with app.run_test(size=LARGE) as pilot:
        for key, title in (
            ("right", "▸ 3 Group variance"),
            ("j", "▸ 4 Diversity"),
            ("h", "▸ 4 Sampler config"),
            ("down", "▸ 5 Parse and endings"),
            ("up", "▸ 4 Sampler config"),
            ("5", "▸ 5 Parse and endings"),
            ("5", "▸ 5 Length and truncation"),
            ("6", "▸ 6 KL to reference"),
            ("l", "▸ 7 Version lag"),
            ("down", "▸ 7 Version lag"),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert line_with(app, "▸").find(title) >= 0


async def test_rows_take_the_focus_one_after_another():
    app = still("healthy")
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        await pilot.press("5")
        await pilot.pause()
        assert line_with(app, "▸").startswith("▸● 5 parse failures")
        await pilot.press("down")
        await pilot.pause()
        assert line_with(app, "▸").startswith("▸● 5 truncated")


async def test_the_focus_is_on_the_first_cause_until_it_is_moved():
    app = still("sampler_cold")
    async with app.run_test(size=LARGE) as pilot:
        await pilot.pause()
        assert "▸ 4 Sampler config" in line_with(app, "▸")
        await pilot.press("1")
        await pilot.pause()
        assert "▸ 2 Reward and held-out" in line_with(app, "▸")
        assert lines(app)[2].endswith("f evidence ")


async def test_enter_opens_the_evidence_on_the_first_cause_and_a_panel_elsewhere():
    app = still("sampler_cold")
    async with app.run_test(size=LARGE) as pilot:
        await pilot.pause()
        await pilot.press("enter")
        assert isinstance(app.screen, FindingsScreen)
        await pilot.press("escape")
        await pilot.pause()
        while len(app.screen_stack) > 1:
            await pilot.press("escape")
        await pilot.press("right", "enter")
        assert isinstance(app.screen, PanelScreen)


async def test_a_click_opens_a_panel_a_finding_a_group_a_stage_and_the_first_cause():
    app = still("sampler_cold")
    async with app.run_test(size=LARGE) as pilot:

        async def opened(x: int, y: int) -> str:
            await pilot.click(offset=(x, y))
            await pilot.pause()
            shown = f"{type(app.screen).__name__}: {lines(app)[2]}"
            await pilot.press("escape")
            await pilot.pause()
            assert isinstance(app.screen, MonitorScreen), shown
            return shown

        assert "PanelScreen: Monitor › 4 Diversity" in " ".join((await opened(70, 20)).split())
        row = next(y for y, line in enumerate(lines(app)) if "UNIFORM_COMPONENT" in line[114:])
        assert (await opened(125, row)).startswith("FindingsScreen:")
        row = next(y for y, line in enumerate(lines(app)) if "╭─ Latest groups" in line)
        assert (await opened(120, row + 3)).startswith("BrowserScreen:")
        assert "PanelScreen: Monitor › 6 KL" in " ".join((await opened(lines(app)[1].index("KL"), 1)).split())
        assert (await opened(40, 2)).startswith("FindingsScreen:")


# ---- marks


async def test_ascii_draws_nothing_but_ascii():
    for size in (LARGE, MIDDLE, SMALL):
        app = still("sampler_cold", glyphs=ASCII)
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            assert all(line.isascii() for line in lines(app))


async def test_without_colour_every_state_is_a_mark_and_a_word(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = still("sampler_cold", glyphs=ASCII, theme=theme_name("dark", {"NO_COLOR": "1"}))
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        shown = lines(app)
        colours = {
            segment.style.color for strip in app.screen._compositor.render_strips() for segment in strip
        }

    assert shown[2].startswith("| X SAMPLER_DRIFT ")
    assert shown[12].startswith(">X 4 temperature ")
    assert shown[12].rstrip().endswith("FAIL")
    assert shown[7].rstrip().endswith("ok")
    assert all(colour is None or colour.is_default for colour in colours)


# ---- small and odd


@pytest.mark.parametrize(
    "size", [(39, 11), (20, 5), (60, 14), (5, 3), (1, 1), (110, 36), (240, 20), (300, 90)]
)
async def test_no_size_is_too_odd(size):
    app = still("sampler_cold")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        shown = lines(app)

    assert len(shown) == size[1]


async def test_the_smallest_windows_hold_one_sentence():
    app = still("sampler_cold")
    async with app.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        shown = [line.rstrip() for line in lines(app)]

    assert shown == [
        "✖ SAMPLER_DRIFT",
        "  since step 51:",
        "  temperature 0.15",
        "  deployed, 1.0",
        "  intended",
    ]


async def test_resizing_reflows():
    app = still("sampler_cold")
    async with app.run_test(size=LARGE) as pilot:
        for size in (SMALL, (20, 5), MIDDLE, (100, 60), LARGE):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert len(lines(app)) == size[1]
        assert lines(app)[14].startswith("┏━ ▸ 4 Sampler config")


async def test_a_recording_says_so_at_every_size():
    picture = snapshot("healthy")
    labelled = replace(
        picture, run=replace(picture.run, recording="recording of a real run: nothing was done to it")
    )
    for size in (LARGE, MIDDLE, SMALL, (45, 14), (20, 5)):
        app = GrpoTop(labelled, clock=lambda: picture.last_record_time or 0)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            assert any("recording" in line for line in lines(app)[:2])


# ---- the title's freshness


def view(**changes) -> View:
    picture = snapshot("healthy")
    return View(replace(picture, **changes), now=(picture.last_record_time or 0) + 0.3)


def test_freshness_is_always_said():
    now = view().now
    later = replace(view(), now=now + 40)
    gone = tuple(source._replace(state="gone") for source in view().snapshot.sources)

    assert freshness(view(), UNICODE)[2:] == ("live", "0.3 s ago")
    assert freshness(later, UNICODE).word == "quiet for 40 s"
    assert freshness(replace(later, now=now + 49.9), UNICODE).word == "quiet for 50 s"
    assert freshness(view(reading=0.43), UNICODE).word == "reading 43%"
    assert freshness(view(sources=gone), UNICODE).word == "source gone"
    assert freshness(view(finished=True), UNICODE).word == "finished"
    assert freshness(replace(view(), error="disk"), UNICODE).word == "reading stopped"
    assert freshness(view(last_record_time=None), UNICODE).word == "waiting"


def test_a_run_of_slow_steps_is_not_quiet_between_them():
    slow = view(run=replace(view().snapshot.run, step_seconds=60.0))

    assert freshness(replace(slow, now=slow.now + 90), UNICODE).word == "live"
    assert freshness(replace(slow, now=slow.now + 130), UNICODE).word == "quiet for 2 m"


def test_while_nothing_is_written_the_title_changes_with_the_age_alone():
    quiet = [
        title_runs(replace(view(), now=view().now + seconds), 160, UNICODE) for seconds in (65, 115, 125)
    ]

    assert quiet[0] == quiet[1] != quiet[2]


def test_the_title_says_when_the_newest_record_was_written():
    written = 86_400.0 * 300  # whatever the zone, some time of that day or the next

    assert re.fullmatch(r"\d\d:\d\d", last_written(written, written + 59))
    assert re.fullmatch(r"last \d\d:\d\d", last_written(written, written + 61))
    assert last_written(written, written + 90_000).startswith("last 1970-10-2")
    assert last_written(None, written) == last_written(1e300, written) == last_written(math.nan, 0.0) == ""


@given(
    width=st.integers(24, 260), cursor=st.none() | st.integers(1, 110), recording=st.sampled_from([None, "x"])
)
def test_the_title_fills_its_width_and_keeps_the_state(width, cursor, recording):
    shown = view()
    shown = replace(
        shown,
        cursor=cursor,
        snapshot=replace(shown.snapshot, run=replace(shown.snapshot.run, recording=recording)),
    )
    runs = title_runs(shown, width, UNICODE)

    assert width_of(runs) == width
    assert ("live" if cursor is None else "paused at step") in "".join(text for text, _ in runs)


@given(width=st.integers(1, 260), height=st.integers(1, 3), name=st.sampled_from(["healthy", "sampler_cold"]))
def test_the_banner_is_never_wider_than_the_window(width, height, name):
    rows = banner_rows(View(snapshot(name)), width, height, "enter", (), UNICODE)

    assert len(rows) <= height
    assert all(width_of(row) <= width for row in rows)
