"""Stage 3, variance: does the policy still move, and the reward with it?"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Knob, Page, Passed, Streak, Verdict, group_rows
from grpo_top.detectors.rules import SeriesDetector, sustained
from grpo_top.detectors.trainability import share_is_known, trainable_ratio
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import MAD_TO_STD, Buckets, Window
from grpo_top.trends import Trend, trend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts, Stretch


class NoUpdate(SeriesDetector):
    """There is something to learn, and nothing is learned."""

    id = "NO_UPDATE"
    stage = 3
    severity = Status.FAIL
    series = ("grad_norm", "trainable_ratio", "zero_variance_group_frac", "group_reward_std_mean")
    needs = ("grad_norm", "zero_variance_group_frac")
    knobs = (Knob("sustain", 10, "steps running with a gradient norm of exactly 0"),)
    page = Page(
        what=(
            "The gradient norm is exactly 0 although groups disagree and advantages are there. The update is "
            "lost between loss and optimizer: parameters that are frozen, a loss that is detached or masked "
            "away, an adapter that is not trained, a scale that is 0."
        ),
        looks_like=(
            "`grad_norm: 0.0` row after row beside a reward spread that is not 0; KL stays at 0; the policy "
            "is what it was."
        ),
        decides=(
            "Fires when the gradient norm is exactly 0 on `sustain` steps running, each of which has "
            "trainable groups. Where there are none, a gradient of 0 is right, and DEGENERATE_GROUPS says "
            "why. Where groups are not logged, a mean spread within them, or a highest reward above the "
            "lowest, stands for that."
        ),
        try_next=(
            (
                "Count trainable parameters: an adapter that was not attached, or layers that were all "
                "frozen, show at once"
            ),
            "Check that the loss mask covers the completion's tokens and not only the prompt's",
            "Follow one batch by hand: advantages, log-ratio, loss, gradient of one parameter",
            "Look for a value that is not finite and makes the trainer skip the update: NONFINITE_METRIC",
            "Compare the weights of two checkpoints: equal files prove it",
        ),
        mistaken_for="A log that rounds to a few decimals: a norm of 1e-5 is printed as 0.0.",
        related=("DEGENERATE_GROUPS", "NO_TRAINABLE_GROUPS", "KL_PINNED", "NONFINITE_METRIC"),
    )
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._streak = Streak()
        self._trainable = Window(WINDOW)
        self._last_norm: float | None = None
        """The last gradient norm that was not 0."""

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Exactly 0 on a step that has something to learn from."""
        trainable = _trainable(facts)
        if trainable is None:
            return UNKNOWN
        if value:
            self._last_norm = value
        self._trainable.add(trainable, facts.step)
        self._streak.update(value == 0 and trainable > 0, facts.step, facts.stands_for("grad_norm"))
        return sustained(self._streak, self.sustain, Status.FAIL, float(self._streak.length), self.sustain)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while no gradient norm is 0."""
        if "grad_norm" not in stretch.names or self._streak.length or 0 in stretch.column("grad_norm"):
            return None
        trainable = [ratio for facts in stretch.facts if (ratio := _trainable(facts)) is not None]
        if len(trainable) < len(stretch):
            return None
        self._last_norm = stretch.column("grad_norm")[-1]
        self._trainable.extend(trainable, stretch.steps)
        return self.passed(Status.OK, [0.0] * len(stretch))

    def describe(self, facts: StepFacts) -> Details:
        """For how long, and how much there was to learn."""
        trainable = self._trainable.mean
        known = share_is_known(facts)
        although = f"{numbers.share(trainable)} of groups are trainable" if known else "rewards differ"
        return Details(
            summary=f"gradient norm exactly 0 on {self._streak.length} steps running, although {although}",
            evidence={
                "since": self._streak.since,
                "steps": self._streak.length,
                "trainable_ratio": trainable if known else None,
                "last_norm_above_0": self._last_norm,
                "loss": facts.get("loss"),
                "learning_rate": facts.get("learning_rate"),
            },
            rows=self.proof(facts, lambda batch: group_rows(batch, batch.judged & ~batch.flat)),
        )


def _trainable(facts: StepFacts) -> float | None:
    """Share of trainable groups; where nothing tells of groups, 1 or 0 as rewards have any spread."""
    ratio, lowest, highest = trainable_ratio(facts), facts.get("reward_min"), facts.get("reward_max")
    if ratio is not None or lowest is None or highest is None:
        return ratio
    return float(highest > lowest)


class RewardPlateau(SeriesDetector):
    """The reward has stopped rising."""

    id = "REWARD_PLATEAU"
    stage = 3
    severity = Status.INFO
    series = ("reward_mean",)
    knobs = (
        Knob("share", 0.35, "last part of the run that is looked at"),
        Knob("min_steps", 60, "steps that this part has, at least"),
        Knob("back", 0.3, "part of the run by which the best 20-step mean lies back"),
    )
    page = Page(
        what=(
            "The reward has not risen for a good part of the run, and its best stretch lies well back. The "
            "run may be done, or stuck; the steps since then cost as much as those before."
        ),
        looks_like="A reward curve that runs level to the right edge.",
        decides=(
            "Remarks when the mean reward has no significant trend (Mann-Kendall at 1%) over the last "
            "`share` of the run, `min_steps` steps or more, and the best mean over 20 steps lies `back` of "
            "the run back; a mean that is higher than it by no more than chance explains is no better one. "
            "Of a long run means of neighbouring steps are compared."
        ),
        try_next=(
            "Select a checkpoint on held-out tasks; the training reward only says that something levelled off",
            "See the stages above this one: zero-variance groups, sparse successes and saturation are usual reasons",
            "If the reward is far from its top and groups still disagree, look at KL (pinned?) and learning rate",
            "Change one thing, and give it as many steps as the plateau has lasted",
        ),
        mistaken_for="A curriculum that grows harder as the policy grows better: look at success by tier.",
        related=("SATURATED_REWARD", "KL_PINNED", "HELDOUT_FLAT", "DEGENERATE_GROUPS"),
    )
    share: float
    min_steps: float
    back: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._run = Buckets()
        self._late = Window(WINDOW)
        self._first_step: int | None = None
        self._best = -float("inf")
        self._best_step = 0
        self._tail_from = 0
        self._trend = Trend(0.0, 0.0, 0.0, 1.0)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """No trend in the last part of the run, and the best behind it; tested when a bucket of steps is full."""
        self._first_step = facts.step if self._first_step is None else self._first_step
        self._late.add(value, facts.step, facts.stands_for("reward_mean"))
        mean = self._late.mean
        if self._late.full and mean > self._best and mean > self._best + self._noise():
            self._best, self._best_step = mean, facts.step
        full = self._run.add(value, facts.step)
        length = facts.step - self._first_step + 1
        if self.share * length < self.min_steps:
            return UNKNOWN
        lies_back = facts.step - self._best_step >= self.back * length
        if not lies_back:
            return Verdict(Status.OK, mean)
        if full:
            values, steps = self._run.since(facts.step - self.share * length)
            self._trend, self._tail_from = trend(values, steps), int(steps[0])
        level = self._trend.direction is None
        return Verdict(Status.INFO if level else Status.OK, mean, onset=self._best_step)

    def _noise(self) -> float:
        """By how much a mean of these rows may be higher than an equal one: 2 of its standard errors."""
        values = list(self._late)
        steps = sorted(abs(after - before) for before, after in pairwise(values))
        return 2 * MAD_TO_STD * steps[len(steps) // 2] / math.sqrt(2 * len(values)) if steps else 0.0

    def describe(self, facts: StepFacts) -> Details:
        """Since when it is level, and where its best lies."""
        return Details(
            summary=(
                f"reward level at {numbers.value(self._late.mean)} since step {self._tail_from}; best "
                f"{numbers.value(self._best)} around step {self._best_step}, {facts.step - self._best_step} steps back"
            ),
            evidence={
                "level_since": self._tail_from,
                "mean_of_last_20_steps": self._late.mean,
                "best_20_step_mean": self._best,
                "best_step": self._best_step,
                "p": self._trend.p,
            },
        )
