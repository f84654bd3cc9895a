"""The rollouts and groups of several steps as arrays, for tables over a span of steps."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top.ui.evidence.groups import GroupOf, group_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.ui.evidence.windows import Span
    from grpo_top.ui.view import View

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


class Pool:
    """The train rollouts of the steps of a span, one element a rollout, and their groups, one element a group."""

    def __init__(self, batches: Sequence[tuple[int, Batch]], passed: Floats) -> None:
        self._batches = batches
        sizes = [batch.groups for _, batch in batches]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.rows: Ints = _joined([batch.rows for _, batch in batches], np.int64)
        """Rows of the history."""
        self.group: Ints = _joined(
            [batch.group + offset for (_, batch), offset in zip(batches, offsets, strict=False)], np.int64
        )
        """Each rollout's group, 0 to groups - 1 over all steps."""
        self.groups = int(offsets[-1])
        self.step: Ints = np.repeat([step for step, _ in batches], sizes).astype(np.int64)
        """Each group's step."""
        self.number: Ints = _joined([np.arange(size) for size in sizes], np.int64)
        """Each group's number within its step."""
        self.reward: Floats = _joined([batch.reward for _, batch in batches], np.float64)
        self.passed: Floats = passed if len(passed) == self.groups else np.full(self.groups, np.nan)
        """Successful rollouts of each group, NaN unknown."""
        self.mean: Floats = _joined([batch.group_mean for _, batch in batches], np.float64)
        self.std: Floats = _joined([batch.group_std for _, batch in batches], np.float64)
        self.judged: Bools = _joined([batch.judged for _, batch in batches], np.bool_)
        self.flat: Bools = _joined([batch.flat for _, batch in batches], np.bool_)
        self.size: Ints = _joined([batch.group_size for _, batch in batches], np.int64)
        self.texts: Floats = _joined(
            [_or_unknown(batch.distinct_texts, batch.groups) for _, batch in batches], float
        )
        """Different texts of each group; NaN unknown."""
        self.duplicate: Floats = _joined(
            [_or_unknown(batch.duplicates, batch.size) for _, batch in batches], float
        )
        """1 where another rollout of the group has the same text; NaN unknown."""

    def column(self, name: str) -> NDArray[Any]:
        """A column of the history for every rollout, see `history.COLUMNS`."""
        return _joined([batch.column(name) for _, batch in self._batches], np.int64)

    def component(self, name: str) -> Floats:
        """A component of every rollout's reward, NaN unknown."""
        return _joined(
            [batch.components.get(name, np.full(batch.size, np.nan)) for _, batch in self._batches],
            np.float64,
        )

    def names(self, column: str) -> Sequence[str]:
        """The names behind an id column."""
        return self._batches[-1][1].names(column) if self._batches else ()

    @cached_property
    def first(self) -> Ints:
        """Each group's first rollout, as a position among the rollouts."""
        return np.unique(self.group, return_index=True)[1]

    @cached_property
    def lag(self) -> Floats:
        """Versions between sampling and training, NaN unknown."""
        start, trainer = self.column("policy_start"), self.column("trainer_version")
        return np.where((start >= 0) & (trainer >= 0), trainer - start, np.nan)

    @cached_property
    def length(self) -> Floats:
        """Completion tokens, NaN unknown."""
        return unknown_as_nan(self.column("completion_tokens"))

    def group_mean(self, values: Floats) -> Floats:
        """The mean of known values within each group; NaN where none is known."""
        known = np.isfinite(values)
        count = np.bincount(self.group[known], minlength=self.groups)
        sums = np.bincount(self.group[known], values[known], self.groups)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / np.where(count, count, np.nan))

    def at(self, group: int) -> GroupOf:
        """One of its groups."""
        for step, batch in self._batches:
            if group < batch.groups:
                return group_of(step, batch, group)
            group -= batch.groups
        raise IndexError(group)


def pool(view: View, span: Span | None) -> Pool:
    """The train rollouts of a span of judged steps."""
    if span is None:
        return Pool([], np.empty(0))
    steps = view.steps
    steps = steps[(steps >= span.first) & (steps <= span.last)]
    found = [(int(step), view.snapshot.batch(int(step))) for step in steps]
    table = view.snapshot.groups.columns
    within = (table["step"] >= span.first) & (table["step"] <= span.last)
    # A step whose groups have changed since it was judged has other counts: then nothing is said of success.
    passed = unknown_as_nan(table["passed"][within])
    return Pool([(step, batch) for step, batch in found if batch is not None], passed)


def unknown_as_nan(values: NDArray[Any]) -> Floats:
    """An integer column whose -1 is unknown, as floats whose NaN is."""
    return np.where(values >= 0, values, np.nan).astype(np.float64)


def _or_unknown(values: NDArray[Any] | None, size: int) -> Floats:
    return np.full(size, np.nan) if values is None else values.astype(np.float64)


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype)
