"""Stage 5, format and budget: is length what is paid for, or given up?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Knob, Page, Passed, Streak, Verdict, repeated
from grpo_top.detectors.forms import content_components
from grpo_top.detectors.growth import PROPORTIONAL, Proportion, Together
from grpo_top.detectors.learnable import success_rate
from grpo_top.detectors.rules import ONE_SIDED_99, Around, SeriesDetector, ordered_rows, sustained
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Baseline, Window, robust_deviation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch

EARLY = 5
"""First steps that lengths are compared with."""
EARNED = 0.01
"""Share of successes from which something is earned."""
RISE = 0.02
"""Share of its scale by which success must have risen to count as risen."""


class LengthHacking(SeriesDetector):
    """Longer answers are paid better, and answers grow."""

    id = "LENGTH_HACKING"
    stage = 5
    severity = Status.WARN
    series = ("reward_length_corr", "completion_tokens_mean", "truncation_rate")
    needs = ("reward_length_corr",)
    knobs = (
        Knob("threshold", 0.5, "mean correlation of reward and length within groups, over the last 20 steps"),
        Knob("min_steps", 10, "steps before a correlation counts that chance could explain"),
        Knob("growth", 0.2, "growth of the mean length over the first 5 steps"),
        Knob("truncation", 0.3, "or share of completions that are truncated over the last 20 steps"),
        Knob("more_cut", 0.2, "and by how much that share has risen since the first 5 steps"),
        Knob("remark", 2, "times the early length from which growth that nothing else explains is remarked"),
    )
    page = Page(
        what=(
            "Reward follows length. Within a group, where the task is one and the same, the longer answer "
            "earns more, and answers grow. Either the judge measures length, or some part of the reward is "
            "counted per step or per word."
        ),
        looks_like=(
            "Length climbs towards the budget with reward; in the groups panel the longest sibling is the "
            "best one again and again."
        ),
        decides=(
            "Takes the correlation of reward and length within groups, which removes what tasks differ in, "
            "as a mean over the last 20 steps. Fires above `threshold`, if besides the mean length has grown "
            "by `growth` over the first 5 steps, or `truncation` of completions are truncated and that is "
            "`more_cut` more than on those steps. With fewer than `min_steps` steps it fires only where a "
            "one-sided 99% bound of the correlation lies above the threshold. Where no correlation is known, "
            "it fires when the mean reward is the mean length times a constant, to half a percent, while "
            "lengths grow by half. Length that grows with reward over the run is no sign by itself, since "
            "reasoning does that: where neither a correlation within groups nor a held-out evaluation is "
            "logged, length that has come to `remark` times that of the first 20 rows while it and reward "
            "both have a significant upward trend over 60 rows is a remark, and no more."
        ),
        try_next=(
            "Read the longest and the shortest answer of three groups side by side, and score them by hand",
            "If a judge scores, have it compare answers of equal length, or tell it that length is no merit",
            "Normalise what is counted per step, or pay for length only up to what tasks need",
            "Add a penalty for overlong answers, small, and only once the reward is mended",
        ),
        mistaken_for=(
            "Reasoning that pays: then longer answers are right more often, held-out rises too, and the "
            "correlation within groups stays small. Cut answers that fail: they make short answers look "
            "good, which is a negative correlation."
        ),
        related=("TRUNCATION", "HELDOUT_FLAT", "COMPONENT_DIVERGENCE", "REPETITION_LOOPS"),
    )
    threshold: float
    min_steps: float
    growth: float
    truncation: float
    more_cut: float
    remark: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._together = Together()
        self._evaluated = False
        self._correlation = Window(WINDOW)
        self._freedom = 0
        """Rollouts beyond one a group, while there were few steps."""
        self._early = Baseline(1, EARLY, least=1)
        self._early_cut = Baseline(1, EARLY, least=1)
        self._lengths, self._cut = Window(WINDOW), Window(WINDOW)
        self._streak = Streak()
        self._proportion = Proportion()

    def observe(self, facts: StepFacts) -> Verdict:
        """Follow lengths on every step, and judge those with a correlation."""
        length, cut = facts.get("completion_tokens_mean"), facts.get("truncation_rate")
        self._proportion.add(facts)
        self._together.add(facts)
        self._evaluated = self._evaluated or bool(facts.evals)
        if length is not None:
            steps = facts.stands_for("completion_tokens_mean")
            self._early.add(length, steps)
            self._lengths.add(length, facts.step, steps)
        if cut is not None:
            steps = facts.stands_for("truncation_rate")
            self._early_cut.add(cut, steps)
            self._cut.add(cut, facts.step, steps)
        verdict = super().observe(facts)
        if len(self._correlation) < self.min_steps and self._proportion.fit is not None:
            return Verdict(Status.WARN, self._proportion.fit, PROPORTIONAL, self._proportion.first_step)
        if self._unexplained():
            return Verdict(Status.INFO, self._together.growth, self.remark, self._together.first_step)
        return verdict

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens without a correlation while answers are hardly longer than they ever were."""
        names, steps = stretch.names, stretch.steps
        ready = self._early.ready and (self._early_cut.ready or "truncation_rate" not in names)
        if self.series[0] in names or not ready or self._verdict.status >= Status.INFO:
            return None
        if not self._proportion.is_far(stretch) or not self._together.is_far(stretch, self.remark):
            return None
        self._proportion.extend(stretch)
        self._together.extend(stretch)
        if "completion_tokens_mean" in names:
            self._lengths.extend(stretch.column("completion_tokens_mean"), steps)
        if "truncation_rate" in names:
            self._cut.extend(stretch.column("truncation_rate"), steps)
        return repeated(self._verdict, stretch)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Take a step's correlation in, and ask whether answers grew."""
        self._correlation.add(value, facts.step)
        if len(self._correlation) < self.min_steps:
            self._freedom += int((facts.get("rollouts") or 0) - (facts.get("groups") or 0))
        mean = self._correlation.mean
        enough = len(self._correlation) >= self.min_steps
        sure = enough or _lower_bound(mean, self._freedom) > self.threshold
        self._streak.update(mean > self.threshold and self._grown(), facts.step)
        if not enough and not sure:
            return Verdict(Status.WATCH if self._streak.length else Status.UNKNOWN, mean, self.threshold)
        return sustained(self._streak, 1, Status.WARN, mean, self.threshold)

    def describe(self, facts: StepFacts) -> Details:
        """The correlation, how answers grew, and the groups' longest."""
        early, now = self._early.mean, self._lengths.mean
        correlation = self._correlation.mean if len(self._correlation) else None
        if self._unexplained():
            found = "reward and length climb together, and nothing logged tells reasoning from padding"
        elif len(self._correlation) >= self.min_steps or self._proportion.fit is None:
            found = f"reward and length correlate at {numbers.value(correlation)} within groups"
        else:
            found = "mean reward is mean length times a constant"
        return Details(
            f"{found}, length {numbers.count(early)} → {numbers.count(now)} tokens",
            {
                "reward_length_corr": correlation,
                "steps": len(self._correlation),
                "proportional": self._proportion.fit,
                "completion_tokens_early": early,
                "completion_tokens_now": now,
                "truncation_rate": self._cut.mean if len(self._cut) else None,
                "since": self._streak.since,
            },
            self.proof(facts, _longest_first),
        )

    def _unexplained(self) -> bool:
        """Whether length and reward grow together while nothing is logged that could tell why."""
        blind = not len(self._correlation) and not self._evaluated and self._proportion.fit is None
        return blind and self._together.has_grown(self.remark) and self._together.climb

    def _grown(self) -> bool:
        """Whether answers are longer than on the first steps, or cut far more often."""
        if len(self._lengths) and self._lengths.mean > (1 + self.growth) * self._early.mean:
            return True
        cut = self._cut.mean if len(self._cut) else 0.0
        return cut > self.truncation and cut - self._early_cut.mean >= self.more_cut


class LengthCollapse(SeriesDetector):
    """Answers shrink to nothing."""

    id = "LENGTH_COLLAPSE"
    stage = 5
    severity = Status.WARN
    series = ("completion_tokens_mean", "success_rate", "component_mean", "heldout")
    needs = ("completion_tokens_mean",)
    knobs = (
        Knob("threshold", 0.5, "share of the first 5 steps' mean length"),
        Knob("sustain", 10, "consecutive steps"),
        Knob("floor", 3, "tokens under which nothing is said, where nothing is earned either"),
    )
    page = Page(
        what=(
            "Answers have become much shorter and no better. The policy has found that saying little is "
            "safe: it avoids cuts, penalties or the risk of being wrong. Or it never said anything: the end "
            "token comes first."
        ),
        looks_like=(
            "Mean length falls to a fraction and stays there; success does not move, or falls with it."
        ),
        decides=(
            "Fires when the mean length is under `threshold` of the median of the first 5 steps on `sustain` "
            "steps running, while neither success nor held-out results have risen by more than chance; where "
            "success is not known, the components that pay for content stand for it, and last the reward. "
            "Fires too when the mean length is under `floor` tokens while nothing is earned. Healthy runs get "
            "shorter as well, to about 0.55 of where they began."
        ),
        try_next=(
            "Read five answers: is the reasoning gone, or only the chatter?",
            (
                "Look at what truncated or long completions earn; a budget that is too small teaches shortness, see "
                "TRUNCATION"
            ),
            (
                "Check how the loss weighs long against short answers: means over each answer favour short "
                "right ones"
            ),
            "Take length penalties out until success rises again",
            (
                "If answers are empty from the first step, check the template, the end tokens and the stop "
                "strings"
            ),
        ),
        mistaken_for="A verbose base model that learns to answer: length halves while success rises.",
        related=("TRUNCATION", "COMPONENT_DIVERGENCE", "ENTROPY_COLLAPSE", "LOW_DIVERSITY", "SAMPLER_DRIFT"),
    )
    threshold: float
    sustain: float
    floor: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._early = Baseline(1, EARLY, least=1)
        self._short, self._silent = Streak(), Streak()
        self._length = math.nan
        self._quality: dict[str, tuple[Baseline, Window]] = {}
        """What tells whether answers got better, early and late: success, components, held-out, reward."""
        self._around = Around("completion_tokens_mean", "success_rate", "reward_mean", "truncation_rate")

    def observe(self, facts: StepFacts) -> Verdict:
        """Follow whether answers got better, on every step."""
        for point in facts.evals:
            self._follow("heldout", point.value, point.step, first=1)
        success = success_rate(facts)
        if success is not None:
            self._follow("success", success, facts.step)
        for name, value in content_components(facts).items():
            self._follow(name, value, facts.step)
        reward = facts.get("reward_mean")
        if reward is not None:
            self._follow("reward", reward, facts.step)
        return super().observe(facts)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare a step's mean length with the first steps'."""
        self._length = value
        steps = facts.stands_for("completion_tokens_mean")
        self._early.add(value, steps)
        silent = value < self.floor and (success := success_rate(facts)) is not None and success < EARNED
        self._silent.update(silent, facts.step, steps)
        ready = self._early.ready
        limit = self.threshold * self._early.median
        short = ready and value < limit and not self._better()
        if short and not self._short.length:
            self._around.mark()
        self._short.update(short, facts.step, steps)
        self._around.add(facts)
        if self._silent.length >= self.sustain:
            return Verdict(Status.WARN, value, self.floor, self._silent.since)
        if not ready:
            return UNKNOWN
        return sustained(self._short, self.sustain, Status.WARN, value, limit)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while no step is short."""
        if "completion_tokens_mean" not in stretch.names or not self._early.ready:
            return None
        if self._short.length or self._silent.length or self.sustain <= 0:
            return None
        shortest = stretch.extent("completion_tokens_mean")[0]
        success = [rate for one in stretch.facts if (rate := success_rate(one)) is not None]
        is_silent = shortest < self.floor and min(success, default=1.0) < EARNED
        if shortest < self.threshold * self._early.median or is_silent:
            return None
        if stretch.has_parts("component_mean") or not self._follow_all(stretch, success):
            return None
        values = stretch.column("completion_tokens_mean")
        self._length = values[-1]
        self._around.extend(stretch)
        return self.passed(Status.OK, values)

    def describe(self, facts: StepFacts) -> Details:
        """How long answers are and were, and that they got no better."""
        silent = self._silent.length >= self.sustain
        if silent:
            summary = f"answers have {numbers.value(self._length)} tokens on average and earn nothing"
        else:
            summary = (
                f"mean length {numbers.value(self._length)} tokens, {numbers.value(self._early.median)} at first, "
                "and success no higher"
            )
        return Details(
            summary,
            {
                "completion_tokens_mean": self._length,
                "early": self._early.median,
                "since": (self._silent if silent else self._short).since,
                "quality": {name: [early.mean, late.mean] for name, (early, late) in self._quality.items()},
                **self._around.evidence(),
            },
            self.proof(facts, _shortest_first),
            (self.page.try_next[4], self.page.try_next[0]) if silent else None,
        )

    def _follow(self, name: str, value: float, step: int, first: int = EARLY) -> None:
        if name not in self._quality:
            self._quality[name] = (Baseline(1, first, least=1), Window(WINDOW))
        early, late = self._quality[name]
        early.add(value)
        late.add(value, step)

    def _follow_all(self, stretch: Stretch, success: list[float]) -> bool:
        """As `_follow` on every step of a stretch without components; False where that is not as simple."""
        told = {"success": success}
        if "reward_mean" in stretch.names:
            told["reward"] = stretch.column("reward_mean")
        told = {name: values for name, values in told.items() if values}
        if any(name not in self._quality or len(of) < len(stretch) for name, of in told.items()):
            return False
        for name, values in told.items():
            early, late = self._quality[name]
            early.extend(values)
            late.extend(values, stretch.steps)
        return True

    def _better(self) -> bool:
        """Whether what is known best of the answers has risen."""
        best: tuple[str, ...] = ("success", "heldout")
        names = [name for name in best if name in self._quality]
        if not names:
            names = [name for name in self._quality if name != "reward"] or list(self._quality)
        return any(_risen(*self._quality[name]) for name in names)


def _risen(early: Baseline, late: Window) -> bool:
    """Whether it is higher than early on, by more than 2 standard errors of the difference of such means."""
    before, now = early.mean, late.mean
    noise = robust_deviation(np.diff(late.values)) / math.sqrt(2)
    chance = 2 * noise * math.sqrt(1 / EARLY + 1 / max(len(late), 1))
    return now - before > max(RISE * max(abs(before), abs(now), 1e-9), RISE / 10, chance)


def _lower_bound(correlation: float, freedom: int) -> float:
    """One-sided 99% lower bound of a correlation within groups (Fisher's z); −1 with too few rollouts."""
    if freedom < 5:
        return -1.0
    return math.tanh(math.atanh(min(max(correlation, -0.999), 0.999)) - ONE_SIDED_99 / math.sqrt(freedom - 2))


def _longest_first(batch: Batch) -> tuple[int, ...]:
    """Each group's longest rollout, the best paid first, then its shortest."""
    tokens = batch.column("completion_tokens")
    order = np.lexsort((tokens, batch.group))
    ends = np.flatnonzero(np.diff(batch.group[order], append=-1))
    longest = order[ends]
    best = longest[np.argsort(-np.nan_to_num(batch.reward[longest]), kind="stable")][:25]
    starts = order[np.concatenate(([0], ends[:-1] + 1))]
    shortest_of = dict(zip(batch.group[starts].tolist(), starts.tolist(), strict=True))
    pairs = [row for row in best.tolist() for row in (row, shortest_of[int(batch.group[row])])]
    return tuple(int(batch.rows[row]) for row in dict.fromkeys(pairs))


def _shortest_first(batch: Batch) -> tuple[int, ...]:
    return ordered_rows(batch, np.argsort(batch.column("completion_tokens"), kind="stable"))
