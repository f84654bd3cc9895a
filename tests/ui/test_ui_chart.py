"""Charts: what is drawn where, what is never drawn, and how little is repainted."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from grpo_top.ui import theme
from grpo_top.ui.glyphs import ASCII, UNICODE, Glyphs
from grpo_top.ui.widgets.axis import Axis, step_end, step_ticks, value_axis
from grpo_top.ui.widgets.chart import Chart, ChartSpec, Limit, draw, step_columns
from grpo_top.ui.widgets.raster import running_mean

WIDTH, HEIGHT = 34, 8


def series(values: list[float] | np.ndarray, **options) -> ChartSpec:
    return ChartSpec(np.arange(1, len(values) + 1), np.asarray(values, dtype=float), **options)


def text(spec: ChartSpec, width: int = WIDTH, height: int = HEIGHT, glyphs: Glyphs = UNICODE) -> list[str]:
    return ["".join(part for part, _ in row) for row in draw(spec, width, height, glyphs)]


def cells(
    spec: ChartSpec, width: int = WIDTH, height: int = HEIGHT, glyphs: Glyphs = UNICODE
) -> list[list[tuple[str, str]]]:
    return [
        [(cell, role) for part, role in row for cell in part] for row in draw(spec, width, height, glyphs)
    ]


def roles(spec: ChartSpec) -> set[str]:
    return {role for row in cells(spec) for cell, role in row if cell != " "}


STEPS = np.arange(1, 111)
ZERO_VARIANCE = np.where(STEPS < 51, 0.0, (STEPS % 4) / 4)


def zero_variance(**options) -> ChartSpec:
    return series(ZERO_VARIANCE, share=True, limit=Limit(0.4), onset=51, total_steps=120, **options)


def test_a_share_with_a_limit_and_an_onset() -> None:
    assert text(zero_variance()) == [
        " 80%             ⠄⠄⠄⠄⠄⠄⠄⠤⠠⠠⠠⠠⠠⠠   ",
        "                 ┊                ",
        "                 ┊⠄⠠⠠⠠⠠⠠⠠⠠⠠⠠⠠⠄⠄⠄  ",
        " 40% ⠤ ⠤ ⠤ ⠤ ⠤ ⠤ ┊ ⠤ ⢠⣤⣤⣤⣤⣤⣤⣤⣤⣤⡄ ⠤",
        "                 ⢀⢀⢀⡴⠃⢀⢀ ⡀⡀⡀⡀ ⡀⡀  ",
        "                 ┊⣀⠎              ",
        "  0% ⣤⣤⣤⣤⣤⣤⣤⣤⣤⣤⣤⣤⡴⠉⡀⡀⡀⡀⡀⡀⡀⡀⡀⡀⣀⢀   ",
        "     0          51     80      120",
    ]


def test_the_same_chart_in_ascii() -> None:
    rows = text(zero_variance(), glyphs=ASCII)
    assert all(row.isascii() for row in rows)
    assert rows[3].startswith(" 40% - - - - - - : ")
    assert rows[-2].startswith("  0% ************")
    assert rows[-1] == "     0          51     80      120"


def test_each_layer_has_its_own_role() -> None:
    assert roles(zero_variance()) == {
        "dim",
        "limit",
        "fail",
        "fail bold",
        "series1",
        "series1_steps",
    }


def test_the_line_turns_warn_where_it_is_past_the_limit() -> None:
    ramp = np.linspace(0, 1, 110)
    row_roles = cells(series(ramp, share=True, limit=Limit(0.4), mean=False))
    past = {role for row in row_roles[:3] for cell, role in row if cell != " "} - {"dim"}
    short = {role for row in row_roles[5:7] for cell, role in row if cell != " "} - {"dim"}
    assert past == {"warn"}
    assert short == {"series1"}


def test_a_limit_may_be_one_that_values_must_stay_above_or_hold() -> None:
    assert "warn" in roles(series([0.05] * 30, limit=Limit(0.1, "below")))
    assert "warn" not in roles(series([0.2] * 30, limit=Limit(0.1, "below")))
    held = series([1.0] * 10 + [0.15] * 10, limit=Limit(1.0, "off", role="fail"), mean=False)
    assert "fail" in roles(held)
    assert "fail" not in roles(series([1.0] * 20, limit=Limit(1.0, "off", role="fail"), mean=False))


def test_the_limit_is_named_on_the_axis_at_its_row() -> None:
    rows = cells(zero_variance())
    assert "".join(cell for cell, _ in rows[3][:4]) == " 40%"
    assert {role for _, role in rows[3][:5]} == {"limit"}


def test_a_limit_at_the_top_takes_the_label_and_the_middle_says_the_scale() -> None:
    rows = text(series([0.3] * 20, share=True, limit=Limit(0.9)))
    assert [row[:4] for row in rows] == [" 90%", "    ", "    ", " 50%", "    ", "    ", "  0%", "    "]


def test_a_single_value_is_seen() -> None:
    rows = text(series([0.5], share=True))
    assert sum(cell != " " for row in rows[:-1] for cell in row[5:]) == 1


def test_no_value_at_all_leaves_the_axes() -> None:
    rows = text(ChartSpec(np.array([], dtype=np.int64), np.array([]), share=True, limit=Limit(0.4)))
    assert rows[-1].split() == ["0", "5", "10"]
    assert any("40%" in row for row in rows)


def test_unknown_steps_are_a_gap() -> None:
    values = np.full(110, 0.5)
    values[40:70] = math.nan
    rows = cells(series(values, share=True, total_steps=110))
    drawn = {x for row in rows[:-1] for x, (_, role) in enumerate(row) if role.startswith("series1")}
    at = step_columns(series(values, share=True, total_steps=110), WIDTH, HEIGHT)
    assert at(20) in drawn
    assert at(90) in drawn
    assert not drawn & set(range(at(43), at(68)))


def test_a_value_that_is_not_finite_is_marked_and_does_not_break_the_line() -> None:
    values = np.full(110, 0.5)
    values[54] = math.inf
    spec = series(values, share=True)
    marked = [x for x, cell in enumerate(cells(spec)[-2]) if cell == ("×", "fail")]
    assert marked == [step_columns(spec, WIDTH, HEIGHT)(55)]
    plain = text(series(np.full(110, 0.5), share=True))
    assert text(spec)[:-2] == plain[:-2]


def test_what_lies_after_the_cursor_is_faint() -> None:
    spec = zero_variance(cursor=70)
    at = step_columns(spec, WIDTH, HEIGHT)(70)
    rows = cells(spec)
    after = {role for row in rows[:-1] for cell, role in row[at + 1 :] if cell != " "}
    before = {role for row in rows[:-1] for cell, role in row[5:at] if cell != " "}
    assert after == {"faint", "limit"}
    assert "faint" not in before
    assert ("│", "accent") in [row[at] for row in rows]
    assert "".join(cell for cell, role in rows[-1] if role == "accent bold") == "70"


def test_the_onset_makes_room_for_the_cursor() -> None:
    assert text(zero_variance(cursor=56))[-1] == "     0       51  56    80      120"


def test_held_out_points_stand_above_every_line() -> None:
    points = (np.array([20, 60, 100]), np.array([0.5, math.nan, 0.5]))
    rows = cells(series([0.5] * 110, points=points))
    marks = [cell for row in rows for cell in row if cell[0] == "◆"]
    assert marks == [("◆", "series2")] * 2


def test_a_cell_holds_one_layer_only() -> None:
    noisy = 0.5 + np.sin(np.arange(110)) / 40
    for row in cells(series(noisy, second=(STEPS, np.full(110, 0.6)), limit=Limit(0.55))):
        assert len(row) == WIDTH


def test_a_second_line_is_drawn_in_its_own_role() -> None:
    spec = series([9.0] * 110, second=(STEPS, np.linspace(32, 10, 110)), limit=Limit(32))
    assert {"series1", "series2"} <= roles(spec)
    assert text(spec)[1][:4] == "  32"


def test_values_without_a_mean_have_no_dots() -> None:
    assert "series1_steps" not in roles(series([1.0, 0.0] * 30, mean=False))


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    rows = text(series([0.001, 0.01, 0.1, 1.0, 0.0, -1.0], log=True, mean=False))
    assert [rows[0].split()[0], rows[-2].split()[0]] == ["1", "0.001"]


def test_a_narrow_chart_names_only_the_onset() -> None:
    spec = series([1.0] * 50 + [0.15] * 60, onset=51, labels=False, mean=False)
    assert text(spec, 13, 6)[-1].split() == ["51"]


def test_the_mean_is_of_twenty_steps_by_number_and_skips_what_is_unknown() -> None:
    steps = np.array([1, 2, 30, 40, 50])
    means = running_mean(steps, np.array([1.0, 3.0, 10.0, math.inf, 20.0]))
    assert means[:3].tolist() == [1.0, 2.0, 10.0]
    assert math.isnan(means[3])
    assert means[4] == 20.0
    assert running_mean(STEPS, np.arange(110.0))[-1] == 99.5


@given(
    st.lists(st.floats(-100, 100) | st.sampled_from([math.nan, math.inf]), min_size=1, max_size=60),
    st.integers(1, 25),
    st.sets(st.integers(0, 59), max_size=3),
)
def test_the_mean_is_the_same_whether_steps_are_left_out_or_follow_each_other(
    values: list[float], window: int, without: set[int]
) -> None:
    kept = [step for step in range(len(values)) if step not in without] or [0]
    numbers = np.array(values)[kept]
    means = running_mean(np.array(kept), numbers, window)
    for at, step in enumerate(kept):
        known = [value for other, value in zip(kept, numbers, strict=True) if step - window < other <= step]
        known = [value for value in known if math.isfinite(value)]
        wanted = sum(known) / len(known) if math.isfinite(numbers[at]) else math.nan
        assert means[at] == pytest.approx(wanted, abs=1e-9, nan_ok=True)


def test_a_spike_leaves_no_trace_in_later_means() -> None:
    values = np.ones(60)
    values[10] = 1e30
    assert running_mean(np.arange(60), values)[40:].tolist() == [1.0] * 20


@pytest.mark.parametrize(
    ("low", "high", "options", "ends"),
    [
        (0.0, 0.75, {"limit": 0.4, "share": True}, ("0%", "80%")),
        (0.0, 0.31, {"limit": 0.2, "share": True}, ("0%", "40%")),
        (0.0, 0.0, {"limit": 0.4, "share": True}, ("0%", "80%")),
        (0.2, 0.97, {"limit": 0.9, "share": True}, ("0%", "100%")),
        (0.0, 0.0, {"share": True}, ("0%", "100%")),
        (0.0, 0.561, {"limit": 0.5}, ("0.0", "0.8")),
        (0.0, 0.0, {"limit": 2.0}, ("0", "4")),
        (9.0, 32.0, {"limit": 32.0}, ("0", "40")),
        (0.48, 1.19, {}, ("0.4", "1.2")),
        (0.0, 0.97, {}, ("0.0", "1.0")),
        (100.0, 16000.0, {"limit": 16384.0}, ("0", "40,000")),
        (-3.0, 5.0, {}, ("−4", "6")),
        (5.0, 5.0, {}, ("2", "8")),
        (0.0, 0.0, {}, ("0.0", "1.0")),
        (1e-7, 3e-6, {}, ("0", "3.0e-6")),
    ],
)
def test_an_axis_ends_at_readable_numbers(
    low: float, high: float, options: dict, ends: tuple[str, str]
) -> None:
    axis = value_axis(low, high, **options)
    assert (axis.label(axis.low), axis.label(axis.high)) == ends


def test_a_limit_is_written_with_all_its_digits() -> None:
    axis = value_axis(0.0, 0.1, 0.15)
    assert axis.limit_label(0.15) == "0.15"
    assert Axis(0, 4).limit_label(2.0) == "2"
    assert Axis(0, 1, share=True).limit_label(0.01) == "1.0%"


@pytest.mark.parametrize(
    ("last", "hint", "end"),
    [
        (1, None, 10),
        (110, None, 120),
        (110, 120, 120),
        (110, 1000, 120),
        (121, None, 160),
        (990, None, 1000),
        (7, 9, 9),
    ],
)
def test_the_steps_end_at_the_next_round_number_or_the_planned_end(
    last: int, hint: int | None, end: int
) -> None:
    assert step_end(last, hint) == end


def test_steps_are_ticked_by_room() -> None:
    assert step_ticks(120, 29) == [0, 40, 80, 120]
    assert step_ticks(120, 150) == list(range(0, 121, 10))
    assert step_ticks(10, 29) == [0, 5, 10]
    assert step_ticks(937, 29) == [0, 500, 937]
    assert step_ticks(1, 29) == [0, 1]


FLOATS = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 1))


@st.composite
def a_series(draw_from: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    values = draw_from(st.lists(FLOATS, max_size=40))
    gaps = draw_from(st.lists(st.integers(1, 1000), min_size=len(values), max_size=len(values)))
    return np.cumsum(np.array(gaps, dtype=np.int64)), np.array(values, dtype=float)


@st.composite
def specs(draw_from: st.DrawFn) -> ChartSpec:
    steps, values = draw_from(a_series())
    return ChartSpec(
        steps,
        values,
        second=draw_from(st.one_of(st.none(), a_series())),
        points=draw_from(st.one_of(st.none(), a_series())),
        limit=draw_from(
            st.one_of(st.none(), st.builds(Limit, FLOATS, st.sampled_from(["above", "below", "off"])))
        ),
        onset=draw_from(st.one_of(st.none(), st.integers(-10, 50_000))),
        cursor=draw_from(st.one_of(st.none(), st.integers(-10, 50_000))),
        share=draw_from(st.booleans()),
        log=draw_from(st.booleans()),
        total_steps=draw_from(st.one_of(st.none(), st.integers(0, 10**6))),
        mean=draw_from(st.booleans()),
        labels=draw_from(st.booleans()),
        ticks=draw_from(st.booleans()),
    )


@given(specs(), st.integers(0, 60), st.integers(0, 12), st.sampled_from([UNICODE, ASCII]))
@settings(max_examples=300, deadline=None)
def test_whatever_the_numbers_a_chart_has_exactly_its_size(
    spec: ChartSpec, width: int, height: int, glyphs: Glyphs
) -> None:
    rows = draw(spec, width, height, glyphs)
    assert [sum(len(part) for part, _ in row) for row in rows] == [width] * height
    known = {*theme.ROLES, "", "fail bold", "accent bold"}
    assert {role for row in rows for _, role in row} <= known
    if glyphs is ASCII:
        assert all(part.isascii() for row in rows for part, _ in row)


class Window(App[None]):
    CSS = "Chart { width: 34; height: 8; }"

    def compose(self) -> ComposeResult:
        yield Chart(zero_variance())


async def test_a_new_step_repaints_few_rows() -> None:
    app = Window()
    async with app.run_test(size=(60, 20)) as pilot:
        chart = app.query_one(Chart)
        await pilot.pause()
        shown = [chart.render_line(y).text for y in range(8)]
        assert shown == text(zero_variance())
        repainted: list[int] = []
        refresh = chart.refresh

        def count(*regions, **options):
            repainted.extend(region.y for region in regions)
            assert regions, "a whole widget was repainted"
            return refresh(*regions, **options)

        chart.refresh = count  # type: ignore[method-assign]
        spec = zero_variance()
        chart.update(replace(spec))
        assert repainted == []
        more = replace(spec, steps=np.arange(1, 112), values=np.append(ZERO_VARIANCE, 0.5))
        chart.update(more)
        await pilot.pause()
        assert 0 < len(repainted) <= 3
        assert [chart.render_line(y).text for y in range(8)] == text(more)
        del chart.refresh


async def test_a_chart_follows_its_size_and_can_be_emptied() -> None:
    app = Window()
    async with app.run_test(size=(60, 20)) as pilot:
        chart = app.query_one(Chart)
        chart.styles.width = 50
        await pilot.pause()
        assert chart.render_line(0).cell_length == 50
        assert chart.render_line(0).text == text(zero_variance(), 50)[0]
        chart.update(None)
        await pilot.pause()
        assert [chart.render_line(y).text for y in range(8)] == [" " * 50] * 8
