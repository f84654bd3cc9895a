"""The rollouts of one step side by side as arrays, with what is worked out of them once and asked for often."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.history import History
    from grpo_top.records import Sampling

FLAT_STD = 1e-8
"""A group whose population std of rewards is at most this has no variance."""
FLAT_ADVANTAGE = 1e-6
"""Where a source gives no total reward, a group is flat whose advantages are all within this of 0."""
ADVANTAGE_EPSILON = 1e-4
"""Added to the group's sample std in the advantage, as TRL does."""
PART_KINDS = ("family", "tier")
"""Into which parts the tasks of a run fall, as far as rollouts say so."""


class Flags(NamedTuple):
    """A column of flags of one step."""

    yes: NDArray[np.bool_]
    known: NDArray[np.bool_] | None
    """None where all are."""
    hits: int
    """How many are `yes`,"""
    of: int
    """of those that are known."""

    @property
    def no(self) -> NDArray[np.bool_]:
        """Those that are known and not `yes`."""
        return ~self.yes if self.known is None else self.known & ~self.yes


class Batch:
    """The train rollouts of one step as arrays, one element a rollout, with their groups. Arrays are only read."""

    def __init__(self, history: History, step: int, rows: NDArray[np.int64]) -> None:
        self._history = history
        self._step = step
        self.rows = rows
        """Rows of the history."""
        self._columns: dict[str, NDArray[Any]] = {}
        self._extents: dict[str, tuple[int, int]] = {}
        self._flags: dict[str, Flags] = {}
        self.size = len(rows)
        neighbours = self.size > 0 and int(rows[-1]) - int(rows[0]) == self.size - 1
        self._where = slice(int(rows[0]), int(rows[-1]) + 1) if neighbours else rows
        self.success: NDArray[np.int8] = np.full(self.size, -1, np.int8)
        """1 yes, 0 no, -1 unknown; set once the scale of rewards up to this step is known."""
        self._component_std: dict[str, NDArray[np.float64]] = {}

    @cached_property
    def reward(self) -> NDArray[np.float64]:
        """NaN unknown, ±inf not finite."""
        return self.column("reward")

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Whether each rollout's reward is a finite number."""
        return np.isfinite(self.reward)

    @cached_property
    def all_known(self) -> bool:
        """Whether every one is."""
        return int(np.count_nonzero(self.known)) == self.size

    @cached_property
    def advantage(self) -> NDArray[np.float64]:
        """As logged; NaN unknown."""
        return self.column("advantage")

    @cached_property
    def texts(self) -> NDArray[np.int64]:
        """What tells texts apart; 0 unknown."""
        return self.column("text")

    @cached_property
    def components(self) -> dict[str, NDArray[np.float64]]:
        """Those of which some rollout of the step has a value."""
        found = {name: column.at(self._where, self.size) for name, column in self._history.components.items()}
        return {name: values for name, values in found.items() if np.isfinite(values).any()}

    @cached_property
    def _grouped(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _groups(self._history, self._step, self.column("group"))

    @property
    def source_group(self) -> NDArray[np.int64]:
        """The history's group number of each dense group."""
        return self._grouped[0]

    @property
    def group(self) -> NDArray[np.int64]:
        """Each rollout's dense group number, 0 to groups - 1."""
        return self._grouped[1]

    @cached_property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.source_group)

    @cached_property
    def group_size(self) -> NDArray[np.int64]:
        """Rollouts of each group."""
        return np.bincount(self.group, minlength=self.groups)

    @property
    def group_mean(self) -> NDArray[np.float64]:
        """Of the known rewards of each group; NaN unknown."""
        return self._spreads[0]

    @property
    def group_std(self) -> NDArray[np.float64]:
        """Their population std."""
        return self._spreads[1]

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Whether each group's spread is known,"""
        return self._spreads[2]

    @property
    def flat(self) -> NDArray[np.bool_]:
        """and is none."""
        return self._spreads[3]

    def column(self, name: str) -> NDArray[Any]:
        """A column of the history for these rollouts, see `encode.COLUMNS`."""
        known = self._columns.get(name)
        if known is None:
            known = self._columns[name] = self._history.columns[name].at(self._where, self.size)
        return known

    def extent(self, name: str) -> tuple[int, int]:
        """The lowest and the highest value in a column of integers."""
        known = self._extents.get(name)
        if known is None:
            values = self.column(name)
            if not values.strides[0]:
                values = values[:1]  # one value stands for all
            known = self._extents[name] = int(values.min()), int(values.max())
        return known

    def distinct(self, name: str) -> list[int]:
        """The different numbers in an id column, ascending; -1, unknown, may be the first of them."""
        lowest, highest = self.extent(name)
        if lowest == highest:
            return [lowest]
        found: list[int] = np.unique(self.column(name)).tolist()
        return found

    @cached_property
    def reasons(self) -> tuple[NDArray[np.int16], Sequence[str]] | None:
        """Why each rollout ended, -1 unknown, and the reasons' names: the environment's where it says so, else the
        engine's; None where neither does."""
        for name in ("termination", "finish"):
            if self.extent(name)[1] >= 0:
                return self.column(name), self.names(name)
        return None

    @property
    def part_names(self) -> Mapping[str, Sequence[str]]:
        """The names of families and tiers."""
        return {kind: self.names(kind) for kind in PART_KINDS}

    @cached_property
    def part_ids(self) -> Mapping[str, NDArray[np.int64]]:
        """1 + the number of each rollout's family and tier, 0 unknown: what `bincount` takes at once."""
        return {kind: self.column(kind) + np.int64(1) for kind in PART_KINDS}

    def flags(self, name: str) -> Flags:
        """A column of flags, told apart: 1 yes, 0 no, -1 unknown."""
        known = self._flags.get(name)
        if known is None:
            values = self.success if name == "success" else self.column(name)
            yes, given = values == 1, values >= 0
            of = int(np.count_nonzero(given))
            known = self._flags[name] = Flags(
                yes, None if of == self.size else given, int(np.count_nonzero(yes)), of
            )
        return known

    def at(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A column of the history at some of its rows, of whatever step."""
        return self._history.columns[name].at(rows, len(rows))

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

    @property
    def texts_differ(self) -> bool:
        """Whether all texts of the step are known, and no two are equal."""
        return self._distinct[0] is self.group_size

    @cached_property
    def group_first(self) -> NDArray[np.int64]:
        """Where each group's first rollout stands in the step."""
        if self._in_order:
            return np.cumsum(self.group_size) - self.group_size
        return np.unique(self.group, return_index=True)[1].astype(np.int64)

    @cached_property
    def passed_of(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Successful rollouts of each group, and rollouts of which success is known. For when `success` is set."""
        passed = self.flags("success")
        known = self.group if passed.known is None else self.group[passed.known]
        of = self.group_size if passed.known is None else np.bincount(known, minlength=self.groups)
        return np.bincount(self.group[passed.yes], minlength=self.groups), of

    @cached_property
    def _in_order(self) -> bool:
        """Whether groups stand one after the other."""
        return not np.count_nonzero(self.group[1:] < self.group[:-1])

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None]:
        return _distinct(self.texts, self.group, self.group_size)

    @cached_property
    def _spreads(
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
