"""Runs the detectors over finished steps and keeps what they said: findings with episodes, and every verdict.

Verdicts after all records are the same in whatever order the records came: a late record takes the state back to a
checkpoint before its step, and the steps since are judged again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top import defects
from grpo_top.columns import Column, Matrix
from grpo_top.detectors.base import UNKNOWN
from grpo_top.facts import RewardScale
from grpo_top.forks import fork
from grpo_top.snapshot import DetectorTrack, Finding, RolloutRef, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from grpo_top.detectors.base import Details, Detector, Verdict
    from grpo_top.facts import Batch, StepFacts

GROUP_COLUMNS: dict[str, DTypeLike] = {
    "step": np.int32,
    "group": np.int32,  # dense number of the group within `Batch.group` of its step
    "first_row": np.int64,  # its first rollout's row
    "size": np.int16,
    "mean": np.float64,  # mean reward, NaN unknown
    "std": np.float64,  # population std of rewards, NaN unknown
    "flat": np.int8,  # 1 no variance, 0 some, -1 unknown
    "texts": np.int16,  # distinct completions, -1 unknown
    "passed": np.int16,  # successful rollouts, -1 unknown
}
"""Columns over every train group of every judged step."""

CHECKPOINT_EVERY = 16
CATCHING_UP = 64
"""With more steps to judge at once, checkpoints lie four times as far apart: what is late is late by little."""
CHECKPOINTS = 8


@dataclass(slots=True)
class FindingState:
    """The life of one detector's finding."""

    episodes: list[tuple[int, int]] = field(default_factory=list)
    active: bool = False
    severity: Status = Status.OK
    good: int = 0
    """Steps running on the good side since it last was not."""
    onset: int = 0
    value: float | None = None
    threshold: float | None = None
    details: Details | None = None

    def take(self, verdict: Verdict, facts: StepFacts, detector: Detector, clear: int) -> Status:
        """Take one step's verdict in; the status to show, which stays while a finding has not cleared."""
        step = facts.step
        if verdict.status >= Status.INFO:
            if not self.active:
                self.episodes.append((step, step))
                self.onset = step if verdict.onset is None else verdict.onset
                self.active = True
            self.severity = verdict.status
            self.good = 0
            self.episodes[-1] = (self.episodes[-1][0], step)
            self.value, self.threshold = verdict.value, verdict.threshold
            self.details = detector.describe(facts)
        elif self.active:
            if verdict.status == Status.WATCH:
                self.good = 0
                self.episodes[-1] = (self.episodes[-1][0], step)
            elif verdict.status == Status.OK:
                self.good += 1
                self.active = self.good < clear
        return self.severity if self.active else verdict.status


@dataclass(slots=True)
class JudgeState:
    """Everything that a verdict depends on, so that it can be copied and gone back to."""

    detectors: list[Detector]
    findings: dict[str, FindingState] = field(default_factory=dict)
    scale: RewardScale = field(default_factory=RewardScale)
    last_seen: dict[str, int] = field(default_factory=dict)
    """Series of the trainer → the last step that carried it."""
    statuses: dict[str, Status] = field(default_factory=dict)
    first_step: int | None = None
    step: int | None = None
    """The last step judged."""
    judged: int = 0
    groups: int = 0


class Judge:
    """Takes finished steps in ascending order and keeps findings, verdict tracks and the table of groups."""

    def __init__(self, detectors: Sequence[type[Detector]], knobs: Mapping[str, Mapping[str, float]]) -> None:
        self._fresh = [detector(knobs.get(detector.id, {})) for detector in detectors]
        self.clears = {
            d.id: int(knobs.get(d.id, {}).get("clear", getattr(d, "clear", 5))) for d in self._fresh
        }
        self.state = JudgeState(fork(self._fresh))
        self._checkpoints: list[JudgeState] = []
        self.steps = Column(np.int64)
        self.statuses = Matrix(len(detectors), np.uint8)
        self.values = Matrix(len(detectors), np.float64)
        """A row a step, a column a detector."""
        self.groups = {name: Column(dtype) for name, dtype in GROUP_COLUMNS.items()}
        self._facts: StepFacts | None = None
        """The last step's, for a verdict that is given between steps."""
        self.seen: dict[str, int] = {}
        """Series → the first step at which it was ever seen, finite or not."""
        self.defects: dict[str, str] = {}
        """Detectors that raised, and are off since → what is said of it."""

    def rewind(self, step: int) -> None:
        """Go back to before `step`, because something about it changed."""
        self.seen = {name: at for name, at in self.seen.items() if at < step}
        while self._checkpoints and (self._checkpoints[-1].step or 0) >= step:
            self._checkpoints.pop()
        if self._checkpoints:
            self.state = fork(self._checkpoints[-1])
        else:
            self.state = JudgeState(fork(self._fresh))
        for rows in (self.steps, self.statuses, self.values):
            rows.cut(self.state.judged)
        for column in self.groups.values():
            column.cut(self.state.groups)

    def observe(self, facts: StepFacts, more: int = 0) -> None:
        """Judge the next finished step; `more` of them follow at once."""
        state = self.state
        self.steps.extend([facts.step])
        evaluated = ("heldout",) if facts.evals else ()
        for name in (*facts.values, *facts.nonfinite, *evaluated):
            self.seen.setdefault(name, facts.step)
        values = []
        for detector in state.detectors:
            verdict = UNKNOWN
            try:
                if detector.id not in self.defects:
                    verdict = detector.observe(facts)
                state.statuses[detector.id] = self._taken(verdict, facts, detector)
            except Exception as error:  # one rule that fails must not take the others with it
                self.defects[detector.id] = defects.defect(detector.id, error, "is switched off")
                state.statuses[detector.id] = Status.UNKNOWN
            values.append(math.nan if verdict.value is None else verdict.value)
        self.statuses.append([state.statuses[detector.id] for detector in state.detectors])
        self.values.append(values)
        if facts.batch is not None:
            self._add_groups(facts.step, facts.batch)
        if state.first_step is None:
            state.first_step = facts.step
        state.step = facts.step
        state.judged += 1
        self._facts = facts
        state.groups = self.groups["step"].length
        if state.judged % (CHECKPOINT_EVERY * (4 if more > CATCHING_UP else 1)) == 0:
            self._checkpoints.append(fork(state))
            if len(self._checkpoints) > CHECKPOINTS:
                self._thin()

    def _taken(self, verdict: Verdict, facts: StepFacts, detector: Detector) -> Status:
        """The status to show after a verdict."""
        findings = self.state.findings
        finding = findings.get(detector.id)
        if finding is None:
            if verdict.status < Status.INFO:
                return verdict.status
            finding = findings[detector.id] = FindingState()
        return finding.take(verdict, facts, detector, self.clears[detector.id])

    def idle(self, seconds: float, finished: bool) -> bool:
        """Judge the silence since the newest record, live only; whether anything changed by it."""
        if self._facts is None:
            return False
        changed = False
        for detector in self.state.detectors:
            verdict = None if detector.id in self.defects else detector.idle(seconds, finished)
            if verdict is None:
                continue
            finding = self.state.findings.get(detector.id)
            if finding is None:
                if verdict.status < Status.INFO:
                    continue
                finding = self.state.findings[detector.id] = FindingState()
            before = finding.active
            self.state.statuses[detector.id] = finding.take(verdict, self._facts, detector, clear=1)
            changed |= finding.active != before
        return changed

    def findings(self, references: Callable[[Sequence[int]], tuple[RolloutRef, ...]]) -> list[Finding]:
        """Every finding that ever fired, in the order of the detectors; `caused_by` is not set yet."""
        found = []
        for detector in self.state.detectors:
            state = self.state.findings.get(detector.id)
            if state is None or state.details is None:
                continue
            details = state.details
            found.append(
                Finding(
                    id=detector.id,
                    stage=detector.stage,
                    severity=state.severity,
                    active=state.active,
                    first_step=state.episodes[-1][0],
                    last_step=state.episodes[-1][1],
                    onset=state.onset,
                    episodes=tuple(state.episodes),
                    value=state.value,
                    threshold=state.threshold,
                    summary=details.summary,
                    evidence=details.evidence,
                    rollouts=references(details.rows[:50]),
                    try_next=detector.page.try_next if details.try_next is None else details.try_next,
                )
            )
        return found

    def missing(self, detector: Detector) -> tuple[str, ...]:
        """The series that a detector cannot do without and that were never seen."""
        return self._missing(detector, self._ever_seen())

    def tracks(self) -> dict[str, DetectorTrack]:
        """Every detector's verdict at every judged step."""
        steps, statuses, values = self.steps.view(), self.statuses.view(), self.values.view()
        seen = self._ever_seen()
        return {
            detector.id: DetectorTrack(
                id=detector.id,
                stage=detector.stage,
                steps=steps,
                status=statuses[:, place],
                values=values[:, place],
                threshold=_threshold(detector),
                needs=self._missing(detector, seen),
            )
            for place, detector in enumerate(self.state.detectors)
        }

    def _ever_seen(self) -> set[str]:
        """Series that were ever seen, also by their name without its `{…}` part."""
        return self.seen.keys() | {name.partition("{")[0] for name in self.seen}

    def _missing(self, detector: Detector, seen: set[str]) -> tuple[str, ...]:
        return tuple(name for name in detector.needs or detector.series if name not in seen)

    def _thin(self) -> None:
        """Drop one checkpoint so that they lie the closer the newer they are: most late records are a little late."""
        steps = [checkpoint.step or 0 for checkpoint in self._checkpoints]
        gaps = [(steps[i + 1] - steps[i - 1]) / (steps[-1] - steps[i - 1]) for i in range(1, len(steps) - 1)]
        del self._checkpoints[1 + gaps.index(min(gaps))]

    def _add_groups(self, step: int, batch: Batch) -> None:
        passed, of = batch.passed_of
        values: dict[str, NDArray[Any]] = {
            "step": np.full(batch.groups, step),
            "group": np.arange(batch.groups),
            "first_row": batch.rows[batch.group_first],
            "size": batch.group_size,
            "mean": batch.group_mean,
            "std": batch.group_std,
            "flat": np.where(batch.judged, batch.flat, -1),
            "texts": np.full(batch.groups, -1) if batch.distinct_texts is None else batch.distinct_texts,
            "passed": np.where(of > 0, passed, -1),
        }
        for name, column in self.groups.items():
            column.extend(values[name])


def _threshold(detector: Detector) -> float | None:
    """The limit to draw for a detector: its `threshold` knob, where it has one."""
    value = getattr(detector, "threshold", None)
    return None if value is None else float(value)
