"""The groups of a run as the browser lists them: which steps, groups and rollouts match, and in which order."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.ui.rollouts.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from grpo_top.facts import Batch
    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.rollouts.filters import Filter

ORDERS: tuple[str, ...] = ("σ, flat first", "mean, lowest first", "length, longest first", "newest first")


class GroupKey(NamedTuple):
    """A group, whatever is read after it."""

    step: int
    group: int
    """Its dense number within the step's batch."""


class Catalogue:
    """Steps, groups and rollouts of one Snapshot under one filter. Nothing is computed before it is asked for.

    Args:
        snapshot: the run.
        filter_: terms that a rollout, or its group, must hold.
        evidence: rows of rollouts to which it is all narrowed down; None: every rollout.
        last_step: steps after it are left out: the view is paused there.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        filter_: Filter,
        evidence: tuple[int, ...] | None = None,
        last_step: int | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.filter = filter_
        self.evidence = evidence
        self.last_step = last_step
        self._columns = Columns(snapshot)
        self._steps: NDArray[np.int32] = snapshot.groups.columns["step"]
        if last_step is not None:
            self._steps = self._steps[: int(np.searchsorted(self._steps, last_step, side="right"))]
        self._batches: dict[int, Batch | None] = {}

    @property
    def narrowed(self) -> bool:
        """Whether anything is left out by a filter or by evidence."""
        return bool(self.filter) or self.evidence is not None

    @cached_property
    def matching(self) -> NDArray[np.bool_]:
        """Whether each rollout matches."""
        rollouts = self.snapshot.rollouts
        held = np.ones(rollouts.length, np.bool_)
        if self.evidence is not None:
            held[:] = False
            held[[row for row in self.evidence if row < rollouts.length]] = True
        for_groups = [term for term in self.filter.terms if term.of == "group"]
        for term in self.filter.terms:
            if term.of == "rollout":
                held &= term.test(self._columns)
        if for_groups:
            groups = np.ones(self.snapshot.groups.length + 1, np.bool_)
            groups[-1] = False  # what -1, no group, points at
            for term in for_groups:
                groups[:-1] &= term.test(self._columns)
            held &= groups[self._columns.group_of]
        return held

    @cached_property
    def matches_of_group(self) -> NDArray[np.int64]:
        """How many rollouts of each group of the table match."""
        of = self._columns.group_of[self.matching]
        counts: NDArray[np.int64] = np.bincount(of[of >= 0], minlength=self.snapshot.groups.length)
        return counts

    @cached_property
    def all_steps(self) -> NDArray[np.int32]:
        """Every judged step that has groups, the newest first."""
        steps: NDArray[np.int32] = np.unique(self._steps)[::-1]
        return steps

    @cached_property
    def steps(self) -> NDArray[np.int32]:
        """The steps in which something matches, the newest first."""
        if not self.narrowed:
            return self.all_steps
        steps: NDArray[np.int32] = np.unique(self._steps[self.matches_of_group[: len(self._steps)] > 0])[::-1]
        return steps

    def in_steps(self, steps: Collection[int]) -> NDArray[np.int64]:
        """Rows in the table of groups of all groups of these steps, the oldest first."""
        if len(steps) == 1:
            (step,) = steps
            start, stop = np.searchsorted(self._steps, [step, step + 1])
            return np.arange(start, stop)
        return np.flatnonzero(np.isin(self._steps, np.fromiter(steps, np.int64, len(steps))))

    def groups(self, steps: Collection[int], order: str) -> NDArray[np.int64]:
        """Rows in the table of groups of those that match, in an order of `ORDERS`."""
        rows = self.in_steps(steps)
        if self.narrowed:
            rows = rows[self.matches_of_group[rows] > 0]
        table = self.snapshot.groups.columns
        newest = -table["step"][rows].astype(np.int64)
        keys: tuple[NDArray[np.generic], ...] = (newest,)
        if order == ORDERS[0]:
            flat = table["flat"][rows] == 1
            keys = (newest, np.where(flat, 0.0, table["std"][rows]))
        elif order == ORDERS[1]:
            keys = (newest, table["mean"][rows])
        elif order == ORDERS[2]:
            keys = (newest, -self._columns.group_tokens[rows])
        ordered: NDArray[np.int64] = rows[np.lexsort(keys)]
        return ordered

    def key(self, group: int) -> GroupKey:
        """The group of a row of the table."""
        table = self.snapshot.groups.columns
        return GroupKey(int(table["step"][group]), int(table["group"][group]))

    def members(self, key: GroupKey) -> NDArray[np.int64]:
        """Rows of the rollouts of a group, by their index; empty where it is no more."""
        batch = self.batch(key.step)
        if batch is None:
            return np.empty(0, np.int64)
        at = members_of(batch, key.group)
        rows: NDArray[np.int64] = batch.rows[at]
        return rows

    def batch(self, step: int) -> Batch | None:
        """The step's rollouts; kept while this catalogue is."""
        if step not in self._batches:
            self._batches[step] = self.snapshot.batch(step)
        return self._batches[step]


def members_of(batch: Batch, group: int) -> NDArray[np.int64]:
    """Positions within a batch of a group's rollouts, by their index."""
    at = np.flatnonzero(batch.group == group)
    ordered: NDArray[np.int64] = at[np.argsort(batch.column("index")[at], kind="stable")]
    return ordered
