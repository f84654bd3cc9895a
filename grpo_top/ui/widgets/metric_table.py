"""The metrics in dense rows: mark, stage, name, value, change, spark, limit and verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW, Status
from grpo_top.text import safe
from grpo_top.ui.glyphs import STATUS_ROLES, word
from grpo_top.ui.lens import window
from grpo_top.ui.panels.metrics import MetricRow, chosen, metric_rows
from grpo_top.ui.widgets.raster import running_mean
from grpo_top.ui.widgets.spark import columns_of, spark
from grpo_top.ui.widgets.strips import fit
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from textual import events

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.lens import Lens
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_VALUE, _CHANGE, _REFERENCE, _LIMIT, _STATE, _PARTED = 8, 7, 12, 10, 8, 13
_LEAST_SPARK, _MOST_SPARK = 10, 96


class Columns(NamedTuple):
    """Widths of what is shown; 0 is dropped."""

    name: int
    change: int
    reference: int
    spark: int
    limit: int
    state: int


def columns_for(width: int, referred: bool = False) -> Columns:
    """What fits into a width: Δ20 goes first, then the limit, then the spark, then the verdict's word.

    `referred`: another run lies behind. Its values take the room of Δ20 first, and those of the limit.
    """
    name = 16 if width < 110 else 22
    reference, state = (_REFERENCE, _PARTED) if referred else (0, _STATE)
    fixed = 5 + name + _VALUE + reference
    for change, limit in ((_CHANGE, _LIMIT), (0, _LIMIT), (0, 0)):
        room = width - fixed - change - limit - state - 2
        if room >= _LEAST_SPARK:
            return Columns(name, change, reference, min(room, _MOST_SPARK), limit, state)
    if referred:
        return columns_for(width)
    return Columns(name, 0, 0, 0, 0, _STATE if width >= fixed + _STATE else 0)


class MetricTable(ViewRows):
    """The table; one of its rows has the focus."""

    DEFAULT_CSS = "MetricTable { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._rows_shown: list[MetricRow] = []
        self.selected = ""
        """Key of the row with the focus."""

    @property
    def selected_row(self) -> MetricRow | None:
        """The row with the focus, None where there are none."""
        return next((row for row in self._rows_shown if row.key == self.selected), None)

    def show_selected(self, view: View, panel: str | None) -> None:
        """Draw a view; the focus goes to the loudest row of `panel` where a panel is named."""
        self._rows_shown = chosen(metric_rows(view), self.size.height - 1)
        if panel is not None or self.selected_row is None:
            of = [row for row in self._rows_shown if row.panel == panel] or self._rows_shown
            loudest = max(of, key=lambda row: row.status, default=None)
            self.selected = "" if loudest is None else loudest.key
        self.show(view)

    def move(self, by: int) -> None:
        """Move the focus by so many rows."""
        keys = [row.key for row in self._rows_shown]
        if keys and self.view is not None:
            at = keys.index(self.selected) if self.selected in keys else 0
            self.selected = keys[min(max(at + by, 0), len(keys) - 1)]
            self.redraw()

    def select_stage(self, stage: int) -> None:
        """Move the focus to the next row of a stage, or to its first; nowhere where it has none."""
        keys = [row.key for row in self._rows_shown if row.stage == stage]
        if keys:
            after = keys.index(self.selected) + 1 if self.selected in keys else 0
            self.selected = keys[after % len(keys)]

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The header and the rows."""
        self._rows_shown = chosen(metric_rows(view), height - 1)
        columns = columns_for(width, view.snapshot.reference is not None)
        rows = [_row(view, row, row.key == self.selected, columns, glyphs) for row in self._rows_shown]
        return [_header(view, columns, glyphs), *rows]

    async def on_click(self, event: events.Click) -> None:
        """Open a row's panel."""
        event.stop()
        at = event.y - 1
        if 0 <= at < len(self._rows_shown):
            self.selected = self._rows_shown[at].key
            self.redraw()
            await self.run_action("screen.open")

    async def on_mouse_scroll_down(self) -> None:
        """The wheel moves the focus."""
        await self.run_action("screen.go(0,1)")

    async def on_mouse_scroll_up(self) -> None:
        """The wheel moves the focus."""
        await self.run_action("screen.go(0,-1)")


def _header(view: View, columns: Columns, glyphs: Glyphs) -> Row:
    row: Row = [
        (f"     {'metric':<{columns.name}}", "dim"),
        (f"{'20 steps':>{_VALUE}}", "dim"),
    ]
    if columns.change:
        row.append((f"{glyphs.delta + '20':>{columns.change}}", "dim"))
    if columns.reference:
        row.append(_reference_head(view, columns.reference, glyphs))
    if columns.spark:
        row += [("  ", ""), *_step_labels(view, columns.spark)]
    if columns.limit:
        row.append((f"{'limit':>{columns.limit}}", "dim"))
    if columns.state:
        row.append(("  state", "dim"))
    return row


def _reference_head(view: View, width: int, glyphs: Glyphs) -> Run:
    """The name of the run behind, or why nothing is seen of it."""
    reference = view.snapshot.reference
    if reference is None:
        return " " * width, ""
    said, role = safe(reference.name), "series3"
    if reference.problem:
        said, role = f"{glyphs.unknown} {said}", "info"
    elif reference.reading is not None:
        said, role = f"read {numbers.share(reference.reading)}", "dim"
    return f"  {fit(said, width - 2, right=True, ellipsis=glyphs.ellipsis)}", role


def _step_labels(view: View, width: int) -> Row:
    """First step, the first cause's, and the view's own, each over its column of the sparks."""
    first, last = _span(view)
    if first is None or last is None:
        return [(" " * width, "")]
    begin = width - min(width, last - first + 1)
    labels = [
        *([(begin, str(first), "dim")] if first < last else []),
        (width - len(str(last)), str(last), "accent bold" if view.cursor is not None else "dim"),
    ]
    if view.onset is not None and first <= view.onset <= last:
        text = str(view.onset)
        column = int(columns_of(np.array([view.onset]), first, last, width)[0])
        at = min(max(column, 0), width - len(text))
        labels = [label for label in labels if at + len(text) < label[0] or label[0] + len(label[1]) < at]
        labels.append((at, text, "fail bold"))
    row: Row = []
    used = 0
    for at, text, role in sorted(labels):
        row += [(" " * (at - used), ""), (text, role)]
        used = at + len(text)
    return [run for run in [*row, (" " * (width - used), "")] if run[0]]


def _span(view: View) -> tuple[int | None, int | None]:
    """First and last step of the sparks, as charts have them."""
    shown = window(view)
    if shown is None or view.step is None:
        return view.snapshot.run.first_step, view.step
    return shown[0], min(shown[1], view.step)


def _row(view: View, row: MetricRow, selected: bool, columns: Columns, glyphs: Glyphs) -> Row:
    status = row.status if row.logged or row.status >= Status.WATCH else Status.UNKNOWN
    role = STATUS_ROLES[status]
    failing = status is Status.FAIL
    ground = " on fail_bg" if failing else " on raised" if selected else ""
    name_role = "text bold" if status >= Status.WARN else "text" if status is Status.WATCH else "dim"
    name = fit(glyphs.plain(row.name), columns.name, ellipsis=glyphs.ellipsis)
    runs: Row = [
        (glyphs.selected if selected else " ", f"accent{ground}"),
        (glyphs.mark(status), f"{role}{ground}"),
        (f" {row.stage} ", f"faint{ground}"),
        (name, f"{name_role}{ground}"),
        *_value(row, status, ground, columns, glyphs),
    ]
    if columns.reference:
        parted = "series3 bold" if row.parted is not None else "dim"
        room = columns.reference - _overhang(status, columns)
        behind = fit(glyphs.plain(row.behind), room, right=True, ellipsis=glyphs.ellipsis)
        runs.append((behind, f"{parted}{ground}"))
    if columns.spark:
        gap = 2 if columns.reference else 2 - _overhang(status, columns)
        runs += [
            (" " * gap, f"text{ground}"),
            *_spark(view, row, status, columns.spark, ground, glyphs),
        ]
    if columns.limit:
        limit = fit(glyphs.plain(row.limit_text), columns.limit, right=True, ellipsis=glyphs.ellipsis)
        runs.append((limit, f"dim{ground}"))
    if columns.state:
        runs += _state(row, status, columns, ground, glyphs)
    return runs


def _state(row: MetricRow, status: Status, columns: Columns, ground: str, glyphs: Glyphs) -> Row:
    """The verdict's word, and where the run behind parts."""
    room = columns.state - 2
    role = STATUS_ROLES[status]
    said = word(status) if status is not Status.OK or glyphs.ascii else ""
    runs: Row = [(f"  {said}", f"{role} bold{ground}" if status >= Status.WARN else f"{role}{ground}")]
    left = room - len(said)
    if columns.reference and row.parted is not None:
        parts = f"{' ' if said else ''}parts {row.parted}"
        if len(parts) > left:
            parts = f" {row.parted}"[:left]
        runs.append((parts, f"series3{ground}"))
        left -= len(parts)
    return [*runs, (" " * left, f"text{ground}")]


def _overhang(status: Status, columns: Columns) -> int:
    """The blank after a value in reverse takes one cell of what follows where no change does."""
    return 1 if status is Status.FAIL and not columns.change else 0


def _value(row: MetricRow, status: Status, ground: str, columns: Columns, glyphs: Glyphs) -> Row:
    text = fit(glyphs.plain(row.value), _VALUE, right=True, ellipsis=glyphs.ellipsis)
    change = fit(glyphs.plain(row.change), columns.change, right=True) if columns.change else ""
    if status is Status.FAIL:
        blank = len(text) - len(text.lstrip())
        lead = max(blank - 1, 0)
        runs: Row = [
            (" " * lead, f"text{ground}"),
            (f"{' ' * (blank - lead)}{text.lstrip()} ", "fail bold reverse"),
        ]
        return [*runs, (change[1:], f"dim{ground}")]
    weight = {Status.WARN: "warn bold", Status.WATCH: "text bold"}.get(
        status, "text" if row.logged else "faint"
    )
    return [(text, f"{weight}{ground}"), (change, f"dim{ground}")]


def _through(lens: Lens, row: MetricRow) -> tuple[NDArray[np.float64], float | None, bool]:
    """A row's values and limit as the lens has them, and whether they are powers of ten above the lowest."""
    values, limit = row.values, row.limit
    if lens.mean not in (WINDOW, 1) and not row.points:
        values = running_mean(row.steps, values, lens.mean)
    known = values[np.isfinite(values)]
    if not lens.log or not len(known) or float(known.min()) <= 0:
        return values, limit, False
    lowest = float(np.log10(known.min()))
    above = None if not limit or limit < 0 else float(np.log10(limit)) - lowest
    return np.log10(values) - lowest, above, True


def _spark(view: View, row: MetricRow, status: Status, width: int, ground: str, glyphs: Glyphs) -> Row:
    if not row.logged:
        text = fit("not logged", width, ellipsis=glyphs.ellipsis)
        return [(text, f"faint italic{ground}")]
    first, last = _span(view)
    values, limit, is_log = _through(view.lens, row)
    drawn = spark(
        row.steps,
        values,
        width,
        first=first,
        last=last,
        limit=limit,
        above=row.above,
        share=row.share and not is_log,
        glyphs=glyphs,
    )
    past = {Status.FAIL: "fail", Status.WARN: "warn", Status.INFO: "info"}.get(status, "limit")
    base = (
        "series2"
        if row.points
        else "series1_steps"
        if status in (Status.OK, Status.INFO, Status.UNKNOWN)
        else "strip"
    )
    return [(text, f"{role}{ground}") for text, role in drawn.runs(base, past)]
