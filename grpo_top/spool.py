"""The log of a run that is served: its records as lines in files that nobody else sees, and where each text lies.

Neither memory nor disk grows with the run: past a limit the lines of the oldest rollouts are let go, while those of all
other records stay. The files are unlinked as they are made, in the system's temporary directory and never in the run's,
and are gone with the process.
"""

from __future__ import annotations

import os
import secrets
import struct
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.records import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LIMIT = 2 << 30
"""Bytes by default: as many rollouts as a monitor holds."""
SEGMENTS = 16
"""Parts of the limit: the oldest is what is let go at once."""
LARGEST_SEGMENT = 256 << 20
_PLACE = struct.Struct("<qqqiii")
_AT_ONCE = 1 << 20
_LOOKED_AT_ONCE = 4096


class Place(NamedTuple):
    """Where a rollout lies, and what tells it from another one."""

    step: int
    text: int
    """Key of its completion in this process, 0 where it has none."""
    source: int
    location: Location


class Past(NamedTuple):
    """What was let go, and what is left of it."""

    offset: int = 0
    """Where the log begins that is held whole."""
    size: int = 0
    """Bytes of the lines that stand for what lay before it."""
    rollouts: int = 0
    """How many were let go."""


class Spool:
    """Lines that are only appended, and the places of the rollouts among them.

    One thread appends; any thread reads what was there when it began. OSError where the disk is full.

    Args:
        limit: bytes that are held, about, as long as what is no rollout takes less.
        may_go: whether a line is one that can be let go.
        instead: the line that stands in place of so many of them.
    """

    def __init__(self, limit: int, may_go: Callable[[bytes], bool], instead: Callable[[int], bytes]) -> None:
        self.id = secrets.token_hex(8)
        """Another one for each spool: offsets and ids are good for this one alone."""
        self.size = 0
        """Bytes, those that were let go among them."""
        self.rollouts = 0
        """Rollouts that were given an id, from 0 on."""
        self.past = Past()
        self._limit, self._may_go, self._instead = limit, may_go, instead
        self._segment_size = max(1, min(limit // SEGMENTS, LARGEST_SEGMENT))
        self._kept = _File()
        """The lines for what was let go."""
        self._segments: tuple[_Segment, ...] = (_Segment(0, 0),)
        """Oldest first; replaced as a whole."""

    def append(self, lines: Iterable[bytes]) -> None:
        """Add whole lines, each with its newline."""
        data, newest = b"".join(lines), self._segments[-1]
        newest.lines.write(data, newest.size)
        newest.size += len(data)
        self.size += len(data)
        if newest.size >= self._segment_size:
            self._segments = (*self._segments, _Segment(self.size, self.rollouts))
            while len(self._segments) > 2 and self._held() > self._limit:
                self._let_go()

    def read(self, offset: int, limit: int) -> bytes:
        """The whole lines from `offset` on, `limit` bytes of them, or one that is longer; empty at the end.

        ValueError where no line begins there, or where it was let go.
        """
        segment = next((one for one in reversed(self._segments) if one.start <= offset), None)
        found = None if segment is None else segment.lines_from(offset - segment.start, limit)
        if found is None:
            raise ValueError("no line begins there")
        return found

    def read_past(self, past: Past, offset: int, limit: int) -> bytes:
        """As `read`, of the lines that stand for what was let go."""
        found = _lines_from(self._kept, past.size, offset, limit)
        if found is None:
            raise ValueError("no line begins there")
        return found

    def add_places(self, places: Sequence[Place]) -> range:
        """Note where rollouts lie whose lines are appended next; their ids."""
        data = b"".join(
            _PLACE.pack(step, text, location.offset, location.length, location.part, source)
            for step, text, source, location in places
        )
        newest = self._segments[-1]
        newest.places.write(data, (self.rollouts - newest.first_id) * _PLACE.size)
        first, self.rollouts = self.rollouts, self.rollouts + len(places)
        return range(first, self.rollouts)

    @property
    def first_id(self) -> int:
        """Rollouts with lower ids were let go."""
        return self._segments[0].first_id

    def place(self, id_: int) -> Place | None:
        """Where the rollout with that id lies; None where there is none, or where it was let go."""
        segment = next((one for one in reversed(self._segments) if one.first_id <= id_), None)
        if segment is None or id_ >= self.rollouts:
            return None
        data = segment.places.read(_PLACE.size, (id_ - segment.first_id) * _PLACE.size)
        step, text, offset, length, part, source = _PLACE.unpack(data)
        return Place(step, text, source, Location(offset, length, part))

    def id_of(self, source: int, location: Location) -> int | None:
        """The id of the newest rollout that lay there; None where none did. Looks through all that are held."""
        wanted, last = (*location, source), self.rollouts
        for segment in reversed(self._segments):
            for stop in range(last - segment.first_id, 0, -_LOOKED_AT_ONCE):
                first = max(0, stop - _LOOKED_AT_ONCE)
                data = segment.places.read((stop - first) * _PLACE.size, first * _PLACE.size)
                found = [at for at, place in enumerate(_PLACE.iter_unpack(data)) if place[2:] == wanted]
                if found:
                    return segment.first_id + first + found[-1]
            last = segment.first_id
        return None

    def _held(self) -> int:
        first = self._segments[0]
        return self.past.size + self.size - first.start + (self.rollouts - first.first_id) * _PLACE.size

    def _let_go(self) -> None:
        """Let the oldest segment go; what is no rollout in it is kept."""
        oldest, then = self._segments[:2]
        kept, rollouts, offset = self.past.size, 0, 0
        while lines := oldest.lines_from(offset, _AT_ONCE):
            offset += len(lines)
            every = lines.splitlines(keepends=True)
            stay = [line for line in every if not self._may_go(line)]
            rollouts += len(every) - len(stay)
            data = b"".join(stay)
            self._kept.write(data, kept)
            kept += len(data)
        told = self._instead(rollouts)
        self._kept.write(told, kept)
        self.past = Past(then.start, kept + len(told), self.past.rollouts + rollouts)
        self._segments = self._segments[1:]


class _Segment:
    """A stretch of the log."""

    def __init__(self, start: int, first_id: int) -> None:
        self.start = start
        """Its offset in the log."""
        self.first_id = first_id
        self.size = 0
        self.lines = _File()
        self.places = _File()

    def lines_from(self, offset: int, limit: int) -> bytes | None:
        """See `_lines_from`."""
        return _lines_from(self.lines, self.size, offset, limit)


def _lines_from(file: _File, size: int, offset: int, limit: int) -> bytes | None:
    """Whole lines of a file from an offset on, `limit` bytes or one line; None where no line begins there."""
    if not 0 <= offset <= size or (offset and file.read(1, offset - 1) != b"\n"):
        return None
    data = file.read(min(limit, size - offset), offset)
    end = data.rfind(b"\n") + 1
    while data and not end:
        more = file.read(min(limit, size - offset - len(data)), offset + len(data))
        data += more
        end = data.rfind(b"\n") + 1
    return data[:end]


class _File:
    """A file that has no name. It is closed when nobody holds it: never while somebody reads."""

    def __init__(self) -> None:
        self._descriptor, path = tempfile.mkstemp(prefix="grpo-top-")
        os.unlink(path)  # noqa: PTH108  it was made with a descriptor, in the line above

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, size: int, offset: int) -> bytes:
        """What is there, up to `size` bytes."""
        return os.pread(self._descriptor, size, offset)

    def write(self, data: bytes, offset: int) -> None:
        """All of the data; OSError where there is no room."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, offset)
            view, offset = view[written:], offset + written
