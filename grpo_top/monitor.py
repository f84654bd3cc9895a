"""The engine: sources → formats → history → detectors → Snapshot. It knows no screen and does not sleep.

`Monitor` is driven from one thread; `LiveMonitor` is that thread. What it hands over is the newest `Snapshot`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from grpo_top.bundle import Bundle, bundled
from grpo_top.config import from_table, over
from grpo_top.detectors import BY_ID
from grpo_top.earlier import Earlier
from grpo_top.formats.fleet_queries import NO_FLEETS
from grpo_top.ledger import Ledger
from grpo_top.picture import picture
from grpo_top.reading import NothingReadable, Reading
from grpo_top.records import (
    EVAL,
    REQUEST,
    Eval,
    FleetLook,
    Grade,
    Rollout,
    Run,
    SamplerLook,
    Skipped,
    Step,
)
from grpo_top.reread import raw_row, reread_row
from grpo_top.scan import scan
from grpo_top.since import Since

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grpo_top.behind import Behind
    from grpo_top.bundle import Read
    from grpo_top.config import Settings
    from grpo_top.endpoints import Endpoint
    from grpo_top.formats.fleet_queries import Fleets
    from grpo_top.grade_store import GradeStore
    from grpo_top.grades import HandScore
    from grpo_top.intake import Intake
    from grpo_top.remote import Part
    from grpo_top.snapshot import Snapshot
    from grpo_top.sources.http import Network

__all__ = ["LiveMonitor", "Monitor", "NothingReadable"]

REQUEST_LOGS = frozenset({"requests", "sampling"})
"""Roles of logs whose looks at a sampler show how one request was sampled."""
OLD_SECONDS = 60.0
"""A log whose newest record is older than this when it is opened is not known to be that of a run that goes on."""
ENDED_SECONDS = 600.0
"""A log whose newest record is older than this has ended as far as can be known: its last step is judged as well."""
PICTURE_SECONDS = 0.25
"""Between two pictures of a log that goes on growing."""
LONGEST_HOLD = 0.1
"""Seconds for which the reading waits for a key's answer at most."""
JUDGE_SECONDS = 0.05
"""For which steps that have been read wait to be judged together, while there is more to read."""
TOGETHER = 256
"""Rollouts that are taken in together: what each call costs is then shared by many, and they are still in the cache."""


class Monitor(Reading):
    """Reads what is there and keeps the run's picture up to date."""

    def __init__(
        self,
        where: Sequence[str],
        settings: Settings,
        *,
        format_name: str | None = None,
        clock: Callable[[], float] = time.time,
        grades: GradeStore | None = None,
        run: str | None = None,
        one_run: bool = False,
        network: Network | Callable[[], Network] | None = None,
        samplers: Sequence[str] = (),
        fleets: Fleets = NO_FLEETS,
        since: int | None = None,
        reference: Behind | None = None,
    ) -> None:
        """`since`: the step with which the run begins; what lies before falls. `reference`: what is laid behind it."""
        super().__init__(
            where,
            format_name=format_name,
            wanted=run or settings.run.get("name"),
            one_run=one_run,
            fields=settings.fields,
            clock=clock,
            network=network,
            samplers=samplers,
            fleets=fleets,
        )
        self._own_settings = self._settings = settings
        self._grades = grades
        self._since = None if since is None else Since(since)
        self._reference = reference
        self.ledger = self._new_ledger()
        self._given: deque[tuple[int, HandScore]] = deque()
        """Hand scores that were given from another thread and are not taken in yet."""
        self._gathered: list[tuple[Sequence[Rollout], int, str]] = []
        """Rollouts that were read and are not taken in yet: with their source and writer."""
        self._gathered_rollouts = 0
        self._opened = clock()
        self._unjudged_since = 0.0
        self._epoch = 0
        """See `Snapshot.epoch`."""
        self._earlier: Earlier | None = None
        """What was read before all was read again, until it is known where the two part."""

    def poll(self, seconds: float = 0.05, last: bool = False) -> bool:
        """Read for at most about `seconds`; whether anything new came. `last`: the sources have ended."""
        came = super().poll(seconds, last)
        self._flush()
        while self._given:
            self.ledger.add_hand_score(*self._given.popleft())
        if not came:  # caught up with what is there, so that it is known whether the run goes on
            self.watchlist.consider(self.ledger.run.config, self.ledger.complete)
        changed = self.changed()
        self.ledger.version += changed
        if came or changed:
            self.ledger.last_record_time = self.newest
        if self._is_time_to_judge():
            self.ledger.judge_finished(ended=not came and not self.unfinished and self._has_ended)
        self._compare_with_earlier()
        if self._reference is not None and not self.unfinished and self._reference.poll(seconds):
            self.ledger.version += 1
            return True
        return came

    @property
    def _has_ended(self) -> bool:
        """Whether nothing has been written for so long that no more is to be waited for."""
        newest = self.ledger.last_record_time
        return newest is not None and newest < self._clock() - ENDED_SECONDS

    def _is_time_to_judge(self) -> bool:
        """Once all is read that is there, else now and then: many steps at once are judged in less time than each."""
        now = time.perf_counter()
        if not self._unjudged_since:
            self._unjudged_since = now
        if self.unfinished and now - self._unjudged_since < JUDGE_SECONDS:
            return False
        self._unjudged_since = 0.0
        return True

    def read_all(self) -> None:
        """Read everything that is there, to its end: nothing more will come."""
        super().read_all()
        self.ledger.judge_finished(ended=True)
        if self._reference is not None:
            self._reference.read_all()

    def snapshot(self, finished: bool = False) -> Snapshot:
        """The run's picture now."""
        history, intakes = self.ledger.history, self._intakes
        found = picture(
            self.ledger,
            now=self._clock(),
            finished=finished,
            reading=self.reading,
            sources=self.sources(),
            left_out=self.left_out(),
            read=lambda row: reread_row(history, intakes, row),
            scan=lambda rows, literals: scan(history, intakes, rows, literals),
            grade=self.grade,
            raw=lambda row: raw_row(history, intakes, row),
        )
        if self._epoch or self.let_go:
            found = replace(found, epoch=self._epoch, let_go=self.let_go)
        if self._since is not None:
            found = replace(found, run=replace(found.run, since=self._since.step))
        if self._reference is not None:
            found = replace(found, reference=self._reference.under(found.series))
        return found

    def close(self) -> None:
        """Watch and ask nothing more; what was read can still be looked at."""
        super().close()
        if self._reference is not None:
            self._reference.close()

    def grade(self, row: int, score: HandScore) -> str:
        """Take a hand score of a row: the next poll counts it. Why it could not be kept, else empty; any thread."""
        self._given.append((row, score))
        self.tree.ring()
        return "" if self._grades is None else self._grades.keep(score)

    def watch_silence(self) -> None:
        """Judge how long nothing has come, for a run that is being followed.

        A log that was old when it was opened may be that of a run which has ended: it is quiet, and not stalled.
        """
        newest = self.ledger.last_record_time
        if newest is not None and newest > self._opened - OLD_SECONDS:
            self.ledger.watch_silence(self._clock())

    def _judge_by(self, settings: Mapping[str, Any], origin: str) -> None:
        told = over(from_table(settings, BY_ID, origin), self._own_settings)
        if told != self._settings:
            self._settings = told
            self._start_over()

    def _start_over(self) -> None:
        super()._start_over()
        before = self.ledger
        self._gathered, self._gathered_rollouts = [], 0
        if self._since is not None:
            self._since = Since(self._since.step)
        self._epoch += 1
        self._earlier = self._earlier or Earlier(before.table.view())
        self.ledger = self._new_ledger()
        self.ledger.version = before.version + 1

    def _compare_with_earlier(self) -> None:
        """Once all is read again, see where it goes another way than it did."""
        if self._earlier is not None and not self.unfinished:
            judged = self.ledger.judge.state.step
            again = None if judged is None else self._earlier.parts_at(self.ledger.table.view(), judged)
            if again is not None:
                self.ledger.note_restart(again, self._earlier.reached)
                self.ledger.judge_finished()
            if again is not None or self._earlier.is_over:
                self._earlier = None

    def _new_ledger(self) -> Ledger:
        return Ledger(self._settings, () if self._grades is None else self._grades.load())

    def _begin_again(self, intake: Intake | Endpoint | Part) -> None:
        """The file was rewritten: what it held falls, at once or as it comes again."""
        self._flush()
        if self._since is not None:
            self._since.begin_again(intake.number)
        if intake.rewritten or intake.claim.anew:
            self.ledger.forget(intake.number, intake.where)
        else:
            self.ledger.history.begin_again(intake.number)

    def _take(self, intake: Intake | Endpoint | Part, records: Sequence[Read]) -> None:
        ledger = self.ledger
        if self._since is not None:
            records = self._since.kept(intake.number, records)
        if ledger.run.framework is None and self._context.framework:
            ledger.add_run(Run(framework=self._context.framework))
        rollouts: list[Rollout] = []
        looks: list[SamplerLook] = []
        if set(map(type, records)) == {Rollout}:
            rollouts, records = records, []  # type: ignore[assignment]
        for record in records:
            if type(record) is Rollout:
                rollouts.append(record)
                continue
            match record:
                case Bundle():
                    self._gather(rollouts, intake)
                    self._gather(record, intake)
                    rollouts = []
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
                case SamplerLook() if intake.claim.role in REQUEST_LOGS:
                    looks.append(record)
                case SamplerLook():
                    # It is of the newest step, so what came before it comes first.
                    self._gather(rollouts, intake)
                    self._flush()
                    rollouts = []
                    ledger.add_look(record, intake.number)
                case FleetLook():
                    ledger.add_fleet(record)
                case Skipped():
                    self._gather(rollouts, intake)
                    rollouts = []
                    ledger.add_skipped(intake.named(record), self._newest_gathered())
                case Grade():
                    ledger.add_grade(record, intake.number)
        if looks:
            ledger.add_looks(looks, intake.number, intake.claim.writer)
        self._gather(rollouts, intake)

    def _gather(self, rollouts: Sequence[Rollout], intake: Intake | Endpoint | Part) -> None:
        """Take rollouts in together with others."""
        if rollouts:
            self._gathered.append((rollouts, intake.number, intake.claim.writer))
            self._gathered_rollouts += len(rollouts)
        if self._gathered_rollouts >= TOGETHER:
            self._flush()

    def _newest_gathered(self) -> int:
        """The newest step that gathered rollouts train; 0 where there is none."""
        bundles = (bundled(rollouts) for rollouts, *_ in self._gathered)
        steps = chain.from_iterable(zip(one.steps, one.column("split"), strict=True) for one in bundles)
        return max((step for step, split in steps if split not in (EVAL, REQUEST)), default=0)

    def _flush(self) -> None:
        """Take the rollouts in that were gathered."""
        if self._gathered:
            self.ledger.add_rollouts_of_several(self._gathered)
            self._gathered, self._gathered_rollouts = [], 0


class LiveMonitor(threading.Thread):
    """The monitor's own thread: reads as things appear and hands over the newest Snapshot."""

    def __init__(
        self, monitor: Monitor, on_snapshot: Callable[[Snapshot], None], poll_seconds: float = 0.25
    ) -> None:
        super().__init__(name="grpo-top monitor", daemon=True)
        self.monitor = monitor
        self._on_snapshot = on_snapshot
        self._poll_seconds = poll_seconds
        self._stopping = threading.Event()
        self._may_read = threading.Event()
        self._may_read.set()
        self.error: BaseException | None = None
        self.caught_up = False
        """Whether all that was there has been read once."""
        self._published = -1
        """The version of the newest Snapshot, and below it when it was handed over."""
        self._published_at = 0.0
        self._reads_since = 0.0
        """When the last wait ended."""

    def run(self) -> None:
        """Read until stopped. An error ends the reading and is kept in `error`."""
        try:
            self._on_snapshot(self.monitor.snapshot())
            while not self._stopping.is_set():
                if not self._may_read.wait(LONGEST_HOLD):
                    self.go_on()
                came = self.monitor.poll(0.01)
                self.monitor.watch_silence()
                if self.monitor.ledger.version != self._published and self._is_time(came):
                    self._published = self.monitor.ledger.version
                    self._on_snapshot(self.monitor.snapshot())
                    self._published_at = time.monotonic()
                self.caught_up = self.caught_up or not self.monitor.unfinished
                self._rest(came)
        except Exception as error:
            self.error = error

    def _is_time(self, came: bool) -> bool:
        """Whether to hand a picture over: once all is read that is there, else a few times a second."""
        if not came:
            return True
        begun = self._reads_since if self.monitor.unfinished else 0.0
        return time.monotonic() - max(self._published_at, begun) > PICTURE_SECONDS

    def _rest(self, came: bool) -> None:
        """Wait for what is to be read next."""
        if came and self.monitor.unfinished:
            self._stopping.wait(0)
        elif came:
            self._stopping.wait(self._pause())
            self.monitor.wait(0)  # which files have changed meanwhile
        else:
            self.monitor.wait(self._poll_seconds)
            self._reads_since = time.monotonic()

    def hold(self) -> None:
        """Read nothing for a moment: whoever waits for a key's answer needs the processor more."""
        self.monitor.in_the_way = True
        self._may_read.clear()

    def go_on(self) -> None:
        """Read on after `hold`; it goes on by itself after LONGEST_HOLD seconds."""
        self.monitor.in_the_way = False
        self._may_read.set()

    def _pause(self) -> float:
        """Seconds until more is read of a run that is growing: the more files, the more is gathered first."""
        return min(self._poll_seconds, 0.02 + self.monitor.files / 1000)

    def stop(self) -> None:
        """Stop reading; returns once the thread has ended."""
        self._stopping.set()
        self.go_on()
        self.monitor.tree.ring()
        self.join(timeout=2)
        self.monitor.close()
