"""Statistics that grow with a run: bounded plain data that can be copied, O(1) amortised a step.

Nothing here knows what a series means. Values are finite numbers; who has none for a step adds none, so that
unknown is never zero. A row of a trainer that logs every n steps is added with `steps=n` and counts as n.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from operator import mul
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

Copied = TypeVar("Copied")

MAD_TO_STD = 1.4826
"""Median absolute deviation × this is the standard deviation of normal noise."""
EXACT_MEDIAN = 16_384
"""Values up to which `RunningMedian` is exact."""


class Window:
    """The newest values that together stand for `size` steps, at least one, each with its step."""

    __slots__ = ("_steps", "_values", "_weights", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        # Of values that stand for a step each, and more, `size` are enough: what is older falls out by itself.
        self._values: deque[float] = deque(maxlen=max(size, 1))
        self._steps: deque[int] = deque(maxlen=max(size, 1))
        self._weights: deque[int] | None = None
        """Steps that each value stands for; None while it is one for all of them, as in most runs."""

    def add(self, value: float, step: int, steps: int = 1) -> None:
        """Take in the value of one row that stands for `steps` steps; what no longer fits falls out."""
        self._values.append(value)
        self._steps.append(step)
        if steps != 1 or self._weights is not None:
            self._weigh(steps)

    def extend(self, values: Sequence[float], steps: Sequence[int]) -> None:
        """Take in the values of several rows, each of which stands for its own step."""
        if self._weights is None:
            self._values.extend(values)
            self._steps.extend(steps)
        else:
            for value, step in zip(values, steps, strict=True):
                self.add(value, step)

    def means(self, values: Sequence[float], steps: Sequence[int]) -> list[float]:
        """As `extend`: `mean` after each of them; likewise below."""
        size = self.size
        if self._weights is not None or len(self._values) < size:
            return self._after_each(values, steps, lambda window: window.mean)
        rows = self._extended(values, steps)
        return [math.fsum(rows[at : at + size]) / size for at in range(1, len(values) + 1)]

    def maxima(self, values: Sequence[float], steps: Sequence[int]) -> list[float]:
        """Each `maximum`."""
        size = self.size
        if self._weights is not None or len(self._values) < size:
            return self._after_each(values, steps, lambda window: window.maximum)
        rows = self._extended(values, steps)
        return [max(rows[at : at + size]) for at in range(1, len(values) + 1)]

    def medians(self, values: Sequence[float], steps: Sequence[int]) -> list[float]:
        """Each `median`."""
        size = self.size
        if self._weights is not None or len(self._values) < size:
            return self._after_each(values, steps, lambda window: window.median)
        rows = sliding_window_view(np.array(self._extended(values, steps)[1:]), size)
        ordered = np.sort(rows, axis=1)
        half = size // 2
        found: list[float] = (
            ordered[:, half] if size % 2 else (ordered[:, half - 1] + ordered[:, half]) / 2
        ).tolist()
        return found

    def clear(self) -> None:
        """Forget every value."""
        self._values.clear()
        self._steps.clear()
        self._weights = None

    def where(self, holds: Callable[[float], bool]) -> list[int]:
        """The steps of the values of which something holds, oldest first."""
        return [step for value, step in zip(self._values, self._steps, strict=True) if holds(value)]

    def above(self, limit: float) -> list[int]:
        """The steps of the values above a limit, oldest first; in a run without any it takes next to nothing."""
        if not self._values or max(self._values) <= limit:
            return []
        return [step for value, step in zip(self._values, self._steps, strict=True) if value > limit]

    def below(self, limit: float) -> list[int]:
        """The steps of the values below a limit; else as `above`."""
        if not self._values or min(self._values) >= limit:
            return []
        return [step for value, step in zip(self._values, self._steps, strict=True) if value < limit]

    def newest(self, count: int) -> list[float]:
        """The newest values, at most so many, oldest first."""
        return list(self._values)[-count:]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float]:
        return iter(self._values)

    def __deepcopy__(self, memo: dict[int, Any]) -> Window:
        """Numbers never change, so a copy need only have containers of its own."""
        copied = object.__new__(Window)
        copied.size, copied._values, copied._steps = self.size, self._values.copy(), self._steps.copy()
        copied._weights = None if self._weights is None else self._weights.copy()
        return copied

    @property
    def span(self) -> int:
        """Steps that the values in it stand for."""
        return len(self._values) if self._weights is None else sum(self._weights)

    @property
    def full(self) -> bool:
        """Whether the values stand for `size` steps."""
        return self.span >= self.size

    @property
    def values(self) -> NDArray[np.float64]:
        """The values, oldest first."""
        return np.array(self._values)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The step of each value."""
        return np.array(self._steps, np.int64)

    @property
    def first_step(self) -> int | None:
        """Step of the oldest value."""
        return self._steps[0] if self._steps else None

    @property
    def first(self) -> float:
        """The oldest value; NaN while empty."""
        return self._values[0] if self._values else math.nan

    @property
    def last_step(self) -> int | None:
        """Step of the newest value."""
        return self._steps[-1] if self._steps else None

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self._values[-1] if self._values else None

    @property
    def mean(self) -> float:
        """Mean weighted by the steps that each value stands for; NaN while empty."""
        count = len(self._values)
        if not count:
            return math.nan
        if self._weights is None:
            return math.fsum(self._values) / count
        return math.fsum(map(mul, self._values, self._weights)) / self.span

    @property
    def median(self) -> float:
        """Median of the values; NaN while empty."""
        return _middle(sorted(self._values))

    @property
    def minimum(self) -> float:
        """Lowest value; NaN while empty."""
        return min(self._values, default=math.nan)

    @property
    def maximum(self) -> float:
        """Highest value; NaN while empty."""
        return max(self._values, default=math.nan)

    def _extended(self, values: Sequence[float], steps: Sequence[int]) -> list[float]:
        """The values that were in it, and those that were taken in."""
        rows = [*self._values, *values]
        self.extend(values, steps)
        return rows

    def _after_each(
        self, values: Sequence[float], steps: Sequence[int], what: Callable[[Window], float]
    ) -> list[float]:
        found = []
        for value, step in zip(values, steps, strict=True):
            self.add(value, step)
            found.append(what(self))
        return found

    def _weigh(self, steps: int) -> None:
        """Note that the newest row stands for so many steps, where that was not one for every row so far."""
        if self._weights is None:
            self._weights = deque([1] * (len(self._values) - 1), self._values.maxlen)
        weights = self._weights
        weights.append(steps)
        span = sum(weights)
        while span - weights[0] >= self.size and len(weights) > 1:
            span -= weights.popleft()
            self._values.popleft()
            self._steps.popleft()


class ShareWindow:
    """How many items have a property over the newest `size` steps, counted by item and not by step."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.hits = 0
        """Items with the property."""
        self.items = 0
        """Items in all."""
        self._entries: deque[tuple[int, int, int]] = deque()

    def add(self, hits: int, items: int, step: int) -> None:
        """Take one step in: `hits` of its `items` items have the property."""
        self._entries.append((hits, items, step))
        self.hits += hits
        self.items += items
        if len(self._entries) > self.size:
            old_hits, old_items, _ = self._entries.popleft()
            self.hits -= old_hits
            self.items -= old_items

    def __len__(self) -> int:
        return len(self._entries)

    def __deepcopy__(self, memo: dict[int, Any]) -> ShareWindow:
        """Entries never change, so a copy need only have a container of its own."""
        copied = _like(self)
        copied._entries = self._entries.copy()
        return copied

    @property
    def full(self) -> bool:
        """Whether `size` steps are in it."""
        return len(self._entries) >= self.size

    @property
    def first_step(self) -> int | None:
        """The oldest step in it."""
        return self._entries[0][2] if self._entries else None

    @property
    def first_hit(self) -> int | None:
        """The oldest step in it that has a hit."""
        return next((step for hits, _, step in self._entries if hits), None)

    @property
    def share(self) -> float:
        """`hits` of `items`; NaN without items."""
        return self.hits / self.items if self.items else math.nan


class Baseline:
    """How a series was early in the run: at steps `first` to `last`, counted from its own first row.

    It stands for good once step `last` is in and `least` rows are; later values change nothing.
    """

    def __init__(self, first: int, last: int, least: int = 3) -> None:
        self.first, self.last, self.least = first, last, least
        self._seen = 0
        self._values: list[float] = []
        self.ready = False
        """Whether it is complete."""
        self.median = self.mean = math.nan
        """Of what has been taken in so far; NaN while empty."""

    def add(self, value: float, steps: int = 1) -> None:
        """Take in the value of one row that stands for `steps` steps."""
        if self.ready:
            return
        self._seen += steps
        if self._seen >= self.first:
            insort(self._values, value)
            self.median = _middle(self._values)
            self.mean = math.fsum(self._values) / len(self._values)
        self.ready = self._seen >= self.last and len(self._values) >= self.least

    def extend(self, values: Sequence[float]) -> None:
        """Take in the values of several rows."""
        for value in () if self.ready else values:
            self.add(value)


class Buckets:
    """A whole run in at most 128 means of neighbouring values: all of them at first, pairs later, then fours."""

    def __init__(self, limit: int = 128) -> None:
        self.limit = limit
        self.size = 1
        """Values that a full bucket stands for."""
        self._means: list[float] = []
        self._steps: list[int] = []
        """The last step of each bucket."""
        self._sum = 0.0
        self._count = 0

    def add(self, value: float, step: int) -> bool:
        """Take one value in; whether it filled a bucket."""
        self._sum += value
        self._count += 1
        if self._count < self.size:
            return False
        self._means.append(self._sum / self._count)
        self._steps.append(step)
        self._sum, self._count = 0.0, 0
        if len(self._means) == self.limit:
            self._means = [(a + b) / 2 for a, b in zip(self._means[::2], self._means[1::2], strict=True)]
            self._steps = self._steps[1::2]
            self.size *= 2
        return True

    def since(self, step: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The full buckets that end after `step`: their means and their last steps."""
        first = bisect_right(self._steps, step)
        return np.array(self._means[first:]), np.array(self._steps[first:], np.int64)


class RunningMedian:
    """Median of every value so far: exact for the first 16,384 values, in at most 128 kB.

    Past that it halves what it holds (every second value in order of size, which leaves the quantiles in
    place) and from then on takes every second value in, then every fourth, and so on: the same values always
    give the same median, within the quantiles 0.49 and 0.51 unless they repeat in time with that stride.
    """

    def __init__(self) -> None:
        self.count = 0
        """Values seen, taken in or not."""
        self._stride = 1
        self._sorted = array("d")

    def add(self, value: float) -> None:
        """Take the next value in."""
        self.count += 1
        if self.count % self._stride:
            return
        insort(self._sorted, value)
        if len(self._sorted) >= EXACT_MEDIAN:
            self._sorted = self._sorted[1::2]
            self._stride *= 2

    @property
    def value(self) -> float:
        """The median; NaN before the first value."""
        return _middle(self._sorted)

    def at_least(self, more: int) -> float:
        """A number under which the median stays for so many further values, whatever they are; -inf where none is."""
        place, all_kept = (len(self._sorted) - 1) // 2 - more, self.count + more < EXACT_MEDIAN
        return self._sorted[place] if place >= 0 and all_kept else -math.inf

    def rank(self, value: float) -> float:
        """Share of the values that are lower than `value`; NaN before the first one."""
        return bisect_left(self._sorted, value) / len(self._sorted) if self._sorted else math.nan


def robust_deviation(values: Sequence[float] | NDArray[np.float64]) -> float:
    """1.4826 × median absolute deviation from the median: a deviation blind to outliers. 0 of none."""
    series = np.asarray(values, np.float64)
    if not len(series):
        return 0.0
    return MAD_TO_STD * median(np.abs(series - median(series)))


def js_distance(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Jensen-Shannon distance of two counts by name: 0 equal, 1 nothing in common. 0 where one is empty."""
    totals = math.fsum(first.values()), math.fsum(second.values())
    if min(totals) <= 0:
        return 0.0
    divergence = 0.0
    for name in first.keys() | second.keys():
        p, q = first.get(name, 0.0) / totals[0], second.get(name, 0.0) / totals[1]
        middle = (p + q) / 2
        for share in (p, q):
            if share > 0:
                divergence += share * math.log2(share / middle) / 2
    return math.sqrt(min(max(divergence, 0.0), 1.0))


def _like(original: Copied) -> Copied:
    """A shallow copy, in a fifth of the time of `copy.copy`."""
    copied = object.__new__(type(original))
    copied.__dict__.update(original.__dict__)
    return copied


def median(values: NDArray[np.float64]) -> float:
    """As `np.median`, of which most is spent on what a plain array does not need."""
    return _middle(np.sort(values))


def _middle(ordered: Sequence[float] | NDArray[np.float64]) -> float:
    """Median of sorted values; NaN of none."""
    n = len(ordered)
    if not n:
        return math.nan
    return float(ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2)
