"""One finished step as the detectors see it, and the statistics that make its row of the step table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.history import History
    from grpo_top.records import Sampling, Success

FLAT_STD = 1e-8
"""A group whose population std of rewards is at most this has no variance."""
FLAT_ADVANTAGE = 1e-6
"""Where a source gives no total reward, a group is flat whose advantages are all within this of 0."""
ADVANTAGE_EPSILON = 1e-4
"""Added to the group's sample std in the advantage, as TRL does."""


class EvalPoint(NamedTuple):
    """One held-out evaluation of one suite."""

    suite: str
    step: int
    value: float


class RunChange(NamedTuple):
    """Something in the run record that changed inside one run."""

    what: str
    before: str
    after: str


@dataclass(slots=True)
class RunState:
    """What is declared of the run; None is unknown. The monitor keeps it up to date with the run records."""

    name: str | None = None
    framework: str | None = None
    algorithm: str | None = None
    group_size: int | None = None
    sampling: Sampling | None = None
    version_lag_tolerance: float | None = None
    reward_range: tuple[float, float] | None = None
    success: Success | None = None
    env_version: str | None = None
    reward_version: str | None = None
    total_steps: int | None = None
    finished: bool = False
    drops_flat_groups: bool = False
    recording: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RewardScale:
    """The range of rewards seen up to a step, and the definition of success that follows from it.

    Success where the run does not define it: of two values the higher; with a declared range its upper half;
    else a reward above the lowest possible or seen (0 for rewards that are never negative).
    """

    low: float = math.inf
    high: float = -math.inf
    values: tuple[float, ...] = ()
    """The distinct rewards seen, at most 3 of them."""
    count: int = 0

    def update(self, rewards: NDArray[np.float64]) -> None:
        """Take the finite rewards of a step in."""
        if not len(rewards):
            return
        self.count += len(rewards)
        self.low = min(self.low, float(rewards.min()))
        self.high = max(self.high, float(rewards.max()))
        if len(self.values) < 3:
            self.values = tuple(sorted({*self.values, *np.unique(rewards).tolist()}))[:3]

    def range(self, run: RunState) -> tuple[float, float] | None:
        """The declared range, else what has been seen."""
        if run.reward_range is not None:
            return run.reward_range
        return (self.low, self.high) if self.count else None

    def threshold(self, run: RunState) -> tuple[float, bool, str] | None:
        """(limit, whether the limit itself is a success, the rule in words) for the total reward."""
        if run.success is not None and run.success.of == "reward":
            return run.success.at_least, True, f"reward at least {run.success.at_least:g}, as declared"
        if len(self.values) == 2:
            return self.values[1], True, f"the higher of two rewards, {self.values[1]:g}"
        if run.reward_range is not None:
            low, high = run.reward_range
            return (low + high) / 2, True, f"the upper half of the declared range, from {(low + high) / 2:g}"
        if not self.count:
            return None
        lowest = min(self.low, 0.0) if self.low >= 0 else self.low
        return lowest, False, f"a reward above the lowest, {lowest:g}"

    def rule(self, run: RunState) -> str:
        """Which definition of success is in force, in words."""
        if run.success is not None and run.success.of != "reward":
            return f"{run.success.of} at least {run.success.at_least:g}, as declared"
        known = self.threshold(run)
        return known[2] if known else "no reward seen yet"


class Batch:
    """The train rollouts of one step as arrays, one element a rollout, with their groups. Arrays are only read."""

    def __init__(self, history: History, step: int, rows: NDArray[np.int64]) -> None:
        self._history = history
        self._step = step
        self.rows = rows
        """Rows of the history."""
        self.size = len(rows)
        neighbours = self.size > 0 and int(rows[-1]) - int(rows[0]) == self.size - 1
        self._where = slice(int(rows[0]), int(rows[-1]) + 1) if neighbours else rows
        self.reward: NDArray[np.float64] = self.column("reward")
        """NaN unknown, ±inf not finite."""
        self.known: NDArray[np.bool_] = np.isfinite(self.reward)
        self.all_known = bool(self.known.all())
        self.advantage: NDArray[np.float64] = self.column("advantage")
        self.components: dict[str, NDArray[np.float64]] = {}
        for name, column in history.components.items():
            values = column.view()[self._where]
            if np.isfinite(values).any():
                self.components[name] = values
        self.source_group, self.group = _groups(history, step, self.column("group"))
        """The history's group number of each dense group; each rollout's dense group number, 0 to groups - 1."""
        self.groups = len(self.source_group)
        self.group_size = np.bincount(self.group, minlength=self.groups)
        self.group_mean, self.group_std, self.judged, self.flat = self._spread()
        """Per group: mean and population std of known rewards (NaN unknown), whether spread is known, is none."""
        self.texts = self.column("text")
        self.success: NDArray[np.int8] = np.full(self.size, -1, np.int8)
        """1 yes, 0 no, -1 unknown; set once the scale of rewards up to this step is known."""
        self._component_std: dict[str, NDArray[np.float64]] = {}

    def column(self, name: str) -> NDArray[Any]:
        """A column of the history for these rollouts, see `encode.COLUMNS`."""
        column: NDArray[Any] = self._history.columns[name].view()[self._where]
        return column

    def names(self, column: str) -> Sequence[str]:
        """The names behind an id column."""
        return self._history.names[column].names

    def sampling(self, sampling_id: int) -> Sampling:
        """The deployed sampling config behind an id of the `sampling` column."""
        return self._history.samplings[sampling_id]

    def group_label(self, group: int) -> str:
        """The source's own id of a dense group, else its number."""
        labels = self._history.group_labels(self._step)
        number = int(self.source_group[group])
        return labels[number] if number < len(labels) else str(group)

    def advantages(self) -> NDArray[np.float64]:
        """Logged advantages, else (reward − group mean) / (group sample std + 1e-4); NaN unknown."""
        if np.isfinite(self.advantage).any():
            return self.advantage
        size = np.maximum(self.group_size, 2)
        spread = self.group_std * np.sqrt(size / (size - 1)) + ADVANTAGE_EPSILON
        computed: NDArray[np.float64] = (self.reward - self.group_mean[self.group]) / spread[self.group]
        return computed

    def component_std(self, name: str) -> NDArray[np.float64]:
        """Population std of a component within each group, NaN where fewer than two values are known."""
        known = self._component_std.get(name)
        if known is None:
            known = self._component_std[name] = _spread(self.components[name], self.group, self.groups)[1]
        return known

    @property
    def distinct_texts(self) -> NDArray[np.int64] | None:
        """Distinct texts of each group; None without texts."""
        return self._distinct[0]

    @property
    def duplicates(self) -> NDArray[np.bool_] | None:
        """Whether another of its group has a rollout's text; None without texts."""
        return self._distinct[1]

    @cached_property
    def group_first(self) -> NDArray[np.int64]:
        """Where each group's first rollout stands in the step."""
        if self._in_order:
            return np.cumsum(self.group_size) - self.group_size
        return np.unique(self.group, return_index=True)[1].astype(np.int64)

    @cached_property
    def passed_of(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Successful rollouts of each group, and rollouts of which success is known. For when `success` is set."""
        passed = np.bincount(self.group[self.success == 1], minlength=self.groups)
        known = self.success >= 0
        return passed, self.group_size if known.all() else np.bincount(
            self.group[known], minlength=self.groups
        )

    @cached_property
    def _in_order(self) -> bool:
        """Whether groups stand one after the other."""
        return bool((self.group[1:] >= self.group[:-1]).all())

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None]:
        return _distinct(self.texts, self.group, self.group_size)

    def _spread(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        mean, std = _spread(self.reward, self.group, self.groups)
        judged = ~np.isnan(std)
        if judged.all():
            return mean, std, judged, std <= FLAT_STD
        flat = judged & (np.nan_to_num(std) <= FLAT_STD)
        known = np.isfinite(self.advantage)
        enough = np.bincount(self.group[known], minlength=self.groups) >= 2
        largest = np.zeros(self.groups)
        np.maximum.at(largest, self.group[known], np.abs(self.advantage[known]))
        by_advantage = ~judged & enough
        flat |= by_advantage & (largest <= FLAT_ADVANTAGE)
        return mean, std, judged | by_advantage, flat


@dataclass(slots=True)
class StepFacts:
    """One finished step as the detectors see it."""

    step: int
    run: RunState
    scale: RewardScale
    """Rewards seen up to and including this step."""
    values: Mapping[str, float]
    """Canonical series at this step, finite numbers only: from rollouts where they exist, else the trainer's."""
    nonfinite: tuple[str, ...] = ()
    """Series that were logged at this step and are not finite."""
    trainer: Mapping[str, float] = field(default_factory=dict)
    """The trainer's own numbers under canonical names, for comparison with those recomputed."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """Optimizer steps that a series' value stands for, where it is more than 1 (a trainer that logs every n steps)."""
    batch: Batch | None = None
    """The step's train rollouts, else its requests; None where there are none."""
    eval_batch: Batch | None = None
    """Held-out rollouts that came with this step."""
    requests: Batch | None = None
    """What inference engines logged for this step; held-out requests are among them."""
    evals: tuple[EvalPoint, ...] = ()
    """Evaluations made since the step before."""
    changes: tuple[RunChange, ...] = ()
    """What changed in the run record since the step before."""
    restarted_from: int | None = None
    """The step that had been reached before the writer went back to this one (a resume), else None."""
    unreadable: int = 0
    """Records skipped since the step before."""

    def get(self, name: str) -> float | None:
        """A series' finite value at this step; None where it is unknown or not finite."""
        return self.values.get(name)

    def stands_for(self, name: str) -> int:
        """Optimizer steps that the series' value at this step averages over, at least 1."""
        return self.gaps.get(name, 1)


def _spread(
    values: NDArray[np.float64], group: NDArray[np.int64], groups: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and population std of finite values within each group; NaN with fewer than 1 and 2 of them."""
    known = np.isfinite(values)
    if not known.all():
        values, group = values[known], group[known]
    count = np.bincount(group, minlength=groups)
    if not count.all():
        with np.errstate(invalid="ignore"):
            mean = np.bincount(group, values, groups) / count
    else:
        mean = np.bincount(group, values, groups) / count
    centred = values - mean[group]
    std = np.sqrt(np.bincount(group, centred * centred, groups) / np.maximum(count, 1))
    std[count < 2] = math.nan
    return mean, std


def _distinct(
    texts: NDArray[np.int64], group: NDArray[np.int64], group_size: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None]:
    if not len(texts) or not texts.all():
        return None, None
    ordered = np.sort(texts)
    if (ordered[1:] != ordered[:-1]).all():
        return group_size, np.zeros(len(texts), np.bool_)
    order = np.lexsort((texts, group))
    ordered_texts, ordered_groups = texts[order], group[order]
    first = np.ones(len(texts), np.bool_)
    first[1:] = (ordered_texts[1:] != ordered_texts[:-1]) | (ordered_groups[1:] != ordered_groups[:-1])
    distinct = np.bincount(ordered_groups[first], minlength=len(group_size))
    of = np.cumsum(first) - 1
    copies = np.bincount(of)
    duplicates = np.empty(len(texts), np.bool_)
    duplicates[order] = copies[of] > 1
    return distinct, duplicates


def _groups(
    history: History, step: int, numbers: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Dense group numbers. Groups that are equal prompts are cut where one prompt was asked in several groups.

    They are cut only where the order of the rows is seen to keep groups together: where every run of equal prompts
    is as long as the usual group, or a multiple of it.
    """
    unique, dense = _dense(numbers)
    if not history.grouped_by_prompt(step):
        return unique, dense
    starts = np.flatnonzero(np.diff(dense, prepend=-1))
    lengths = np.diff(starts, append=len(dense))
    usual = int(np.bincount(lengths).argmax())
    if usual < 2 or (lengths % usual).any() or len(dense) == usual * len(unique):
        return unique, dense
    cut = np.arange(len(dense)) // usual
    return unique[dense[::usual]], cut


def _dense(numbers: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different numbers, ascending, and which of them stands at each place."""
    further = numbers[1:] != numbers[:-1]
    if (
        len(numbers) and numbers[0] == 0 and (np.diff(numbers) == further).all()
    ):  # 0, 0, …, 1, 1, …: dense already
        return np.arange(int(numbers[-1]) + 1), numbers.astype(np.int64)
    unique, dense = np.unique(numbers, return_inverse=True)
    return unique.astype(np.int64), dense.astype(np.int64)
