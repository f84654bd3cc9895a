"""Stage 2, reward: is the reward the one you defined?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import (
    ROLLOUTS,
    UNKNOWN,
    Details,
    Detector,
    Knob,
    Page,
    Streak,
    Verdict,
    group_rows,
    some_rows,
)
from grpo_top.detectors.collapse import RewardCollapse
from grpo_top.detectors.consistency import LoggedRewardMismatch, RewardInconsistent
from grpo_top.detectors.hand_scores import HandScoreMismatch
from grpo_top.detectors.parts import Parts
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import ShareWindow, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts

TEXTS_COUNTED = 1000
DIFFERENT = 0.5
"""Share of a step's groups that must hold different texts: copies earn one reward by nature."""
CHANCE = 1e-3
"""Chance under which a policy does not come to earn the top reward every time."""
NARROWED = 0.3
"""By how much the share of copies must have risen to say that the texts changed and not their scorer."""
STEPS_OF_CHANCE = 2
"""Steps' worth of rollouts that the chance is taken over: how long a policy then stays there says nothing."""


class RewardStreak(Detector):
    """Whole steps on which every train rollout earns one and the same reward."""

    id = "REWARD_STREAK"
    stage = 2
    severity = Status.FAIL
    series = ("reward_mean", "distinct_texts_mean")
    needs = ("rollouts", "distinct_texts_mean")
    sees = frozenset({ROLLOUTS})
    knobs = (
        Knob("threshold", 64, "consecutive train rollouts with one identical reward"),
        Knob("groups", 8, "groups that they are spread over, at least"),
        Knob(
            "flat_before", 0.5, "share of zero-variance groups before, from which the streak came by and by"
        ),
        Knob(
            "near_top", 0.8, "place in the reward range before, from which a streak at its top is a success"
        ),
    )
    page = Page(
        what=(
            "Every rollout earns the same reward although the texts differ. Policies are not that even: it is "
            "the scorer that says one thing to everybody. A parser that no longer matches the style of answer, "
            "a verifier that fails and falls back on a default, a check that lets everything pass. The loop "
            "stays green, since a constant is a fine number."
        ),
        looks_like=(
            "A reward curve that turns into a ruled line, mostly at 0. Strips of equal bars in every group, no "
            "spread anywhere, completions that read as before."
        ),
        decides=(
            "Fires once all train rollouts of the last steps, `threshold` of them or more over `groups` groups, "
            "have one identical reward while half of a step's groups hold different texts. It has to come at a stroke: "
            "where half of the groups had no spread before (`flat_before`), where texts turned into copies as the "
            "streak began, or where the reward is the top of its range, the steps before were already at `near_top` "
            "of it, and a policy that fails half as often as then could earn it that often in a row (0.1%), the "
            "policy or its sampler got there by itself, and DEGENERATE_GROUPS, LOW_DIVERSITY or SATURATED_REWARD "
            "says so. Judged by whole steps, so that the order of the log "
            "does not matter."
        ),
        try_next=(
            "Call the scorer by hand on a rollout of the last good step and on one of the first bad step",
            (
                "Read the raw verifier output beside the parsed reward: if the raw output still differs from "
                "rollout to rollout, the fault lies between the two"
            ),
            "Look for a default: an exception, a timeout or a missing match that becomes a number",
            "Make the scorer raise where it cannot score, and count such rollouts instead of paying them 0",
            (
                "Go back to the checkpoint before the streak: steps without advantage teach nothing, but a KL or "
                "entropy term goes on moving the policy"
            ),
        ),
        mistaken_for=(
            "A task set that nobody solves (BASE_SUCCESS_ZERO, from the first step on) or that everybody solves "
            "(SATURATED_REWARD), groups of identical texts (LOW_DIVERSITY)."
        ),
        related=(
            "REWARD_COLLAPSE",
            "REWARD_INCONSISTENT",
            "VERIFIER_ERRORS",
            "BASE_SUCCESS_ZERO",
            "SATURATED_REWARD",
        ),
    )
    threshold: float
    groups: float
    flat_before: float
    near_top: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._rollouts = Streak()
        self._groups = Streak()
        self._reward = 0.0
        self._texts: set[int] = set()
        self._texts_differ = self._narrowed = False
        """Whether texts of a group differ, and whether they turned into copies as the streak began."""
        self._before = Window(5)
        """Mean rewards of the last steps that had more than one reward."""
        self._flat, self._top, self._copies = Window(5), Window(5), Window(5)
        """Their shares of groups without spread, of rewards at the top, and of copies."""
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Lengthen the streak by a step of equal rewards, end it at any other."""
        batch = facts.batch
        if batch is not None and batch.known.any():
            self._verdict = self._judge(batch, facts)
        return self._verdict

    def _judge(self, batch: Batch, facts: StepFacts) -> Verdict:
        rewards = batch.reward if batch.all_known else batch.reward[batch.known]
        same = bool(rewards.max() - rewards.min() <= 1e-9)
        if not same or rewards[0] != self._reward:
            self._rollouts.update(False, facts.step)
            self._groups.update(False, facts.step)
            self._texts.clear()
            self._texts_differ = False
        if not same:
            mean = facts.get("reward_mean") if batch.all_known else None
            self._before.add(float(rewards.mean()) if mean is None else mean, facts.step)
            self._flat.add(facts.get("zero_variance_group_frac") or 0.0, facts.step)
            self._top.add(facts.get("reward_max_share") or 0.0, facts.step)
            self._copies.add(facts.get("duplicate_frac") or 0.0, facts.step)
        if batch.distinct_texts is None:
            return UNKNOWN
        if same:
            if not self._rollouts.length and len(self._copies):
                copies = facts.get("duplicate_frac") or 0.0
                self._narrowed = copies - self._copies.mean >= NARROWED
            self._reward = float(rewards[0])
            self._texts_differ |= int(np.count_nonzero(batch.distinct_texts > 1)) >= DIFFERENT * batch.groups
            if len(self._texts) < TEXTS_COUNTED:
                self._texts.update(batch.texts.tolist())
        length = self._rollouts.update(same, facts.step, len(rewards))
        groups = self._groups.update(same, facts.step, batch.groups)
        value = Verdict(Status.OK, float(length), self.threshold, self._rollouts.since)
        if not self._texts_differ or self._came_by_and_by(facts, len(rewards)):
            return value
        if length >= self.threshold and groups >= self.groups:
            return value._replace(status=Status.FAIL)
        near = length >= self.threshold / 2 and groups >= self.groups / 2
        return value._replace(status=Status.WATCH if near else Status.OK)

    def _came_by_and_by(self, facts: StepFacts, rollouts: int) -> bool:
        """Whether the steps before had lost their spread already, or had nearly reached the top where it is."""
        if not len(self._before):
            return False
        if self._flat.mean >= self.flat_before or self._narrowed:
            return True
        limits = facts.scale.range(facts.run)
        if limits is None or limits[1] <= limits[0] or self._reward < limits[1] - 1e-9:
            return False
        near = (self._before.mean - limits[0]) / (limits[1] - limits[0]) >= self.near_top
        in_a_row = min(self._rollouts.length, STEPS_OF_CHANCE * max(self.threshold, rollouts))
        return near and ((1 + self._top.mean) / 2) ** in_a_row >= CHANCE

    def describe(self, facts: StepFacts) -> Details:
        """How long the streak is, over how many texts, and what the verifier still says."""
        batch, since = facts.batch, self._rollouts.since
        texts = f"{numbers.count(len(self._texts))}{'+' if len(self._texts) >= TEXTS_COUNTED else ''}"
        rollouts, groups = numbers.count(self._rollouts.length), numbers.count(self._groups.length)
        parsed = facts.get("parse_failure_rate")
        evidence: dict[str, Any] = {
            "reward": self._reward,
            "since": since,
            "rollouts": self._rollouts.length,
            "groups": self._groups.length,
            "different_texts": len(self._texts),
            "reward_mean_before": self._before.mean if len(self._before) else None,
            "parse_failure_rate": parsed,
        }
        return Details(
            summary=(
                f"every reward is {numbers.value(self._reward)} since step {since}: {rollouts} rollouts over "
                f"{groups} groups, {texts} different texts"
            ),
            evidence=evidence,
            rows=() if batch is None else group_rows(batch, np.ones(batch.groups, np.bool_)),
            try_next=self._advice(parsed, since),
        )

    def _advice(self, parse_failures: float | None, since: int | None) -> tuple[str, ...]:
        """Where to look first: at extraction where answers do not parse, else at the scorer."""
        first, *rest = self.page.try_next
        if parse_failures is not None and parse_failures > 0.5:
            first = "Nearly nothing parses: compare the extraction pattern with a completion below, letter by letter"
        elif len(self._before):
            first = (
                f"The scorer says {numbers.value(self._reward)} to answers that it told apart before: call it by "
                f"hand on a rollout from before step {since}"
            )
        return (first, *rest)


class VerifierErrors(Detector):
    """Verifier calls that failed, and may have been scored all the same."""

    id = "VERIFIER_ERRORS"
    stage = 2
    severity = Status.FAIL
    series = ("verifier_error_rate",)
    sees = frozenset({ROLLOUTS})
    knobs = (
        Knob("threshold", 0.02, "share of the last 20 steps' rollouts with a verifier error"),
        Knob("least", 5, "such rollouts among them, at least"),
    )
    page = Page(
        what=(
            "The verifier failed on some rollouts: it timed out, crashed or could not be reached. An error is "
            "not a score. Where it becomes a 0, good answers are punished at random, and since slow answers "
            "time out more often, not even at random."
        ),
        looks_like=(
            "Errors beside raw verifier output; zero-variance groups at 0 next to groups as usual; the reward "
            "sinks by about the share of errors while completions read as before."
        ),
        decides=(
            "Fires when `threshold` of the last 20 steps' train rollouts, and at least `least` of them, carry a "
            "verifier error, however they were scored. What they were scored is part of the evidence."
        ),
        try_next=(
            "Take rollouts with an error out of the batch, or score them again; never count them as 0",
            "Repair what fails: the finding names the commonest error (time limit, sandbox, network, memory)",
            "Retry with back-off, and fail the step when more than a few percent of calls fail",
            "Give the verifier room for the load: the errors often begin when completions get longer",
        ),
        mistaken_for="Answers that the verifier rejects: a verdict of wrong is no error.",
        related=("REWARD_INCONSISTENT", "REWARD_STREAK", "TERMINATION_SHIFT", "DEGENERATE_GROUPS"),
    )
    threshold: float
    least: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._parts = Parts()
        self._errors = ShareWindow(WINDOW)
        self._scored = ShareWindow(WINDOW)
        """Of the rollouts with an error, those that carry a reward all the same."""
        self._names: dict[str, int] = {}
        self._rows: tuple[int, ...] = ()
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Count this step's rollouts with an error, once the log has shown verifier output at all."""
        batch = facts.batch
        if batch is not None and (self._verdict != UNKNOWN or batch.extent("verifier_known")[1] == 1):
            self._verdict = self._judge(batch, facts)
        return self._verdict

    def _judge(self, batch: Batch, facts: StepFacts) -> Verdict:
        count = scored = 0
        failed = None
        if batch.extent("verifier_error")[1] >= 0:
            error = batch.column("verifier_error")
            failed = error >= 0
            count, scored = int(failed.sum()), int((failed & batch.known).sum())
        self._errors.add(count, batch.size, facts.step)
        self._scored.add(scored, count, facts.step)
        self._parts.add(batch, failed)
        if failed is not None:
            self._rows = some_rows(batch, failed)
            for number, times in zip(*np.unique(error[failed], return_counts=True), strict=True):
                name = batch.names("verifier_error")[int(number)]
                if name in self._names or len(self._names) < 20:
                    self._names[name] = self._names.get(name, 0) + int(times)
        errors = self._errors
        fires = errors.share >= self.threshold and errors.hits >= self.least
        status = Status.FAIL if fires else Status.WATCH if count else Status.OK
        return Verdict(status, errors.share, self.threshold, errors.first_hit)

    def describe(self, facts: StepFacts) -> Details:  # noqa: ARG002
        """How many errors, which ones, and what they were scored."""
        errors, scored = self._errors, self._scored
        commonest = max(self._names, key=lambda name: self._names[name])
        paid = (
            f", {numbers.share(scored.share)} of them scored all the same"
            if scored.hits
            else ", none of them scored"
        )
        return Details(
            summary=(
                f"{numbers.share(errors.share)} of rollouts carry a verifier error{paid}; mostly “{commonest}”"
                f"{self._parts.words()}"
            ),
            evidence={
                "first_step": errors.first_hit,
                "errors": errors.hits,
                "rollouts": errors.items,
                "scored_all_the_same": scored.hits,
                "errors_by_name": dict(sorted(self._names.items(), key=lambda item: -item[1])[:5]),
                **self._parts.evidence(),
            },
            rows=self._rows,
        )


DETECTORS: tuple[type[Detector], ...] = (
    RewardStreak,
    RewardInconsistent,
    VerifierErrors,
    RewardCollapse,
    LoggedRewardMismatch,
    HandScoreMismatch,
)
