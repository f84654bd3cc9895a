"""The fleet on the screen: median, worst and whose that is, a row a number and never a row a sampler."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fleet_pictures import NUMBERS, series, with_fleet
from found_by_hand import opened, sampler_cold, settled, shown_by
from recorded import line_with, lines
from runs import read

from grpo_top.snapshot import SourceFacts
from grpo_top.ui.glyphs import ASCII
from grpo_top.ui.panels.fleet import fleet_rows, samplers, written
from grpo_top.ui.screens.drift import DriftScreen
from grpo_top.ui.screens.fleet import FleetScreen
from grpo_top.ui.view import View

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 45)


def test_the_worst_end_is_the_bad_one_else_the_one_farther_from_the_median():
    rows = {row.name: row for row in fleet_rows(View(with_fleet(sampler_cold())))}
    assert (rows["waiting"].worst.text, rows["waiting"].worst.sampler) == ("91", "gpu101:8000")
    assert (rows["tokens"].worst.text, rows["tokens"].worst.sampler) == ("61.2/s", "gpu17:8000")
    assert (rows["running"].worst.text, rows["running"].other.text) == ("12", "33")
    assert (rows["cache use"].median, rows["cache use"].worst.text) == ("41%", "98%")
    assert samplers(list(rows.values())) == 200


def test_paused_the_fleet_is_as_it_was_and_who_was_worst_is_not_known():
    view = View(with_fleet(sampler_cold()), cursor=80)
    row = fleet_rows(view)[0]
    assert len(row.times) == 240 - 60 + 31
    assert row.worst.sampler == ""
    assert fleet_rows(View(with_fleet(sampler_cold()), cursor=40)) == []


def test_numbers_are_written_in_their_units_and_what_is_unknown_is_a_question_mark():
    assert written(0.31, "share") == "31%"
    assert written(2.5, "count") == "2.50"
    assert written(1234.0, "count") == "1,234"
    assert written(99.5, "count") in {"99", "100"}
    assert written(812.0, "/s") == "812/s"
    assert written(float("nan"), "/s") == "?"
    assert written(float("inf"), "share") == "not finite"


async def test_in_a_wide_window_the_fleet_stands_in_the_rail():
    app = shown_by(with_fleet(sampler_cold()))
    async with app.run_test(size=LARGE) as pilot:
        await pilot.pause()
        shown = lines(app)
        top = next(line for line in shown if "─ 4 Sampler fleet ─" in line)
        assert top.endswith(" 200 samplers   F open ─╮")
        assert line_with(app, "│ waiting ").split("│")[-2].split() == ["waiting", "2.50", "91", "gpu101:80…"]
        assert any("─ Latest groups ─" in line for line in shown)

        await pilot.press("F")
        shown = await settled(pilot)
        assert isinstance(app.screen, FleetScreen)
        assert shown[2].startswith(" Monitor › 4 Sampler fleet ")
        assert shown[3].endswith(" 200 samplers ─╮")
        assert shown[5].startswith("│▸waiting               2.50        91 gpu101:8000 ")
        await pilot.press("down", "down", "down")
        shown = await settled(pilot)
        assert any(
            line.startswith("╭─ tokens ─") and line.endswith(" lowest and median ─╮") for line in shown
        )
        assert " 1 h ago " in next(line for line in shown if line.endswith(" now │"))
        await pilot.press("d")
        await settled(pilot)
        assert isinstance(app.screen, DriftScreen)


async def test_in_a_middle_window_it_stands_below_the_panels_and_in_a_small_one_it_is_one_line():
    app = shown_by(with_fleet(sampler_cold()))
    async with app.run_test(size=MIDDLE) as pilot:
        await pilot.pause()
        shown = lines(app)
        at = next(place for place, line in enumerate(shown) if "─ 4 Sampler fleet ─" in line)
        assert at == 33
        assert shown[36].startswith("│ running             32       12 gpu17:8000 ")
        assert shown[32].startswith("╰")
    app = shown_by(with_fleet(sampler_cold()))
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        line = lines(app)[-2]
        assert line.startswith(" 4 fleet of 200 samplers  waiting 2.50 worst 91 gpu101:8000 ")
        assert line.endswith(" F open ")


async def test_without_a_fleet_nothing_is_shown_and_the_key_says_how():
    app = shown_by(sampler_cold())
    async with app.run_test(size=MIDDLE) as pilot:
        await pilot.pause()
        assert not any("fleet" in line for line in lines(app))
        await pilot.press("F")
        await pilot.pause()
        assert not isinstance(app.screen, FleetScreen)


async def test_a_fleet_without_a_run_is_shown_whole(tmp_path):
    app = shown_by(with_fleet(read(tmp_path), 1))
    async with app.run_test(size=MIDDLE) as pilot:
        await pilot.pause()
        assert line_with(app, "─ 4 Sampler fleet ─").endswith(" 1 sampler   F open ─╮")
        assert all(line_with(app, f"│ {name} ") for name, *_ in NUMBERS)


@pytest.mark.parametrize("size", [(20, 6), (230, 60)])
async def test_no_window_is_too_small_or_too_large(size):
    app = shown_by(with_fleet(sampler_cold()), glyphs=ASCII)
    async with app.run_test(size=size) as pilot:
        shown = await opened(pilot, FleetScreen())
        await pilot.press("down", "plus", "escape")
        await pilot.pause()
    assert all(len(line) == size[0] and line.isascii() for line in shown)


async def test_the_fleet_is_zoomed_in_time_since_it_is_asked_between_steps_as_well():
    app = shown_by(with_fleet(sampler_cold()))
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FleetScreen())
        assert any(" of last 1 h" in line for line in shown)
        await pilot.press("plus", "plus")
        assert any(" of last 5 m" in line for line in await settled(pilot))
        await pilot.press("minus", "minus", "minus")
        assert any(" of last 1 h" in line for line in await settled(pilot))


async def test_what_the_server_says_beside_its_answers_is_told_and_names_are_made_safe():
    nasty = "[b]\x1b[31m\u202e"
    source = SourceFacts(
        "http://prom:9090", "", "prometheus server", "fleet", 1, 1, 0, "live", f"{nasty}: bad_data"
    )
    one = replace(series(nasty, nasty, "", 0.0, np.nan, 1.0), highest_sampler=nasty, lowest_sampler=nasty)
    app = shown_by(replace(sampler_cold(), fleet=(one,), sources=(source,)))
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FleetScreen())
        assert any("http://prom:9090: [b]␛[31m" in line for line in shown)
        assert all(line.isprintable() for line in shown)
        await pilot.press("escape")
        await pilot.pause()
        assert all(line.isprintable() for line in lines(app))
        app.look(cursor=40)
        await pilot.press("F")
        shown = await settled(pilot)
        assert any("? nothing was asked at that step" in line for line in shown)
