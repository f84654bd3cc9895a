"""The groups of a run as the browser lists them: which steps, groups and rollouts match, and in which order."""

from __future__ import annotations

from collections import OrderedDict
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top.ui.rollouts.group_table import HELDOUT, REQUEST, TRAIN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.rollouts.columns import Columns
    from grpo_top.ui.rollouts.filters import Filter

_KEPT_BATCHES = 256


class Order(NamedTuple):
    """An order of the groups."""

    name: str
    first: str
    """Which ones come first, …"""
    reversed: str
    """… and which the other way round."""


ORDERS: tuple[Order, ...] = (
    Order("step", "newest first", "oldest first"),
    Order("spread", "σ, flat first", "σ, widest first"),
    Order("mean", "mean, lowest first", "mean, highest first"),
    Order("tokens", "length, longest first", "length, shortest first"),
    Order("duplicate", "duplicates, most first", "duplicates, fewest first"),
    Order("truncated", "truncated, most first", "truncated, fewest first"),
    Order("lag", "lag, longest first", "lag, shortest first"),
    Order("task", "task, a to z", "task, z to a"),
    Order("family", "family, a to z", "family, z to a"),
)
NEWEST = ORDERS[0]
_DESCENDING = frozenset({"tokens", "duplicate", "truncated", "lag"})


class GroupKey(NamedTuple):
    """A group, whatever is read after it."""

    step: int
    group: int
    """Its dense number within the step's batch; of a request its row."""
    kind: int = TRAIN


class Catalogue:
    """Steps, groups and rollouts of one Snapshot under one filter. Nothing is computed before it is asked for.

    Args:
        columns: of the run.
        filter_: terms that a rollout, or its group, must hold.
        evidence: rows of rollouts to which it is all narrowed down; None: every rollout.
        last_step: steps after it are left out: the view is paused there.
        hits: rows in which the filter's texts were found; None while nobody has looked, and any will do.
    """

    def __init__(
        self,
        columns: Columns,
        filter_: Filter,
        evidence: tuple[int, ...] | None = None,
        last_step: int | None = None,
        hits: NDArray[np.int64] | None = None,
    ) -> None:
        self.snapshot: Snapshot = columns.snapshot
        self.filter = filter_
        self.evidence = evidence
        self.last_step = last_step
        self.hits = hits
        self.columns = self._reaching(columns)
        self._steps: NDArray[np.int32] = self.table["step"]
        if last_step is not None:
            self._steps = self._steps[: int(np.searchsorted(self._steps, last_step, side="right"))]
        self._batches: OrderedDict[GroupKey, Batch | None] = OrderedDict()

    def found(self, hits: NDArray[np.int64]) -> Catalogue:
        """The same, of which only these rows hold the filter's texts."""
        other = copy(self)
        other.hits = hits
        for name in ("matching", "matches_of_group", "steps"):
            other.__dict__.pop(name, None)
        return other

    @property
    def table(self) -> Mapping[str, NDArray[Any]]:
        """The groups that can be listed, see `GroupTable`."""
        return self.columns.table

    @property
    def narrowed(self) -> bool:
        """Whether anything is left out by a filter or by evidence."""
        return bool(self.filter) or self.evidence is not None

    @cached_property
    def by_columns(self) -> NDArray[np.bool_]:
        """Whether each rollout matches, as far as columns tell."""
        rollouts = self.snapshot.rollouts
        held = np.ones(rollouts.length, np.bool_)
        if self.evidence is not None:
            held[:] = False
            held[[row for row in self.evidence if row < rollouts.length]] = True
        for_groups = [term for term in self.filter.terms if term.of == "group"]
        for term in self.filter.terms:
            if term.of == "rollout":
                held &= term.test(self.columns)
        if for_groups:
            groups = np.ones(len(self.table["step"]) + 1, np.bool_)
            groups[-1] = False  # what -1, no group, points at
            for term in for_groups:
                groups[:-1] &= term.test(self.columns)
            held &= groups[self.columns.group_of]
        return held

    @cached_property
    def matching(self) -> NDArray[np.bool_]:
        """Whether each rollout matches."""
        if not self.filter.texts or self.hits is None:
            return self.by_columns
        held = np.zeros(self.snapshot.rollouts.length, np.bool_)
        held[self.hits[self.hits < len(held)]] = True
        held &= self.by_columns
        return held

    @cached_property
    def matches_of_group(self) -> NDArray[np.int64]:
        """How many rollouts of each group of the table match."""
        of = self.columns.group_of[self.matching]
        counts: NDArray[np.int64] = np.bincount(of[of >= 0], minlength=len(self.table["step"]))
        return counts

    def searchable(self, start: int = 0) -> NDArray[np.int64]:
        """The listed rollouts from a row on in which the filter's texts have to be looked for."""
        rows = np.flatnonzero(self.by_columns[start:]) + start
        rows = rows[self.columns.group_of[rows] >= 0]
        if self.last_step is not None:
            rows = rows[self.snapshot.rollouts.columns["step"][rows] <= self.last_step]
        return rows

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
            # Bounds of another type would have all of the steps converted first.
            start, stop = np.searchsorted(self._steps, np.array([step, step + 1], self._steps.dtype))
            return np.arange(start, stop)
        return np.flatnonzero(np.isin(self._steps, np.fromiter(steps, np.int64, len(steps))))

    def groups(
        self, steps: Collection[int], order: Order = NEWEST, *, back: bool = False
    ) -> NDArray[np.int64]:
        """Rows in the table of groups of those that match, in an order; `back`: the other way round.

        Within equal ones the newest come first, and what is unknown comes last either way.
        """
        rows = self.in_steps(steps)
        if self.narrowed:
            rows = rows[self.matches_of_group[rows] > 0]
        newest = -self.table["step"][rows].astype(np.int64)
        if order.name == "step":
            ordered: NDArray[np.int64] = rows[np.argsort(-newest if back else newest, kind="stable")]
            return ordered
        values = self._values(order.name, rows)
        if (order.name in _DESCENDING) != back:
            values = -values
        return rows[np.lexsort((newest, values))]

    def key(self, group: int) -> GroupKey:
        """The group of a row of the table."""
        return GroupKey(*(int(self.table[name][group]) for name in ("step", "group", "kind")))

    def members(self, key: GroupKey) -> NDArray[np.int64]:
        """Rows of the rollouts of a group, by their index; empty where it is no more."""
        batch = self.batch(key)
        if batch is not None:
            rows: NDArray[np.int64] = batch.rows[members_of(batch, key.group)]
            return rows
        alone = key.kind == REQUEST and key.group < self.snapshot.rollouts.length
        return np.array([key.group] if alone else [], np.int64)

    def batch(self, key: GroupKey) -> Batch | None:
        """The rollouts of the step that the group is one of; None for a request that belongs to none."""
        of_step = key._replace(group=0)
        if of_step not in self._batches:
            read = self.snapshot.eval_batch if key.kind == HELDOUT else self.snapshot.batch
            found = read(key.step)
            if key.kind == REQUEST and found is not None and int(found.column("split")[0]) != REQUEST:
                found = None
            self._batches[of_step] = found
            if len(self._batches) > _KEPT_BATCHES:
                self._batches.popitem(last=False)
        return self._batches[of_step]

    def _reaching(self, columns: Columns) -> Columns:
        """The columns with what was not trained on, where that is asked for, is evidence, or is all that there is."""
        if self.evidence is not None:
            known = np.array([row for row in self.evidence if row < self.snapshot.rollouts.length], np.int64)
            if (columns.group_of[known] < 0).any():
                return columns.beyond(known)
        if self.filter.others or not len(columns.trained["step"]):
            return columns.everything
        return columns

    def _values(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """What groups are ordered by, lowest first; NaN unknown."""
        if name == "spread":
            std: NDArray[np.float64] = np.where(self.table["flat"][rows] == 1, 0.0, self.table["std"][rows])
            return std
        if name == "mean":
            mean: NDArray[np.float64] = self.table["mean"][rows]
            return mean
        if name in {"task", "family"}:
            return self._ranks(name, rows)
        return self.columns.of_groups(name)[rows]

    def _ranks(self, column: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The places of names in the alphabet."""
        ids, names = self.columns.words(column)
        places = np.empty(len(names) + 1)
        places[sorted(range(len(names)), key=lambda at: names[at].casefold())] = np.arange(len(names))
        places[-1] = np.nan  # what -1, unknown, points at
        ranks: NDArray[np.float64] = places[ids[self.table["first_row"][rows]]]
        return ranks


def members_of(batch: Batch, group: int) -> NDArray[np.int64]:
    """Positions within a batch of a group's rollouts, by their index."""
    at = np.flatnonzero(batch.group == group)
    ordered: NDArray[np.int64] = at[np.argsort(batch.column("index")[at], kind="stable")]
    return ordered
