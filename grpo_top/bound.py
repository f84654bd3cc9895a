"""How many rollouts are held: past a bound the columns of the oldest go, so that memory stays; their series do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from grpo_top.bundle import Bundle
    from grpo_top.history import History
    from grpo_top.verdicts import Judge

    Part = tuple[Bundle, int, str]

LEFT = 0.75
"""Of the bound, what is held at most after some were let go: it is seldom done, and much at once."""
AT_LEAST = 128
"""Judged steps whose rollouts are held whatever their number: detectors look back so far at most."""


class Bound:
    """Lets the oldest steps' rollouts go, at a step that the judge can go on from. What is of them then stays as it is.

    Args:
        limit: rollouts that are held at most, but those of the last AT_LEAST steps.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.first = -(2**63)
        """The first step whose rollouts are held."""
        self.too_late = 0
        """Rollouts that came for a step before it, and were not taken in."""
        self._evaluated: dict[int, float | None] = {}

    def in_time(self, parts: Sequence[Part]) -> Sequence[Part]:
        """The rollouts that are of steps that are held."""
        if not self.too_late and self.first < 0:
            return parts
        kept = [
            (rollouts.those([step >= self.first for step in rollouts.steps]), source, writer)
            for rollouts, source, writer in parts
        ]
        self.too_late += sum(len(part[0]) for part in parts) - sum(len(part[0]) for part in kept)
        return [part for part in kept if part[0]]

    def evaluated(self, step: int) -> float | None:
        """The mean reward of held-out rollouts that were let go; None unknown."""
        return self._evaluated.get(step)

    def keep(
        self,
        history: History,
        judge: Judge,
        evaluated: Iterable[int],
        mean: Callable[[int], float | None],
    ) -> bool:
        """Let go what is too much; whether anything was.

        Args:
            history, judge: what holds the rollouts, and what is not to go back to them.
            evaluated: steps that held-out rollouts carry.
            mean: the mean reward of those.
        """
        if history.length - history.first <= self.limit:
            return False
        steps = judge.checkpoints(AT_LEAST)
        left = ((step, history.length - history.first_row_after(step)) for step in steps)
        until = next((step for step, rows in left if rows <= LEFT * self.limit), steps[-1] if steps else None)
        if until is None or until < self.first:
            return False
        self._evaluated |= {step: mean(step) for step in evaluated if self.first <= step <= until}
        history.let_go(until)
        judge.let_go(until)
        self.first = until + 1
        return True
