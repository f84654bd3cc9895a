"""Stage 5, format and budget: do answers fit the token budget?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.detectors.base import Details, Knob, Page, Passed, Verdict, some_rows
from grpo_top.detectors.parts import Parts
from grpo_top.detectors.rules import SeriesDetector, StreakShare, budget_of, sustained
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch

FULL = 0.98
"""Mean length as a share of the budget from which nearly every completion must have used it up."""

LEAST_ROLLOUTS = 8
"""Rollouts that a step has at least: one group."""


class Truncation(SeriesDetector):
    """Completions are cut off by the token budget."""

    id = "TRUNCATION"
    stage = 5
    severity = Status.FAIL
    series = ("truncation_rate", "completion_tokens_mean")
    needs = ("truncation_rate",)
    knobs = (
        Knob("threshold", 0.1, "share of a step's completions that are truncated"),
        Knob("fail", 0.3, "share above which it is a failure"),
        Knob("sustain", 5, "consecutive steps"),
    )
    page = Page(
        what=(
            "Completions hit the token budget and are truncated. Such a one earns what an unfinished answer "
            "earns, mostly nothing, and so the policy is taught to be short rather than to be right. Where "
            "many are truncated, whole groups agree on failure and teach nothing."
        ),
        looks_like=(
            "The truncation line stands above its limit, the longest completions sit exactly on the budget, "
            "and rewards of truncated completions are all low."
        ),
        decides=(
            "Warns when more than `threshold` of a step's completions are truncated on `sustain` steps "
            "running, fails above `fail`. Where steps are small the rollouts of these steps must besides be "
            "more than chance makes of a share below the limit: of 8 rollouts one is often truncated. In a "
            "log without rollouts their number is taken from the finest difference between shares, 8 a step "
            "at least. A step counts as truncated altogether where no rate is logged but the mean length is "
            "98% or more of the intended max_tokens. A base model that runs long at first clears this by "
            "itself."
        ),
        try_next=(
            "Check that the deployed max_tokens is the intended one, see SAMPLER_DRIFT",
            (
                "Read the tails of three truncated completions: an answer that was nearly there needs "
                "budget, a loop does not"
            ),
            "Raise the budget, or ask for shorter answers in the prompt",
            "Mask truncated completions out of the loss, so that they teach neither length nor failure",
            "Take tasks that need more than the budget out of the mixture until it can be raised",
        ),
        mistaken_for=(
            "Parse failures: a missing closing tag is often only a truncated completion. Loops, which no "
            "budget is large enough for: see REPETITION_LOOPS. An episode that hung and was written down as "
            "truncated: see TERMINATION_SHIFT."
        ),
        related=(
            "PARSE_FAILURES",
            "LENGTH_HACKING",
            "REPETITION_LOOPS",
            "SAMPLER_DRIFT",
            "TERMINATION_SHIFT",
        ),
    )
    threshold: float
    fail: float
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._above, self._far_above = StreakShare(), StreakShare()
        self._finest = 1.0
        """The smallest difference between shares that were logged: one rollout of a row, or more."""
        self._rate = 0.0
        self._parts = Parts()

    def observe(self, facts: StepFacts) -> Verdict:
        """Judge the step by its rate, else by a mean length that leaves nothing of the budget."""
        if facts.get("truncation_rate") is None and _uses_the_budget_up(facts):
            self._verdict = self.judge(1.0, facts)
        if facts.batch is not None:
            cut = facts.batch.flags("truncated")
            self._parts.add(facts.batch, cut.yes, cut.known)
        return super().observe(facts)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare a step's share of cut completions with both limits."""
        steps = facts.stands_for("truncation_rate")
        self._refine(value)
        known = facts.get("rollouts")
        rollouts = max(1 / self._finest, LEAST_ROLLOUTS * steps) if known is None else known
        self._above.update(value > self.threshold, facts.step, steps, value, rollouts)
        self._far_above.update(value > self.fail, facts.step, steps, value, rollouts)
        if self._fails():
            return Verdict(Status.FAIL, value, self.fail, self._far_above.streak.since)
        severity = Status.WARN if self._above.is_sure(self.threshold) else Status.WATCH
        return sustained(self._above.streak, self.sustain, severity, value, self.threshold)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while every rate is under both limits."""
        if "truncation_rate" not in stretch.names or self._above.streak.length or self.sustain <= 0:
            return None
        highest = stretch.extent("truncation_rate")[1]
        if self._far_above.streak.length or highest > min(self.threshold, self.fail):
            return None
        for rate in stretch.column("truncation_rate"):
            self._refine(rate)
        return self.passed(Status.OK, stretch.column("truncation_rate"))

    def _refine(self, rate: float) -> None:
        """Take in what the differences between a rate and others tell of the number of rollouts."""
        for other in (0.0, 1.0, self._rate):
            if 1e-6 < abs(rate - other) < self._finest:
                self._finest = abs(rate - other)
        self._rate = rate

    def _fails(self) -> bool:
        return self._far_above.streak.length >= self.sustain and self._far_above.is_sure(self.fail)

    def describe(self, facts: StepFacts) -> Details:
        """How many are cut, at what length, in which families, and what they earn."""
        failing = self._fails()
        limit = self.fail if failing else self.threshold
        budget = budget_of(facts)
        summary = f"{numbers.share(self._rate)} of completions are truncated, limit {numbers.share(limit)}"
        if budget is not None:
            summary += f", budget {numbers.count(budget)} tokens"
        summary += self._parts.words()
        evidence: dict[str, object] = {
            "truncation_rate": self._rate,
            "since": (self._far_above if failing else self._above).streak.since,
            "budget": budget,
            "completion_tokens_mean": facts.get("completion_tokens_mean"),
            "completion_tokens_max": facts.get("completion_tokens_max"),
            **self._parts.evidence(),
        }
        if facts.batch is not None:
            cut = facts.batch.column("truncated")
            evidence |= {
                "reward_of_cut": _mean_reward(facts.batch, cut == 1),
                "reward_of_others": _mean_reward(facts.batch, cut == 0),
            }
        rows = self.proof(facts, lambda batch: some_rows(batch, batch.column("truncated") == 1))
        return Details(summary, evidence, rows)


def _uses_the_budget_up(facts: StepFacts) -> bool:
    budget, length = budget_of(facts), facts.get("completion_tokens_mean")
    return budget is not None and length is not None and length >= FULL * budget


def _mean_reward(batch: Batch, wanted: NDArray[np.bool_]) -> float | None:
    known = batch.reward[batch.known & wanted]
    return float(known.mean()) if len(known) else None
