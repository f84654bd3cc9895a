"""The step table: one row a training step, one column a series and origin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.snapshot import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROLLOUTS, TRAINER, SAMPLERS = ORIGINS = ("rollouts", "trainer", "samplers")
"""Whose number a series holds, in the order in which they are preferred."""
_FIRST_CAPACITY = 256


class StepTable:
    """Series aligned by step. Unknown is NaN; a number that is not finite is kept as ±inf."""

    def __init__(self) -> None:
        self.length = 0
        self._steps = np.zeros(_FIRST_CAPACITY, np.int64)
        self._rows: dict[int, int] = {}
        self._columns: dict[tuple[str, str], NDArray[np.float64]] = {}

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers, ascending."""
        return self._steps[: self.length]

    def row(self, step: int) -> int:
        """The step's row, made where there is none."""
        known = self._rows.get(step)
        if known is not None:
            return known
        if self.length == len(self._steps):
            self._grow()
        position = int(np.searchsorted(self.steps, step))
        if position < self.length:
            self._insert(position)
        self._steps[position] = step
        self._rows[step] = position
        self.length += 1
        return position

    def set(self, step: int, origin: str, values: Mapping[str, float]) -> None:
        """Write numbers of one step. NaN here is a number that was logged and is not finite: it is kept as inf."""
        row = self.row(step)
        for name, value in values.items():
            column = self._columns.get((name, origin))
            if column is None:
                column = self._columns[name, origin] = np.full(len(self._steps), math.nan)
            column[row] = value if math.isfinite(value) else math.copysign(math.inf, value)

    def clear(self, step: int, origin: str) -> None:
        """Make every series of one origin unknown at a step."""
        row = self._rows.get(step)
        if row is None:
            return
        for (_, of), column in self._columns.items():
            if of == origin:
                column[row] = math.nan

    def values(self, step: int) -> dict[str, float]:
        """Every known number of a step by name, the rollouts' own before the trainer's."""
        row = self._rows.get(step)
        if row is None:
            return {}
        found: dict[str, float] = {}
        for (name, origin), column in self._columns.items():
            value = float(column[row])
            if value == value and (origin == ROLLOUTS or name not in found):  # noqa: PLR0124  NaN is unknown
                found[name] = value
        return found

    def of_origin(self, step: int, origin: str) -> dict[str, float]:
        """Known numbers of a step from one origin."""
        row = self._rows.get(step)
        if row is None:
            return {}
        found = {name: float(column[row]) for (name, of), column in self._columns.items() if of == origin}
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def view(self) -> SeriesView:
        """The table as it stands, to be read while it grows."""
        return SeriesView(self._steps, dict(self._columns), self.length)

    def _grow(self) -> None:
        capacity = 2 * len(self._steps)
        self._steps = np.resize(self._steps, capacity)
        for key, column in self._columns.items():
            grown = np.full(capacity, math.nan)
            grown[: len(column)] = column
            self._columns[key] = grown

    def _insert(self, position: int) -> None:
        """Make room for a step that arrives after later ones. The arrays are new, so views keep what they show."""
        steps = self._steps.copy()
        steps[position + 1 : self.length + 1] = self._steps[position : self.length]
        self._steps = steps
        for key, column in self._columns.items():
            moved = column.copy()
            moved[position + 1 : self.length + 1] = column[position : self.length]
            moved[position] = math.nan
            self._columns[key] = moved
        for step, row in self._rows.items():
            if row >= position:
                self._rows[step] = row + 1


class SeriesView(Mapping[str, Series]):
    """Series by name, merged when asked for: the rollouts' own number where there is one, else the trainer's."""

    def __init__(
        self, steps: NDArray[np.int64], columns: Mapping[tuple[str, str], NDArray[np.float64]], length: int
    ) -> None:
        self._steps = steps
        self._columns = columns
        self._length = length
        self._origins: dict[str, list[str]] = {}
        for name, origin in columns:
            self._origins.setdefault(name, []).append(origin)
        self._cache: dict[str, Series] = {}

    def __getitem__(self, name: str) -> Series:
        known = self._cache.get(name)
        if known is not None:
            return known
        columns = self._of(name)
        if not columns:
            raise KeyError(name)
        values = columns[0][1]
        for _, further in columns[1:]:
            values = np.where(np.isnan(values), further, values)
        series = Series(name, self.origin(name), self._steps[: self._length], values)
        self._cache[name] = series
        return series

    def origin(self, name: str) -> str:
        """A series' `Series.origin`, without merging it: whose values are at least half of it, the rollouts' first."""
        origins = self._origins[name]
        if len(origins) == 1:
            return origins[0]
        columns = self._of(name)
        unknown = np.ones(self._length, np.bool_)
        counts = {}
        for origin, values in columns:
            given = unknown & ~np.isnan(values)
            counts[origin] = int(np.count_nonzero(given))
            unknown &= ~given
        known = sum(counts.values())
        if ROLLOUTS in counts and 2 * counts[ROLLOUTS] >= known:
            return ROLLOUTS
        rest = {origin: count for origin, count in counts.items() if origin != ROLLOUTS}
        return max(rest, key=lambda origin: rest[origin])

    def __contains__(self, name: object) -> bool:
        return name in self._origins

    def __iter__(self) -> Iterator[str]:
        return iter(self._origins)

    def __len__(self) -> int:
        return len(self._origins)

    def _of(self, name: str) -> list[tuple[str, NDArray[np.float64]]]:
        """The columns of a series with their origins, the preferred first."""
        found = ((origin, self._columns.get((name, origin))) for origin in ORIGINS)
        return [(origin, column[: self._length]) for origin, column in found if column is not None]
