"""The trainer's numbers that no series stands for, under the trainer's own names: a panel for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW
from grpo_top.sources.names import natural_key
from grpo_top.text import safe
from grpo_top.ui.evidence.layout import (
    Column,
    Frame,
    aired,
    box,
    keep_seen,
    path_row,
    scrolled,
    selectable,
    table,
)
from grpo_top.ui.keys import BACK_KEY, CHART_KEYS, COMMANDS_KEY, HELP_KEY, QUIT_KEY, TIME_KEYS, Key, bindings
from grpo_top.ui.panels.facts import seen
from grpo_top.ui.screens.base import RunScreen
from grpo_top.ui.widgets.ask_line import AskLine
from grpo_top.ui.widgets.canvas import Canvas
from grpo_top.ui.widgets.chart import ChartSpec, draw
from grpo_top.ui.widgets.spark import spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from textual.app import ComposeResult

    from grpo_top.snapshot import Series
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View

_SPARK = 20
_LEAST_CHART = 8
_WRITING = (
    Key("enter", "", "enter", "take it"),
    Key("escape", "leave", "esc", "all of them"),
)
"""Keys of the line in which one writes what to find."""


class MetricsScreen(RunScreen):
    """A chart of the selected metric, and the list of all of them."""

    AUTO_FOCUS = ""
    NAME = "other metrics"
    KEYS = (
        Key("up,k", "move(-1)", "↑↓", "metric", "the metric above or below"),
        Key("down,j", "move(1)"),
        Key("pageup", "move(-10)", "pgup", "", "ten metrics up or down"),
        Key("pagedown", "move(10)"),
        Key("slash", "search", "/", "find", "list only those with these words in their names"),
        *TIME_KEYS,
        *CHART_KEYS,
        BACK_KEY._replace(action="leave"),
        HELP_KEY,
        COMMANDS_KEY._replace(word=""),
        QUIT_KEY._replace(word=""),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self) -> None:
        super().__init__()
        self._selected = ""
        self._top = 0

    def body(self) -> ComposeResult:
        """The line in which one writes what to find, and one canvas."""
        self._line = AskLine()
        yield self._line
        yield Canvas(self._draw)

    def show(self, view: View) -> None:  # noqa: ARG002
        """Draw a view."""
        self.query_one(Canvas).redraw()

    def action_move(self, by: int) -> None:
        """Select another metric."""
        names = self._names()
        if names:
            self._selected = names[min(max(self._at(names) + by, 0), len(names) - 1)]
            self.query_one(Canvas).redraw()

    def action_search(self) -> None:
        """Write what to find."""
        self._line.ask(value=self._line.input.value)
        self.refresh_keys()

    def on_input_changed(self) -> None:
        """List what is found while it is being written."""
        self._line.show([])
        self.query_one(Canvas).redraw()

    def on_input_submitted(self) -> None:
        """Give the keys back."""
        self.set_focus(None)
        self.refresh_keys()

    async def action_leave(self) -> None:
        """Back one layer: out of what was to be found, else to the screen before."""
        if self._line.editing or self._line.input.value:
            self.set_focus(None)
            self._line.input.value = ""
            self.on_input_changed()
            self.refresh_keys()
        else:
            await self.grpo_top.action_back()

    def keys(self) -> Sequence[Key]:
        """While a name is written, keys are letters."""
        return _WRITING if self._line.editing else self.KEYS

    def on_canvas_wheeled(self, event: Canvas.Wheeled) -> None:
        """The wheel moves the selection."""
        self.action_move(1 if event.by > 0 else -1)

    def _names(self) -> list[str]:
        words = self._line.input.value.lower().split()
        own = self.grpo_top.view.snapshot.own
        return sorted((name for name in own if all(word in name.lower() for word in words)), key=natural_key)

    def _at(self, names: list[str]) -> int:
        return names.index(self._selected) if self._selected in names else 0

    def _draw(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        view, names = self.grpo_top.view, self._names()
        path = path_row(
            ["Monitor", "Other metrics"], width, glyphs, "what the trainer logs beside the series"
        )
        if not names:
            why = "every number of the trainer's log is read as a series, or it logs none"
            if self._line.input.value:
                why = "no metric has these words in its name"
            return [path, [], [(f" {glyphs.unknown} ", "info"), (why, "dim")]]
        at = self._at(names)
        upper = max(_LEAST_CHART, round((height - 1) * 0.48))
        chart = _chart(view, names[at], width, upper, glyphs)
        room = height - 1 - upper - 3
        self._top = max(0, min(keep_seen(self._top, at, at, room), len(names) - room))
        return [path, *chart, *self._list(view, names, at, width, height - 1 - upper, glyphs)]

    def _list(
        self, view: View, names: list[str], at: int, width: int, height: int, glyphs: Glyphs
    ) -> list[Row]:
        columns = [
            Column("metric", least=min(max(map(len, names)), width // 2), most=width // 2),
            Column("now", right=True, least=9),
            Column("20 steps", right=True, least=9),
            Column(glyphs.delta + "20", right=True, least=9),
            Column("", least=_SPARK, rank=1),
        ]
        self._top, shown, more = scrolled([[(name, "")] for name in names], self._top, height - 3)
        cells = [_cells(view, row[0][0], glyphs) for row in shown]
        heading, *rows = table(columns, cells, width - 4, glyphs)
        body = aired([heading], width, glyphs) + [
            selectable(row, width, self._top + index == at, glyphs) for index, row in enumerate(rows)
        ]
        found = bool(self._line.input.value)
        count = numbers.part_of(len(names), len(view.snapshot.own)) if found else str(len(names))
        frame = Frame([("Other metrics", "text bold")], [(count, "dim")], foot=more)
        return box(frame, body, width, height, glyphs)


def _chart(view: View, name: str, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The metric over the run, with the first cause's first step."""
    series = view.snapshot.own[name]
    spec = seen(view, ChartSpec(series.steps, series.values, label_width=6))
    known = _known(view, series)
    mean = float(known[-WINDOW:].mean()) if len(known) else None
    facts: Row = [("20 steps ", "dim"), (numbers.value(mean), "text bold")]
    rows = draw(spec, width - 4, height - 2, glyphs)
    hint = "[names] in grpo-top.toml says which of the series it is"
    said: Row = [(glyphs.plain(text), role) for text, role in spec.said]
    frame = Frame([(safe(name), "text bold")], facts, foot=[*said, (hint, "dim")])
    return box(frame, aired(rows, width, glyphs), width, height, glyphs)


def _cells(view: View, name: str, glyphs: Glyphs) -> list[Row]:
    series = view.snapshot.own[name]
    known = _known(view, series)
    now = float(known[-1]) if len(known) else None
    mean = float(known[-WINDOW:].mean()) if len(known) else None
    before = known[-2 * WINDOW : -WINDOW]
    change = "" if mean is None or not len(before) else numbers.change(mean - float(before.mean()))
    upto = series.steps <= (view.step if view.step is not None else np.iinfo(np.int64).max)
    row = spark(series.steps[upto], series.values[upto], _SPARK, glyphs=glyphs)
    return [
        [(safe(name), "text")],
        [(numbers.value(now), "text")],
        [(numbers.value(mean), "text")],
        [(change, "dim")],
        row.runs("series1_steps"),
    ]


def _known(view: View, series: Series) -> NDArray[np.float64]:
    """Its finite values up to the view's step."""
    upto = series.values if view.step is None else series.values[series.steps <= view.step]
    known: NDArray[np.float64] = upto[np.isfinite(upto)]
    return known
