"""Stage 4, rollouts: do episodes end for the right reason, and does a replay give the same?"""

from __future__ import annotations

import math
import re
from collections import deque
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Passed, Streak, Verdict, some_rows
from grpo_top.detectors.parts import Parts
from grpo_top.detectors.rules import LateShare
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import js_distance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch

ERROR_LIKE = re.compile(
    r"error|crash|time_?d?_?out|abort|exception|killed|out_of_memory|\boom\b", re.IGNORECASE
)
"""Reasons for which an episode ends that say nothing about the policy."""
BUDGET = re.compile(r"length|max_|truncat|budget|limit|exceed", re.IGNORECASE)
"""Reasons that a budget gives; TRUNCATION judges them."""
NATURAL = re.compile(
    r"(?:stop|eos|end|end_turn|complete|done|finish|success|solved)(?:ped|d|ed|_.*)?|.*_(?:done|completed)",
    re.IGNORECASE,
)
"""Reasons for which an episode should end."""
BASELINE_STEPS, BASELINE_ROLLOUTS = 10, 40
FAMILIES_KEPT = 64
NATURAL_FALL = 0.1
"""Fall of the share of natural endings without which another mix is no fault."""


@dataclass(slots=True)
class Mean:
    """A mean that items come to and go from."""

    total: float = 0.0
    items: int = 0

    def add(self, total: float, items: int) -> None:
        """Let items with that sum come, or go where both are negative."""
        self.total += total
        self.items += items

    @property
    def value(self) -> float:
        """The mean; 0 of none."""
        return self.total / self.items if self.items else 0.0


class Endings:
    """How the episodes of one family ended: early in the run, and over the late window."""

    def __init__(self) -> None:
        self.early: dict[str, int] = {}
        self.late: dict[str, int] = {}
        self.distance = 0.0
        """Jensen-Shannon distance of the late mix from the early one; 0 where it is too early, or the better for it."""
        self._early_steps = 0
        self._early_rollouts = self._late_rollouts = 0
        self._early_reward, self._late_reward = Mean(), Mean()
        self._window: deque[tuple[dict[str, int], float, int]] = deque()

    def __deepcopy__(self, memo: dict[int, object]) -> Endings:
        """What was counted of a step never changes, so a copy need only have containers of its own."""
        copied = copy(self)
        copied.early, copied.late, copied._window = self.early.copy(), self.late.copy(), self._window.copy()
        copied._early_reward, copied._late_reward = copy(self._early_reward), copy(self._late_reward)
        return copied

    def add(self, reasons: dict[str, int], reward: float, rewards: int) -> None:
        """Take one step in: rollouts by reason, and the sum and number of their rewards."""
        if self._early_steps < BASELINE_STEPS or self._early_rollouts < BASELINE_ROLLOUTS:
            self._early_steps += 1
            self._early_rollouts += _add(self.early, reasons, 1)
            self._early_reward.add(reward, rewards)
            return
        self._window.append((reasons, reward, rewards))
        self._late_rollouts += _add(self.late, reasons, 1)
        self._late_reward.add(reward, rewards)
        if len(self._window) > WINDOW:
            old, old_reward, old_rewards = self._window.popleft()
            self._late_rollouts += _add(self.late, old, -1)
            self._late_reward.add(-old_reward, -old_rewards)
        several = len(self.early) > 1 or self.early.keys() != self.late.keys()
        judged = several and self._late_rollouts >= BASELINE_ROLLOUTS and self._is_worse()
        self.distance = js_distance(self.early, self.late) if judged else 0.0

    def shares(self, reason: str) -> tuple[float, float]:
        """A reason's share early and late."""
        early, late = self.early.get(reason, 0), self.late.get(reason, 0)
        return early / self._early_rollouts, late / self._late_rollouts

    @property
    def grown(self) -> str:
        """The reason whose share has grown most."""
        return max(self.late, key=lambda reason: self.shares(reason)[1] - self.shares(reason)[0])

    def _is_worse(self) -> bool:
        """Whether natural endings became fewer; where no reason is known as one, whether reward did not rise."""
        early, late = (
            sum(n for reason, n in mix.items() if is_natural(reason)) / rollouts
            for mix, rollouts in ((self.early, self._early_rollouts), (self.late, self._late_rollouts))
        )
        if early or late:
            return early - late >= NATURAL_FALL
        return self._late_reward.value <= self._early_reward.value


class TerminationShift(Detector):
    """Episodes end for reasons that are not the policy's."""

    id = "TERMINATION_SHIFT"
    stage = 4
    severity = Status.WARN
    series = ("termination", "truncation_rate")
    needs = ("termination",)
    knobs = (
        Knob(
            "threshold",
            0.05,
            "share of the last 20 steps' rollouts that end in an error, a crash, a timeout or an abort",
        ),
        Knob("min_steps", 5, "steps before a share counts of rollouts whose number is not known"),
        Knob("distance", 0.3, "Jensen-Shannon distance of a family's mix of reasons from its first 10 steps"),
        Knob("never_steps", 10, "first steps of the run on which no completion ends by itself"),
        Knob("never_tokens", 128, "length at which all are truncated; below it the budget is simply small"),
    )
    page = Page(
        what=(
            "Episodes end for reasons that are not the policy's. What crashed, hung or was aborted gets a "
            "reward like any other rollout, and so the policy is taught by the environment's accidents. A "
            "family whose endings drift has become another task without anyone deciding so: something "
            "survives a reset, or a service behind the environment has changed."
        ),
        looks_like=(
            "The endings panel shows errors, timeouts or aborts beside `stop`, or one family's bars change "
            "while the others keep theirs."
        ),
        decides=(
            "Three ways. Reasons that read like an error, a crash, a timeout or an abort reach `threshold` "
            "of the rollouts of the last 20 steps, and so does a one-sided 90% bound of that share (99% with "
            "fewer than `min_steps` steps). "
            "Or a family's mix of reasons, those of a budget left out, moves by `distance` from its "
            "first 10 steps (40 rollouts or more on both sides), while natural endings become fewer; where "
            "no reason is known as natural, while its reward does not rise. Or no completion ended by itself "
            "on the first `never_steps` steps although `never_tokens` were left to it."
        ),
        try_next=(
            "Audit the reasons per family, and read three episodes of each reason that grew",
            "Replay outliers from their seeds; if they come out otherwise, see NONDETERMINISTIC_REPLAY",
            "Keep episodes that ended in an error out of the batch, and count them, rather than scoring them",
            (
                "Give environments a reset that is tested: run one task twice in a row and compare the first "
                "observations"
            ),
            "Set limits on turns and time on purpose, and log which of them ended an episode",
        ),
        mistaken_for=(
            "A policy that learns: more episodes that end by themselves are no fault and are not counted. A "
            "budget that is too small: `length` is TRUNCATION's. Partial rollouts that are aborted to be "
            "continued later, where a framework writes each part down: check that the parts are not trained "
            "on as whole answers."
        ),
        related=("NONDETERMINISTIC_REPLAY", "TRUNCATION", "VERIFIER_ERRORS", "MIXED_VERSIONS"),
    )
    threshold: float
    min_steps: float
    distance: float
    never_steps: float
    never_tokens: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._errors = LateShare()
        self._parts = Parts()
        self._families: dict[str, Endings] = {}
        self._moved = Streak()
        self._never = Streak()
        self._ended = False
        """A completion has ended by itself."""
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Take a step's endings in."""
        reasons = facts.braced("termination")
        if reasons:
            wrong = sum(share for name, share in reasons.items() if is_error(name))
            self._errors.add(min(wrong, 1.0), facts, f"termination{{{next(iter(reasons))}}}")
        if facts.batch is not None:
            self._add_families(facts.batch)
            self._parts.add(facts.batch, _error_like(facts.batch))
        cut, tokens = facts.get("truncation_rate"), facts.get("completion_tokens_mean")
        if cut is not None and not self._ended:
            self._ended = cut < 1 or (tokens is not None and tokens < self.never_tokens)
            self._never.update(not self._ended, facts.step, facts.stands_for("truncation_rate"))
        shifted = self._shifted()
        self._moved.update(bool(shifted), facts.step)
        if reasons or cut is not None:
            self._verdict = self._judge(shifted)
        return self._verdict

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens where no reasons are logged, once a completion has ended by itself."""
        reasons = self._families or len(self._errors.window) or stretch.has_parts("termination")
        if reasons or not self._ended or self._never.length >= self.never_steps or self._moved.length:
            return None
        if "truncation_rate" in stretch.names:
            self._verdict = UNKNOWN
        return Passed(self._verdict.status, [math.nan] * len(stretch)) if self._verdict == UNKNOWN else None

    def describe(self, facts: StepFacts) -> Details:
        """Which reasons, in which families, since when."""
        shifted = self._shifted()
        rows: tuple[int, ...] = ()
        if facts.batch is not None:
            wrong = _error_like(facts.batch)
            rows = () if wrong is None else some_rows(facts.batch, wrong)
        evidence: dict[str, object] = {
            "reasons": dict(facts.braced("termination")),
            "families": {name: {"early": dict(of.early), "now": dict(of.late)} for name, of in shifted},
        }
        if self._errors.mean >= self.threshold:
            share = numbers.share(self._errors.mean)
            summary = (
                f"{share} of rollouts end in an error, a crash, a timeout or an abort{self._parts.words()}"
            )
            evidence |= {
                "error_share": self._errors.mean,
                "since": self._errors.onset(self.threshold),
                **self._parts.evidence(),
            }
        elif shifted:
            name, of = shifted[0]
            early, late = of.shares(of.grown)
            summary = (
                f"{name or 'the run'} ends with {of.grown} in {numbers.share(late)} of rollouts, "
                f"{numbers.share(early)} at first"
            )
        else:
            summary = f"no completion ended by itself on the first {self._never.length} steps"
            return Details(
                summary,
                evidence,
                rows,
                (
                    "Check the prompt: without the chat template, or in a base model, the end token is never said",
                    "Check that the engine stops at the model's end tokens, all of them",
                    "Only then look at the budget",
                ),
            )
        return Details(summary, evidence, rows)

    def _judge(self, shifted: Sequence[tuple[str, Endings]]) -> Verdict:
        errors = self._errors.mean
        if errors >= self.threshold:
            return self._errors.judge(self.threshold, self.min_steps, Status.WARN)
        if shifted:
            return Verdict(Status.WARN, shifted[0][1].distance, self.distance, self._moved.since)
        if self._never.length >= self.never_steps:
            return Verdict(Status.WARN, 1.0, None, self._never.since)
        if math.isnan(errors):
            return UNKNOWN
        return Verdict(Status.OK, errors, self.threshold)

    def _shifted(self) -> Sequence[tuple[str, Endings]]:
        """Families whose mix has moved too far, the farthest first."""
        found = [(name, of) for name, of in self._families.items() if of.distance >= self.distance]
        return sorted(found, key=lambda item: -item[1].distance)

    def _add_families(self, batch: Batch) -> None:
        """Count the reasons of each family, those of a budget left out."""
        if batch.reasons is None:
            return
        reasons, names = batch.reasons
        width = len(names) + 1
        counts = np.bincount(batch.part_ids["family"] * width + reasons + 1).tolist()
        found: dict[int, dict[str, int]] = {}
        for place, count in enumerate(counts):
            if count and place % width and not is_budget(reason := names[place % width - 1]):
                found.setdefault(place // width, {})[reason] = count
        families, earned = batch.part_ids["family"], batch.reward
        if not batch.all_known:
            families, earned = families[batch.known], earned[batch.known]
        size = len(batch.names("family")) + 1
        rewards, rollouts = np.bincount(families, earned, size), np.bincount(families, minlength=size)
        for number, of in found.items():
            name = batch.names("family")[number - 1] if number else ""
            known = self._families.get(name)
            if known is None:
                if len(self._families) >= FAMILIES_KEPT:
                    continue
                known = self._families[name] = Endings()
            known.add(of, float(rewards[number]), int(rollouts[number]))


def _add(counts: dict[str, int], others: dict[str, int], times: int) -> int:
    """Add some counts, what falls to 0 is let go; how many were added."""
    added = 0
    for reason, count in others.items():
        added += count
        left = counts.get(reason, 0) + times * count
        if left:
            counts[reason] = left
        else:
            del counts[reason]
    return times * added


@cache
def is_natural(reason: str) -> bool:
    """Whether a reason reads like an episode that ended by itself."""
    return NATURAL.fullmatch(reason) is not None


@cache
def is_error(reason: str) -> bool:
    """Whether a reason reads like an error, a crash, a timeout or an abort."""
    return ERROR_LIKE.search(reason) is not None


@cache
def is_budget(reason: str) -> bool:
    """Whether a reason reads like a budget that was used up."""
    return BUDGET.search(reason) is not None


def _error_like(batch: Batch) -> NDArray[np.bool_] | None:
    """Which rollouts ended in an error; None where no reason that was ever given is one."""
    if batch.reasons is None:
        return None
    reasons, names = batch.reasons
    wrong = [*map(is_error, names), False]  # the last one is for unknown, which is -1
    return np.array(wrong)[reasons] if any(wrong) else None
