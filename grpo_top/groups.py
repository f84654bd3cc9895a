"""The table of train groups: a row for each group of each judged step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top.columns import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import DTypeLike, NDArray

    from grpo_top.batch import Batch

GROUP_COLUMNS: dict[str, DTypeLike] = {
    "step": np.int32,
    "group": np.int32,  # dense number of the group within `Batch.group` of its step
    "first_row": np.int64,  # its first rollout's row
    "size": np.int16,
    "mean": np.float64,  # mean reward, NaN unknown
    "std": np.float64,  # population std of rewards, NaN unknown
    "flat": np.int8,  # 1 no variance, 0 some, -1 unknown
    "texts": np.int16,  # distinct completions, -1 unknown
    "passed": np.int16,  # successful rollouts, -1 unknown
}
"""Columns over every train group of every judged step."""

TOGETHER = 32
"""Steps whose groups are written at once: a column is written in the same time, whether one step's or many's."""


class Groups:
    """A growing table of groups, step by step."""

    def __init__(self) -> None:
        self.length = 0
        self.first = 0
        """Rows before it were let go."""
        self._columns = {name: Column(dtype) for name, dtype in GROUP_COLUMNS.items()}
        self._waiting: list[dict[str, NDArray[Any]]] = []

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns as they stand."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for name, column in self._columns.items():
                column.extend(np.concatenate([of_step[name] for of_step in waiting]))
        return self._columns

    def add(self, step: int, batch: Batch) -> None:
        """Append the groups of a step, whose successes are known by now."""
        passed, of = batch.passed_of
        flat = batch.flat.astype(np.int8)
        if not batch.judged.all():
            flat[~batch.judged] = -1
        distinct = batch.distinct_texts
        self._waiting.append(
            {
                "step": np.full(batch.groups, step),
                "group": np.arange(batch.groups),
                "first_row": batch.rows[batch.group_first],
                "size": batch.group_size,
                "mean": batch.group_mean,
                "std": batch.group_std,
                "flat": flat,
                "texts": np.full(batch.groups, -1) if distinct is None else distinct,
                "passed": passed if of.all() else np.where(of > 0, passed, -1),
            }
        )
        self.length += batch.groups
        if len(self._waiting) >= TOGETHER:
            _ = self.columns

    def let_go(self, before: int) -> None:
        """Give the memory of the rows before `before` back."""
        for column in self.columns.values():
            column.let_go(before)
        self.first = before

    def cut(self, length: int) -> None:
        """Let the rows from `length` on fall."""
        for column in self.columns.values():
            column.cut(length)
        self.length = min(length, self.length)
