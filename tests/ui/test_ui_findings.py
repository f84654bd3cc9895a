"""The findings: the list in triage order, the page of one, and what is attached laid out whatever it is."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from found_by_hand import finding, opened, paused_at, sampler_cold, settled, shown_by
from hypothesis import given
from hypothesis import strategies as st
from recorded import lines, snapshot, still
from runs import group, read, run_record, step_record, write_log

from grpo_top.config import Settings
from grpo_top.detectors import ALL, BY_ID
from grpo_top.records import Message, Rollout
from grpo_top.snapshot import Gone, Status
from grpo_top.text import cells, safe
from grpo_top.ui.evidence.attached import evidence_rows
from grpo_top.ui.evidence.finding_page import finding_page, page_rows
from grpo_top.ui.evidence.layout import Column, Frame, box, line_of, scrolled, table, wrapped
from grpo_top.ui.evidence.listing import entries, episodes_text
from grpo_top.ui.evidence.reading import excerpt
from grpo_top.ui.evidence.rules import IN_UNITS_OF_SERIES, rule
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.explain import ExplainScreen
from grpo_top.ui.screens.findings import FindingsScreen
from grpo_top.ui.screens.monitor import MonitorScreen
from grpo_top.ui.screens.panel import PanelScreen
from grpo_top.ui.screens.replay import ReplayScreen
from grpo_top.ui.view import View
from grpo_top.ui.widgets.runs import width_of

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 45)


def unread(row: int) -> None:
    """A text that is not there yet."""


# ---- the list


async def test_the_list_is_in_triage_order_with_the_first_cause_on_top():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FindingsScreen())

    assert shown[2].rstrip() == f"{' Monitor › Findings › SAMPLER_DRIFT':<111}esc back"
    assert [line[:42] for line in shown[3:30]] == [
        "╭─ Findings ──────── ✖ 1  ▲ 1  △ 2  ? 1 ─╮",
        "│ first cause ────────────────────────── │",
        "│▸✖ 4 SAMPLER_DRIFT             since 51 │",
        "│      temperature 0.15 deployed, 1.0    │",
        "│      intended                          │",
        "│ explained by it ────────────────────── │",
        "│ ▲ 3 UNIFORM_COMPONENT         since 64 │",
        "│      format flat in all groups         │",
        "│ △ 3 DEGENERATE_GROUPS            watch │",
        "│      zero-variance 25%, limit 40%      │",
        "│ △ 4 LOW_DIVERSITY             69–87 ×3 │",
        "│      duplicates 90%, limit 90%         │",
        "│ cleared ────────────────────────────── │",
        "│ ▲ 5 PARSE_FAILURES                5–10 │",
        "│      31% of step 4, now 0%             │",
        "│ cannot be judged ───────────────────── │",
        "│ ? 4 NONDETERMINISTIC_REPLAY      seeds │",
        "│ ten things to log: 9 ───────────────── │",
        "│ ● reward by family, verifier   present │",
        "│ ● zero-variance share          derived │",
        "│ ? success by tier              missing │",
        "│ ● parse failures, truncation   derived │",
        "│ ● length against reward        present │",
        "│ ● KL, entropy                  present │",
        "│ ● endings by family            present │",
        "│ ● policy version, lag          present │",
        "│ ● held-out, fixed cadence      present │",
    ]


def test_what_began_before_the_first_cause_is_not_explained_by_it():
    picture = sampler_cold()
    early = finding("SPARSE_REWARD", 3, Status.WARN, ((20, 110),), summary="success 1.0% over 20 steps")
    late = finding("KL_EXPLODING", 6, Status.FAIL, ((90, 110),), summary="kl 2.00")
    tracks = {**picture.tracks}
    late = replace(late, caused_by="SAMPLER_DRIFT")
    listed = entries(View(replace(picture, findings=(*picture.findings, early, late), tracks=tracks)))
    sections = {entry.key: entry.section for entry in listed}
    assert sections["SPARSE_REWARD"] > sections["KL_EXPLODING"] == sections["UNIFORM_COMPONENT"]


def test_when_all_is_well_the_list_holds_what_cleared_and_what_is_logged():
    listed = entries(View(snapshot("healthy")))
    assert {entry.section for entry in listed if entry.finding is not None} <= {2, 3}
    assert sum(entry.item is not None for entry in listed) == 10


def test_a_paused_view_lists_the_findings_of_its_step():
    picture = sampler_cold()
    at_40 = {entry.key: entry for entry in entries(View(picture, cursor=40))}
    assert "SAMPLER_DRIFT" not in at_40
    assert at_40["PARSE_FAILURES"].when == "5–10"

    at_80 = {entry.key: entry for entry in entries(View(picture, cursor=80))}
    assert at_80["LOW_DIVERSITY"].when == "since 80"
    assert at_80["LOW_DIVERSITY"].detail == "duplicates 90%, limit 90%"

    at_76 = {entry.key: entry for entry in entries(View(picture, cursor=76))}
    assert at_76["LOW_DIVERSITY"].section > at_76["UNIFORM_COMPONENT"].section
    assert at_76["LOW_DIVERSITY"].when == "69–74"


def test_a_finding_that_flickers_is_one_row():
    diversity = sampler_cold().findings[2]
    assert episodes_text(View(sampler_cold()), diversity) == "69–87 ×3"
    assert episodes_text(View(sampler_cold(), cursor=82), diversity) == "69–80 ×2"


async def test_a_long_list_scrolls_with_the_selection():
    app = still("verifier_broken")
    async with app.run_test(size=SMALL) as pilot:
        shown = await opened(pilot, FindingsScreen())
        assert shown[22].startswith("╰─ ")
        assert shown[22].split()[1:3] == [shown[22].split()[1], "more"]
        for _ in range(40):
            await pilot.press("down")
        await pilot.pause()
        assert any(line.startswith("│▸") and "versions, sampler hash" in line for line in lines(app))


# ---- the page


async def test_the_page_says_what_is_wrong_and_proves_it():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        shown = [line[42:] for line in await opened(pilot, FindingsScreen())]

    assert shown[3] == "╭─ ✖ SAMPLER_DRIFT ──────────────── fail   stage 4 rollouts   since step 51 ─╮"
    assert shown[4].startswith("│ temperature 0.15 deployed, 1.0 intended ")
    at = next(index for index, line in enumerate(shown) if "Evidence" in line)
    assert [line.rstrip("│ ") for line in shown[at + 1 : at + 4]] == [
        "│ setting        intended  deployed  since  rollouts",
        "│ temperature         1.0     0.15      51  1,920 of 1,920, 288 held-out",
        "│ top_p 1.0   top_k 0   max_tokens 32   as intended",
    ]
    at = next(index for index, line in enumerate(shown) if "what followed" in line)
    assert shown[at].split()[1:] == ["what", "followed", "31–50", "91–110", "1", "51", "110", "│"]
    assert [line[2:42].split()[-2:] for line in shown[at + 1 : at + 5]] == [
        ["41%", "90%"],
        ["6.12", "2.35"],
        ["0.8%", "0%"],
        ["0.834", "0.940"],
    ]
    at = next(index for index, line in enumerate(shown) if "Try, in order" in line)
    assert shown[at + 1].startswith("│ 1 Ask the server what it resolves. ")
    at = next(index for index, line in enumerate(shown) if "Rollouts that prove it" in line)
    assert shown[at].endswith("7 rollouts of 7 groups │")
    assert [line.rstrip("│ ") for line in shown[at + 1 : at + 5]] == [
        "│ step  prompt  temp  rewards   texts  answers",
        "│▸  51  1+14=   0.15  ▇▇▇▇▇▇▇▇  1/8    15 ×8",
        "│   51  35+4=   0.15  ▂▂▅▅▅▅▅▅  3/8    48 ×4  57 ×2  47 ×2",
        "│   51  9+3=    0.15  ▇▇▇▇▇▇▇▇  2/8    13 ×6  12 ×2",
    ]


async def test_a_wide_window_gives_the_list_and_the_page_more_room():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, FindingsScreen("UNIFORM_COMPONENT"))

    assert shown[2].startswith(" Monitor › Findings › UNIFORM_COMPONENT ")
    assert shown[3].startswith("╭─ Findings ────────────────── ✖ 1  ▲ 1  △ 2  ? 1 ─╮┏━ ")
    assert "▲ UNIFORM_COMPONENT ━" in shown[3]
    assert any("flattest format   share of groups 100%   rows 20" in line for line in shown)
    assert any("judged 100%   limit 90%" in line for line in shown)


async def test_a_narrow_window_shows_the_list_and_the_page_one_at_a_time():
    app = shown_by(sampler_cold())
    async with app.run_test(size=SMALL) as pilot:
        shown = await opened(pilot, FindingsScreen())
        assert shown[3] == f"╭─ Findings {'─' * 46} ✖ 1  ▲ 1  △ 2  ? 1 ─╮"
        assert not any("Evidence" in line for line in shown)

        await pilot.press("down", "enter")
        await pilot.pause()
        assert lines(app)[3].startswith("╭─ ▲ UNIFORM_COMPONENT ─")
        await pilot.press("escape")
        await pilot.pause()
        assert lines(app)[3].startswith("╭─ Findings ─")
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, FindingsScreen)


async def test_a_finding_that_was_asked_for_is_left_in_one_step():
    app = shown_by(sampler_cold())
    async with app.run_test(size=SMALL) as pilot:
        shown = await opened(pilot, FindingsScreen("SAMPLER_DRIFT"))
        assert shown[3].startswith("╭─ ✖ SAMPLER_DRIFT ─")
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, FindingsScreen)


async def test_the_page_scrolls_to_its_rollouts_and_then_moves_among_them():
    app = shown_by(sampler_cold())
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, FindingsScreen("SAMPLER_DRIFT"))
        assert not any("1+14=" in line for line in lines(app))
        for _ in range(40):
            await pilot.press("down")
        shown = await settled(pilot)
    chosen = [line for line in shown if line.startswith("│▸")]
    assert len(chosen) == 1
    assert " 109  " in chosen[0]


async def test_what_is_watched_and_what_cannot_be_judged_have_pages_too():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FindingsScreen("DEGENERATE_GROUPS"))
        assert any(
            "zero-variance 25%, limit 40%; not for long enough to be a finding" in line for line in shown
        )
        assert any("How it is judged" in line for line in shown)
        while not any("▸? 4 NONDETERMINISTIC_REPLAY" in line for line in lines(app)):
            await pilot.press("tab", "down", "tab")
            await pilot.pause()
        assert any("it needs what this log does not hold: seeds" in line for line in lines(app))
        await pilot.press("tab", "down", "down", "down")
        await pilot.pause()
        assert any("success per tier" in line for line in lines(app))
        assert any("tier: not logged" in line for line in lines(app))


async def test_a_paused_view_says_of_which_step_the_numbers_are():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, FindingsScreen())
        shown = await paused_at(pilot, 80)
    assert any("The attached numbers are those of step 110." in line for line in shown)
    assert any("what followed          31–50      61–80 " in line for line in shown)


async def test_a_newer_picture_keeps_what_is_selected():
    app = shown_by(sampler_cold(), clock=time.time)
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, FindingsScreen())
        await pilot.press("down")
        app.take(replace(sampler_cold(), version=app.view.snapshot.version + 1))
        assert await shows(pilot, "▸▲ 3 UNIFORM_COMPONENT")

        gone = tuple(found for found in sampler_cold().findings if found.id != "UNIFORM_COMPONENT")
        app.take(replace(sampler_cold(), version=app.view.snapshot.version + 2, findings=gone))
        assert await shows(pilot, "▸✖ 4 SAMPLER_DRIFT")


async def shows(pilot, text: str) -> bool:
    """Whether a text comes onto the screen within some seconds: what is not a new step is drawn once a second."""
    for _ in range(40):
        if any(text in line for line in lines(pilot.app)):
            return True
        await pilot.pause(0.1)
    return False


# ---- where it leads


async def test_enter_opens_the_rollouts_that_prove_it_and_from_the_page_one_of_them():
    picture = sampler_cold()
    rows = tuple(reference.row for reference in picture.findings[0].rollouts)
    app = shown_by(picture)
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, FindingsScreen())
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(app.screen, BrowserScreen)
        assert app.screen._evidence == rows
        assert app.screen._title == "SAMPLER_DRIFT"
        app.pop_screen()

        await pilot.press("tab", "down", "enter")
        await settled(pilot)
        assert isinstance(app.screen, ReplayScreen)
        assert app.screen._row == rows[1]


async def test_a_single_rollout_is_replayed_at_once():
    picture = sampler_cold()
    one = replace(picture.findings[0], rollouts=picture.findings[0].rollouts[:1])
    app = shown_by(replace(picture, findings=(one,)))
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, FindingsScreen())
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(app.screen, ReplayScreen)


async def test_p_opens_the_panel_and_x_the_explanation():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, FindingsScreen("UNIFORM_COMPONENT"))
        await pilot.press("p")
        await pilot.pause()
        assert isinstance(app.screen, PanelScreen)
        assert app.screen.panel == "variance"
        await pilot.press("escape", "x")
        await pilot.pause()
        assert isinstance(app.screen, ExplainScreen)
        assert lines(app)[2].startswith(" Monitor › Explain › UNIFORM_COMPONENT")
        assert any(line.startswith("│ What is happening ") for line in lines(app))


async def test_c_copies_the_page_as_text():
    app = shown_by(sampler_cold())
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, FindingsScreen())
        await pilot.press("c")
        await pilot.pause()
        copied = app.clipboard
    assert " ".join(copied.split()[:9]) == "✖ SAMPLER_DRIFT fail stage 4 rollouts since step 51"
    assert "temperature         1.0     0.15      51  1,920 of 1,920, 288 held-out" in copied
    assert "1 Ask the server what it resolves." in copied


async def test_the_footer_names_the_keys_of_where_the_focus_is():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, FindingsScreen())
        assert lines(app)[-1].startswith(
            " ↑↓ finding   tab page   enter rollouts   p panel   x explain   c copy "
        )
        await pilot.press("tab")
        await pilot.pause()
        assert lines(app)[-1].startswith(" ↑↓ rollouts   tab list   enter replay   p panel ")
        await pilot.press("tab")
        await pilot.resize_terminal(*SMALL)
        await pilot.pause()
        assert lines(app)[-1].startswith(" ↑↓ finding  enter page  p panel "), "it leads to the page there"
        await pilot.press("x", "q")
        await pilot.pause()
        assert isinstance(app.screen, FindingsScreen), "q leaves a page as it leaves a pager"
        await pilot.press("backspace")
        await pilot.pause()
        assert isinstance(app.screen, MonitorScreen)


async def test_a_click_selects_an_entry():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, FindingsScreen())
        await pilot.click(offset=(10, 10))
        await pilot.pause()
        assert any("▸▲ 3 UNIFORM_COMPONENT" in line for line in lines(app))


@pytest.mark.parametrize("page", [ALL[0].id, "SAMPLER_DRIFT", "LEAKAGE"])
async def test_every_page_can_be_scrolled_to_its_end(page):
    app = still("healthy")
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot, ExplainScreen(page))
        await pilot.press("end")
        await pilot.pause()
        assert any("Related: " in line or "Often mistaken for" in line for line in lines(app))
        await pilot.press("home")
        await pilot.pause()
        assert lines(app)[4].startswith("│ severity ")


# ---- what is attached


@pytest.mark.parametrize("recording", ["sampler_cold", "verifier_broken", "stale_weights", "truncation"])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_finding_of_the_recordings_has_a_page_within_its_width(recording, glyphs):
    view = View(snapshot(recording))
    for entry in entries(view):
        for width in (36, 76, 120):
            page = finding_page(view, entry, width, unread, glyphs)
            assert page.rows
            for row in page_rows(page, 0, width + 4, glyphs):
                assert width_of(row) <= width + 2
                assert not glyphs.ascii or line_of(row).isascii()


evidence = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["settings", "before", "now", "steps", "since", "reward", "x_frac"])
        | st.text(max_size=9),
        evidence,
        max_size=5,
    ),
    st.integers(10, 120),
)
def test_any_evidence_is_laid_out_and_nothing_of_it_reaches_the_terminal(attached, width):
    rows = evidence_rows(attached, snapshot("healthy"), width, UNICODE)
    for row in rows:
        assert safe(line_of(row)) == line_of(row)
        assert width_of(row) <= width


def test_numbers_before_and_now_that_are_no_series_are_a_table():
    rows = evidence_rows(
        {"before": {"steps": [1, 20], "errors": 0}, "now": {"steps": [21, 40], "errors": 7}},
        snapshot("healthy"),
        76,
        UNICODE,
    )
    assert [line_of(row) for row in rows] == ["               1–20  21–40", "errors            0      7"]


def test_a_setting_that_the_run_record_does_not_name_is_held_against_what_was_before():
    setting = {
        "setting": "top_p",
        "intended": None,
        "before": 1.0,
        "deployed": 0.9,
        "since": 7,
        "samplers": ["gpu\x1b3"],
    }
    rows = evidence_rows({"settings": [setting | {"rollouts": 3, "of": 8}]}, snapshot("healthy"), 76, UNICODE)
    assert [line_of(row) for row in rows][:2] == [
        "setting        before  deployed  since  rollouts",
        "top_p             1.0      0.9       7  3 of 8, gpu␛3",
    ]


async def test_what_a_log_says_is_shown_and_never_obeyed(tmp_path):
    nasty = "[red]\x1b]0;owned\x07\u202e"
    records = [run_record(run=nasty)]
    for step in range(1, 4):
        records += group(step, "g", [0.0, 1.0], family=nasty, prompt=nasty, completion=nasty)
        records.append(step_record(step, reward=0.5))
    write_log(tmp_path / "log.jsonl", records)
    picture = read(tmp_path)
    row = int(picture.groups.columns["first_row"][0])
    found = finding(
        "LOW_DIVERSITY",
        4,
        Status.WARN,
        ((1, 3),),
        summary=nasty,
        evidence={"by": {nasty: 1}, "name": nasty},
        rollouts=(replace(sampler_cold().findings[0].rollouts[0], step=1, row=row),),
        try_next=(nasty,),
    )
    app = shown_by(replace(picture, findings=(found,), first_cause="LOW_DIVERSITY"))
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FindingsScreen())
    assert all(line.isprintable() for line in shown)
    assert sum("[red]␛]0;owned␇⟨U+202E⟩" in line for line in shown) >= 4


# ---- texts


def rollout(**fields) -> Rollout:
    return Rollout(step=1, group="g", reward=0.0, **fields)


def test_the_answer_is_what_the_verifier_read_else_what_the_completion_marks_else_its_last_line():
    assert excerpt(rollout(verifier_raw="42", completion="x")).answer == "42"
    assert excerpt(rollout(completion="so <answer>7</answer> is it\n")).answer == "7"
    assert excerpt(rollout(completion="thus \\boxed{12} holds")).answer == "12"
    assert excerpt(rollout(completion="a\n#### 18\n")).answer == "18"
    assert excerpt(rollout(completion="first\nlast line\n\n")).answer == "last line"
    assert excerpt(rollout(completion="")).answer == ""
    assert excerpt(rollout()).answer is None


def test_a_conversation_has_the_prompt_of_its_user_and_the_answer_of_its_assistant():
    said = excerpt(rollout(messages=[Message("user", "why?"), Message("assistant", "because")]))
    assert (said.prompt, said.answer) == ("why?", "because")


async def test_texts_that_are_gone_say_so_and_the_numbers_stand(tmp_path):
    picture = replace(sampler_cold(), read=lambda row: Gone("rollouts.jsonl: no such file"))
    app = shown_by(picture)
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FindingsScreen())
    line = next(line for line in shown if "text gone" in line)
    assert "▇▇▇▇▇▇▇▇  1/8" in line


async def test_a_window_without_data_says_so(tmp_path):
    app = shown_by(read(tmp_path))
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FindingsScreen())
        await pilot.press("down", "enter", "p", "x", "c", "tab", "up")
        await pilot.pause()
    assert "╭─ Findings ─" in shown[3]


# ---- rules


def test_a_rule_in_short_holds_the_numbers_of_its_knobs():
    assert rule(BY_ID["TRUNCATION"], Settings()).startswith(
        "more than 10% of a step's completions are truncated on 5 steps"
    )
    for detector in ALL:
        said = rule(detector, Settings())
        assert not any(f"`{knob.name}`" in said for knob in detector.knobs)


def test_values_are_only_written_in_the_unit_of_a_series_that_the_detector_reads_first():
    assert set(BY_ID) >= IN_UNITS_OF_SERIES
    for id_ in IN_UNITS_OF_SERIES:
        assert any(knob.name == "threshold" for knob in BY_ID[id_].knobs)


# ---- layout


@given(st.text(max_size=200), st.integers(1, 60))
def test_a_wrapped_text_keeps_every_word_and_its_width(text, width):
    rows = wrapped(safe(text), max(width, 2))
    assert "".join(line_of(row) for row in rows).replace(" ", "") == "".join(safe(text).split())
    assert all(cells(line_of(row)) <= max(width, 2) for row in rows)


def test_columns_leave_a_narrow_table_by_rank_and_the_last_one_is_cut():
    columns = [Column("step", right=True), Column("mean", right=True, rank=1), Column("answer", rank=2)]
    body = [[[("7", "text")], [("1.00", "text")], [("a long answer indeed", "text")]]]

    def shown(width: int) -> list[str]:
        return [line_of(row) for row in table(columns, body, width)]

    assert shown(40) == ["step  mean  answer", "   7  1.00  a long answer indeed"]
    assert shown(24) == ["step  mean  answer", "   7  1.00  a long answ…"]
    assert shown(20) == ["step  mean", "   7  1.00"]
    assert shown(8) == ["step", "   7"]


def test_a_box_is_exactly_as_large_as_it_is_asked_to_be():
    frame = Frame([("A title", "text")], [("facts", "dim")], [("foot", "dim")], focused=True)
    for width, height in ((40, 6), (9, 3), (3, 2), (40, 1)):
        rows = box(frame, [[("x" * 80, "text")]], width, height)
        assert [width_of(row) for row in rows] == [width] * height


def test_a_scrolled_list_says_how_much_lies_below():
    rows = [[(str(number), "text")] for number in range(10)]
    assert scrolled(rows, 99, 4) == (6, rows[6:], [])
    assert scrolled(rows, 2, 4) == (2, rows[2:6], [("4 more", "dim")])
