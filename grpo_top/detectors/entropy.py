"""Stage 4, rollouts: does the policy still choose, and does it still know what it says?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Knob, Page, Passed, Streak, Verdict
from grpo_top.detectors.rules import Around, SeriesDetector, ordered_rows, sustained
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Baseline, Window
from grpo_top.trends import significant_trend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts, Stretch

FIRST, LAST = 3, 12
"""Steps whose median is the early baseline: past the first shock, and before a fast collapse can reach it."""


class EntropyCollapse(SeriesDetector):
    """The policy no longer chooses."""

    id = "ENTROPY_COLLAPSE"
    stage = 4
    severity = Status.WARN
    series = ("entropy", "duplicate_frac", "distinct_texts_mean")
    needs = ("entropy",)
    knobs = (
        Knob(
            "threshold",
            0.2,
            "share of its early baseline (median of steps 3 to 12) that entropy must fall below",
        ),
        Knob("floor", 0.05, "nats below which it need not fall any further"),
        Knob("sustain", 10, "steps over whose mean it is judged"),
    )
    page = Page(
        what=(
            "The policy has become nearly deterministic. Entropy is the choice that it has left a token; "
            "without it all completions of a group are one answer, advantages vanish, and the policy can neither "
            "explore nor recover. It is the usual end of a learning rate that is too high."
        ),
        looks_like=(
            "Entropy falls steeply and stays at the bottom of its chart, duplicates climb, the spread of "
            "rewards within groups sinks. Reward may look fine until then."
        ),
        decides=(
            "Fires when entropy, as a mean over `sustain` steps, lies below `threshold` of its early "
            "baseline, and is still falling over the last 20 rows or below `floor`. Where it has stopped "
            "falling above that floor, it is a watch. The limit is relative on purpose: a model that was "
            "fine-tuned for its task starts low and is healthy there."
        ),
        try_next=(
            "Go back to a checkpoint before it began and lower the learning rate",
            "Raise the upper clip bound (clip-higher), so that rare tokens can grow",
            (
                "Add tasks whose answer the policy does not know yet: where every group agrees there is "
                "nothing to explore"
            ),
            "Only then raise the KL coefficient or add an entropy bonus",
        ),
        mistaken_for=(
            "Learning: entropy falls in every healthy run, to about half. Colder sampling, which makes "
            "completions alike while the entropy of the policy stays: that is SAMPLER_DRIFT."
        ),
        related=("LOW_DIVERSITY", "DEGENERATE_GROUPS", "KL_EXPLODING", "SAMPLER_DRIFT", "CLIP_SATURATION"),
    )
    threshold: float
    floor: float
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._early = Baseline(FIRST, LAST)
        self._late, self._recent = Window(WINDOW), Window(int(self.sustain))
        self._low = Streak()
        self._around = Around("entropy", "duplicate_frac", "distinct_texts_mean", "reward_mean")

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare the last steps' entropy with the early baseline."""
        steps = facts.stands_for("entropy")
        self._early.add(value, steps)
        self._late.add(value, facts.step)
        self._recent.add(value, facts.step, steps)
        limit = self.threshold * self._early.median
        if self._early.ready and value < limit and not self._low.length:
            self._around.mark()
        self._low.update(self._early.ready and value < limit, facts.step, steps)
        self._around.add(facts)
        if not self._early.ready:
            return UNKNOWN
        mean = self._recent.mean
        if not self._recent.full or mean >= limit:
            return Verdict(Status.WATCH if self._low.length else Status.OK, mean, limit, self._low.since)
        below = self._recent.below(limit)
        falling = mean < self.floor or significant_trend(self._late.values, "down", self._late.steps)
        return Verdict(Status.WARN if falling else Status.WATCH, mean, limit, below[0])

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while neither a step nor the last ones before the stretch lie below the limit."""
        if "entropy" not in stretch.names or not self._early.ready or self._low.length:
            return None
        limit = self.threshold * self._early.median
        lowest = min(stretch.extent("entropy")[0], self._recent.minimum)
        if not lowest > limit or not self._recent.full:
            return None
        values = stretch.column("entropy")
        self._late.extend(values, stretch.steps)
        self._around.extend(stretch)
        return self.passed(Status.OK, self._recent.means(values, stretch.steps))

    def describe(self, facts: StepFacts) -> Details:
        """Where entropy was and is."""
        return _describe(self, self._recent.mean, self._early, self._around, facts)


class EntropyExplosion(SeriesDetector):
    """The policy no longer knows what it says."""

    id = "ENTROPY_EXPLOSION"
    stage = 4
    severity = Status.WARN
    series = ("entropy", "reward_mean")
    needs = ("entropy",)
    knobs = (
        Knob("threshold", 3, "times its early baseline (median of steps 3 to 12) that entropy must exceed"),
        Knob("sustain", 10, "consecutive steps"),
    )
    page = Page(
        what=(
            "The policy spreads its probability over more and more tokens, and earns nothing with it. "
            "Updates push down what was sampled faster than anything is pushed up, until completions become "
            "noise."
        ),
        looks_like=(
            "Entropy climbs without a bend, completions grow longer and stranger, reward stands or falls."
        ),
        decides=(
            "Fires when entropy is above `threshold` × its early baseline on `sustain` steps running while "
            "reward has no significant upward trend over the last 20 rows. Entropy that rises with reward is "
            "exploration."
        ),
        try_next=(
            (
                "Check the sampler's log-probabilities against the trainer's: noise there feeds this, see "
                "LOGPROB_MISMATCH"
            ),
            "Lower the learning rate, and take out an entropy bonus if there is one",
            "Look at how negative advantages are weighted: groups with one success push seven texts down",
            "Mask or shorten truncated completions: their tails are all pushed down",
        ),
        mistaken_for=(
            "A higher sampling temperature, where a trainer logs the entropy of the tempered distribution. "
            "Exploration that pays: then reward rises too."
        ),
        related=("LOGPROB_MISMATCH", "GIBBERISH", "REWARD_COLLAPSE", "TRUNCATION", "GRAD_SPIKES"),
    )
    threshold: float
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._early = Baseline(FIRST, LAST)
        self._reward = Window(WINDOW)
        self._streak = Streak()
        self._around = Around("entropy", "reward_mean", "completion_tokens_mean")

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare a step's entropy with the early baseline."""
        steps = facts.stands_for("entropy")
        self._early.add(value, steps)
        reward = facts.get("reward_mean")
        if reward is not None:
            self._reward.add(reward, facts.step)
        if not self._early.ready:
            self._around.add(facts)
            return UNKNOWN
        limit = self.threshold * self._early.median
        high = value > limit and not significant_trend(self._reward.values, "up", self._reward.steps)
        if high and not self._streak.length:
            self._around.mark()
        self._streak.update(high, facts.step, steps)
        self._around.add(facts)
        return sustained(self._streak, self.sustain, Status.WARN, value, limit)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while no step is above the limit."""
        if "entropy" not in stretch.names or not self._early.ready or self._streak.length:
            return None
        if stretch.extent("entropy")[1] > self.threshold * self._early.median:
            return None
        if "reward_mean" in stretch.names:
            self._reward.extend(stretch.column("reward_mean"), stretch.steps)
        self._around.extend(stretch)
        return self.passed(Status.OK, stretch.column("entropy"))

    def describe(self, facts: StepFacts) -> Details:
        """Where entropy was and is."""
        return _describe(self, facts.get("entropy"), self._early, self._around, facts)


def _describe(
    detector: SeriesDetector, now: float | None, early: Baseline, around: Around, facts: StepFacts
) -> Details:
    return Details(
        f"entropy {numbers.value(now)}, {numbers.value(early.median)} early in the run",
        {"entropy": now, "early": early.median, **around.evidence()},
        detector.proof(facts, lambda batch: ordered_rows(batch, np.arange(batch.size))),
    )
