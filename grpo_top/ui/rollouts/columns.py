"""The columns of a Snapshot as the filter asks for them: unknown marked in one way, groups joined to their rollouts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.encode import SPLIT_EVAL
from grpo_top.facts import ADVANTAGE_EPSILON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from grpo_top.snapshot import Snapshot

GROUP_NUMBERS = frozenset({"std", "mean", "texts", "size", "passed"})


class Columns:
    """Columns of rollouts, and of groups, of one Snapshot. Numbers: NaN unknown; flags: -1 unknown."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rollouts = snapshot.rollouts
        self._groups = snapshot.groups.columns

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A numeric column, of groups or of rollouts, under its name in `filters.FIELDS`. What is not finite is NaN."""
        values = self._numbers(name)
        return np.where(np.isfinite(values), values, np.nan)

    def flags(self, name: str) -> NDArray[np.int8]:
        """A column of 1 yes, 0 no, -1 unknown."""
        columns = self._rollouts.columns
        if name == "flat":
            flat: NDArray[np.int8] = self._groups["flat"]
            return flat
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

    def _numbers(self, name: str) -> NDArray[np.float64]:
        columns = self._rollouts.columns
        if name in GROUP_NUMBERS:
            return _known(self._groups[name])
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

    @cached_property
    def group_of(self) -> NDArray[np.int64]:
        """Row of the table of groups that each rollout belongs to; -1 for those of none.

        Groups are numbered anew within each step where the source names none, so they are found by counting:
        the rollouts of one source group, in order of arrival, fill its groups in order.
        """
        columns, groups = self._rollouts.columns, self._groups
        found = np.full(self._rollouts.length, -1, np.int64)
        rows = np.flatnonzero((columns["live"] == 1) & (columns["split"] != SPLIT_EVAL))
        if not len(rows) or not len(groups["step"]):
            return found
        keys = _keys(columns["step"][rows], columns["group"][rows])
        first = groups["first_row"]
        table_keys = _keys(groups["step"], columns["group"][first])
        row_order = np.argsort(keys, kind="stable")
        table_order = np.lexsort((first, table_keys))
        rows, keys = rows[row_order], keys[row_order]
        sizes = groups["size"][table_order].astype(np.int64)
        of = np.repeat(table_order, sizes)
        of_keys = np.repeat(table_keys[table_order], sizes)
        if len(of_keys) == len(keys) and (of_keys == keys).all():
            found[rows] = of
            return found
        # Rollouts of steps that are not judged yet, or of evaluations: keep the keys that both sides have in full.
        both, row_counts = np.unique(keys, return_counts=True)
        table_both, table_counts = np.unique(of_keys, return_counts=True)
        at = np.searchsorted(table_both, both)
        at_safe = np.minimum(at, len(table_both) - 1)
        same = (table_both[at_safe] == both) & (table_counts[at_safe] == row_counts)
        good = both[same]
        found[rows[np.isin(keys, good)]] = of[np.isin(of_keys, good)]
        return found

    @cached_property
    def group_tokens(self) -> NDArray[np.float64]:
        """Mean completion tokens of each group, NaN unknown."""
        tokens = self._rollouts.columns["completion_tokens"]
        known = (self.group_of >= 0) & (tokens >= 0)
        of, groups = self.group_of[known], self._snapshot.groups.length
        with np.errstate(invalid="ignore"):
            mean: NDArray[np.float64] = np.bincount(of, tokens[known], groups) / np.bincount(
                of, minlength=groups
            )
        return mean

    @cached_property
    def _advantages(self) -> NDArray[np.float64]:
        """Advantages as logged; (reward − group mean) / (group sample std + 1e-4) of those that have none."""
        columns, groups, of = self._rollouts.columns, self._groups, self.group_of
        logged: NDArray[np.float64] = columns["advantage"]
        if not len(groups["size"]):
            return logged
        members = np.maximum(groups["size"].astype(np.float64), 2)
        spread = groups["std"] * np.sqrt(members / (members - 1)) + ADVANTAGE_EPSILON
        computed = (columns["reward"] - groups["mean"][of]) / spread[of]
        return np.where(np.isnan(logged) & (of >= 0), computed, logged)

    @cached_property
    def _duplicates(self) -> NDArray[np.int8]:
        texts, of = self._rollouts.columns["text"], self.group_of
        found = np.full(len(texts), -1, np.int8)
        rows = np.flatnonzero((texts != 0) & (of >= 0))
        if not len(rows):
            return found
        order = rows[np.lexsort((texts[rows], of[rows]))]
        same = (texts[order][1:] == texts[order][:-1]) & (of[order][1:] == of[order][:-1])
        twice = np.zeros(len(order), np.int8)
        twice[1:] |= same
        twice[:-1] |= same
        found[order] = twice
        return found


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
