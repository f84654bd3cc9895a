"""The findings: a list in triage order, and the page of the selected one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grpo_top.detectors import BY_ID
from grpo_top.ui.evidence.finding_page import COPY_WIDTH, FindingPage, finding_page, page_rows, page_text
from grpo_top.ui.evidence.layout import Frame, beside, box, keep_seen, path_row, scrolled
from grpo_top.ui.evidence.listing import Entry, entries, list_frame, list_rows
from grpo_top.ui.evidence.reading import KEPT, excerpt
from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.keys import (
    BACK_KEY,
    COMMANDS_KEY,
    HELP_KEY,
    QUIT_KEY,
    ROLLOUTS_KEY,
    TIME_KEYS,
    Key,
    bindings,
)
from grpo_top.ui.panels.catalogue import panel_of, panel_of_stage
from grpo_top.ui.rollouts.out import finding_document
from grpo_top.ui.rollouts.texts import Texts
from grpo_top.ui.screens import export
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.explain import ExplainScreen
from grpo_top.ui.screens.export import COPY_KEY, PAGER_KEY, WRITE_KEY, Exporting
from grpo_top.ui.screens.replay import ReplayScreen
from grpo_top.ui.widgets.canvas import Canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.out import Document
    from grpo_top.ui.view import View

LIST, PAGE = "list", "page"
TOGETHER = 100
"""Columns from which the list and the page are shown side by side."""
_LIST_WIDTH, _LIST_WIDTH_WIDE, _WIDE = 42, 52, 150

_UP = Key("up,k", "move(-1)", "↑↓", "finding", "the finding, or the group of rollouts, before or after")
_OPEN = Key(
    "enter", "open", "enter", "rollouts", "the rollouts that prove it; on the page, replay the selected ones"
)
_TAB = Key("tab,shift+tab", "other", "tab", "page", "between the list and the page")
_KEYS = (
    Key("down,j", "move(1)"),
    Key("pageup", "scroll(-10)", "pgup", "", "the page ten rows up or down"),
    Key("pagedown", "scroll(10)"),
)
_MORE = (
    Key("p", "panel", "p", "panel", "the panel that the finding belongs to"),
    Key("x", "explain", "x", "explain", "the detector's page: its rule, its knobs, what to try"),
    COPY_KEY._replace(what="copy the finding's page as text, through the terminal", rank=1),
    WRITE_KEY._replace(
        what="write the finding and the rollouts that prove it to a file, as JSON or Markdown"
    ),
    PAGER_KEY._replace(what="open the same in $PAGER"),
    *(key._replace(word="", rank=4) for key in TIME_KEYS),
    BACK_KEY._replace(action="leave"),
    HELP_KEY,
    ROLLOUTS_KEY._replace(word=""),
    COMMANDS_KEY._replace(word=""),
    QUIT_KEY._replace(word=""),
)


class FindingsScreen(Exporting):
    """Every finding, first cause first.

    Args:
        selected: the id that is selected at first; None takes the first cause.
    """

    NAME = "findings"
    KEYS = (_UP, _TAB, _OPEN, *_KEYS, *_MORE)
    BINDINGS = bindings(KEYS)

    def __init__(self, selected: str | None = None) -> None:
        super().__init__()
        self._selected = selected or ""
        self._focus = LIST
        self._entered = selected is None
        """Whether, in a narrow window, the page was entered from the list and is left to it."""
        self._entries: list[Entry] = []
        self._owners: list[str] = []
        self._list_top = 0
        self._page: FindingPage | None = None
        self._page_top = 0
        self._group = 0
        self._excerpts = Texts(excerpt, KEPT)
        if selected is not None:
            self._focus = PAGE

    def body(self) -> ComposeResult:
        """One canvas: the list and the page."""
        yield Canvas(self._draw)

    def show(self, view: View) -> None:
        """Draw a view; what was selected stays selected while it is there."""
        self._entries = entries(view)
        if self._entries and self._entry is None:
            self._selected = self._entries[0].key
            self._group = self._page_top = 0
        self.draw()

    def draw(self) -> None:
        """Draw the list and the page as things stand now."""
        self.query_one(Canvas).redraw()

    def on_resize(self) -> None:
        """What `enter` leads to hangs on the width."""
        if self.is_whole:
            self.refresh_keys()

    def fetch(self) -> None:
        """Read what was asked for while drawing."""
        self._start(self._excerpts)

    def keys(self) -> Sequence[Key]:
        """What ↑↓, tab and enter lead to depends on where the focus is."""
        if self._focus == LIST:
            return self.KEYS if self._together else (_UP, _OPEN._replace(word="page"), *_KEYS, *_MORE)
        return (
            _UP._replace(word="rollouts"),
            _TAB._replace(word="list"),
            _OPEN._replace(word="replay"),
            *_KEYS,
            *_MORE,
        )

    @property
    def _entry(self) -> Entry | None:
        return next((entry for entry in self._entries if entry.key == self._selected), None)

    @property
    def _together(self) -> bool:
        return self.size.width >= TOGETHER

    def action_move(self, by: int) -> None:
        """Select another finding; on the page another group, or scroll where there is none to select."""
        if self._focus == PAGE:
            self._move_on_page(by)
        elif self._entries:
            keys = [entry.key for entry in self._entries]
            at = keys.index(self._selected) if self._selected in keys else 0
            self._select(keys[min(max(at + by, 0), len(keys) - 1)])
        self.draw()

    def action_scroll(self, by: int) -> None:
        """Scroll the page."""
        self._page_top += by
        self.draw()

    def action_other(self) -> None:
        """Go from the list to the page, or back."""
        self._focus = PAGE if self._focus == LIST else LIST
        self._entered = True
        self.draw()
        self.refresh_keys()

    def action_leave(self) -> None:
        """Back to the list where it has given its place to the page, else to the screen before."""
        if self._focus == PAGE and self._entered and not self._together:
            self.action_other()
        else:
            self.app.pop_screen()

    def action_open(self) -> None:
        """Open the page where it is not shown, else the rollouts that prove a finding; from the page one of them."""
        if self._focus == LIST and not self._together:
            self.action_other()
            return
        entry, page = self._entry, self._page
        if entry is None or entry.finding is None or page is None:
            return
        rows = tuple(reference.row for reference in entry.finding.rollouts)
        if not rows:
            self.notify("no single rollout proves it: it follows from the trainer's own numbers")
            return
        if not page.groups or (self._focus == LIST and len(rows) > 1):
            self.app.push_screen(BrowserScreen(rows=rows, title=entry.key))
            return
        group = page.groups[min(self._group, len(page.groups) - 1)]
        self.app.push_screen(ReplayScreen(group.proof[0], rows))

    def action_panel(self) -> None:
        """Open the panel that the finding belongs to."""
        entry = self._entry
        key = None if entry is None or entry.item is not None else panel_of(entry.key)
        if key is None and entry is not None and entry.stage is not None:
            key = panel_of_stage(entry.stage)
        if key is None:
            self.notify("no panel shows this")
        else:
            self.grpo_top.action_panel(key)

    def action_explain(self) -> None:
        """Open the detector's page."""
        if self._selected in BY_ID:
            self.app.push_screen(ExplainScreen(self._selected))

    def action_copy(self) -> None:
        """Copy the page as text, through the terminal."""
        entry = self._entry
        if entry is None:
            return
        glyphs = glyphs_of(self.app)
        page = finding_page(self.grpo_top.view, entry, COPY_WIDTH, self._excerpts.get, glyphs)
        export.copy(self, entry.key, page_text(page, glyphs))

    def document(self) -> Document | None:
        """The selected finding with the rollouts that prove it."""
        entry = self._entry
        if entry is None or entry.finding is None:
            self.notify("no finding is selected", severity="warning")
            return None
        return finding_document(self.grpo_top.view.snapshot, entry.finding)

    def on_canvas_clicked(self, event: Canvas.Clicked) -> None:
        """A click selects an entry of the list."""
        if not self._list_shown or event.x >= self._list_width:
            return
        row = event.y - 2 + self._list_top
        if 0 <= row < len(self._owners):
            self._select(self._owners[row])
            self.draw()

    def on_canvas_wheeled(self, event: Canvas.Wheeled) -> None:
        """The wheel moves what lies under it."""
        if self._list_shown and event.x < self._list_width:
            self.action_move(1 if event.by > 0 else -1)
        else:
            self.action_scroll(event.by)

    def _select(self, key: str) -> None:
        if key != self._selected:
            self._selected, self._group, self._page_top = key, 0, 0
            self.refresh_keys()

    def _move_on_page(self, by: int) -> None:
        """Move to the next group if the selected one is seen, else scroll towards it."""
        page = self._page
        if page is None or not page.groups:
            self._page_top += by
            return
        at = page.proof_at + self._group
        if not self._page_top <= at < self._page_top + self._page_height:
            self._page_top += by
        elif 0 <= self._group + by < len(page.groups):
            self._group += by
            self._page_top = keep_seen(self._page_top, at + by, at + by, self._page_height)
        elif by < 0:
            self._page_top += by

    @property
    def _list_shown(self) -> bool:
        return self._together or self._focus == LIST

    @property
    def _list_width(self) -> int:
        if not self._together:
            return self.size.width
        return _LIST_WIDTH_WIDE if self.size.width >= _WIDE else _LIST_WIDTH

    @property
    def _page_height(self) -> int:
        return max(self.query_one(Canvas).size.height - 3, 1)

    def _draw(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        path = ["Monitor", "Findings", *([self._selected] if self._entry is not None else [])]
        left = self._draw_list(self._list_width, height - 1, glyphs) if self._list_shown else []
        room = width - self._list_width if self._together else width
        right = self._draw_page(room, height - 1, glyphs) if self._together or self._focus == PAGE else []
        return [path_row(path, width, glyphs), *(beside(left, right) if left and right else left or right)]

    def _draw_list(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        rows, self._owners = list_rows(self._entries, self._selected, width, glyphs)
        if self._selected in self._owners:
            first = self._owners.index(self._selected)
            last = first + self._owners.count(self._selected) - 1
            self._list_top = keep_seen(self._list_top, first, last, height - 2)
        self._list_top, shown, more = scrolled(rows, self._list_top, height - 2)
        return box(list_frame(self.grpo_top.view, more, glyphs), shown, width, height, glyphs)

    def _draw_page(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        entry = self._entry
        if entry is None:
            return box(Frame([("Nothing to show yet", "dim")]), [], width, height, glyphs)
        view = self.grpo_top.view
        page = self._page = finding_page(view, entry, width - 4, self._excerpts.get, glyphs)
        self._group = min(self._group, max(len(page.groups) - 1, 0))
        rows = page_rows(page, self._group if page.groups else None, width, glyphs)
        self._page_top, shown, more = scrolled(rows, self._page_top, height - 2)
        self.fetch()
        frame = replace(page.frame, foot=more, focused=self._focus == PAGE and self._together)
        return box(frame, shown, width, height, glyphs)
