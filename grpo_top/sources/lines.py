"""What every source of text gives: whole lines, and where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Lines:
    """Whole lines of a file, in order.

    Args:
        offset: byte offset of the first one (in the decompressed stream).
        lines: without their newline; a line's offset is the one before plus its length plus 1.
        first_number: number of the first line, counted from 1.
    """

    __slots__ = ("_data", "_ends", "_lines", "first_number", "offset")

    def __init__(self, offset: int, lines: Sequence[bytes], first_number: int) -> None:
        self.offset = offset
        self.first_number = first_number
        self._lines: Sequence[bytes] | None = lines
        self._data: bytes | None = None
        self._ends: list[int] | None = None

    @classmethod
    def uncut(cls, offset: int, data: bytes, first_number: int) -> Lines:
        """Lines that all end in a newline; they are cut apart when they are asked for one by one."""
        found = cls(offset, (), first_number)
        found._lines, found._data = None, data
        return found

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.ends if self._lines is None else self._lines)

    @property
    def data(self) -> bytes:
        """All of them, each with a newline at its end."""
        if self._data is None:
            self._data = b"".join([part for line in self.lines for part in (line, b"\n")])
        return self._data

    @property
    def ends(self) -> list[int]:
        """Where in `data` there are newlines: where its lines end, unless they came with newlines within."""
        if self._ends is None:
            self._ends = []
            find = self.data.find
            end = find(b"\n")
            while end >= 0:
                self._ends.append(end)
                end = find(b"\n", end + 1)
        return self._ends

    @property
    def starts(self) -> list[int]:
        """Where in `data` lines begin that end there."""
        return [0, *[end + 1 for end in self.ends]][:-1]

    @property
    def lines(self) -> Sequence[bytes]:
        """Each of them."""
        if self._lines is None:
            data = self.data
            self._lines = [data[start:end] for start, end in zip(self.starts, self.ends, strict=True)]
        return self._lines
