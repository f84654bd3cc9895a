"""Reads the texts of many rollouts again, for a search: each file in large slices and in order, newest rows first."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.intake import Intake
from grpo_top.records import Location, Rollout
from grpo_top.snapshot import Gone
from grpo_top.sources.access import is_packed, opened, read_range, read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from grpo_top.endpoints import Endpoint
    from grpo_top.history import History
    from grpo_top.remote import Part

    Rows = NDArray[np.int64]
    Read = Callable[[int, int], bytes]
    """Bytes of a file from an offset on, of a length."""

SLICE = 4 << 20
"""Bytes that are read at once; a record that is longer is a slice of its own."""
GAP = 256 << 10
"""Bytes between two records from which on they are read apart."""
PORTION = 20_000
"""Rows that are gone through before older ones are, whichever files they lie in."""
TOGETHER = 200
"""Rollouts that are handed over at once."""
_ERRORS = (OSError, EOFError)


class Literal(NamedTuple):
    """Letters and digits that a record must hold, as any JSON has them: they are never written in another way."""

    text: bytes
    any_case: bool


class Looked(NamedTuple):
    """What the next rows held."""

    rows: int
    """How many were looked at."""
    size: int
    """Bytes that were read."""
    found: list[tuple[int, Rollout | Gone]]
    """Those that may match, with their texts; those that certainly do not are left out."""


def scan(
    history: History,
    sources: Sequence[Intake | Endpoint | Part],
    rows: Rows,
    literals: Sequence[Literal] = (),
) -> Iterator[Looked]:
    """Look at rows; only those whose record holds every literal are handed over, as far as its bytes tell.

    A file that is packed, or that can only be read whole, is gone through once, when its newest row comes up.
    An endpoint is not asked for all that it has: its rows are handed over as gone.
    """
    rows = np.sort(rows)[::-1]
    numbers = history.columns["source"].view()[rows]
    finished: set[int] = set()
    for start in range(0, len(rows), PORTION):
        portion = slice(start, start + PORTION)
        for number in dict.fromkeys(numbers[portion].tolist()):
            source = sources[number]
            if number in finished:
                continue
            if not isinstance(source, Intake):
                mine = rows[portion][numbers[portion] == number]
                gone = Gone(f"{source.where}: an endpoint is not searched")
                yield Looked(len(mine), 0, [(row, gone) for row in mine.tolist()])
            elif _can_be_cut(source):
                mine = rows[portion][numbers[portion] == number]
                yield from _File(history, source, mine, literals).look()
            else:
                finished.add(number)
                yield from _File(history, source, rows[numbers == number], literals).look()


def _can_be_cut(intake: Intake) -> bool:
    """Whether parts of a file can be read wherever they lie."""
    return intake.claim.feed in {"lines", "bytes"} and not is_packed(intake.path)


class _File:
    """Rows of one file, where they lie, and what is looked for."""

    def __init__(self, history: History, intake: Intake, rows: Rows, literals: Sequence[Literal]) -> None:
        columns = {name: history.columns[name].view()[rows] for name in ("offset", "length", "part")}
        order = np.lexsort((columns["part"], columns["offset"]))
        self._intake = intake
        self._literals = sorted(literals, key=lambda literal: -len(literal.text))
        self._rows = rows[order]
        self._offsets = columns["offset"][order]
        self._lengths = columns["length"][order].astype(np.int64)
        self._parts = columns["part"][order]

    def look(self) -> Iterator[Looked]:
        """Look at the rows, the last one of the file first where that can be."""
        nowhere = int(np.searchsorted(self._offsets, 0))
        if nowhere:
            yield Looked(nowhere, 0, [])
        if nowhere == len(self._rows):
            return
        try:
            if self._intake.claim.feed == "database":
                yield from self._in_turn(nowhere)
            elif not self._lengths[nowhere:].all():
                yield from self._whole(nowhere)
            elif _can_be_cut(self._intake):
                path = self._intake.path
                yield from self._slices(nowhere, lambda offset, size: read_range(path, offset, size))
            else:
                with _forward(self._intake) as read:
                    yield from self._slices(nowhere, read, newest_first=False)
        except _ERRORS as error:
            yield self._gone(error)

    def _slices(self, first: int, read: Read, *, newest_first: bool = True) -> Iterator[Looked]:
        bounds = self._bounds(first)
        pairs = list(pairwise(bounds))
        for start, stop in reversed(pairs) if newest_first else pairs:
            begin = int(self._offsets[start])
            size = int((self._offsets[start:stop] + self._lengths[start:stop]).max()) - begin
            data = read(begin, size)
            wanted = sorted(self._candidates(data, start, stop, begin), reverse=newest_first)
            yield Looked(stop - start - len(wanted), len(data), [])
            for few in range(0, len(wanted), TOGETHER):
                part = wanted[few : few + TOGETHER]
                yield Looked(len(part), 0, self._parsed(data, part, begin))

    def _bounds(self, first: int) -> list[int]:
        """Where slices begin, and where the last one ends; records of one line are never parted."""
        offsets, lengths = self._offsets[first:], self._lengths[first:]
        apart = offsets[1:] - (offsets[:-1] + lengths[:-1]) > GAP
        apart |= np.diff(offsets // SLICE) != 0
        return [first, *(np.flatnonzero(apart) + first + 1).tolist(), len(self._rows)]

    def _candidates(self, data: bytes, start: int, stop: int, begin: int) -> Collection[int]:
        """Which of the rows from `start` to `stop` may match: all that are no JSON, else those with every literal."""
        if not self._literals:
            return range(start, stop)
        places = (self._offsets[start:stop] - begin).tolist()
        ends = [
            place + length for place, length in zip(places, self._lengths[start:stop].tolist(), strict=True)
        ]
        small = data.lower() if any(literal.any_case for literal in self._literals) else data
        first, *others = (
            (small, literal.text.lower()) if literal.any_case else (data, literal.text)
            for literal in self._literals
        )
        found = [at for at, place in enumerate(places) if data[place : place + 1] != b"{"]
        haystack, needle = first
        position = haystack.find(needle)
        while position >= 0:
            last = bisect_right(places, position) - 1
            line = places[last]
            if position + len(needle) <= ends[last] and all(
                hay.find(other, line, ends[last]) >= 0 for hay, other in others
            ):
                at = last
                while at >= 0 and places[at] == line:  # every rollout of the line
                    found.append(at)
                    at -= 1
            position = haystack.find(needle, max(ends[last], position + 1))
        return {start + at for at in found}

    def _parsed(self, data: bytes, wanted: Sequence[int], begin: int) -> list[tuple[int, Rollout | Gone]]:
        replay = self._intake.reader.replay

        def parsed(location: Location) -> Rollout | None:
            start = location.offset - begin
            return replay(data[start : start + location.length], location)

        return [self._told(at, parsed) for at in wanted]

    def _whole(self, first: int) -> Iterator[Looked]:
        """Rows of a file that only makes sense as a whole: it is read and parsed once."""
        data = read_whole(self._intake.path)
        there: dict[tuple[int, int], Rollout] = {
            (record.location.offset, record.location.part): record
            for record in self._intake.reader.fresh().whole(data)
            if isinstance(record, Rollout)
        }
        yield Looked(0, len(data), [])
        for few in range(first, len(self._rows), TOGETHER):
            part = range(few, min(few + TOGETHER, len(self._rows)))
            yield Looked(
                len(part),
                0,
                [self._told(at, lambda here: there.get((here.offset, here.part))) for at in part],
            )

    def _in_turn(self, first: int) -> Iterator[Looked]:
        """Rows of a store that the reader looks into itself."""
        path, reader = self._intake.path, self._intake.reader
        for at in range(len(self._rows) - 1, first - 1, -1):
            yield Looked(1, 0, [self._told(at, lambda here: reader.find(path, here))])

    def _told(self, at: int, get: Callable[[Location], Rollout | None]) -> tuple[int, Rollout | Gone]:
        """A row with its rollout, or why it cannot be had; the next one can all the same."""
        try:
            found = get(Location(int(self._offsets[at]), int(self._lengths[at]), int(self._parts[at])))
        except _ERRORS:
            raise
        except Exception as error:
            return int(self._rows[at]), Gone(f"{self._intake.where}: {error or type(error).__name__}")
        return int(self._rows[at]), found or Gone(f"{self._intake.where}: rewritten since")

    def _gone(self, error: Exception) -> Looked:
        reason = getattr(error, "strerror", None) or error
        return Looked(0, 0, [(int(self._rows[-1]), Gone(f"{self._intake.where}: {reason}"))])


@contextmanager
def _forward(intake: Intake) -> Iterator[Read]:
    """Reads a packed file from its beginning on."""
    with opened(intake.path) as stream:

        def read(offset: int, size: int) -> bytes:
            stream.seek(offset)
            return stream.read(size)

        yield read
