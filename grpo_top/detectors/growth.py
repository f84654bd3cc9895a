"""How mean length and mean reward grow beside each other, for LENGTH_HACKING."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grpo_top.snapshot import WINDOW
from grpo_top.streaming import Baseline, Window
from grpo_top.trends import TREND_LIMIT, significant_trend

if TYPE_CHECKING:
    from grpo_top.facts import StepFacts, Stretch

LENGTH, REWARD = "completion_tokens_mean", "reward_mean"
BOTH = {LENGTH, REWARD}
PROPORTION_ROWS, LEAST_ROWS = 60, 12
HALF_MORE = math.log(1.5)
"""By how much lengths must have grown, as logarithms."""
PROPORTIONAL = 0.995
"""R² from which a reward that follows length is taken for one that is made of it."""


class Together:
    """Mean length and mean reward over the last rows, and how far length has come."""

    def __init__(self) -> None:
        self._early = Baseline(1, WINDOW)
        self._length, self._reward = Window(TREND_LIMIT), Window(TREND_LIMIT)
        self._longest = 0.0
        """Of all rows so far."""

    def add(self, facts: StepFacts) -> None:
        """Take a step in that carries both."""
        length, reward = facts.get(LENGTH), facts.get(REWARD)
        if length is None or reward is None:
            return
        self._early.add(length)
        self._longest = max(self._longest, length)
        self._length.add(length, facts.step)
        self._reward.add(reward, facts.step)

    def is_far(self, stretch: Stretch, times: float) -> bool:
        """Whether lengths surely stay under so many times that of the first rows."""
        if not stretch.names >= BOTH:
            return not self.has_grown(times)
        longest = max(self._length.maximum, stretch.extent(LENGTH)[1])
        return self._early.ready and longest <= 0.99 * times * self._early.mean

    def extend(self, stretch: Stretch) -> None:
        """Take the steps of a stretch in that `is_far` holds of."""
        if stretch.names >= BOTH:
            self._longest = max(self._longest, stretch.extent(LENGTH)[1])
            self._length.extend(stretch.column(LENGTH), stretch.steps)
            self._reward.extend(stretch.column(REWARD), stretch.steps)

    @property
    def growth(self) -> float:
        """The mean length of the last 20 rows over that of the first 20; 0 while it is too early."""
        if not self._early.ready or not self._length.full or self._early.mean <= 0:
            return 0.0
        return float(self._length.values[-WINDOW:].mean()) / self._early.mean

    def has_grown(self, times: float) -> bool:
        """Whether the mean length is so many times that of the first rows; cheap where no single row is."""
        enough = 0.99 * times * self._early.mean
        return self._longest > enough and self._length.maximum > enough and self.growth >= times

    @property
    def climb(self) -> bool:
        """Whether both have a significant upward trend."""
        return significant_trend(self._length.values, "up") and significant_trend(self._reward.values, "up")

    @property
    def first_step(self) -> int | None:
        """The first of the rows that are looked at."""
        return self._length.first_step


class Proportion:
    """Whether the mean reward is the mean length times a constant, while lengths grow by half and more.

    A straight line of log reward against log length, with a slope around 1 and hardly a residual. Reasoning that
    pays makes both grow too, but never so exactly.
    """

    def __init__(self) -> None:
        self._lengths, self._rewards = Window(PROPORTION_ROWS), Window(PROPORTION_ROWS)
        """Logarithms, where both are above 0."""
        self._shortest, self._longest = math.inf, -math.inf
        """Of all rows so far, as logarithms."""
        self.fit: float | None = None
        """R² of the line where it holds, else None."""

    @property
    def first_step(self) -> int | None:
        """The first of the rows that are looked at."""
        return self._lengths.first_step

    def is_far(self, stretch: Stretch) -> bool:
        """Whether lengths surely have not grown by half, on steps that all carry both or not both."""
        if self.fit is not None or not stretch.names >= BOTH:
            return self.fit is None
        shortest, longest = stretch.extent(LENGTH)
        if shortest <= 0 or stretch.extent(REWARD)[0] <= 0:
            return False
        lowest, highest = math.log(shortest), math.log(longest)
        if len(self._lengths):
            lowest, highest = min(lowest, self._lengths.minimum), max(highest, self._lengths.maximum)
        return highest - lowest < HALF_MORE

    def extend(self, stretch: Stretch) -> None:
        """Take the steps of a stretch in that `is_far` holds of."""
        if stretch.names >= BOTH:
            lengths, rewards = (list(map(math.log, stretch.column(name))) for name in (LENGTH, REWARD))
            self._lengths.extend(lengths, stretch.steps)
            self._rewards.extend(rewards, stretch.steps)
            self._shortest, self._longest = min(self._shortest, *lengths), max(self._longest, *lengths)

    def add(self, facts: StepFacts) -> None:
        """Take a step in that carries both."""
        length, reward = facts.get(LENGTH), facts.get(REWARD)
        if length is None or reward is None or min(length, reward) <= 0:
            return
        lengths, newest = self._lengths, math.log(length)
        lengths.add(newest, facts.step)
        self._rewards.add(math.log(reward), facts.step)
        self.fit = None
        self._shortest, self._longest = min(self._shortest, newest), max(self._longest, newest)
        if self._longest - self._shortest < HALF_MORE:
            return
        if len(lengths) < LEAST_ROWS or lengths.maximum - lengths.first < HALF_MORE:
            return
        x, y = lengths.values, self._rewards.values
        x, y = x - x.mean(), y - y.mean()
        slope = float(x @ y) / float(x @ x)
        explained = slope * float(x @ y) / max(float(y @ y), 1e-12)
        if 0.7 <= slope <= 1.4 and explained >= PROPORTIONAL:
            self.fit = explained
