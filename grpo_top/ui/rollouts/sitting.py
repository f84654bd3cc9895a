"""One sitting of hand scores: which rollouts are looked at, and what was said of them so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.grades import HandScore, content_of, draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grpo_top.records import Rollout
    from grpo_top.snapshot import Snapshot


class Said(NamedTuple):
    """What was said of one rollout."""

    score: float | None
    """None: skipped."""
    note: str = ""


@dataclass
class Sitting:
    """Rollouts in the order in which they are shown; one is at one of them, or past the last."""

    rows: Sequence[int]
    said: dict[int, Said] = field(default_factory=dict)
    at: int = 0
    note: str = ""
    """What was noted of the one that one is at, before it is scored."""

    @property
    def row(self) -> int | None:
        """The row that one is at; None past the last."""
        return self.rows[self.at] if self.at < len(self.rows) else None

    @property
    def scored(self) -> int:
        """How many were given a score."""
        return sum(said.score is not None for said in self.said.values())

    def say(self, score: float | None) -> None:
        """Score the one that one is at, or skip it, and go on."""
        if (row := self.row) is not None:
            self.said[row] = Said(score, self.note)
            self._go(self.at + 1)

    def back(self) -> None:
        """To the one before, to say something else of it."""
        if self.at > 0:
            self._go(self.at - 1)

    def _go(self, at: int) -> None:
        self.at = at
        row = self.row
        self.note = self.said[row].note if row in self.said else ""


def sitting(snapshot: Snapshot, without: Iterable[int] = ()) -> Sitting:
    """Rollouts that nobody has looked at yet; with the same scores before it, the same ones."""
    seen = {graded.row for graded in snapshot.graded} | set(without)
    return Sitting(draw(snapshot.rollouts, snapshot.run.reward_rule, len(seen), seen))


def hand_score(snapshot: Snapshot, row: int, rollout: Rollout, said: Said, now: float) -> HandScore:
    """What is kept of one rollout."""
    step = int(snapshot.rollouts.columns["step"][row])
    index = int(snapshot.rollouts.columns["index"][row])
    return HandScore(
        snapshot.run.name, content_of(rollout), step, rollout.group or "", index, said.score, said.note, now
    )
