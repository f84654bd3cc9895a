"""Where the tasks of a step came before: the rollouts of the newest steps, by their task."""

from __future__ import annotations

from collections import deque
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray


class Runs(NamedTuple):
    """The rollouts of one step, in runs of neighbours with one task."""

    step: int
    rows: NDArray[np.int64]
    tasks: list[int]
    """Of each run."""
    bounds: list[int]
    """Where each run begins among `rows`, and where the last one ends."""

    def __deepcopy__(self, memo: dict[int, object]) -> Runs:
        """Runs never change, so a copied state shares them."""
        return self

    def of(self, tasks: Collection[int]) -> list[NDArray[np.int64]]:
        """The rows of each run that has one of some tasks."""
        return [
            self.rows[self.bounds[place] : self.bounds[place + 1]]
            for place, task in enumerate(self.tasks)
            if task in tasks
        ]


class RecentRows:
    """The rows of the last `size` steps, of `most` rollouts (and one step's) at most, by their task.

    Most steps hold tasks of which few came lately, so that hardly any rollout needs to be compared with earlier ones.
    """

    def __init__(self, size: int, most: int) -> None:
        self._size, self._most = size, most
        self._steps: deque[Runs] = deque()
        self._count = 0
        """Steps so far."""
        self._numbers: dict[int, tuple[int, ...]] = {}
        """Task → the numbers of the steps that had it, ascending; those before the window count as nothing."""
        self._rollouts = 0

    def __deepcopy__(self, memo: dict[int, object]) -> RecentRows:
        """Steps and numbers never change, so a copy need only have containers of its own."""
        copied = copy(self)
        copied._steps, copied._numbers = self._steps.copy(), self._numbers.copy()
        return copied

    def take(
        self, tasks: NDArray[np.int32], rows: NDArray[np.int64], step: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Take a step's rollouts in.

        Gives the rows of earlier steps that have one of its tasks, a task's oldest first, and its own rows of which
        there are such.
        """
        self._forget(step)
        bounds = [0, *(np.flatnonzero(tasks[1:] != tasks[:-1]) + 1).tolist(), len(tasks)]
        names = tasks[bounds[:-1]].tolist() if len(tasks) else []
        runs = Runs(step, rows, names, bounds)
        begin = self._count - len(self._steps)
        known = zip(names, map(self._numbers.get, names), strict=True)
        again = {task: numbers for task, numbers in known if numbers is not None and numbers[-1] >= begin}
        self._numbers.update(dict.fromkeys(names, (self._count,)))
        earlier = set()
        for task, numbers in again.items():
            held = [number for number in numbers if number >= begin]
            earlier.update(held)
            self._numbers[task] = (*held, self._count)
        before = [run for number in sorted(earlier) for run in self._steps[number - begin].of(again)]
        self._steps.append(runs)
        self._count += 1
        self._rollouts += len(tasks)
        return _joined(before), _joined(runs.of(again))

    def _forget(self, step: int) -> None:
        while self._steps and (step - self._steps[0].step >= self._size or self._rollouts > self._most):
            self._rollouts -= len(self._steps.popleft().rows)
        if self._count % self._size == 0:
            begin = self._count - len(self._steps)
            self._numbers = {task: numbers for task, numbers in self._numbers.items() if numbers[-1] >= begin}


def count_different(keys: NDArray[np.int64]) -> int:
    """How many different keys there are."""
    if len(keys) < 2:
        return len(keys)
    ordered = np.sort(keys)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + 1


def first_of_equal(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each key where the first one that is equal to it stands."""
    places = np.arange(len(keys))
    order = np.argsort(keys)
    ordered = keys[order]
    begins = np.ones(len(keys), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    if len(starts) < len(keys):
        places[order] = np.minimum.reduceat(order, starts)[np.cumsum(begins) - 1]
    return places


def _joined(runs: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(runs) if runs else np.empty(0, np.int64)
