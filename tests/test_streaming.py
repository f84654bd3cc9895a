"""Statistics that grow with a run: what they say, what they keep, and that a copy goes its own way."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.streaming import (
    EXACT_MEDIAN,
    Baseline,
    Buckets,
    RunningMedian,
    ShareWindow,
    Window,
    js_distance,
    mann_kendall,
    robust_deviation,
    significant_trend,
    theil_sen,
    trend,
)

numbers = st.floats(-1e6, 1e6, allow_nan=False)
series = st.lists(numbers, min_size=1, max_size=80)


@given(series, st.integers(1, 30))
def test_a_window_holds_the_newest_values(values: list[float], size: int) -> None:
    window = Window(size)
    for step, value in enumerate(values):
        window.add(value, step)
    newest = values[-size:]
    assert window.values.tolist() == newest
    assert window.steps.tolist() == list(range(len(values)))[-size:]
    assert len(window) == len(newest)
    assert window.full == (len(values) >= size)
    assert window.mean == pytest.approx(np.mean(newest), abs=1e-6)
    assert window.median == pytest.approx(np.median(newest), abs=1e-6)
    assert (window.minimum, window.maximum, window.last) == (min(newest), max(newest), newest[-1])
    assert window.first_step == window.steps[0]


@given(series, st.integers(1, 30))
def test_a_window_tells_where_something_held(values: list[float], size: int) -> None:
    window = Window(size)
    for step, value in enumerate(values):
        window.add(value, 10 * step)
    newest = list(enumerate(values))[-size:]
    assert window.where(lambda value: value > 0) == [10 * step for step, value in newest if value > 0]
    assert window.newest(3) == [value for _, value in newest][-3:]
    assert (window.first, window.last_step) == (newest[0][1], 10 * newest[-1][0])


def test_an_empty_window_knows_nothing() -> None:
    window = Window(5)
    assert all(math.isnan(value) for value in (window.mean, window.median, window.minimum, window.maximum))
    assert (window.last, window.first_step, window.full, len(window)) == (None, None, False, 0)
    assert math.isnan(window.first)
    assert (window.last_step, window.where(bool), window.newest(3)) == (None, [], [])


def test_a_window_that_is_cleared_begins_anew() -> None:
    window = Window(20)
    window.add(1.0, 10, steps=10)
    window.clear()
    window.add(2.0, 11)
    assert (window.values.tolist(), window.span) == ([2.0], 1)


def test_a_row_that_stands_for_several_steps_counts_as_many() -> None:
    window = Window(20)
    for step in (10, 20, 30, 40):
        window.add(step, step, steps=10)
    assert window.values.tolist() == [30, 40]
    assert window.full
    window.add(100, 41)
    assert window.values.tolist() == [30, 40, 100], (
        "a row is only dropped once those after it fill the window"
    )
    assert window.mean == pytest.approx((30 * 10 + 40 * 10 + 100) / 21)


def test_a_row_that_is_longer_than_the_window_is_kept() -> None:
    window = Window(20)
    window.add(1.0, 25, steps=25)
    assert window.values.tolist() == [1.0]
    assert window.full


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40), st.integers(1, 12))
def test_a_share_is_counted_by_item(steps: list[tuple[int, int]], size: int) -> None:
    window = ShareWindow(size)
    for step, (hits, others) in enumerate(steps):
        window.add(hits, hits + others, step)
    newest = steps[-size:]
    assert window.hits == sum(hits for hits, _ in newest)
    assert window.items == sum(hits + others for hits, others in newest)
    if window.items:
        assert window.share == window.hits / window.items
    else:
        assert math.isnan(window.share)
    with_hits = [step for step, (hits, _) in enumerate(steps) if hits][-len(newest) :]
    assert window.first_hit == next((step for step in with_hits if step >= len(steps) - len(newest)), None)


def test_a_baseline_is_frozen_once_it_is_complete() -> None:
    early = Baseline(3, 6)
    for value in (100.0, 100.0, 1.0, 2.0, 3.0):
        early.add(value)
    assert not early.ready
    early.add(4.0)
    assert early.ready
    early.add(1000.0)
    assert (early.median, early.mean) == (2.5, 2.5)


def test_a_baseline_waits_for_enough_rows_of_a_trainer_that_logs_seldom() -> None:
    early = Baseline(3, 20)
    early.add(1.0, steps=10)
    early.add(2.0, steps=10)
    assert not early.ready
    early.add(3.0, steps=10)
    assert early.ready
    assert early.median == 2.0


def test_an_empty_baseline_knows_nothing() -> None:
    assert math.isnan(Baseline(1, 5).median)
    assert math.isnan(Baseline(1, 5).mean)


@given(st.lists(numbers, max_size=200))
def test_a_running_median_is_exact(values: list[float]) -> None:
    running = RunningMedian()
    for value in values:
        running.add(value)
    assert running.count == len(values)
    if values:
        assert running.value == pytest.approx(np.median(values), abs=1e-9)
    else:
        assert math.isnan(running.value)


def test_a_running_median_of_a_very_long_run_stays_in_the_middle_and_in_its_bounds() -> None:
    values = np.random.default_rng(7).lognormal(size=5 * EXACT_MEDIAN)
    running = RunningMedian()
    for count, value in enumerate(values, 1):
        running.add(float(value))
        if count % 9973 == 0:
            assert np.quantile(values[:count], 0.49) <= running.value <= np.quantile(values[:count], 0.51)
    assert len(pickle.dumps(running)) < 9 * EXACT_MEDIAN
    assert running.rank(float(np.quantile(values, 0.9))) == pytest.approx(0.9, abs=0.01)


def test_a_run_is_kept_in_a_bounded_number_of_means() -> None:
    run = Buckets(limit=8)
    filled = [run.add(float(step), step) for step in range(1, 65)]
    values, steps = run.since(0)
    assert len(values) <= 8
    assert run.size == 16
    assert values.tolist() == pytest.approx([8.5, 24.5, 40.5, 56.5])
    assert steps.tolist() == [16, 32, 48, 64]
    assert all(filled[:8])
    assert run.since(40)[0].tolist() == pytest.approx([40.5, 56.5])


def test_a_copy_goes_its_own_way() -> None:
    window, share, early, running, run = Window(3), ShareWindow(3), Baseline(1, 3), RunningMedian(), Buckets()
    for value in (1.0, 2.0):
        window.add(value, 1)
        share.add(1, 2, 1)
        early.add(value)
        running.add(value)
        run.add(value, 1)
    copied = copy.deepcopy((window, share, early, running, run))
    window.add(9.0, 2)
    share.add(2, 2, 2)
    early.add(9.0)
    running.add(9.0)
    run.add(9.0, 2)
    assert copied[0].values.tolist() == [1.0, 2.0]
    assert (copied[1].hits, copied[1].items) == (2, 4)
    assert copied[2].mean == 1.5
    assert copied[3].value == 1.5
    assert copied[4].since(0)[0].tolist() == [1.0, 2.0]


def brute_score(values: list[float]) -> int:
    return sum((b > a) - (b < a) for a, b in itertools.combinations(values, 2))


@given(st.lists(st.integers(-5, 5), min_size=4, max_size=30))
def test_mann_kendall_agrees_with_its_definition(values: list[int]) -> None:
    n, score = len(values), brute_score([float(value) for value in values])
    ties = [values.count(value) for value in set(values)]
    variance = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    z, p = mann_kendall(values)
    if score == 0 or variance == 0:
        assert (z, p) == (0.0, 1.0)
    else:
        assert z == pytest.approx((abs(score) - 1) / math.sqrt(variance) * math.copysign(1, score))
        assert p == pytest.approx(math.erfc(abs(z) / math.sqrt(2)))


def test_mann_kendall_of_too_few_values_says_nothing() -> None:
    assert mann_kendall([1.0, 2.0, 3.0]) == (0.0, 1.0)


@given(
    st.floats(-100, 100),
    st.floats(-1e3, 1e3),
    st.lists(st.integers(0, 500), min_size=2, max_size=30, unique=True),
)
def test_theil_sen_finds_the_slope_of_a_line(slope: float, start: float, steps: list[int]) -> None:
    steps = sorted(steps)
    values = [start + slope * step for step in steps]
    assert theil_sen(values, steps) == pytest.approx(slope, abs=1e-6)


def test_theil_sen_does_not_see_outliers() -> None:
    values = [float(step) for step in range(20)]
    values[5], values[12] = 1e6, -1e6
    assert theil_sen(values) == pytest.approx(1.0)
    assert theil_sen([3.0]) == 0.0


def test_a_trend_must_be_larger_than_its_noise() -> None:
    rng = np.random.default_rng(1)
    steady = rng.normal(0, 1, 60)
    assert significant_trend(steady + np.linspace(0, 4, 60), "up")
    assert significant_trend(steady - np.linspace(0, 4, 60), "down")
    assert not significant_trend(steady + np.linspace(0, 4, 60), "down")
    barely = steady + np.linspace(0, 1.0, 60)
    assert not significant_trend(barely, "up") or trend(barely).change > trend(barely).noise


def test_noise_alone_seldom_has_a_trend() -> None:
    rng = np.random.default_rng(2)
    up = sum(significant_trend(rng.normal(size=50), "up") for _ in range(1000))
    assert up <= 12, "one-sided half of 1% of 1000, with room for chance"


def test_what_never_moves_and_what_is_too_short_has_no_trend() -> None:
    assert not significant_trend([0.5] * 60, "up")
    assert not significant_trend([0.5] * 60, "down")
    assert not significant_trend([1.0, 2.0], "up")
    assert trend([]).direction is None


def test_steps_that_are_far_apart_give_the_slope_per_step() -> None:
    steps = list(range(0, 500, 10))
    found = trend([step / 100 for step in steps], steps)
    assert found.slope == pytest.approx(0.01)
    assert found.change == pytest.approx(4.9)
    assert found.direction == "up"


def test_a_robust_deviation_is_that_of_normal_noise() -> None:
    values = np.random.default_rng(3).normal(5, 2, 20_001)
    values[:100] = 1e9
    assert robust_deviation(values) == pytest.approx(2, rel=0.05)
    assert robust_deviation([]) == 0.0


counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50))


@given(counts, counts)
def test_js_distance_is_a_distance(first: dict[str, int], second: dict[str, int]) -> None:
    distance = js_distance(first, second)
    assert 0 <= distance <= 1
    assert distance == pytest.approx(js_distance(second, first), abs=1e-9)
    assert js_distance(first, {name: 3 * count for name, count in first.items()}) == pytest.approx(
        0, abs=1e-6
    )


def test_js_distance_of_what_has_nothing_in_common_is_one() -> None:
    assert js_distance({"stop": 5}, {"length": 2}) == pytest.approx(1)
    assert js_distance({"stop": 5}, {}) == 0.0
    assert js_distance({"stop": 1, "length": 1}, {"stop": 1}) == pytest.approx(0.5579, abs=1e-3)
