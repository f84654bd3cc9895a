"""Trends are found where there are some, and not in noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.trends import (
    mann_kendall,
    significant_trend,
    theil_sen,
    trend,
)


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
