"""How each sampler samples: every setting intended and deployed, since when, and how it got there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.encode import SPLIT_EVAL
from grpo_top.snapshot import STAGES, WINDOW
from grpo_top.ui.drift.carried import UNNAMED, Carried, carried
from grpo_top.ui.drift.columns import Columns, columns_of
from grpo_top.ui.drift.facts import onset
from grpo_top.ui.drift.lanes import LEAST_ROWS, lane_rows, lanes_frame, rows_wanted
from grpo_top.ui.drift.said import said_frame, said_rows
from grpo_top.ui.drift.samplers import Deployment, deployment
from grpo_top.ui.drift.table import Selected, Table, columns_in
from grpo_top.ui.evidence.followed import followed
from grpo_top.ui.evidence.layout import Frame, aired, box, keep_seen, line_of, path_row, scrolled
from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.keys import DETAIL_KEYS, TIME_KEYS_IN_SHORT, ZOOM_KEYS, Key, bindings
from grpo_top.ui.panels.sampler import KEY, STAGE, TITLE
from grpo_top.ui.screens.base import RunScreen
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.explain import ExplainScreen
from grpo_top.ui.screens.panel import PanelScreen
from grpo_top.ui.widgets.canvas import Canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from grpo_top.ui.drift.columns import Column
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View

LANES, SAID = "lanes", "said"
RULE = "SAMPLER_DRIFT"
_LEAST_LOWER, _LEAST_FOLLOWED = 7, 5
"""Rows that the table leaves to what is below it, and that what followed needs."""
_RULED = 30
"""Rows of the body from which on the table has lines between its parts."""
_COPY_WIDTH = 120
_FILTERED = 4
"""Samplers that are written into the browser's filter at most; of more, the rollouts are listed by themselves."""


class Plan(NamedTuple):
    """Rows of each box under the table; 0 is not shown."""

    lanes: int
    followed: int
    said: int


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """What follows from the view and the number of columns alone."""

    key: tuple[object, ...]
    deployment: Deployment
    columns: Columns
    said: dict[int, list[Row]] = field(default_factory=dict)
    """The sentences for each width that was asked for."""
    followed: dict[int, list[Row]] = field(default_factory=dict)
    """Likewise what followed the drift; empty where none stands."""


class DriftScreen(RunScreen):
    """Intended and deployed, sampler by sampler."""

    AUTO_FOCUS = ""
    NAME = "sampler config"
    KEYS = (
        Key("left,h", "sampler(-1)", "←→", "sampler", "the sampler, or party of samplers, before or after"),
        Key("right,l", "sampler(1)"),
        Key("up,k", "setting(-1)", "↑↓", "setting", "the setting above or below; the chart follows"),
        Key("down,j", "setting(1)"),
        Key("enter", "open", "enter", "its rollouts", "the rollouts of the selected sampler"),
        Key("pageup", "scroll(-5)", "pgup pgdn", "", "the sentences up or down"),
        Key("pagedown", "scroll(5)"),
        Key("tab,shift+tab", "other", "tab", "", "in low windows: the chart, or the sentences"),
        *TIME_KEYS_IN_SHORT,
        *ZOOM_KEYS,
        Key("x", "explain", "x", "explain", "the rule that judges this"),
        Key("c", "copy", "c", "copy", "copy the table and the sentences as text", rank=1),
        Key(
            "p",
            "panel",
            "p",
            "panel",
            "the panel as every other one is opened: numbers by family, groups",
            rank=1,
        ),
        *DETAIL_KEYS,
    )
    BINDINGS = bindings(KEYS)

    def __init__(self) -> None:
        super().__init__()
        self._carried: tuple[int, Carried] | None = None
        self._gathered: Gathered | None = None
        self._name = ""
        """The setting that was moved to; until then the first that differs."""
        self._title = ""
        """The column that was moved to; until then the first that differs."""
        self._first = 0
        self._top = 0
        self._said_top = 0
        self._lower = SAID

    def body(self) -> ComposeResult:
        """One canvas."""
        yield Canvas(self._draw)

    def show(self, view: View) -> None:  # noqa: ARG002
        """Draw a view."""
        self._redraw()

    def refresh_title(self, view: View) -> None:
        """Say anew how long ago each sampler was asked, too."""
        super().refresh_title(view)
        if view.snapshot.samplers and self._gathered is not None:
            self._gathered.deployment.view = view
            self._redraw()

    def keys(self) -> Sequence[Key]:
        """In a low window `tab` brings what there was no room for."""
        plan = self._shown_plan()
        if (plan.lanes and plan.said) or not self._charted(self._gather()):
            return self.KEYS
        word = "chart" if self._lower == SAID else "what differs"
        return [key._replace(word=word) if key.action == "other" else key for key in self.KEYS]

    def action_sampler(self, by: int) -> None:
        """Select another column."""
        columns = self._gather().columns.columns
        if columns:
            at = min(max(self._column(self._gather()) + by, 0), len(columns) - 1)
            self._title = columns[at].title
        self._redraw()

    def action_setting(self, by: int) -> None:
        """Select another setting."""
        names = self._gather().columns.settings
        if names:
            self._name = names[min(max(self._setting(self._gather()) + by, 0), len(names) - 1)]
        self._redraw()

    def action_scroll(self, by: int) -> None:
        """Scroll the sentences."""
        self._said_top = max(0, self._said_top + by)
        self._redraw()

    def action_other(self) -> None:
        """The chart instead of the sentences, or the other way round."""
        self._lower = LANES if self._lower == SAID else SAID
        self._redraw()
        self.refresh_keys()

    def action_open(self) -> None:
        """Open the rollouts of the selected column."""
        gathered = self._gather()
        columns = gathered.columns.columns
        if not columns:
            return
        column = columns[self._column(gathered)]
        numbers = [member.number for member in column.members if member.number >= UNNAMED]
        names = [gathered.deployment.carried.names[number] for number in numbers if number >= 0]
        if not numbers:
            self.notify("no rollout names this sampler", markup=False)
        elif len(names) == len(numbers) <= _FILTERED and (text := _filter(names)):
            self.app.push_screen(BrowserScreen(step=self.grpo_top.view.step, filter_text=text))
        elif len(gathered.deployment.carried.samplers) == len(numbers):
            self.app.push_screen(BrowserScreen(step=self.grpo_top.view.step))
        else:
            rows, title = self._rows(gathered, column, numbers)
            self.app.push_screen(BrowserScreen(rows=rows, title=title))

    def action_explain(self) -> None:
        """Open the rule's page."""
        self.app.push_screen(ExplainScreen(RULE))

    def action_panel(self) -> None:
        """Open the panel with its groups and families."""
        self.app.push_screen(PanelScreen(KEY))

    def action_copy(self) -> None:
        """Copy the table and the sentences, through the terminal."""
        gathered, glyphs = self._gather(), glyphs_of(self.app)
        table = self._table(gathered, _COPY_WIDTH, glyphs)
        said = said_rows(gathered.deployment, gathered.columns, _COPY_WIDTH, glyphs)
        rows = [table.header(), *table.settings(), *table.foot(), [], *said]
        self.app.copy_to_clipboard("\n".join(line_of(row) for row in rows) + "\n")
        self.notify("the table is copied")

    def on_canvas_wheeled(self, event: Canvas.Wheeled) -> None:
        """The wheel scrolls the sentences where there are more than fit, else it moves among the settings."""
        if self._said_shown(event.y):
            self.action_scroll(1 if event.by > 0 else -1)
        else:
            self.action_setting(1 if event.by > 0 else -1)

    def _shown_plan(self) -> Plan:
        """The plan of what is on the screen."""
        width, height = self.query_one(Canvas).size
        gathered = self._gather()
        table = self._table(gathered, width, glyphs_of(self.app))
        upper = self._upper(table, gathered, width, height - 1, glyphs_of(self.app))
        return self._plan(gathered, width, height - 1 - len(upper), glyphs_of(self.app))

    def _said_shown(self, y: int) -> bool:
        height = self.query_one(Canvas).size.height
        return y >= height - self._shown_plan().said

    def _redraw(self) -> None:
        self.query_one(Canvas).redraw()

    def _gather(self) -> Gathered:
        """What the boxes are made of; kept until the view or the number of columns changes."""
        view, most = self.grpo_top.view, columns_in(self.size.width)
        key = (*view.key, view.lens, most)
        if self._gathered is None or self._gathered.key != key:
            snapshot = view.snapshot
            if self._carried is None or self._carried[0] != snapshot.version:
                self._carried = snapshot.version, carried(snapshot.rollouts, snapshot.judged_step)
            known = deployment(view, self._carried[1])
            self._gathered = Gathered(key, known, columns_of(known, most))
        return self._gathered

    def _column(self, gathered: Gathered) -> int:
        """The selected column: the one that was moved to, else the first that differs."""
        columns = gathered.columns.columns
        titles = [column.title for column in columns]
        if self._title in titles:
            return titles.index(self._title)
        return next((place for place, column in enumerate(columns) if column.differing), 0)

    def _setting(self, gathered: Gathered) -> int:
        """The selected setting, likewise."""
        names = gathered.columns.settings
        if self._name in names:
            return names.index(self._name)
        differing = {name for column in gathered.columns.columns for name in column.differing}
        return next((place for place, name in enumerate(names) if name in differing), 0)

    def _rows(
        self, gathered: Gathered, column: Column, numbers: Sequence[int]
    ) -> tuple[tuple[int, ...], str]:
        """The rollouts of many samplers: of the last 20 steps, or since they differ where that is shorter."""
        view = gathered.deployment.view
        last = view.step or 0
        first = max(last - WINDOW + 1, onset(gathered.columns) or 0)
        columns = view.snapshot.rollouts.columns
        wanted = (columns["live"] == 1) & (columns["split"] != SPLIT_EVAL)
        wanted &= (columns["step"] >= first) & (columns["step"] <= last)
        wanted &= np.isin(columns["sampler"], numbers)
        return tuple(np.flatnonzero(wanted).tolist()), f"{column.title} steps {first} to {last}"

    def _table(self, gathered: Gathered, width: int, glyphs: Glyphs) -> Table:
        at = self._column(gathered)
        seen = columns_in(width)
        self._first = keep_seen(self._first, at, at, seen)
        self._first = max(0, min(self._first, len(gathered.columns.columns) - seen))
        selected = Selected(self._setting(gathered), at, self._first)
        return Table(gathered.deployment, gathered.columns, selected, width, glyphs)

    def _draw(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        gathered = self._gather()
        table = self._table(gathered, width, glyphs)
        path = path_row(["Monitor", f"{STAGE} {TITLE}"], width, glyphs, STAGES[STAGE][1])
        upper = self._upper(table, gathered, width, height - 1, glyphs)
        plan = self._plan(gathered, width, height - 1 - len(upper), glyphs)
        return [
            path,
            *upper,
            *self._lanes_box(gathered, width, plan.lanes, glyphs),
            *self._followed_box(gathered, width, plan.followed, glyphs),
            *self._said_box(gathered, width, plan.said, glyphs),
        ]

    def _upper(self, table: Table, gathered: Gathered, width: int, body: int, glyphs: Glyphs) -> list[Row]:
        """The box of the table, as high as it needs, less what is left to the boxes under it."""
        settings, foot = table.settings(), table.foot()
        rule = [table.rule()] if body >= _RULED else []
        fixed = 3 + len(foot) + 2 * len(rule)
        room = max(body - _LEAST_LOWER - fixed, 1)
        at = self._setting(gathered)
        self._top = keep_seen(self._top, at, at, room)
        self._top, shown, _ = scrolled(settings, self._top, min(room, len(settings)))
        rows = [table.header(), *rule, *shown, *rule, *foot]
        return box(table.frame(), rows, width, min(len(rows) + 2, body), glyphs)

    def _plan(self, gathered: Gathered, width: int, room: int, glyphs: Glyphs) -> Plan:
        """Who gets the rows under the table: the sentences, the lanes, and what followed where there is room for it.

        Where they do not fit together it is the lanes or the sentences, as `tab` says.
        """
        if room < 3:
            return Plan(0, 0, 0)
        said = len(self._said(gathered, width, glyphs)) + 2
        least = LEAST_ROWS + 2
        if not self._charted(gathered):
            return Plan(0, 0, room)
        if room < min(said, _LEAST_LOWER) + least:
            return Plan(room, 0, 0) if self._lower == LANES else Plan(0, 0, room)
        said = min(said, room - least)
        known, columns = gathered.deployment, gathered.columns
        wanted, most = rows_wanted(known, columns, columns.settings[self._setting(gathered)], glyphs)
        followed = min(len(self._followed(gathered, width, glyphs)) + 2, room - said - wanted - 2)
        if followed < _LEAST_FOLLOWED:
            return Plan(room - said, 0, said)
        lanes = min(most + 2, room - said - followed)
        return Plan(lanes, followed, room - lanes - followed)

    def _lanes_box(self, gathered: Gathered, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        known, columns = gathered.deployment, gathered.columns
        if height < 3:
            return []
        if not columns.settings:
            return box(lanes_frame(known, "Settings", 0, glyphs), [], width, height, glyphs)
        name = columns.settings[self._setting(gathered)]
        at = self._column(gathered)
        rows, hidden = lane_rows(known, columns, name, at, width - 4, height - 2, glyphs)
        return box(
            lanes_frame(known, name, hidden, glyphs), aired(rows, width, glyphs), width, height, glyphs
        )

    def _followed_box(self, gathered: Gathered, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        if not height:
            return []
        rows = aired(self._followed(gathered, width, glyphs)[: height - 2], width, glyphs)
        return box(Frame([("Before it and now", "text bold")]), rows, width, height, glyphs)

    def _charted(self, gathered: Gathered) -> bool:
        """Whether the selected setting is known of anybody."""
        columns = gathered.columns
        name = columns.settings[self._setting(gathered)] if columns.settings else ""
        return any(
            name in column.cells and column.cells[name].value is not None for column in columns.columns
        )

    def _said_box(self, gathered: Gathered, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        if not height:
            return []
        rows = self._said(gathered, width, glyphs)
        self._said_top, shown, more = scrolled(rows, self._said_top, height - 2)
        return box(said_frame(glyphs, more), aired(shown, width, glyphs), width, height, glyphs)

    def _said(self, gathered: Gathered, width: int, glyphs: Glyphs) -> list[Row]:
        if width not in gathered.said:
            gathered.said[width] = said_rows(gathered.deployment, gathered.columns, width - 4, glyphs)
        return gathered.said[width]

    def _followed(self, gathered: Gathered, width: int, glyphs: Glyphs) -> list[Row]:
        if width not in gathered.followed:
            view = gathered.deployment.view
            drift = next((found for found in view.findings() if found.id == RULE), None)
            stands = drift is not None and view.is_active(drift)
            gathered.followed[width] = followed(view, drift, width - 4, glyphs) if drift and stands else []
        return gathered.followed[width]


def _filter(names: Sequence[str]) -> str:
    """The browser's filter for some samplers; empty where a name cannot be written in it."""
    if any(sign in name for name in names for sign in '",'):
        return ""
    joined = ",".join(names)
    return f'sampler="{joined}"' if any(sign.isspace() for sign in joined) else f"sampler={joined}"
