"""A fleet whole: every number as a distribution over its samplers, and the selected one over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import STAGES, WINDOW
from grpo_top.text import safe
from grpo_top.ui.evidence.layout import Frame, aired, box, keep_seen, path_row, scrolled, selectable
from grpo_top.ui.keys import DETAIL_KEYS, TIME_KEYS_IN_SHORT, Key, bindings
from grpo_top.ui.panels.facts import EMPTY
from grpo_top.ui.panels.fleet import STAGE, TITLE, FleetRow, fleet_rows, lately, samplers
from grpo_top.ui.screens.base import RunScreen
from grpo_top.ui.widgets.canvas import Canvas
from grpo_top.ui.widgets.chart import draw
from grpo_top.ui.widgets.fleet_box import sparked
from grpo_top.ui.widgets.strips import fit

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View

_NAME, _VALUE, _LEAST_SAMPLER, _MOST_SAMPLER = 16, 9, 12, 24
_COUNT, _LEAST_SPARK, _WISHED_SPARK, _LEAST_CHART = 8, 10, 24, 6
_SPANS = (60, 300, 1200, 3600, 3 * 3600, 12 * 3600, 24 * 3600, 7 * 24 * 3600)
"""Seconds that the chart and the courses show of those that are known, from close to wide."""


class FleetScreen(RunScreen):
    """All numbers of a fleet."""

    AUTO_FOCUS = ""
    NAME = "sampler fleet"
    KEYS = (
        Key("up,k", "move(-1)", "↑↓", "number", "the number above or below; the chart follows"),
        Key("down,j", "move(1)"),
        *TIME_KEYS_IN_SHORT,
        Key("plus,equals_sign", "span(1)", "+ -", "zoom", "less or more time in the chart and the courses"),
        Key("minus", "span(-1)"),
        Key("d", "drift", "d", "settings", "how each sampler samples: intended and deployed"),
        *DETAIL_KEYS,
    )
    BINDINGS = bindings(KEYS)

    def __init__(self) -> None:
        super().__init__()
        self._at = 0
        self._top = 0
        self._seconds: int | None = None
        """What of `_SPANS` is shown; None is all."""

    def body(self) -> ComposeResult:
        """One canvas."""
        yield Canvas(self._draw)

    def show(self, view: View) -> None:  # noqa: ARG002
        """Draw a view."""
        self.query_one(Canvas).redraw()

    def action_move(self, by: int) -> None:
        """Select another number."""
        rows = fleet_rows(self.grpo_top.view)
        self._at = min(max(self._at + by, 0), max(len(rows) - 1, 0))
        self.query_one(Canvas).redraw()

    def action_span(self, by: int) -> None:
        """Show less time, or more."""
        rows = fleet_rows(self.grpo_top.view)
        whole = max((float(row.times[-1] - row.times[0]) for row in rows), default=0.0)
        now = self._seconds or whole
        if by > 0:
            self._seconds = max((span for span in _SPANS if span < now), default=self._seconds)
        else:
            self._seconds = min((span for span in _SPANS if now < span < whole), default=None)
        self.query_one(Canvas).redraw()

    def action_drift(self) -> None:
        """Open the samplers' settings."""
        self.grpo_top.action_panel("sampler")

    def on_canvas_wheeled(self, event: Canvas.Wheeled) -> None:
        """The wheel moves the selection."""
        self.action_move(1 if event.by > 0 else -1)

    def _draw(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        view = self.grpo_top.view
        rows = [lately(row, self._seconds) for row in fleet_rows(view)]
        self._at = min(self._at, max(len(rows) - 1, 0))
        path = path_row(["Monitor", f"{STAGE} {TITLE}"], width, glyphs, STAGES[STAGE][1])
        said = _said(view)
        tall = max(min(len(rows) + 3, height - 1 - _LEAST_CHART - len(said) - 2), 4)
        drawn = [path, *self._table(view, rows, width, tall, glyphs)]
        rest = height - len(drawn) - (len(said) + 2 if said else 0)
        if rest >= _LEAST_CHART - 2:
            drawn += _chart(rows[self._at] if rows else None, width, rest, glyphs)
        if said:
            lines = aired([[(line, "dim")] for line in said], width, glyphs)
            drawn += box(Frame([("What the server says", "text bold")]), lines, width, len(said) + 2, glyphs)
        return drawn

    def _table(self, view: View, rows: list[FleetRow], width: int, height: int, glyphs: Glyphs) -> list[Row]:
        count = samplers(rows)
        facts: Row = [(f"{numbers.count(count)} sampler{'' if count == 1 else 's'}", "text bold")]
        if not rows:
            why = "no answer so far" if view.cursor is None else "nothing was asked at that step"
            body = [[(" ", ""), (f"{glyphs.unknown} ", "info"), (why, "dim")]]
            return box(Frame([("Over all samplers", "text bold")], facts), body, width, height, glyphs)
        room = height - 3
        self._top = keep_seen(self._top, self._at, self._at, room)
        self._top, shown, more = scrolled(_table_rows(rows, width - 4, glyphs), self._top, room)
        body = [
            *aired([_head(width - 4, rows)], width, glyphs),
            *(
                selectable(row, width, self._top + place == self._at, glyphs)
                for place, row in enumerate(shown)
            ),
        ]
        return box(Frame([("Over all samplers", "text bold")], facts, more), body, width, height, glyphs)


class _Widths(NamedTuple):
    """Cells of what stands beside the numbers; 0 is dropped."""

    sampler: int
    of: int
    spark: int


def _widths(width: int) -> _Widths:
    room = width - _NAME - 2 * (_VALUE + 1) - (_VALUE + 1)
    if room < 2 * (_LEAST_SAMPLER + 1) + _COUNT + _LEAST_SPARK:
        return _Widths(max(room // 2 - 1, 0), 0, 0)
    sampler = min(max((room - _COUNT - _WISHED_SPARK) // 2, _LEAST_SAMPLER), _MOST_SAMPLER)
    return _Widths(sampler, _COUNT, room - _COUNT - 2 * (sampler + 1))


def _head(width: int, rows: list[FleetRow]) -> Row:
    sampler, count, charted = _widths(width)
    span = max(float(row.times[-1] - row.times[0]) for row in rows)
    told = f"{'of':>{count - 1}} last {numbers.seconds(span)}" if charted else ""
    return [
        (f"{'':<{_NAME}}{'median':>{_VALUE + 1}}{'worst':>{_VALUE + 1}} {'sampler':<{sampler}}", "dim"),
        (f"{'other end':>{_VALUE + 1}} {'sampler':<{sampler}}{told}", "dim"),
    ]


def _table_rows(rows: list[FleetRow], width: int, glyphs: Glyphs) -> list[Row]:
    sampler, count, charted = _widths(width)

    def written(text: str) -> str:
        return f" {fit(glyphs.plain(text), _VALUE, right=True, ellipsis=glyphs.ellipsis)}"

    def whose(name: str) -> str:
        return f" {fit(name or numbers.UNKNOWN, sampler, ellipsis=glyphs.ellipsis)}"

    return [
        [
            (fit(row.name, _NAME, ellipsis=glyphs.ellipsis), "dim"),
            (written(row.median), "text"),
            (written(row.worst.text), "text bold"),
            (whose(row.worst.sampler), "text"),
            (written(row.other.text), "text"),
            (whose(row.other.sampler), "dim"),
            *([(f"{numbers.count(row.samplers):>{count - 1}} ", "dim")] if charted else []),
            *(sparked(row, charted, glyphs) if charted else []),
        ]
        for row in rows
    ]


def _chart(row: FleetRow | None, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The worst end and the median over time, the newest at the right."""
    if row is None:
        return box(Frame([("Over time", "text bold")]), [], width, height, glyphs)
    end = "lowest" if row.is_low else "highest"
    facts: Row = [(f"{end} ", "series1 bold"), ("and median", "series2 bold")]
    frame = Frame([(row.name, "text bold")], facts)
    # A chart's second line is a mean over 20 steps: a step here is a 20th of a second, so that it is the value itself.
    parts = np.rint((row.times - row.times[0]) * WINDOW).astype(np.int64)
    last = max(int(parts[-1]), 1)
    spec = replace(
        EMPTY,
        steps=parts,
        values=row.worst.over_time,
        second=(parts, row.medians),
        total_steps=last,
        mean=False,
        ticks=False,
        share=row.median.endswith("%"),
        from_zero=True,
    )
    lines = draw(spec, width - 4, height - 3, glyphs)
    ago = f"{numbers.seconds(last / WINDOW)} ago"
    lines.append([(" " * 6 + ago, "dim"), (f"{'now':>{max(width - 10 - len(ago), 3)}}", "dim")])
    return box(frame, aired(lines, width, glyphs), width, height, glyphs)


def _said(view: View) -> list[str]:
    """What the servers that are asked say beside their answers: errors, warnings, what they do not know."""
    of_fleets = [source for source in view.snapshot.sources if source.role == "fleet"]
    return [safe(f"{source.where}: {source.note}") for source in of_fleets if source.note][:4]
