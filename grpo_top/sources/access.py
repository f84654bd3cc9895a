"""Reads parts of a file at once, whatever it is packed with: its head to sniff it, a record to show it again."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from grpo_top.sources.decoders import DecodingError, decoder_for

if TYPE_CHECKING:
    from pathlib import Path

_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Not blocking, should the path have become a pipe since it was looked at."""
_PIECE = 1 << 16


def read_head(path: Path, size: int) -> bytes:
    """The first `size` bytes, decompressed, or what can be had of them; empty where that is nothing."""
    found = bytearray()
    with suppress(OSError), opened(path) as stream:
        while len(found) < size and (data := stream.read1(size - len(found))):
            found += data
    return bytes(found)


def read_range(path: Path, offset: int, length: int) -> bytes:
    """`length` bytes from `offset` of the decompressed stream. OSError where the file cannot be read so far."""
    if not is_packed(path):
        descriptor = os.open(path, _READ_ONLY)
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)
    with opened(path) as stream:
        stream.seek(offset)
        return stream.read(length)


def read_whole(path: Path) -> bytes:
    """The whole file, decompressed. OSError where it cannot be read."""
    with opened(path) as stream:
        return stream.read()


def is_packed(path: Path) -> bool:
    """Whether a file can only be read from its beginning on."""
    return path.suffix.lower() in (".gz", ".zst")


def opened(path: Path) -> io.BufferedReader:
    """The decompressed stream of a file. OSError wherever it is damaged."""
    stored = os.fdopen(os.open(path, _READ_ONLY), "rb", buffering=0)
    return io.BufferedReader(_Unpacked(stored, path) if is_packed(path) else stored, _PIECE)


class _Unpacked(io.RawIOBase):
    """What a packed file holds, however many frames it has; to go back is to begin again."""

    def __init__(self, stored: io.FileIO, path: Path) -> None:
        super().__init__()
        self._stored, self._path = stored, path
        try:
            self._begin()
        except OSError:
            stored.close()
            raise

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is, at the price of what lies between."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """The next bytes; OSError where the stream is damaged."""
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, counted from the beginning or from here; the end, where that comes first."""
        wanted = offset + (self._position if whence == os.SEEK_CUR else 0)
        if wanted < self._position:
            self._stored.seek(0)
            self._begin()
        while self._position < wanted and self._next(min(_PIECE, wanted - self._position)):
            pass
        return self._position

    def close(self) -> None:
        """Let go of the file."""
        self._stored.close()
        super().close()

    def _begin(self) -> None:
        self._position = 0
        try:
            self._decoder = decoder_for(self._path)
        except DecodingError as error:
            raise OSError(str(error)) from error

    def _next(self, size: int) -> bytes:
        assert self._decoder is not None  # noqa: S101  its suffix says that it is packed
        try:
            while not (data := self._decoder.take(size)):
                if not (stored := self._stored.read(_PIECE)):
                    return b""
                self._decoder.feed(stored)
        except DecodingError as error:
            raise OSError(str(error)) from error
        self._position += len(data)
        return data
