"""Series as dots: the running mean, and which dots of a grid a line or single steps cover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.snapshot import WINDOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.ui.widgets.axis import Axis

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Dots = NDArray[np.bool_]

BRAILLE = 0x2800
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.int64)


def running_mean(steps: Ints, values: Floats, window: int = WINDOW) -> Floats:
    """The mean of the finite values of the last `window` steps, at each step; NaN where its own is unknown.

    Sums are taken over each window anew: a running sum would carry the rounding of one spike to the end.
    """
    if len(values) == 0:
        return values
    finite = np.isfinite(values)
    known = np.where(finite, values, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        if int(steps[-1]) - int(steps[0]) == len(steps) - 1:  # one row a step: windows of so many rows
            width = min(window, len(values))
            sums = np.convolve(known, np.ones(width))[: len(values)]
            counts = np.minimum(np.arange(1, len(values) + 1), width)
            if not finite.all():
                counts = np.convolve(finite, np.ones(width))[: len(values)]
        else:
            starts = np.searchsorted(steps, steps - (window - 1))
            edges = np.stack([starts, np.arange(1, len(steps) + 1)], axis=1).ravel()
            counts = np.add.reduceat(np.append(finite, False).astype(np.int64), edges)[::2]
            sums = np.add.reduceat(np.append(known, 0.0), edges)[::2]
        means: Floats = np.where(finite, sums / np.maximum(counts, 1), np.nan)
    return means


@dataclass(frozen=True, slots=True)
class Grid:
    """The dots of a plot: cells across and down, and how many dots each of them has."""

    width: int
    height: int
    x_end: int
    """The step at the right edge."""
    axis: Axis
    fine: bool = True
    """Braille, 2x4 dots a cell; else one dot a cell."""
    x_begin: int = 0
    """The step at the left edge."""

    @property
    def across(self) -> int:
        """Dots in a row."""
        return self.width * (2 if self.fine else 1)

    @property
    def down(self) -> int:
        """Dots in a column."""
        return self.height * (4 if self.fine else 1)

    def x(self, steps: Ints) -> Ints:
        """The column of dots of each step, not clipped."""
        return np.rint(self._x(steps)).astype(np.int64)

    def column(self, step: int) -> int:
        """The column of cells of a step."""
        dot = round((step - self.x_begin) / self._length * (self.across - 1))
        return dot // 2 if self.fine else dot

    def y(self, values: Floats) -> Ints:
        """The row of dots of each finite value, 0 on top."""
        return np.rint((1.0 - self.axis.position(values)) * (self.down - 1)).astype(np.int64)

    def row(self, value: float) -> int:
        """The row of cells of a finite value."""
        dot = int(self.y(np.array([value]))[0])
        return dot // 4 if self.fine else dot

    def empty(self) -> Dots:
        """No dot set."""
        return np.zeros((self.down, self.across), dtype=bool)

    def single_steps(self, steps: Ints, values: Floats) -> Dots:
        """One dot a step; the lowest and the highest where a column holds several."""
        dots = self.empty()
        low, high = self._columns(self.x(steps), values)
        for edge in (low, high):
            (seen,) = np.isfinite(edge).nonzero()
            dots[self.y(edge[seen]), seen] = True
        return dots

    def line(self, steps: Ints, values: Floats) -> tuple[Dots, Floats, Floats]:
        """A line through the values, two dots thick, and its lowest and highest value at each column of dots.

        It is joined between neighbouring steps and broken where a step is unknown (NaN).
        """
        at = self._x(steps)
        x = np.rint(at).astype(np.int64)
        low, high = self._columns(x, values)
        self._join(at, x, values, low, high)
        (seen,) = np.isfinite(low).nonzero()
        dots = self.empty()
        if len(seen) == 0:
            return dots, low, high
        top, bottom = self.y(high[seen]), self.y(low[seen])
        if self.fine:
            bottom = np.maximum(bottom, top + 1)
            top = np.minimum(top, self.down - 2)
            bottom = np.minimum(bottom, self.down - 1)
        (joined,) = (seen[1:] - seen[:-1] == 1).nonzero()
        before, after = joined, joined + 1
        # A jump is drawn upright in the column where it arrives.
        reach_up = np.minimum(top[after], bottom[before] + 1)
        reach_down = np.maximum(bottom[after], top[before] - 1)
        top[after], bottom[after] = reach_up, reach_down
        rows = np.arange(self.down)[:, None]
        dots[:, seen] = (rows >= top) & (rows <= bottom)
        return dots, low, high

    def _x(self, steps: Ints) -> Floats:
        scaled: Floats = (steps - self.x_begin) / self._length * (self.across - 1)
        return scaled

    @property
    def _length(self) -> int:
        return max(self.x_end - self.x_begin, 1)

    def _columns(self, x: Ints, values: Floats) -> tuple[Floats, Floats]:
        """The lowest and highest finite value in each column of dots; NaN where there is none. `x` ascends."""
        low, high = np.full(self.across, np.nan), np.full(self.across, np.nan)
        begin, end = x.searchsorted((0, self.across)).tolist()
        x, values = x[begin:end], values[begin:end]
        finite = np.isfinite(values)
        if not finite.all():
            x, values = x[finite], values[finite]
        if len(x):
            first = np.ones(len(x), dtype=bool)
            np.not_equal(x[1:], x[:-1], out=first[1:])
            (starts,) = first.nonzero()
            low[x[starts]] = np.minimum.reduceat(values, starts)
            high[x[starts]] = np.maximum.reduceat(values, starts)
        return low, high

    def _join(self, at: Floats, x: Ints, values: Floats, low: Floats, high: Floats) -> None:
        """Fill the columns that no step falls on, between steps that are both known."""
        if len(at) < 2:
            return
        taken = np.zeros(self.across, dtype=bool)
        taken[x[(x >= 0) & (x < self.across)]] = True
        (free,) = (~taken).nonzero()
        if not len(free):
            return
        right = np.searchsorted(at, free)
        inside = (right > 0) & (right < len(at))
        free, right = free[inside], right[inside]
        left = right - 1
        share = (free - at[left]) / (at[right] - at[left])
        with np.errstate(over="ignore", invalid="ignore"):
            low[free] = high[free] = values[left] + share * (values[right] - values[left])


def to_braille(dots: Dots, height: int, width: int) -> Ints:
    """Dots as the code points of cells; 0x2800 is a cell without a dot."""
    cells = dots.reshape(height, 4, width, 2).astype(np.int64)
    codes: Ints = BRAILLE + np.einsum("hrwc,rc->hw", cells, _BITS)
    return codes
