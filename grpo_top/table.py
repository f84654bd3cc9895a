"""The step table: one row a training step, one column a series and origin."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.snapshot import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    _Column = array[float]

ROLLOUTS, TRAINER, SAMPLERS = ORIGINS = ("rollouts", "trainer", "samplers")
"""Whose number a series holds, in the order in which they are preferred."""
_FIRST_CAPACITY = 256


class StepTable:
    """Series aligned by step. Unknown is NaN; a number that is not finite is kept as ±inf."""

    def __init__(self) -> None:
        self.length = 0
        self._steps = np.zeros(_FIRST_CAPACITY, np.int64)
        self._rows: dict[int, int] = {}
        self._columns: Mapping[str, Mapping[str, _Column]] = {origin: {} for origin in ORIGINS}
        """Origin → series → its values; arrays whose single numbers are set and read in half of NumPy's time."""
        self._names = Names({}, {})
        # Both are replaced where they change, so that a view of the table takes no copy of them.

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers, ascending."""
        return self._steps[: self.length]

    @property
    def last(self) -> int | None:
        """The last step; None where there is none."""
        return int(self._steps[self.length - 1]) if self.length else None

    def row(self, step: int) -> int:
        """The step's row, made where there is none."""
        known = self._rows.get(step)
        if known is not None:
            return known
        if self.length == len(self._steps):
            self._grow()
        position = self.length
        if position and step < self._steps[position - 1]:
            position = int(np.searchsorted(self.steps, step))
            self._insert(position)
        self._steps[position] = step
        self._rows[step] = position
        self.length += 1
        return position

    def set(self, step: int, origin: str, values: Mapping[str, float]) -> None:
        """Write numbers of one step. NaN here is a number that was logged and is not finite: it is kept as inf."""
        row = self.row(step)
        columns = self._columns[origin]
        if not values.keys() <= columns.keys():
            columns = self._with(origin, [name for name in values if name not in columns])
        for name, value in values.items():
            columns[name][row] = value if isfinite(value) else math.copysign(math.inf, value)

    def clear(self, step: int, origin: str) -> None:
        """Make every series of one origin unknown at a step."""
        row = self._rows.get(step)
        if row is None:
            return
        for column in self._columns[origin].values():
            column[row] = math.nan

    def values(self, step: int) -> dict[str, float]:
        """Every known number of a step by name, the rollouts' own before the trainer's."""
        found: dict[str, float] = {}
        for origin in reversed(ORIGINS):
            found |= self.of_origin(step, origin)
        return found

    def of_origin(self, step: int, origin: str) -> dict[str, float]:
        """Known numbers of a step from one origin."""
        row = self._rows.get(step)
        if row is None:
            return {}
        return {
            name: value for name, column in self._columns[origin].items() if (value := column[row]) == value
        }

    def view(self) -> SeriesView:
        """The table as it stands, to be read while it grows."""
        return SeriesView(self._steps, self._columns, self._names, self.length)

    def _grow(self) -> None:
        more = len(self._steps)
        self._steps = np.resize(self._steps, 2 * more)
        self._replace(lambda column: column + _unknown(more))

    def _insert(self, position: int) -> None:
        """Make room for a step that arrives after later ones. The arrays are new, so views keep what they show."""
        steps = self._steps.copy()
        steps[position + 1 : self.length + 1] = self._steps[position : self.length]
        self._steps = steps
        self._replace(lambda column: column[:position] + _unknown(1) + column[position:-1])
        for step, row in self._rows.items():
            if row >= position:
                self._rows[step] = row + 1

    def _replace(self, changed: Callable[[_Column], _Column]) -> None:
        """Put another array in each column's place."""
        self._columns = {
            origin: {name: changed(column) for name, column in columns.items()}
            for origin, columns in self._columns.items()
        }

    def _with(self, origin: str, names: Sequence[str]) -> Mapping[str, _Column]:
        """The columns of an origin, with further ones."""
        columns = {**self._columns[origin], **{name: _unknown(len(self._steps)) for name in names}}
        self._columns = {**self._columns, origin: columns}
        self._names = self._names.also_of(origin, names)
        return columns


class Names(NamedTuple):
    """The series of a table."""

    origins: Mapping[str, tuple[str, ...]]
    """Series, in the order in which they were first seen → its origins."""
    parts: Mapping[str, tuple[str, ...]]
    """What series in parts have in common, the name without its `{…}` → those series in that order; most are one."""

    def also_of(self, origin: str, names: Sequence[str]) -> Names:
        """The same with some that come from an origin as well, or are new."""
        origins, parts = dict(self.origins), dict(self.parts)
        for name in names:
            if name not in origins:
                base = name.partition("{")[0]
                parts[base] = (*parts.get(base, ()), name)
            origins[name] = (*origins.get(name, ()), origin)
        return Names(origins, parts)


def _unknown(length: int) -> _Column:
    return array("d", [math.nan]) * length


class SeriesView(Mapping[str, Series]):
    """Series by name, merged when asked for: the rollouts' own number where there is one, else the trainer's."""

    def __init__(
        self,
        steps: NDArray[np.int64],
        columns: Mapping[str, Mapping[str, _Column]],
        names: Names,
        length: int,
    ) -> None:
        self._steps = steps
        self._columns = columns
        self._length = length
        self.parts = names.parts
        """See `Names.parts`."""
        self._origins = names.origins
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

    def is_said(self, base: str, row: int) -> bool:
        """Whether any of the parts of a series has a value in a row, whatever its origin."""
        for name in self.parts[base]:
            for origin in self._origins[name]:
                value = self._columns[origin][name][row]
                if value == value:  # noqa: PLR0124  NaN is unknown
                    return True
        return False

    def of_parts(self, base: str) -> list[NDArray[np.float64]]:
        """The columns of all parts of a series, whatever their origin."""
        return [column for name in self.parts[base] for _, column in self._of(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._origins

    def __iter__(self) -> Iterator[str]:
        return iter(self._origins)

    def __len__(self) -> int:
        return len(self._origins)

    def _of(self, name: str) -> list[tuple[str, NDArray[np.float64]]]:
        """The columns of a series with their origins, the preferred first."""
        found = ((origin, self._columns[origin].get(name)) for origin in ORIGINS)
        return [
            (origin, np.frombuffer(column)[: self._length]) for origin, column in found if column is not None
        ]
