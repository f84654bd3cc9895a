"""Stage 3, variance: is there room above the reward, and a floor below it?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.detectors.base import (
    UNKNOWN,
    Details,
    Detector,
    Knob,
    Page,
    Passed,
    Verdict,
    group_rows,
    some_rows,
)
from grpo_top.detectors.learnable import steps_of_success, success_rate
from grpo_top.detectors.parts import Parts
from grpo_top.detectors.rules import SeriesDetector, lower_bound
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts, Stretch

ROLLOUTS_FOR_RANGE = 500
"""Rollouts after which the rewards seen stand for a range that was not declared."""


PAST_TOP = 1.01
"""Place in the range past which a mean reward shows that the range is another one."""


class SaturatedReward(SeriesDetector):
    """The reward is nearly as high as it can be."""

    id = "SATURATED_REWARD"
    stage = 3
    severity = Status.WARN
    series = ("reward_mean", "reward_max_share")
    needs = ("reward_mean",)
    knobs = (
        Knob("threshold", 0.95, "place of the 20-step mean reward in the reward range"),
        Knob("min_steps", 8, "steps before it is judged"),
    )
    page = Page(
        what=(
            "The mean reward has reached the top of its range. What is left to gain is small, and the cheapest "
            "way to gain it is to exploit the gap between the reward and what you want. Training on buys "
            "little, and may cost quality that the reward does not see."
        ),
        looks_like="A reward curve that flattens under its ceiling, more and more groups that all pass.",
        decides=(
            "Fires when, after `min_steps` steps, the mean reward of the last 20 lies at `threshold` or more of "
            "the reward range. A range that is not declared is what 500 rollouts have shown; until then this is "
            "only watched. In a log without rollouts the range is what the trainer's lowest and highest rewards "
            "have shown, and from 0 to 1 at least where they lie in between; else rewards that all lie between 0 and "
            "1 are taken to have that range, if their spread is small too. A mean above a declared range is another "
            "fault, see REWARD_INCONSISTENT."
        ),
        try_next=(
            "Evaluate on held-out tasks: if they are as good, select that checkpoint and stop",
            "Move on to harder tasks; keep some of the solved ones, so that nothing is forgotten",
            "Raise the bar: what counts as right may be checked more strictly",
            "Do not train on for the last percent: read rollouts first, they show what is being exploited",
        ),
        mistaken_for="A verifier that accepts everything: reward at the top from one step to the next (REWARD_STREAK).",
        related=("DEGENERATE_GROUPS", "REWARD_STREAK", "TRAINABILITY_DECLINE", "HELDOUT_FLAT"),
    )
    threshold: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._late = Window(WINDOW)
        self._lowest, self._highest = math.inf, -math.inf
        self._range = (0.0, 1.0)
        self._seen = (math.inf, -math.inf)
        """Lowest and highest reward of a step, where the trainer logs them."""

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Where the late mean lies in the range."""
        self._late.add(value, facts.step, facts.stands_for("reward_mean"))
        self._lowest, self._highest = min(self._lowest, value), max(self._highest, value)
        least, most = facts.get("reward_min"), facts.get("reward_max")
        if least is not None and most is not None:
            self._seen = min(self._seen[0], least), max(self._seen[1], most)
        limits = self._limits(facts)
        if limits is None or self._late.span < self.min_steps:
            return UNKNOWN
        self._range = limits
        place = (self._late.mean - limits[0]) / (limits[1] - limits[0])
        if place < self.threshold or place > PAST_TOP:
            return Verdict(Status.OK, place, self.threshold)
        sure = (
            facts.run.reward_range is not None
            or facts.scale.count >= ROLLOUTS_FOR_RANGE
            or not facts.scale.count
        )
        status = Status.WARN if sure else Status.WATCH
        return Verdict(status, place, self.threshold, self._onset())

    def describe(self, facts: StepFacts) -> Details:
        """The reward in its range, and how much of the batch is at the very top."""
        low, high = self._range
        place = (self._late.mean - low) / (high - low)
        top = facts.get("reward_max_share")
        share = "" if top is None else f", {numbers.share(top)} of rollouts at the very top"
        return Details(
            summary=(
                f"mean reward {numbers.value(self._late.mean)}, {numbers.share(place)} of the range "
                f"{low:g} to {high:g}{share}"
            ),
            evidence={
                "since": self._onset(),
                "mean_of_last_20_steps": self._late.mean,
                "range": [low, high],
                "range_declared": facts.run.reward_range is not None,
                "share_at_top": top,
                "all_pass_group_frac": facts.get("all_pass_group_frac"),
            },
            rows=self.proof(facts, lambda batch: group_rows(batch, batch.flat)),
        )

    def _onset(self) -> int | None:
        """First step of the window on which the reward was as high by itself."""
        low, high = self._range
        above = self._late.where(lambda reward: reward >= low + self.threshold * (high - low))
        return above[0] if above else self._late.first_step

    def _limits(self, facts: StepFacts) -> tuple[float, float] | None:
        limits = facts.scale.range(facts.run)
        if limits is not None:
            return limits if limits[1] > limits[0] else None
        least, most = self._seen
        if least <= most:
            low, high = min(least, 0.0), 1.0 if 0 < most <= 1 else most
            return (low, high) if low < high else None
        if self._lowest < 0 or self._highest > 1:
            return None
        spread = facts.get("reward_std")
        return (0.0, 1.0) if spread is None or spread <= 0.2 else None


class SparseReward(Detector):
    """Successes are rare, or one bit stands for thousands of tokens."""

    id = "SPARSE_REWARD"
    stage = 3
    severity = Status.WARN
    series = ("success_rate", "completion_tokens_mean")
    needs = ("success_rate",)
    knobs = (
        Knob("threshold", 0.05, "success rate over the last 20 steps under which successes are rare"),
        Knob("tokens", 4000, "completion tokens a rollout that one two-valued reward is too little for"),
        Knob("min_steps", 10, "steps before it is judged"),
    )
    page = Page(
        what=(
            "The reward says too little. Where fewer than one rollout in twenty succeeds, most groups hold no "
            "success at all; and where a single right or wrong ends an episode of thousands of tokens, one bit "
            "has to tell which of them mattered. Learning is slow at best."
        ),
        looks_like="A success rate near the floor, many groups that all fail, a reward that moves in small jumps.",
        decides=(
            "Fires when, after `min_steps` steps, the success rate of the last 20 is under `threshold`, by more "
            "than chance explains where rollouts can be counted. Remarks, and no more, where the reward takes "
            "only two values and a completion has `tokens` tokens or more on average: such runs learn, but "
            "slowly."
        ),
        try_next=(
            (
                "Give partial credit for milestones that can be verified: a sub-goal reached, a test passed, a fact "
                "found"
            ),
            "Mix in easier tasks until one rollout in five or so succeeds",
            "Sample more rollouts a prompt, so that a rare success has failures to be compared with",
            "Cut episodes short where the outcome is already certain",
        ),
        mistaken_for="A success that is declared more strictly than the reward: the reward may be rich all the same.",
        related=("BASE_SUCCESS_ZERO", "DEGENERATE_GROUPS", "LOW_TRAINABILITY", "TRUNCATION"),
    )
    threshold: float
    tokens: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._success, self._tokens, self._rollouts = Window(WINDOW), Window(WINDOW), Window(WINDOW)
        self._rows: tuple[int, ...] = ()
        self._parts = Parts()
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Follow success and length over the late window."""
        success, tokens = success_rate(facts), facts.get("completion_tokens_mean")
        if success is not None:
            steps = steps_of_success(facts)
            self._success.add(success, facts.step, steps)
            self._rollouts.add(facts.get("rollouts") or 0.0, facts.step, steps)
        if tokens is not None:
            self._tokens.add(tokens, facts.step, facts.stands_for("completion_tokens_mean"))
        if facts.batch is not None:
            passed = facts.batch.flags("success")
            self._parts.add(facts.batch, passed.yes, passed.known)
            self._rows = some_rows(facts.batch, passed.yes) or tuple(facts.batch.rows[:8].tolist())
        if success is not None:
            self._verdict = self._judge(facts)
        return self._verdict

    def _judge(self, facts: StepFacts) -> Verdict:
        if self._success.span < self.min_steps:
            return UNKNOWN
        share = self._success.mean
        rare = self._success.below(self.threshold)
        since = rare[0] if rare else self._success.first_step
        if share < self.threshold:
            rollouts = round(self._rollouts.mean * self._success.span)
            highest = 1 - lower_bound(1 - share, rollouts) if rollouts else share
            return Verdict(
                Status.WARN if highest < self.threshold else Status.WATCH, share, self.threshold, since
            )
        status = Status.INFO if self._one_bit(facts) else Status.OK
        return Verdict(status, share, self.threshold, since)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while every step has enough success, and had before the stretch."""
        names, steps = stretch.names, stretch.steps
        if "rollouts" in names or stretch.scale.count or self._success.span < self.min_steps:
            return None
        success = [rate for facts in stretch.facts if (rate := success_rate(facts)) is not None]
        if len(success) < len(stretch) or not min(self._success.minimum, *success) > self.threshold:
            return None
        self._rollouts.extend([0.0] * len(stretch), steps)
        if "completion_tokens_mean" in names:
            self._tokens.extend(stretch.column("completion_tokens_mean"), steps)
        means = self._success.means(success, steps)
        self._verdict = Verdict(Status.OK, means[-1])
        return Passed(Status.OK, means)

    def _one_bit(self, facts: StepFacts) -> bool:
        """Whether two values are all that a long completion ever earns."""
        two_valued = len(facts.scale.values) == 2 and facts.scale.count >= ROLLOUTS_FOR_RANGE
        return two_valued and len(self._tokens) > 0 and self._tokens.mean >= self.tokens

    def describe(self, facts: StepFacts) -> Details:
        """The success rate, or the tokens that one bit stands for."""
        share, tokens = self._success.mean, self._tokens.mean if len(self._tokens) else None
        rare = share < self.threshold
        if rare:
            summary = f"success {numbers.share(share)} over 20 steps, limit {numbers.share(self.threshold)}"
        else:
            low, high = facts.scale.values[:2]
            summary = f"{low:g} or {high:g} is all that {numbers.count(tokens)} tokens earn"
        return Details(
            summary=summary,
            evidence={
                "success_rate": share,
                "success_is": facts.scale.rule(facts.run),
                "completion_tokens_mean": tokens,
                "distinct_rewards": list(facts.scale.values) if len(facts.scale.values) < 3 else "3 or more",
                "all_fail_group_frac": facts.get("all_fail_group_frac"),
                **self._parts.shares(),
            },
            rows=self._rows,
        )
