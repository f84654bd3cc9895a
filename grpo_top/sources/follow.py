"""Follows the bytes behind one path through appends, truncation, rewriting, rotation, absence and return.

Polling (size, inode, mtime, ctime) is the truth. A file that was rewritten and is longer again than what was
read of it looks like an append: its first bytes, and those before the position, are kept and compared.
"""

from __future__ import annotations

import os
import resource
import stat
import threading
import time
from collections import OrderedDict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_HEAD_BYTES = 256
_TAIL_BYTES = 64
_SETTLED_SECONDS = 2.0
"""Only then is an unchanged mtime trusted: two writes within one tick of a coarse clock look like one. So a file
that seems unchanged is compared once more when this time is over, and then no more."""
_GONE_SECONDS = 5.0
"""How long the descriptor of a file that is gone is kept for late writes."""


class FileState(StrEnum):
    """How a file stands."""

    LIVE = "live"
    GONE = "gone"
    """It was read and is not there any more."""
    WAITING = "waiting"
    """Not there yet, or not complete yet."""
    ERROR = "error"
    """See its note; it is tried again."""


class Turn(StrEnum):
    """How a piece follows on the one before."""

    SAME = "same"
    ROTATED = "rotated"
    """Another file took the path, and the old one was read to its end. An empty piece; the new one begins."""
    REWRITTEN = "rewritten"
    """The file was truncated or written anew in place. An empty piece; it begins again."""


class Piece(NamedTuple):
    """The next bytes of a file."""

    data: bytes
    turn: Turn = Turn.SAME


class _OpenFiles:
    """The descriptors that are kept, over all followers: those of the files that were read last.

    A kept descriptor is what lets a file be read to its end after it was renamed or deleted. Files that grow
    are among the last ones read; the others' descriptors are closed as places are needed, and opened again.
    """

    def __init__(self, limit: int) -> None:
        self.lock = threading.Lock()
        self._limit = limit
        self._open: OrderedDict[Follower, int] = OrderedDict()

    def get(self, owner: Follower) -> int | None:
        """The owner's descriptor, if it is still open."""
        descriptor = self._open.get(owner)
        if descriptor is not None:
            self._open.move_to_end(owner)
        return descriptor

    def open(self, owner: Follower, path: Path) -> int:
        """A new descriptor for the owner; raises OSError."""
        self.close(owner)
        while len(self._open) >= self._limit:
            os.close(self._open.popitem(last=False)[1])
        # Non-blocking, should the path become a pipe between the look at it and this.
        descriptor = self._open[owner] = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        return descriptor

    def close(self, owner: Follower) -> None:
        descriptor = self._open.pop(owner, None)
        if descriptor is not None:
            os.close(descriptor)


_open_files = _OpenFiles(limit=max(1, min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)))


class Follower:
    """Gives the bytes of the file at `path` in order, and says where they do not follow on those before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = 0
        """Bytes given of the file that is open now."""
        self.size = 0
        """Its size on disk when it was last looked at."""
        self.state = FileState.WAITING
        self.note = ""
        self._identity: tuple[int, ...] | None = None
        """Device and inode."""
        self._signature: tuple[int, ...] = ()
        self._since = 0.0
        self._settled = False
        self._head = b""
        self._tail = b""

    def read(self, budget: int) -> Piece | None:
        """The next bytes, up to `budget`; None where nothing is new."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return self._read_vanished(budget)
        except OSError as error:
            return self._failed(error)
        if not stat.S_ISREG(status.st_mode):
            self.state, self.note = FileState.ERROR, f"{self.path}: not a regular file, so it is not opened"
            return None
        signature = _signature(status)
        same = self.position == status.st_size and signature == self._signature
        if same and (self._settled or time.monotonic() - self._since < _SETTLED_SECONDS):
            self.state, self.note = FileState.LIVE, ""
            return None
        try:
            with _open_files.lock:
                piece = self._read_present(signature, budget)
        except OSError as error:
            return self._failed(error)
        self.state, self.note = FileState.LIVE, ""
        return piece

    @property
    def behind(self) -> int:
        """Bytes that could be read now; none where an error stands in the way."""
        return 0 if self.state is FileState.ERROR else max(0, self.size - self.position)

    def skip_hole(self) -> int:
        """Moves past a sparse file's hole (read as NULs) at the present position; its size in bytes."""
        with _open_files.lock:
            descriptor = _open_files.get(self)
            if descriptor is None or not hasattr(os, "SEEK_DATA"):
                return 0
            try:
                data_at = os.lseek(descriptor, self.position, os.SEEK_DATA)
            except OSError:  # no data follows, or the file system cannot tell: the NULs are read one by one
                return 0
        jumped = data_at - self.position
        if jumped:
            self.position, self._tail = data_at, bytes(min(_TAIL_BYTES, data_at))
        return jumped

    def close(self) -> None:
        """Lets the descriptor go; reading on opens it again."""
        with _open_files.lock:
            _open_files.close(self)

    def _read_present(self, signature: tuple[int, ...], budget: int) -> Piece | None:
        identity, size = signature[:2], signature[2]
        if self._identity is None:
            self._begin(identity)
        elif identity != self._identity:
            return self._rotate(identity, size, budget)
        descriptor = _open_files.get(self)
        if descriptor is None:
            descriptor = _open_files.open(self, self.path)
            signature = _signature(os.fstat(descriptor))
            if signature[:2] != identity:
                _open_files.close(self)  # replaced since the look at it: the next look sees that
                return None
        if signature != self._signature:
            self._signature, self._since, self._settled = signature, time.monotonic(), False
        self.size = signature[2]
        if self._rewritten(descriptor):
            self._begin(identity)
            return Piece(b"", Turn.REWRITTEN)
        # The bytes before the position come in one read with those after it: nothing changes between the two.
        overlap = len(self._tail)
        wanted = overlap + min(budget, self.size - self.position)
        got = os.pread(descriptor, wanted, self.position - overlap)
        if got[:overlap] != self._tail:
            self._begin(identity)
            return Piece(b"", Turn.REWRITTEN)
        self._settled = time.monotonic() - self._since >= _SETTLED_SECONDS
        return self._advance(got[overlap:])

    def _rewritten(self, descriptor: int) -> bool:
        if self.size < self.position:
            return True
        return not self._settled and os.pread(descriptor, len(self._head), 0) != self._head

    def _rotate(self, identity: tuple[int, ...], new_size: int, budget: int) -> Piece | None:
        piece = self._drain(budget)
        if piece is not None:
            return piece
        if new_size == 0 and _open_files.get(self) is not None:
            return None  # made by the rotation and not used yet: the writer may still write to the old one
        _open_files.close(self)
        self._begin(identity)
        self.size = new_size
        return Piece(b"", Turn.ROTATED)

    def _drain(self, budget: int) -> Piece | None:
        """What is left in the old file, through its descriptor."""
        descriptor = _open_files.get(self)
        if descriptor is None:
            return None
        self.size = max(self.position, os.fstat(descriptor).st_size)
        return self._advance(os.pread(descriptor, budget, self.position))

    def _read_vanished(self, budget: int) -> Piece | None:
        if self._identity is None:
            self.state, self.note = FileState.WAITING, ""
            return None
        now = time.monotonic()
        if self.state is not FileState.GONE:
            self.state, self.note, self._since, self._settled = FileState.GONE, "", now, False
        try:
            with _open_files.lock:
                piece = self._drain(budget)
                if piece is not None:
                    self._since = now
                else:
                    self.size = self.position  # what cannot be reached any more is not waited for
                    if now - self._since > _GONE_SECONDS:
                        _open_files.close(self)
        except OSError as error:
            return self._failed(error)
        return piece

    def _advance(self, data: bytes) -> Piece | None:
        if not data:
            return None
        if len(self._head) < _HEAD_BYTES and self.position == len(self._head):
            self._head += data[: _HEAD_BYTES - len(self._head)]
        self.position += len(data)
        self._tail = data[-_TAIL_BYTES:] if len(data) >= _TAIL_BYTES else (self._tail + data)[-_TAIL_BYTES:]
        return Piece(data)

    def _begin(self, identity: tuple[int, ...]) -> None:
        self._identity, self._signature, self._settled = identity, (), False
        self.position, self._head, self._tail = 0, b"", b""

    def _failed(self, error: OSError) -> Piece | None:
        self.close()
        self._settled = False
        reason = error.strerror or type(error).__name__
        self.state, self.note = FileState.ERROR, f"{self.path}: {reason}; tried again at every look"
        return None


def _signature(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file changes: device and inode, size, and times."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
