"""In which task family or tier something happens: counted over the late window, and named where it sits in one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.batch import PART_KINDS
from grpo_top.snapshot import WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.batch import Batch

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


class Marked(NamedTuple):
    """Which rollouts, or groups, of one step have a property."""

    ids: Mapping[str, NDArray[np.int64]]
    """Kind → see `Batch.part_ids`."""
    of: NDArray[np.int64] | None
    """Where those that the masks are about stand among the rollouts; None: all of them."""
    hit: NDArray[np.bool_] | None
    """None: none of them."""
    counted: NDArray[np.bool_] | None
    """Of which it is known; None: all of them."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Marked:
        """It never changes, so a copied state shares it."""
        return self

    def counts(self, kind: str, parts: int) -> NDArray[np.int64]:
        """Two rows, hits and items, by 1 + the number of the part."""
        ids = self.ids[kind] if self.of is None else self.ids[kind][self.of]
        items = np.bincount(ids if self.counted is None else ids[self.counted], minlength=parts + 1)
        hits = np.zeros_like(items) if self.hit is None else np.bincount(ids[self.hit], minlength=parts + 1)
        return np.stack((hits, items))


class Parts:
    """How many rollouts, or groups, of each family and tier have a property, over the newest steps that carry them.

    They are counted when it is asked for: few detectors fire.
    """

    def __init__(self, size: int = WINDOW) -> None:
        self._steps: deque[Marked] = deque(maxlen=size)
        self._names: Mapping[str, Sequence[str]] = {}
        self._known: dict[str, dict[str, tuple[int, int]]] = {}
        """What was counted since the newest step came."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parts:
        """What was said of a step never changes, and names are only added to."""
        copied = object.__new__(Parts)
        copied._steps, copied._names, copied._known = self._steps.copy(), self._names, {}
        return copied

    def add(
        self, batch: Batch, hit: NDArray[np.bool_] | None, counted: NDArray[np.bool_] | None = None
    ) -> None:
        """Take a step in: `hit` says which rollouts have the property, `counted` which it is known of (else all)."""
        self._take(batch, Marked(batch.part_ids, None, hit, counted))

    def add_groups(self, batch: Batch, hit: NDArray[np.bool_], counted: NDArray[np.bool_]) -> None:
        """As `add`, by group; a group is of its first rollout's part."""
        self._take(batch, Marked(batch.part_ids, batch.group_first, hit, counted))

    def shares(self) -> dict[str, dict[str, float]]:
        """`by_family` and `by_tier`, each a part's share, the largest parts first, the smallest pooled."""
        found = {}
        for kind in PART_KINDS if self._steps else ():
            counts = self._counts(kind)
            if counts:
                pooled = _pooled(counts)
                found[f"by_{kind}"] = {name: hits / items for name, (hits, items) in pooled.items()}
        return found

    def seat(self) -> Seat | None:
        """The family, else the tier, in which it sits; None where it is spread, or where there is only one."""
        for kind in PART_KINDS if self._steps else ():
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

    def _take(self, batch: Batch, marked: Marked) -> None:
        self._steps.append(marked)
        self._names = batch.part_names
        self._known = {}

    def _counts(self, kind: str) -> dict[str, tuple[int, int]]:
        """Hits and items of each part that was seen."""
        known = self._known.get(kind)
        if known is None:
            names = self._names.get(kind, ())
            both = np.zeros((2, len(names) + 1), np.int64)
            for marked in self._steps:
                both += marked.counts(kind, len(names))
            known = self._known[kind] = {
                name: (hits, items)
                for name, hits, items in zip(names, *both[:, 1:].tolist(), strict=True)
                if items
            }
        return known


class Earned(NamedTuple):
    """The rewards of one step that are known, with the parts that earned them."""

    ids: Mapping[str, NDArray[np.int64]]
    known: NDArray[np.bool_] | None
    """Which rollouts' rewards are known; None: all of them."""
    rewards: NDArray[np.float64]

    def __deepcopy__(self, memo: dict[int, Any]) -> Earned:
        """It never changes, so a copied state shares it."""
        return self


class PartRewards:
    """The mean reward of each family and tier over the newest steps, and in which of them it fell."""

    def __init__(self, size: int = WINDOW) -> None:
        self._steps: deque[Earned] = deque(maxlen=size)
        self._names: Mapping[str, Sequence[str]] = {}
        self._before: dict[str, dict[str, tuple[float, int]]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> PartRewards:
        """What a step earned never changes, and names are only added to."""
        copied = object.__new__(PartRewards)
        copied._steps, copied._names = self._steps.copy(), self._names
        copied._before = self._before  # replaced, never changed
        return copied

    def add(self, batch: Batch) -> None:
        """Take a step in."""
        known = None if batch.all_known else batch.known
        self._steps.append(
            Earned(batch.part_ids, known, batch.reward.copy() if known is None else batch.reward[known])
        )
        self._names = batch.part_names

    def mark(self, newest: int) -> None:
        """Something begins: what is held, but the `newest` steps, was before it."""
        self._before = self._means(list(self._steps)[: len(self._steps) - newest])

    def other_tasks(self, newest: int, fall: float) -> bool:
        """Whether the newest step earns less only because it holds other families or tiers than the steps before.

        They are compared each with itself: half of `fall` must be left, over half of the rollouts at least. The
        `newest` steps are not part of what was before.
        """
        now, before = self._means(list(self._steps)[-1:]), self._means(list(self._steps)[:-newest])
        for kind, parts in now.items():
            known = before.get(kind, {})
            both = [(known[name][0] - mean, items) for name, (mean, items) in parts.items() if name in known]
            everything, items = sum(items for _, items in parts.values()), sum(items for _, items in both)
            if not everything or not known:
                continue
            if items < everything / 2 or sum(fell * of for fell, of in both) < fall / 2 * items:
                return True
        return False

    def evidence(self, newest: int) -> tuple[str, dict[str, object]]:
        """The end of a summary, and each part's mean before and over the `newest` steps."""
        now = self._means(list(self._steps)[-newest:])
        words = ""
        found: dict[str, object] = {}
        for kind in PART_KINDS:
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

    def _means(self, steps: list[Earned]) -> dict[str, dict[str, tuple[float, int]]]:
        """Kind → part → mean reward and number of rewards over some steps."""
        found: dict[str, dict[str, tuple[float, int]]] = {}
        for kind, names in self._names.items():
            sums, items = np.zeros(len(names) + 1), np.zeros(len(names) + 1, np.int64)
            for of in steps:
                ids = of.ids[kind] if of.known is None else of.ids[kind][of.known]
                sums += np.bincount(ids, of.rewards, len(names) + 1)
                items += np.bincount(ids, minlength=len(names) + 1)
            named = zip(names, sums[1:].tolist(), items[1:].tolist(), strict=True)
            found[kind] = {name: (total / number, number) for name, total, number in named if number}
        return found


def _pooled(counts: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The largest parts, and the rest as one."""
    ordered = sorted(counts.items(), key=lambda part: -part[1][1])
    found = dict(ordered[:KEPT])
    rest = [count for _, count in ordered[KEPT:]]
    if rest:
        found[OTHERS] = (sum(hits for hits, _ in rest), sum(items for _, items in rest))
    return found
