"""Growing arrays, and small numbers for repeated names."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

_FIRST_CAPACITY = 1024
_LARGE = 1 << 18
"""Bytes from which on memory comes from the system itself."""


class Column:
    """One growing array. `view` stays valid for the rows that it shows, whatever is appended later.

    While all rows hold one value it is kept once: a field that a source does not carry takes no memory.
    """

    def __init__(self, dtype: DTypeLike, fill: float = 0) -> None:
        self._fill = fill
        self._data = _one(fill, dtype)
        """The rows, or one value that all of them hold."""
        self._first = 0
        """Rows before it were let go, and read as 0."""
        self.length = 0

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Append values, converted to the column's type."""
        self.write(self.length, self.length + len(values), values)

    def write(self, start: int, stop: int, values: Sequence[Any] | NDArray[Any] | float) -> None:
        """Set the rows from `start` to `stop`, new ones or not, to values of theirs or to one value."""
        if start > self.length:
            self.pad(start)
        if len(self._data) == 1:
            first = values if isinstance(values, int | float) else values[0]
            if not self.length:
                self._data = _one(first, self._data.dtype)
            if _equal(self._data[0], values):
                self.length = max(self.length, stop)
                return
        self._reserve(stop)
        self._data[start:stop] = values
        self.length = max(self.length, stop)

    def put(self, rows: Sequence[int] | NDArray[np.int64], value: float) -> None:
        """Set some of the rows to one value."""
        if len(rows):
            self._reserve(self.length)
            self._data[rows] = value

    def pad(self, length: int) -> None:
        """Append the fill value until the column has `length` rows."""
        if length > self.length:
            self.write(self.length, length, self._fill)

    def view(self) -> NDArray[Any]:
        """The rows so far, only to be read."""
        length = self.length  # read before the data, which another thread may just have let grow
        data = self._data
        return (
            data[:length] if len(data) > 1 or not length else np.ndarray((length,), data.dtype, data, 0, (0,))
        )

    def at(self, rows: slice | NDArray[np.int64], size: int) -> NDArray[Any]:
        """The values of some rows that are there, only to be read; `size` is how many these are."""
        data = self._data
        return data[rows] if len(data) > 1 else np.ndarray((size,), data.dtype, data, 0, (0,))

    def cut(self, length: int) -> None:
        """Let the rows from `length` on fall."""
        self.length = min(self.length, length)

    def let_go(self, before: int, marked: bool = False) -> None:
        """Give the memory of the rows before `before` back: they read as 0 from now on, but in views that there are.

        A column of one value has nothing to give back and keeps it, unless the rows are to be `marked` by the 0.
        """
        if len(self._data) == 1 and not marked:
            return
        self._first = before
        self._move(max(len(self._data), self.length, _FIRST_CAPACITY))

    def _reserve(self, length: int) -> None:
        """Give every row a place of its own, and room for `length` of them."""
        if length > len(self._data) or len(self._data) == 1:
            self._move(max(length, 2 * len(self._data), _FIRST_CAPACITY))

    def _move(self, capacity: int) -> None:
        """Lay the rows in another array, which has room for so many."""
        moved = _room(capacity, self._data.dtype)
        moved[self._first : self.length] = self.view()[self._first :]
        self._data = moved


def _room(length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of 0 to be written to. It takes memory where it is written only, and gives all of it back in the end.

    What the allocator hands out it often keeps when it is let go: growing arrays would take twice their size.
    """
    size = length * dtype.itemsize
    if size < _LARGE:
        return np.zeros(length, dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        pages.madvise(mmap.MADV_NOHUGEPAGE)  # a huge page is all there once a byte of it is written
    return np.frombuffer(pages, dtype, length)


def _one(value: float, dtype: DTypeLike) -> NDArray[Any]:
    """An array of one value that is not written to."""
    found = np.full(1, value, dtype)
    found.flags.writeable = False
    return found


def _equal(own: Any, values: Any) -> bool:
    """Whether all values are the one that a column has; NaN is no other value than NaN."""
    if isinstance(values, int | float):
        return bool(own == values or (own != own and values != values))  # noqa: PLR0124
    given = np.asarray(values)
    # Counted, which takes half of the time of `all` on as few values as come together.
    same = given == own if own == own else given != given  # noqa: PLR0124
    return int(np.count_nonzero(same)) == given.size


class Matrix:
    """One growing array of rows that are all as wide. `view` stays valid for the rows that it shows."""

    def __init__(self, width: int, dtype: DTypeLike) -> None:
        self._data: NDArray[Any] = np.empty((_FIRST_CAPACITY, width), dtype)
        self.length = 0

    def extend(self, rows: NDArray[Any]) -> None:
        """Append some rows."""
        length = self.length + len(rows)
        while length > len(self._data):
            self._data = np.concatenate((self._data, np.empty_like(self._data)))
        self._data[self.length : length] = rows
        self.length = length

    def fill(self, start: int, stop: int, column: int, value: float) -> None:
        """Write one value of a column over, in the rows from `start` up to `stop`."""
        self._data[start:stop, column] = value

    def view(self) -> NDArray[Any]:
        """The rows so far, only to be read."""
        length = self.length
        return self._data[:length]

    def cut(self, length: int) -> None:
        """Let the rows from `length` on fall."""
        self.length = min(self.length, length)


class Interner:
    """Small numbers for repeated names. Past `limit` names the rest share the last one, `(others)`."""

    def __init__(self, limit: int) -> None:
        self.names: list[str] = []
        self._ids: dict[str | None, int] = {None: -1}
        self._limit = limit

    def id(self, name: str | None) -> int:
        """The name's number, a new one where it has none yet; -1 for None."""
        known = self._ids.get(name)
        if known is not None or name is None:
            return -1 if known is None else known
        if len(self.names) >= self._limit:
            return self._limit - 1
        if len(self.names) == self._limit - 1:
            name = "(others)"
        self._ids[name] = len(self.names)
        self.names.append(name)
        return len(self.names) - 1

    def keep(self, ids: Sequence[int]) -> None:
        """Forget the names of all other numbers, which stay taken. A name that was forgotten gets a new one."""
        kept = {number: self.names[number] for number in ids if 0 <= number < len(self.names)}
        self.names = [kept.get(number, "") for number in range(len(self.names))]
        self._ids = {None: -1, **{name: number for number, name in kept.items()}}

    def ids(self, names: Sequence[str | None]) -> list[int]:
        """Numbers of many names at once."""
        found = list(map(self._ids.get, names))
        return [self.id(name) for name in names] if None in found else found  # type: ignore[return-value]
