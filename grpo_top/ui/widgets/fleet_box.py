"""The fleet on the monitor: a row a number, never a row a sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.ui.panels.fleet import STAGE, TITLE, FleetRow, fleet_rows, samplers
from grpo_top.ui.widgets.panel import boxed
from grpo_top.ui.widgets.runs import cut, ends
from grpo_top.ui.widgets.spark import spark
from grpo_top.ui.widgets.strips import fit
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from textual import events

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_NAME, _VALUE, _LEAST_SAMPLER, _MOST_SAMPLER = 13, 8, 10, 28
_LEAST_SPARK = 8


class FleetBox(ViewRows):
    """A box, or one line where there is room for no more; nothing until there is a fleet."""

    DEFAULT_CSS = "FleetBox { display: none; }"

    def __init__(self, place: str) -> None:
        super().__init__()
        self.id = place

    def wanted_height(self, view: View, most: int) -> int:
        """Rows that it takes: none where there is no fleet."""
        rows = len(fleet_rows(view))
        return min(rows + 3, most) if rows else 0

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The rows."""
        rows = fleet_rows(view)
        if height < 4:
            return [_line(rows, width, glyphs)]
        title: Row = [(f"{STAGE} ", "faint"), (TITLE, "text bold")]
        right: Row = [(_counted(rows), "text"), ("   F", "accent bold"), (" open", "dim")]
        return boxed(
            table(rows, width - 4, height - 2, glyphs),
            width,
            height,
            title,
            right,
            [],
            "border",
            False,
            glyphs,
        )

    async def on_click(self, event: events.Click) -> None:
        """Open it."""
        event.stop()
        await self.run_action("app.panel('fleet')")


def table(rows: list[FleetRow], width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """A header and as many numbers as there is room for: median, worst, and whose that is."""
    room = width - _NAME - 2 * (_VALUE + 1) - 1
    sampler = min(max(room, _LEAST_SAMPLER), _MOST_SAMPLER)
    charted = room - sampler - 1
    head = f"{'':<{_NAME}} {'median':>{_VALUE}} {'worst':>{_VALUE}} {'sampler':<{sampler}}"
    span = f" last {numbers.seconds(_span(rows))}" if charted >= _LEAST_SPARK else ""
    drawn: list[Row] = [cut([(head, "dim"), (span, "dim")], width, glyphs.ellipsis)]
    for row in rows[: max(height - 1, 0)]:
        runs: Row = [
            (fit(row.name, _NAME, ellipsis=glyphs.ellipsis), "dim"),
            (f" {fit(glyphs.plain(row.median), _VALUE, right=True, ellipsis=glyphs.ellipsis)}", "text"),
            (
                f" {fit(glyphs.plain(row.worst.text), _VALUE, right=True, ellipsis=glyphs.ellipsis)}",
                "text bold",
            ),
            (f" {fit(row.worst.sampler or numbers.UNKNOWN, sampler, ellipsis=glyphs.ellipsis)}", "text"),
        ]
        if charted >= _LEAST_SPARK:
            runs += [(" ", ""), *sparked(row, charted, glyphs)]
        drawn.append(cut(runs, width, glyphs.ellipsis))
    return drawn


def sparked(row: FleetRow, width: int, glyphs: Glyphs) -> Row:
    """The worst end over time."""
    seconds = (row.times - row.times[0]).astype(np.int64)
    step = max(int(np.median(np.diff(seconds))) if len(seconds) > 1 else 1, 1)
    return spark(seconds // step, row.worst.over_time, width, glyphs=glyphs).runs("series1")


def _line(rows: list[FleetRow], width: int, glyphs: Glyphs) -> Row:
    """All numbers in one line, as many as fit."""
    runs: Row = [(f" {STAGE} ", "faint"), (f"fleet of {_counted(rows)}  ", "text bold")]
    for row in rows:
        runs += [
            (f"{row.name} ", "dim"),
            (glyphs.plain(row.median), "text"),
            (f" worst {glyphs.plain(row.worst.text)}", "text bold"),
            (f" {row.worst.sampler}   ", "dim"),
        ]
    return ends(
        cut(runs, width - 8, glyphs.ellipsis),
        [("F", "accent bold"), (" open ", "dim")],
        width,
        glyphs.ellipsis,
    )


def _counted(rows: list[FleetRow]) -> str:
    count = samplers(rows)
    return f"{numbers.count(count)} sampler{'' if count == 1 else 's'}"


def _span(rows: list[FleetRow]) -> float:
    return max((float(row.times[-1] - row.times[0]) for row in rows), default=0.0)
