"""The findings: the list in triage order, the page of one, and what is attached laid out whatever it is."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from found_by_hand import finding, opened, paused_at, sampler_cold, settled, shown_by
from recorded import lines, snapshot, still

from grpo_top.detectors import ALL
from grpo_top.snapshot import Status
from grpo_top.ui.evidence.listing import entries, episodes_text
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.explain import ExplainScreen
from grpo_top.ui.screens.findings import FindingsScreen
from grpo_top.ui.screens.monitor import MonitorScreen
from grpo_top.ui.screens.panel import PanelScreen
from grpo_top.ui.screens.replay import ReplayScreen
from grpo_top.ui.view import View

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 45)


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
