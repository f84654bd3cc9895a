"""Stage 3, variance: does each group disagree?"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import Details, Detector, Knob, Page, Passed, Streak, Verdict, group_rows
from grpo_top.detectors.components import UniformComponent
from grpo_top.detectors.headroom import SaturatedReward, SparseReward
from grpo_top.detectors.parts import Parts
from grpo_top.detectors.progress import NoUpdate, RewardPlateau
from grpo_top.detectors.rules import Around, SeriesDetector, StreakShare, sustained
from grpo_top.detectors.trainability import (
    SURELY,
    GroupCount,
    LowTrainability,
    NoTrainableGroups,
    TrainabilityDecline,
    flat_share,
    share_is_known,
    unless_well,
)
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Baseline, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch

ENOUGH_GROUPS = 8
"""Groups over which a share of groups is taken: several steps where a step has fewer."""
CHANCE = 1e-3
"""Chance under which a streak of steps without spread is none."""
FEWEST_STEPS = 5
"""Steps above the limit that it takes, however far they are above it."""


class DegenerateGroups(SeriesDetector):
    """Too many groups whose rollouts all earn the same."""

    id = "DEGENERATE_GROUPS"
    stage = 3
    severity = Status.FAIL
    series = (
        "zero_variance_group_frac",
        "all_fail_group_frac",
        "all_pass_group_frac",
        "identical_group_frac",
        "group_reward_std_mean",
        "adv_std",
    )
    needs = ("zero_variance_group_frac",)
    knobs = (
        Knob("threshold", 0.4, "share of zero-variance groups that is too much"),
        Knob("sustain", 15, "consecutive steps above it"),
        Knob(
            "excess",
            1.5,
            "or what the share exceeds the limit by, added up over consecutive steps, 5 at least",
        ),
        Knob("fail", 0.9, "mean of the last 20 steps from which it is a failure"),
    )
    page = Page(
        what=(
            "In too many groups every rollout earns the same reward. The advantage of a rollout is its reward minus "
            "its group's mean, over the group's spread: where all agree it is 0 for each of them, and the group "
            "adds nothing to the gradient. Its rollouts were generated and scored for nothing. Some such groups are "
            "normal, 5 to 10%; past 40% the batch that is learned from is little more than half of the one you pay "
            "for, and at 90% a run trains on a tenth of its data."
        ),
        looks_like=(
            "The zero-variance share climbs and stays high while the mean spread within groups sinks; strips of "
            "equal bars. The spread of advantages shrinks after it (ADV_COLLAPSE measures that)."
        ),
        decides=(
            "Fires when the share of zero-variance groups is above `threshold` on `sustain` consecutive "
            "steps and its mean over the last 20 steps is above it as well; a failure once that mean reaches "
            "`fail`. The farther above, the fewer steps it takes: from the fifth on it is enough that what "
            "exceeds the limit adds up to `excess`, as 15 steps at a share of 50% do. Where a step has fewer "
            "than 8 groups, the newest steps that together have 8 are taken as one, and the groups of the streak "
            "must be more than chance makes of a share below the limit, or as many as `sustain` steps of 8 hold. "
            "A group is a zero-variance group when the population std of its known rewards is at most 1e-8. In a "
            "log without rollouts a step has as many groups as the finest share that was logged tells; where no "
            "share is logged, a mean spread within groups of exactly 0 is that of such groups alone, and any other "
            "says nothing."
        ),
        try_next=(
            (
                "Match prompts to the policy: easier ones where groups all fail, harder ones where they all pass; "
                "the useful prompts are those that it gets right sometimes"
            ),
            "Rebalance the mixture, or skip prompts that were all right or all wrong the last time",
            "Make groups larger: more rollouts of a prompt disagree more often, at a cost that grows alike",
            "Raise the sampling temperature, after a look at what the sampler really uses",
            (
                "Grade the reward: partial credit for verifiable steps gives a group more values to differ by than "
                "0 and 1"
            ),
        ),
        mistaken_for=(
            "A two-valued reward, which has 15 to 35% such groups in good health. A scorer that says one thing "
            "to everybody (REWARD_STREAK): then variance is not what is wrong."
        ),
        related=("ADV_COLLAPSE", "REWARD_STD_DEATH", "NO_TRAINABLE_GROUPS", "LOW_DIVERSITY", "SAMPLER_DRIFT"),
    )
    threshold: float
    sustain: float
    excess: float
    fail: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._excess = 0.0
        self._share = Window(ENOUGH_GROUPS)
        self._groups = GroupCount()
        self._late = Window(WINDOW)
        self._high = StreakShare()
        self._kinds = {name: Window(WINDOW) for name in _KINDS}
        self._parts = Parts()
        self._around = Around("group_reward_std_mean", "adv_std", "zero_variance_group_frac")

    def observe(self, facts: StepFacts) -> Verdict:
        """Judge the step where it tells of its groups' spread, else repeat what was said last."""
        share = flat_share(facts)
        if share is not None:
            verdict = self.judge(share, facts)
            self._verdict = verdict if share_is_known(facts) else unless_well(verdict)
        return self._verdict

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Sustained above the limit, and the late mean above it too."""
        names = ("zero_variance_group_frac", "group_reward_std_mean")
        steps = max(map(facts.stands_for, names)) if facts.gaps else 1
        groups = self._groups.add(value, facts) * steps
        self._share.add(value, facts.step, groups)
        self._late.add(value, facts.step, steps)
        for name, share in _kinds(facts).items():
            self._kinds[name].add(share, facts.step, steps)
        if facts.batch is not None:
            self._parts.add_groups(facts.batch, facts.batch.flat, facts.batch.judged)
        share = self._share.mean
        above = share > self.threshold
        if above and not self._high.streak.length:
            self._around.mark()
        self._around.add(facts)
        self._high.update(above, facts.step, steps, value, groups)
        self._excess = self._excess + (share - self.threshold) * steps if above else 0.0
        far = self._excess >= self.excess and self._high.streak.length >= FEWEST_STEPS
        mean = self._late.mean
        severity = Status.FAIL if mean >= self.fail else Status.WARN
        verdict = sustained(self._high.streak, 0 if far else self.sustain, severity, mean, self.threshold)
        if verdict.status >= Status.WARN and (
            mean <= self.threshold or not self._high.is_sure(self.threshold, self.sustain * ENOUGH_GROUPS)
        ):
            return verdict._replace(status=Status.WATCH)
        return verdict

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while every share lies under the limit, and did on the last steps."""
        names, steps, lead = stretch.names, stretch.steps, "zero_variance_group_frac"
        others = {"all_fail_group_frac", "all_pass_group_frac"}
        if lead not in names or others & names or self._high.streak.length or not len(self._share):
            return None
        if max(stretch.extent(lead)[1], self._share.maximum) >= SURELY * self.threshold:
            return None
        shares = stretch.column(lead)
        for share, facts in zip(shares, stretch.facts, strict=True):
            self._share.add(share, facts.step, self._groups.add(share, facts))
        self._around.extend(stretch)
        self._excess = 0.0
        return self.passed(Status.OK, self._late.means(shares, steps))

    def describe(self, facts: StepFacts) -> Details:
        """How many groups, for how long, and why they agree: all fail, all pass, or identical texts."""
        mean = self._late.mean
        kinds = {name: window.mean for name, window in self._kinds.items() if len(window)}
        kind = next((name for name in _KINDS if kinds.get(name, 0.0) >= mean / 2), None)
        parts = "".join(
            f", {_KINDS[name]} {numbers.share(share)}" for name, share in kinds.items() if share > 0
        )
        evidence: dict[str, Any] = {
            "since": self._high.streak.since,
            "steps": self._high.streak.length,
            "mean_of_last_20_steps": mean,
            "mostly": kind,
            **{f"{name}_of_groups": share for name, share in kinds.items()},
            **self._around.evidence(),
            **self._parts.evidence(),
        }
        return Details(
            summary=(
                f"zero-variance {numbers.share(mean)}, limit {numbers.share(self.threshold)}, "
                f"{self._high.streak.length} steps{parts}{self._parts.words()}"
            ),
            evidence=evidence,
            rows=self.proof(facts, lambda batch: group_rows(batch, batch.flat)),
            try_next=_ADVICE.get(kind or "", self.page.try_next),
        )


_KINDS = {"identical_texts": "identical texts", "all_fail": "all-fail", "all_pass": "all-pass"}
"""Why the rollouts of a group agree, what leaves the least to doubt first."""

_ADVICE = {
    "identical_texts": (
        "Compare the sampler's deployed temperature, top_p and top_k with the intended ones: SAMPLER_DRIFT",
        "Raise the sampling temperature: the rollouts of a group are one text several times",
        (
            "If sampling is as intended the policy itself has narrowed: go back to a checkpoint with more entropy, "
            "and train on with a KL or entropy term"
        ),
        "Larger groups do not help here: they would hold the same text more often",
    ),
    "all_fail": (
        "Mix in easier prompts: those of which the policy gets some right now and then",
        "Look at the attached rollouts: can the reward be earned at all, and is a right answer recognised?",
        "Make groups larger: a success in 50 shows in a group of 16 more often than in one of 4",
        "Raise the sampling temperature, which helps little where nothing is right",
        "Give partial credit for verifiable steps, so that failures differ",
    ),
    "all_pass": (
        "Mix in harder prompts, or move on to the next tier: these are solved",
        "Skip prompts that were all right the last time, and fill the batch with others",
        "Grade what is solved: shorter, cleaner or faster answers may differ where right and wrong do not",
        "Select a checkpoint on held-out tasks: if they are solved too, the run is done",
    ),
}


def _kinds(facts: StepFacts) -> dict[str, float]:
    """The shares of a step's groups whose rollouts agree for a known reason."""
    found = {}
    for name, series in (("all_fail", "all_fail_group_frac"), ("all_pass", "all_pass_group_frac")):
        share = facts.get(series)
        if share is not None:
            found[name] = share
    batch = facts.batch
    if batch is not None and batch.distinct_texts is not None and batch.judged.any():
        identical = batch.flat & (batch.distinct_texts == 1)
        found["identical_texts"] = float(identical.sum() / batch.judged.sum())
    return found


class AdvCollapse(SeriesDetector):
    """The spread of advantages has shrunk to next to nothing."""

    id = "ADV_COLLAPSE"
    stage = 3
    severity = Status.WARN
    series = ("adv_std", "zero_variance_group_frac")
    needs = ("adv_std",)
    knobs = (
        Knob("threshold", 0.1, "spread of advantages against that of the first 20 steps"),
        Knob("sustain", 10, "consecutive steps below it"),
    )
    page = Page(
        what=(
            "Advantages have lost their spread: over the whole batch they are next to 0. The update has no "
            "direction left, only a KL or entropy term still moves the policy. It is what DEGENERATE_GROUPS "
            "does to the gradient, measured one stage later."
        ),
        looks_like="The advantage's std falls to a tenth of what it was; loss and gradient norm follow it down.",
        decides=(
            "Fires when the std of all advantages of a step is below `threshold` of its mean over the run's "
            "first 20 steps, on `sustain` consecutive steps. Advantages are those that were logged, else "
            "(reward − group mean) / (group std + 1e-4)."
        ),
        try_next=(
            "If DEGENERATE_GROUPS fires as well, follow it: this is its consequence",
            (
                "If it does not, look how advantages are scaled: whole-batch instead of group statistics, clipping, "
                "a weight that became 0"
            ),
            (
                "Check that rewards still differ before normalising: a reward scaled down by a factor of 100 "
                "vanishes beside the epsilon"
            ),
        ),
        mistaken_for="Advantages that are logged after clipping, or averaged over tokens of very long completions.",
        related=("DEGENERATE_GROUPS", "REWARD_STD_DEATH", "NO_UPDATE"),
    )
    threshold: float
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._early = Baseline(1, WINDOW)
        self._late = Window(WINDOW)
        self._streak = Streak()

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Below a tenth of the early spread."""
        steps = facts.stands_for("adv_std")
        ready = self._early.ready
        self._early.add(value, steps)
        self._late.add(value, facts.step, steps)
        early = self._early.mean
        if not ready or early <= 0:
            return Verdict(Status.UNKNOWN, value)
        self._streak.update(value < self.threshold * early, facts.step, steps)
        return sustained(self._streak, self.sustain, Status.WARN, value / early, self.threshold)

    def describe(self, facts: StepFacts) -> Details:
        """Early against now."""
        early, now = self._early.mean, self._late.last
        return Details(
            summary=(
                f"advantage std {numbers.value(now)}, {numbers.value(early)} in the first 20 steps, "
                f"{self._streak.length} steps"
            ),
            evidence={
                "since": self._streak.since,
                "steps": self._streak.length,
                "early": early,
                "now": now,
                "zero_variance_group_frac": facts.get("zero_variance_group_frac"),
            },
            rows=self.proof(facts, lambda batch: group_rows(batch, batch.flat)),
        )


class RewardStdDeath(SeriesDetector):
    """All rewards of the batch are the same."""

    id = "REWARD_STD_DEATH"
    stage = 3
    severity = Status.WARN
    series = ("reward_std", "reward_mean")
    needs = ("reward_std",)
    knobs = (
        Knob("threshold", 1e-3, "std of a step's rewards against the reward range"),
        Knob("sustain", 10, "consecutive steps below it"),
        Knob("rollouts", 64, "rollouts that these steps hold, at least"),
    )
    page = Page(
        what=(
            "All rewards of a batch are one and the same. Not only within groups: no prompt is easier than another, "
            "no rollout better. Either everything is solved, or nothing is, or the scorer says one thing to "
            "everybody."
        ),
        looks_like="The reward's std lies on the zero line; the reward curve is a ruled line.",
        decides=(
            "Fires when the std of a step's rewards is below `threshold` of the reward range, on `sustain` "
            "consecutive steps that together hold `rollouts` rollouts, one group a step where they are not logged, "
            "and are more than chance makes at the rate at which such steps came before. The range is the declared "
            "one, else what "
            "was seen; in a log without rollouts the largest std seen stands for half of it. A trainer that logs the "
            "lowest and the highest reward and no std is judged by half of what lies between them."
        ),
        try_next=(
            "Look where the line lies: at the top SATURATED_REWARD, at the bottom BASE_SUCCESS_ZERO or the scorer",
            "If completions differ and did not before earn the same, it is the scorer: REWARD_STREAK",
            "If completions are all alike, it is the policy or the sampler: LOW_DIVERSITY, SAMPLER_DRIFT",
        ),
        mistaken_for="A trainer that logs the mean std within groups under this name: then it is DEGENERATE_GROUPS.",
        related=("DEGENERATE_GROUPS", "REWARD_STREAK", "SATURATED_REWARD", "ADV_COLLAPSE"),
    )
    threshold: float
    sustain: float
    rollouts: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._largest = 0.0
        self._streak, self._rollouts = Streak(), Streak()
        self._late = Window(WINDOW)
        self._steps = self._dead = 0
        """Steps before the streak, and how many of them had no spread either."""
        self._around = Around("reward_std", "reward_mean")

    def observe(self, facts: StepFacts) -> Verdict:
        """Judge the step by the std of its rewards, else by what their lowest and highest allow."""
        lowest, highest = facts.get("reward_min"), facts.get("reward_max")
        if facts.get("reward_std") is None and lowest is not None and highest is not None:
            self._verdict = self.judge((highest - lowest) / 2, facts)
            return self._verdict
        return super().observe(facts)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Next to nothing beside the range."""
        self._largest = max(self._largest, value)
        limits = facts.scale.range(facts.run)
        scale = limits[1] - limits[0] if limits is not None else 2 * self._largest
        dead = value <= self.threshold * scale
        if dead and not self._streak.length:
            self._around.mark()
        self._around.add(facts)
        self._late.add(value, facts.step)
        steps = facts.stands_for("reward_std")
        if not dead:
            self._steps += self._streak.length + steps
            self._dead += self._streak.length
        self._streak.update(dead, facts.step, steps)
        known = facts.get("rollouts")
        if known is None:
            known = (facts.run.group_size or self.rollouts) * steps
        held = self._rollouts.update(dead, facts.step, int(known))
        share = value / scale if scale > 0 else 0.0
        by_chance = ((self._dead + 1) / (self._steps + 2)) ** self._streak.length
        sure = held >= self.rollouts and by_chance < CHANCE
        severity = Status.WARN if sure else Status.WATCH
        return sustained(self._streak, self.sustain, severity, share, self.threshold)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while every step has spread."""
        if "reward_std" not in stretch.names or self._streak.length or self._rollouts.length:
            return None
        spreads, limits = stretch.column("reward_std"), stretch.scale.range(stretch.run)
        if limits is None:
            widths = [2 * largest for largest in accumulate(spreads, max, initial=self._largest)][1:]
        else:
            widths = [limits[1] - limits[0]] * len(spreads)
        pairs = list(zip(spreads, widths, strict=True))
        if any(width <= 0 or spread <= self.threshold * width for spread, width in pairs):
            return None
        self._largest = max(self._largest, stretch.extent("reward_std")[1])
        self._around.extend(stretch)
        self._late.extend(spreads, stretch.steps)
        self._steps += len(spreads)
        return self.passed(Status.OK, [spread / width for spread, width in pairs])

    def describe(self, facts: StepFacts) -> Details:
        """The reward that everything earns."""
        reward = facts.get("reward_mean")
        return Details(
            summary=(
                f"every reward is about {numbers.value(reward)}: std {numbers.value(self._late.last)} over the "
                f"batch, {self._streak.length} steps"
            ),
            evidence={
                "since": self._streak.since,
                "steps": self._streak.length,
                "reward_mean": reward,
                **self._around.evidence(),
            },
            rows=self.proof(facts, _every_group),
        )


def _every_group(batch: Batch) -> tuple[int, ...]:
    return group_rows(batch, np.ones(batch.groups, np.bool_))


DETECTORS: tuple[type[Detector], ...] = (
    DegenerateGroups,
    AdvCollapse,
    RewardStdDeath,
    LowTrainability,
    TrainabilityDecline,
    NoTrainableGroups,
    UniformComponent,
    SaturatedReward,
    SparseReward,
    NoUpdate,
    RewardPlateau,
)
