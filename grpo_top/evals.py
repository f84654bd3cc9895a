"""Held-out evaluations: one number a suite and step, as the trainer gives it, else from the held-out rollouts."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.encode import finite_or_inf
from grpo_top.facts import EvalPoint
from grpo_top.formats.names import heldout_value
from grpo_top.snapshot import Series
from grpo_top.table import ROLLOUTS, TRAINER

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.records import Eval

HELDOUT = "heldout"


class Evals:
    """Every evaluation of a run."""

    def __init__(self) -> None:
        self.rollout_steps = StepSet()
        """Steps that held-out rollouts carry."""
        self._given = StepSet()
        """Steps at which the trainer evaluated."""
        self._points: dict[str, dict[int, tuple[int, float]]] = {}
        """Suite → step → (rank, value) as the trainer gives it."""

    def add(self, record: Eval) -> bool:
        """Take an evaluation in; whether that changed anything."""
        value = heldout_value(record.metrics)
        if value is None:
            return False
        points = self._points.setdefault(record.suite, {})
        known = points.get(record.step)
        if known is not None and (known[0] > record.rank or known[1] == value):
            return False
        points[record.step] = (record.rank, value)
        self._given.add(record.step)
        return True

    def any_at(self, step: int) -> bool:
        """Whether the trainer evaluated at a step."""
        return step in self._given

    def any_after(self, step: int) -> bool:
        """Whether anything was evaluated after a step."""
        return bool(self._given.between(step, None) or self.rollout_steps.between(step, None))

    def count(self) -> int:
        """Evaluations, by the step that they were made at."""
        return len(self.steps())

    def steps(self) -> list[int]:
        """Steps of every evaluation, ascending."""
        return sorted({*self._given.between(None, None), *self._from_rollouts(None, None)})

    def between(
        self, after: int | None, until: int | None, of_rollouts: Callable[[int], float | None]
    ) -> tuple[EvalPoint, ...]:
        """Points with after < step <= until, in order; None is no bound.

        Args:
            after: exclusive lower bound.
            until: inclusive upper bound.
            of_rollouts: mean reward of the held-out rollouts that carry a step's number.
        """
        if not self._given and not self.rollout_steps:
            return ()
        found = [
            EvalPoint(suite, step, points[step][1])
            for step in self._given.between(after, until)
            for suite, points in self._points.items()
            if step in points
        ]
        for step in self._from_rollouts(after, until):
            value = of_rollouts(step)
            if value is not None:
                found.append(EvalPoint(HELDOUT, step, value))
        return tuple(sorted(found, key=lambda point: (point.step, point.suite)))

    def series(self, of_rollouts: Callable[[int], float | None]) -> dict[str, Series]:
        """`heldout` for the default suite, `heldout{suite}` for any other."""
        by_suite: dict[str, list[EvalPoint]] = {}
        for point in self.between(None, None, of_rollouts):
            by_suite.setdefault(point.suite, []).append(point)
        found = {}
        for suite, points in by_suite.items():
            name = HELDOUT if suite == HELDOUT else f"{HELDOUT}{{{suite}}}"
            origin = TRAINER if suite in self._points else ROLLOUTS
            found[name] = Series(
                name,
                origin,
                np.array([point.step for point in points], np.int64),
                np.array([finite_or_inf(point.value) for point in points]),
            )
        return found

    def _from_rollouts(self, after: int | None, until: int | None) -> list[int]:
        """Steps whose evaluation only the rollouts tell of.

        A trainer that gives the number too may count one step less than the rollouts carry.
        """
        given = self._given
        return [
            step
            for step in self.rollout_steps.between(after, until)
            if step not in given and step - 1 not in given
        ]


class StepSet:
    """Steps, each once, in order."""

    def __init__(self) -> None:
        self._ordered: list[int] = []
        self._steps: set[int] = set()

    def __contains__(self, step: int) -> bool:
        return step in self._steps

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, step: int) -> None:
        """Put a step in."""
        if step not in self._steps:
            self._steps.add(step)
            insort(self._ordered, step)

    def between(self, after: int | None, until: int | None) -> list[int]:
        """Steps with after < step <= until, ascending; None is no bound."""
        first = 0 if after is None else bisect_right(self._ordered, after)
        stop = len(self._ordered) if until is None else bisect_right(self._ordered, until)
        return self._ordered[first:stop]
