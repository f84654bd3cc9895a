"""Where values and steps lie on a chart: ranges rounded to readable numbers, and the ticks that fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMIT_ROOM = 1.25
"""A limit stands no higher than four fifths of a chart, so that what crosses it is seen."""


_FARTHEST = 1e300
"""Where values are cut off, so that the arithmetic of an axis stays within the floats."""


def nice_ceiling(number: float, mantissas: tuple[float, ...] = (1, 2, 4, 8, 10)) -> float:
    """The smallest mantissa times a power of ten that is at least `number`; 1 for what is not positive."""
    if not number > 0 or not math.isfinite(number):
        return 1.0
    power = math.floor(math.log10(number))
    for mantissa in mantissas:
        # Through text: 8 * 10 ** -1 is 0.8000000000000000444 and its label must not say so.
        ceiling = float(f"{mantissa}e{power}")
        if number <= ceiling * (1 + 1e-9):
            return ceiling
    return float(f"1e{power + 1}")


@dataclass(frozen=True, slots=True)
class Axis:
    """A chart's vertical range; `log` says that it is laid out by powers of ten."""

    low: float
    high: float
    log: bool = False
    decimals: int = 0
    share: bool = False

    def position(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values as 0 (bottom) to 1 (top), clipped; NaN stays NaN. What has no logarithm is at the bottom."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.log:
                low, high = math.log10(self.low), math.log10(self.high)
                at = (np.log10(np.maximum(values, self.low)) - low) / (high - low)
            else:
                at = (values - self.low) / (self.high - self.low)
        clipped: NDArray[np.float64] = np.clip(at, 0.0, 1.0)
        return clipped

    def label(self, value: float) -> str:
        """A number of this axis as it is written beside it."""
        if self.share:
            return numbers.share(value)
        if abs(value) >= 1e5:
            return numbers.count(value)
        if value and not 1e-3 <= abs(value) < 1e4:
            return numbers.value(value)
        if self.log:
            return numbers.signed(f"{value:g}")
        return numbers.fixed(value, self.decimals if self.decimals <= 3 else 0).replace(",", "")

    def limit_label(self, value: float) -> str:
        """A limit as it is written beside this axis: with all its digits, because it is exact."""
        if self.share or (value and not 1e-3 <= abs(value) < 1e4):
            return self.label(value)
        return numbers.signed(f"{value:.6g}")


def value_axis(
    low: float,
    high: float,
    limit: float | None = None,
    *,
    share: bool = False,
    from_zero: bool | None = None,
    log: bool = False,
    room: bool = True,
) -> Axis:
    """The axis for values from `low` to `high` (finite) and a limit, with `room` to cross it.

    Shares start at 0, and so do values that come near it or have a limit above them (`from_zero` decides
    otherwise); the others show the data's range, rounded.
    """
    low, high = _within(low), _within(high)
    limit = None if limit is None else _within(limit)
    if log and high > 0:
        return _log_axis(low, max(high, limit or 0.0))
    if from_zero is None:
        from_zero = share or low <= high / 4 or (limit is not None and limit >= high)
    if low < 0 or (limit is not None and limit < 0) or not from_zero:
        ends = (low, high) if limit is None else (min(low, limit), max(high, limit))
        return _range_axis(*ends, share)
    if limit is None and not share:
        return _range_axis(0.0, high, share)
    top = nice_ceiling(max(high, (limit or 0.0) * (LIMIT_ROOM if room else 1.0)))
    if share and max(high, limit or 0.0) <= 1:
        top = min(top, 1.0)
    return Axis(0.0, top, decimals=_decimals(top / 2, high % 1), share=share)


def _within(number: float) -> float:
    return min(max(number, -_FARTHEST), _FARTHEST)


def _range_axis(low: float, high: float, share: bool) -> Axis:
    fraction = high % 1
    if not high - low > max(abs(low), abs(high)) * 1e-9:
        low, high = (0.0, 1.0) if abs(high) < 1e-300 else (low - abs(low) / 2, high + abs(high) / 2)
    step = nice_ceiling((high - low) / 6, (1, 2, 5, 10))
    bottom = _clean(math.floor(low / step + 1e-9) * step)
    top = _clean(math.ceil(high / step - 1e-9) * step)
    return Axis(bottom, top, decimals=_decimals(step, fraction), share=share)


def _log_axis(low: float, high: float) -> Axis:
    top = max(math.ceil(math.log10(high) - 1e-9), -299)
    bottom = max(math.floor(math.log10(low) + 1e-9), -300) if low > 0 else max(top - 3, -300)
    return Axis(10.0 ** min(bottom, top - 1), 10.0**top, log=True, decimals=max(-bottom, 0))


def _decimals(step: float, fraction: float) -> int:
    """Decimals that tell multiples of `step` apart; one at least for small values with fractions."""
    least = 1 if step < 10 and fraction else 0
    return max(least, min(6, -math.floor(math.log10(step) + 1e-9)))


def _clean(number: float) -> float:
    """A sum of steps without the dust of binary fractions; never a negative zero."""
    return float(f"{number:.12g}") + 0.0


def step_begin(first: int, last: int) -> int:
    """Where the steps' axis begins: at 0, unless a run that was taken up late would fill less than half of it."""
    return first if first > last / 2 else 0


def step_end(last: int, hint: int | None = None, begin: int = 0) -> int:
    """Where the steps' axis ends: the planned end where that is near, else the next round number after its beginning.

    Points then fill to the right and most frames change few rows.
    """
    if begin:
        return begin + step_end(last - begin, None if hint is None else hint - begin)
    last = max(last, 1)
    if hint is not None and last <= hint <= 2 * last:
        return hint
    return int(nice_ceiling(last, (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10))) if last > 10 else 10


def step_ticks(end: int, width: int, begin: int = 0) -> list[int]:
    """Steps to write under a chart of `width` cells, both ends among them: few where it is narrow."""
    if begin:
        step = nice_ceiling((end - begin) / max(1, min(12, width // 9)), (1, 2, 5, 10))
        step = max(1, round(step))
        between = range(-(-(begin + 1) // step) * step, end, step)
        return [begin, *(at for at in between if min(at - begin, end - at) * 2 >= step), end]
    wanted = max(1, min(12, width // 9))
    even = (end // parts for parts in range(wanted, 1, -1) if end % parts == 0)
    readable = (step for step in even if len(str(step).rstrip("0")) <= 1)
    step = next(readable, None) or max(1, round(nice_ceiling(end / wanted, (1, 2, 5, 10))))
    inner = [tick for tick in range(step, end, step) if (end - tick) * 2 >= step]
    return [0, *inner, end]
