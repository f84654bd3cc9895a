"""A chart: single steps as dim dots, their running mean as a line, the limit, the first cause."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from grpo_top.snapshot import WINDOW
from grpo_top.ui.glyphs import UNICODE, Glyphs, glyphs_of
from grpo_top.ui.widgets.axis import Axis, step_begin, step_end, step_ticks, value_axis
from grpo_top.ui.widgets.raster import BRAILLE, Grid, running_mean, to_braille
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from grpo_top.ui.widgets.strips import Run

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Series = tuple[Ints, Floats]

_NARROW = 16
"""Cells of plot below which only the onset and the cursor are written under it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A threshold: a dotted line at its height, and its value on the axis."""

    value: float
    past: Literal["above", "below", "off"] = "above"
    """Which side is past it; `off`: every other value (a setting that must hold)."""
    role: str = "warn"
    """The role of what is past it."""
    label: str | None = None
    """Its text on the axis, by default its value."""


@dataclass(frozen=True, slots=True, eq=False)
class ChartSpec:
    """What a chart shows. Steps are increasing; NaN is unknown (a gap), ±inf is marked on the bottom row."""

    steps: Ints
    values: Floats
    second: Series | None = None
    """A second line over steps of its own, without dots."""
    reference: Series | None = None
    """A line behind all others, of another run: its steps are this one's."""
    parted: int | None = None
    """The step at which the two part."""
    points: Series | None = None
    """Held-out evaluations."""
    limit: Limit | None = None
    onset: int | None = None
    """The first cause's first step."""
    cursor: int | None = None
    """Where time stands when it is paused; what lies after it is faint."""
    share: bool = False
    log: bool = False
    from_zero: bool | None = None
    """Whether values start at 0; None lets the data say (see `value_axis`)."""
    total_steps: int | None = None
    """The run's planned end, if known: the axis ends there when it is near."""
    holds: tuple[float, ...] = ()
    """Values that the axis reaches besides its own: those of charts that stand on the same scale."""
    begin: int | None = None
    """Steps from there on alone; None lets the data say (see `step_begin`)."""
    end: int | None = None
    """Steps up to there alone; None lets the data say (see `step_end`)."""
    mean: bool = True
    """Whether the line is the running mean; else the values themselves, without dots."""
    window: int = WINDOW
    """Steps of the running mean; 1 is as without it."""
    role: str = "series1"
    """Role of the line: `series1` or `series2`; its dots are in the role's dim colour."""
    labels: bool = True
    """Whether there is a column of values at the left."""
    label_width: int = 4
    ticks: bool = True
    """Whether there is a row of steps at the bottom."""
    said: tuple[Run, ...] = ()
    """What stands beside it: its scale, and what lies behind it. It is not drawn here."""


def draw(spec: ChartSpec, width: int, height: int, glyphs: Glyphs = UNICODE) -> list[list[Run]]:
    """The chart as `height` rows of (text, role) runs, each exactly `width` cells; `""` is the base style."""
    if width <= 0 or height <= 0:
        return [[] for _ in range(max(height, 0))]
    drawing = _Drawing(spec, width, height, glyphs)
    rows = drawing.rows()
    if len(rows) < height:
        rows.append(drawing.tick_row())
    return rows


def step_columns(spec: ChartSpec, width: int, height: int, glyphs: Glyphs = UNICODE) -> Callable[[int], int]:
    """Where `draw` puts a step, as a cell of its row: for what stands above or below a chart, on its axis."""
    drawing = _Drawing(spec, max(width, 1), max(height, 1), glyphs)
    first, last = drawing.begin, drawing.end
    return lambda step: drawing.margin + drawing.grid.column(min(max(step, first), last))


class _Drawing:
    """One chart being drawn: layers are put into cells from the quietest to the loudest."""

    def __init__(self, spec: ChartSpec, width: int, height: int, glyphs: Glyphs) -> None:
        height = height - 1 if spec.ticks and height > 1 else height
        smooth = spec.window if spec.mean else 1
        self.line = _mean(spec.steps, spec.values, smooth)
        self.second = None if spec.second is None else _mean(*spec.second, spec.window)
        self.reference = None if spec.reference is None else _mean(*spec.reference, smooth)
        self.has_dots = smooth > 1
        self.begin, self.end = shown_steps(spec)
        self.spec = spec
        self.glyphs = glyphs
        axis = self._axis()
        limit = spec.limit.value if spec.limit and math.isfinite(spec.limit.value) else None
        self.limit = limit
        self.labels = self._labels(axis, height) if spec.labels else {}
        margin = 1 + max([spec.label_width, *(len(text) for text, _ in self.labels.values())])
        self.margin = margin if spec.labels and width - margin >= 4 else 0
        self.grid = Grid(
            width - self.margin, height, self.end, axis, fine=not glyphs.ascii, x_begin=self.begin
        )
        self.codes = np.full((height, self.grid.width), ord(" "), dtype=np.int64)
        self.roles = np.zeros((height, self.grid.width), dtype=np.int64)
        self.names = [""]

    def rows(self) -> list[list[Run]]:
        """The plot with its labels."""
        spec, grid = self.spec, self.grid
        if self.limit is not None:
            self._put_limit(self.limit)
        self._put_upright(spec.onset, self.glyphs.onset, "fail")
        self._put_upright(spec.cursor, self.glyphs.cursor, "accent")
        if spec.reference is not None and self.reference is not None:
            steps, _ = spec.reference
            self._put_dots(grid.line(steps, _without_infinite(self.reference))[0], "~", "series3")
        if self.has_dots:
            dots = grid.single_steps(spec.steps, spec.values)
            self._put_dots(dots, ".", f"{spec.role}_steps")
        beneath = None
        if spec.second is not None and self.second is not None:
            steps, _ = spec.second
            beneath = grid.line(steps, _without_infinite(self.second))[0]
            self._put_dots(beneath, "*", "series2")
        self._put_line(beneath)
        if spec.points is not None:
            self._put_points(*spec.points)
        self._put_not_finite()
        text = self.codes.astype("<u4").tobytes().decode("utf-32-le")
        edges: list[list[int]] = [[] for _ in range(grid.height)]
        for row, cell in zip(*(each.tolist() for each in np.diff(self.roles).nonzero()), strict=True):
            edges[row].append(cell + 1)
        width = grid.width
        return [
            self._row(row, text[row * width : (row + 1) * width], edges[row]) for row in range(grid.height)
        ]

    def tick_row(self) -> list[Run]:
        """The steps under the plot: the cursor and the onset first, the others where there is room."""
        spec, grid = self.spec, self.grid
        placed: list[tuple[int, str, str]] = []
        if spec.cursor is not None:
            self._place(placed, spec.cursor, "accent bold")
        if spec.onset is not None and spec.onset != spec.cursor and self._is_shown(spec.onset):
            self._place(placed, spec.onset, "fail bold", beside=spec.cursor)
        if spec.parted is not None and self._is_shown(spec.parted):
            self._place(placed, spec.parted, "series3 bold")
        if grid.width >= _NARROW:
            ticks = step_ticks(grid.x_end, grid.width, grid.x_begin)
            for tick in [ticks[0], ticks[-1], *ticks[1:-1]]:
                self._place(placed, tick, "dim")
        row: list[Run] = []
        at = -self.margin
        for start, text, role in sorted(placed):
            row += [(" " * (start - at), ""), (text, role)]
            at = start + len(text)
        row.append((" " * (grid.width - at), ""))
        return [run for run in row if run[0]]

    def _axis(self) -> Axis:
        spec = self.spec
        seen = [self._shown(spec.steps, spec.values), self._shown(spec.steps, self.line)]
        seen += (
            [] if spec.second is None or self.second is None else [self._shown(spec.second[0], self.second)]
        )
        seen += [] if spec.points is None else [self._shown(*spec.points)]
        if spec.reference is not None and self.reference is not None:
            seen.append(self._shown(spec.reference[0], self.reference))
        seen.append(np.array(spec.holds, np.float64))
        known = np.concatenate([part[np.isfinite(part)] for part in seen])
        limit = spec.limit.value if spec.limit and math.isfinite(spec.limit.value) else None
        if spec.log:
            known = known[known > 0]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, limit or 0.0)
        return value_axis(
            low,
            high,
            limit,
            share=spec.share,
            from_zero=spec.from_zero,
            log=spec.log,
            room=spec.limit is not None and spec.limit.past == "above",
        )

    def _is_shown(self, step: int) -> bool:
        return self.begin <= step <= self.end

    def _shown(self, steps: Ints, values: Floats) -> Floats:
        """The values at the steps that are shown."""
        first, end = np.searchsorted(steps, (self.begin, self.end + 1)).tolist()
        return values[first:end]

    def _labels(self, axis: Axis, height: int) -> dict[int, tuple[str, str]]:
        """Row → text and role: the limit always, top and bottom where it leaves them room.

        Where the limit takes the top's place, the middle says how the rest is scaled.
        """
        rows = Grid(1, height, 1, axis, fine=not self.glyphs.ascii)
        labels: dict[int, tuple[str, str]] = {}
        ends = {0: axis.high, height - 1: axis.low}
        if self.limit is not None and self.spec.limit is not None:
            text = self.spec.limit.label or axis.limit_label(self.limit)
            at = rows.row(self.limit)
            labels[at] = (self.glyphs.plain(text), "limit")
            if at == 0 and height >= 5 and not axis.log:
                ends[height // 2] = (axis.low + axis.high) / 2
        for row, value in ends.items():
            if all(abs(row - taken) > 1 for taken in labels):
                labels[row] = (self.glyphs.plain(axis.label(value)), "dim")
        return labels

    def _role(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _put_limit(self, limit: float) -> None:
        dot = int(self.grid.y(np.array([limit]))[0])
        row, within = divmod(dot, 4) if self.grid.fine else (dot, 0)
        sign = BRAILLE + (0x09, 0x12, 0x24, 0xC0)[within] if self.grid.fine else ord("-")
        self.codes[row, ::2] = sign
        self.roles[row, ::2] = self._role("limit")

    def _put_upright(self, step: int | None, glyph: str, role: str) -> None:
        if step is not None and 0 <= (column := self.grid.column(step)) < self.grid.width:
            self.codes[:, column] = ord(glyph)
            self.roles[:, column] = self._role(role)

    def _put_dots(self, dots: NDArray[np.bool_], ascii_glyph: str, role: str) -> NDArray[np.bool_]:
        """Cells with a dot take this layer alone; returns which they are."""
        grid = self.grid
        if grid.fine:
            codes = to_braille(dots, grid.height, grid.width)
            cells: NDArray[np.bool_] = codes != BRAILLE
            self.codes[cells] = codes[cells]
        else:
            cells = dots
            self.codes[cells] = ord(ascii_glyph)
        self.roles[cells] = self._role(role)
        self._make_faint(cells)
        return cells

    def _put_line(self, beneath: NDArray[np.bool_] | None) -> None:
        """The line; in its cells the second one's dots `beneath` stay, so that where the two meet neither ends."""
        spec, grid = self.spec, self.grid
        infinite = np.isinf(spec.values)
        shown = (spec.steps[~infinite], self.line[~infinite]) if infinite.any() else (spec.steps, self.line)
        dots, low, high = grid.line(*shown)
        cells = self._put_dots(dots, "*", spec.role)
        if beneath is not None and grid.fine:
            self.codes[cells] |= to_braille(beneath, grid.height, grid.width)[cells]
        if spec.limit is None or self.limit is None:
            return
        with np.errstate(invalid="ignore"):
            above, below = low > self.limit + 1e-9, high < self.limit - 1e-9
        past = {"above": above, "below": below, "off": above | below}[spec.limit.past]
        columns = np.any(past.reshape(grid.width, -1), axis=1)
        self.roles[cells & columns] = self._role(spec.limit.role)
        self._make_faint(cells)

    def _put_points(self, steps: Ints, values: Floats) -> None:
        cells = np.zeros(self.codes.shape, dtype=bool)
        spec_end = self.spec.end
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            if spec_end is not None and step > spec_end:
                continue
            column = min(self.grid.column(step), self.grid.width - 1)
            if math.isfinite(value) and column >= 0:
                cells[self.grid.row(value), column] = True
        self.codes[cells] = ord(self.glyphs.heldout)
        self.roles[cells] = self._role("series2")
        self._make_faint(cells)

    def _put_not_finite(self) -> None:
        for step in self.spec.steps[np.isinf(self.spec.values)].tolist():
            column = self.grid.column(step)
            if 0 <= column < self.grid.width:
                self.codes[-1, column] = ord(self.glyphs.not_finite)
                self.roles[-1, column] = self._role("fail")

    def _make_faint(self, cells: NDArray[np.bool_]) -> None:
        """What lies right of the cursor has not been played yet."""
        if self.spec.cursor is not None:
            after = np.arange(self.grid.width) > self.grid.column(self.spec.cursor)
            self.roles[cells & after] = self._role("faint")

    def _row(self, index: int, text: str, edges: list[int]) -> list[Run]:
        runs: list[Run] = []
        if self.margin:
            label, role = self.labels.get(index, ("", "dim"))
            runs.append((f"{label:>{self.margin - 1}} ", role))
        roles, names = self.roles[index], self.names
        runs += [(text[a:b], names[roles[a]]) for a, b in pairwise((0, *edges, len(text)))]
        return runs

    def _place(
        self, placed: list[tuple[int, str, str]], step: int, role: str, *, beside: int | None = None
    ) -> None:
        """Write a step centred under its column if that leaves two cells to every other one.

        A step that must be there is moved off `beside`, to its own side of it.
        """
        text = str(step)
        width = self.grid.width
        start = min(max(self.grid.column(step) - len(text) // 2, 0), width - len(text))
        if beside is not None:
            for other, label, _ in placed:
                if start + len(text) + 2 > other and start < other + len(label) + 2:
                    start = other - 2 - len(text) if step < beside else other + len(label) + 2
        clear = all(start + len(text) + 2 <= at or start >= at + len(word) + 2 for at, word, _ in placed)
        if clear and 0 <= start <= width - len(text):
            placed.append((start, text, role))


def shown_steps(spec: ChartSpec) -> tuple[int, int]:
    """The steps at the chart's edges."""
    first, last = (int(spec.steps[0]), int(spec.steps[-1])) if len(spec.steps) else (0, 1)
    begin = step_begin(first, last) if spec.begin is None else spec.begin
    end = step_end(max(last, begin + 1), spec.total_steps, begin) if spec.end is None else spec.end
    return begin, max(end, begin + 1)


def _mean(steps: Ints, values: Floats, window: int) -> Floats:
    return running_mean(steps, values, window) if window > 1 else values


def _without_infinite(values: Floats) -> Floats:
    return np.where(np.isinf(values), np.nan, values)


class Chart(Rows):
    """Shows a `ChartSpec`; a new one repaints only the rows that differ."""

    def __init__(self, spec: ChartSpec | None = None, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._spec = spec

    def update(self, spec: ChartSpec | None) -> None:
        """Show another spec; None clears the chart."""
        self._spec = spec
        self.redraw()

    def make_rows(self, width: int, height: int) -> list[list[Run]]:
        """The chart of the spec."""
        return [] if self._spec is None else draw(self._spec, width, height, glyphs_of(self.app))
