"""Runs the detectors over finished steps and keeps what they said: findings with episodes, and every verdict.

Verdicts after all records are the same in whatever order the records came: a late record takes the state back to a
checkpoint before its step, and the steps since are judged again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import defects
from grpo_top.columns import Column, Matrix
from grpo_top.detectors.base import EVALS, ROLLOUTS, UNKNOWN
from grpo_top.facts import RewardScale, StepFacts
from grpo_top.forks import fork
from grpo_top.groups import Groups
from grpo_top.snapshot import DetectorTrack, Finding, RolloutRef, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from grpo_top.detectors.base import Details, Detector, Verdict

CHECKPOINT_EVERY = 64
CLOSE = 16
"""How many steps checkpoints lie apart in a run of which records have come late: the next ones will be, by little."""
CATCHING_UP = 64
"""With more steps than these to judge at once they lie as far apart as in any other run."""
CHECKPOINTS = 8
INFO = Status.INFO
"""Of its own: looking a member of an enum up costs as much as to compare with it."""


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

    def take(self, verdict: Verdict, step: int, clear: int) -> Status:
        """Take one step's verdict in; the status to show, which stays while a finding has not cleared."""
        if verdict.status >= Status.INFO:
            if not self.active:
                self.episodes.append((step, step))
                self.onset = step if verdict.onset is None else verdict.onset
                self.active = True
            self.severity = verdict.status
            self.good = 0
            self.episodes[-1] = (self.episodes[-1][0], step)
            self.value, self.threshold = verdict.value, verdict.threshold
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
    values: dict[str, float] = field(default_factory=dict)
    """Detector → the status to show and the number that it gave last; NaN is none."""
    first_step: int | None = None
    step: int | None = None
    """The last step judged."""
    judged: int = 0
    groups: int = 0


class Tracks(Mapping[str, DetectorTrack]):
    """The detectors' tracks by id, in triage order: each is made when it is asked for."""

    def __init__(
        self,
        places: Mapping[str, tuple[int, Detector]],
        needs: Mapping[str, tuple[str, ...]],
        steps: NDArray[np.int64],
        statuses: NDArray[np.uint8],
        values: NDArray[np.float64],
    ) -> None:
        self.needs = needs
        """Detector → the series that it cannot do without and that were never seen."""
        self._places = places
        self._rows = steps, statuses, values
        self._made: dict[str, DetectorTrack] = {}

    def __getitem__(self, id_: str) -> DetectorTrack:
        known = self._made.get(id_)
        if known is not None:
            return known
        place, detector = self._places[id_]
        steps, statuses, values = self._rows
        self._made[id_] = made = DetectorTrack(
            id=id_,
            stage=detector.stage,
            steps=steps,
            status=statuses[:, place],
            values=values[:, place],
            threshold=_threshold(detector),
            needs=self.needs[id_],
            expected=detector.expected,
        )
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Judge:
    """Takes finished steps in ascending order and keeps findings, verdict tracks and the table of groups."""

    def __init__(self, detectors: Sequence[type[Detector]], knobs: Mapping[str, Mapping[str, float]]) -> None:
        self._fresh = tuple(detector(knobs.get(detector.id, {})) for detector in detectors)
        self._ids = [detector.id for detector in detectors]
        self._places = {detector.id: (place, detector) for place, detector in enumerate(self._fresh)}
        self.clears = {
            d.id: int(knobs.get(d.id, {}).get("clear", getattr(d, "clear", 5))) for d in self._fresh
        }
        self.state = JudgeState(fork(list(self._fresh)))
        self._checkpoints: list[JudgeState] = []
        self.steps = Column(np.int64)
        self.statuses = Matrix(len(detectors), np.uint8)
        self.values = Matrix(len(detectors), np.float64)
        """A row a step, a column a detector."""
        self._groups = Groups()
        self._facts: StepFacts | None = None
        """The last step's, for a verdict that is given between steps."""
        self.seen: dict[str, int] = {}
        """Series → the first step at which it was ever seen, finite or not."""
        self._needs: Mapping[str, tuple[str, ...]] = {}
        self._needs_of: frozenset[str] | None = None
        """The series that had been seen when `_needs` was made."""
        self._late = False
        """Whether it ever had to go back."""
        self.defects: dict[str, str] = {}
        """Detectors that raised, and are off since → what is said of it."""

    @property
    def detectors(self) -> tuple[Detector, ...]:
        """In triage order, as they were before the first step."""
        return self._fresh

    @property
    def standing(self) -> bytes:
        """The status to show of each of them, as it stands."""
        statuses = self.state.statuses
        return bytes([statuses.get(id_, Status.UNKNOWN) for id_ in self._ids])

    def rewind(self, step: int) -> None:
        """Go back to before `step`, because something about it changed."""
        self._late = True
        self.seen = {name: at for name, at in self.seen.items() if at < step}
        while self._checkpoints and (self._checkpoints[-1].step or 0) >= step:
            self._checkpoints.pop()
        if self._checkpoints:
            self.state = fork(self._checkpoints[-1])
        else:
            self.state = JudgeState(fork(list(self._fresh)))
        for rows in (self.steps, self.statuses, self.values):
            rows.cut(self.state.judged)
        self._groups.cut(self.state.groups)

    def checkpoints(self, behind: int) -> list[int]:
        """Steps after which it can go on, ascending: those that lie at least so many judged steps back."""
        last = self.state.judged - behind
        return [one.step for one in self._checkpoints if one.step is not None and one.judged <= last]

    def let_go(self, step: int) -> None:
        """Never go back to before what follows the checkpoint after `step`: the groups up to it are let go."""
        while self._checkpoints and self._checkpoints[0].step != step:
            del self._checkpoints[0]
        if self._checkpoints:
            self._groups.let_go(self._checkpoints[0].groups)

    @property
    def first_group(self) -> int:
        """Rows of `groups` before it were let go."""
        return self._groups.first

    @property
    def groups(self) -> Mapping[str, Column]:
        """The train groups of every judged step, see `groups.GROUP_COLUMNS`."""
        return self._groups.columns

    def room(self, more: int) -> int:
        """How many steps may be judged together from here on, where `more` are to be judged at once."""
        every = self._every(more)
        return every - self.state.judged % every

    def observe(self, facts: StepFacts, more: int = 0) -> None:
        """Judge the next finished step; `more` of them follow at once."""
        self.observe_together((facts,), more)

    def observe_together(self, steps: Sequence[StepFacts], more: int = 0) -> None:
        """Judge the next finished steps, at most `room` of them, as one by one; `more` of them follow at once.

        A detector sees all of them before the next one does: together they cost a third less than one by one.
        """
        state, count = self.state, len(steps)
        carried = self._carried_by(steps)
        statuses, values = bytearray(), []
        before = self._as_before(steps)
        for place, detector in enumerate(state.detectors):
            id_, sees = detector.id, detector.sees
            if (
                sees is not None
                and id_ in state.values
                and sees.isdisjoint(carried)
                and id_ not in state.findings
            ):
                # Nothing that could change its verdict has come.
                statuses += state.statuses[id_].to_bytes() * count
                values += [state.values[id_]] * count
            else:
                self._judge(detector, steps, None if before is None else before[place], statuses, values)
        shape = len(self._ids), count
        self.steps.extend([facts.step for facts in steps])
        self.statuses.extend(np.frombuffer(statuses, np.uint8).reshape(shape).T)
        self.values.extend(np.array(values).reshape(shape).T)
        for facts in steps:
            if facts.batch is not None:
                self._groups.add(facts.step, facts.batch)
        if state.first_step is None:
            state.first_step = steps[0].step
        last = steps[-1]
        state.step = last.step
        state.judged += count
        # Without its rollouts: their arrays are parts of the history's, which would stay when these are made anew.
        self._facts = StepFacts(last.step, last.run, last.scale, last.values)
        state.groups = self._groups.length
        if state.judged % self._every(more) == 0:
            self._checkpoints.append(fork(state))
            if len(self._checkpoints) > CHECKPOINTS:
                self._thin()

    def _carried_by(self, steps: Sequence[StepFacts]) -> set[str]:
        """What any of these steps carries, in the words of `Detector.sees`; what is new is noted as seen."""
        carried: set[str] = set()
        for facts in steps:
            carried.update(facts.values)
            if facts.batch is not None or facts.eval_batch is not None:
                carried.add(ROLLOUTS)
            if facts.evals:
                carried.add(EVALS)
                self.seen.setdefault("heldout", facts.step)
            if facts.nonfinite or not facts.values.keys() <= self.seen.keys():
                for name in (*facts.values, *facts.nonfinite):
                    self.seen.setdefault(name, facts.step)
        return carried

    def _judge(
        self,
        detector: Detector,
        steps: Sequence[StepFacts],
        before: Detector | None,
        statuses: bytearray,
        values: list[float],
    ) -> None:
        """Let a detector judge these steps, and append what it says of each.

        Where it is known how the detector was before them, it only describes the last one on which it fires.
        """
        id_, observe, off, findings = detector.id, detector.observe, self.defects, self.state.findings
        fired, last = None, len(steps) - 1
        for at, facts in enumerate(steps):
            verdict = UNKNOWN
            try:
                if id_ not in off:
                    verdict = observe(facts)
                status = verdict.status
                if status >= INFO or id_ in findings:
                    finding = findings.get(id_) or findings.setdefault(id_, FindingState())
                    if status >= INFO and (before is None or at == last):
                        fired, finding.details = None, detector.describe(facts)
                    elif status >= INFO:
                        fired = at
                    status = finding.take(verdict, facts.step, self.clears[id_])
                if before is not None and fired is not None and at == last and id_ not in off:
                    findings[id_].details = _described(before, steps[: fired + 1])
            except Exception as error:  # one rule that fails must not take the others with it
                off[id_] = defects.defect(id_, error, "is switched off")
                status = Status.UNKNOWN
            statuses.append(status)
            values.append(math.nan if verdict.value is None else verdict.value)
        self.state.statuses[id_], self.state.values[id_] = status, values[-1]

    def _every(self, more: int) -> int:
        """Steps from one checkpoint to the next."""
        return CLOSE if self._late and more <= CATCHING_UP else CHECKPOINT_EVERY

    def _as_before(self, steps: Sequence[StepFacts]) -> Sequence[Detector] | None:
        """The detectors as they were before these steps, where that is kept; None too where any has rollouts."""
        alone = len(steps) == 1 or any(
            facts.batch is not None or facts.eval_batch is not None for facts in steps
        )
        if alone or not self.state.judged:
            return None if alone else self._fresh
        kept = self._checkpoints[-1] if self._checkpoints else None
        return kept.detectors if kept is not None and kept.judged == self.state.judged else None

    def judge_apart(self, id_: str, changes: Sequence[StepFacts]) -> None:
        """Judge one detector anew over every step so far.

        Args:
            id_: a detector that `observe` never gives anything to judge by.
            changes: what it sees, by ascending steps: each holds from its step on to the next one's.
        """
        place = next((place for place, fresh in enumerate(self._fresh) if fresh.id == id_), None)
        if place is None:
            return
        detector, finding, state = fork(self._fresh[place]), FindingState(), self.state
        steps = self.steps.view()
        bounds = [*np.searchsorted(steps, [facts.step for facts in changes]).tolist(), len(steps)]
        status, value = Status.UNKNOWN, math.nan
        for facts, (start, stop) in zip(changes, pairwise(bounds), strict=True):
            for step in dict.fromkeys(steps[start:stop][[0, -1]].tolist() if start < stop else ()):
                seen = replace(facts, step=step)
                verdict = detector.observe(seen)
                status = _described_and_taken(finding, verdict, seen, detector, self.clears[id_])
                value = math.nan if verdict.value is None else verdict.value
            for name in facts.values if start < stop else ():
                self.seen.setdefault(name, int(steps[start]))
            self.statuses.fill(start, stop, place, status)
            self.values.fill(start, stop, place, value)
        self.statuses.fill(0, bounds[0], place, Status.UNKNOWN)
        self.values.fill(0, bounds[0], place, math.nan)
        state.detectors[place], state.findings[id_], state.statuses[id_] = detector, finding, status

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
            status = _described_and_taken(finding, verdict, self._facts, detector, clear=1)
            self.state.statuses[detector.id] = status
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

    def tracks(self) -> Tracks:
        """Every detector's verdict at every judged step."""
        if self._needs_of != self.seen.keys():
            seen = self._ever_seen()
            self._needs = {detector.id: self._missing(detector, seen) for detector in self._fresh}
            self._needs_of = frozenset(self.seen)
        return Tracks(self._places, self._needs, self.steps.view(), self.statuses.view(), self.values.view())

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


def _described_and_taken(
    finding: FindingState, verdict: Verdict, facts: StepFacts, detector: Detector, clear: int
) -> Status:
    """The status to show after a verdict, with what the detector has to say where it fires."""
    if verdict.status >= INFO:
        finding.details = detector.describe(facts)
    return finding.take(verdict, facts.step, clear)


def _described(before: Detector, steps: Sequence[StepFacts]) -> Details:
    """What a detector has to say after the last of some steps, on which it fires, as it was `before` them."""
    again = fork(before)
    for facts in steps:
        again.observe(facts)
    return again.describe(steps[-1])


def _threshold(detector: Detector) -> float | None:
    """The limit to draw for a detector: its `threshold` knob, where it has one."""
    value = getattr(detector, "threshold", None)
    return None if value is None else float(value)
