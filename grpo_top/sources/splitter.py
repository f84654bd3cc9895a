"""From pieces of a byte stream to whole lines."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.sources.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence


class LongLine(NamedTuple):
    """A line that was longer than the limit, and was let go unread."""

    offset: int
    length: int
    number: int


class LineSplitter:
    """Cuts a byte stream into whole lines, whatever pieces it comes in; holds `max_line` bytes at most."""

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._held: list[bytes] = []
        self._held_size = 0
        self._dropping = False
        """The held line is past the limit: its bytes are counted and let go."""
        self._finished = False
        """The held line was already given by `finish`."""
        self._ready: deque[Lines] = deque()
        self._long: list[LongLine] = []
        self.offset = 0
        """Where the line that is not whole yet begins."""
        self.number = 0
        """Whole lines so far."""

    @property
    def held(self) -> int:
        """Bytes of the line that is not whole yet."""
        return self._held_size

    @property
    def ready(self) -> int:
        """Bytes of whole lines that wait to be taken."""
        return sum(len(lines.data) for lines in self._ready) if self._ready else 0

    def feed(self, data: bytes) -> None:
        """Takes the next piece of the stream."""
        if self._finished and data:
            data = self._after_finish(data)
        end = data.rfind(b"\n") + 1
        if not end:
            self._hold(data)
            return
        if not self._held_size:
            whole = data[:end]
        elif self._dropping or self._held_size + data.find(b"\n") > self._max_line:
            first = data.find(b"\n") + 1
            self._drop(first)
            whole = data[first:end]
        else:
            whole = b"".join([*self._held, memoryview(data)[:end]])
            self._held, self._held_size = [], 0
        if whole:
            self._split(whole)
        self._hold(data[end:])

    def take(self) -> Lines | None:
        """The next whole lines, or None."""
        return self._ready.popleft() if self._ready else None

    def take_long(self) -> list[LongLine]:
        """Lines past the limit since the last call."""
        long, self._long = self._long, []
        return long

    def finish(self) -> Lines | None:
        """The last line, which has no newline; None where there is none. It is given once.

        Should the stream go on after all, a newline completes the line that was given; anything else shows
        that it had not ended, and the whole of it is given again once it has.
        """
        if self._finished or not self._held_size:
            return None
        self._finished = True
        if self._dropping:
            self._long.append(LongLine(self.offset, self._held_size, self.number + 1))
            return None
        return Lines(self.offset, [b"".join(self._held)], self.number + 1)

    def _after_finish(self, data: bytes) -> bytes:
        if data == b"\r":  # perhaps half of a newline
            self._hold(data)
            return b""
        self._finished = False
        newline = 1 if data.startswith(b"\n") else 2 if data.startswith(b"\r\n") else 0
        if newline:
            self.offset += self._held_size + newline
            self.number += 1
            self._held, self._held_size, self._dropping = [], 0, False
        return data[newline:]

    def _hold(self, data: bytes) -> None:
        if not data:
            return
        self._held_size += len(data)
        if self._dropping:
            return
        self._held.append(data)
        if self._held_size > self._max_line:
            self._held, self._dropping = [], True

    def _drop(self, rest: int) -> None:
        """Lets the held line go, which ends `rest` bytes on with its newline."""
        length = self._held_size + rest - 1
        self.number += 1
        self._long.append(LongLine(self.offset, length, self.number))
        self.offset += length + 1
        self._held, self._held_size, self._dropping = [], 0, False

    def _split(self, data: bytes) -> None:
        """Give lines that all end in a newline."""
        lines = Lines.uncut(self.offset, data, self.number + 1)
        if len(data) > self._max_line and max(map(len, lines.lines)) > self._max_line:
            self._split_around_long(lines.lines)
        else:
            self._give(lines)

    def _split_around_long(self, lines: Sequence[bytes]) -> None:
        start = 0
        for index, line in enumerate(lines):
            if len(line) > self._max_line:
                self._give(Lines(self.offset, lines[start:index], self.number + 1))
                start = index + 1
                self._drop(len(line) + 1)
        self._give(Lines(self.offset, lines[start:], self.number + 1))

    def _give(self, lines: Lines) -> None:
        if lines.count:
            self._ready.append(lines)
            self.offset += len(lines.data)
            self.number += lines.count
