"""Stage 1, learnable: does the base policy ever succeed?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.batch import PART_KINDS
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Passed, Verdict, some_rows
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import ShareWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch

STEPS_WITHOUT_ROLLOUTS = 8
"""Steps that are judged instead of a number of rollouts where only the trainer's own numbers are logged."""


def success_rate(facts: StepFacts) -> float | None:
    """The step's success rate; where none is logged an upper bound of it, from the trainer's mean reward and spread.

    Rewards without spread whose mean is 0 or less earn nothing, any of them, and that is no success: 0. Where
    anything was earned, all of it may be success: 1. The lowest and highest reward tell the spread as well.
    """
    known = facts.get("success_rate")
    if known is not None:
        return known
    mean, spread = facts.get("reward_mean"), facts.get("reward_std")
    lowest, highest = facts.get("reward_min"), facts.get("reward_max")
    if spread is None and lowest is not None and highest is not None:
        spread = highest - lowest
    within_groups = facts.get("group_reward_std_mean")
    if mean is None or (spread is None and within_groups is None):
        return None
    if spread is None:
        return 0.0 if mean == within_groups == 0 else 1.0  # groups that agree need not agree with each other
    return 0.0 if mean <= 0 and spread == 0 else 1.0


def steps_of_success(facts: StepFacts) -> int:
    """Steps that `success_rate` averages over."""
    known = facts.get("success_rate") is not None
    return facts.stands_for("success_rate" if known else "reward_mean")


@dataclass(slots=True)
class Start:
    """The first rollouts of a part of the run, until there are enough of them to judge, and its success since."""

    steps: int = 0
    rollouts: int = 0
    passed: int = 0
    judged: bool = False
    empty: bool = False
    """Judged once: next to nothing succeeded."""
    recent: ShareWindow | None = None
    """Successes of the last 20 steps; only kept while `empty`."""

    def take(self, passed: int, rollouts: int, step: int, first: _Enough, threshold: float) -> None:
        """Take one step's rollouts in."""
        if self.judged:
            if self.recent is not None:
                self.recent.add(passed, rollouts, step)
                enough = self.recent.items >= self.rollouts or self.recent.full
                if enough and self.recent.share >= threshold:
                    self.empty, self.recent = False, None
            return
        self.steps += 1
        self.rollouts += rollouts
        self.passed += passed
        if self.rollouts >= first.rollouts and self.steps >= first.steps:
            self.judged = True
            self.empty = self.passed < threshold * self.rollouts
            self.recent = ShareWindow(WINDOW) if self.empty else None

    @property
    def settled(self) -> bool:
        """Whether it was judged, and nothing that comes later counts."""
        return self.judged and self.recent is None

    @property
    def share(self) -> float:
        """Success over the first rollouts."""
        return self.passed / self.rollouts if self.rollouts else 0.0


class _Enough(NamedTuple):
    """How much of the start is judged: this many rollouts and this many steps, whichever is more."""

    rollouts: float
    steps: float


class BaseSuccessZero(Detector):
    """The policy that training starts from never succeeds."""

    id = "BASE_SUCCESS_ZERO"
    stage = 1
    severity = Status.FAIL
    series = ("success_rate",)
    judges_once = True
    knobs = (
        Knob("threshold", 0.01, "success rate under which the start counts as without success"),
        Knob("rollouts", 256, "first train rollouts that are judged"),
        Knob("min_steps", 5, "first steps that are judged, if that is more"),
    )
    page = Page(
        what=(
            "The policy that training starts from practically never solves a training task. GRPO compares "
            "rollouts of one prompt with each other: it makes rare successes more frequent, and where there are "
            "none it has nothing to point at. More steps do not help."
        ),
        looks_like=(
            "A success rate of 0% from the first step on, whole groups at the lowest reward, a flat reward "
            "curve, or one that only a format bonus lifts."
        ),
        decides=(
            "Judged once, on the first `rollouts` train rollouts or the first `min_steps` steps, whichever is "
            "more: fires when fewer than `threshold` of them succeed, and stands until that share succeeds over "
            "20 steps. The same is asked of each family and tier, as a warning, while the run as a whole does "
            "succeed: a hard tier may be meant to wait. Without rollouts the trainer's numbers of the first 8 "
            "steps are taken. What counts as a success is said beside the success rate; where the run does not "
            "say it and the upper half of the reward range is taken for it, this is a warning as well. Rewards of "
            "more than two values of which the run does not say what a success is are never called well by it."
        ),
        try_next=(
            "Stop here: no setting further down can replace successes that never happen",
            "Start from an easier tier: tasks that the base policy solves now and then",
            "Warm up with supervised training on a few solved examples, then go on with reinforcement learning",
            (
                "Solve some of the tasks yourself, or with a script, through the interface that the model uses: "
                "environments ship with tasks that their own tools cannot solve"
            ),
            "Score known good answers with the reward function: a parser that never matches looks the same",
        ),
        mistaken_for=(
            "A reward that was extracted wrongly (look at raw verifier output), a token budget too short to "
            "finish an answer (TRUNCATION), a success that was declared too strictly."
        ),
        related=("SPARSE_REWARD", "REWARD_STREAK", "TRUNCATION", "DEGENERATE_GROUPS"),
    )
    threshold: float
    rollouts: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._run = Start()
        self._recent = ShareWindow(WINDOW)
        """Successes of the whole run over the last 20 steps."""
        self._parts: dict[tuple[str, str], Start] = {}
        """("family" or "tier", its name) → its start."""
        self._first_step: int | None = None
        self._rate_is_logged = False
        """By a trainer whose rollouts are not."""
        self._empty_once = False
        """It was judged to be without success, so that it is to be said when that is over."""
        self._enough = _Enough(self.rollouts, self.min_steps)
        self._settled = dict.fromkeys(PART_KINDS, 0)
        """Of families and tiers, the number up to which nothing is left to judge."""

    def observe(self, facts: StepFacts) -> Verdict:
        """Take in this step's successes, of the whole run and of each family and tier."""
        self._take(facts)
        if not self._run.judged:
            return UNKNOWN
        status = Status.OK if self._empty_once or self._success_is_known(facts) else Status.UNKNOWN
        if self._run.empty:
            self._empty_once = True
            status = Status.WARN if _success_is_assumed(facts) else Status.FAIL
        elif self._empty_parts():
            status = Status.WARN
        return Verdict(status, self._run.share, self.threshold, self._first_step)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens once the start was judged, and found to have success."""
        if not self._run.settled or self._run.empty or self._parts or self._first_step is None:
            return None
        self._rate_is_logged = self._rate_is_logged or "success_rate" in stretch.names
        known = self._empty_once or self._success_is_known(stretch.facts[0])
        return Passed(Status.OK if known else Status.UNKNOWN, [self._run.share] * len(stretch))

    def describe(self, facts: StepFacts) -> Details:
        """How many of the first rollouts succeeded, by family and tier, and what was counted as a success."""
        parts = self._empty_parts()
        first = self._run
        rule = facts.scale.rule(facts.run) if facts.scale.count or facts.run.success else "any reward above 0"
        if first.empty:
            summary = f"{_successes(first)}, success is {rule}"
        else:
            (kind, name), start = next(iter(parts.items()))
            more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
            summary = f"{kind} {name}{more}: {_successes(start)}; {numbers.share(first.share)} in the run as a whole"
        batch = facts.batch
        return Details(
            summary=summary,
            evidence={
                "success_is": rule,
                "first_rollouts": first.rollouts,
                "succeeded": first.passed,
                "without_success": {
                    f"{kind} {name}": start.rollouts for (kind, name), start in parts.items()
                },
                "by_part": {f"{kind} {name}": start.share for (kind, name), start in self._parts.items()},
            },
            rows=() if batch is None else some_rows(batch, batch.success == 0),
        )

    def _take(self, facts: StepFacts) -> None:
        batch = facts.batch
        if batch is None:
            self._rate_is_logged = self._rate_is_logged or facts.get("success_rate") is not None
            if self._run.settled and self._first_step is not None:
                return
            rate = success_rate(facts)
            if rate is not None:
                self._note(facts.step)
                steps = steps_of_success(facts)
                per_step = self.rollouts / STEPS_WITHOUT_ROLLOUTS
                enough = _Enough(self.rollouts, 1)
                rollouts = round(per_step * steps)
                self._run.take(round(rate * rollouts), rollouts, facts.step, enough, self.threshold)
            return
        of_group, of = batch.passed_of
        passed, rollouts = int(of_group.sum()), int(of.sum())
        if not rollouts:
            return
        self._note(facts.step)
        enough = self._enough
        self._recent.add(passed, rollouts, facts.step)
        self._run.take(passed, rollouts, facts.step, enough, self.threshold)
        for kind in PART_KINDS:
            if batch.extent(kind)[1] >= self._settled[kind]:
                self._take_parts(kind, batch, facts.step)

    def _take_parts(self, kind: str, batch: Batch, step: int) -> None:
        """Take the successes of each family, or tier, in."""
        passed, ids, names = batch.flags("success"), batch.part_ids[kind], batch.names(kind)
        rollouts = np.bincount(ids if passed.known is None else ids[passed.known], minlength=len(names) + 1)
        hits = np.bincount(ids[passed.yes], minlength=len(names) + 1)
        for name, hit, of in zip(names, hits[1:].tolist(), rollouts[1:].tolist(), strict=True):
            if of:
                start = self._parts.setdefault((kind, name), Start())
                start.take(hit, of, step, self._enough, self.threshold)
        starts = (self._parts.get((kind, name)) for name in names)
        self._settled[kind] = sum(
            1 for _ in takewhile(lambda start: start is not None and start.settled, starts)
        )

    def _success_is_known(self, facts: StepFacts) -> bool:
        """Not where all that earns more than the least is taken for a success: that some does proves nothing."""
        if facts.run.success is not None:
            return facts.get("success_rate") is not None or self._rate_is_logged or facts.scale.count > 0
        return self._rate_is_logged if not facts.scale.count else len(facts.scale.values) <= 2

    def _note(self, step: int) -> None:
        """Remember the first step whose successes are known."""
        self._first_step = step if self._first_step is None else self._first_step

    def _empty_parts(self) -> dict[tuple[str, str], Start]:
        """Families and tiers without success while the run as a whole has some."""
        if self._recent.share < self.threshold:
            return {}
        return {part: start for part, start in self._parts.items() if start.empty}


def _success_is_assumed(facts: StepFacts) -> bool:
    """Whether graded rewards are called a success by nothing but their range."""
    return facts.run.success is None and facts.run.reward_range is not None and len(facts.scale.values) > 2


def _successes(start: Start) -> str:
    return f"{numbers.part_of(start.passed, start.rollouts)} first rollouts succeeded"


DETECTORS: tuple[type[Detector], ...] = (BaseSuccessZero,)
