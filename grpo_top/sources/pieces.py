"""Reads a binary stream piece by piece as it grows, for formats whose records are no lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top.sources.decoders import Decoder, DecodingError, decoder_for
from grpo_top.sources.follow import FileState, Follower, Turn

if TYPE_CHECKING:
    from pathlib import Path

_STORED_PIECE = 1 << 18
"""Bytes of a compressed file that are read at a time."""


class Bytes(NamedTuple):
    """The next bytes of a stream."""

    offset: int
    """Where they begin in the (decompressed) stream."""
    data: bytes
    """Empty where bytes were read and more may follow at once (a compressed file, a new epoch)."""


class ByteTail:
    """The bytes of a file that may grow, be truncated, rewritten, replaced, or not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch = 0
        """Grows when the file begins anew: truncated, rewritten, or replaced by another."""
        self._follower = Follower(path)
        self._start()

    @property
    def size(self) -> int:
        """Bytes on disk when last looked at."""
        return self._follower.size

    @property
    def behind(self) -> int:
        """Bytes that could be read now; for a compressed file, stored bytes."""
        return self._follower.behind + (self._decoder.pending if self._decoder else 0)

    @property
    def state(self) -> FileState:
        """How the file stands; `note` says more where it needs more."""
        return FileState.ERROR if self._damage else self._follower.state

    @property
    def note(self) -> str:
        """One line: what is wrong and where. Empty where nothing is."""
        return self._damage or self._follower.note

    def read(self, budget: int) -> Bytes | None:
        """The next bytes, about `budget` of them; None where nothing is new. A new `epoch` begins at offset 0."""
        if data := self._decoded(budget):
            return self._give(data)
        piece = self._follower.read(min(budget, _STORED_PIECE) if self._decoder else budget)
        if piece is None:
            return None
        if piece.turn is not Turn.SAME:
            self.epoch += 1
            self._start()
        elif self._damage:
            return self._give(b"")
        elif self._decoder is None:
            return self._give(piece.data)
        else:
            self._decoder.feed(piece.data)
        return self._give(self._decoded(budget))

    def close(self) -> None:
        """Lets go of the file; reading on opens it again."""
        self._follower.close()

    def _start(self) -> None:
        self._offset = 0
        self._damage = ""
        self._decoder: Decoder | None = None
        try:
            self._decoder = decoder_for(self.path)
        except DecodingError as error:
            self._damage = f"{self.path}: {error}"

    def _decoded(self, budget: int) -> bytes:
        if self._decoder is None:
            return b""
        try:
            return self._decoder.take(budget)
        except DecodingError as error:
            self._damage, self._decoder = f"{self.path}: {error}", None
            return b""

    def _give(self, data: bytes) -> Bytes:
        given = Bytes(self._offset, data)
        self._offset += len(data)
        return given
