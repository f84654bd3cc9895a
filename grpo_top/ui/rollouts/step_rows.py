"""The browser's first column: one row a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.measures import measure_of
from grpo_top.snapshot import Status
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.rollouts.fact_parts import reward_span
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.rollouts.layout import cell
from grpo_top.ui.widgets.virtual_list import Listing, cursor_mark

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.browse import Browse
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

_STRIP = 6
"""Cells of a step's groups at most; several groups share one where there are more."""
_BASE, _MARK = 34, 6
"""Cells of the columns that are always there, and of the last one of them where others follow."""
_MORE = (
    ("success", "success_rate", 9),
    ("σ", "group_reward_std_mean", 9),
    ("dup", "duplicate_frac", 7),
    ("trunc", "truncation_rate", 7),
    ("unparsed", "parse_failure_rate", 10),
    ("tokens", "completion_tokens_mean", 8),
    ("KL", "kl", 9),
)
"""Further columns for windows that show this list alone: title, series, cells."""


def steps_listing(view: View, browse: Browse, glyphs: Glyphs, *, focused: bool) -> Listing:
    """The list of steps: reward, the spread of each group, the share of flat ones, what began there."""
    steps = browse.steps
    total = len(browse.catalogue.all_steps)
    rows = StepRows(view, browse, glyphs)
    if browse.marked:
        right: Row = [
            (f"{numbers.count(len(browse.marked))} marked", "accent"),
            (f"  of {numbers.count(total)}", "dim"),
        ]
    elif len(steps) < total:
        right = [(f"{numbers.count(len(steps))} of {numbers.count(total)}", "dim")]
    else:
        right = [
            ("following" if browse.step is None and view.cursor is None else "", "dim"),
            (f"  {numbers.count(total)}", "dim"),
        ]
    return Listing(
        count=len(steps),
        row=rows.row,
        header=rows.header,
        frame=Frame([("Steps", "text bold")], right, _place(browse.step_at, len(steps)), focused),
        empty="no step matches" if total else _nothing(view),
    )


def _nothing(view: View) -> str:
    """Why there is no step to list."""
    if view.step is None:
        return "no step has been judged yet"
    return "no rollouts in this log: its trainer logs numbers alone"


class StepRows:
    """Makes the rows of steps."""

    def __init__(self, view: View, browse: Browse, glyphs: Glyphs) -> None:
        self._view = view
        self._browse = browse
        self._glyphs = glyphs
        self._at = browse.step_at
        self._evaluated = _evaluated(view)
        scale = reward_span(view.snapshot.run)
        self._more = [more for more in _MORE if view.series(more[1]) is not None]
        self._full = (scale[1] - scale[0]) / 3 if scale is not None and scale[1] > scale[0] else 0.0

    def header(self, width: int) -> Row:
        """Titles of the columns."""
        base = f"{'step':>6}  {'reward':>6}  {'groups':<{_STRIP}}  {'flat':>4}  mark"
        titles = "".join(f"{self._glyphs.plain(title):>{size}}" for title, _, size in self._fitting(width))
        return [(f"{base:<{_BASE - 4 + _MARK}}{titles}" if titles else base, "dim")]

    def _fitting(self, width: int) -> list[tuple[str, str, int]]:
        """The further columns that there is room for."""
        room = width - (_BASE - 4 + _MARK)
        shown = []
        for more in self._more:
            room -= more[2]
            if room < 1:
                break
            shown.append(more)
        return shown

    def row(self, position: int, width: int) -> Row:
        """One step."""
        browse, glyphs = self._browse, self._glyphs
        step = int(browse.steps[position])
        marked = step in browse.marked
        here = position == self._at
        mark = (glyphs.bar, "accent") if marked and not here else cursor_mark(here, glyphs)
        bold = " bold" if here else ""
        in_scope = marked or here or not browse.marked
        return [
            mark,
            cell(numbers.count(step), 5, f"{'text' if in_scope else 'dim'}{bold}", right=True),
            cell(
                self._glyphs.plain(numbers.fixed(_at(self._view, "reward_mean", step), 3)),
                8,
                f"text{bold}" if in_scope else "dim",
                right=True,
            ),
            ("   ", ""),
            *self._strip(step, in_scope),
            *self._flat(step),
            ("  ", ""),
            *self._marks(step),
            *self._further(step, width, "text" if in_scope else "dim"),
        ]

    def _further(self, step: int, width: int, role: str) -> Row:
        """The step's own numbers of the further columns."""
        shown = self._fitting(width)
        blank = _MARK - len(self._marks(step)) if shown else 0
        row: Row = [(" " * blank, "")] if blank else []
        for _, name, size in shown:
            value = _at(self._view, name, step)
            text = self._glyphs.plain(measure_of(name).write(value))
            row.append(cell(text, size, "info" if text == numbers.UNKNOWN else role, right=True))
        return row

    def _strip(self, step: int, in_scope: bool) -> Row:
        """The spread of each group, one cell each: amber and lowest where there is none."""
        table = self._browse.catalogue.table
        rows = self._browse.catalogue.in_steps([step])
        cells: Row = []
        for part in np.array_split(rows, min(len(rows), _STRIP)) if len(rows) else []:
            std, flat = table["std"][part], table["flat"][part]
            known = std[np.isfinite(std)]
            if (flat == 1).all():
                cells.append((self._glyphs.spark[0], "warn"))
            elif not len(known):
                cells.append((self._glyphs.no_value, "faint"))
            else:
                level = round(float(known.mean()) / self._full * 6) if self._full else 3
                cells.append(
                    (self._glyphs.spark[min(max(level, 1), 6)], "strip" if in_scope else "series1_steps")
                )
        return [*cells, (" " * (_STRIP + 1 - len(cells)), "")]

    def _flat(self, step: int) -> Row:
        flat = self._browse.catalogue.table["flat"][self._browse.catalogue.in_steps([step])]
        judged = flat[flat >= 0]
        if not len(judged):
            return [cell(numbers.UNKNOWN, 4, "info", right=True)]
        share = float(judged.mean())
        if share == 0:
            return [cell(self._glyphs.separator, 4, "dim", right=True)]
        return [cell(numbers.share(share), 4, "warn" if share >= 0.5 else "dim", right=True)]

    def _marks(self, step: int) -> Row:
        """What began at the step, and whether it was evaluated."""
        marks: Row = []
        began = _began(self._view, step)
        if began != Status.OK:
            marks.append((self._glyphs.mark(began), STATUS_ROLES[began]))
        if step in self._evaluated:
            marks.append((self._glyphs.heldout, "series2"))
        return marks


def _place(position: int, count: int) -> Row:
    """`12 of 56` in a list's bottom border."""
    return [(numbers.part_of(position + 1, count), "dim")] if count else []


def _at(view: View, name: str, step: int) -> float | None:
    series = view.series(name)
    if series is None:
        return None
    row = int(np.searchsorted(series.steps, step))
    return float(series.values[row]) if row < len(series.steps) and series.steps[row] == step else None


def _began(view: View, step: int) -> Status:
    """The loudest verdict that began at a step; OK where none did."""
    judged = view.steps
    row = int(np.searchsorted(judged, step))
    if row >= len(judged) or judged[row] != step:
        return Status.OK
    loudest = int(Status.OK)
    for track in view.snapshot.tracks.values():
        status = int(track.status[row])
        if status > loudest and status != Status.INFO and (row == 0 or status > track.status[row - 1]):
            loudest = status
    return Status(loudest)


def _evaluated(view: View) -> frozenset[int]:
    """Steps with a held-out evaluation."""
    found: set[int] = set()
    for name in view.snapshot.series:
        if name.startswith("heldout") and (series := view.series(name)) is not None:
            found.update(_known_steps(series.steps, series.values))
    return frozenset(found)


def _known_steps(steps: NDArray[np.int64], values: NDArray[np.float64]) -> list[int]:
    known: list[int] = steps[~np.isnan(values)].tolist()
    return known
