"""One panel opened whole: its series with the findings over it, and what makes it so."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from grpo_top.snapshot import STAGES
from grpo_top.text import first_line
from grpo_top.ui.evidence.aside import aside, width_of_aside
from grpo_top.ui.evidence.judged import judged_frame, judged_rows, judging
from grpo_top.ui.evidence.layout import aired, beside, box, keep_seen, path_row, scrolled, selectable
from grpo_top.ui.evidence.opened import opened_panel
from grpo_top.ui.evidence.panel_chart import chart_box
from grpo_top.ui.evidence.parts import part_frame, part_rows
from grpo_top.ui.evidence.pool import Pool, pool
from grpo_top.ui.evidence.reading import KEPT, excerpt
from grpo_top.ui.evidence.spread import Bins, bins_of
from grpo_top.ui.evidence.windows import Windows, windows
from grpo_top.ui.evidence.worst import ordered, worst_frame, worst_rows
from grpo_top.ui.keys import (
    BACK_KEY,
    CHART_KEYS,
    COMMANDS_KEY,
    FINDINGS_KEY,
    HELP_KEY,
    QUIT_KEY,
    ROLLOUTS_KEY,
    TIME_KEYS,
    Key,
    bindings,
)
from grpo_top.ui.panels.catalogue import PANELS
from grpo_top.ui.rollouts.texts import Texts
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.explain import ExplainScreen
from grpo_top.ui.screens.reading import ReadingScreen
from grpo_top.ui.widgets.canvas import Canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.panels.facts import PanelFacts
    from grpo_top.ui.view import View

GROUPS, FAMILIES, JUDGED, ASIDE = "groups", "families", "judged", "aside"
BOXES = (GROUPS, FAMILIES, JUDGED, ASIDE)
"""In the order of `tab`."""
_WIDE, _MIDDLE = 150, 110
"""Columns from which three, and two, columns of boxes stand under the chart."""
_LEFT = 58

_MOVE = Key("up,k", "move(-1)", "↑↓", "group", "the row above or below, in the box that has the focus")
_OPEN = Key("enter", "open", "enter", "rollouts", "the rollouts of the selected group")


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """What the lower boxes are made of, for one view and one panel."""

    key: tuple[object, ...]
    facts: PanelFacts
    windows: Windows
    pools: tuple[Pool, Pool]
    """Now and before."""
    bins: Bins | None
    judging: list[str]
    parts: dict[int, list[Row]] = field(default_factory=dict)
    """Rows of the table by family for each width that was asked for."""


class PanelScreen(ReadingScreen):
    """A panel of the monitor with all that is known of it.

    Args:
        panel: its key, see `panels.catalogue`.
    """

    NAME = "panel"
    KEYS = (
        _MOVE,
        Key("down,j", "move(1)"),
        _OPEN,
        Key("o", "order", "o", "order", "the next order of the groups"),
        *TIME_KEYS,
        Key("x", "explain", "x", "explain rule", "the page of the selected rule, else of the loudest"),
        Key(
            "tab",
            "box(1)",
            "tab",
            "next box",
            "the next box; in narrow windows it takes the place of the others",
        ),
        Key("shift+tab", "box(-1)"),
        *CHART_KEYS,
        Key("left,h", "panel(-1)", "←→", "panel", "the panel before or after", rank=1),
        Key("right,l", "panel(1)"),
        BACK_KEY,
        HELP_KEY,
        FINDINGS_KEY._replace(rank=3),
        ROLLOUTS_KEY._replace(word=""),
        COMMANDS_KEY._replace(word=""),
        QUIT_KEY._replace(word=""),
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, panel: str) -> None:
        super().__init__()
        self._panel, self._opened = opened_panel(panel)
        self._excerpts = Texts(excerpt, KEPT)
        self._gathered: Gathered | None = None
        self._ordered: tuple[object, list[int]] | None = None
        self._focus = GROUPS
        self._order = 0
        self._chosen: tuple[int, int] | None = None
        """Step and number of the group that was moved to; None follows the first of the list."""
        self._at = dict.fromkeys(BOXES, 0)
        """The selected row of each box; of a box that only scrolls, its top row."""
        self._top = dict.fromkeys((GROUPS, JUDGED), 0)
        self._groups_at = (-1, 0)
        """Column and row of the first group that is drawn; -1 where none is."""

    @property
    def panel(self) -> str:
        """The key of the panel that is shown."""
        return self._panel.key

    def body(self) -> ComposeResult:
        """One canvas: the chart and the boxes."""
        yield Canvas(self._draw)

    def show(self, view: View) -> None:  # noqa: ARG002
        """Draw a view."""
        self.draw()

    def draw(self) -> None:
        """Draw everything as it stands now."""
        self.query_one(Canvas).redraw()

    def fetch(self) -> None:
        """Read what was asked for while drawing."""
        self._start(self._excerpts)

    def keys(self) -> Sequence[Key]:
        """What ↑↓ and enter do depends on the box that has the focus."""
        words = {GROUPS: "group", JUDGED: "rule"}
        move = _MOVE._replace(word=words.get(self._focus, "scroll"))
        enter = (
            _OPEN
            if self._focus == GROUPS
            else _OPEN._replace(word="explain" if self._focus == JUDGED else "")
        )
        if self._focus == GROUPS and not self._groups(self._gather()):
            # Nothing to move among: the footer tells what there is instead.
            quiet = {_MOVE.action, _OPEN.action, "order"}
            return [key._replace(word="") if key.action in quiet else key for key in self.KEYS]
        return [move if key == _MOVE else enter if key == _OPEN else key for key in self.KEYS]

    def action_move(self, by: int) -> None:
        """Select another row, or scroll."""
        self._at[self._focus] = max(0, self._at[self._focus] + by)
        if self._focus == GROUPS:
            self._choose()
        self.draw()

    def action_box(self, by: int) -> None:
        """Give the focus to another box."""
        self._focus = BOXES[(BOXES.index(self._focus) + by) % len(BOXES)]
        self.draw()
        self.refresh_keys()

    def action_panel(self, by: int) -> None:
        """Go to the panel before or after in the order of the monitor."""
        keys = [panel.key for panel in PANELS]
        self._panel, self._opened = opened_panel(keys[(keys.index(self.panel) + by) % len(keys)])
        self._order = 0
        self._chosen = None
        self._at = dict.fromkeys(self._at, 0)
        self._top = dict.fromkeys(self._top, 0)
        self.draw()
        self.refresh_keys()

    def action_order(self) -> None:
        """Sort the groups otherwise."""
        self._order = (self._order + 1) % len(self._opened.worst)
        self._chosen = None
        self._at[GROUPS] = self._top[GROUPS] = 0
        self.draw()

    def action_open(self) -> None:
        """Open the rollouts of the selected group; of a rule its page."""
        if self._focus == JUDGED:
            self.action_explain()
            return
        gathered = self._gather()
        groups = self._groups(gathered)
        if self._focus != GROUPS or not groups:
            return
        group = gathered.pools[0].at(groups[min(self._at[GROUPS], len(groups) - 1)])
        known = self._excerpts.get(group.rows[0])
        prompt = first_line(known.prompt, 30) if known is not None and known.prompt else ""
        title = f"step {group.step} {prompt}".strip()
        self.app.push_screen(BrowserScreen(rows=group.rows, title=title))

    def action_explain(self) -> None:
        """Open the page of the selected rule."""
        ids = self._gather().judging
        if ids:
            at = min(self._at[JUDGED], len(ids) - 1) if self._focus == JUDGED else 0
            self.app.push_screen(ExplainScreen(ids[at]))

    def on_canvas_clicked(self, event: Canvas.Clicked) -> None:
        """A click on a group opens its rollouts."""
        left, top = self._groups_at
        at = self._top[GROUPS] + event.y - top
        if event.x >= left >= 0 and event.y >= top and at < len(self._groups(self._gather())):
            self._focus, self._at[GROUPS] = GROUPS, at
            self._choose()
            self.draw()
            self.action_open()

    def on_canvas_wheeled(self, event: Canvas.Wheeled) -> None:
        """The wheel moves the box that has the focus."""
        self.action_move(1 if event.by > 0 else -1)

    def _gather(self) -> Gathered:
        """What follows from the view and the panel alone; kept until one of them changes."""
        view = self.grpo_top.view
        key = (*view.key, view.lens, self.panel)
        if self._gathered is None or self._gathered.key != key:
            spans = windows(view, view.first_cause())
            now, before = pool(view, spans.now), pool(view, spans.before)
            self._gathered = Gathered(
                key,
                self._panel.facts(view),
                spans,
                (now, before),
                bins_of(view, self._opened.bins, now, before),
                judging(view, self._panel.detectors),
            )
        return self._gathered

    def _groups(self, gathered: Gathered) -> list[int]:
        """The groups of the last 20 steps in the order that is chosen; a group that was moved to stays selected."""
        order = self._opened.worst[self._order]
        key = (*gathered.key, order)
        if self._ordered is None or self._ordered[0] != key:
            now = gathered.pools[0]
            self._ordered = key, ordered(now, order)
            if self._chosen is not None:
                places = [(int(now.step[group]), int(now.number[group])) for group in self._ordered[1]]
                self._at[GROUPS] = places.index(self._chosen) if self._chosen in places else 0
        return self._ordered[1]

    def _choose(self) -> None:
        """Remember which group is selected, unless it is the first."""
        gathered = self._gather()
        groups = self._groups(gathered)
        at = self._at[GROUPS] = min(self._at[GROUPS], max(len(groups) - 1, 0))
        now = gathered.pools[0]
        self._chosen = (int(now.step[groups[at]]), int(now.number[groups[at]])) if at else None

    def _draw(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        gathered = self._gather()
        view = self.grpo_top.view
        panel = self._panel
        upper = max(8, round((height - 1) * 0.48))
        chart = chart_box(
            view, panel, self._opened, gathered.facts, width, upper, self.grpo_top.settings, glyphs
        )
        lower = self._lower(gathered, width, height - 1 - upper, glyphs)
        rows = [self._path(width, glyphs), *chart, *lower]
        self.fetch()
        return rows

    def _path(self, width: int, glyphs: Glyphs) -> Row:
        panel = self._panel
        path = ["Monitor", f"{panel.stage} {panel.title}"]
        neighbours = [("   ", ""), (glyphs.left_right, "accent bold"), (" panel", "dim")]
        return path_row(path, width, glyphs, STAGES[panel.stage][1], neighbours)

    def _lower(self, gathered: Gathered, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The boxes under the chart, in as many columns as there is room for."""
        top = (
            self.query_one(Canvas).size.height - height + 2
        )  # the border and the heading are above the groups
        if width < _MIDDLE:
            self._groups_at = (0 if self._focus == GROUPS else -1, top)
            return self._box(self._focus, gathered, width, height, glyphs)
        parts = len(self._part_rows(gathered, _LEFT, glyphs)) + 2
        tall = min(parts, max(height // 2 + 1, height - 8))
        left = [
            *self._box(FAMILIES, gathered, _LEFT, tall, glyphs),
            *self._box(JUDGED, gathered, _LEFT, height - tall, glyphs),
        ]
        middle: list[Row] = []
        rest = width - _LEFT
        if width >= _WIDE:
            own = width_of_aside(gathered.facts)
            middle = self._box(ASIDE, gathered, own, height, glyphs)
            rest -= own
        last = ASIDE if self._focus == ASIDE and not middle else GROUPS
        self._groups_at = (width - rest if last == GROUPS else -1, top)
        right = self._box(last, gathered, rest, height, glyphs)
        return beside(left, middle, right) if middle else beside(left, right)

    def _box(self, name: str, gathered: Gathered, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """One of the boxes."""
        view, focused = self.grpo_top.view, self._focus == name
        # The list of groups has the focus at first, and shows it by its selected row.
        heavy = focused and name != GROUPS
        if name == GROUPS:
            return self._groups_box(gathered, width, height, glyphs)
        if name == JUDGED:
            return self._judged_box(gathered, width, height, heavy, glyphs)
        if name == FAMILIES:
            rows, frame = self._part_rows(gathered, width, glyphs), part_frame(view, glyphs)
        else:
            kind, spans, pools = self._opened.bins, gathered.windows, gathered.pools
            frame, rows = aside(view, gathered.facts, kind, gathered.bins, spans, pools, width - 4, glyphs)
        self._at[name], shown, more = scrolled(rows, self._at[name], height - 2)
        return box(
            replace(frame, foot=more, focused=heavy), aired(shown, width, glyphs), width, height, glyphs
        )

    def _part_rows(self, gathered: Gathered, width: int, glyphs: Glyphs) -> list[Row]:
        if width not in gathered.parts:
            view, spans, pools = self.grpo_top.view, gathered.windows, gathered.pools
            gathered.parts[width] = part_rows(view, self._opened, spans, pools, width - 4, glyphs)
        return gathered.parts[width]

    def _judged_box(
        self, gathered: Gathered, width: int, height: int, heavy: bool, glyphs: Glyphs
    ) -> list[Row]:
        ids = gathered.judging
        self._at[JUDGED] = min(self._at[JUDGED], max(len(ids) - 1, 0))
        selected = ids[self._at[JUDGED]] if ids and self._focus == JUDGED else None
        rows, owners = judged_rows(self.grpo_top.view, ids, selected, self.grpo_top.settings, width, glyphs)
        if selected is not None:
            first = owners.index(selected)
            last = first + owners.count(selected) - 1
            self._top[JUDGED] = keep_seen(self._top[JUDGED], first, last, height - 2)
        self._top[JUDGED], shown, more = scrolled(rows, self._top[JUDGED], height - 2)
        return box(replace(judged_frame(), foot=more, focused=heavy), shown, width, height, glyphs)

    def _groups_box(self, gathered: Gathered, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        view, now = self.grpo_top.view, gathered.pools[0]
        order = self._opened.worst[self._order]
        groups = self._groups(gathered)
        room = max(height - 3, 1)
        at = self._at[GROUPS] = min(self._at[GROUPS], max(len(groups) - 1, 0))
        top = self._top[GROUPS] = max(0, min(keep_seen(self._top[GROUPS], at, at, room), len(groups) - room))
        shown = groups[top : top + room]
        frame = worst_frame(now, order, gathered.windows, width, glyphs)
        if not shown:
            return box(
                frame,
                [[(f" {glyphs.unknown} ", "info"), ("no rollouts in this log", "dim")]],
                width,
                height,
                glyphs,
            )
        rows = worst_rows(view, now, order, shown, width - 4, self._excerpts.get, glyphs)
        marked = self._focus == GROUPS
        body = [
            selectable(row, width, index - 1 == at - top, glyphs, mark=marked)
            for index, row in enumerate(rows)
        ]
        return box(frame, body, width, height, glyphs)
