"""What is known of one run: rollouts, the trainer's numbers, evaluations, and the verdicts on finished steps."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from grpo_top.batch import Batch
from grpo_top.bound import Bound
from grpo_top.bundle import bundled
from grpo_top.declared import RunStates
from grpo_top.detectors import ALL
from grpo_top.encode import SPLIT_EVAL, SPLIT_REQUEST, SPLIT_TRAIN, SPLIT_UNSURE
from grpo_top.evals import Evals
from grpo_top.facts import RunChange, RunState, StepFacts
from grpo_top.fleet import Fleet
from grpo_top.formats.registry import TRACKERS
from grpo_top.hand_scoring import HandScoring
from grpo_top.history import History
from grpo_top.measure import measure
from grpo_top.pace import StepPace
from grpo_top.records import EVAL, REQUEST, Rollout
from grpo_top.samplers import NO_SERVERS, Samplers
from grpo_top.table import ROLLOUTS, SAMPLERS, TRAINER, StepTable
from grpo_top.trainer_metrics import TrainerMetrics
from grpo_top.unreadable import Unreadable
from grpo_top.verdicts import Judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.config import Settings
    from grpo_top.grades import HandScore
    from grpo_top.records import Eval, FleetLook, Grade, Run, SamplerLook, Step
    from grpo_top.snapshot import Series, SkippedRecord

Noted = TypeVar("Noted")

LONGEST_GAP = 25
"""A trainer's row stands for at most this many optimizer steps."""
DISAGREES = 1e-3
"""Relative difference of a component's mean from the trainer's by which rollouts are seen not to be the step's own."""

_OF_ANY_FRAMEWORK = ("grpo-top", "native", "console", "trl", *(tracker.name for tracker in TRACKERS))
"""Formats whose words are those of the run's own framework; TRL's files are also written by what builds on it."""


class Ledger:
    """Takes records in, in any order, and judges the steps that are finished."""

    def __init__(self, settings: Settings, kept: Iterable[HandScore] = ()) -> None:
        self.history = History()
        self.bound = Bound(settings.rollouts_held)
        self.hand_scoring = HandScoring(kept)
        self.table = StepTable()
        self.evals = Evals()
        self._runs = RunStates(settings.run)
        detectors = [detector for detector in ALL if settings.enabled(detector.id)]
        self.judge = Judge(detectors, {detector.id: settings.values(detector.id) for detector in detectors})
        self.unreadable = Unreadable()
        self.last_record_time: float | None = None
        self.version = 0
        """Grows with every change."""
        self.metrics = TrainerMetrics(settings.names)
        self._pace = StepPace()
        self._ranks: dict[int, int] = {}
        """Step → the highest rank that its trainer's numbers came with."""
        self._changes: dict[int, list[RunChange]] = defaultdict(list)
        self._restarts: dict[int, int] = {}
        self._dirty: int | None = None
        """The earliest step about which something changed since it was judged, where it was."""
        self._open_end: int | None = None
        """The last step of the table when it was judged: it took in what evaluations there were past it."""
        self._newest: int | None = None
        self._eval_series: Mapping[str, Series] | None = None
        self._trains = False
        """Whether a trainer's own records have been seen."""
        self.samplers = Samplers()
        self.fleet = Fleet()
        self._measured = -math.inf
        """The last step that was ever judged."""
        self._without_steps = False
        """Whether what was judged is servers alone, for want of any step."""

    @property
    def run(self) -> RunState:
        """What is declared of the run, as it holds now."""
        return self._runs.latest

    def add_rollouts(self, rollouts: Sequence[Rollout], source: int, writer: str) -> None:
        """Take rollouts of one source in. An engine's requests make no steps where a trainer does."""
        self.add_rollouts_of_several([(rollouts, source, writer)])

    def add_rollouts_of_several(self, parts: Sequence[tuple[Sequence[Rollout], int, str]]) -> None:
        """As `add_rollouts`, of several sources: each part's rollouts, source and writer."""
        self.version += 1
        row = self.history.length
        parts = self.bound.in_time(
            [(bundled(rollouts), source, writer) for rollouts, source, writer in parts if rollouts]
        )
        if not parts:
            return
        added = self.history.add_of_several([(rollouts, source) for rollouts, source, _ in parts])
        self.hand_scoring.book.meet(added, row, self.history)
        steps, splits, start = added.steps, added.column("split"), 0
        for rollouts, _, writer in parts:
            stop = start + len(rollouts)
            self._count(steps[start:stop], splits[start:stop], writer)
            start = stop

    def _count(self, steps: Sequence[int], splits: Sequence[str | None], writer: str) -> None:
        """Note which steps the rollouts of one writer belong to."""
        touched = _counted(steps, splits)
        counts: dict[int, int] = defaultdict(int)
        for (step, split), count in touched.items():
            if split == EVAL:
                self.evals.rollout_steps.add(step)
            elif split != REQUEST:
                self._trains = True
                counts[step] += count
            elif not self._trains:
                counts[step] += count
        for step in sorted({step for step, _ in touched}):
            if step in self.evals.rollout_steps:
                self._eval_series = None
            if step in counts:
                self.table.row(step)
                self._note(writer, step, counts[step])
            elif step in self.evals.rollout_steps:
                self._mark_evaluation(step)
            elif self.judge.state.step is not None and step <= self.judge.state.step:
                self._mark(step)

    def add_look(self, look: SamplerLook, source: int) -> None:
        """Take a look at an inference server in, as of the newest step: it does not say its own."""
        self.version += 1
        since = self.samplers.take(look, self._newest, source)
        if since is not None:
            self._mark(since)

    def add_looks(self, looks: Sequence[SamplerLook], source: int, writer: str) -> None:
        """Take in how single requests were sampled, each as a request of the newest step: they do not say theirs."""
        step = 0 if self._newest is None else self._newest
        self.add_rollouts(
            [
                Rollout(
                    step,
                    None,
                    None,
                    split=REQUEST,
                    sampling=look.sampling,
                    sampler=look.sampler,
                    time=look.time,
                )
                for look in looks
            ],
            source,
            writer,
        )

    def add_fleet(self, look: FleetLook) -> None:
        """Take in what a Prometheus server says of all samplers."""
        if self.fleet.take(look, self._newest):
            self.version += 1

    def add_step(self, record: Step, writer: str, framework: str) -> None:
        """Take the trainer's own numbers of a step in; a number of a higher rank stays."""
        self.version += 1
        values = self.metrics.take(self._framework(framework), record)
        if not values:
            return
        self._trains = True
        rank = self._ranks.get(record.step, -1)
        known = self.table.of_origin(record.step, TRAINER) if rank >= 0 else {}
        if record.rank < rank:
            values = {name: value for name, value in values.items() if name not in known}
        self._ranks[record.step] = max(rank, record.rank)
        changed = (
            {name: value for name, value in values.items() if known.get(name) != value} if known else values
        )
        if changed:
            self.table.set(record.step, TRAINER, changed)
            if record.step in self.evals.rollout_steps:
                self._eval_series = None
            if known and record.rank == rank and (reached := self._pace.newest(writer)) > record.step:
                self._restarts.setdefault(record.step, reached)
        late = self._pace.note(writer, record.step, 1)
        if late and changed and record.step >= self.bound.first:
            self._mark(record.step)
        self._newest = record.step if self._newest is None else max(self._newest, record.step)

    def add_eval(self, record: Eval) -> None:
        """Take one held-out evaluation in."""
        self.version += 1
        if self.evals.add(record):
            self._eval_series = None
            self._mark_evaluation(record.step)

    def add_hand_score(self, row: int, score: HandScore) -> None:
        """Take the hand score of a row in."""
        self.version += 1
        self.hand_scoring.book.add(row, score)

    def add_grade(self, record: Grade, source: int) -> None:
        """Take a hand score in that a log holds: of a rollout of the same file."""
        self.version += 1
        self.hand_scoring.book.add_logged(source, record)

    def add_run(self, record: Run) -> None:
        """Take what a record says of the run as a whole; what it leaves out stays as it was."""
        self.version += 1
        changes, since = self._runs.take(record, self._newest)
        if changes:
            self._changes[0 if self._newest is None else self._newest + 1].extend(changes)
        if since is not None:
            self._mark(since)

    def add_skipped(self, record: SkippedRecord, newest: int = 0) -> None:
        """Count a record that could not be read. `newest`: the newest step of rollouts that are not taken in yet."""
        self.version += 1
        self._mark(self.unreadable.add(record, max(newest, 0 if self._newest is None else self._newest)))

    def note_restart(self, step: int, reached: int) -> None:
        """Note that the run went back to `step`, having reached a later one."""
        self.version += 1
        self._restarts.setdefault(step, reached)
        self._mark(step)

    def forget(self, source: int, where: str) -> None:
        """Let a source's rollouts and what could not be read of it fall, since its file was rewritten."""
        self._eval_series = None
        for step in self.history.forget(source):
            self._mark(step)
        if (since := self.unreadable.forget(where)) is not None:
            self._mark(since)

    def judge_finished(self, ended: bool = False) -> None:
        """Judge the steps that are finished by now, and again those about which something came late."""
        self._judge_finished(ended)
        evaluated = self.evals.rollout_steps.between(None, None)
        if self.bound.keep(self.history, self.judge, evaluated, self._eval_reward):
            self.version += 1
            self.hand_scoring.book.let_go(self.history.first)
        self.hand_scoring.judge(self.history, self.judge, self.run, self.version)

    def _judge_servers_alone(self) -> None:
        """Judge what servers hold while there is no step: as of step 0, until the first real one."""
        if self._dirty is None:
            return
        self.version += 1
        self._dirty, self._without_steps = None, True
        self.judge.rewind(0)
        scale = self.judge.state.scale
        self.judge.observe(StepFacts(0, self.run, scale, {}, servers=self.samplers.at(0)))

    def _judge_finished(self, ended: bool) -> None:
        if self._newest is None and len(self.samplers):
            self._judge_servers_alone()
        elif self._without_steps:
            self._without_steps = False
            self.judge.rewind(0)
        finished = self._pace.take_finished(ended)
        reached, dirty = self.judge.state.step, self._dirty
        end = self._open_end
        if end is not None and (self.table.last or 0) > end and self.evals.any_after(end):
            dirty = end if dirty is None else min(end, dirty)
        self._dirty = None
        if reached is not None and dirty is not None and dirty <= reached:
            self.judge.rewind(dirty)
        elif not finished:
            return
        last = self._pace.last
        if last is None:
            return
        self.version += 1
        steps = self.table.steps
        reached = self.judge.state.step
        start = 0 if reached is None else int(steps.searchsorted(reached, side="right"))
        todo = steps[start : int(steps.searchsorted(last, side="right"))].tolist()
        while todo:
            together = self._together(todo)
            todo = todo[len(together) :]
            self.judge.observe_together(together, len(todo))

    def _together(self, todo: Sequence[int]) -> list[StepFacts]:
        """The first of some steps, as many as can be judged together: a step with rollouts is judged alone.

        Its arrays fill the processor's cache, and with it the range of rewards grows that each step is judged by.
        """
        found: list[StepFacts] = []
        previous = self.judge.state.step
        for step in todo[: self.judge.room(len(todo))]:
            if found and step in self.history.steps:
                break
            found.append(self._facts(step, previous))
            previous = step
            if found[-1].batch is not None:
                break
        return found

    @property
    def finished(self) -> bool:
        """The run says so itself, or its last step has been judged."""
        total, reached = self.run.total_steps, self.judge.state.step
        return self.run.finished or (total is not None and reached is not None and reached >= total)

    @property
    def complete(self) -> bool:
        """The run says so itself, or its last step has begun."""
        total = self.run.total_steps
        return self.run.finished or (total is not None and self._newest is not None and self._newest >= total)

    def watch_silence(self, now: float) -> None:
        """Judge how long nothing has come, for a run that is being followed."""
        if self.last_record_time is not None and self.judge.idle(now - self.last_record_time, self.finished):
            self.version += 1

    def batch(self, step: int) -> Batch | None:
        """The train rollouts of a step (else its requests), with success as defined by what was seen so far."""
        return self._batch(step, SPLIT_TRAIN) or self._batch(step, SPLIT_REQUEST)

    def eval_batch(self, step: int) -> Batch | None:
        """The held-out rollouts that carry a step's number."""
        return self._batch(step, SPLIT_EVAL)

    def eval_series(self) -> Mapping[str, Series]:
        """`heldout` and its like, kept until an evaluation changes."""
        if self._eval_series is None:
            self._eval_series = self.evals.series(self._eval_reward)
        return self._eval_series

    def _facts(self, step: int, previous: int | None) -> StepFacts:
        """A step as the detectors see it; `previous` is the one that they see before it."""
        state, run = self.judge.state, self._runs.at(step)
        requests = self._batch(step, SPLIT_REQUEST)
        batch = self._batch(step, SPLIT_TRAIN) or requests
        if step <= self._measured:
            self.table.clear(step, ROLLOUTS)
        self._measured = max(self._measured, step)
        trainer = self.table.of_origin(step, TRAINER)
        measured: dict[str, float] = {}
        if batch is not None:
            state.scale.update(batch.reward[batch.known])
            measured = measure(batch, run, state.scale)
            if run.some_rollouts:  # a few of them say less of the step than the trainer does
                measured = {name: value for name, value in measured.items() if name not in trainer}
            self.table.set(step, ROLLOUTS, measured)
        servers = NO_SERVERS
        if len(self.samplers):
            servers = self.samplers.at(step, previous).beside(trainer.keys() | measured.keys())
            if servers.all:
                self.table.clear(step, SAMPLERS)
                self.table.set(step, SAMPLERS, servers.series)
        values = {**servers.series, **trainer, **measured} if measured or servers.series else trainer
        gaps: dict[str, int] = {}
        last_seen = state.last_seen
        for name in trainer:
            if name not in measured:
                before = last_seen.get(name)
                gap = step - before if before is not None else (step if step <= LONGEST_GAP else 1)
                last_seen[name] = step
                if gap > 1:
                    gaps[name] = min(gap, LONGEST_GAP)
        finite = _finite(values)
        last_known = self.table.last == step
        self._open_end = step if last_known else None
        return StepFacts(
            step=step,
            run=run,
            scale=state.scale,
            values=finite,
            nonfinite=() if finite is values else tuple(name for name in values if name not in finite),
            trainer=finite if values is trainer else _finite(trainer),
            gaps=gaps,
            batch=batch,
            eval_batch=self._evaluated_since(previous, step),
            requests=requests,
            servers=servers,
            evals=self.evals.between(previous, None if last_known else step, self._eval_reward),
            changes=tuple(chain.from_iterable(_since(self._changes, previous, step))),
            restarted_from=self._restarted_from(step),
            unreadable=sum(_since(self.unreadable.by_step, previous, step)),
        )

    def _batch(self, step: int, split: int) -> Batch | None:
        if step not in self.history.steps:
            return None
        rows = self.history.rows_of(step)
        if not len(rows):
            return None
        splits = self.history.columns["split"].at(rows, len(rows))
        if not splits.strides[0] and splits[0] != SPLIT_UNSURE:  # one value stands for all
            return Batch(self.history, step, rows) if splits[0] == split else None
        wanted = splits == split
        unsure = splits == SPLIT_UNSURE
        if unsure.any() and self._unsure_are(step, rows[unsure]) == split:
            wanted |= unsure
        rows = rows[wanted]
        return Batch(self.history, step, rows) if len(rows) else None

    def _unsure_are(self, step: int, rows: NDArray[np.int64]) -> int:
        """Train or eval, for rollouts whose source cannot say: eval where the trainer's own means are others.

        Some trainers write an evaluation's rollouts over those of the training step with the same number.
        """
        if not self.evals.any_at(step):
            return SPLIT_TRAIN
        trainer = self.table.of_origin(step, TRAINER)
        for name, column in self.history.components.items():
            logged = trainer.get(f"component_mean{{{name}}}")
            values = column.view()[rows]
            values = values[np.isfinite(values)]
            if logged is None or not len(values):
                continue
            if abs(float(values.mean()) - logged) > DISAGREES * max(1.0, abs(logged)):
                return SPLIT_EVAL
        return SPLIT_TRAIN

    def _eval_reward(self, step: int) -> float | None:
        if step < self.bound.first:
            return self.bound.evaluated(step)
        batch = self._batch(step, SPLIT_EVAL)
        if batch is None or not batch.known.any():
            return None
        return float(batch.reward[batch.known].mean())

    def _evaluated_since(self, previous: int | None, step: int) -> Batch | None:
        steps = self.evals.rollout_steps.between(previous, step)
        return self._batch(steps[-1], SPLIT_EVAL) if steps else None

    def _restarted_from(self, step: int) -> int | None:
        """The step that had been reached before a writer went back to exactly this one."""
        for restarts in (self._restarts, self.history.restarts):
            if step in restarts and step - 1 not in restarts:
                return restarts[step]
        return None

    def _note(self, writer: str, step: int, records: int) -> None:
        if self._pace.note(writer, step, records):
            self._mark(step)
        self._newest = step if self._newest is None else max(self._newest, step)

    def _mark(self, step: int) -> None:
        """Have the verdicts from `step` on made again, as far back as rollouts are held."""
        step = max(step, self.bound.first)
        self._dirty = step if self._dirty is None else min(self._dirty, step)

    def _mark_evaluation(self, step: int) -> None:
        """As `_mark`; an evaluation past the last step belongs to that step until there is a later one."""
        self._mark(step if self._open_end is None else min(step, self._open_end))

    def _framework(self, format_name: str) -> str | None:
        return self.run.framework if format_name in _OF_ANY_FRAMEWORK else format_name


def _finite(values: dict[str, float]) -> dict[str, float]:
    """Those that are finite numbers; mostly all of them, which their sum tells."""
    if math.isfinite(sum(values.values())):
        return values
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _counted(steps: Sequence[int], splits: Sequence[str | None]) -> Mapping[tuple[int, str | None], int]:
    """How many rollouts each step has in each split."""
    if len(steps) == 1:
        return {(steps[0], splits[0]): 1}
    if splits.count(splits[0]) == len(splits):
        return {(step, splits[0]): count for step, count in Counter(steps).items()}
    return Counter(zip(steps, splits, strict=True))


def _since(by_step: Mapping[int, Noted], previous: int | None, step: int) -> Sequence[Noted]:
    """What was noted at the steps after `previous` up to `step`."""
    if not by_step:
        return ()
    if previous is not None and step - previous <= len(by_step):
        return [by_step[at] for at in range(previous + 1, step + 1) if at in by_step]
    return [noted for at, noted in by_step.items() if (previous is None or at > previous) and at <= step]
