"""The columns of a Snapshot as the filter asks for them: unknown marked in one way, groups joined to their rollouts."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top.batch import ADVANTAGE_EPSILON
from grpo_top.encode import SPLIT_EVAL
from grpo_top.ui.rollouts.group_table import HELDOUT, REQUEST, trained_on, with_others

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.rollouts.group_table import GroupTable

GROUP_NUMBERS = frozenset({"std", "mean", "texts", "size", "passed"})
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Columns:
    """Columns of rollouts, and of groups, of one Snapshot. Numbers: NaN unknown; flags: -1 unknown.

    Nothing is worked out before it is asked for, and nothing twice: a filter being written asks again and again.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._rollouts = snapshot.rollouts
        self._beyond: GroupTable | None = None

    def beyond(self, rows: NDArray[np.int64] | None = None) -> Columns:
        """The same with what was not trained on among the groups: of these rows, or all of it."""
        wider = copy(self)
        wider._beyond = with_others(self.snapshot, self.trained, self.group_of, rows)
        for name in ("everything", "group_of", "_of_groups", "_advantages", "_duplicates"):
            wider.__dict__.pop(name, None)
        return wider

    @cached_property
    def everything(self) -> Columns:
        """As `beyond`, with all of it."""
        return self.beyond()

    @property
    def table(self) -> Mapping[str, NDArray[Any]]:
        """The groups that are listed: see `GroupTable.columns`."""
        return self.trained if self._beyond is None else self._beyond.columns

    @cached_property
    def trained(self) -> Mapping[str, NDArray[Any]]:
        """The groups that the verdicts are of."""
        return trained_on(self.snapshot)

    @cached_property
    def group_of(self) -> NDArray[np.int64]:
        """Row of the table of groups that each rollout belongs to; -1 for those of none."""
        return self._group_of() if self._beyond is None else self._beyond.group_of

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A numeric column, of groups or of rollouts, under its name in `FIELDS`. What is not finite is NaN."""
        values = self._numbers(name)
        return np.where(np.isfinite(values), values, np.nan)

    def flags(self, name: str) -> NDArray[np.int8]:
        """A column of 1 yes, 0 no, -1 unknown."""
        columns = self._rollouts.columns
        if name == "flat":
            flat: NDArray[np.int8] = self.table["flat"]
            return flat
        if name in {"heldout", "request"}:
            kinds = np.append(self.table["kind"], np.int8(-1))[self.group_of]
            is_one: NDArray[np.int8] = (kinds == (HELDOUT if name == "heldout" else REQUEST)).astype(np.int8)
            return is_one
        if name == "error":
            error = (columns["verifier_error"] >= 0).astype(np.int8)
            return np.where(columns["verifier_known"] == 1, error, np.int8(-1))
        if name == "mixed":
            mixed = (columns["policy_end"] != columns["policy_start"]).astype(np.int8)
            return np.where(columns["policy_start"] >= 0, mixed, np.int8(-1))
        if name == "duplicate":
            return self._duplicates
        found: NDArray[np.int8] = columns[name]
        return found

    def words(self, name: str) -> tuple[NDArray[np.int64], Sequence[str]]:
        """An id column, -1 unknown, and the names behind the ids."""
        ids: NDArray[np.int64] = self._rollouts.columns[name].astype(np.int64)
        return ids, list(self._rollouts.names[name])

    def of_groups(self, name: str) -> NDArray[np.float64]:
        """Something of each group that follows from its rollouts; NaN unknown.

        `tokens`: mean over those that are known; `lag`: the longest; `truncated`, `duplicate`: how many there are.
        """
        if name not in self._of_groups:
            self._of_groups[name] = self._gathered(name)
        return self._of_groups[name]

    @cached_property
    def _of_groups(self) -> dict[str, NDArray[np.float64]]:
        return {}

    def _gathered(self, name: str) -> NDArray[np.float64]:
        counted = name in {"truncated", "duplicate"}
        values = (
            self.flags(name) if counted else self.numbers("completion_tokens" if name == "tokens" else name)
        )
        known = self.group_of >= 0
        known &= (values >= 0) if counted else ~np.isnan(values)
        of, size = self.group_of[known], len(self.table["step"])
        count = np.bincount(of, minlength=size)
        if name == "lag":
            longest = np.full(size, -np.inf)
            np.maximum.at(longest, of, values[known])
            return np.where(count > 0, longest, np.nan)
        total = np.bincount(of, values[known], size)
        with np.errstate(invalid="ignore"):
            return np.where(count > 0, total if counted else total / count, np.nan)

    def _numbers(self, name: str) -> NDArray[np.float64]:
        columns = self._rollouts.columns
        if name in GROUP_NUMBERS:
            return _known(self.table[name])
        head, dot, rest = name.partition(".")
        if dot and head == "reward":
            return self._rollouts.components[rest]
        if dot:
            values = [_as_number(sampling.get(rest)) for sampling in self._rollouts.samplings]
            by_id: NDArray[np.float64] = np.array([*values, np.nan])[columns["sampling"]]
            return by_id
        if name == "lag":
            start, trainer = columns["policy_start"], columns["trainer_version"]
            lag = (trainer - start).astype(np.float64)
            return np.where((start >= 0) & (trainer >= 0), lag, np.nan)
        if name == "advantage":
            return self._advantages
        return _known(columns[name])

    def _group_of(self) -> NDArray[np.int64]:
        """Row of the Snapshot's table of groups that each rollout belongs to; -1 for those of none.

        Groups are numbered anew within each step where the source names none, so they are found by counting:
        the rollouts of one source group, in order of arrival, fill its groups in order. Those of a step that is not
        judged yet, or of which only some were there when it was, are of none.
        """
        columns, groups = self._rollouts.columns, self.snapshot.groups.columns
        found = np.full(self._rollouts.length, -1, np.int64)
        rows = np.flatnonzero((columns["live"] == 1) & (columns["split"] != SPLIT_EVAL))
        if not len(rows) or not len(groups["step"]):
            return found
        first = groups["first_row"]
        rows, keys = _sorted_by(_keys(columns["step"][rows], columns["group"][rows]), rows)
        table, table_keys = _sorted_by(
            _keys(groups["step"], columns["group"][first]), np.arange(len(first)), first
        )
        sizes = groups["size"][table].astype(np.int64)
        starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        counts = np.diff(starts, append=len(keys))
        table_starts = np.flatnonzero(np.diff(table_keys, prepend=table_keys[0] - 1))
        table_counts = np.add.reduceat(sizes, table_starts)
        both = table_keys[table_starts]
        at = np.minimum(np.searchsorted(both, keys[starts]), len(both) - 1)
        good = (both[at] == keys[starts]) & (table_counts[at] == counts)
        wanted = np.zeros(len(both), np.bool_)
        wanted[at[good]] = True
        of = np.repeat(table, np.where(np.repeat(wanted, np.diff(table_starts, append=len(table))), sizes, 0))
        found[rows[np.repeat(good, counts)]] = of
        return found

    @cached_property
    def _advantages(self) -> NDArray[np.float64]:
        """Advantages as logged; (reward − group mean) / (group sample std + 1e-4) of those that have none."""
        columns, groups, of = self._rollouts.columns, self.table, self.group_of
        logged: NDArray[np.float64] = columns["advantage"]
        if not len(groups["size"]):
            return logged
        members = np.maximum(groups["size"].astype(np.float64), 2)
        spread = groups["std"] * np.sqrt(members / (members - 1)) + ADVANTAGE_EPSILON
        computed = (columns["reward"] - groups["mean"][of]) / spread[of]
        return np.where(np.isnan(logged) & (of >= 0), computed, logged)

    @cached_property
    def _duplicates(self) -> NDArray[np.int8]:
        """Whether another of its group has a rollout's text."""
        texts, of = self._rollouts.columns["text"], self.group_of
        found = np.full(len(texts), -1, np.int8)
        rows = np.flatnonzero((texts != 0) & (of >= 0))
        if not len(rows):
            return found
        # Sorted by one number made of group and text: in a fraction of the time of sorting by two.
        mixed = (of[rows].astype(np.uint64) * _MIX) ^ texts[rows].view(np.uint64)
        order = rows[np.argsort(mixed)]
        same = (texts[order][1:] == texts[order][:-1]) & (of[order][1:] == of[order][:-1])
        twice = np.zeros(len(order), np.int8)
        twice[1:] |= same
        twice[:-1] |= same
        found[order] = twice
        return found


def _sorted_by(
    keys: NDArray[np.int64], values: NDArray[np.int64], then: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values and keys in the order of the keys; equal ones by `then`, else as they were. Mostly they are in order."""
    if (keys[1:] >= keys[:-1]).all() and (then is None or (np.diff(then) > 0).all()):
        return values, keys
    order = np.argsort(keys, kind="stable") if then is None else np.lexsort((then, keys))
    return values[order], keys[order]


def _keys(steps: NDArray[np.int32], groups: NDArray[np.int32]) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = (steps.astype(np.int64) << 32) + groups
    return keys


def _known(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """A column as numbers: -1 of an integer column is unknown."""
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    numbers = values.astype(np.float64)
    return np.where(values == -1, np.nan, numbers)


def _as_number(value: float | str | None) -> float:
    return float(value) if isinstance(value, int | float) else np.nan
