"""The drift screen: every setting intended and deployed, sampler by sampler, since when, and how it got there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from drift_pictures import (
    COLD,
    INTENDED,
    NEUTRAL,
    all_equal,
    asked,
    behind_a_router,
    five_hundred,
    from_the_model,
    gated,
    names,
    not_asked,
    one_cold,
    run_with,
    server,
    silent,
)
from found_by_hand import finding, opened, settled, shown_by, track
from hypothesis import given
from hypothesis import strategies as st
from recorded import lines, still

from grpo_top.snapshot import Rollouts, Status
from grpo_top.ui.drift.carried import UNNAMED, Carried, Point, carried
from grpo_top.ui.drift.columns import Columns, columns_of
from grpo_top.ui.drift.lanes import lane_rows
from grpo_top.ui.drift.said import said_rows
from grpo_top.ui.drift.samplers import Deployment, deployment
from grpo_top.ui.drift.table import Selected, Table
from grpo_top.ui.evidence.layout import line_of
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.panels import sampler as panel
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.drift import DriftScreen
from grpo_top.ui.screens.explain import ExplainScreen
from grpo_top.ui.screens.panel import PanelScreen
from grpo_top.ui.view import View
from grpo_top.ui.widgets.runs import width_of

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 45)
MODEL = "the model's generation_config.json"


def known(picture: Snapshot, cursor: int | None = None, most: int = 5) -> tuple[Deployment, Columns]:
    """What is known of a picture's samplers, where there is room for `most` columns."""
    found = deployment(
        View(picture, cursor, picture.time + 2), carried(picture.rollouts, picture.judged_step)
    )
    return found, columns_of(found, most)


def table(picture: Snapshot, cursor: int | None = None, width: int = 120) -> list[str]:
    """The table's header, settings and facts."""
    found, columns = known(picture, cursor)
    drawn = Table(found, columns, Selected(0, 0, 0), width, UNICODE)
    return [line_of(row)[1:] for row in (drawn.header(), *drawn.settings(), *drawn.foot())]


def said(picture: Snapshot, cursor: int | None = None) -> list[str]:
    """The sentences."""
    return [line_of(row) for row in said_rows(*known(picture, cursor), 200, UNICODE)]


# ---- the four states


def test_where_all_samplers_are_equal_each_setting_is_as_intended():
    _, columns = known(all_equal())
    assert [column.title for column in columns.columns] == names(3)
    assert {column.status for column in columns.columns} == {Status.OK}
    assert table(all_equal()) == [
        "  setting            intended  ▸● gpu1:8000                 ● gpu2:8000                 ● gpu3:8000",
        "  temperature             1.0     1.0                         1.0                         1.0",
        "  top_p                   1.0     1.0                         1.0                         1.0",
        "  top_k                     0     0                           0                           0",
        "  min_p               not set     0.0                         0.0                         0.0",
        "  repetition_penalty  not set     1.0                         1.0                         1.0",
        "  max_tokens               32     32                          32                          32",
        "  config hash           99d47     99d47 · same                99d47 · same                99d47 · same",
        "  weights                 v59     v59                         v59                         v59",
        "  asked                           2 s ago                     2 s ago                     2 s ago",
        "  rollouts                        480 of 1,440                480 of 1,440                480 of 1,440",
    ]
    assert said(all_equal()) == [
        "● gpu1:8000, gpu2:8000 and gpu3:8000 as intended since step 1",
        "? min_p and repetition_penalty are not in the run record: only differences between samplers are judged",
    ]


def test_of_one_sampler_at_another_temperature_is_told_since_when_and_how_it_got_there():
    rows = table(one_cold())
    assert rows[0].endswith("✖ gpu3:8000")
    assert rows[1].endswith("1.0                         0.15  ✖ since 31")
    assert rows[5].startswith("✖ repetition_penalty  not set")
    assert rows[7].endswith("99d47 · same                6c86f · differs")
    assert rows[-1].endswith("240 of 720                  240 of 720                  240 of 720")
    assert said(one_cold()) == [
        (
            "✖ gpu3:8000 changed at step 31, when its weights were synced: "
            "temperature 1.0 → 0.15, repetition_penalty 1.0 → 1.05"
        ),
        f"  they come from {MODEL}, where a request leaves them out",
        "  its 240 rollouts are 33% of all since step 31; duplicates 100% there, 0% on the others",
        "● gpu1:8000 and gpu2:8000 as intended since step 1",
        "? min_p and repetition_penalty are not in the run record: only differences between samplers are judged",
    ]


def test_defaults_that_the_server_fills_in_are_set_beside_what_is_intended_with_their_origin():
    rows = table(from_the_model())
    assert rows[1] == "△ temperature             1.0     0.6  △ by 60                  0.6  △ by 60"
    assert rows[5].split() == ["max_tokens", "32", "?", "?"]
    assert not any(row.startswith("  rollouts") for row in rows)
    assert said(from_the_model())[:3] == [
        (
            "△ gpu1:8000 and gpu2:30000 differ since the first look, at step 60: "
            "temperature 0.6 (1.0 intended), top_p 0.95 (1.0 intended), top_k 20 (0 intended)"
        ),
        f"  on gpu1:8000 they come from {MODEL}, where a request leaves them out",
        "  on gpu2:30000 they come from SGLang's --sampling-defaults model, where a request leaves them out",
    ]


def test_what_is_gated_is_unknown_and_the_flag_that_opens_it_is_named():
    _, columns = known(gated())
    assert {column.status for column in columns.columns} == {Status.UNKNOWN}
    assert table(gated())[1].split() == ["temperature", "1.0", "?", "?", "?"]
    assert table(gated())[-1].split("  ")[-1].strip() == "no answer yet"
    assert said(gated()) == [
        "? gpu1:8000 and gpu2:8000: sampling defaults are gated: start vLLM with --enable-scale-out",
        "? gpu1:8000 and gpu2:8000: server_info needs VLLM_SERVER_DEV_MODE=1",
        "? gpu3:8000: no answer so far",
    ]


def test_what_the_detector_says_of_a_default_stands_and_why_it_does_not_matter():
    def row(setting: str, default: float, **fields: object) -> dict[str, object]:
        return {
            "setting": setting,
            "default": default,
            "reference": 1.0,
            "reference_is": "intended",
            **fields,
        }

    why = "TRL passes every setting with each request"
    told = [row("temperature", 0.6, does_not_matter_because=why), row("top_p", 0.95)]
    drift = finding("SAMPLER_DRIFT", 4, Status.FAIL, ((60, 60),), evidence={"server_settings": told})
    picture = from_the_model()
    tracks = {**picture.tracks, "SAMPLER_DRIFT": track(picture, "SAMPLER_DRIFT", 4, {(60, 60): Status.FAIL})}
    picture = replace(picture, findings=(drift,), tracks=tracks)
    cells = known(picture)[1].columns[0].cells
    assert (cells["temperature"].status, cells["top_p"].status) == (Status.INFO, Status.FAIL)
    assert cells["top_k"].status is Status.OK
    assert f"  that does not matter: {why}" in said(picture)


# ---- many samplers


def test_of_five_hundred_samplers_those_of_equal_configs_are_one_column():
    found, columns = known(five_hundred())
    assert [column.title for column in columns.columns] == ["498 samplers", "2 samplers"]
    assert [member.name for member in columns.columns[1].members] == ["gpu78:8000", "gpu301:8000"]
    rows = table(five_hundred())
    assert rows[1].split()[2:] == ["1.0", "1.0", "0.15", "△", "since", "5"]
    assert rows[-3].split() == ["weights", "v7", "v7", "v7"]
    assert said(five_hundred())[0].startswith("△ 2 samplers (gpu78:8000, gpu301:8000) changed at step 5: ")
    drawn, hidden = lane_rows(found, columns, "temperature", 0, 116, 14, UNICODE)
    assert len(drawn) <= 14
    assert hidden == 0


def test_no_column_is_left_out_where_every_sampler_has_a_config_of_its_own():
    configs = [{**NEUTRAL, "temperature": 1.0 + index / 100} for index in range(9)]
    picture = run_with(lambda step, index: (names(9)[index], configs[index]), steps=3, groups=1, size=9)
    found, columns = known(picture, most=3)
    assert [column.title for column in columns.columns] == names(9)
    last = Table(found, columns, Selected(0, 8, 6), 80, UNICODE)
    assert line_of(last.header()).split()[2:] == ["✖", "gpu7:8000", "✖", "gpu8:8000", "▸✖", "gpu9:8000"]
    assert "columns 7–9 of 9" in line_of(last.frame().facts)
    drawn, hidden = lane_rows(found, columns, "temperature", 8, 76, 8, UNICODE)
    assert any("gpu9:8000" in line_of(row) for row in drawn)
    assert hidden > 0
    assert any("2 more samplers differ in other ways" in row for row in said(picture))


# ---- what is told


def test_a_router_over_two_configs_is_told_by_what_is_mixed_and_by_answers_that_take_turns():
    told = said(behind_a_router())
    assert told[1:3] == [
        (
            "  under this name temperature is 1.0 on 16 and 0.15 on 8 rollouts of step 60: "
            "a router that mixes two configs"
        ),
        "  asked again and again, it answers with one config and then with another: a router over two",
    ]
    assert not any("the request says" in row for row in told)


def test_what_the_request_says_is_held_against_what_the_server_would_take():
    picture = run_with(lambda step, index: (names(1)[0], {**INTENDED, "temperature": 0.7}), steps=3)
    picture = asked(
        picture, server(names(1)[0], (1, {"temperature": 0.6}, None), time=0, origins={"temperature": MODEL})
    )
    found, columns = known(picture)
    reason = line_of(Table(found, columns, Selected(0, 0, 0), 160, UNICODE).frame().foot)
    assert reason == (
        f"temperature on gpu1:8000: 0.7 is in the request; left out, the server would take 0.6, from {MODEL}"
    )
    assert said(picture)[1] == "  the request says temperature 0.7; left out, the server would take 0.6"


def test_a_request_that_says_what_is_intended_is_no_drift_whatever_the_server_would_take():
    picture = run_with(lambda step, index: (names(1)[0], INTENDED), steps=3)
    picture = asked(picture, server(names(1)[0], (1, {"temperature": 0.6}, None), time=0))
    assert known(picture)[1].columns[0].status is Status.OK


def test_where_nobody_is_asked_the_screen_says_how():
    assert table(not_asked())[0].endswith("▸✖ all rollouts")
    assert said(not_asked()) == [
        "✖ all rollouts changed at step 31: temperature 1.0 → 0.15",
        "  what sets it is not known: --sampler URL asks the server",
    ]
    assert said(silent()) == [
        "? no sampling config in this log, and no sampler is asked: --sampler URL asks the server"
    ]


def test_a_drift_that_is_over_is_told():
    picture = run_with(
        lambda step, index: (names(2)[index % 2], COLD if index % 2 and 3 <= step <= 5 else NEUTRAL), steps=9
    )
    told = said(picture)
    assert told[0] == "● gpu1:8000 and gpu2:8000 as intended"
    assert told[1:3] == [
        "i gpu2:8000 had temperature 0.15 on steps 3–5",
        "i gpu2:8000 had repetition_penalty 1.05 on steps 3–5",
    ]


def test_paused_before_the_drift_everything_is_as_intended():
    assert said(one_cold(), 30)[0] == "● gpu1:8000, gpu2:8000 and gpu3:8000 as intended since step 1"
    assert said(one_cold(), 31)[0].startswith("✖ gpu3:8000 changed at step 31")


def test_names_from_a_log_or_a_server_are_made_safe():
    nasty = "[b]\x1b[31m\u202e"
    picture = run_with(lambda step, index: (nasty, COLD), steps=2)
    picture = asked(
        picture, server(nasty, (1, COLD, nasty), time=0, unknown=(nasty,), origins={"temperature": nasty})
    )
    for row in (*table(picture), *said(picture)):
        assert row.isprintable()


# ---- what rollouts carry


def test_budgets_of_single_requests_are_told_by_the_largest():
    picture = run_with(lambda step, index: ("one", {**INTENDED, "max_tokens": 8 * (index % 4 + 1)}), steps=2)
    found, _ = known(picture)
    assert found.over_time("max_tokens") == {0: [Point(1, 32)]}


def rollouts_of(step: list[int], sampler: list[int], config: list[int]) -> Rollouts:
    size = len(step)
    columns = {
        "live": np.ones(size, np.int8),
        "split": np.zeros(size, np.int8),
        "step": np.array(step, np.int64),
        "sampler": np.array(sampler, np.int16),
        "sampling": np.array(config, np.int16),
    }
    configs = ({"temperature": 1.0}, {"temperature": 0.15}, {"top_p": 0.9})
    return Rollouts(size, columns, {}, {"sampler": ("a", "b", "c")}, configs)


@given(st.lists(st.tuples(st.integers(-5, 5_000_000), st.integers(-1, 2), st.integers(-1, 2)), max_size=30))
def test_counting_loses_no_rollout_and_a_value_that_differs_is_seen(rows):
    step, sampler, config = ([row[place] for row in rows] for place in range(3))
    found: Carried = carried(rollouts_of(step, sampler, config), None)
    assert int(found.rollouts.sum()) == len(rows)
    assert sorted(set(sampler)) == found.samplers
    values = found.values("temperature", 1.0)
    for number in found.samplers:
        last = max(row[0] for row in rows if row[1] == number)
        newest = {row[2] for row in rows if row[1] == number and row[0] == last}
        expected = 0.15 if 1 in newest else 1.0 if 0 in newest else None
        assert values[number][-1].value == expected
        assert found.last_step(number) == last
    assert UNNAMED not in found.samplers or any(row[1] == UNNAMED for row in rows)


# ---- the screen


async def test_the_screen_shows_the_table_the_lanes_and_the_sentences():
    app = shown_by(one_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        await pilot.pause()
        app.action_panel("sampler")
        shown = await settled(pilot)
        assert isinstance(app.screen, DriftScreen)
        assert shown[2].startswith(" Monitor › 4 Sampler config ")
        assert shown[3].endswith(" ✖ 1 of 3 samplers differs ─╮")
        assert shown[6].startswith("│▸✖ temperature             1.0 ")
        assert any(f"╰─ temperature on gpu3:8000: 0.15 from {MODEL} ─" in line for line in shown)
        assert any("╭─ temperature by sampler ─" in line for line in shown)
        lanes = [line for line in shown if line.startswith(("│ ● gpu", "│ ✖ gpu")) and "⠛" in line]
        assert [line[4:13] for line in lanes] == names(3)
        assert any(
            "step 60 mixes 1.0 on 16 rollouts and 0.15 on 8: no group is drawn at one temperature" in line
            for line in shown
        )
        assert any("╭─ What differs and since when ─" in line for line in shown)
        assert shown[-1].startswith(
            " ←→ sampler   ↑↓ setting   enter its rollouts   [ ] time   + - zoom   x explain   c copy "
        )
        assert any(line.endswith(" steps 1–60 ─╮") for line in shown)
        await pilot.press("plus")
        assert any(line.endswith(" steps 10–60 ─╮") for line in await settled(pilot))

        await pilot.press("down", "left", "left", "left")
        shown = await settled(pilot)
        assert "▸● gpu1:8000" in shown[4]
        assert shown[7].startswith("│▸  top_p ")
        assert any("╭─ top_p by sampler ─" in line for line in shown)

        await pilot.press("p")
        await settled(pilot)
        assert isinstance(app.screen, PanelScreen)
        await pilot.press("escape", "x")
        await settled(pilot)
        assert isinstance(app.screen, ExplainScreen)
        await pilot.press("escape", "c", "escape")
        await settled(pilot)
        assert "✖ gpu3:8000 changed at step 31" in app.clipboard
        assert not isinstance(app.screen, DriftScreen)


async def test_enter_opens_the_rollouts_of_the_sampler_and_of_a_party_of_them():
    app = shown_by(one_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, DriftScreen())
        await pilot.press("enter")
        shown = await settled(pilot)
        assert isinstance(app.screen, BrowserScreen)
        assert any("/ sampler=gpu3:8000" in line for line in shown)
        assert any("8 of 24 rollouts" in line for line in shown)
    app = shown_by(five_hundred())
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, DriftScreen())
        await pilot.press("left", "enter")
        await settled(pilot)
        assert isinstance(app.screen, BrowserScreen)
        assert app.screen._title == "498 samplers steps 5 to 8"
        assert app.screen._evidence is not None
        assert len(app.screen._evidence) == 4 * 498
    app = shown_by(gated())
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, DriftScreen())
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(app.screen, DriftScreen)


async def test_a_small_window_shows_the_sentences_or_the_chart():
    app = shown_by(one_cold())
    async with app.run_test(size=SMALL) as pilot:
        shown = await opened(pilot, DriftScreen())
        assert shown[5].split()[-2:] == ["31", "│"]
        assert any("╭─ What differs and since when ─" in line for line in shown)
        assert any("╰─ 4 more ─" in line for line in shown)
        await pilot.press("pagedown")
        shown = await settled(pilot)
        assert any("● gpu1:8000 and gpu2:8000 as intended since step 1" in line for line in shown)
        await pilot.press("tab", "down")
        shown = await settled(pilot)
        assert any("╭─ top_p by sampler ─" in line for line in shown)
        assert " tab what differs " in shown[-1]
        app.look(cursor=20)
        shown = await settled(pilot)
        assert " 3 samplers as intended " in shown[3]


async def test_where_one_sampler_leaves_room_what_followed_the_drift_stands_below_its_lane():
    app = still("sampler_cold")
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, DriftScreen())
        assert any("╭─ Before it and now ─" in line for line in shown)
        assert any(line.startswith("│ duplicates  ") for line in shown)
        await pilot.resize_terminal(*SMALL)
        shown = await settled(pilot)
        assert any("╭─ temperature by sampler ─" in line for line in shown)
        assert any("╭─ What differs and since when ─" in line for line in shown)
        assert not any("Before it and now" in line for line in shown)
        assert "tab" not in shown[-1], "there is nothing else to bring"


@pytest.mark.parametrize("size", [(20, 6), LARGE])
async def test_no_window_is_too_small_or_too_large(size):
    app = shown_by(five_hundred())
    async with app.run_test(size=size) as pilot:
        shown = await opened(pilot, DriftScreen())
        await pilot.press("tab", "down", "right", "enter")
        await pilot.pause()
    assert all(len(line) == size[0] for line in shown)


async def test_ascii_draws_nothing_but_ascii_and_an_empty_run_can_be_opened(tmp_path):
    app = shown_by(one_cold(), glyphs=ASCII)
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, DriftScreen())
        assert all(line.isascii() for line in shown)
        assert any(line.startswith("|>X temperature") for line in shown)
    app = shown_by(silent())
    async with app.run_test(size=MIDDLE) as pilot:
        await opened(pilot, DriftScreen())
        await pilot.press("down", "right", "enter")
        shown = await settled(pilot)
    assert app.is_running is False


async def test_the_age_of_the_answers_goes_on_while_nothing_else_is_new():
    picture = one_cold()
    now = [picture.time + 2]
    app = shown_by(picture, clock=lambda: now[0])
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, DriftScreen())
        assert any("asked                           2 s ago" in line for line in shown)
        now[0] += 5
        app._tick()
        await pilot.pause()
        assert any("asked                           7 s ago" in line for line in lines(app))


# ---- the panel on the monitor


def test_the_panel_sets_what_servers_would_take_beside_what_is_intended():
    found = panel.facts(View(from_the_model()))
    assert found.headline.text == "differs"
    assert [(row.name, row.intended, row.deployed, row.since) for row in found.settings[:3]] == [
        ("temperature", "1.0", "0.6", "≤60"),
        ("top_p", "1.0", "0.95", "≤60"),
        ("top_k", "0", "20", "≤60"),
    ]
    assert found.samplers == "2 of 2 servers asked differ: gpu1:8000, gpu2:30000"
    assert panel.facts(View(gated())).samplers == (
        "3 servers asked: sampling defaults are gated: start vLLM with --enable-scale-out"
    )
    assert panel.facts(View(five_hundred())).samplers.endswith(", 496 more")


def test_the_panel_sees_one_rollout_in_hundreds():
    found = panel.facts(View(five_hundred()))
    assert found.settings[0] == panel.Setting("temperature", "1.0", "0.15", "5", Status.WATCH)
    assert found.hit == ("8 of 2,000", "rollouts since step 5 differ")


def test_a_panel_without_rollouts_or_answers_says_why():
    assert panel.facts(View(silent())).missing == "no sampling config in this log"
    dumb = asked(silent(), server("a", asked=None), server("b", asked=None))
    assert panel.facts(View(dumb)).missing == "2 servers asked, no answer says how it samples"
    closed = replace(silent(), samplers=(server("a", unknown=("needs --flag",)),))
    assert panel.facts(View(closed)).missing == "needs --flag"


@given(st.integers(15, 200))
def test_no_row_of_the_table_is_wider_than_its_box(width):
    found, columns = known(one_cold())
    drawn = Table(found, columns, Selected(0, 0, 0), width, UNICODE)
    for row in (drawn.header(), drawn.rule(), *drawn.settings(), *drawn.foot()):
        assert width_of(row) <= max(width - 2, 1)
