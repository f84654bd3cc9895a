"""Stage 6, KL: are single updates, or most of them, out of proportion?"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Knob, Page, Passed, Streak, Verdict
from grpo_top.detectors.rules import SeriesDetector, ordered_rows, sustained
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import RunningMedian, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts, Stretch


class ClipSaturation(SeriesDetector):
    """Most updates are clipped."""

    id = "CLIP_SATURATION"
    stage = 6
    severity = Status.WARN
    series = ("clip_frac",)
    knobs = (
        Knob("threshold", 0.3, "share of tokens whose update is clipped"),
        Knob("sustain", 20, "consecutive steps"),
    )
    page = Page(
        what=(
            "Most of what an update wants to do is clipped away. The probability ratio leaves its bounds on "
            "so many tokens that much of the batch contributes no gradient: updates are larger than the "
            "clipping allows, again and again."
        ),
        looks_like=(
            "A clip fraction that stays above 0.3, often with large gradients or many updates on one batch."
        ),
        decides="Fires when the clip fraction is above `threshold` on `sustain` steps running.",
        try_next=(
            (
                "Check that sampler and trainer agree on log-probabilities: a mismatch fills the clip at "
                "once, see LOGPROB_MISMATCH"
            ),
            "Check how old the rollouts are, see STALE_ROLLOUTS",
            "Lower the learning rate, or do fewer updates on one batch",
            "Only then widen the bounds",
        ),
        mistaken_for=(
            "Other fractions of the same name: some trainers count tokens that a trust region masks, which "
            "is meant to happen now and then."
        ),
        related=("LOGPROB_MISMATCH", "STALE_ROLLOUTS", "GRAD_SPIKES", "KL_EXPLODING"),
    )
    threshold: float
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._streak = Streak()
        self._late = Window(WINDOW)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare a step's clip fraction with the limit."""
        steps = facts.stands_for("clip_frac")
        self._late.add(value, facts.step, steps)
        self._streak.update(value > self.threshold, facts.step, steps)
        return sustained(self._streak, self.sustain, Status.WARN, value, self.threshold)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while no step is above the limit."""
        if "clip_frac" not in stretch.names or self._streak.length:
            return None
        if stretch.extent("clip_frac")[1] > self.threshold:
            return None
        self._late.extend(stretch.column("clip_frac"), stretch.steps)
        return self.passed(Status.OK, stretch.column("clip_frac"))

    def describe(self, facts: StepFacts) -> Details:
        """How much is clipped, since when."""
        return Details(
            f"{numbers.share(self._late.mean)} of tokens are clipped, limit {numbers.share(self.threshold)}",
            {
                "clip_frac": self._late.mean,
                "since": self._streak.since,
                "steps": self._streak.length,
                "grad_norm": facts.get("grad_norm"),
                "learning_rate": facts.get("learning_rate"),
            },
        )


class GradSpikes(SeriesDetector):
    """Single updates are far larger than the rest."""

    id = "GRAD_SPIKES"
    stage = 6
    severity = Status.WARN
    series = ("grad_norm",)
    knobs = (
        Knob("times", 10, "times the median of the steps before"),
        Knob("spikes", 3, "steps of the last 20 steps on which the gradient norm exceeds it"),
        Knob("far", 30, "times the median from which as many steps count over a longer stretch"),
        Knob("far_steps", 1000, "logged rows of that stretch"),
        Knob("min_steps", 10, "logged gradients that are not 0 before a median is believed"),
    )
    page = Page(
        what=(
            "The gradient norm jumps far above its usual size, again and again. One such step can undo "
            "hundreds; where the norm is clipped, its direction still counts."
        ),
        looks_like="Spikes on the gradient chart, each followed by a dip of the reward or a jump of KL.",
        decides=(
            "Fires when the gradient norm was above `times` the median of the steps before on `spikes` steps "
            "of the last 20, or above `far` times it on as many of the last `far_steps`, once `min_steps` "
            "gradients that are not 0 are known. Steps without a gradient "
            "are left out of the median, so that a stretch of zero-variance groups does not make every other step a "
            "spike."
        ),
        try_next=(
            (
                "Look at the batch of a spike: one very long completion, or a group with a single success, "
                "is the usual find"
            ),
            "Check that advantages are not divided by a spread of nearly 0",
            "Turn gradient clipping on, or lower its bound",
            "Check log-probabilities of sampler and trainer on that batch, see LOGPROB_MISMATCH",
        ),
        mistaken_for=(
            "Warm-up, in which norms are larger while the median is young. A schedule that changes the batch "
            "size."
        ),
        related=("KL_EXPLODING", "LOGPROB_MISMATCH", "NONFINITE_METRIC", "REWARD_COLLAPSE"),
    )
    times: float
    spikes: float
    far: float
    far_steps: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._before = RunningMedian()
        self._seen = 0
        self._far: deque[tuple[int, int]] = deque()
        """Row and step of each spike far above the rest, within the longer stretch."""
        self._norms = Window(WINDOW)
        self._above = Window(WINDOW)
        """1 at a spike, else 0."""

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare a step's gradient norm with the steps before."""
        ready = self._before.count >= self.min_steps
        before = self._before.value
        limit = self.times * before if ready else None
        self._norms.add(value, facts.step)
        self._above.add(float(limit is not None and value > limit), facts.step)
        self._seen += 1
        if ready and value > self.far * before:
            self._far.append((self._seen, facts.step))
        while self._far and self._far[0][0] <= self._seen - self.far_steps:
            self._far.popleft()
        if value > 0:
            self._before.add(value)
        if limit is None:
            return UNKNOWN
        spikes = self._spikes()
        if len(spikes) < self.spikes <= len(self._far):
            return Verdict(Status.WARN, value, limit, self._far[0][1])
        status = Status.WARN if len(spikes) >= self.spikes else Status.WATCH if spikes else Status.OK
        return Verdict(status, value, limit, spikes[0] if spikes else None)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while no step can exceed the lowest that the median may be within the stretch."""
        if "grad_norm" not in stretch.names or self._before.count < self.min_steps or self._far:
            return None
        lowest = self._before.at_least(len(stretch))
        highest = stretch.extent("grad_norm")[1]
        if highest > min(self.times, self.far) * lowest or self._above.maximum > 0 or self.spikes <= 0:
            return None
        norms = stretch.column("grad_norm")
        self._norms.extend(norms, stretch.steps)
        self._above.extend([0.0] * len(norms), stretch.steps)
        self._seen += len(norms)
        for norm in norms:
            if norm > 0:
                self._before.add(norm)
        return self.passed(Status.OK, norms)

    def describe(self, facts: StepFacts) -> Details:
        """Which steps, and how far above the median."""
        spikes, times, of = self._spikes(), self.times, len(self._norms)
        highest = self._norms.maximum
        if len(spikes) < self.spikes:
            spikes, times, of = (
                [step for _, step in self._far],
                self.far,
                min(self._seen, int(self.far_steps)),
            )
        return Details(
            f"{len(spikes)} of {of} steps have a gradient norm above {times:g} × the "
            f"median {numbers.value(self._before.value)}, highest of the last 20 {numbers.value(highest)}",
            {
                "spikes": spikes,
                "median_before": self._before.value,
                "highest": highest,
                "learning_rate": facts.get("learning_rate"),
            },
            self.proof(
                facts, lambda batch: ordered_rows(batch, np.argsort(-batch.column("completion_tokens")))
            ),
        )

    def _spikes(self) -> list[int]:
        return self._above.above(0.0)
