"""Hand scores: what a person makes of rollouts, which ones to look at, and how far the pipeline agrees."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.encode import SPLIT_EVAL, SPLIT_REQUEST
from grpo_top.text import folded

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from numpy.typing import NDArray

    from grpo_top.records import Rollout
    from grpo_top.snapshot import RewardRule, Rollouts

WRONG, RIGHT = 0.0, 1.0
"""The two hand scores that are verdicts. Any other number is on the scale of what the run counts as success."""
CLOSE = 0.1
"""A number that is given by hand agrees within this share of the range of rewards."""
SESSION = 20
"""Rollouts that one sitting looks at."""
_WORDS = {WRONG: "wrong", RIGHT: "right"}
_QUARTERS = (0.25, 0.5, 0.75)
_ENOUGH = 50_000
"""Of more rollouts than that, so many are drawn from, and all of a family and quarter that has few."""
_RARE = 500


class HandScore(NamedTuple):
    """One rollout as a person scored it, with what finds that rollout again wherever its log lies by then."""

    run: str
    """Name of the run; empty where the log gives it none."""
    content: str
    """See `content_of`."""
    step: int
    group: str
    """As the screen showed it, for whoever reads the file; it is not compared."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a score
    score: float | None
    """`WRONG`, `RIGHT` or a number; None: it was looked at and left open."""
    note: str = ""
    time: float | None = None

    def is_of(self, run: str) -> bool:
        """Whether it can be of a run of that name: two names that are known must be the same."""
        return not self.run or not run or self.run == run


class Graded(NamedTuple):
    """A hand score and the rollout of the run that it is of."""

    row: int
    """Row of the Snapshot's rollouts."""
    step: int
    score: float | None
    note: str = ""
    time: float | None = None
    content: str = ""
    """Empty for a score that the log itself holds."""


def content_of(rollout: Rollout) -> str:
    """16 hex digits of what was asked, said and called, with white space folded; the same in every process."""
    from hashlib import blake2b  # noqa: PLC0415  as `text_hash`

    digest = blake2b(digest_size=8)
    parts = [rollout.prompt or "", rollout.completion or ""]
    for message in rollout.messages or ():
        calls = (
            json.dumps(list(message.tool_calls), sort_keys=True, default=str) if message.tool_calls else ""
        )
        parts += [message.role, message.content, calls]
    for part in parts:
        digest.update(folded(part))
        digest.update(b"\0")
    return digest.hexdigest()


class Compared(NamedTuple):
    """A hand score beside the pipeline's."""

    right: bool
    """What the person says."""
    passed: bool | None
    """What the pipeline says; None where it gave no score."""
    agrees: bool | None
    """None where there is nothing to compare with."""


def compare(score: float, value: float, rule: RewardRule | None) -> Compared:
    """A hand score beside `value`, what the pipeline gave of `rule.of`.

    A verdict agrees with what passed, or did not. Any other number agrees where it is within a tenth of the range
    of rewards of the pipeline's; where no range is known, where both pass or neither does.
    """
    verdict = score in (WRONG, RIGHT)
    right = score == RIGHT if verdict or rule is None else rule.passes(score)
    if rule is None or not math.isfinite(value):
        return Compared(right, None, None)
    passed = rule.passes(value)
    if verdict or not rule.span:
        return Compared(right, passed, right == passed)
    return Compared(right, passed, abs(score - value) <= CLOSE * rule.span + 1e-9)


class Agreement(NamedTuple):
    """How far a person and the pipeline agree."""

    scored: int = 0
    compared: int = 0
    """Of those, how many the pipeline gave a score."""
    agree: int = 0
    table: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    """Hand right (first row) and wrong by pipeline passed (first column) and failed."""

    @property
    def share(self) -> float | None:
        """Of those that can be compared, how many agree."""
        return self.agree / self.compared if self.compared else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of right and wrong; None where one of both sides only ever says one thing.

        Source: J. Cohen, A coefficient of agreement for nominal scales, 1960.
        """
        (both, hand), (pipeline, neither) = self.table
        total = both + hand + pipeline + neither
        if not total:
            return None
        chance = ((both + hand) * (both + pipeline) + (pipeline + neither) * (hand + neither)) / total**2
        return None if chance >= 1 else ((both + neither) / total - chance) / (1 - chance)


def agreement(compared: Iterable[Compared]) -> Agreement:
    """The agreement over hand scores."""
    scored = agree = known = 0
    table = [[0, 0], [0, 0]]
    for one in compared:
        scored += 1
        if one.agrees is None or one.passed is None:
            continue
        known += 1
        agree += one.agrees
        table[not one.right][not one.passed] += 1
    (both, hand), (pipeline, neither) = table
    return Agreement(scored, known, agree, ((both, hand), (pipeline, neither)))


def score_words(score: float | None) -> str:
    """`right`, `wrong`, a number, or that it was left open."""
    return "left open" if score is None else _WORDS.get(score, numbers.value(score))


def values_of(rollouts: Rollouts, rule: RewardRule | None) -> NDArray[np.float64]:
    """What the pipeline gave each rollout of what it counts as success; NaN unknown, inf not finite."""
    if rule is None or rule.of == "reward":
        rewards: NDArray[np.float64] = rollouts.columns["reward"]
        return rewards
    values = rollouts.components.get(rule.of)
    return np.full(rollouts.length, math.nan) if values is None else values


def compared(
    graded: Iterable[Graded], rollouts: Rollouts, rule: RewardRule | None
) -> list[tuple[Graded, Compared]]:
    """Each score that was given beside the pipeline's."""
    values = values_of(rollouts, rule)
    return [
        (one, compare(one.score, float(values[one.row]), rule)) for one in graded if one.score is not None
    ]


def judged(pairs: Iterable[tuple[Graded, Compared]]) -> tuple[Agreement, tuple[int, ...]]:
    """The agreement, and the rows of the disagreements."""
    pairs = list(pairs)
    rows = tuple(graded.row for graded, found in pairs if found.agrees is False)
    return agreement(found for _, found in pairs), rows


def draw(
    rollouts: Rollouts, rule: RewardRule | None, seed: int, without: Container[int] = (), count: int = SESSION
) -> list[int]:
    """Rows to score by hand: drawn in turn from each family and quarter of the scores, no answer twice.

    What the pipeline gave no score, and what has no text, is left out: there is nothing to compare or to read. Of a
    family and quarter that has few, all are drawn, so that what is rare is looked at as well.
    """
    columns = rollouts.columns
    values = values_of(rollouts, rule)
    splits = columns["split"]
    usable = np.isfinite(values) & (columns["live"] == 1) & (columns["text"] != 0) & (columns["offset"] >= 0)
    train = usable & (splits != SPLIT_EVAL) & (splits != SPLIT_REQUEST)
    rows = np.flatnonzero(train if train.any() else usable)
    if not len(rows):
        return []
    rng = np.random.default_rng(seed)
    some = rows if len(rows) <= _ENOUGH else rng.choice(rows, _ENOUGH, replace=False, shuffle=False)
    edges = np.unique(np.quantile(values[some], _QUARTERS))
    quarter = np.searchsorted(edges, values[rows], side="left")
    stratum = (columns["family"][rows].astype(np.int64) + 1) * (len(edges) + 1) + quarter
    if len(rows) > _ENOUGH:
        kept = (np.bincount(stratum) < _RARE)[stratum]
        kept[np.searchsorted(rows, some)] = True
        rows, stratum = rows[kept], stratum[kept]
    shuffled = rows[order := rng.permutation(len(rows))]
    stratum = stratum[order]
    by_stratum = np.argsort(stratum, kind="stable")
    starts = np.flatnonzero(np.diff(stratum[by_stratum], prepend=-1))
    queues = [iter(shuffled[part].tolist()) for part in np.split(by_stratum, starts[1:])]
    rng.shuffle(queues)
    drawn: list[int] = []
    seen: set[tuple[int, int]] = set()
    while queues and len(drawn) < count:
        for queue in list(queues):
            row = _next(queue, rollouts, seen, without)
            if row is None:
                queues.remove(queue)
            elif len(drawn) < count:
                drawn.append(row)
    rng.shuffle(drawn)
    return drawn


def _next(
    queue: Iterable[int], rollouts: Rollouts, seen: set[tuple[int, int]], without: Container[int]
) -> int | None:
    """The next row whose answer has not been drawn yet."""
    for row in queue:
        answer = int(rollouts.columns["task"][row]), int(rollouts.columns["text"][row])
        if answer not in seen and row not in without:
            seen.add(answer)
            return row
    return None
