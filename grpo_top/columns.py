"""Growing arrays, and small numbers for repeated names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import DTypeLike, NDArray

_FIRST_CAPACITY = 1024


class Column:
    """One growing array. `view` stays valid for the rows that it shows, whatever is appended later."""

    def __init__(self, dtype: DTypeLike, fill: float = 0) -> None:
        self._fill = fill
        self._data: NDArray[Any] = np.full(_FIRST_CAPACITY, fill, dtype)
        self.length = 0

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Append values, converted to the column's type."""
        end = self.length + len(values)
        self._reserve(end)
        self._data[self.length : end] = values
        self.length = end

    def write(self, start: int, stop: int, values: Sequence[Any] | NDArray[Any] | float) -> None:
        """Set the rows from `start` to `stop`, new ones or not, to values of theirs or to one value."""
        self._reserve(stop)
        self._data[start:stop] = values
        self.length = max(self.length, stop)

    def pad(self, length: int) -> None:
        """Append the fill value until the column has `length` rows."""
        self._reserve(length)
        self.length = max(self.length, length)

    def view(self) -> NDArray[Any]:
        """The rows so far; writable by the history alone."""
        length = self.length  # read before the data, which another thread may just have let grow
        return self._data[:length]

    def cut(self, length: int) -> None:
        """Let the rows from `length` on fall."""
        self.length = min(self.length, length)

    def _reserve(self, length: int) -> None:
        if length > len(self._data):
            grown = np.full(max(length, 2 * len(self._data)), self._fill, self._data.dtype)
            grown[: self.length] = self._data[: self.length]
            self._data = grown


class Interner:
    """Small numbers for repeated names. Past `limit` names the rest share the last one, `(others)`."""

    def __init__(self, limit: int) -> None:
        self.names: list[str] = []
        self._ids: dict[str, int] = {}
        self._limit = limit

    def id(self, name: str | None) -> int:
        """The name's number, a new one where it has none yet; -1 for None."""
        if name is None:
            return -1
        known = self._ids.get(name)
        if known is not None:
            return known
        if len(self.names) >= self._limit:
            return self._limit - 1
        if len(self.names) == self._limit - 1:
            name = "(others)"
        self._ids[name] = len(self.names)
        self.names.append(name)
        return len(self.names) - 1

    def ids(self, names: Iterable[str | None]) -> list[int]:
        """Numbers of many names at once."""
        known = self._ids
        return [-1 if name is None else known[name] if name in known else self.id(name) for name in names]
