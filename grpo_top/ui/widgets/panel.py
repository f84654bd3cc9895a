"""A panel of the monitor as a box: chart left, numbers right, the verdict in the bottom border."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_top.snapshot import Status
from grpo_top.ui.glyphs import STATUS_ROLES, Glyphs, glyphs_of
from grpo_top.ui.panels.sampler import SamplerFacts
from grpo_top.ui.widgets.chart import draw
from grpo_top.ui.widgets.rows import Rows
from grpo_top.ui.widgets.runs import cut, filled, width_of
from grpo_top.ui.widgets.sampler_table import sampler_rows
from grpo_top.ui.widgets.strips import fit

if TYPE_CHECKING:
    from textual import events

    from grpo_top.ui.panels.facts import Note, Number, PanelFacts
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

NUMBERS_WIDTH = 17
_GAP = 2
_LEAST_CHART = 12
"""Below this width there are numbers alone."""


class PanelBox(Rows):
    """Draws a panel's facts, and whether it has the focus."""

    def __init__(self, key: str) -> None:
        super().__init__(name=key)
        self.facts: PanelFacts | None = None
        self.focused = False

    def show_facts(self, facts: PanelFacts, focused: bool) -> None:
        """Draw other facts."""
        if (facts, focused) == (self.facts, self.focused):
            return
        self.facts, self.focused = facts, focused
        self.redraw()

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The box."""
        if self.facts is None:
            return []
        return panel_rows(self.facts, width, height, self.focused, glyphs_of(self.app))

    async def on_click(self, event: events.Click) -> None:
        """Open the panel."""
        event.stop()
        await self.run_action(f"screen.choose({self.name!r})")


def panel_rows(facts: PanelFacts, width: int, height: int, focused: bool, glyphs: Glyphs) -> list[Row]:
    """A panel as rows; one line where there is no room for more, or where its field is not logged."""
    if facts.missing or height < 3:
        return [_missing_line(facts, width, focused, glyphs)]
    inner = width - 4
    body = height - 2
    if isinstance(facts, SamplerFacts):
        rows = sampler_rows(facts, inner, body, glyphs)
    else:
        rows = _chart_and_numbers(facts, inner, body, glyphs)
    return boxed(
        rows,
        width,
        height,
        _title(facts, focused, glyphs),
        _headline(facts, glyphs),
        _note(facts.note, glyphs),
        border_role(facts.border, focused),
        focused,
        glyphs,
        _said(facts, glyphs),
    )


def _said(facts: PanelFacts, glyphs: Glyphs) -> Row:
    """What is beside the chart, where one is drawn."""
    return [] if facts.chart is None else [(glyphs.plain(text), role) for text, role in facts.chart.said]


def boxed(
    rows: list[Row],
    width: int,
    height: int,
    title: Row,
    right: Row,
    bottom: Row,
    role: str,
    heavy: bool,
    glyphs: Glyphs,
    below: Row | None = None,
) -> list[Row]:
    """Rows in a frame of `height`, with runs set into its borders: `below` at the left of the lower one."""
    box = glyphs.box_focused if heavy else glyphs.box
    across = box.horizontal

    def edge(left: str, start: Row, end: Row, right: str) -> Row:
        end = cut(end, max(width - 8, 0), glyphs.ellipsis)
        taken = width_of(end) + 4 if end else 2
        start = cut(start, max(width - taken - 5, 0), glyphs.ellipsis)
        begin: Row = [(f"{left}{across} ", role), *start, (" ", "")] if start else [(f"{left}{across}", role)]
        finish: Row = [(" ", ""), *end, (f" {across}{right}", role)] if end else [(f"{across}{right}", role)]
        between = width - width_of(begin) - width_of(finish)
        return [*begin, (across * max(between, 0), role), *finish]

    inner = width - 4
    body = rows[: height - 2]
    body += [[] for _ in range(height - 2 - len(body))]
    middle = [
        [(f"{box.vertical} ", role), *filled(row, inner, glyphs.ellipsis), (f" {box.vertical}", role)]
        for row in body
    ]
    return [
        edge(box.top_left, title, right, box.top_right),
        *middle,
        edge(box.bottom_left, below or [], bottom, box.bottom_right),
    ]


def border_role(status: Status, focused: bool) -> str:
    """The colour of a box."""
    if status >= Status.WARN:
        return STATUS_ROLES[status]
    return "accent" if focused else "border"


def number_runs(number: Number, width: int, glyphs: Glyphs) -> Row:
    """Label left, value right, exactly `width` cells."""
    text = glyphs.plain(number.text)
    room = width - cell_len(text) - 1
    label = fit(glyphs.plain(number.label), max(room, 0), ellipsis=glyphs.ellipsis)
    return [(label, "dim"), (" ", ""), (text, number.role)]


def _chart_and_numbers(facts: PanelFacts, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    numbers = facts.numbers[:height]
    chart_width = width - NUMBERS_WIDTH - _GAP
    if chart_width < _LEAST_CHART:
        return [number_runs(number, width, glyphs) for number in numbers]
    if facts.chart is None:
        chart: list[Row] = [[("not logged", "info")], *([] for _ in range(height - 1))]
    else:
        chart = draw(facts.chart, chart_width, height, glyphs)
    rows = []
    for index, line in enumerate(chart):
        row = [*filled(line, chart_width), (" " * _GAP, "")]
        if index < len(numbers):
            row += number_runs(numbers[index], NUMBERS_WIDTH, glyphs)
        rows.append(row)
    return rows


def _title(facts: PanelFacts, focused: bool, glyphs: Glyphs) -> Row:
    if focused:
        return [(f"{glyphs.selected} {facts.stage} {facts.title}", "accent bold")]
    return [(f"{facts.stage} ", "faint"), (facts.title, "text bold")]


def _headline(facts: PanelFacts, glyphs: Glyphs) -> Row:
    label, text, status = facts.headline
    runs: Row = [(f"{label} ", "dim")] if label else []
    value = "fail bold" if status is Status.FAIL else "text bold"
    return [*runs, (glyphs.plain(text), value), (f" {glyphs.mark(status)}", STATUS_ROLES[status])]


def _note(note: Note | None, glyphs: Glyphs) -> Row:
    if note is None:
        return []
    role = STATUS_ROLES[note.status]
    weight = f"{role} bold" if note.status >= Status.WARN else role
    return [(f"{glyphs.mark(note.status)} {note.id} ", weight), (glyphs.plain(note.when), "dim")]


def _missing_line(facts: PanelFacts, width: int, focused: bool, glyphs: Glyphs) -> Row:
    across = glyphs.box_focused.horizontal if focused else glyphs.box.horizontal
    role = border_role(facts.border, focused)
    begin, end = ("-", "-") if glyphs.ascii else ("╶", "╴")
    runs: Row = [(f"{begin}{across} ", role), *_title(facts, focused, glyphs), ("  ", "")]
    if facts.missing:
        runs += [(f"{glyphs.unknown} ", "info"), (facts.missing, "dim")]
    else:
        runs += _headline(facts, glyphs)
    runs = cut(runs, width - 2, glyphs.ellipsis)
    return [*runs, (" ", ""), (across * max(width - width_of(runs) - 2, 0) + end, role)]
