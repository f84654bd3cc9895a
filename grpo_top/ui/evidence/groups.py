"""Groups as rows of a table: their rewards as strips, how many texts they hold, and what they answer."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.text import first_line
from grpo_top.ui.widgets.strips import reward_strip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from grpo_top.batch import Batch
    from grpo_top.snapshot import RolloutRef, Snapshot
    from grpo_top.ui.evidence.reading import Excerpt
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Reading = Callable[[int], Excerpt | None]

STRIP = 24
"""Cells of a reward strip at most; larger groups are cut."""
ANSWERS = 3
"""Different texts of a group that are read for its answers."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupOf:
    """One group of one step."""

    step: int
    batch: Batch
    number: int
    """Its number within the batch."""
    where: tuple[int, ...]
    """Positions of its rollouts within the batch."""
    proof: tuple[int, ...] = ()
    """Rows of the history that a finding names of it."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of the history, in the order of the log."""
        return tuple(int(row) for row in self.batch.rows[list(self.where)])

    @property
    def rewards(self) -> list[float]:
        """NaN is unknown."""
        return [float(reward) for reward in self.batch.reward[list(self.where)]]

    @property
    def mean(self) -> float:
        """Of known rewards; NaN unknown."""
        return float(self.batch.group_mean[self.number])

    @property
    def std(self) -> float:
        """Population std of known rewards; NaN unknown."""
        return float(self.batch.group_std[self.number])

    @property
    def flat(self) -> bool:
        """Whether its rewards are known to be equal."""
        return bool(self.batch.flat[self.number])

    @property
    def texts(self) -> int | None:
        """Different completions; None without texts."""
        distinct = self.batch.distinct_texts
        return None if distinct is None else int(distinct[self.number])

    def column(self, name: str) -> list[float]:
        """A column of the history for its rollouts."""
        return [float(value) for value in self.batch.column(name)[list(self.where)]]


def group_of(step: int, batch: Batch, number: int, proof: tuple[int, ...] = ()) -> GroupOf:
    """A group of a batch by its number there."""
    return GroupOf(step, batch, number, tuple(np.flatnonzero(batch.group == number).tolist()), proof)


def proving(snapshot: Snapshot, references: Iterable[RolloutRef]) -> list[GroupOf]:
    """The groups of the rollouts that prove a finding, in the finding's order."""
    found: dict[tuple[int, bool, int], list[int]] = {}
    batches: dict[tuple[int, bool], Batch] = {}
    for reference in references:
        for heldout in (False, True):
            key = (reference.step, heldout)
            if key not in batches:
                batch = (snapshot.eval_batch if heldout else snapshot.batch)(reference.step)
                if batch is None:
                    continue
                batches[key] = batch
            at = np.flatnonzero(batches[key].rows == reference.row)
            if len(at):
                number = int(batches[key].group[at[0]])
                found.setdefault((*key, number), []).append(reference.row)
                break
    return [
        group_of(step, batches[step, heldout], number, tuple(rows))
        for (step, heldout, number), rows in found.items()
    ]


def strip_cells(view: View, group: GroupOf, glyphs: Glyphs) -> list[Run]:
    """A group's rewards over the range of the run's rewards."""
    rewards = group.rewards
    known = [reward for reward in rewards if math.isfinite(reward)]
    low, high = view.snapshot.run.reward_range or (min(known, default=0.0), max(known, default=1.0))
    mean = None if math.isnan(group.mean) else group.mean
    cells = reward_strip(rewards[:STRIP], low, high, mean, glyphs)
    return [*cells, (glyphs.ellipsis, "faint")] if len(rewards) > STRIP else cells


def spread_cell(group: GroupOf, glyphs: Glyphs) -> list[Run]:
    """σ of a group, or `flat`."""
    return [("flat", "warn")] if group.flat else [(glyphs.plain(numbers.fixed(group.std, 3)), "text")]


def mean_cell(group: GroupOf, glyphs: Glyphs) -> list[Run]:
    """The group's mean reward."""
    return [(glyphs.plain(numbers.fixed(group.mean, 2)), "text")]


def texts_cell(group: GroupOf) -> list[Run]:
    """How many different texts a group holds: `1/8`."""
    if group.texts is None:
        return [(numbers.UNKNOWN, "info")]
    alike = group.texts == 1 and len(group.where) > 1
    return [(numbers.ratio(group.texts, len(group.where)), "warn" if alike else "dim")]


def prompt_cell(group: GroupOf, read: Reading, width: int, glyphs: Glyphs) -> list[Run]:
    """The beginning of a group's prompt."""
    found = read(group.rows[0])
    if found is None:
        return [(glyphs.ellipsis, "faint")]
    if found.gone:
        return [("text gone", "info")]
    if not found.prompt:
        return [("not logged", "info")]
    return [(first_line(found.prompt, width), "text")]


def answers_cell(group: GroupOf, read: Reading, width: int, glyphs: Glyphs, most: int = ANSWERS) -> list[Run]:
    """A group's most frequent answers and how often each was given: `13 ×6  12 ×2`."""
    counted: Counter[str] = Counter()
    for row, times in _different(group)[:most]:
        found = read(row)
        if found is None:
            return [(glyphs.ellipsis, "faint")]
        if found.gone:
            return [("text gone", "info")]
        if found.answer is not None:
            counted[first_line(found.answer, max(width - 5, 8)) or "(empty)"] += times
    if not counted:
        return [("not logged", "info")]
    runs: list[Run] = []
    for answer, times in counted.most_common(most):
        runs += [("  " if runs else "", ""), (answer, "text"), (f" {glyphs.times}{times}", "dim")]
    return [run for run in runs if run[0]]


def _different(group: GroupOf) -> list[tuple[int, int]]:
    """(row, copies) of each different text of a group, the most frequent first; each rollout where none is known."""
    texts: Sequence[float] = group.batch.texts[list(group.where)].tolist()
    if not all(texts):
        return [(row, 1) for row in group.rows]
    first: dict[float, int] = {}
    for text, row in zip(texts, group.rows, strict=True):
        first.setdefault(text, row)
    return [(first[text], times) for text, times in Counter(texts).most_common()]
