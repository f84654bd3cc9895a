"""Steps that are printed over several lines: a heading that names the step, then its numbers, then an end.

Other lines may come between (several processes print at once); a block that is left open too long is given as far as
it goes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from grpo_top.formats.base import Claim, Reader
from grpo_top.formats.console import is_text, segments
from grpo_top.formats.decode import bare
from grpo_top.records import Location
from grpo_top.sources.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpo_top.records import Record

_LONG_PREAMBLE = 60_000
"""Bytes of a head that is all start-up messages, so that steps may yet come."""
_LONGEST_LINE = 100_000
"""Longer lines are no part of a block: they are printed samples."""

Numbers = dict[str, float | None]


class Heading(NamedTuple):
    """The line that a block begins with."""

    step: int
    total_steps: int | None = None


class Block(NamedTuple):
    """A step's numbers as they were printed."""

    heading: Heading
    numbers: Numbers
    location: Location
    """The heading's."""


class BlockReader(Reader):
    """Reads such blocks; a framework says what its headings, numbers and ends look like."""

    mark: ClassVar[bytes]
    """What the lines of every block have among them, so that other files cost nothing."""
    patience: ClassVar[int | None] = 60
    """Lines running without a number after which a block that has some is taken for ended; None waits for ever."""

    def __init__(self) -> None:
        self._heading: Heading | None = None
        self._numbers: Numbers = {}
        self._location = Location(0, 0)
        self._given = 0
        """Numbers of the open block that were given already."""
        self._silent = 0

    @abstractmethod
    def heading(self, text: str) -> Heading | None:
        """What a line says as a heading, None where it is none."""

    @abstractmethod
    def numbers(self, text: str) -> Numbers:
        """The numbers on a line of an open block."""

    def ends(self, text: str) -> bool:  # noqa: ARG002 a block may end only where the next one begins
        """Whether a line of an open block is its last."""
        return False

    @abstractmethod
    def records(self, block: Block) -> Iterable[Record]:
        """The records of a block with at least one number."""

    def feed(self, lines: Lines) -> list[Record]:
        """Records of the blocks that end in these lines."""
        found: list[Record] = []
        offset = lines.offset
        for line in lines.lines:
            if len(line) <= _LONGEST_LINE:
                for part in segments(bare(line)):
                    found.extend(self._take(part, Location(offset, len(line))))
            offset += len(line) + 1
        return found

    def idle(self) -> list[Record]:
        """The open block as far as it goes; it is given again where more of it comes."""
        return list(self._give())

    def end(self) -> list[Record]:
        """The open block."""
        return list(self._close())

    def _take(self, text: str, location: Location) -> Iterable[Record]:
        heading = self.heading(text)
        if heading is not None:
            before = self._close()
            self._heading, self._location = heading, location
            return before
        if self._heading is None:
            return ()
        numbers = self.numbers(text)
        self._numbers.update(numbers)
        self._silent = 0 if numbers or not self._numbers else self._silent + 1
        tired = self.patience is not None and self._silent > self.patience
        return self._close() if tired or self.ends(text) else ()

    def _give(self) -> Iterable[Record]:
        if self._heading is None or len(self._numbers) == self._given:
            return ()
        self._given = len(self._numbers)
        return self.records(Block(self._heading, dict(self._numbers), self._location))

    def _close(self) -> Iterable[Record]:
        found = self._give()
        self._heading, self._numbers, self._given, self._silent = None, {}, 0, 0
        return found


def block_claim(head: bytes, writer: str, reader: type[BlockReader], sign: bytes) -> Claim | None:
    """A claim on printed text that holds a block, or may after a long preamble in which the framework's `sign` is."""
    if not is_text(head):
        return None
    probe = reader()
    if reader.mark in head and (probe.feed(Lines(0, head.split(b"\n"), 1)) or probe.end()):
        confidence = 85
    elif len(head) > _LONG_PREAMBLE and sign in head:
        confidence = 25
    else:
        return None
    return Claim(confidence, "lines", "console", writer, 4)


def cells(text: str, wall: str = "│") -> list[str]:
    """The cells of a drawn table's row, stripped; empty where the line is none."""
    return [cell.strip() for cell in text.split(wall)[1:-1]]
