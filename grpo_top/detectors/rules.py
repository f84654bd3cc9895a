"""The few shapes of rule that many detectors share: one leading series, a streak, a share over the late window."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

from grpo_top.detectors.base import UNKNOWN, Detector, Passed, Streak, Verdict
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch

LEAST_ROWS = 12
"""Rows from which a trend can be told from noise at 1%."""
ONE_SIDED_90, ONE_SIDED_99 = 1.28, 2.33
"""Standard normal quantiles of one-sided bounds at 90% and 99%."""
OF_MANY_STEPS = 3.0
"""The same where every step of a run is a new occasion for chance: about one in a thousand."""


FLAT_STEPS = 5
"""Steps over which the share of flat groups is averaged where it says whether copies do harm."""
FEW_FLAT = 0.4
"""Share of flat groups under which groups disagree enough to learn from, as in DEGENERATE_GROUPS."""


class SeriesDetector(Detector):
    """A detector that one series leads, the first of `series`: a step without it changes nothing."""

    _verdict: Verdict = UNKNOWN
    _rows: tuple[int, ...] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "sees" not in cls.__dict__:
            led = cls.observe is SeriesDetector.observe and hasattr(cls, "series")
            cls.sees = frozenset(cls.series[:1]) if led else None

    def passed(self, status: Status, values: Sequence[float]) -> Passed:
        """What is said of a stretch whose steps carry the leading series."""
        self._verdict = Verdict(status, values[-1])
        return Passed(status, values)

    def observe(self, facts: StepFacts) -> Verdict:
        """Judge the step where it carries the leading series, else repeat what was said last."""
        value = facts.get(self.series[0])
        if value is not None:
            self._verdict = self.judge(value, facts)
        return self._verdict

    @abstractmethod
    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Judge a step by its value of the leading series."""

    def proof(self, facts: StepFacts, pick: Callable[[Batch], tuple[int, ...]]) -> tuple[int, ...]:
        """The rows that `pick` takes of this step's rollouts, or took of the last step that had some."""
        if facts.batch is not None:
            self._rows = pick(facts.batch) or self._rows
        return self._rows


def sustained(
    streak: Streak, sustain: float, severity: Status, value: float | None, threshold: float | None
) -> Verdict:
    """`severity` once a streak stands for `sustain` steps, WATCH while it grows, OK where there is none."""
    if not streak.length:
        return Verdict(Status.OK, value, threshold)
    return Verdict(severity if streak.length >= sustain else Status.WATCH, value, threshold, streak.since)


def still_disagree(flat: Window) -> bool:
    """Whether few groups are flat, by their shares over the last steps; False where that is not known."""
    return len(flat) > 0 and flat.mean < FEW_FLAT


def covers(trail: Window, steps: float) -> bool:
    """Whether rows that were added one by one reach over `steps` steps, and are enough for a trend test.

    A trend needs rows: of a trainer that averages over ten steps a window takes more steps and not fewer rows.
    """
    first, last = trail.first_step, trail.last_step
    if first is None or last is None or len(trail) < min(LEAST_ROWS, steps):
        return False
    return last - first + 1 >= steps


class LateShare:
    """A share of rollouts over the late window, and whether enough has been seen to judge it."""

    def __init__(self, size: int = WINDOW) -> None:
        self.window = Window(size)
        self._rollouts = Window(size)
        """How many each step's share was taken of; empty where that is not known."""

    def add(self, share: float, facts: StepFacts, series: str) -> None:
        """Take a step's share in."""
        steps, rollouts = facts.stands_for(series), facts.get("rollouts")
        self.window.add(share, facts.step, steps)
        if rollouts:
            self._rollouts.add(rollouts, facts.step, steps)

    @property
    def mean(self) -> float:
        """The share over the window; NaN while it is empty."""
        return self.window.mean

    def onset(self, threshold: float) -> int | None:
        """The first step in the window whose own share reaches the limit."""
        above = self.window.where(lambda share: share >= threshold)
        return above[0] if above else self.window.first_step

    def judge(self, threshold: float, min_steps: float, severity: Status) -> Verdict:
        """`severity` from the limit on, where the 90% bound of the rollouts' share lies there too.

        With fewer than `min_steps` steps it must be the 99% bound; where rollouts cannot be counted there must be
        as many steps.
        """
        if not self.window.span:
            return UNKNOWN
        share = self.mean
        if share < threshold:
            status = Status.OK if self.window.span >= min_steps else Status.UNKNOWN
            return Verdict(status, share, threshold)
        rollouts = round(math.fsum(self._rollouts)) if len(self._rollouts) == len(self.window) else 0
        enough = self.window.span >= min_steps
        quantile = ONE_SIDED_90 if enough else ONE_SIDED_99
        sure = lower_bound(share, rollouts, quantile) >= threshold if rollouts else enough
        return Verdict(severity if sure else Status.WATCH, share, threshold, self.onset(threshold))


class StreakShare:
    """A streak of steps whose share is above a limit, and whether chance could make it: few items make it often."""

    def __init__(self) -> None:
        self.streak = Streak()
        self._hits = self._items = 0.0

    def update(self, holds: bool, step: int, steps: int, share: float, items: float | None) -> None:
        """Take a step in that stands for `steps`; None items: too many for chance."""
        self.streak.update(holds, step, steps)
        if not holds:
            self._hits = self._items = 0.0
        else:
            self._items += math.inf if items is None else items
            self._hits += share * (0.0 if items is None else items)

    def is_sure(self, limit: float, enough: float = math.inf) -> bool:
        """Whether its items can hardly come from a share below the limit, or are `enough`."""
        if not self._items or self._items >= enough:
            return True
        return lower_bound(self._hits / self._items, round(self._items), OF_MANY_STEPS) > limit


class RewardSpan:
    """The range of rewards as far as a trainer's numbers tell: means and deviations, lowest and highest."""

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf

    def add(self, mean: float, facts: StepFacts) -> None:
        """Take a step's mean reward in, and what else it tells of its rewards."""
        get = facts.get
        spread, lowest, highest = get("reward_std") or 0.0, get("reward_min"), get("reward_max")
        low, high = mean - spread, mean + spread
        if low < self._low or high > self._high or lowest is not None or highest is not None or spread < 0:
            self._low = min(self._low, low, mean if lowest is None else lowest)
            self._high = max(self._high, high, mean if highest is None else highest)

    def extend(self, stretch: Stretch) -> None:
        """Take the steps of a stretch in."""
        for mean, facts in zip(stretch.column("reward_mean"), stretch.facts, strict=True):
            self.add(mean, facts)

    @property
    def limits(self) -> tuple[float, float] | None:
        """Its ends, at least 1 apart where everything lies within 0 and 1; None where nothing is known."""
        if self._low > self._high:
            return None
        within_unit = self._low >= -1.0 and self._high <= 2.0
        low, high = (min(self._low, 0.0), max(self._high, 1.0)) if within_unit else (self._low, self._high)
        return (low, high) if low < high else None


def lower_bound(share: float, items: int, z: float = ONE_SIDED_99) -> float:
    """The one-sided lower bound (Wilson's), at 99%, of a share that was seen on `items` items; 0 of none."""
    if items <= 0:
        return 0.0
    share = min(max(share, 0.0), 1.0)
    spread = math.sqrt(share * (1 - share) / items + z * z / (4 * items * items))
    return max(0.0, (share + z * z / (2 * items) - z * spread) / (1 + z * z / items))


class Around:
    """What some series were over the late window before something began, and what they are now."""

    def __init__(self, *names: str) -> None:
        self._windows = {name: Window(WINDOW) for name in names}
        self._before: dict[str, object] = {}

    def add(self, facts: StepFacts) -> None:
        """Take a step in."""
        values, gaps, step = facts.values, facts.gaps, facts.step
        for name, window in self._windows.items():
            value = values.get(name)
            if value is not None:
                window.add(value, step, gaps.get(name, 1))

    def extend(self, stretch: Stretch) -> None:
        """Take the steps of a stretch in."""
        for name in stretch.names & self._windows.keys():
            self._windows[name].extend(stretch.column(name), stretch.steps)

    def mark(self) -> None:
        """Something begins with the step that is added next: what is in the windows was before it."""
        self._before = self._means()

    def evidence(self) -> dict[str, object]:
        """`before` and `now`: the steps of each, and every series' mean over them."""
        now = self._means()
        found = {"before": self._before} if self._before else {}
        return {**found, "now": now} if now else dict(found)

    def _means(self) -> dict[str, object]:
        held = {name: window for name, window in self._windows.items() if len(window)}
        if not held:
            return {}
        first = min(window.first_step or 0 for window in held.values())
        last = max(window.last_step or 0 for window in held.values())
        return {"steps": [first, last], **{name: window.mean for name, window in held.items()}}


def ordered_rows(batch: Batch, order: NDArray[np.int64], limit: int = 50) -> tuple[int, ...]:
    """The history's rows of a step's rollouts in the given order, at most `limit` of them."""
    return tuple(int(row) for row in batch.rows[order[:limit]])


def budget_of(facts: StepFacts) -> float | None:
    """The intended max_tokens; None unknown."""
    budget = (facts.run.sampling or {}).get("max_tokens")
    return None if budget is None or isinstance(budget, str) else budget
