"""Stage 8, held-out: does what is learnt hold for tasks that were not trained on?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Passed, Verdict, repeated
from grpo_top.detectors.forms import components, content_components
from grpo_top.detectors.leakage import Leakage
from grpo_top.detectors.rules import ONE_SIDED_99, RewardSpan, ordered_rows
from grpo_top.snapshot import Status
from grpo_top.streaming import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import EvalPoint, StepFacts, Stretch

STEPS_BEFORE = 10
"""Steps whose mean train reward an evaluation is compared with."""
POINTS_KEPT = 240
"""Evaluations, or means of several, that are kept of one suite; an even number."""
SUITES_KEPT = 32
WIDE = 2.0
"""Width of a reward range past which held-out values within 0 and 1 are not on its scale."""
TOGETHER = 3
"""Evaluations that are averaged where held-out is said to sink."""
FINEST = 400
"""Rollouts of an evaluation beyond which no evaluation is taken to go: fewer are usual, and the rest is luck."""


class Pair(NamedTuple):
    """One evaluation, and the train reward that led up to it."""

    step: int
    heldout: float
    train: float
    content: float
    """Of the train reward what its content earned; all of it where no component pays for form."""


class Suite:
    """Every evaluation of one suite, in pairs with the train reward before it.

    Past `POINTS_KEPT` of them two neighbours become one, their mean, and so do those that follow: the thirds of
    the run stay where they are.
    """

    def __init__(self) -> None:
        self.evaluations = 0
        self.best = self.newest = Pair(0, -math.inf, -math.inf, -math.inf)
        self.highest_train = -math.inf
        self._lowest = math.inf
        self._pairs: list[Pair] = []
        self._open: list[Pair] = []
        """Evaluations that will be one of `_pairs` together."""
        self._together = 1

    def add(self, pair: Pair) -> None:
        """Take an evaluation in."""
        self.evaluations += 1
        self.newest = pair
        self.best = pair if pair.heldout > self.best.heldout else self.best
        self.highest_train = max(self.highest_train, pair.train)
        self._lowest = min(self._lowest, pair.heldout)
        self._open.append(pair)
        if len(self._open) >= self._together:
            self._pairs.append(_merged(self._open))
            self._open = []
        if len(self._pairs) >= POINTS_KEPT:
            self._pairs = [_merged(self._pairs[at : at + 2]) for at in range(0, len(self._pairs), 2)]
            self._together *= 2

    @property
    def pairs(self) -> list[Pair]:
        """The evaluations, oldest first."""
        return [*self._pairs, _merged(self._open)] if self._open else self._pairs

    def gains(self) -> tuple[float, float]:
        """How far train reward and held-out have come: the last third's mean minus the first third's.

        What form alone has gained is left out: where the reward pays for it and an evaluation does not, train rises
        first in any run.
        """
        pairs = self.pairs
        third = len(pairs) // 3
        first, last = _merged(pairs[:third]), _merged(pairs[-third:])
        return min(last.train - first.train, last.content - first.content), last.heldout - first.heldout

    def first_third(self) -> float:
        """Mean of the first third's evaluations."""
        pairs = self.pairs
        return _merged(pairs[: len(pairs) // 3]).heldout

    def chance(self, first: int, second: int, newest: int = 0, of: int = 1) -> float:
        """What two means of so many evaluations may differ by though nothing changed: a one-sided 99% bound.

        The `newest` do not count; `of`: among how many means the one that is farthest off was picked.
        """
        values = [pair.heldout for pair in self.pairs]
        counted = values[: len(values) - newest]
        quantile = math.sqrt(ONE_SIDED_99**2 + 2 * math.log(of))
        floor = quantile * self.finest()
        return max(_noise(counted, 1, quantile), floor) * math.sqrt(1 / first + 1 / second)

    def chance_of_gap(self, width: float, own: float) -> float:
        """What train may gain on held-out from the first third to the last though nothing changed, of the range.

        Train rewards of evaluations that lie closer than the steps before them share steps, so that they are noisy
        together; fewer of them count.
        """
        pairs = self.pairs
        spacing = (pairs[-1].step - pairs[0].step) / (len(pairs) - 1)
        shared = min(max(1, math.ceil(STEPS_BEFORE / max(spacing, 1))), len(pairs) // 3)
        gaps = [pair.train / width - pair.heldout / own for pair in pairs]
        third = len(pairs) // 3
        noise = max(_noise(gaps, shared, ONE_SIDED_99), ONE_SIDED_99 * self.finest() / own)
        return noise * math.sqrt(2 * shared / third)

    def finest(self) -> float:
        """The least standard error that an evaluation is taken to have: of rates what a binomial has."""
        pairs = self.pairs
        mean = _merged(pairs).heldout
        rate = self._lowest >= 0 and self.best.heldout <= 1
        return math.sqrt(mean * (1 - mean) / FINEST) if rate else 0.0

    def width(self, train_range: float) -> float:
        """The range of its values: that of the reward, save where they are rates and the reward's scale is another."""
        rate = self._lowest >= 0 and self.best.heldout <= 1
        return 1.0 if rate and train_range > WIDE else train_range

    def best_and_last(self) -> tuple[Pair, Pair] | None:
        """Where held-out was best and where it is now, each the mean of 3 evaluations; None while there are few."""
        pairs = self.pairs
        runs = [_merged(pairs[at : at + TOGETHER]) for at in range(len(pairs) - TOGETHER + 1)]
        if len(runs) <= TOGETHER:
            return None
        return max(runs[:-TOGETHER], key=lambda pair: pair.heldout), runs[-1]


class HeldoutFlat(Detector):
    """Training reward rises and held-out does not."""

    id = "HELDOUT_FLAT"
    stage = 8
    severity = Status.WARN
    series = ("heldout", "reward_mean")
    knobs = (
        Knob("min_evals", 6, "evaluations of a suite before it is judged"),
        Knob("train_rise", 0.08, "share of the reward range by which train reward must have risen"),
        Knob("little", 0.1, "share of train's gain up to which held-out has gained next to nothing"),
        Knob("gap", 0.1, "share of the range that train must have gained on held-out"),
        Knob("sink", 0.1, "or share of the range by which held-out has sunk while train rose"),
        Knob("fall", 0.15, "or share of the range by which the newest evaluation lies under the best one"),
    )
    page = Page(
        what=(
            "The policy gets better at what it is trained on and at nothing else. What pays there may be "
            "tasks that come again, a hole in the verifier, or the order of the curriculum. Train reward "
            "cannot tell that from progress; held-out results can."
        ),
        looks_like=(
            "The train line climbs, the held-out diamonds stay on one height or sink, and the gap between "
            "them grows."
        ),
        decides=(
            "Pairs each evaluation with what the train reward of the 10 steps before it came to, and compares the "
            "last third of the evaluations with the first third, from `min_evals` evaluations on. Fires when "
            "train has risen by `train_rise` of the reward range or more, held-out by no more than `little` "
            "of that, and train has gained `gap` of the range on it. Fires too when the mean of the last 3 "
            "evaluations lies `sink` of the range under the best mean of 3, while train has risen by "
            "`train_rise` since. And it fires when the newest evaluation lies `fall` of the range "
            "under the best one and under the median of those before it, while train reward is at its "
            "highest. Each of these differences must be more than chance makes, by how far evaluations "
            "lie off the middle of their neighbours, the more so as they are few: one on a few dozen rollouts "
            "cannot tell, and none is taken to be finer than one on 400. Held-out that began near its top is "
            "expected to gain what was left and no more. Where some components pay for the form of answers, train "
            "has risen by no more than the others have. Where no range is known, means within 0 and 1 are taken to "
            "have that range."
        ),
        try_next=(
            "Select checkpoints on held-out results only, and go back to the best one: train reward is for diagnosis",
            (
                "Check that held-out tasks are excluded from every path into training, and that train tasks "
                "do not repeat: see LEAKAGE"
            ),
            "Read what train answers earn most: a gap in the verifier shows itself there first",
            "Harden the verifier where it can be satisfied without solving the task",
            "Widen the training mixture",
        ),
        mistaken_for=(
            "An evaluation that is too small: with 100 rollouts a success rate moves by several points from "
            "one to the next. Another sampling config for the evaluation, which shifts it without a trend. A "
            "held-out set that is at its ceiling."
        ),
        related=("LEAKAGE", "KL_EXPLODING", "FORMAT_EXPLOIT", "LENGTH_HACKING", "REWARD_PLATEAU"),
    )
    min_evals: float
    train_rise: float
    little: float
    gap: float
    sink: float
    fall: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._suites: dict[str, Suite] = {}
        self._train, self._content = Window(STEPS_BEFORE), Window(STEPS_BEFORE)
        """Train rewards of the last steps, and what of them content earned."""
        self._span = RewardSpan()
        self._worst = ""
        self._fell = False
        self._turned: tuple[Pair, Pair] | None = None
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Pair evaluations with the train reward before them, and judge after each."""
        earlier = [point for point in facts.evals if point.step < facts.step]
        for point in earlier:
            self._add(point)
        reward = facts.get("reward_mean")
        if reward is not None:
            steps = facts.stands_for("reward_mean")
            self._train.add(reward, facts.step, steps)
            self._content.add(_paid_for_content(facts, reward), facts.step, steps)
            self._span.add(reward, facts)
        for point in facts.evals[len(earlier) :]:
            self._add(point)
        if facts.evals and self._suites:
            self._verdict = self._judge(self._range(facts))
        return self._verdict

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens without an evaluation."""
        if stretch.has_parts("component_mean") or self._verdict.status >= Status.INFO:
            return None
        if "reward_mean" in stretch.names:
            rewards = stretch.column("reward_mean")
            self._train.extend(rewards, stretch.steps)
            self._content.extend(rewards, stretch.steps)
            self._span.extend(stretch)
        return repeated(self._verdict, stretch)

    def describe(self, facts: StepFacts) -> Details:
        """What train and held-out have gained, and where the best evaluation was."""
        suite = self._suites[self._worst]
        train, heldout = suite.gains()
        best, newest = suite.best, suite.newest
        name = "held-out" if self._worst == "heldout" else self._worst
        if self._turned is not None:
            top, last = self._turned
            summary = (
                f"{name} {numbers.value(top.heldout)} → {numbers.value(last.heldout)} since step {top.step}, "
                f"while train reward went {numbers.value(top.train)} → {numbers.value(last.train)}"
            )
        elif self._fell:
            summary = (
                f"{name} {numbers.value(newest.heldout)} at step {newest.step}, {numbers.value(best.heldout)} at step "
                f"{best.step}, while train reward is at its highest"
            )
        else:
            gained = f"train reward {numbers.change(train)}, {name} {numbers.change(heldout)}"
            summary = f"{gained} over {suite.evaluations} evaluations"
        rows: tuple[int, ...] = ()
        if facts.batch is not None:
            rows = ordered_rows(facts.batch, np.argsort(-facts.batch.reward, kind="stable"))
        return Details(
            summary,
            {
                "suite": self._worst,
                "evaluations": suite.evaluations,
                "train_gain": train,
                "heldout_gain": heldout,
                "reward_range": limits[1] - limits[0] if (limits := self._range(facts)) is not None else None,
                "best_step": best.step,
                "best": best.heldout,
                "newest_step": newest.step,
                "newest": newest.heldout,
            },
            rows,
        )

    def _add(self, point: EvalPoint) -> None:
        known = point.suite in self._suites or len(self._suites) < SUITES_KEPT
        if known and len(self._train) and math.isfinite(point.value):
            suite = self._suites.setdefault(point.suite, Suite())
            suite.add(Pair(point.step, point.value, _come_to(self._train), _come_to(self._content)))

    def _range(self, facts: StepFacts) -> tuple[float, float] | None:
        limits = facts.scale.range(facts.run)
        return limits if limits is not None and limits[1] > limits[0] else self._span.limits

    def _judge(self, limits: tuple[float, float] | None) -> Verdict:
        judged = {name: suite for name, suite in self._suites.items() if suite.evaluations >= self.min_evals}
        if not judged or limits is None:
            return UNKNOWN
        width = limits[1] - limits[0]
        for name, suite in judged.items():
            self._turned = self._sunk(suite, width)
            if self._turned is not None:
                self._worst, self._fell = name, False
                best, last = self._turned
                sunk = (best.heldout - last.heldout) / suite.width(width)
                return Verdict(Status.WARN, sunk, self.sink, best.step)
        gaps = {name: self._gap(suite, limits) for name, suite in judged.items()}
        worst = max(gaps, key=lambda name: gaps[name])
        if gaps[worst] > 0:
            self._worst, self._fell = worst, False
            return Verdict(Status.WARN, gaps[worst], self.gap, self._suites[worst].pairs[0].step)
        for name, suite in judged.items():
            if self._falls(suite, width):
                self._worst, self._fell = name, True
                fallen = (suite.best.heldout - suite.newest.heldout) / suite.width(width)
                return Verdict(Status.WARN, fallen, self.fall, suite.best.step)
        return Verdict(Status.OK, 0.0, self.gap)

    def _gap(self, suite: Suite, limits: tuple[float, float]) -> float:
        """What train has gained on held-out, as a share of the range; 0 where the rule is not met.

        Held-out that began near its top cannot gain more than was left.
        """
        train, heldout = suite.gains()
        width = limits[1] - limits[0]
        own = suite.width(width)
        top = limits[1] if own == width else 1.0
        train, heldout = train / width, heldout / own
        gap = min(train, (top - suite.first_third()) / own) - heldout
        if train < self.train_rise or heldout > self.little * train or gap < self.gap:
            return 0.0
        return gap if gap >= suite.chance_of_gap(width, own) else 0.0

    def _sunk(self, suite: Suite, width: float) -> tuple[Pair, Pair] | None:
        """Where held-out was best and where it is now, if it has sunk while train rose."""
        found = suite.best_and_last()
        if found is None:
            return None
        best, last = found
        sunk, risen = best.heldout - last.heldout, last.train - best.train
        if sunk < self.sink * suite.width(width) or risen < self.train_rise * width:
            return None
        return found if sunk >= suite.chance(TOGETHER, TOGETHER, of=len(suite.pairs) // TOGETHER) else None

    def _falls(self, suite: Suite, width: float) -> bool:
        newest, pairs = suite.newest, suite.pairs
        fallen = suite.best.heldout - newest.heldout
        if fallen < self.fall * suite.width(width) or newest.train < suite.highest_train:
            return False
        chance = suite.chance(1, 1, newest=1, of=(len(pairs) - 1) ** 2)  # of all pairs of evaluations
        return fallen >= chance and newest.heldout < float(np.median([pair.heldout for pair in pairs[:-1]]))


def _come_to(rewards: Window) -> float:
    """What the rewards of the last steps have come to: their mean lags behind a reward that rises."""
    values = rewards.values
    half = len(values) // 2
    return rewards.mean + float(values[-half:].mean() - values[:half].mean()) / 2 if half else rewards.mean


def _paid_for_content(facts: StepFacts, reward: float) -> float:
    """What components that pay for content add up to where others pay for form, else the reward."""
    if not components(facts):
        return reward
    content = content_components(facts)
    return math.fsum(content.values()) if 0 < len(content) < len(components(facts)) else reward


def _merged(pairs: list[Pair]) -> Pair:
    """Several evaluations as one: the last one's step, and the means."""
    number = len(pairs)
    heldout, train, content = (math.fsum(pair[at] for pair in pairs) / number for at in (1, 2, 3))
    return Pair(pairs[-1].step, heldout, train, content)


def _noise(values: list[float], apart: int, quantile: float) -> float:
    """A bound of a single value's chance deviation: `quantile` standard deviations, more as values are fewer.

    By how far values lie from the middle between those `apart` before and after them, which no smooth course makes.
    Neighbouring bends share values, so half of them count; Student's quantile by its expansion in them.
    """
    series = np.asarray(values, np.float64)
    bends = series[: -2 * apart] - 2 * series[apart:-apart] + series[2 * apart :]
    freedom = len(bends) / (2 * apart)
    if not freedom:
        return 0.0
    square = quantile * quantile
    student = (
        1 + (square + 1) / (4 * freedom) + (5 * square * square + 16 * square + 3) / (96 * freedom * freedom)
    )
    return quantile * student * math.sqrt(float((bends**2).mean()) / 6)


DETECTORS: tuple[type[Detector], ...] = (HeldoutFlat, Leakage)
