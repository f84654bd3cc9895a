"""Reads one file: a log line by line as it grows, or a whole file once it is complete."""

from __future__ import annotations

import os
import stat
import time
from json import JSONDecodeError, loads
from pathlib import Path

import orjson

from grpo_top.sources.decoders import Decoder, DecodingError, decoder_for
from grpo_top.sources.follow import FileState, Follower, Turn
from grpo_top.sources.lines import Lines
from grpo_top.sources.splitter import LineSplitter, LongLine

__all__ = ["FileState", "LongLine", "Tail", "WholeFile", "clean"]

_BOM = b"\xef\xbb\xbf"
_STORED_PIECE = 1 << 18
"""Bytes of a compressed file that are read at a time."""


def clean(line: bytes) -> bytes:
    """The line without what log rotation and editors put around it: NULs and a byte order mark before, a CR after."""
    return line.lstrip(b"\0").removeprefix(_BOM).removesuffix(b"\r")


class Tail:
    """The whole lines of a file that may grow, be truncated, rewritten, rotated, or not be there yet.

    At most one line of `max_line` bytes is held; a longer one is let go and reported by `take_skipped`.
    """

    def __init__(self, path: Path, max_line: int = 64 << 20) -> None:
        self.path = path
        self.epoch = 0
        """Grows when the file begins anew: truncated, rewritten, or replaced by another."""
        self.lines_read = 0
        """Lines given, over all epochs."""
        self._max_line = max_line
        self._follower = Follower(path)
        self._skipped: list[LongLine] = []
        self._rotated = False
        """The last of the old file is given: the next read begins the new one."""
        self._start()

    @property
    def offset(self) -> int:
        """Bytes of the (decompressed) stream up to the end of the last whole line that was read."""
        return self._splitter.offset

    @property
    def size(self) -> int:
        """Bytes on disk when last looked at."""
        return self._follower.size

    @property
    def behind(self) -> int:
        """Bytes that could be read now; for a compressed file, stored bytes."""
        pending = self._decoder.pending if self._decoder else 0
        return self._follower.behind + pending + self._splitter.ready

    @property
    def state(self) -> FileState:
        """How the file stands; `note` says more where it needs more."""
        return FileState.ERROR if self._damage else self._follower.state

    @property
    def note(self) -> str:
        """One line: what is wrong, where, what to do. Empty where nothing is."""
        return self._damage or self._follower.note or self._cut_note

    def read(self, budget: int = 1 << 20) -> Lines | None:
        """The next whole lines, from about `budget` bytes; None where nothing is new.

        No lines, yet not None: bytes were read and more may follow at once (a long line, a compressed file).
        """
        if self._rotated:
            self._begin_again()
        queued = self._next()
        if queued is not None:
            return queued
        if self._decode(budget):
            return self._next_or_progress()
        stored = min(budget, _STORED_PIECE) if self._decoder else budget
        piece = self._follower.read(stored)
        if piece is not None and piece.turn is Turn.REWRITTEN:
            self._begin_again()
            piece = self._follower.read(stored)
        if piece is None:
            return None
        if piece.turn is Turn.ROTATED:
            last, self._rotated = self.finish(), True
            return last or self._next_or_progress()
        if self._decoder:
            self._decoder.feed(piece.data)
            self._decode(budget)
        elif not self._damage:
            self._split(piece.data)
        return self._next_or_progress()

    def finish(self) -> Lines | None:
        """The last line, which has no newline, once: for when the source has ended or long stood still."""
        if self._decoder and self._decoder.cut:
            self._cut_note = f"{self.path}: the compressed stream is cut short; what there is of it was read"
        last = self._splitter.finish()
        self.lines_read += last.count if last else 0
        return last

    def take_skipped(self) -> list[LongLine]:
        """Lines past `max_line` since the last call."""
        skipped = self._skipped + self._splitter.take_long()
        self._skipped = []
        return skipped

    def close(self) -> None:
        """Lets go of the file; reading on opens it again."""
        self._follower.close()

    def _start(self) -> None:
        self._splitter = LineSplitter(self._max_line)
        self._leading = True
        self._damage = self._cut_note = ""
        self._decoder: Decoder | None = None
        try:
            self._decoder = decoder_for(self.path)
        except DecodingError as error:
            self._damage = f"{self.path}: {error}"

    def _begin_again(self) -> None:
        self._skipped += self._splitter.take_long()
        self._rotated = False
        self.epoch += 1
        self._start()

    def _decode(self, budget: int) -> bool:
        """Whether plain bytes came out of what was read before."""
        if self._decoder is None:
            return False
        try:
            data = self._decoder.take(budget)
        except DecodingError as error:
            self._damage, self._decoder = f"{self.path}: {error}", None
            return False
        self._split(data)
        return bool(data)

    def _split(self, data: bytes) -> None:
        if self._leading:
            # A writer that goes on where it was before its file was truncated leaves a hole, read as NULs.
            text = data.lstrip(b"\0")
            self._splitter.offset += len(data) - len(text)
            self._leading = not text
            if data and not text and not self._decoder:
                self._splitter.offset += self._follower.skip_hole()
            data = text
        self._splitter.feed(data)

    def _next(self) -> Lines | None:
        lines = self._splitter.take()
        self.lines_read += lines.count if lines else 0
        return lines

    def _next_or_progress(self) -> Lines:
        return self._next() or Lines(self._splitter.offset, [], self._splitter.number + 1)


class WholeFile:
    """A file that is read whole: once it is complete, and again each time it is rewritten."""

    LIMIT = 1 << 30
    """Larger files, stored or decompressed, are an error."""
    QUIET_SECONDS = 0.2
    """A `.json` that has stood still for this long is taken as it is."""
    OLD_SECONDS = 2.0
    """Any other file is taken at the first look if it is this old, else when two looks see it unchanged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch = 0
        """Grows with every rewrite that was given."""
        self.size = 0
        self.state = FileState.WAITING
        self.note = ""
        self._given: tuple[int, ...] = ()
        self._seen: tuple[int, ...] = ()
        self._seen_since = 0.0

    def read(self) -> bytes | None:
        """The content, if it is complete and was not given yet."""
        return self._read(at_any_rate=False)

    def finish(self) -> bytes | None:
        """The content as it is now, if it was not given yet."""
        return self._read(at_any_rate=True)

    def _read(self, *, at_any_rate: bool) -> bytes | None:
        try:
            status = self.path.stat()
            if not stat.S_ISREG(status.st_mode):
                return self._error("not a regular file, so it is not opened")
            self.size = status.st_size
            if (signature := _signature(status)) == self._given:
                return self._waits(FileState.LIVE)
            if self.size > self.LIMIT:
                return self._error(f"{self.size:,} bytes, more than the {self.LIMIT:,} that are read whole")
            unchanged = signature == self._seen
            if not unchanged:
                self._seen, self._seen_since = signature, time.monotonic()
            data = self._content(status, unchanged=unchanged, at_any_rate=at_any_rate)
        except (FileNotFoundError, NotADirectoryError):
            return self._waits(FileState.GONE if self._given else FileState.WAITING)
        except OSError as error:
            return self._error(f"{error.strerror or type(error).__name__}; tried again at every look")
        except DecodingError as error:
            return self._error(str(error))
        if data is None:
            return self._waits(FileState.WAITING)
        self.state, self.note = FileState.LIVE, ""
        self.epoch += bool(self._given)
        self._given = signature
        return data

    def _content(self, status: os.stat_result, *, unchanged: bool, at_any_rate: bool) -> bytes | None:
        """The content if it is complete; raises OSError and DecodingError."""
        kind = _plain_suffix(self.path)
        age = max(time.time() - status.st_mtime, time.monotonic() - self._seen_since)
        with self.path.open("rb", buffering=0) as file:
            if at_any_rate:
                return self._plain(file.read())
            if kind == ".parquet" and not _parquet_is_complete(file.fileno(), self.size):
                return None
            settled = unchanged or age >= self.OLD_SECONDS
            if kind not in {".parquet", ".json"} and not settled:
                return None
            data = file.read()
            if _signature(os.fstat(file.fileno())) != _signature(status):
                return None
        data = self._plain(data)
        return data if kind != ".json" or age >= self.QUIET_SECONDS or _is_json(data) else None

    def _plain(self, data: bytes) -> bytes:
        decoder = decoder_for(self.path)
        if decoder is None:
            return data
        decoder.feed(data)
        pieces, size = [], 0
        while piece := decoder.take(1 << 20):
            size += len(piece)
            if size > self.LIMIT:
                raise DecodingError(f"more than {self.LIMIT:,} bytes once decompressed")
            pieces.append(piece)
        return b"".join(pieces)

    def _waits(self, state: FileState, note: str = "") -> bytes | None:
        self.state, self.note = state, note
        return None

    def _error(self, reason: str) -> bytes | None:
        return self._waits(FileState.ERROR, f"{self.path}: {reason}")


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _plain_suffix(path: Path) -> str:
    """The suffix below a compression's."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in {".gz", ".zst"} else suffix


def _parquet_is_complete(descriptor: int, size: int) -> bool:
    """A parquet file begins with its magic, and is complete when it ends with it as well."""
    return size >= 12 and os.pread(descriptor, 4, 0) == os.pread(descriptor, 4, size - 4) == b"PAR1"


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            loads(data)  # takes NaN and Infinity, which several trainers write
        except (JSONDecodeError, UnicodeDecodeError, RecursionError):
            return False
    return True
