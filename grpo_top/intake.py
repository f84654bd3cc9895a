"""One source: a file that is tailed, the format that reads it, and what has come of it so far."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from grpo_top import defects
from grpo_top.bundle import Bundle
from grpo_top.completions import text_key
from grpo_top.formats.choice import NOT_READ, is_read
from grpo_top.formats.registry import FORMATS, choose
from grpo_top.records import Rollout, Skipped, Step
from grpo_top.snapshot import SkippedRecord, SourceFacts
from grpo_top.sources.access import read_head, read_range, read_whole
from grpo_top.sources.database import MAGIC, head_of_database
from grpo_top.sources.files import Tail, WholeFile
from grpo_top.sources.pieces import ByteTail
from grpo_top.sources.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grpo_top.bundle import Read
    from grpo_top.formats.base import Claim, Format, Reader, RunContext
    from grpo_top.records import Location
    from grpo_top.sources.lines import Lines

HEAD_BYTES = 64 << 10
STANDS_STILL_SECONDS = 5.0
WITH_STEP = (Rollout, Step)
LAST_LINE_CUT = "its last line is not whole yet"
PIECE_BYTES = 3 << 17
"""Read at once: a few milliseconds of work. Larger pieces leave the processor's cache, and of smaller ones the lines
are too few to share what parsing and taking them in costs by itself: the code for that is out of the cache each time.
"""


class Intake:
    """Turns one file's bytes into records as they appear."""

    def __init__(
        self, number: int, path: Path, where: str, format_: Format, claim: Claim, context: RunContext
    ) -> None:
        self.number = number
        self.path = path
        self.where = where
        self.format = format_
        self.claim = claim
        self.records = 0
        self.skipped = 0
        self.reader: Reader = format_.reader(path, claim, context)
        self._context = context
        kinds: dict[str, type[Tail | ByteTail | Store]] = {
            "lines": Tail,
            "bytes": ByteTail,
            "database": Store,
        }
        self._file: Tail | ByteTail | Store | WholeFile = kinds.get(claim.feed, WholeFile)(path)
        self._epoch = self._file.epoch
        self._quiet_since: float | None = None
        self._cut = False
        self._is_read: bool | None = None
        """Whether it is of the run that is read; None until all files that are there have been found."""
        self._defect = ""
        """What is said of a failure of our own, since which the file is not read."""
        self.quiet_looks = 0
        """Looks in a row after which nothing was left to read."""
        self.written: float | None = None
        """See `SourceFacts.written`."""
        self._followed = False
        """Whether all that lay there when it was found has been read."""
        self.rewritten = False
        """Set when the file was replaced by a new version of itself, whose records take the place of the old."""
        self.new_epoch = False
        """Set when a tailed file began anew; its earlier records stand until they come again."""
        self.written_anew = False
        """Set when what was just read shows that the file holds the run from its beginning once more: what it held
        before is no more true."""
        self.rotated = False
        """Whether it began anew and went on where it had been: what it held cannot be read again."""
        self._steps = Course()

    @property
    def behind(self) -> int:
        """Bytes on disk that have not been read yet."""
        return self._file.behind if self._is_read and isinstance(self._file, Tail | ByteTail) else 0

    @property
    def caught_up(self) -> bool:
        """Whether the last slice was certainly the last of what is there: looking again at once finds nothing."""
        return isinstance(self._file, Tail | ByteTail) and not self._file.behind

    @property
    def size(self) -> int:
        """Bytes on disk as last seen."""
        return self._file.size

    def anew(self) -> Intake:
        """The same file, of which nothing has been read; this one lets go of it."""
        if isinstance(self._file, Tail | ByteTail):
            self._file.close()
        return Intake(self.number, self.path, self.where, self.format, self.claim, self._context)

    def read(self, last: bool = False) -> Sequence[Read] | None:
        """The records of the next slice, None where there is nothing new. `last`: the source has ended."""
        records = None
        before = self._file.state
        try:
            if not self._defect:
                records = self._look(last)
        except Exception as error:  # one source that fails must not take the others with it
            self._defect = defects.defect(self.where, error, "is not read any further")
        if self._file.state is not before:
            defects.info("%s is %s %s", self.path, self._file.state, self._file.note)
        if records is not None:
            self._follow_steps(records)
        self.quiet_looks = self.quiet_looks + 1 if records is None else int(self.caught_up)
        self._followed = self._followed or records is None
        return records

    def hear(self, now: float, last: bool = False) -> None:
        """Note when what was just read was written: what comes while the file is followed, now; what lay there
        before, or is taken because nothing more will come, when the file was last written to.
        """
        written = now
        if last or not self._followed:
            with suppress(OSError):
                written = min(now, self.path.stat().st_mtime)
        self.written = written if self.written is None else max(self.written, written)

    def _follow_steps(self, records: Sequence[Read]) -> None:
        """See by the steps what a new beginning of the file means."""
        if self.new_epoch:
            self._steps.begins_anew = True
        if self.rewritten:
            self.written_anew = self._steps.falls_short(records)
            return
        self.written_anew = self._steps.take(records)
        self.rotated = self._steps.went_on and not self.claim.anew

    def _look(self, last: bool) -> Sequence[Read] | None:
        self.rewritten = self.new_epoch = False
        if self._is_read is None:
            self._is_read = is_read(self._context, self.path)
        if not self._is_read:
            return None
        if isinstance(self._file, Tail):
            return self._read_lines(self._file, last)
        if isinstance(self._file, ByteTail):
            return self._read_bytes(self._file, last)
        if isinstance(self._file, Store):
            return self._read_store(self._file, last)
        data = self._file.finish() if last else self._file.read()
        if data is None:
            return None
        if self._file.epoch != self._epoch:
            self._epoch, self.rewritten = self._file.epoch, self.records + self.skipped > 0
            self.records = self.skipped = 0
            self.reader = self.format.reader(self.path, self.claim, self._context)
        return self._count(self.reader.whole(data))

    def find(self, location: Location) -> Rollout | None:
        """The rollout that lies there, with its text; OSError where it cannot be read."""
        if self.claim.feed == "database":
            return self.reader.find(self.path, location)
        offset, length = location.offset, location.length
        data = read_range(self.path, offset, length) if length else read_whole(self.path)
        return self.reader.replay(data, location)

    def raw(self, location: Location) -> bytes | None:
        """The line that a rollout was read from; None where it is no line of a text file. Raises as `find` does."""
        if self.claim.feed != "lines" or not location.length:
            return None
        return read_range(self.path, location.offset, location.length)

    def text_key(self, completion: str) -> int:
        """The value of the column `text` for a rollout of this source with that completion."""
        return text_key(completion)

    def facts(self) -> SourceFacts:
        """What the screen and `inspect` show of this source."""
        left_out = self._is_read is False
        return SourceFacts(
            where=self.where,
            path=str(self.path),
            format=self.format.name,
            role=self.claim.role,
            records=self.records,
            bytes=self._file.size,
            skipped=self.skipped,
            state="left out" if left_out else "error" if self._defect else str(self._file.state),
            note=NOT_READ
            if left_out
            else self._defect or self._file.note or self.reader.note or (LAST_LINE_CUT if self._cut else ""),
            fields=self.reader.fields,
            written=self.written,
        )

    def named(self, skipped: Skipped) -> SkippedRecord:
        """A skipped record with the file that it is in."""
        return SkippedRecord(self.where, skipped.offset, skipped.line, skipped.reason)

    def _read_lines(self, tail: Tail, last: bool) -> Sequence[Read] | None:
        lines = tail.read(PIECE_BYTES)
        records: list[Read] = _too_long(tail)
        if tail.epoch != self._epoch:
            self._epoch = tail.epoch
            self.new_epoch = self.records + self.skipped > 0
            if self.claim.anew:
                self.records = self.skipped = 0
            records += self.reader.end()
            self.reader = self.format.reader(self.path, self.claim, self._context)
        if lines is not None:
            self._quiet_since, self._cut = None, False
            records += self.reader.together(lines)
        elif last or self._stands_still():
            final = self._unfinished_line(tail)
            records += _too_long(tail)
            if final is not None:
                records += self.reader.together(final)
            records += self.reader.end() if last else self.reader.idle()
        if lines is None and not records and not self.new_epoch:
            return None
        return self._count(records)

    def _read_bytes(self, tail: ByteTail, last: bool) -> Sequence[Read] | None:
        piece = tail.read(PIECE_BYTES)
        records: list[Read] = []
        if tail.epoch != self._epoch:
            self._epoch = tail.epoch
            self.new_epoch = self.records > 0
            records += self.reader.end()
            self.reader = self.format.reader(self.path, self.claim, self._context)
        if piece is None:
            return self._waiting(last)
        self._quiet_since = None
        return self._count([*records, *self.reader.feed_bytes(piece.offset, piece.data)])

    def _read_store(self, store: Store, last: bool) -> Sequence[Read] | None:
        records = store.look(lambda: self.reader.poll(self.path, last))
        if not records:
            return self._waiting(last)
        self._quiet_since = None
        return self._count(records)

    def _waiting(self, last: bool) -> Sequence[Read] | None:
        """What the reader holds back for more to come, once nothing has come for a while, or nothing will."""
        records = self.reader.end() if last else []
        if not last and self._stands_still():
            records = self.reader.idle()
        return self._count(records) if records else None

    def _stands_still(self) -> bool:
        """Whether nothing has come for a while; said once for each time that something had come."""
        now = time.monotonic()
        if self._quiet_since is None:
            self._quiet_since = now
        if now - self._quiet_since < STANDS_STILL_SECONDS:
            return False
        self._quiet_since = math.inf
        return True

    def _unfinished_line(self, tail: Tail) -> Lines | None:
        """The last line, without its newline, where it can be read as it is: else it is still being written."""
        final = tail.finish()
        if final is None:
            return None
        self._cut = any(type(record) is Skipped for record in self.reader.fresh().feed(final))
        return None if self._cut else final

    def _count(self, read: Sequence[Read]) -> Sequence[Read]:
        kinds = list(map(type, read))
        skipped = kinds.count(Skipped)
        self.skipped += skipped
        self.records += len(read) - skipped
        if Bundle in kinds:
            self.records += sum(len(one) - 1 for one in read if type(one) is Bundle)
        return read


class Course:
    """How the steps of one file go."""

    def __init__(self) -> None:
        self.begins_anew = False
        """The file has begun anew, and its first step since is not known yet."""
        self.went_on = False
        """It has begun anew with a later step than that with which it first began."""
        self._first: int | None = None
        self._newest: int | None = None

    def take(self, read: Sequence[Read]) -> bool:
        """Take in what came next of a file; whether it is the first of a file that begins where it first began."""
        newest = next((steps[-1] for one in reversed(read) if (steps := _steps(one))), None)
        if newest is None:
            return False
        again = False
        if self._first is None or self.begins_anew:
            first = next(steps[0] for one in read if (steps := _steps(one)))
            if self._first is None:
                self._first = first
            elif first > self._first:
                self.went_on = True
            else:
                again = self._first < (self._newest or 0)
            self.begins_anew = False
        self._newest = newest
        return again

    def falls_short(self, read: Sequence[Read]) -> bool:
        """Take in the whole of a file that was rewritten; whether it ends before the step that it had reached."""
        before = self._newest
        self._newest = max((max(steps) for one in read if (steps := _steps(one))), default=None)
        return before is not None and self._newest is not None and self._newest < before


def _steps(one: Read) -> Sequence[int]:
    """The steps that it is of, in order."""
    if type(one) is Bundle:
        return one.steps
    return (one.step,) if isinstance(one, WITH_STEP) else ()


def _too_long(tail: Tail) -> list[Read]:
    """The lines that were let go since the last call."""
    return [
        Skipped(f"line of {long.length:,} bytes, longer than is read", long.offset)
        for long in tail.take_skipped()
    ]


def recognise(
    path: Path, only: str | None, formats: Sequence[Format] = FORMATS
) -> tuple[Format, Claim] | None:
    """The format that reads a file, by its first bytes; None where none does, or where it is still empty."""
    head = read_head(path, HEAD_BYTES)
    if head.startswith(MAGIC):
        head = head_of_database(path)
    return choose(path, head, only, formats) if head else None
