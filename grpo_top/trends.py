"""Whether a series goes somewhere: tests that outliers do not move, over the newest values of a run."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from grpo_top.streaming import median, robust_deviation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Direction = Literal["up", "down"]

SIGNIFICANCE = 0.01
"""Level of every trend test."""
TREND_LIMIT = 60
"""Values that a trend test looks at, at most: the newest ones. Its cost is quadratic in them."""


class Trend(NamedTuple):
    """A series' trend over a window."""

    slope: float
    """Theil-Sen: median slope over all pairs, per step."""
    change: float
    """How far that slope moves the series over the window."""
    noise: float
    """Robust standard deviation around the line: 1.4826 × median absolute residual."""
    p: float
    """Two-sided p value of the Mann-Kendall test."""

    @property
    def direction(self) -> Direction | None:
        """Where the series goes, None where it goes nowhere: the test at 1%, and a change above the noise."""
        if self.p >= SIGNIFICANCE or abs(self.change) <= self.noise or self.change == 0:
            return None
        return "up" if self.change > 0 else "down"


def mann_kendall(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Mann-Kendall test for a monotone trend: z (corrected for ties and continuity) and two-sided p.

    (0, 1) where there are fewer than 4 values or all are equal.
    """
    series = np.asarray(values, np.float64)
    n = len(series)
    if n < 4:
        return 0.0, 1.0
    first, second = _pairs(n)
    score = float(np.sign(series[second] - series[first]).sum())
    variance = (n * (n - 1) * (2 * n + 5) - _of_ties(series)) / 18
    if variance <= 0 or score == 0:
        return 0.0, 1.0
    z = (score - math.copysign(1.0, score)) / math.sqrt(variance)
    return z, math.erfc(abs(z) / math.sqrt(2))


def _of_ties(series: NDArray[np.float64]) -> float:
    """By how much values that are equal narrow the variance of a Mann-Kendall score, times 18."""
    ordered = np.sort(series)
    if (ordered[1:] != ordered[:-1]).all():
        return 0.0
    ties = np.unique(series, return_counts=True)[1].astype(np.float64)
    return float((ties * (ties - 1) * (2 * ties + 5)).sum())


def theil_sen(
    values: Sequence[float] | NDArray[np.float64], steps: Sequence[int] | NDArray[np.int64] | None = None
) -> float:
    """Median slope per step over all pairs; values one step apart where no steps are given. 0 below two."""
    series = np.asarray(values, np.float64)
    first, second = _pairs(len(series))
    rise = series[second] - series[first]
    if steps is None:
        return median(rise / (second - first)) if len(rise) else 0.0
    at = np.asarray(steps, np.float64)
    run = at[second] - at[first]
    apart = run != 0
    if not apart.all():
        rise, run = rise[apart], run[apart]
    return median(rise / run) if len(run) else 0.0


def trend(
    values: Sequence[float] | NDArray[np.float64], steps: Sequence[int] | NDArray[np.int64] | None = None
) -> Trend:
    """The trend of the newest `TREND_LIMIT` values, which are one step apart where no steps are given."""
    series = np.asarray(values, np.float64)[-TREND_LIMIT:]
    at = np.arange(len(series)) if steps is None else np.asarray(steps, np.int64)[-TREND_LIMIT:]
    _, p = mann_kendall(series)
    if p >= SIGNIFICANCE:
        return Trend(0.0, 0.0, 0.0, p)
    slope = theil_sen(series, at)
    return Trend(slope, slope * float(at[-1] - at[0]), robust_deviation(series - slope * at), p)


def significant_trend(
    values: Sequence[float] | NDArray[np.float64],
    direction: Direction,
    steps: Sequence[int] | NDArray[np.int64] | None = None,
) -> bool:
    """Whether the series goes that way, see `Trend.direction`. Cheap where its second half lies otherwise."""
    series = np.asarray(values, np.float64)[-TREND_LIMIT:]
    half = len(series) // 2
    if half < 2:
        return False
    difference = float(series[-half:].mean() - series[:half].mean())
    if (difference <= 0) if direction == "up" else (difference >= 0):
        return False
    at = None if steps is None else np.asarray(steps, np.int64)[-TREND_LIMIT:]
    return trend(series, at).direction == direction


@lru_cache(maxsize=TREND_LIMIT)
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of all pairs of `n` values, the earlier one first."""
    first, second = np.triu_indices(n, 1)
    return first, second
