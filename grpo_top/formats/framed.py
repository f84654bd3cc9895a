"""From pieces of a binary log to its records: the two framings that trackers use, and the frame of their readers.

A TFRecord file (TensorBoard) is records one after another, each with its length, and checksums of both. A LevelDB
log (W&B, SwanLab) is cut in blocks of 32 KiB; a record lies in one chunk, or in several that go on in later blocks.
So a damaged block of the second costs the records in it, a damaged length of the first all that follows.
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.formats.base import Reader
from grpo_top.records import Location, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grpo_top.records import Record

LONGEST = 64 << 20
"""Bytes of a record; a longer one is let go unread."""


class Frame(NamedTuple):
    """One whole record of a log."""

    location: Location
    payload: bytes


class Framing(ABC):
    """Cuts a stream of bytes into records, whatever pieces it comes in."""

    @abstractmethod
    def feed(self, data: bytes) -> Iterator[Frame | Skipped]:
        """The records that are whole now, and what is damaged. The first piece begins the file."""

    @abstractmethod
    def rest(self) -> Skipped | None:
        """What is left of a record that was cut short, if the stream ends here."""


class FramedReader(Reader):
    """Reads a framed log; a frame that cannot be read gives a `Skipped`."""

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self._ended = False

    @abstractmethod
    def records(self, payload: bytes, location: Location) -> Iterable[Record]:
        """The records of one frame; ValueError with a short reason where it is damaged."""

    def feed_bytes(self, offset: int, data: bytes) -> list[Record]:  # noqa: ARG002  (a framing counts for itself)
        """Records of the frames that are whole now."""
        self._ended = False
        found: list[Record] = []
        for frame in self._framing.feed(data):
            if type(frame) is Frame:
                try:
                    found.extend(self.records(frame.payload, frame.location))
                except ValueError as error:
                    found.append(Skipped(str(error), frame.location.offset))
            elif type(frame) is Skipped:
                found.append(frame)
        return found

    def end(self) -> list[Record]:
        """What waited, and a `Skipped` for a frame that was cut short."""
        found = self.idle()
        rest = None if self._ended else self._framing.rest()
        self._ended = True
        return [*found, rest] if rest else found


class TfRecords(Framing):
    """`length u64, crc32c of it, data, crc32c of that`, little-endian; the checksums are masked."""

    HEADER = struct.Struct("<QI")
    _CHECKED = 64 << 10
    """Longer data (images, audio) is not checked: that would take longer than reading a whole run's scalars."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._offset = 0
        """Where what is held begins."""
        self._dropping = 0
        self._lost = False

    def feed(self, data: bytes) -> Iterator[Frame | Skipped]:
        """The records that are whole now; behind a damaged length nothing can be found any more."""
        if self._lost:
            return
        held, position, size = self._held, 0, self.HEADER.size
        held += data
        while not self._lost:
            if self._dropping:
                dropped = min(self._dropping, len(held) - position)
                position += dropped
                self._dropping -= dropped
            if len(held) - position < size:
                break
            at = self._offset + position
            length, checksum = self.HEADER.unpack_from(held, position)
            if masked_crc32c(bytes(held[position : position + 8])) != checksum:
                self._lost = True
                yield Skipped("damaged length of a record; the rest of the file is not read", at)
            elif length > LONGEST:
                yield Skipped(f"record of {length:,} bytes, longer than is read", at)
                self._dropping = size + length + 4
            elif len(held) - position < size + length + 4:
                break
            else:
                end = position + size + length
                payload = bytes(held[position + size : end])
                position = end + 4
                if length > self._CHECKED or held[end:position] == _masked_bytes(payload):
                    yield Frame(Location(at, size + length + 4), payload)
                else:
                    yield Skipped("damaged record: its checksum is another", at)
        if self._lost:
            position = len(held)
        del held[:position]
        self._offset += position

    def rest(self) -> Skipped | None:
        """A record that was cut short."""
        if not self._held and not self._dropping:
            return None
        return Skipped(f"record cut short: the file ends after {len(self._held):,} bytes of it", self._offset)


class LevelDbLog(Framing):
    """Blocks of chunks: `crc32 of type and data u32, length u16, type u8, data`, little-endian.

    Trackers write a header of seven bytes before the first chunk, and use the checksum of zlib where LevelDB itself
    has crc32c.
    """

    BLOCK = 32 << 10
    FILE_HEADER = 7
    CHUNK = struct.Struct("<IHB")
    _WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

    def __init__(self) -> None:
        self._held = bytearray()
        self._offset = 0
        """Where what is held begins."""
        self._parts: list[bytes] = []
        """Chunks of a record whose last one has not come."""
        self._begun = 0
        """Where that record begins."""

    def feed(self, data: bytes) -> Iterator[Frame | Skipped]:
        """The records that are whole now; after a damaged chunk reading goes on with the next block."""
        held, position, size = self._held, 0, self.CHUNK.size
        held += data
        while True:
            at = self._offset + position
            left = self.BLOCK - at % self.BLOCK
            if at < self.FILE_HEADER or left < size:
                skip = self.FILE_HEADER - at if at < self.FILE_HEADER else left
                if len(held) - position < skip:
                    break
                position += skip
                continue
            if len(held) - position < size:
                break
            checksum, length, kind = self.CHUNK.unpack_from(held, position)
            fits = size + length <= left
            if fits and len(held) - position < size + length:
                break
            chunk = bytes(held[position + size : position + size + length])
            empty = kind == length == checksum == 0
            if fits and zlib.crc32(chunk, zlib.crc32(bytes((kind,)))) == checksum:
                position += size + length
                yield from self._take(kind, chunk, at)
                continue
            if len(held) - position < left:
                break  # the block is not whole yet: should it be rewritten, that is seen before it is judged
            position += left
            if not empty:
                self._parts = []
                yield Skipped("damaged block; reading goes on with the next one", at)
        del held[:position]
        self._offset += position

    def rest(self) -> Skipped | None:
        """A record whose end is missing."""
        missing = sum(map(len, self._parts)) + len(self._held.rstrip(b"\0"))
        if not missing:
            return None
        return Skipped(
            f"record cut short: the file ends after {missing:,} bytes of it",
            self._begun if self._parts else self._offset,
        )

    def _take(self, kind: int, chunk: bytes, at: int) -> Iterator[Frame | Skipped]:
        if kind in {self._WHOLE, self._FIRST}:
            if self._parts:
                yield Skipped("record whose end is missing", self._begun)
            self._parts, self._begun = [chunk], at
        elif self._parts:
            self._parts.append(chunk)
        if not self._parts:
            return  # the end of a record whose beginning was damaged, which has been said
        if sum(map(len, self._parts)) > LONGEST:
            self._parts = []
            yield Skipped(f"record of more than {LONGEST:,} bytes, longer than is read", self._begun)
        elif kind in {self._WHOLE, self._LAST}:
            payload = b"".join(self._parts)
            length = at + self.CHUNK.size + len(chunk) - self._begun
            self._parts = []
            yield Frame(Location(self._begun, length), payload)


def masked_crc32c(data: bytes) -> int:
    """The checksum of TFRecord files: CRC-32C, rotated and shifted so that data may hold its own checksum."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _masked_bytes(data: bytes) -> bytes:
    return masked_crc32c(data).to_bytes(4, "little")


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of some bytes, two at a time."""
    table = _crc_table()
    crc = 0xFFFFFFFF
    for pair in struct.unpack_from(f"<{len(data) // 2}H", data):
        crc = table[(crc ^ pair) & 0xFFFF] ^ (crc >> 16)
    if len(data) % 2:
        crc = _crc_bytes()[(crc ^ data[-1]) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@cache
def _crc_bytes() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return tuple(table)


@cache
def _crc_table() -> tuple[int, ...]:
    """What two bytes at once do to the lower half of the checksum."""
    table = _crc_bytes()
    once = [table[value & 0xFF] ^ (value >> 8) for value in range(1 << 16)]
    return tuple(table[value & 0xFF] ^ (value >> 8) for value in once)
