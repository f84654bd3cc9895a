"""The hand scores of one run: which of its rollouts each of them is of, and what they say up to a step."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.grades import Graded, content_of
from grpo_top.snapshot import Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.grades import Compared, HandScore
    from grpo_top.history import History
    from grpo_top.records import Grade, Rollout
    from grpo_top.snapshot import Rollouts

KEPT_ROWS = 50
"""Disagreements that a finding shows."""


class Gradebook:
    """Finds the rollouts of scores that were kept, while their texts come by; none is read again for that.

    Args:
        kept: scores of any runs, as the store holds them.
    """

    def __init__(self, kept: Iterable[HandScore] = ()) -> None:
        self._kept: dict[int, dict[str, HandScore]] = {}
        """Step → content → the last score that was given it."""
        self._of_row: dict[int, Graded] = {}
        self._runs: dict[int, str] = {}
        """Row → the name of the run that its score was given in, where it was kept."""
        self._row_of: dict[tuple[int, str], int] = {}
        """Step and content → the row that its score is of."""
        self._logged: dict[tuple[int, int, int], Grade] = {}
        """Source, offset and part → a score that the log itself holds, until its rollout is found."""
        self._looked = 0, 0
        """Rows, and scores in `_logged`, when they were last looked for."""
        self._ordered: list[Graded] | None = None
        for score in kept:
            self._kept.setdefault(score.step, {})[score.content] = score

    def __bool__(self) -> bool:
        return bool(self._of_row)

    def meet(self, rollouts: Sequence[Rollout], first: int, history: History) -> None:
        """Take note of rollouts that have just come in, the first of them as row `first`."""
        if not self._kept:
            return
        for row, rollout in enumerate(rollouts, first):
            kept = self._kept.get(rollout.step)
            score = None if kept is None else kept.get(content_of(rollout))
            if score is None:
                continue
            known = self._row_of.get((score.step, score.content))
            indices, live = (history.columns[name].view() for name in ("index", "live"))
            if known is None or not live[known] or indices[row] == score.index:
                self._bind(row, score)

    def add(self, row: int, score: HandScore) -> None:
        """Take a score that is being given."""
        self._kept.setdefault(score.step, {})[score.content] = score
        self._bind(row, score)

    def add_logged(self, source: int, grade: Grade) -> None:
        """Take a score that a log holds; it names its rollout by where that lies in the same file."""
        where = grade.rollout
        self._logged[source, where.offset, where.part] = grade

    def find_logged(self, history: History) -> None:
        """Find the rollouts of scores that a log holds."""
        if not self._logged or self._looked == (history.length, len(self._logged)):
            return
        columns = {
            name: history.columns[name].view() for name in ("source", "offset", "part", "live", "step")
        }
        wanted = np.array([offset for _, offset, _ in self._logged])
        rows = np.flatnonzero(np.isin(columns["offset"], wanted) & (columns["live"] == 1)).tolist()
        for row in rows:
            place = tuple(int(columns[name][row]) for name in ("source", "offset", "part"))
            grade = self._logged.pop(place, None)  # type: ignore[arg-type]  # three numbers
            if grade is not None:
                step = int(columns["step"][row])
                self._of_row[row] = Graded(row, step, grade.score, grade.note, grade.time)
                self._ordered = None
        self._looked = history.length, len(self._logged)

    def let_go(self, before: int) -> None:
        """Give up the scores of rows before `before`, which are held no more."""
        self._of_row = {row: graded for row, graded in self._of_row.items() if row >= before}
        self._row_of = {place: row for place, row in self._row_of.items() if row >= before}
        self._runs = {row: run for row, run in self._runs.items() if row >= before}
        self._ordered = None

    def graded(self, rollouts: Rollouts, run: str) -> list[Graded]:
        """Scores of the run's rollouts, by step; those that were left open are among them."""
        if self._ordered is None:
            self._ordered = sorted(self._of_row.values(), key=lambda graded: (graded.step, graded.row))
        live = rollouts.columns["live"]
        return [
            graded
            for graded in self._ordered
            if graded.row < rollouts.length and live[graded.row] and self._is_of(graded, run)
        ]

    def _is_of(self, graded: Graded, run: str) -> bool:
        given_in = self._runs.get(graded.row, "")
        return not given_in or not run or given_in == run

    def _bind(self, row: int, score: HandScore) -> None:
        place = score.step, score.content
        self._of_row.pop(self._row_of.get(place, -1), None)
        self._row_of[place] = row
        self._of_row[row] = Graded(row, score.step, score.score, score.note, score.time, score.content)
        self._runs[row] = score.run
        self._ordered = None


class Said(NamedTuple):
    """What hand scores of rollouts up to a step say."""

    step: int
    values: Mapping[str, float]
    """`hand_scores`, those that the pipeline scored as well, and `hand_score_agreement`."""
    disagreements: tuple[int, ...]
    """Rows of the first of those that disagree."""


def said_by_step(pairs: Iterable[tuple[Graded, Compared]]) -> list[Said]:
    """What is said at each step that has a hand score to compare; `pairs` are ordered by step."""
    found: list[Said] = []
    count = agree = 0
    rows: list[int] = []
    comparable = (pair for pair in pairs if pair[1].agrees is not None)
    for step, of_step in groupby(comparable, key=lambda pair: pair[0].step):
        for graded, one in of_step:
            count += 1
            agree += bool(one.agrees)
            if not one.agrees:
                rows.append(graded.row)
        values = {"hand_scores": float(count), "hand_score_agreement": agree / count}
        found.append(Said(step, values, tuple(rows[:KEPT_ROWS])))
    return found


def grade_series(said: Sequence[Said], steps: NDArray[np.int64]) -> Mapping[str, Series]:
    """The same as series over steps: NaN before the first score."""
    if not said:
        return {}
    at = np.searchsorted([one.step for one in said], steps, side="right") - 1
    names = said[0].values
    columns = {name: np.array([*(one.values[name] for one in said), np.nan])[at] for name in names}
    return {name: Series(name, "rollouts", steps, values) for name, values in columns.items()}
