"""Stage 2, reward: did the reward fall and stay down?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Knob, Page, Streak, Verdict, group_rows
from grpo_top.detectors.parts import PartRewards
from grpo_top.detectors.rules import RewardSpan, SeriesDetector
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Window, median, robust_deviation
from grpo_top.trends import significant_trend, theil_sen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.facts import StepFacts

FALL_ROWS = 3
"""Rows within which a sudden fall happens."""
SINK_NOISE = 2.0
"""Robust deviations of a row by which a mean of 20 rows must sink: 6 standard errors of the difference of two."""


class RewardCollapse(SeriesDetector):
    """The mean reward falls and stays down: within a few steps, or bit by bit."""

    id = "REWARD_COLLAPSE"
    stage = 2
    severity = Status.FAIL
    series = ("reward_mean",)
    knobs = (
        Knob("deviations", 3, "robust deviations of the 20 rows before by which it falls, at least"),
        Knob("share", 0.5, "share of the range that the mean reward has covered by which it falls, at least"),
        Knob("sustain", 5, "rows running on which it stays down"),
        Knob("min_steps", 10, "rows before the fall, at least"),
        Knob("trend_steps", 60, "rows over which a slow fall is tested"),
    )
    page = Page(
        what=(
            "The mean reward fell and did not come back. A fall within three steps is a change from outside "
            "(scorer, parser, environment, sampler, data), or an update that broke the policy (NaN, a learning "
            "rate too high). A fall over hundreds of steps is a policy that comes apart: entropy or KL run "
            "away, and the reward goes after them."
        ),
        looks_like=(
            "A reward curve with a step down, or one that has turned. Everything computed from rewards turns "
            "with it."
        ),
        decides=(
            "Judged after `min_steps` rows. Fails when within 3 logged rows the mean reward falls by more than "
            "`deviations` robust deviations of the 20 rows before (around their trend, if they had one) "
            "and by `share` of the range that it has "
            "covered so far, and stays below that mark for `sustain` rows; it stands until the reward is back "
            "above the mark. Warns when the mean of 20 rows has sunk from its best by `share` of the range that "
            "such means have covered and by 2 robust deviations, and the last `trend_steps` rows have a "
            "significant downward trend, on `sustain` rows running. A tenth of the reward range is the least that "
            "counts, or half of what is earned above its low end, if that is less; in a log without rollouts the "
            "range is what means and deviations have shown, and from 0 to 1 at least where that lies in between."
        ),
        try_next=(
            "Ask first what changed at that step: reward and environment version, sampler config, data, a resume",
            "Read rollouts from before and after: if they read alike, the scorer changed; if not, the policy did",
            (
                "If the policy broke, go back to the checkpoint before and lower the learning rate; look at KL, "
                "entropy and gradient norm in the steps before"
            ),
            "If the scorer changed, see REWARD_STREAK and REWARD_INCONSISTENT for the proof",
        ),
        mistaken_for=(
            "A curriculum that moves on to harder tasks. Where families or tiers are logged, a sudden fall only counts "
            "among those that were there before. One bad batch: the reward is "
            "back within 5 rows."
        ),
        related=(
            "REWARD_STREAK",
            "REWARD_INCONSISTENT",
            "NONFINITE_METRIC",
            "KL_EXPLODING",
            "ENTROPY_EXPLOSION",
        ),
    )
    deviations: float
    share: float
    sustain: float
    min_steps: float
    trend_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._series = Window(int(self.trend_steps))
        self._late = Window(WINDOW)
        self._lowest, self._highest = math.inf, -math.inf
        self._least, self._best, self._best_step = math.inf, -math.inf, 0
        """Lowest and best mean of 20 rows."""
        self._sinking, self._sunk = Streak(), Streak()
        """Since half of the way down, and since the limit."""
        self._span = RewardSpan()
        self._down = Streak()
        self._before: float | None = None
        """What the reward was before a fall within 3 rows, while it stays below `_mark`."""
        self._mark = 0.0
        self._parts = PartRewards(WINDOW + FALL_ROWS)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Look for a fall; once there is one, whether the reward stays below its mark."""
        if facts.batch is not None:
            self._parts.add(facts.batch)
        self._lowest, self._highest = min(self._lowest, value), max(self._highest, value)
        self._span.add(value, facts)
        if self._before is not None and value > self._mark:
            self._before = None
            self._down.update(False, facts.step)
        if self._before is None:
            self._look_for_fall(value, facts)
        self._series.add(value, facts.step)
        self._late.add(value, facts.step)
        if self._before is not None:
            length = self._down.update(True, facts.step)
            status = Status.FAIL if length >= self.sustain else Status.WATCH
            return Verdict(status, value, self._mark, self._down.since)
        if len(self._series) < self.min_steps + FALL_ROWS:
            return UNKNOWN
        sunk = self._sunk.update(self._sinks(facts), facts.step)
        status = Status.WARN if sunk >= self.sustain else Status.WATCH if sunk else Status.OK
        return Verdict(status, value, onset=self._sinking.since)

    def describe(self, facts: StepFacts) -> Details:
        """From where to where, and since when."""
        proof = self.proof(facts, lambda batch: group_rows(batch, np.ones(batch.groups, np.bool_)))
        if self._before is None:
            best, mean = self._best, self._late.mean
            return Details(
                summary=(
                    f"mean reward sinks: {numbers.value(best)} around step {self._best_step}, now {numbers.value(mean)}"
                ),
                evidence={"since": self._best_step, "before": best, "now": mean, "within_3_rows": False},
                rows=proof,
            )
        before, since, now = self._before, self._down.since, self._series.last or 0.0
        where, by_part = self._parts.evidence(int(self.sustain))
        return Details(
            summary=(
                f"mean reward fell from {numbers.value(before)} at step {since}, now {numbers.value(now)}; "
                f"{self._down.length} rows below {numbers.value(self._mark)}{where}"
            ),
            evidence={
                "since": since,
                "before": before,
                "now": now,
                "mark": self._mark,
                "within_3_rows": True,
                **by_part,
            },
            rows=proof,
        )

    def _look_for_fall(self, value: float, facts: StepFacts) -> None:
        """Compare with the 20 rows that end where a fall of 3 rows would begin."""
        if len(self._series) < self.min_steps + FALL_ROWS - 1 or value > sorted(self._late)[FALL_ROWS - 1]:
            return  # only rows of the fall itself can lie as low as a value that is far below those before
        rows = self._series.values[-(WINDOW + FALL_ROWS - 1) : -(FALL_ROWS - 1)]
        before, noise = _level(rows)
        covered = self.share * (self._highest - self._lowest)
        fall = max(self.deviations * noise, covered, self._least_fall(facts, before))
        if value > before - fall:
            return
        if self._parts.other_tasks(FALL_ROWS, fall):
            self._begin_anew()
            return
        self._before, self._mark = before, before - fall
        self._parts.mark(FALL_ROWS)

    def _begin_anew(self) -> None:
        """Other tasks earn otherwise: what was earned before them says nothing."""
        self._series.clear()
        self._late.clear()
        self._least, self._best, self._best_step = math.inf, -math.inf, 0

    def _sinks(self, facts: StepFacts) -> bool:
        """Whether the mean of 20 rows lies well below its best, the newest rows too, and they go on falling."""
        if not self._late.full:
            return False
        mean = self._late.mean
        self._least = min(self._least, mean)
        if mean > self._best:
            self._best, self._best_step = mean, facts.step
        sunk = self._best - mean
        limit = max(self.share * (self._best - self._least), self._least_fall(facts, self._best))
        self._sinking.update(sunk > limit / 2, facts.step)
        if sunk < limit or not sunk:
            return False
        rows = self._series.values
        if max(rows[-1], median(rows[-5:])) > self._best - limit:
            return False
        falling = significant_trend(rows, "down", self._series.steps)
        return falling and sunk >= SINK_NOISE * robust_deviation(np.diff(rows)) / math.sqrt(2)

    def _least_fall(self, facts: StepFacts, before: float) -> float:
        """A tenth of the reward range, as far as it is known; or half of what is earned above its low end."""
        known = facts.scale.range(facts.run)
        limits = known or self._span.limits
        if limits is None or limits[1] <= limits[0]:
            return 0.0
        tenth = (limits[1] - limits[0]) / 10
        low = limits[0] if known is not None else 0.0
        if before <= low or self._lowest < low:
            return tenth  # how low rewards can get is not known
        return max(min(tenth, (before - low) / 2), tenth / 5)


def _level(rows: NDArray[np.float64]) -> tuple[float, float]:
    """What rewards have come to, and their robust deviation: around their trend where that explains most of it."""
    middle, deviation = median(rows), robust_deviation(rows)
    slope = theil_sen(rows)
    if slope <= 0:
        return middle, deviation
    around = rows - slope * (np.arange(len(rows)) - (len(rows) - 1) / 2)
    left = robust_deviation(around)
    if left > deviation / 2:
        return middle, deviation
    return median(around) + slope * (len(rows) - 1) / 2, left
