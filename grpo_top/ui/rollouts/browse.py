"""Where one is in the browser: the column, the row in each, the marked steps, the order and the filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top.ui.rollouts.catalogue import ORDERS, Catalogue, GroupKey
from grpo_top.ui.rollouts.columns import Columns
from grpo_top.ui.rollouts.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from grpo_top.snapshot import Snapshot

STEPS, GROUPS, ROLLOUTS = 0, 1, 2
_EMPTY = np.empty(0, np.int64)


class Browse:
    """A selection over a catalogue that grows. What is selected stays selected while the run goes on.

    Until one moves away from the newest step, it is followed.

    Args:
        snapshot: the run.
        evidence: rows of rollouts to which it is all narrowed down; their steps are marked.
        step: the step at the cursor; None follows the newest.
        last_step: where the view is paused; None is not.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        evidence: tuple[int, ...] | None = None,
        step: int | None = None,
        last_step: int | None = None,
    ) -> None:
        self.column = STEPS
        self.order = ORDERS[0]
        self.turned = False
        """Whether the groups are listed the other way round."""
        self.filter = Filter()
        self.marked: set[int] = set()
        self.step = step
        """The step at the cursor; None follows the newest."""
        self.group: GroupKey | None = None
        """The group at the cursor; None is the first one listed."""
        self.member = 0
        """Position of the rollout at the cursor within its group."""
        self.group_at = 0
        """Position of the cursor among the groups."""
        self.groups: NDArray[np.int64] = _EMPTY
        """The groups listed: rows of the catalogue's table."""
        self.members: NDArray[np.int64] = _EMPTY
        """The rollouts of the group at the cursor: rows of the Snapshot's rollouts."""
        self._evidence = evidence
        self._hits: NDArray[np.int64] | None = None
        self._columns = Columns(snapshot)
        self.catalogue = Catalogue(self._columns, self.filter, evidence, last_step)
        self._listed: tuple[object, ...] = ()
        """What the listed groups follow from."""
        if evidence is not None:
            self.marked = set(self.steps.tolist())
            self.column = GROUPS
        self._settle()

    def take(self, snapshot: Snapshot, last_step: int | None = None) -> None:
        """Go over to a newer Snapshot, or one that is paused at `last_step`."""
        if snapshot is not self._columns.snapshot:
            self._columns = Columns(snapshot)
        self.catalogue = Catalogue(self._columns, self.filter, self._evidence, last_step, self._hits)
        self._settle()

    def narrow(self, filter_: Filter) -> None:
        """List what a filter leaves; what it asks of texts is left aside until `find`."""
        self.filter = filter_
        self._hits = None
        self.take(self.catalogue.snapshot, self.catalogue.last_step)

    def find(self, hits: NDArray[np.int64]) -> None:
        """List only those rollouts in which the filter's texts have been found by now."""
        self._hits = hits
        self.catalogue = self.catalogue.found(hits)
        self._settle()

    @property
    def steps(self) -> NDArray[np.int32]:
        """The steps listed, the newest first."""
        return self.catalogue.steps

    @property
    def step_at(self) -> int:
        """Position of the cursor among the steps."""
        steps = self.steps
        if self.step is None or not len(steps):
            return 0
        # Descending: a step that has gone has its place taken by the next older one.
        return min(int(np.searchsorted(-steps, -self.step)), len(steps) - 1)

    @property
    def scope(self) -> Collection[int]:
        """The steps whose groups are listed: the marked ones, else the one at the cursor."""
        if self.marked:
            return self.marked
        return {int(self.steps[self.step_at])} if len(self.steps) else set()

    @property
    def row(self) -> int | None:
        """The rollout at the cursor: a row of the Snapshot's rollouts."""
        return int(self.members[self.member]) if self.member < len(self.members) else None

    @property
    def group_key(self) -> GroupKey | None:
        """The group whose rollouts are listed."""
        if not len(self.groups):
            return None
        return self.catalogue.key(int(self.groups[self.group_at]))

    def move(self, by: int) -> None:
        """Move the cursor of the column where one is."""
        if self.column == STEPS:
            self._to_step(self.step_at + by)
        elif self.column == GROUPS:
            self._to_group(self.group_at + by)
        else:
            self.member = _within(self.member + by, len(self.members))

    def move_to(self, position: int) -> None:
        """Put the cursor of the column where one is on a row; past the end is the last one."""
        if self.column == STEPS:
            self._to_step(position)
        elif self.column == GROUPS:
            self._to_group(position)
        else:
            self.member = _within(position, len(self.members))

    def deeper(self) -> bool:
        """Go to the next column; False in the last one. What was followed until now is held."""
        if self.column == ROLLOUTS:
            return False
        if self.column == STEPS and len(self.steps):
            self.step = int(self.steps[self.step_at])
        self.group = self.group_key
        if self.column == GROUPS:
            self._to_matching(1)
        self.column += 1
        return True

    def back(self) -> bool:
        """Go to the column before; False in the first one."""
        if self.column == STEPS:
            return False
        self.column -= 1
        return True

    def mark(self) -> None:
        """Mark the step at the cursor, or unmark it, and go on to the next."""
        if not len(self.steps):
            return
        self.marked ^= {int(self.steps[self.step_at])}
        self._to_step(self.step_at + 1)

    def mark_all(self) -> None:
        """Mark every step that is listed; none where all are marked."""
        every = {int(step) for step in self.steps}
        self.marked = set() if self.marked >= every else every
        self._settle()

    def next_order(self) -> None:
        """List the groups in the next order."""
        self.order, self.turned = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)], False
        self._settle()

    def turn_order(self) -> None:
        """List the groups the other way round."""
        self.turned = not self.turned
        self._settle()

    @property
    def order_words(self) -> str:
        """Which groups come first."""
        return self.order.reversed if self.turned else self.order.first

    def flagged(self, by: int) -> None:
        """Go to the next (1) or previous (-1) group that is flagged: it matches, or where nothing is filtered, is flat.

        In the column of rollouts, to the next one that matches, on into the next group.
        """
        if not len(self.groups):
            return
        if self.column == ROLLOUTS and self.catalogue.narrowed:
            hits = np.flatnonzero(self.catalogue.matching[self.members])
            ahead = hits[hits > self.member] if by > 0 else hits[hits < self.member][::-1]
            if len(ahead):
                self.member = int(ahead[0])
                return
        at = self.group_at
        flagged = np.ones(len(self.groups), np.bool_)
        if not self.catalogue.narrowed:
            flagged = self.catalogue.table["flat"][self.groups] == 1
        places = np.flatnonzero(flagged)
        places = places[places > at] if by > 0 else places[places < at][::-1]
        if len(places):
            self.column = max(self.column, GROUPS)
            self._to_group(int(places[0]))
            self.member = 0 if by > 0 else max(0, len(self.members) - 1)
            self._to_matching(by)

    def walk(self, most: int) -> tuple[int, ...]:
        """The rollouts to go through from here, at most `most`: those that match; else one of each group listed."""
        here = self.row
        if self.catalogue.narrowed:
            every = [self.catalogue.members(self.catalogue.key(int(group))) for group in self.groups[:most]]
            rows = np.concatenate(every) if every else _EMPTY
            return tuple(rows[self.catalogue.matching[rows]].tolist()[:most])
        rows = self.catalogue.table["first_row"][self.groups[:most]].copy()
        if here is not None and self.group_at < len(rows):
            rows[self.group_at] = here
        return tuple(rows.tolist())

    def _to_matching(self, by: int) -> None:
        """To the first (1) or last (-1) rollout of the group that matches, unless the one at the cursor does."""
        if (
            not self.catalogue.narrowed
            or not len(self.members)
            or self.catalogue.matching[self.members[self.member]]
        ):
            return
        hits = np.flatnonzero(self.catalogue.matching[self.members])
        if len(hits):
            self.member = int(hits[0 if by > 0 else -1])

    def _to_step(self, position: int) -> None:
        steps = self.steps
        at = _within(position, len(steps))
        # At the top one follows again: the newest step is where one began.
        self.step = int(steps[at]) if len(steps) and at else None
        if not self.marked:
            self.group = None
        self._settle()

    def _to_group(self, position: int) -> None:
        if not len(self.groups):
            return
        self.group = self.catalogue.key(int(self.groups[_within(position, len(self.groups))]))
        self.member = 0
        self._settle()

    def _settle(self) -> None:
        """List anew what follows from the selection."""
        listed = (self.catalogue, frozenset(self.scope), self.order, self.turned)
        if listed != self._listed:
            self.groups = self.catalogue.groups(listed[1], self.order, back=self.turned)
            self._listed = listed
        self.group_at = self._position(self.group)
        key = self.group_key
        self.members = _EMPTY if key is None else self.catalogue.members(key)
        self.member = _within(self.member, len(self.members))
        if self.column < ROLLOUTS:
            self._to_matching(1)

    def _position(self, group: GroupKey | None) -> int:
        """The position of a group among those that are listed; that of the first where it is not one of them."""
        if group is None:
            return 0
        table = self.catalogue.table
        here = np.ones(len(self.groups), np.bool_)
        for name, value in group._asdict().items():
            here &= table[name][self.groups] == value
        return int(here.argmax()) if here.any() else 0


def _within(position: int, length: int) -> int:
    return max(0, min(position, length - 1))
