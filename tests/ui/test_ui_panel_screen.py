"""An opened panel: lanes over the chart, numbers by family, how it is judged, and the groups that make it so."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from found_by_hand import finding, opened, paused_at, sampler_cold, settled, shown_by
from hypothesis import given
from hypothesis import strategies as st
from recorded import lines, snapshot, still
from runs import group, read, run_record, step_record, write_log

from grpo_top.config import Setting, Settings
from grpo_top.detectors import BY_ID
from grpo_top.snapshot import STAGES, Status
from grpo_top.ui.evidence.lanes import Lane, lane_row, lanes
from grpo_top.ui.evidence.layout import line_of
from grpo_top.ui.evidence.opened import OPENED, carried
from grpo_top.ui.evidence.panel_chart import longest_run
from grpo_top.ui.evidence.pool import pool
from grpo_top.ui.evidence.rules import rule
from grpo_top.ui.evidence.spread import TITLES, bins_of
from grpo_top.ui.evidence.windows import Span, windows
from grpo_top.ui.evidence.worst import ORDERS, ordered
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.panels.catalogue import PANELS
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.explain import ExplainScreen
from grpo_top.ui.screens.panel import PanelScreen
from grpo_top.ui.view import View
from grpo_top.ui.widgets.chart import ChartSpec
from grpo_top.ui.widgets.runs import width_of

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 45)
KEYS = [panel.key for panel in PANELS]


def boxed(shown: list[str], first: str, column: int, width: int) -> list[str]:
    """The lines of a box from the one whose title holds `first` to its end."""
    at = next(index for index, line in enumerate(shown) if first in line[column : column + width])
    end = next(index for index in range(at, len(shown)) if shown[index][column] == "╰")
    return [line[column : column + width] for line in shown[at : end + 1]]


# ---- the variance panel, whole


async def test_the_variance_panel_shows_what_made_groups_flat():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))

    assert shown[2].startswith(" Monitor › 3 Group variance   does each group disagree? ")
    assert shown[2].endswith(" esc back   ←→ panel ")
    assert shown[3].startswith("╭─ Share of groups without spread ──")
    assert shown[3].endswith(" 20 steps 25% △   this step 0%   limit 40%   longest run above it 3 of 15 ─╮")
    assert shown[4] == f"│{' ' * 55}✖ SAMPLER_DRIFT ├{'─' * 73} since 51    │"
    assert shown[5] == f"│{' ' * 67}▲ UNIFORM_COMPONENT ├{'─' * 57} since 64    │"
    assert shown[6].rstrip("│ ") == f"│{' ' * 77}△ LOW_DIVERSITY ├─────┤       ┼       ┼ 3 times, not now"
    assert shown[7].rstrip("│ ") == "│              ├─────┤ ▲ PARSE_FAILURES cleared"
    assert shown[12].startswith("│    40% ⠉ ⠉ ⠉ ")
    assert shown[16].rstrip("│ ") == "│        group σ  mean of the groups of a step"
    assert shown[21].startswith(
        "│        0          10           20          30          40            51     "
    )
    onset = shown[8].index("┊")
    assert shown[4][onset] == "├"
    assert all(shown[row][onset] == "┊" for row in (9, 10, 12, 17))


async def test_the_numbers_by_family_are_those_of_the_last_20_steps_and_those_before_the_cause():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
    assert boxed(shown, "By family", 0, 58) == [
        "╭─ By family ───────────────────────── tier: not logged ─╮",
        "│          groups  zero-var  all-fail  group σ  success  │",
        "│ steps 91–110                                           │",
        "│   plain      43       40%       40%   0.0547     2.3%  │",
        "│   carry      37      8.1%      5.4%   0.0840      17%  │",
        "│   all        80       25%       24%   0.0683     9.1%  │",
        "│ steps 31–50, before SAMPLER_DRIFT                      │",
        "│   plain      43        0%        0%    0.287      13%  │",
        "│   carry      37        0%        0%    0.289     9.1%  │",
        "│   all        80        0%        0%    0.288      11%  │",
        "╰────────────────────────────────────────────────────────╯",
    ]


async def test_groups_by_spread_now_and_before_are_on_one_scale():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
    bars = boxed(shown, "Groups by spread", 58, 34)
    assert [line[1:-1].rstrip() for line in bars[1:9]] == [
        " steps 91–110   80 groups",
        "        0 ████████▌          20",
        "   < 0.05 ██████████████     33",
        "     0.05 █▎                  3",
        "     0.10 ████████           19",
        "     0.20 █▊                  4",
        "     0.30 ▍                   1",
        "   0.40 +                     0",
    ]
    assert bars[10][1:-1].rstrip() == " steps 31–50   80 groups"
    assert bars[-2][1:-1].rstrip() == " trainable σ > 0.1   100% → 30%"


async def test_how_it_is_judged_holds_this_runs_numbers():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
    judged = " ".join(line.strip("│ ") for line in boxed(shown, "How it is judged", 0, 58)[1:-1])
    uniform, degenerate = (rule(BY_ID[id_], Settings()) for id_ in ("UNIFORM_COMPONENT", "DEGENERATE_GROUPS"))
    assert judged.startswith(
        f"▲ UNIFORM_COMPONENT  since step 64 {uniform} format flat in all groups △ DEGEN"
    )
    assert degenerate.startswith(judged.partition("DEGENERATE_GROUPS  watch ")[2][:40])


async def test_a_knob_that_was_set_is_in_the_rule():
    chosen = Settings(knobs={"DEGENERATE_GROUPS": {"sustain": Setting(3, "--set")}})
    app = shown_by(sampler_cold(), settings=chosen)
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
    assert shown[3].endswith("longest run above it 3 of 3 ─╮")
    assert any("share of zero-variance groups is above 40% on 3" in line for line in shown)


async def test_the_flattest_groups_come_first_and_o_sorts_otherwise():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
        groups = boxed(shown, "Groups that make it so", 92, 68)
        assert groups[0].endswith(" σ, flat first   o order ─╮")
        assert groups[1] == "│ step  prompt  rewards   mean      σ  texts  most common answer   │"
        assert groups[2] == "│▸ 109  27+5=   ▇▇▇▇▇▇▇▇  1.15   flat  1/8    33 ×8                │"
        assert groups[3] == "│  109  32+42=  ▆▆▆▆▆▆▆▆  1.00   flat  1/8    70 ×8                │"
        assert groups[-1].startswith("╰─ 20 flat of 80, steps 91–110 ──")

        await pilot.press("o")
        shown = await settled(pilot)
        groups = boxed(shown, "Groups that make it so", 92, 68)
        assert groups[0].endswith(" mean, lowest first   o order ─╮")
        assert groups[2].startswith("│▸  93  35+41=  ▂▂▂▂▂▂▂▂  0.20   flat  1/8 ")
        await pilot.press("o", "o", "o")
        shown = await settled(pilot)
        assert any(" σ, flat first   o order ─╮" in line for line in shown)


# ---- sizes


async def test_a_middle_window_has_two_columns_and_tab_brings_the_third():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
        assert not any("Groups by spread" in line for line in shown)
        assert boxed(shown, "By family", 0, 58)[-2].startswith(
            "│   all        80        0%        0%    0.288 "
        )
        assert boxed(shown, "Groups that make it so", 58, 62)
        await pilot.press("shift+tab")
        shown = await settled(pilot)
        assert any("┏━ Groups by spread ━" in line for line in shown)
        assert not any("Groups that make it so" in line for line in shown)


async def test_a_small_window_shows_one_box_at_a_time():
    app = shown_by(sampler_cold())
    async with app.run_test(size=SMALL) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
        assert shown[2] == " Monitor › 3 Group variance   does each group disagree?     esc back   ←→ panel "
        assert shown[4].endswith("✖ SAMPLER_DRIFT ├────────────────────────────── since 51 │")
        assert "╭─ Groups that make it so ─" in shown[13]
        for title in ("By family", "How it is judged", "Groups by spread", "Groups that make it so"):
            await pilot.press("tab")
            shown = await settled(pilot)
            assert f" {title} " in shown[13]


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
@pytest.mark.parametrize("recording", ["sampler_cold", "verifier_broken"])
async def test_every_panel_of_the_monitor_opens(recording, size):
    app = still(recording)
    async with app.run_test(size=size) as pilot:
        shown = await opened(pilot, PanelScreen("reward"))
        for panel in PANELS:
            assert f" Monitor › {panel.stage} {panel.title} " in shown[2]
            assert shown[3].startswith(("╭─ ", "┏━ "))
            assert not any("not logged" in line for line in shown[4:10])
            await pilot.press("right")
            shown = await settled(pilot)
        assert " Monitor › 2 Reward and held-out " in shown[2]
        await pilot.press("left")
        await settled(pilot)
        assert isinstance(app.screen, PanelScreen)
        assert app.screen.panel == "lag"


@pytest.mark.parametrize("size", [(20, 6), (40, 12), (230, 60)])
async def test_no_window_is_too_small_or_too_large(size):
    app = shown_by(sampler_cold())
    async with app.run_test(size=size) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
        await pilot.press("tab", "down", "tab", "tab", "down", "right")
        await pilot.pause()
    assert all(len(line) == size[0] for line in shown)


# ---- other panels


async def test_the_sampler_panel_sets_intended_beside_deployed():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("sampler"))
    assert shown[3].startswith("╭─ temperature as deployed ─")
    assert shown[3].endswith(" DRIFT ✖   intended 1.0 ─╮")
    settings = boxed(shown, "Settings", 58, 50)
    assert settings[2].split()[1:6] == ["✖", "temperature", "1.0", "0.15", "51"]
    assert settings[7].startswith("│ 1,920 of 1,920 rollouts since step 51 differ ")


async def test_a_panel_without_its_field_says_so_and_shows_what_is_beside_it():
    app = still("healthy", without=("kl",))
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, PanelScreen("kl"))
    assert shown[4].startswith("│ ? no kl in this log")
    assert "grad norm" in shown[6]
    assert any("? KL_EXPLODING  no KL" in line for line in shown)


async def test_the_reward_panel_has_a_column_for_each_component():
    app = still("verifier_broken")
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("reward"))
    families = boxed(shown, "By family", 0, 58)
    assert families[1].split()[1:] == ["groups", "reward", "accuracy", "format", "success", "│"]
    assert families[5].split()[1:] == ["all", "80", "0", "0", "0", "0%", "│"]


async def test_a_log_of_the_trainers_own_numbers_has_no_families_and_no_groups(tmp_path):
    records = [run_record(), *(step_record(step, reward=0.1 * step, kl=0.01) for step in range(1, 30))]
    write_log(tmp_path / "log.jsonl", records)
    app = shown_by(read(tmp_path))
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, PanelScreen("reward"))
        assert "group" not in shown[-1], "the footer names no key that leads nowhere"
        await pilot.press("enter", "o", "down", "tab", "x")
        await pilot.pause()
    assert "╭─ Mean reward of a step ─" in shown[3]
    assert sum("? no rollouts in this log" in line for line in shown) >= 1


async def test_a_run_without_data_can_be_opened(tmp_path):
    app = shown_by(read(tmp_path))
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
    assert "? no group rewards in this log" in shown[4]


async def test_names_from_a_log_are_made_safe(tmp_path):
    nasty = "[b]\x1b[31m\u202e"
    records = [run_record()]
    for step in range(1, 4):
        records += group(step, "g", [0.0, 1.0], family=nasty, tier=nasty, prompt=nasty, completion=nasty)
        records.append(step_record(step))
    write_log(tmp_path / "log.jsonl", records)
    app = shown_by(read(tmp_path))
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("variance"))
    assert all(line.isprintable() for line in shown)
    assert any("[b]␛[31m" in line for line in shown)


# ---- time


async def test_a_paused_panel_shows_the_steps_up_to_the_cursor():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        await opened(pilot, PanelScreen("variance"))
        shown = await paused_at(pilot, 70)
        assert any("│ steps 51–70 " in line for line in shown)
        lane = next(line for line in shown if "✖ SAMPLER_DRIFT ├" in line)
        assert lane.index("since 51") == lane.index("├") + 25
        assert "70" in shown[21].split()

        shown = await paused_at(pilot, 40)
        assert not any("SAMPLER_DRIFT" in line for line in shown)
        assert any("│ steps 1–20, early in the run " in line for line in shown)


async def test_a_group_that_was_moved_to_stays_selected_when_steps_come():
    app = shown_by(snapshot("sampler_cold", 109), clock=time.time)
    async with app.run_test(size=LARGE) as pilot:
        await opened(pilot, PanelScreen("variance"))
        await pilot.press("o", "o", "o", "down", "down")
        before = next(line for line in await settled(pilot) if "▸" in line)
        app.take(replace(snapshot("sampler_cold", 110), version=app.view.snapshot.version + 1))
        await pilot.pause(0.6)
        shown = await settled(pilot)
    after = next(line for line in shown if "▸" in line)
    assert after[92:] == before[92:]
    assert shown.index(after) > 27


# ---- where it leads


async def test_enter_opens_the_rollouts_of_the_selected_group():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        await opened(pilot, PanelScreen("variance"))
        await pilot.press("down", "enter")
        await settled(pilot)
        assert isinstance(app.screen, BrowserScreen)
        assert app.screen._title == "step 109 32+42="
        assert app.screen._evidence is not None
        assert len(app.screen._evidence) == 8


async def test_x_explains_the_loudest_rule_and_the_one_that_is_selected():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        await opened(pilot, PanelScreen("variance"))
        await pilot.press("x")
        await pilot.pause()
        assert isinstance(app.screen, ExplainScreen)
        assert "UNIFORM_COMPONENT" in lines(app)[2]
        await pilot.press("escape", "tab", "tab", "down", "enter")
        await pilot.pause()
        assert "DEGENERATE_GROUPS" in lines(app)[2]


async def test_escape_leaves_and_the_footer_names_the_keys():
    app = shown_by(sampler_cold())
    async with app.run_test(size=LARGE) as pilot:
        await opened(pilot, PanelScreen("variance"))
        assert lines(app)[-1].startswith(
            " ↑↓ group   enter rollouts   o order   space pause   [ ] time   x explain rule "
        )
        await pilot.press("tab", "tab")
        await pilot.pause()
        assert lines(app)[-1].startswith(" ↑↓ rule   enter explain ")
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, PanelScreen)


async def test_ascii_draws_nothing_but_ascii():
    app = shown_by(sampler_cold(), glyphs=ASCII)
    async with app.run_test(size=LARGE) as pilot:
        shown = await opened(pilot, PanelScreen("reward"))
        for _ in PANELS:
            assert all(line.isascii() for line in shown)
            await pilot.press("right")
            shown = await settled(pilot)


# ---- lanes


def drawn(lane: Lane, now: int = 50, width: int = 60) -> str:
    row = lane_row(lane, lambda step: step, now, width, UNICODE)
    assert width_of(row) <= width
    return line_of(row)


def test_a_lane_is_named_before_it_begins_where_there_is_room_and_else_after_its_end():
    standing = Lane("A", Status.FAIL, Status.FAIL, ((10, 40),), True)
    assert drawn(standing, 40) == f"{' ' * 6}✖ A ├{'─' * 30} since 10"
    cleared = Lane("A_LONG_NAME", Status.OK, Status.WARN, ((3, 6),), False)
    assert drawn(cleared) == "   ├──┤ ▲ A_LONG_NAME cleared"


def test_a_lane_that_stands_makes_room_for_its_words():
    assert (
        drawn(Lane("A", Status.FAIL, Status.FAIL, ((10, 59),), True), 59)
        == f"{' ' * 6}✖ A ├{'─' * 40} since 10"
    )


def test_a_lane_shows_each_episode_and_what_comes_back():
    lane = Lane("A", Status.WATCH, Status.WARN, ((10, 14), (20, 20), (30, 32)), False)
    assert drawn(lane) == f"{' ' * 6}△ A ├───┤     ┼         ├─┤ 3 times, not now"
    again = Lane("A", Status.WARN, Status.WARN, ((10, 14), (30, 40)), True)
    assert drawn(again, 40) == f"{' ' * 6}▲ A ├───┤{' ' * 15}├{'─' * 10} since 30, 2 times"


@given(st.integers(1, 200), st.integers(0, 80), st.booleans(), st.integers(12, 100))
def test_no_lane_is_wider_than_its_chart(first, length, standing, width):
    lane = Lane("LOW_DIVERSITY", Status.WARN, Status.WARN, ((first, first + length),), standing)
    row = lane_row(lane, lambda step: step * width // 300, first + length, width, UNICODE)
    assert width_of(row) <= max(width, 50)


def test_the_first_cause_and_the_panels_own_findings_come_first_and_what_cleared_last():
    picture = sampler_cold()
    kl = finding("KL_EXPLODING", 6, Status.FAIL, ((90, 110),))
    view = View(replace(picture, findings=(*picture.findings, kl)))
    assert [lane.id for lane in lanes(view, ("UNIFORM_COMPONENT",), 9)] == [
        "SAMPLER_DRIFT",
        "UNIFORM_COMPONENT",
        "KL_EXPLODING",
        "LOW_DIVERSITY",
        "PARSE_FAILURES",
    ]


# ---- numbers


def test_every_panel_has_an_opened_form_of_known_parts():
    assert set(OPENED) == set(KEYS)
    for panel in OPENED.values():
        assert set(panel.worst) <= set(ORDERS)
        assert not panel.bins or panel.bins in TITLES
    assert {panel.stage for panel in PANELS} < set(range(len(STAGES)))


def test_a_series_logged_now_and_then_is_a_line_all_the_same():
    steps = np.arange(1, 31)
    values = np.where(steps % 10 == 0, steps / 10.0, np.nan)
    spec = carried(ChartSpec(steps, values))
    assert spec.steps.tolist() == [10, 20, 30]
    assert spec.values.tolist() == [1.0, 2.0, 3.0]


def test_the_longest_run_above_a_limit_counts_steps_that_carry_the_series():
    view = View(snapshot("verifier_broken"))
    assert longest_run(view, "zero_variance_group_frac", 0.4) == 60
    assert longest_run(View(snapshot("verifier_broken"), cursor=55), "zero_variance_group_frac", 0.4) == 5
    assert longest_run(view, "zero_variance_group_frac", 2.0) == 0


def test_now_and_before_are_20_steps_each():
    view = View(sampler_cold())
    assert windows(view, view.first_cause())[:2] == (Span(91, 110), Span(31, 50))
    healthy = View(snapshot("healthy"))
    assert windows(healthy, None) == (Span(91, 110), Span(1, 20), "early in the run")
    assert windows(View(snapshot("healthy"), cursor=12), None)[:2] == (Span(1, 12), None)


@pytest.mark.parametrize("order", list(ORDERS))
def test_every_order_lists_every_group_once(order):
    view = View(sampler_cold())
    now = pool(view, Span(91, 110))
    assert sorted(ordered(now, order)) == list(range(now.groups)) == list(range(80))


def test_a_group_of_the_pool_is_the_group_of_its_step():
    view = View(sampler_cold())
    now = pool(view, Span(91, 110))
    for number in (0, 37, 79):
        found = now.at(number)
        assert found.step == now.step[number]
        assert found.mean == pytest.approx(now.mean[number])
        assert list(found.rows) == now.rows[now.group == number].tolist()


@pytest.mark.parametrize("kind", list(TITLES))
def test_every_distribution_counts_everything_once(kind):
    view = View(snapshot("verifier_broken"))
    now, before = pool(view, Span(91, 110)), pool(view, Span(31, 50))
    bins = bins_of(view, kind, now, before)
    assert bins is not None
    expected = 80 if TITLES[kind][2] == "groups" else 640
    assert sum(bins.now) == sum(bins.before) == expected
    assert len(bins.labels) == len(bins.now) == len(bins.before)
    assert len(set(bins.labels)) == len(bins.labels)


def test_a_pool_without_steps_is_empty():
    empty = pool(View(snapshot("healthy")), None)
    assert empty.groups == 0
    assert ordered(empty, "σ") == []
    assert bins_of(View(snapshot("healthy")), "σ", empty, empty) is None
    assert bins_of(View(snapshot("healthy")), "reward", empty, empty) is None
    assert bins_of(View(snapshot("healthy")), "texts", empty, empty) is None
