"""Runs the detectors over finished steps and keeps what they said: findings with episodes, and every verdict.

Verdicts after all records are the same in whatever order the records came: a late record takes the state back to a
checkpoint before its step, and the steps since are judged again.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import defects
from grpo_top.columns import Column, Matrix
from grpo_top.detectors.base import EVALS, ROLLOUTS, UNKNOWN, Detector
from grpo_top.facts import RewardScale, StepFacts, Stretch, stretch_of
from grpo_top.forks import fork
from grpo_top.groups import Groups
from grpo_top.snapshot import Finding, RolloutRef, Status
from grpo_top.tracks import Tracks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.detectors.base import Details, Passed, Verdict
    from grpo_top.facts import RunState

CHECKPOINT_EVERY = 64
WITHOUT_GROUPS = 256
"""In a run of which no rollouts are logged: its steps are judged anew in no time."""
CLOSE = 16
"""How many steps checkpoints lie apart in a run of which records have come late: the next ones will be, by little."""
CATCHING_UP = 64
"""With more steps than these to judge at once they lie as far apart as in any other run."""
CHECKPOINTS = 8
PIECE = 32
"""Steps in which a detector is asked whether anything happens, before it looks at each of them."""
INFO = Status.INFO
"""Of its own: looking a member of an enum up costs as much as to compare with it."""


class Piece(NamedTuple):
    """Some of the steps that are judged together."""

    steps: Sequence[StepFacts]
    stretch: Stretch | None
    """The same, where they are one."""


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
    findings: list[FindingState | None]
    statuses: bytearray
    values: array[float]
    """Of each detector: its finding where it ever had one, the status to show, the number given last (else NaN)."""
    scale: RewardScale = field(default_factory=RewardScale)
    last_seen: dict[str, int] = field(default_factory=dict)
    """Series of the trainer → the last step that carried it."""
    first_step: int | None = None
    step: int | None = None
    """The last step judged."""
    judged: int = 0
    groups: int = 0

    @classmethod
    def at_first(cls, detectors: Sequence[Detector]) -> JudgeState:
        """Before any step."""
        count = len(detectors)
        unknown = bytearray([Status.UNKNOWN]) * count
        return cls(fork(list(detectors)), [None] * count, unknown, array("d", [math.nan]) * count)


class Judge:
    """Takes finished steps in ascending order and keeps findings, verdict tracks and the table of groups."""

    def __init__(self, detectors: Sequence[type[Detector]], knobs: Mapping[str, Mapping[str, float]]) -> None:
        self._fresh = tuple(detector(knobs.get(detector.id, {})) for detector in detectors)
        self._places = {detector.id: (place, detector) for place, detector in enumerate(self._fresh)}
        self._clear_after = [int(knobs.get(one.id, {}).get("clear", one.clear)) for one in self._fresh]
        self._watch_the_clock = [
            place for place, one in enumerate(self._fresh) if type(one).idle is not Detector.idle
        ]
        self._carried: set[str] | None = None
        self._sees: list[bool] = []
        """What the steps judged last carried, and of each detector whether it sees any of it."""
        self.state = JudgeState.at_first(self._fresh)
        self._checkpoints: list[JudgeState] = []
        self.steps = Column(np.int64)
        self.statuses = Matrix(len(detectors), np.uint8)
        self.values = Matrix(len(detectors), np.float64)
        """A row a step, a column a detector."""
        self._groups = Groups()
        self._last: tuple[int, RunState, RewardScale, Mapping[str, float]] | None = None
        """What there was to judge the last step by, for a verdict that is given between steps."""
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
        return bytes(self.state.statuses)

    def rewind(self, step: int) -> None:
        """Go back to before `step`, because something about it changed."""
        self._late = True
        self.seen = {name: at for name, at in self.seen.items() if at < step}
        while self._checkpoints and (self._checkpoints[-1].step or 0) >= step:
            self._checkpoints.pop()
        if self._checkpoints:
            self.state = fork(self._checkpoints[-1])
        else:
            self.state = JudgeState.at_first(self._fresh)
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
        awake = self._awake(self._carried_by(steps))
        if count == 1:
            self._judge_one(awake, steps[0])
            statuses, values = _standing_rows(state, 1)
        else:
            before = self._as_before(steps)
            statuses, values = _standing_rows(state, count)
            pieces = _pieces(steps)
            for place in awake:
                said = self._judge_several(place, pieces, None if before is None else before[place])
                statuses[:, place], values[:, place] = said
                state.statuses[place], state.values[place] = said[0][-1], said[1][-1]
        self.steps.extend([facts.step for facts in steps])
        self.statuses.extend(statuses)
        self.values.extend(values)
        for facts in steps:
            if facts.batch is not None:
                self._groups.add(facts.step, facts.batch)
        if state.first_step is None:
            state.first_step = steps[0].step
        last = steps[-1]
        state.step = last.step
        state.judged += count
        # Without its rollouts: their arrays are parts of the history's, which would stay when these are made anew.
        self._last = last.step, last.run, last.scale, last.values
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

    def _awake(self, carried: set[str]) -> list[int]:
        """Detectors whose verdict may change: all at first, then those that see any of it or have a finding open."""
        if not self.state.judged:
            return list(range(len(self._fresh)))
        if carried != self._carried:
            self._carried = carried
            self._sees = [one.sees is None or not one.sees.isdisjoint(carried) for one in self._fresh]
        findings = self.state.findings
        return [
            place
            for place, sees in enumerate(self._sees)
            if sees or ((finding := findings[place]) is not None and finding.active)
        ]

    def _judge_one(self, awake: Sequence[int], facts: StepFacts) -> None:
        """Let detectors judge a step."""
        state, off = self.state, self.defects
        for place in awake:
            detector, verdict = state.detectors[place], UNKNOWN
            try:
                if not off or detector.id not in off:
                    verdict = detector.observe(facts)
                status = verdict.status
                if status >= INFO or state.findings[place] is not None:
                    finding = state.findings[place] = state.findings[place] or FindingState()
                    status = _described_and_taken(finding, verdict, facts, detector, self._clear_after[place])
            except Exception as error:  # one rule that fails must not take the others with it
                status = self._switch_off(detector, error)
            state.statuses[place] = status
            state.values[place] = math.nan if verdict.value is None else verdict.value

    def _judge_several(
        self, place: int, pieces: Sequence[Piece], before: Detector | None
    ) -> tuple[list[int], list[float]]:
        """Let a detector judge some steps: the status to show and the number of each.

        Where it is known how the detector was before them, it only describes the last one on which it fires.
        """
        detector, finding = self.state.detectors[place], self.state.findings[place]
        statuses: list[int] = []
        values: list[float] = []
        fired = -1
        for piece in pieces:
            if finding is None or not finding.active:
                passed = self._passed_over(detector, piece.stretch)
                if passed is not None:
                    statuses += [passed.status] * len(piece.steps)
                    values += passed.values
                    continue
            for facts in piece.steps:
                verdict = UNKNOWN
                try:
                    if detector.id not in self.defects:
                        verdict = detector.observe(facts)
                    status = verdict.status
                    if finding is not None or status >= INFO:
                        finding = self.state.findings[place] = finding or FindingState()
                        if status >= INFO:
                            fired = len(statuses)
                            finding.details = detector.describe(facts) if before is None else finding.details
                        status = finding.take(verdict, facts.step, self._clear_after[place])
                except Exception as error:  # as above
                    status = self._switch_off(detector, error)
                statuses.append(status)
                values.append(math.nan if verdict.value is None else verdict.value)
        if finding is not None and before is not None and fired >= 0 and detector.id not in self.defects:
            steps = [facts for piece in pieces for facts in piece.steps]
            just_now = fired == len(steps) - 1
            try:
                finding.details = (
                    detector.describe(steps[-1]) if just_now else _described(before, steps[: fired + 1])
                )
            except Exception as error:  # as above
                statuses[-1] = self._switch_off(detector, error)
        return statuses, values

    def _passed_over(self, detector: Detector, stretch: Stretch | None) -> Passed | None:
        if stretch is None or detector.id in self.defects:
            return None
        try:
            return detector.pass_over(stretch)
        except Exception as error:  # as above
            self._switch_off(detector, error)
            return None

    def _switch_off(self, detector: Detector, error: Exception) -> Status:
        self.defects[detector.id] = defects.defect(detector.id, error, "is switched off")
        return Status.UNKNOWN

    def _every(self, more: int) -> int:
        """Steps from one checkpoint to the next."""
        if self._late and more <= CATCHING_UP:
            return CLOSE
        return CHECKPOINT_EVERY if self.state.groups else WITHOUT_GROUPS

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
                status = _described_and_taken(finding, verdict, seen, detector, self._clear_after[place])
                value = math.nan if verdict.value is None else verdict.value
            for name in facts.values if start < stop else ():
                self.seen.setdefault(name, int(steps[start]))
            self.statuses.fill(start, stop, place, status)
            self.values.fill(start, stop, place, value)
        self.statuses.fill(0, bounds[0], place, Status.UNKNOWN)
        self.values.fill(0, bounds[0], place, math.nan)
        state.detectors[place], state.findings[place], state.statuses[place] = detector, finding, status

    def idle(self, seconds: float, finished: bool) -> bool:
        """Judge the silence since the newest record, live only; whether anything changed by it."""
        if self._last is None:
            return False
        changed, state = False, self.state
        for place in self._watch_the_clock:
            detector = state.detectors[place]
            verdict = None if detector.id in self.defects else detector.idle(seconds, finished)
            if verdict is None:
                continue
            finding = state.findings[place]
            if finding is None:
                if verdict.status < INFO:
                    continue
                finding = state.findings[place] = FindingState()
            before, facts = finding.active, StepFacts(*self._last)
            state.statuses[place] = _described_and_taken(finding, verdict, facts, detector, clear=1)
            changed |= finding.active != before
        return changed

    def findings(self, references: Callable[[Sequence[int]], tuple[RolloutRef, ...]]) -> list[Finding]:
        """Every finding that ever fired, in the order of the detectors; `caused_by` is not set yet."""
        found = []
        for detector, state in zip(self.state.detectors, self.state.findings, strict=True):
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


def _pieces(steps: Sequence[StepFacts]) -> list[Piece]:
    parts = [steps[at : at + PIECE] for at in range(0, len(steps), PIECE)]
    return [Piece(part, stretch_of(part)) for part in parts]


def _standing_rows(state: JudgeState, count: int) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Statuses and numbers as they stand, as so many steps' rows."""
    width = len(state.statuses)
    statuses = np.frombuffer(state.statuses * count, np.uint8).reshape(count, width)
    return statuses, np.frombuffer(state.values * count).reshape(count, width)


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
