"""The engine: sources → formats → history → detectors → Snapshot. It knows no screen and does not sleep.

`Monitor` is driven from one thread; `LiveMonitor` is that thread. What it hands over is the newest `Snapshot`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from grpo_top.formats.base import RunContext
from grpo_top.intake import Intake, recognise
from grpo_top.ledger import Ledger
from grpo_top.picture import picture
from grpo_top.records import Eval, Rollout, Run, SamplerLook, Skipped, Step
from grpo_top.reread import reread
from grpo_top.sources.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from grpo_top.config import Settings
    from grpo_top.records import Record
    from grpo_top.snapshot import Gone, Snapshot

SCAN_SECONDS = 1.0
SMALL_FILE = 64 << 10
TOGETHER = 128
"""Rollouts that are taken in together: what each call costs is then shared by many, and they are still in the cache."""
FILES_AT_ONCE = 64
"""Files that are looked at in every poll; of more than that, those that are quiet take turns."""
QUIET_LOOKS = 40
"""Looks in a row that found nothing new, from which on a file counts as quiet."""
TURNS = 64
"""A quiet file is looked at in one of that many polls at least."""
SURE = 50
"""Confidence from which on a file that needs no reading is not looked at again."""


class NothingReadable(Exception):
    """No file of a known format was found: one line that says what was looked for and where."""


class Monitor:
    """Reads what is there and keeps the run's picture up to date."""

    def __init__(
        self,
        where: Sequence[str],
        settings: Settings,
        *,
        format_name: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.where = tuple(where)
        self.tree = Tree(where)
        self.ledger = Ledger(settings)
        self._format_name = format_name
        self._clock = clock
        self._context = RunContext(wanted=settings.run.get("name"))
        self._intakes: list[Intake] = []
        """By number, in the order in which they were found."""
        self._order: list[Intake] = []
        """In the order in which they are read."""
        self._unknown: dict[Path, int] = {}
        """Files that no format reads, as far as is known → the size at which they were last looked at."""
        self._of_no_interest: set[Path] = set()
        """Those of them that a format knows, and need not be told of."""
        self._next_scan = 0.0
        self._turn = 0
        self._polls = 0
        self._gathered: list[tuple[list[Rollout], int, str]] = []
        """Rollouts that were read and are not taken in yet: with their source and writer."""
        self.unfinished = False
        """Whether the last poll ended before all that is there was read."""

    def poll(self, seconds: float = 0.05, last: bool = False) -> bool:
        """Read for at most about `seconds`; whether anything new came. `last`: the sources have ended."""
        now = self._clock()
        if last or now >= self._next_scan:
            self._scan()
            self._next_scan = now + SCAN_SECONDS
        deadline = time.perf_counter() + seconds
        came = self.unfinished = False
        turns = len(self._order)
        self._polls += 1
        every = 1 if last else min(TURNS, 1 + turns // FILES_AT_ONCE)
        for _ in range(turns):
            intake = self._order[self._turn % turns]
            if intake.quiet_looks >= QUIET_LOOKS and (self._turn + self._polls) % every:
                self._turn = (self._turn + 1) % turns
                continue
            in_time = True
            while in_time and (records := intake.read(last)) is not None:
                came = True
                if intake.rewritten or intake.new_epoch:
                    self._flush()
                    self._begin_again(intake)
                self._take(intake, records)
                in_time = time.perf_counter() <= deadline
            if not in_time:
                self.unfinished = True
                break
            self._turn = (self._turn + 1) % turns
        self._flush()
        if came:
            self.ledger.last_record_time = now
        self.ledger.judge_finished()
        return came

    def read_all(self) -> None:
        """Read everything that is there, to its end: nothing more will come."""
        while self.poll(seconds=1.0):
            pass
        while self.poll(seconds=1.0, last=True):
            pass
        self.ledger.judge_finished(ended=True)

    def snapshot(self, finished: bool = False) -> Snapshot:
        """The run's picture now."""
        total = sum(intake.size for intake in self._intakes)
        behind = sum(intake.behind for intake in self._intakes)
        return picture(
            self.ledger,
            now=self._clock(),
            finished=finished,
            reading=1 - behind / total if behind and total else None,
            sources=tuple(intake.facts() for intake in self._intakes),
            left_out=(*self.tree.left_out, *self._unread()),
            read=self._read,
        )

    @property
    def files(self) -> int:
        """Sources that are read."""
        return len(self._intakes)

    def watch_silence(self) -> None:
        """Judge how long nothing has come, for a run that is being followed."""
        self.ledger.watch_silence(self._clock())

    def require_readable(self) -> None:
        """Raise NothingReadable where no file of a known format was found."""
        if self._intakes:
            return
        if self.tree.missing:
            raise NothingReadable(f"{', '.join(self.tree.missing)}: no such file, directory or URL")
        looked = len(self._unknown)
        where = " ".join(self.where)
        raise NothingReadable(
            f"{where}: no log of a known trainer among {looked} file{'s' if looked != 1 else ''}; "
            f"looked for grpo-top/1, TRL and verl logs (see `grpo-top inspect {where}`)"
        )

    def _scan(self) -> None:
        new = self.tree.scan()
        grown = [path for path, size in self._unknown.items() if size < SMALL_FILE and _size(path) != size]
        for path in (*new, *grown):
            found = recognise(path, self._format_name)
            if found is None or found[1].feed == "none":
                # It is looked at again while it is so small that its first bytes may not have said what it is.
                if found is None or found[1].confidence < SURE:
                    self._unknown[path] = _size(path)
                if found is not None:
                    self._of_no_interest.add(path)
                continue
            self._unknown.pop(path, None)
            format_, claim = found
            self._intakes.append(
                Intake(len(self._intakes), path, self._name(path), format_, claim, self._context)
            )
        if len(self._order) < len(self._intakes):
            self._order = sorted(self._intakes, key=lambda intake: (intake.claim.order, intake.number))

    def _read(self, row: int) -> Rollout | Gone:
        source = int(self.ledger.history.columns["source"].view()[row])
        return reread(self.ledger.history, self._intakes[source], row)

    def _name(self, path: Path) -> str:
        root = self.tree.root
        return str(path.relative_to(root)) if path.is_relative_to(root) and path != root else path.name

    def _unread(self) -> tuple[str, ...]:
        unread = [path for path in self._unknown if path not in self._of_no_interest]
        return tuple(f"{self._name(path)}: no known format" for path in unread[:20])

    def _begin_again(self, intake: Intake) -> None:
        """The file was rewritten: what it held falls, at once or as it comes again."""
        if intake.rewritten or intake.claim.anew:
            self.ledger.forget(intake.number)
        else:
            self.ledger.history.begin_again(intake.number)

    def _take(self, intake: Intake, records: list[Record]) -> None:
        ledger = self.ledger
        if ledger.run.framework is None and self._context.framework:
            ledger.add_run(Run(framework=self._context.framework))
        rollouts: list[Rollout] = []
        looks: list[SamplerLook] = []
        for record in records:
            if type(record) is Rollout:
                rollouts.append(record)
                continue
            match record:
                case Step():
                    ledger.add_step(record, intake.claim.writer + record.writer, intake.format.name)
                case Run():
                    # What it changes holds from the step after the rollouts before it on.
                    self._gather(rollouts, intake)
                    self._flush()
                    rollouts = []
                    ledger.add_run(record)
                case Eval():
                    ledger.add_eval(record)
                case SamplerLook():
                    looks.append(record)
                case Skipped():
                    ledger.add_skipped(intake.named(record))
                case _:
                    pass  # hand scores come with the grading screen
        if looks:
            ledger.add_looks(looks, intake.number, intake.claim.writer)
        self._gather(rollouts, intake)

    def _gather(self, rollouts: list[Rollout], intake: Intake) -> None:
        """Take rollouts in together with others."""
        if rollouts:
            self._gathered.append((rollouts, intake.number, intake.claim.writer))
        if sum(len(part) for part, _, _ in self._gathered) >= TOGETHER:
            self._flush()

    def _flush(self) -> None:
        """Take the rollouts in that were gathered."""
        if self._gathered:
            self.ledger.add_rollouts_of_several(self._gathered)
            self._gathered = []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


class LiveMonitor(threading.Thread):
    """The monitor's own thread: reads as things appear and hands over the newest Snapshot."""

    def __init__(
        self, monitor: Monitor, on_snapshot: Callable[[Snapshot], None], poll_seconds: float = 0.25
    ) -> None:
        super().__init__(name="grpo-top monitor", daemon=True)
        self._monitor = monitor
        self._on_snapshot = on_snapshot
        self._poll_seconds = poll_seconds
        self._stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Read until stopped. An error ends the reading and is kept in `error`."""
        try:
            self._on_snapshot(self._monitor.snapshot())
            published = -1
            last_time = 0.0
            while not self._stopping.is_set():
                came = self._monitor.poll(0.03)
                self._monitor.watch_silence()
                now = time.monotonic()
                version = self._monitor.ledger.version
                if version != published and (not came or now - last_time > 0.25):
                    self._on_snapshot(self._monitor.snapshot())
                    published, last_time = version, now
                if not came:
                    self._monitor.tree.wait(self._poll_seconds)
                else:
                    self._stopping.wait(0 if self._monitor.unfinished else self._pause())
        except Exception as error:
            self.error = error

    def _pause(self) -> float:
        """Seconds until more is read of a run that is growing: the more files, the more is gathered first."""
        return min(self._poll_seconds, 0.02 + self._monitor.files / 1000)

    def stop(self) -> None:
        """Stop reading; returns once the thread has ended."""
        self._stopping.set()
        self.join(timeout=2)
        self._monitor.tree.close()
