"""In which task family or tier something happens: counted over the late window, and named where it sits in one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.facts import Batch

KINDS = ("family", "tier")
KEPT = 12
"""Parts of a kind that evidence lists; the smallest are pooled."""
OTHERS = "others"
SITS = 0.8
"""Share of all hits that a part must hold for a finding to sit in it."""
TWICE = 2.0
"""And how many times more often it must happen there than elsewhere."""


class Seat(NamedTuple):
    """The one part in which something happens."""

    kind: str
    """`family` or `tier`."""
    name: str
    share: float
    """How often it happens there."""
    elsewhere: float

    def words(self) -> str:
        """As the end of a summary: `, in family carry (84%, elsewhere 3.1%)`."""
        return f", in {self.kind} {self.name} ({numbers.share(self.share)}, elsewhere {numbers.share(self.elsewhere)})"


class Parts:
    """How many rollouts, or groups, of each family and tier have a property, over the newest steps that carry them."""

    def __init__(self, size: int = WINDOW) -> None:
        self._steps: deque[dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]] = deque(maxlen=size)
        """Kind → hits and items by the number of the part."""
        self._names: dict[str, tuple[str, ...]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Parts:
        """Counts of a step never change, so a copy need only have containers of its own."""
        copied = object.__new__(Parts)
        copied._steps, copied._names = self._steps.copy(), dict(self._names)
        return copied

    def add(self, batch: Batch, hit: NDArray[np.bool_], counted: NDArray[np.bool_] | None = None) -> None:
        """Take a step in: `hit` says which rollouts have the property, `counted` which it is known of (else all)."""
        self._add(batch, {kind: batch.column(kind) for kind in KINDS}, hit, counted)

    def add_groups(self, batch: Batch, hit: NDArray[np.bool_], counted: NDArray[np.bool_]) -> None:
        """As `add`, by group; a group is of its first rollout's part."""
        self._add(batch, {kind: batch.column(kind)[batch.group_first] for kind in KINDS}, hit, counted)

    def shares(self) -> dict[str, dict[str, float]]:
        """`by_family` and `by_tier`, each a part's share, the largest parts first, the smallest pooled."""
        found = {}
        for kind in KINDS:
            counts = self._counts(kind)
            if counts:
                pooled = _pooled(counts)
                found[f"by_{kind}"] = {name: hits / items for name, (hits, items) in pooled.items()}
        return found

    def seat(self) -> Seat | None:
        """The family, else the tier, in which it sits; None where it is spread, or where there is only one."""
        for kind in KINDS:
            counts = self._counts(kind)
            all_hits = sum(hits for hits, _ in counts.values())
            all_items = sum(items for _, items in counts.values())
            for name, (hits, items) in counts.items():
                rest = all_items - items
                if not hits or not rest or hits < SITS * all_hits:
                    continue
                elsewhere = (all_hits - hits) / rest
                if hits / items >= TWICE * elsewhere:
                    return Seat(kind, name, hits / items, elsewhere)
        return None

    def words(self) -> str:
        """What a summary says of it; empty where it sits nowhere."""
        seat = self.seat()
        return "" if seat is None else seat.words()

    def evidence(self) -> dict[str, object]:
        """The shares, and the part in which it sits where it sits in one."""
        found: dict[str, object] = dict(self.shares())
        seat = self.seat()
        if seat is not None:
            found["sits_in"] = {seat.kind: seat.name, "share": seat.share, "elsewhere": seat.elsewhere}
        return found

    def _add(
        self,
        batch: Batch,
        ids: dict[str, NDArray[Any]],
        hit: NDArray[np.bool_],
        counted: NDArray[np.bool_] | None,
    ) -> None:
        found = {}
        for kind, numbers_ in ids.items():
            known = numbers_ >= 0 if counted is None else (numbers_ >= 0) & counted
            items = np.bincount(numbers_[known])
            if not len(items):
                continue
            found[kind] = (np.bincount(numbers_[known & hit], minlength=len(items)), items)
            names = batch.names(kind)
            if len(names) != len(self._names.get(kind, ())):
                self._names[kind] = tuple(names)
        self._steps.append(found)

    def _counts(self, kind: str) -> dict[str, tuple[int, int]]:
        """Hits and items of each part that was seen."""
        steps = [found[kind] for found in self._steps if kind in found]
        if not steps:
            return {}
        size = max(len(items) for _, items in steps)
        hits, items = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for of_hits, of_items in steps:
            hits[: len(of_hits)] += of_hits
            items[: len(of_items)] += of_items
        names = self._names[kind]
        return {names[at]: (int(hits[at]), int(items[at])) for at in np.flatnonzero(items).tolist()}


class PartRewards:
    """The mean reward of each family and tier over the newest steps, and in which of them it fell."""

    def __init__(self, size: int = WINDOW) -> None:
        self._steps: deque[dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]] = deque(maxlen=size)
        """Kind → sums and numbers of rewards by the number of the part."""
        self._names: dict[str, tuple[str, ...]] = {}
        self._before: dict[str, dict[str, tuple[float, int]]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> PartRewards:
        """Sums of a step never change, so a copy need only have containers of its own."""
        copied = object.__new__(PartRewards)
        copied._steps, copied._names = self._steps.copy(), dict(self._names)
        copied._before = self._before  # replaced, never changed
        return copied

    def add(self, batch: Batch) -> None:
        """Take a step in."""
        found = {}
        for kind in KINDS:
            ids = batch.column(kind)
            known = (ids >= 0) & batch.known
            items = np.bincount(ids[known])
            if not len(items):
                continue
            found[kind] = (np.bincount(ids[known], batch.reward[known]).astype(np.float64), items)
            names = batch.names(kind)
            if len(names) != len(self._names.get(kind, ())):
                self._names[kind] = tuple(names)
        self._steps.append(found)

    def mark(self, newest: int) -> None:
        """Something begins: what is held, but the `newest` steps, was before it."""
        self._before = self._means(list(self._steps)[: len(self._steps) - newest])

    def evidence(self, newest: int) -> tuple[str, dict[str, object]]:
        """The end of a summary, and each part's mean before and over the `newest` steps."""
        now = self._means(list(self._steps)[-newest:])
        words = ""
        found: dict[str, object] = {}
        for kind in KINDS:
            before = self._before.get(kind, {})
            both = {name: (before[name][0], *of) for name, of in now.get(kind, {}).items() if name in before}
            if not both:
                continue
            largest = sorted(both.items(), key=lambda part: -part[1][2])[:KEPT]
            found[f"by_{kind}"] = {name: {"before": was, "now": mean} for name, (was, mean, _) in largest}
            falls = {name: (was - mean) * items for name, (was, mean, items) in both.items()}
            deepest = max(falls, key=lambda name: falls[name])
            whole, items = sum(falls.values()), sum(items for _, _, items in both.values())
            alone = 0 < SITS * whole <= falls[deepest] and both[deepest][2] < SITS * items
            if alone and not words:
                was, mean, _ = both[deepest]
                words = f", in {kind} {deepest} ({numbers.value(was)} → {numbers.value(mean)})"
                found["sits_in"] = {kind: deepest, "before": was, "now": mean}
        return words, found

    def _means(
        self, steps: list[dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]]
    ) -> dict[str, dict[str, tuple[float, int]]]:
        """Kind → part → mean reward and number of rewards over some steps."""
        found: dict[str, dict[str, tuple[float, int]]] = {}
        for kind, names in self._names.items():
            sums, items = np.zeros(len(names)), np.zeros(len(names), np.int64)
            for of in steps:
                if kind in of:
                    of_sums, of_items = of[kind]
                    sums[: len(of_sums)] += of_sums
                    items[: len(of_items)] += of_items
            found[kind] = {
                names[at]: (float(sums[at] / items[at]), int(items[at]))
                for at in np.flatnonzero(items).tolist()
            }
        return found


def _pooled(counts: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The largest parts, and the rest as one."""
    ordered = sorted(counts.items(), key=lambda part: -part[1][1])
    found = dict(ordered[:KEPT])
    rest = [count for _, count in ordered[KEPT:]]
    if rest:
        found[OTHERS] = (sum(hits for hits, _ in rest), sum(items for _, items in rest))
    return found
