"""Stage 2, reward: do rewards stay on the scale that they were on?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import OK, Details, Streak, Verdict, some_rows
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import ShareWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts

KNOWN_STEPS, KNOWN_ROLLOUTS = 20, 256
"""Steps and rollouts after which what was seen stands for the scale."""
BEYOND = 0.25
"""Share of the range seen by which a reward must lie outside of it."""
MOST = 0.5
"""Share of a step's rewards that must lie there: a policy that gets better does not jump past all that it ever got."""
SUSTAIN = 3
FITTING_STEPS = 10
"""Steps without a reward outside the declared range from which on it is believed."""
SLACK = 0.01
"""Share of the declared range by which a reward must lie outside of it."""
FEW, SOME = 5, 0.02
"""Rewards outside the declared range, and their share of the late window, that count."""


class RewardScaleShift:
    """Rewards that leave the range that was declared and held so far, or jump past everything that was seen."""

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf
        self._steps = self._rollouts = 0
        self._jumped = Streak()
        self._outside = ShareWindow(WINDOW)
        self._fitted = 0
        """Steps on which every reward lay in the declared range, until one did not at the start: then -1."""
        self._rows: tuple[int, ...] = ()
        self._newest = math.nan

    def judge(self, facts: StepFacts) -> Verdict:
        """Take a step's rewards in."""
        batch = facts.batch
        if batch is None or not batch.known.any():
            return self._verdict()
        rewards = batch.reward if batch.all_known else batch.reward[batch.known]
        least, most = float(rewards.min()), float(rewards.max())
        self._compare_declared(facts, batch, least, most)
        self._compare_seen(facts, batch, rewards, least, most)
        return self._verdict()

    def describe(self, facts: StepFacts) -> Details:
        """Which range was left, since when, and the rollouts outside of it."""
        since = self._jumped.since if self._jumped.length >= SUSTAIN else self._outside.first_hit
        if self._jumped.length >= SUSTAIN:
            summary = (
                f"rewards around {numbers.value(self._newest)} since step {since}, all before lay between "
                f"{numbers.value(self._low)} and {numbers.value(self._high)}"
            )
        else:
            low, high = facts.run.reward_range or (self._low, self._high)
            summary = (
                f"{numbers.share(self._outside.share)} of rewards lie outside the declared range {low:g} to {high:g} "
                f"since step {since}, none did before"
            )
        return Details(
            summary,
            {
                "since": since,
                "seen_before": [self._low, self._high],
                "declared": facts.run.reward_range,
                "outside_declared_of_20_steps": self._outside.hits,
                "median_now": self._newest,
            },
            self._rows,
            (
                "Look for what scales the reward: weights, normalisation, a unit, another scorer behind one name",
                "If the change was meant, give the reward a new version and start a new run from the checkpoint",
            ),
        )

    def _compare_declared(self, facts: StepFacts, batch: Batch, least: float, most: float) -> None:
        declared = facts.run.reward_range
        if declared is None or self._fitted < 0:
            return
        slack = SLACK * (declared[1] - declared[0])
        low, high = declared[0] - slack, declared[1] + slack
        if low <= least and most <= high:
            self._fitted += 1
            self._outside.add(0, batch.size, facts.step)
        elif self._fitted < FITTING_STEPS:
            self._fitted = -1  # it never was the range
        else:
            outside = (batch.reward < low) | (batch.reward > high)
            self._outside.add(int(np.count_nonzero(outside)), batch.size, facts.step)
            self._rows = some_rows(batch, outside)

    def _compare_seen(
        self, facts: StepFacts, batch: Batch, rewards: NDArray[np.float64], least: float, most: float
    ) -> None:
        known = self._steps >= KNOWN_STEPS and self._rollouts >= KNOWN_ROLLOUTS and self._high > self._low
        margin = BEYOND * (self._high - self._low) if known else 0.0
        jumped = False
        if known and (least < self._low - margin or most > self._high + margin):
            outside = (batch.reward < self._low - margin) | (batch.reward > self._high + margin)
            jumped = int(np.count_nonzero(outside)) >= MOST * len(rewards)
            if jumped:
                self._rows, self._newest = some_rows(batch, outside), float(np.median(rewards))
        self._jumped.update(jumped, facts.step)
        if not jumped:
            self._low, self._high = min(self._low, least), max(self._high, most)
            self._steps += 1
            self._rollouts += len(rewards)

    def _verdict(self) -> Verdict:
        outside = self._outside
        if outside.hits >= FEW and outside.share >= SOME:
            return Verdict(Status.FAIL, float(outside.hits), float(FEW), outside.first_hit)
        if self._jumped.length:
            status = Status.FAIL if self._jumped.length >= SUSTAIN else Status.WATCH
            return Verdict(status, float(self._jumped.length), float(SUSTAIN), self._jumped.since)
        return OK
