"""The table of train groups: a row for each group of each judged step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
        self._waiting: list[_OfStep] = []

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns as they stand."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for name, values in _joined(waiting).items():
                self._columns[name].extend(values)
        return self._columns

    def add(self, step: int, batch: Batch) -> None:
        """Append the groups of a step, whose successes are known by now."""
        self._waiting.append(
            _OfStep(
                step,
                batch.rows[batch.group_first],
                batch.group_size,
                batch.group_mean,
                batch.group_std,
                batch.judged,
                batch.flat,
                batch.distinct_texts,
                *batch.passed_of,
            )
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


class _OfStep(NamedTuple):
    """The groups of one step, one element a group."""

    step: int
    first_row: NDArray[np.int64]
    size: NDArray[np.int64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    judged: NDArray[np.bool_]
    flat: NDArray[np.bool_]
    texts: NDArray[np.int64] | None
    passed: NDArray[np.int64]
    known: NDArray[np.int64]
    """Rollouts of which success is known."""


def _joined(steps: list[_OfStep]) -> dict[str, NDArray[Any]]:
    """The columns of the groups of some steps."""
    groups = [len(of.size) for of in steps]
    step, *columns = zip(*steps, strict=True)
    texts = [np.full(len(of.size), -1) if of.texts is None else of.texts for of in steps]
    columns[6] = tuple(texts)
    first_row, size, mean, std, judged, flat, distinct, passed, known = map(np.concatenate, columns)
    return {
        "step": np.repeat(step, groups),
        "group": np.concatenate([np.arange(count) for count in groups]),
        "first_row": first_row,
        "size": size,
        "mean": mean,
        "std": std,
        "flat": np.where(judged, flat, -1),
        "texts": distinct,
        "passed": np.where(known > 0, passed, -1),
    }
