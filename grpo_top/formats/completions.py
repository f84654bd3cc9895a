"""What a table of completions (TRL's, ms-swift's) does not say outright: its groups, and which columns are rewards."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from grpo_top.formats.base import RunContext

_NO_REWARDS = frozenset(
    ("step", "gen_step", "prompt", "completion", "advantage", "advantages", "group", "index")
)
_OF_THE_DATA = frozenset(("solution", "answer", "ground_truth", "reference", "target", "label", "gold"))
"""Columns of the data set, often numbers themselves, that an export has kept beside its prompts."""


def blocks(prompts: Sequence[object], size: int | None = None) -> Iterator[tuple[int, int]]:
    """(group, index in it) of each row: a group is a block of equal prompts.

    Two neighbouring groups with one prompt make a block of double length: where every block is a multiple of
    `size` (else of the most common length), blocks are cut to it.
    """
    runs = [len(list(run)) for _, run in groupby(prompts)]
    counts = Counter(runs)
    usual = size or min(counts, key=lambda length: (-counts[length], length), default=0)
    cut = bool(runs) and all(length % usual == 0 for length in runs)
    group = -1
    for length in runs:
        for place in range(length):
            index = place % usual if cut else place
            group += index == 0
            yield group, index


def reward_columns(columns: Sequence[str], numeric: set[str], known: set[str]) -> list[str]:
    """The reward functions' columns: those that a log has named, else the numeric ones before the advantage.

    Columns that the user adds (`log_extra`) come after them, so the first one that is no number ends them. What
    an export has put before them (the solution beside its prompt) does not.
    """
    named = [name for name in columns if name in known]
    if named:
        return named
    found: list[str] = []
    for name in columns:
        if name in _NO_REWARDS:
            if name.startswith("advantage"):
                break
        elif name in numeric and name not in _OF_THE_DATA:
            found.append(name)
        elif found:
            break
    return found


class RowColumns:
    """Which columns of a table that comes row by row are rewards, as far as its rows have said: rewards are floats."""

    def __init__(self) -> None:
        self._numeric: set[str] = set()
        self._other: set[str] = set()

    def rewards(self, row: Mapping[str, Any], known: set[str]) -> list[str]:
        """The reward functions' columns of this row; one that has been null in every row so far is none of them."""
        for name, value in row.items():
            if isinstance(value, float):
                self._numeric.add(name)
            elif value is not None:
                self._other.add(name)
        seen = self._numeric | self._other | known
        return reward_columns([name for name in row if name in seen], self._numeric, known)


def given(value: object) -> float | None:
    """A number of the table; NaN there says that the reward function gave None."""
    found = number(value)
    return None if found is None or math.isnan(found) else found


def note_rewards(context: RunContext, metrics: Iterable[str]) -> None:
    """Remember the names of the run's reward functions that a row of its log holds (`rewards/NAME/mean`)."""
    known_rewards(context).update(key.split("/")[1] for key in metrics if key.startswith("rewards/"))


def known_rewards(context: RunContext) -> set[str]:
    """Names of the run's reward functions, as far as a log has said them."""
    names = context.notes.setdefault("reward functions", set())
    return names if isinstance(names, set) else set()
