"""Statistics that grow with a run: what they say, what they keep, and that a copy goes its own way."""

from __future__ import annotations

import copy
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
    robust_deviation,
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
