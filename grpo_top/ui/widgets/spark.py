"""A series as one row of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.ui.glyphs import UNICODE, Glyphs
from grpo_top.ui.widgets.axis import LIMIT_ROOM, nice_ceiling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.ui.widgets.strips import Run

_TOPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Spark:
    """One row: its text and what to know of each cell."""

    text: str
    past: tuple[bool, ...]
    """Whether the mean of the cell's steps is past the limit."""
    empty: tuple[bool, ...]
    """Whether no step of the cell has a value."""

    def runs(self, role: str, past_role: str | None = None, empty_role: str = "faint") -> list[Run]:
        """The row as (text, role), neighbours of one role together."""
        runs: list[Run] = []
        for cell, past, empty in zip(self.text, self.past, self.empty, strict=True):
            own = empty_role if empty else past_role if past and past_role else role
            if runs and runs[-1][1] == own:
                runs[-1] = (runs[-1][0] + cell, own)
            else:
                runs.append((cell, own))
        return runs


def columns_of(steps: NDArray[np.int64], first: int, last: int, width: int) -> NDArray[np.int64]:
    """The cell of each step in a spark over the steps `first` to `last`: the newest in the last cell.

    A run shorter than the spark has one cell a step and fills from the right; steps outside are -1.
    """
    length = last - first + 1
    used = min(width, length)
    cells = width - used + (steps - first) * used // max(length, 1)
    inside: NDArray[np.int64] = np.where((steps >= first) & (steps <= last), cells, -1)
    return inside


def spark(
    steps: NDArray[np.int64],
    values: NDArray[np.float64],
    width: int,
    *,
    first: int | None = None,
    last: int | None = None,
    limit: float | None = None,
    above: bool = True,
    top: float | None = None,
    share: bool = False,
    glyphs: Glyphs = UNICODE,
) -> Spark:
    """Each cell the mean of its steps' finite values, by height from 0, or from the lowest below 0.

    `first` and `last` are the steps at the ends, by default the series' own. `top` is the full height, by
    default a round number above the data, or above the limit with room to cross it. `above`: past is above.
    """
    if width <= 0:
        return Spark("", (), ())
    if len(steps) == 0:
        return Spark(" " * width, (False,) * width, (True,) * width)
    begin = int(steps[0]) if first is None else first
    end = max(int(steps[-1]) if last is None else last, begin)
    cells = columns_of(steps, begin, end, width)
    usable = (cells >= 0) & np.isfinite(values)
    counts = np.bincount(cells[usable], minlength=width)
    sums = np.bincount(cells[usable], weights=values[usable], minlength=width)
    seen = counts > 0
    means = np.divide(sums, counts, out=np.zeros(width), where=seen)
    low = min(0.0, float(means[seen].min())) if seen.any() else 0.0
    high = _top(float(means[seen].max()) if seen.any() else 0.0, limit, share) if top is None else top
    reach = high - low if high > low else 1.0
    ramp = glyphs.spark
    with np.errstate(over="ignore", invalid="ignore"):
        heights = np.nan_to_num((means - low) / reach, posinf=1.0, neginf=0.0)
    levels = np.rint(np.clip(heights, 0.0, 1.0) * (len(ramp) - 1)).astype(int)
    began = width - min(width, end - begin + 1)
    text = "".join(
        ramp[level] if has else " " if cell < began else glyphs.no_value
        for cell, (level, has) in enumerate(zip(levels.tolist(), seen.tolist(), strict=True))
    )
    crossed = np.zeros(width, dtype=bool)
    if limit is not None:
        crossed = seen & ((means > limit) if above else (means < limit))
    return Spark(text, tuple(crossed.tolist()), tuple((~seen).tolist()))


def _top(highest: float, limit: float | None, share: bool) -> float:
    top = nice_ceiling(highest, _TOPS) if limit is None else max(highest, limit * LIMIT_ROOM)
    return min(top, 1.0) if share and highest <= 1 else top
