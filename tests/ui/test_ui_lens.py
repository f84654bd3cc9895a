"""How charts are looked at: zoom, scale, smoothing, and another run behind this one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import line_with, lines, snapshot, still
from rich.cells import cell_len

from grpo_top.reference import Reference
from grpo_top.snapshot import Series
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.lens import MEANS, Lens, window, words
from grpo_top.ui.panels import kl, reward, variance
from grpo_top.ui.view import View
from grpo_top.ui.widgets.chart import ChartSpec, draw, shown_steps, step_columns


def view(lens: Lens, cursor: int | None = None, name: str = "sampler_cold") -> View:
    return View(snapshot(name), cursor, lens=lens)


def with_reference(name: str = "healthy", of: str = "verifier_broken", **facts) -> View:
    picture = snapshot(of)
    behind = Reference(name, snapshot(name).series, picture.series, **facts)
    return View(replace(picture, reference=behind))


def roles(spec: ChartSpec) -> set[str]:
    return {role for row in draw(spec, 40, 8) for text, role in row if text.strip()}


# ---- zoom


def test_zooming_goes_through_round_numbers_of_steps_and_back_to_all() -> None:
    lens, seen = Lens(), []
    for _ in range(5):
        lens = lens.zoomed(1, 110)
        seen.append(lens.steps)
    for _ in range(4):
        lens = lens.zoomed(-1, 110)
        seen.append(lens.steps)
    assert seen == [100, 50, 20, 10, 10, 20, 50, 100, None]
    assert Lens().zoomed(1, 8) == Lens()


@given(
    steps=st.sampled_from([10, 20, 50, 100, None]),
    cursor=st.none() | st.integers(1, 110),
    until=st.sampled_from([30, 110]),
)
@settings(max_examples=20, deadline=None)
def test_the_step_that_is_looked_at_is_always_shown(steps, cursor, until) -> None:
    at = None if cursor is None else min(cursor, until)
    seen = View(snapshot("sampler_cold", until), at, lens=Lens(steps))
    shown = window(seen)
    if shown is None:
        assert steps is None
        return
    first, last = shown
    assert last - first == steps
    assert first <= seen.step <= last


def test_all_charts_show_the_same_steps() -> None:
    seen = view(Lens(20))
    for panel in (reward, variance, kl):
        assert shown_steps(panel.facts(seen).chart) == (92, 112)


def test_a_zoomed_chart_has_the_range_of_what_it_shows_and_nothing_else() -> None:
    values = np.where(np.arange(1, 101) <= 50, 100.0, np.arange(1, 101) / 100)
    spec = ChartSpec(np.arange(1, 101), values, begin=80, end=100, mean=False)
    rows = ["".join(text for text, _ in row) for row in draw(spec, 40, 8)]
    assert rows[0].split()[0] == "1.00"
    assert rows[-1].split() == ["80", "90", "100"]
    column = step_columns(spec, 40, 8)
    assert column(3) == column(80)
    assert column(200) == column(100)


def test_a_run_that_is_taken_up_late_fills_its_charts() -> None:
    steps = np.arange(5001, 5101)
    assert shown_steps(ChartSpec(steps, np.ones(100))) == (5001, 5101)
    assert shown_steps(ChartSpec(np.arange(10, 101), np.ones(91))) == (0, 100)


async def test_keys_zoom_scale_and_smooth_every_chart_and_the_title_says_so():
    app = still("sampler_cold")
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("plus", "plus")
        await pilot.pause()
        assert "steps 60–110" in lines(app)[0]
        await pilot.press("L", "S")
        await pilot.pause()
        assert "steps 60–110, log, 50-step mean" in lines(app)[0]
        assert any("─ log " in line for line in lines(app))
        assert any("not log: 0 or less" in line for line in lines(app))
        await pilot.press("minus", "minus", "L", "S", "S", "S")
        await pilot.pause()
        assert app.view.lens == Lens()
        assert "log" not in lines(app)[0]
        await pilot.press("3", "p", "plus", "plus", "plus")
        await pilot.pause()
        assert "steps 92–112" in lines(app)[0]
        await pilot.resize_terminal(80, 24)
        await pilot.press("escape")
        await pilot.pause()
        assert "steps 92–112" in lines(app)[0]
        header = line_with(app, "metric ")
        assert " 92 " in header
        assert "51" not in header


def test_what_is_usual_is_not_said() -> None:
    assert words(view(Lens())) == ""
    assert words(view(Lens(mean=1))) == "single steps"


# ---- scale and smoothing


def test_only_values_above_0_are_drawn_by_powers_of_ten() -> None:
    seen = view(Lens(log=True))
    share, tokens = variance.facts(seen).chart, kl.facts(seen).chart
    assert not share.log
    assert share.said == (("not log: 0 or less ", "info"),)
    assert tokens.log == bool((seen.values("kl") > 0).all())


def test_smoothing_goes_round_and_raw_steps_stay_behind_the_line() -> None:
    lens = Lens()
    for mean in (*MEANS[1:], MEANS[0]):
        lens = lens.smoothed()
        assert lens.mean == mean
        drawn = roles(reward.facts(view(lens)).chart)
        assert ("series1_steps" in drawn) == (mean > 1)
        assert "series1" in drawn


# ---- the reference


def test_the_reference_lies_behind_and_the_parting_is_named() -> None:
    chart = reward.facts(with_reference()).chart
    assert chart.said == (("parts at 51: healthy", "series3 bold"),)
    assert chart.parted == 51
    drawn = draw(chart, 60, 10)
    assert any(role == "series3" for row in drawn for _, role in row)
    ascii_rows = ["".join(text for text, _ in row) for row in draw(chart, 60, 10, ASCII)]
    assert any("~" in row for row in ascii_rows)


def test_what_does_not_part_is_said_to_lie_behind() -> None:
    assert kl.facts(with_reference("verifier_broken")).chart.said == (("behind: verifier_broken", "series3"),)


async def test_in_a_small_window_each_row_has_the_references_value_and_where_they_part() -> None:
    app = GrpoTop(with_reference().snapshot)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert [cell_len(line) for line in lines(app)] == [80] * 24
        assert line_with(app, "metric").split()[:4] == ["metric", "20", "steps", "healthy"]
        assert line_with(app, "2 reward").split()[3:5] == ["0", "0.865"]
        assert line_with(app, "2 reward").rstrip().endswith(" FAIL 51")
        assert line_with(app, "6 grad norm").rstrip().endswith(" parts 51")
        linear = line_with(app, "6 grad norm")
        await pilot.press("L")
        await pilot.pause()
        assert line_with(app, "6 grad norm") != linear, "rows are drawn through the lens as well"
        app.look(cursor=40)
        await pilot.pause()
        assert "parts" not in line_with(app, "6 grad norm"), "they have not parted yet"


def test_a_reference_that_is_being_read_or_cannot_be_says_so() -> None:
    chart = reward.facts(with_reference(reading=0.4)).chart
    assert chart.said == (("reading healthy 40%", "dim"),)
    chart = reward.facts(with_reference(problem="no log of a known trainer")).chart
    assert chart.said == (("healthy: no log of a known trainer", "info"),)


def test_a_series_that_only_the_run_has_stays_alone() -> None:
    picture = snapshot("healthy")
    behind = Reference("other", {"kl": Series("kl", "trainer", np.arange(3), np.ones(3))}, picture.series)
    chart = reward.facts(View(replace(picture, reference=behind))).chart
    assert chart.reference is None
    assert chart.said == ()


async def test_the_parting_is_seen_on_the_monitor_and_on_the_opened_panel():
    picture = with_reference().snapshot
    app = GrpoTop(picture, clock=lambda: 0.0, glyphs=UNICODE)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert "parts at 51: healthy" in line_with(app, "REWARD_STREAK since")
        await pilot.press("p")
        await pilot.pause()
        assert "parts at 51: healthy" in line_with(app, "parts at")
