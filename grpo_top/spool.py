"""The log of a run that is served: its records as lines in a file that nobody else sees, and where each text lies.

Memory does not grow with the run. The files are unlinked as they are made, in the system's temporary directory and
never in the run's, and are gone with the process.
"""

from __future__ import annotations

import os
import secrets
import struct
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.records import Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PLACE = struct.Struct("<qqqiii")
_LOOKED_AT_ONCE = 4096


class Place(NamedTuple):
    """Where a rollout lies, and what tells it from another one."""

    step: int
    text: int
    """Key of its completion in this process, 0 where it has none."""
    source: int
    location: Location


class Spool:
    """Lines that are only appended, and the places of the rollouts among them.

    One thread appends; any thread reads what was there when it began. OSError where the disk is full.
    """

    def __init__(self) -> None:
        self.id = secrets.token_hex(8)
        """Another one for each spool: offsets and ids are good for this one alone."""
        self.size = 0
        """Bytes."""
        self.rollouts = 0
        """Rollouts that can be asked for, by ids from 0 on."""
        self._lines = _File()
        self._places = _File()

    def append(self, lines: Iterable[bytes]) -> None:
        """Add whole lines, each with its newline."""
        data = b"".join(lines)
        self._lines.write(data, self.size)
        self.size += len(data)

    def read(self, offset: int, limit: int) -> bytes:
        """The whole lines from `offset` on, `limit` bytes of them, or one that is longer; empty at the end.

        ValueError where no line begins there.
        """
        size = self.size
        if not 0 <= offset <= size or (offset and self._lines.read(1, offset - 1) != b"\n"):
            raise ValueError("no line begins there")
        data = self._lines.read(min(limit, size - offset), offset)
        end = data.rfind(b"\n") + 1
        while data and not end:
            more = self._lines.read(min(limit, size - offset - len(data)), offset + len(data))
            data += more
            end = data.rfind(b"\n") + 1
        return data[:end]

    def add_places(self, places: Sequence[Place]) -> range:
        """Note where rollouts lie; their ids."""
        data = b"".join(
            _PLACE.pack(step, text, location.offset, location.length, location.part, source)
            for step, text, source, location in places
        )
        self._places.write(data, self.rollouts * _PLACE.size)
        first, self.rollouts = self.rollouts, self.rollouts + len(places)
        return range(first, self.rollouts)

    def place(self, id_: int) -> Place | None:
        """Where the rollout with that id lies; None where there is none."""
        if not 0 <= id_ < self.rollouts:
            return None
        data = self._places.read(_PLACE.size, id_ * _PLACE.size)
        step, text, offset, length, part, source = _PLACE.unpack(data)
        return Place(step, text, source, Location(offset, length, part))

    def id_of(self, source: int, location: Location) -> int | None:
        """The id of the newest rollout that lay there; None where none did. Looks through all of them."""
        wanted = (*location, source)
        for stop in range(self.rollouts, 0, -_LOOKED_AT_ONCE):
            first = max(0, stop - _LOOKED_AT_ONCE)
            data = self._places.read((stop - first) * _PLACE.size, first * _PLACE.size)
            found = [number for number, place in enumerate(_PLACE.iter_unpack(data)) if place[2:] == wanted]
            if found:
                return first + found[-1]
        return None


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
