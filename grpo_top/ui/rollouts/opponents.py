"""Which rollouts one is held against: what ought to have come out the same, the best sibling, any sibling."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.rollouts.subject import Subject

_PAIRS = {
    "NONDETERMINISTIC_REPLAY": "the same task and seed",
    "REWARD_INCONSISTENT": "what should have earned the same",
}
"""Findings whose evidence comes in pairs, a rollout and its counterpart → what the counterpart is."""


class Opponent(NamedTuple):
    """A rollout that another is held against."""

    row: int
    title: str
    """`the best sibling, #2`."""
    counterpart: bool = False
    """It should have come out the same."""


def counterparts(snapshot: Snapshot, row: int) -> list[Opponent]:
    """What findings say should have come out as this rollout did."""
    found = []
    for finding in snapshot.findings:
        title = _PAIRS.get(finding.id)
        if title is None:
            continue
        proof = finding.rollouts
        for one, other in zip(proof[::2], proof[1::2], strict=False):
            for mine, theirs in ((one, other), (other, one)):
                if mine.row == row:
                    where = "" if mine.step == theirs.step else f" at step {numbers.count(theirs.step)}"
                    found.append(
                        Opponent(
                            theirs.row, f"{title}{where}, #{numbers.count(theirs.index)}", counterpart=True
                        )
                    )
    return list({opponent.row: opponent for opponent in found[::-1]}.values())[::-1]


def opponents(subject: Subject) -> list[Opponent]:
    """Everything that a rollout can be held against, what tells most first; itself never."""
    best = subject.best()
    found = counterparts(subject.snapshot, subject.row)
    merits = dict(zip(subject.rows, subject.merits.tolist(), strict=True))
    if best is not None:
        word = "best" if merits[best] > subject.merit else "worst"
        found.append(Opponent(best, f"the {word} sibling, #{_index(subject, best)}"))
    known = {opponent.row for opponent in found} | {subject.row}
    found += [Opponent(row, f"sibling, #{_index(subject, row)}") for row in subject.rows if row not in known]
    return found


def first_opponent(subject: Subject) -> Opponent | None:
    """What a rollout is held against unasked; None where all known rewards of its group are the same."""
    if subject.best() is None and not counterparts(subject.snapshot, subject.row):
        return None
    return opponents(subject)[0]


def _index(subject: Subject, row: int) -> str:
    return numbers.count(int(subject.snapshot.rollouts.columns["index"][row]))
