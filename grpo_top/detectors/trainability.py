"""Stage 3, variance: how many of the groups that were sampled can be learned from?"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Knob, Page, Passed, Streak, Verdict, group_rows
from grpo_top.detectors.rules import SeriesDetector
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Window
from grpo_top.trends import significant_trend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts, Stretch


SURELY = 0.999
"""Of a limit, what leaves room for how means are rounded."""
LONG_TOKENS = 64
"""Median completion from which copies of one text are not to be expected."""


def flat_share(facts: StepFacts) -> float | None:
    """Share of groups without variance: as logged, else the least that their mean spread allows.

    A mean spread of 0 is that of groups that are all flat; any other may be that of groups of which none is.
    """
    flat, spread = facts.get("zero_variance_group_frac"), facts.get("group_reward_std_mean")
    return flat if flat is not None or spread is None else float(spread == 0)


def share_is_known(facts: StepFacts) -> bool:
    """Whether the share of groups without variance is logged, under either name, and not only bounded by a spread."""
    return facts.get("zero_variance_group_frac") is not None or facts.get("trainable_ratio") is not None


def trainable_ratio(facts: StepFacts) -> float | None:
    """Trainable groups over groups submitted: as logged, else what the groups without variance leave."""
    ratio, flat = facts.get("trainable_ratio"), flat_share(facts)
    return ratio if ratio is not None or flat is None else 1.0 - flat


class GroupCount:
    """How many groups a step holds: as known, else as the finest share that was ever logged tells; 1 until then."""

    def __init__(self) -> None:
        self._finest = 1.0

    def add(self, share: float, facts: StepFacts) -> int:
        """Take a step's share of its groups in; how many there are."""
        groups = facts.get("groups")
        if groups is not None:
            return int(groups)
        fraction = min(share, 1 - share)
        if fraction > 1e-9:
            self._finest = min(self._finest, fraction)
        return round(1 / self._finest)


def _known_ratios(stretch: Stretch) -> list[float] | None:
    """The share of trainable groups of each step, where it is logged under either name."""
    if "trainable_ratio" in stretch.names:
        return stretch.column("trainable_ratio")
    if "zero_variance_group_frac" in stretch.names:
        return [1.0 - flat for flat in stretch.column("zero_variance_group_frac")]
    return None


def unless_well(verdict: Verdict) -> Verdict:
    """What is said of a share of which only a bound is known: that it is bad, never that it is good."""
    return verdict if verdict.status > Status.OK else verdict._replace(status=Status.UNKNOWN)


class TrainabilityDetector(SeriesDetector):
    """A detector that the share of trainable groups leads, under either of its names."""

    needs = ("zero_variance_group_frac",)

    def observe(self, facts: StepFacts) -> Verdict:
        """Judge the step where it carries the share, else repeat what was said last."""
        value = trainable_ratio(facts)
        if value is not None:
            verdict = self.judge(value, facts)
            self._verdict = verdict if share_is_known(facts) else unless_well(verdict)
        return self._verdict

    @staticmethod
    def stands_for(facts: StepFacts) -> int:
        """Steps that the share averages over."""
        names = ("trainable_ratio", "zero_variance_group_frac", "group_reward_std_mean")
        return max(map(facts.stands_for, names)) if facts.gaps else 1


class LowTrainability(TrainabilityDetector):
    """Most of all groups so far were sampled for nothing."""

    id = "LOW_TRAINABILITY"
    stage = 3
    severity = Status.WARN
    series = ("trainable_ratio", "zero_variance_group_frac")
    knobs = (
        Knob("threshold", 0.3, "trainable groups over groups submitted, since the start"),
        Knob("min_steps", 10, "steps before it is judged"),
    )
    page = Page(
        what=(
            "Of all groups that this run has sampled, few could be learned from. A zero-variance group costs "
            "as much to generate and to score as one that is not, so most of the run's time went into batches "
            "that were thrown away. A healthy run uses well more than 30% of its groups."
        ),
        looks_like="A trainable share that lies low from the start; progress bars that count 0 of a step's groups.",
        decides=(
            "Fires when trainable groups over groups submitted, summed since the run's start, is below "
            "`threshold` after `min_steps` steps, and over the last 20 steps as well: a run that has recovered "
            "is not blamed for its start."
        ),
        try_next=(
            (
                "Find the components that never differ (UNIFORM_COMPONENT) and the prompts whose groups never do "
                "(DEGENERATE_GROUPS)"
            ),
            (
                "Weight the reward towards components that are continuous (overlap, distance, partial credit) and "
                "away from all-or-nothing ones; several that are spread differently seldom agree all at once"
            ),
            "Grade penalties too: −1 or 0 is as coarse as 0 or 1",
            "Sample more rollouts a group, or sample more prompts than needed and keep the groups with spread",
            "Check the prompt itself: one that leaves no room to answer differently makes zero-variance groups",
        ),
        mistaken_for="The first steps of a run whose format is not learned yet: it clears as the format comes.",
        related=("DEGENERATE_GROUPS", "UNIFORM_COMPONENT", "TRAINABILITY_DECLINE", "SPARSE_REWARD"),
    )
    threshold: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._trainable = self._groups = 0.0
        self._steps = 0
        self._late = Window(WINDOW)
        self._first_step: int | None = None

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """The ratio since the start, and over the late window."""
        steps = self.stands_for(facts)
        groups = (facts.get("groups") or 1.0) * steps
        self._trainable += value * groups
        self._groups += groups
        self._steps += steps
        self._late.add(value, facts.step, steps)
        self._first_step = facts.step if self._first_step is None else self._first_step
        ratio = self._trainable / self._groups
        if self._steps < self.min_steps:
            return UNKNOWN
        low = ratio < self.threshold and self._late.mean < self.threshold
        return Verdict(Status.WARN if low else Status.OK, ratio, self.threshold, self._first_step)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while the ratio since the start stays above the limit."""
        values = _known_ratios(stretch)
        early = self._first_step is None or self._steps < self.min_steps
        if values is None or early or "groups" in stretch.names:
            return None
        sums = list(accumulate(values, initial=self._trainable))[1:]
        counts = list(accumulate([1.0] * len(values), initial=self._groups))[1:]
        ratios = [trainable / groups for trainable, groups in zip(sums, counts, strict=True)]
        if min(ratios) < self.threshold:
            return None
        self._trainable, self._groups = sums[-1], counts[-1]
        self._steps += len(values)
        self._late.extend(values, stretch.steps)
        return self.passed(Status.OK, ratios)

    def describe(self, facts: StepFacts) -> Details:
        """Groups used of groups sampled."""
        used = self._trainable / self._groups
        known = facts.get("groups") is not None
        count = f"{numbers.part_of(round(self._trainable), round(self._groups))} groups, " if known else ""
        return Details(
            summary=(
                f"{count}{numbers.share(used)} of all groups so far were trainable, limit "
                f"{numbers.share(self.threshold)}; {numbers.share(self._late.mean)} over the last 20 steps"
            ),
            evidence={
                "steps": self._steps,
                "trainable_since_start": used,
                "trainable_last_20_steps": self._late.mean,
                "groups": round(self._groups) if known else None,
            },
            rows=self.proof(facts, lambda batch: group_rows(batch, batch.flat)),
        )


class TrainabilityDecline(TrainabilityDetector):
    """Fewer and fewer groups can be learned from."""

    id = "TRAINABILITY_DECLINE"
    stage = 3
    severity = Status.WARN
    series = ("trainable_ratio", "zero_variance_group_frac", "reward_mean")
    knobs = (
        Knob("threshold", 0.3, "by how much the 20-step mean has fallen from its best"),
        Knob("left", 0.5, "trainable share over the last 20 steps that it must have come down to"),
        Knob("trend_steps", 50, "steps over which the trend is tested"),
    )
    page = Page(
        what=(
            "The share of groups with spread is falling. Mostly that is success: as the policy improves, "
            "prompts that were sometimes right become always right, and nothing is left to learn from them. It "
            "is the time to act, since the end of this line is a batch without a gradient."
        ),
        looks_like="The zero-variance share climbs while the reward climbs too, or has just flattened.",
        decides=(
            "Fires when the mean trainable share of the last 20 steps lies `threshold` below the best such mean "
            "and at `left` or below, and the last `trend_steps` steps have a significant downward trend "
            "(Mann-Kendall at 1%). While most groups are trainable a decline is what learning looks like."
        ),
        try_next=(
            "If the reward rose: move the curriculum on to harder tasks, and evaluate tier by tier",
            "If it fell: see whether groups now all fail; then tasks became harder, or the policy worse",
            "Make the success threshold move with the policy, so that good enough becomes better than before",
            "If texts became alike, keep diversity up: temperature, entropy term, KL to the reference",
            "Stop where next to nothing is trainable any more: further steps cost, and teach nothing",
        ),
        mistaken_for="A batch whose number of groups shrinks, so that the share is a matter of chance.",
        related=("DEGENERATE_GROUPS", "SATURATED_REWARD", "ENTROPY_COLLAPSE", "LOW_DIVERSITY"),
    )
    threshold: float
    left: float
    trend_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._late = Window(WINDOW)
        self._series = Window(int(self.trend_steps))
        self._best = 0.0
        self._best_step: int | None = None
        self._high_step: int | None = None
        """The last step on which half of the fall was still to come."""

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Well below its best, and falling; the trend is tested only past the limit."""
        if not share_is_known(facts):
            return UNKNOWN
        self._late.add(value, facts.step, self.stands_for(facts))
        self._series.add(value, facts.step)
        if not self._late.full:
            return UNKNOWN
        mean = self._late.mean
        if mean > self._best:
            self._best, self._best_step = mean, facts.step
        fallen = self._best - mean
        if fallen < self.threshold / 2:
            self._high_step = facts.step
        if fallen < self.threshold or mean > self.left:
            return Verdict(Status.OK, fallen, self.threshold)
        falling = significant_trend(self._series.values, "down", self._series.steps)
        return Verdict(Status.WARN if falling else Status.OK, fallen, self.threshold, self._high_step)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while no value lies far enough under the best mean for a mean to."""
        values = _known_ratios(stretch)
        if values is None or not self._late.full:
            return None
        best = max(self._best, self._late.maximum, *values)
        if best - min(self._late.minimum, *values) >= SURELY * self.threshold:
            return None
        means = self._late.means(values, stretch.steps)
        self._series.extend(values, stretch.steps)
        fallen = []
        for mean, step in zip(means, stretch.steps, strict=True):
            if mean > self._best:
                self._best, self._best_step = mean, step
            fallen.append(self._best - mean)
            if fallen[-1] < self.threshold / 2:
                self._high_step = step
        return self.passed(Status.OK, fallen)

    def describe(self, facts: StepFacts) -> Details:
        """Its best against now."""
        mean = self._late.mean
        return Details(
            summary=(
                f"trainable groups fell from {numbers.share(self._best)} at step {self._best_step} to "
                f"{numbers.share(mean)}"
            ),
            evidence={
                "best": self._best,
                "best_step": self._best_step,
                "now": mean,
                "reward_mean": facts.get("reward_mean"),
                "all_pass_group_frac": facts.get("all_pass_group_frac"),
                "all_fail_group_frac": facts.get("all_fail_group_frac"),
            },
            rows=self.proof(facts, lambda batch: group_rows(batch, batch.flat)),
        )


class NoTrainableGroups(TrainabilityDetector):
    """A step from which nothing can be learned."""

    id = "NO_TRAINABLE_GROUPS"
    stage = 3
    severity = Status.FAIL
    series = ("trainable_ratio", "zero_variance_group_frac")
    knobs = (
        Knob("sustain", 3, "steps running without a trainable group"),
        Knob("groups", 12, "groups that they hold together, at least"),
        Knob(
            "copies",
            12,
            "rollouts of one step that are copies of one long text a group, which no chance makes",
        ),
    )
    page = Page(
        what=(
            "Whole steps pass without one group that disagrees. The gradient of the reward is exactly 0, and the "
            "trainer has nothing to do: some trainers then skip the step, some print `train: 0it`, some count it as "
            "if it had happened."
        ),
        looks_like="`train: 0it`, a step that takes no time, a gradient norm of 0, a zero-variance share of 100%.",
        decides=(
            "Fires when no group of `sustain` steps running is trainable and they hold `groups` groups or more; "
            "a single such step is watched, save where its groups hold one text each, long or of unknown length, "
            "over `copies` rollouts or more: chance does not do that. In a log without rollouts the number of "
            "groups is taken from the finest share that the trainer ever logged, so that one group a step needs "
            "`groups` steps. Where no share is logged, a mean spread within groups of exactly 0 is that of a step "
            "without one."
        ),
        try_next=(
            "Sample more rollouts a prompt: the quickest remedy, if the policy succeeds sometimes",
            "Put more weight on continuous components of the reward and less on two-valued ones",
            "Check that the difficulty fits: all right and all wrong look alike here",
            "Look at the attached rollouts: if texts differ and rewards do not, it is the scorer (REWARD_STREAK)",
        ),
        mistaken_for="One step of a small batch: with 4 groups of a two-valued reward it happens by chance.",
        related=("DEGENERATE_GROUPS", "REWARD_STREAK", "NO_UPDATE", "BASE_SUCCESS_ZERO"),
    )
    sustain: float
    groups: float
    copies: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._steps, self._flat_groups = Streak(), Streak()
        self._groups = GroupCount()

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Count steps without a trainable group, and the groups that they hold."""
        groups = self._groups.add(value, facts)
        steps = self.stands_for(facts)
        none = value <= 1e-9
        length = self._steps.update(none, facts.step, steps)
        held = self._flat_groups.update(none, facts.step, groups * steps)
        status = Status.WATCH if none else Status.OK
        if none and ((length >= self.sustain and held >= self.groups) or self._are_copies(facts)):
            status = Status.FAIL
        return Verdict(status, float(length), self.sustain, self._steps.since)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while every step has a trainable group."""
        values = _known_ratios(stretch)
        if values is None or self._steps.length or self._flat_groups.length or min(values) <= 1e-9:
            return None
        for value, facts in zip(values, stretch.facts, strict=True):
            self._groups.add(value, facts)
        return self.passed(Status.OK, [0.0] * len(values))

    def _are_copies(self, facts: StepFacts) -> bool:
        """Whether each of several groups is one long text several times."""
        batch, tokens = facts.batch, facts.get("completion_tokens_p50")
        if batch is None or batch.distinct_texts is None or (tokens is not None and tokens < LONG_TOKENS):
            return False
        several = batch.groups >= 2 and batch.size >= self.copies and bool((batch.group_size >= 2).all())
        return several and bool((batch.distinct_texts == 1).all())

    def describe(self, facts: StepFacts) -> Details:
        """For how many steps, and what their groups earn."""
        reward = facts.get("reward_mean")
        return Details(
            summary=(
                f"no trainable group on {self._steps.length} steps running, about {self._flat_groups.length} groups; "
                f"mean reward {numbers.value(reward)}"
            ),
            evidence={
                "since": self._steps.since,
                "steps": self._steps.length,
                "groups": self._flat_groups.length,
                "reward_mean": reward,
                "grad_norm": facts.get("grad_norm"),
            },
            rows=self.proof(facts, lambda batch: group_rows(batch, batch.flat)),
        )
