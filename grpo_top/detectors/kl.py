"""Stage 6, KL: is the policy drifting for the wrong reason?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Knob, Page, Passed, Streak, Verdict
from grpo_top.detectors.rules import (
    FLAT_STEPS,
    OF_MANY_STEPS,
    SeriesDetector,
    covers,
    ordered_rows,
    still_disagree,
)
from grpo_top.detectors.updates import ClipSaturation, GradSpikes
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Baseline, RunningMedian, Window, robust_deviation
from grpo_top.trends import significant_trend, trend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.detectors.base import Detector
    from grpo_top.facts import StepFacts, Stretch

UPSTREAM_FIRST = (
    "The KL coefficient comes last, once the stages above (reward, variance, rollouts) are quiet: it moves what is "
    "seen here, and seldom what is wrong"
)
AHEAD = 3
"""Times its growth over a window that KL grows over the next one: it grows as the square of a steady movement."""
ENOUGH = 10
"""Rows that a mean may be judged by before the late window is full."""
LIMITS = {"duplicate_frac": 0.9, "repetition_frac": 0.1}
"""The limits of LOW_DIVERSITY (short answers) and REPETITION_LOOPS."""
SPENT = 0.1
"""Share of its highest under which a learning rate moves next to nothing."""
LONG_TOKENS, LONG_LIMIT = 64, 0.5
"""From this many tokens on LOW_DIVERSITY's limit is this one."""


class KlExploding(SeriesDetector):
    """The policy runs away from its reference."""

    id = "KL_EXPLODING"
    stage = 6
    severity = Status.FAIL
    series = ("kl", "reward_mean", "heldout")
    needs = ("kl",)
    knobs = (
        Knob("times", 10, "times the median of the steps before that KL must exceed"),
        Knob("threshold", 0.5, "and nats that it must exceed besides"),
        Knob("sustain", 3, "consecutive steps, two logged rows at least"),
        Knob("mean", 2, "or mean over the last 20 steps"),
        Knob("extreme", 10, "or nats, exceeded on two logged rows of the last 20 steps"),
    )
    page = Page(
        what=(
            "KL to the reference leaves the range in which it moved so far. The policy is somewhere the "
            "reference would never be. Together with a rising reward and falling held-out results that is "
            "reward hacking; without them it is mostly an update that went wrong."
        ),
        looks_like=(
            "KL bends upwards on its chart, or jumps and does not come back. Look at reward and held-out "
            "beside it: which way they go tells the two apart."
        ),
        decides=(
            "Fires when KL is above `times` the median of all steps before and above `threshold`, for "
            "`sustain` steps; when its mean over the last 20 steps is above `mean`, most of them above half "
            "of that; or when it exceeds `extreme` on two rows. A single row above the limit, be it an "
            "average over several steps, is a watch: KL spikes and recovers in healthy runs. Reward hacking "
            "is named only where reward has risen and held-out has fallen."
        ),
        try_next=(
            (
                "Read what earns most now, next to what earned most before: is it better, or does it only "
                "score better?"
            ),
            "If it only scores better, harden the verifier, then resume from before KL left its range",
            "If reward does not rise either, look at that step's learning rate, gradient norm and data",
            UPSTREAM_FIRST,
        ),
        mistaken_for=(
            "The KL between sampler and trainer, which some frameworks call KL too: that one is "
            "LOGPROB_MISMATCH. Slow growth: KL rises in any run that learns, and without a penalty it rises "
            "further."
        ),
        related=("GRAD_SPIKES", "HELDOUT_FLAT", "ENTROPY_COLLAPSE", "LOGPROB_MISMATCH", "KL_RATCHET"),
    )
    times: float
    threshold: float
    sustain: float
    mean: float
    extreme: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._before = RunningMedian()
        self._late, self._reward = Window(WINDOW), Window(WINDOW)
        self._streak, self._rows_above = Streak(), Streak()
        self._typical = 0.0
        self._heldout: list[float] = []
        """The best evaluation so far, and the newest."""

    def observe(self, facts: StepFacts) -> Verdict:
        """Follow reward and evaluations on every step."""
        for point in facts.evals:
            best = max(self._heldout[:1] or [point.value])
            self._heldout = [max(best, point.value), point.value]
        reward = facts.get("reward_mean")
        if reward is not None:
            self._reward.add(reward, facts.step)
        return super().observe(facts)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare a step's KL with the steps before."""
        steps = facts.stands_for("kl")
        self._typical = self._before.value if self._before.count else value
        limit = max(self.times * self._typical, self.threshold)
        above = value > limit
        self._streak.update(above, facts.step, steps)
        self._rows_above.update(above, facts.step)
        self._before.add(value)
        self._late.add(value, facts.step, steps)
        if self._streak.length >= self.sustain and self._rows_above.length >= 2:
            return Verdict(Status.FAIL, value, limit, self._streak.since)
        late = self._late
        if late.maximum < min(self.mean, self.extreme):  # as in most runs: nothing below can hold
            return Verdict(Status.WATCH if above else Status.OK, value, limit, self._streak.since)
        enough = late.full or len(late) >= ENOUGH
        if enough and late.mean > self.mean and late.median > self.mean / 2:
            return Verdict(Status.FAIL, late.mean, self.mean, late.first_step)
        extreme = late.above(self.extreme)
        if len(extreme) >= 2:
            return Verdict(Status.FAIL, value, self.extreme, extreme[0])
        return Verdict(Status.WATCH if above or extreme else Status.OK, value, limit, self._streak.since)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while KL is below every limit that needs no median."""
        if "kl" not in stretch.names or not self._before.count or self._rows_above.length:
            return None
        highest = stretch.extent("kl")[1]
        if highest > self.threshold or max(highest, self._late.maximum) >= min(self.mean, self.extreme):
            return None
        if "reward_mean" in stretch.names:
            self._reward.extend(stretch.column("reward_mean"), stretch.steps)
        *others, last = values = stretch.column("kl")
        for value in others:
            self._before.add(value)
        self._typical = self._before.value
        self._before.add(last)
        self._late.extend(values, stretch.steps)
        return self.passed(Status.OK, values)

    def describe(self, facts: StepFacts) -> Details:
        """Where KL was and is, and whether reward hacking is the name for it."""
        now = self._late.last
        values = self._reward.values
        rising = significant_trend(values, "up", self._reward.steps) if len(values) else False
        falling = len(self._heldout) == 2 and self._heldout[1] < self._heldout[0]
        summary = f"kl {numbers.value(now)}, median of the steps before {numbers.value(self._typical)}"
        if self._streak.length < self.sustain:
            summary += f", mean of the last {self._late.span} steps {numbers.value(self._late.mean)}"
        if rising and falling:
            summary += ": reward rises and held-out falls, which is reward hacking"
        return Details(
            summary,
            {
                "kl": now,
                "median_before": self._typical,
                "late_mean": self._late.mean,
                "since": self._streak.since,
                "reward_rising": rising,
                "heldout_best_and_last": list(self._heldout),
                "reward_hacking": rising and falling,
            },
            self.proof(facts, _best_paid),
        )


class KlPinned(SeriesDetector):
    """The policy does not move."""

    id = "KL_PINNED"
    stage = 6
    severity = Status.WARN
    series = ("kl", "reward_mean")
    knobs = (
        Knob("threshold", 0.001, "nats that KL stays under"),
        Knob("steps", 40, "steps over which it does, and reward has no trend; 12 logged rows at least"),
        Knob("tokens", 100, "completion tokens up to which that limit holds; it sinks as answers are longer"),
    )
    page = Page(
        what=(
            "KL to the reference stays next to nothing and reward does not move: the policy is where it "
            "began. The penalty is so large, or the updates are so small, that nothing can be learned."
        ),
        looks_like=(
            "A KL line on the bottom of its chart, a reward line without a slope, gradients that are not "
            "zero."
        ),
        decides=(
            "Fires when KL stays under `threshold` over the last `steps` steps, would stay there over as many "
            "again at the pace at which it grows, and reward has no significant trend over them, up or down, and "
            "is no higher than on the first 20 rows, by more than chance. KL is a mean over tokens: an answer of a "
            "thousand moves ten times as far as one of a hundred, so that past `tokens` the limit sinks with the "
            "mean length. While the learning rate doubles within these steps, or once it has sunk under a tenth of "
            "what it was, nothing moves as meant, and what was said before stands. A KL of exactly 0 throughout is a "
            "term that is not computed, and is not judged."
        ),
        try_next=(
            "Check the learning rate, its warm-up and its schedule, and that the optimizer steps at all",
            (
                "Check that groups disagree: without advantages nothing moves, whatever the coefficient, see "
                "DEGENERATE_GROUPS"
            ),
            "Check that the weights that are trained are the ones that sample, see WEIGHT_SYNC_STUCK",
            "Then lower the KL coefficient by a factor of ten, or leave the term out",
            UPSTREAM_FIRST,
        ),
        mistaken_for=(
            "A slow start: a small learning rate needs more than 40 steps, and then reward has a trend "
            "before KL has a size. A policy that has nothing left to learn: see SATURATED_REWARD."
        ),
        related=("NO_UPDATE", "REWARD_PLATEAU", "DEGENERATE_GROUPS", "SATURATED_REWARD"),
    )
    threshold: float
    steps: float
    tokens: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._kl, self._reward = Window(int(self.steps)), Window(int(self.steps))
        self._first_rewards = Baseline(1, WINDOW)
        self._length, self._rate = Window(WINDOW), Window(int(self.steps))
        self._highest_rate = 0.0

    def observe(self, facts: StepFacts) -> Verdict:
        """Follow reward, length and learning rate on every step."""
        reward, length = facts.get("reward_mean"), facts.get("completion_tokens_mean")
        rate = facts.get("learning_rate")
        if reward is not None:
            self._reward.add(reward, facts.step)
            self._first_rewards.add(reward)
        if length is not None:
            self._length.add(length, facts.step)
        if rate is not None:
            self._rate.add(rate, facts.step)
            self._highest_rate = max(self._highest_rate, rate)
        return super().observe(facts)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Ask whether anything has moved over the window."""
        self._kl.add(value, facts.step)
        highest = self._kl.maximum
        limit = self.threshold
        if highest >= limit >= 0 and self._verdict.status < Status.WARN:
            return Verdict(Status.OK, highest, limit)  # longer answers only lower the limit
        if len(self._length) and self._length.mean > self.tokens:
            limit *= self.tokens / self._length.mean
        if not covers(self._kl, self.steps) or not covers(self._reward, self.steps) or highest == 0:
            return Verdict(Status.OK if highest >= limit else Status.UNKNOWN, highest, limit)
        if self._is_meant():  # which neither makes it pinned nor sets it free
            return (
                self._verdict if self._verdict.status >= Status.WARN else Verdict(Status.OK, highest, limit)
            )
        pinned = (
            highest < limit
            and trend(self._reward.values, self._reward.steps).direction is None
            and not self._has_risen()
            and highest + AHEAD * trend(self._kl.values, self._kl.steps).change < limit
        )
        return Verdict(Status.WARN if pinned else Status.OK, highest, limit, self._kl.first_step)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while every window holds a KL that is above the limit."""
        if "kl" not in stretch.names or self._verdict.status >= Status.WARN:
            return None
        if not stretch.extent("kl")[0] >= self.threshold >= 0:
            return None
        if "reward_mean" in stretch.names:
            self._reward.extend(stretch.column("reward_mean"), stretch.steps)
            self._first_rewards.extend(stretch.column("reward_mean"))
        if "completion_tokens_mean" in stretch.names:
            self._length.extend(stretch.column("completion_tokens_mean"), stretch.steps)
        if "learning_rate" in stretch.names:
            self._rate.extend(stretch.column("learning_rate"), stretch.steps)
            self._highest_rate = max(self._highest_rate, stretch.extent("learning_rate")[1])
        return self.passed(Status.OK, self._kl.maxima(stretch.column("kl"), stretch.steps))

    def _is_meant(self) -> bool:
        """Whether the learning rate still warms up, or has come down to next to nothing."""
        if not len(self._rate):
            return False
        first, last = self._rate.first, self._rate.last or 0.0
        return 2 * first < last or last < SPENT * self._highest_rate

    def _has_risen(self) -> bool:
        """Whether reward is higher than on the first rows, by more than chance."""
        late = len(self._reward)
        noise = robust_deviation(np.diff(self._reward.values)) / math.sqrt(2)
        chance = OF_MANY_STEPS * noise * math.sqrt(1 / late + 1 / min(late, WINDOW))
        return self._reward.mean - self._first_rewards.mean > chance

    def _steps(self) -> int:
        return int(self._kl.steps[-1] - self._kl.steps[0]) + 1

    def describe(self, facts: StepFacts) -> Details:
        """How far KL and reward have moved, and what holds them."""
        values = self._reward.values
        config = facts.run.config
        held_by = {
            name: config[name]
            for name in ("beta", "kl_coef", "kl_loss_coef", "learning_rate")
            if name in config
        }
        return Details(
            f"kl at most {numbers.value(self._kl.maximum)} over {self._steps()} steps, reward flat at "
            f"{numbers.value(self._reward.mean)}",
            {
                "kl_max": self._kl.maximum,
                "kl_mean": self._kl.mean,
                "since": self._kl.first_step,
                "reward_mean": self._reward.mean,
                "reward_change": float(values[-WINDOW // 2 :].mean() - values[: WINDOW // 2].mean()),
                "learning_rate": facts.get("learning_rate"),
                "grad_norm": facts.get("grad_norm"),
                "config": held_by,
            },
        )


class KlRatchet(SeriesDetector):
    """KL climbs while texts become alike."""

    id = "KL_RATCHET"
    stage = 6
    severity = Status.WARN
    series = ("kl", "duplicate_frac", "repetition_frac")
    needs = ("kl", "duplicate_frac")
    knobs = (
        Knob("steps", 50, "steps over which the trends are taken; 12 logged rows at least"),
        Knob("alike", 0.9, "share of their own limit that duplicates or loops must have reached"),
    )
    page = Page(
        what=(
            "KL climbs step by step and never gives way, while completions become copies or loops. The "
            "policy is collapsing onto one narrow way to answer."
        ),
        looks_like=(
            "Two lines that climb together: KL, and duplicates or loops. Reward may climb too, for now."
        ),
        decides=(
            "Fires when KL has a significant upward trend over the last `steps` steps (Mann-Kendall at 1%, a "
            "Theil-Sen slope above the noise) and so has the share of duplicates or of loops, and that share "
            "has come to `alike` of the limit that LOW_DIVERSITY or REPETITION_LOOPS sets. A policy that "
            "gets better repeats itself a little more as well; only what nears the limit counts, and of short "
            "answers only where 40% of the groups have lost their spread over it."
        ),
        try_next=(
            "Read one group from now and one from 50 steps ago: which answer is left over?",
            "Check the deployed sampling config, see SAMPLER_DRIFT",
            "Add tasks that this one answer does not solve",
            "Go back to where texts were still different, with a lower learning rate",
            UPSTREAM_FIRST,
        ),
        mistaken_for="Learning: KL rises in any run that learns. Without copies or loops it is no fault.",
        related=("LOW_DIVERSITY", "REPETITION_LOOPS", "ENTROPY_COLLAPSE", "KL_EXPLODING"),
    )
    steps: float
    alike: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._kl = Window(int(self.steps))
        self._texts = {name: Window(int(self.steps)) for name in LIMITS}
        self._tokens: float | None = None
        self._flat = Window(FLAT_STEPS)
        self._rising: str | None = None

    def observe(self, facts: StepFacts) -> Verdict:
        """Follow duplicates and loops on every step."""
        tokens = facts.get("completion_tokens_p50")
        self._tokens = self._tokens if tokens is None else tokens
        flat = facts.get("zero_variance_group_frac")
        if flat is not None:
            self._flat.add(flat, facts.step)
        for name, window in self._texts.items():
            value = facts.get(name)
            if value is not None:
                window.add(value, facts.step)
        return super().observe(facts)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Ask whether KL and what texts have in common climb together."""
        self._kl.add(value, facts.step)
        told = {name: window for name, window in self._texts.items() if covers(window, self.steps)}
        if not told or not covers(self._kl, self.steps):
            return UNKNOWN
        near = [name for name, of in told.items() if self._nears(name, _late_mean(of))]
        climbing = bool(near) and significant_trend(self._kl.values, "up", self._kl.steps)
        self._rising = None
        if climbing:
            rising = (
                name
                for name in near
                if significant_trend(self._texts[name].values, "up", self._texts[name].steps)
            )
            self._rising = next(rising, None)
        return Verdict(Status.OK if self._rising is None else Status.WARN, value, None, self._kl.first_step)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens where nothing of texts is logged."""
        known = stretch.names
        if "kl" not in known or any(len(of) for of in self._texts.values()) or self._texts.keys() & known:
            return None
        if "completion_tokens_p50" in known:
            self._tokens = stretch.column("completion_tokens_p50")[-1]
        if "zero_variance_group_frac" in known:
            self._flat.extend(stretch.column("zero_variance_group_frac"), stretch.steps)
        self._kl.extend(stretch.column("kl"), stretch.steps)
        return self.passed(Status.UNKNOWN, [math.nan] * len(stretch))

    def _nears(self, name: str, share: float) -> bool:
        """Whether that many copies or loops are many; short answers may repeat while their groups still disagree."""
        short = self._tokens is not None and self._tokens < LONG_TOKENS
        harmless = name == "duplicate_frac" and short and still_disagree(self._flat)
        return share >= self.alike * self._limit(name) and not harmless

    def _limit(self, name: str) -> float:
        long = name == "duplicate_frac" and self._tokens is not None and self._tokens >= LONG_TOKENS
        return LONG_LIMIT if long else LIMITS[name]

    def describe(self, facts: StepFacts) -> Details:
        """What climbs with KL, and from where to where."""
        name = self._rising or "duplicate_frac"
        texts = self._texts[name].values
        kl = [float(part.mean()) for part in (self._kl.values[:10], self._kl.values[-10:])]
        word = "duplicates" if name == "duplicate_frac" else "loops"
        before, now = float(texts[:10].mean()), float(texts[-10:].mean())
        return Details(
            f"kl {numbers.value(kl[0])} → {numbers.value(kl[1])} since step {self._kl.first_step}, "
            f"{word} {numbers.share(before)} → {numbers.share(now)}",
            {
                "kl": kl,
                name: [before, now],
                "steps": [self._kl.first_step, facts.step],
            },
            self.proof(
                facts,
                lambda batch: (
                    () if batch.duplicates is None else ordered_rows(batch, np.argsort(~batch.duplicates))
                ),
            ),
        )


def _late_mean(window: Window) -> float:
    newest = window.newest(WINDOW)
    return math.fsum(newest) / len(newest)


def _best_paid(batch: Batch) -> tuple[int, ...]:
    return ordered_rows(
        batch, np.argsort(-np.nan_to_num(batch.reward, posinf=0.0, neginf=0.0), kind="stable")
    )


DETECTORS: tuple[type[Detector], ...] = (KlExploding, KlPinned, KlRatchet, ClipSaturation, GradSpikes)
