"""Steps, their groups, the rollouts of a group: three lists side by side, and a preview of what is under the cursor."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical
from textual.message import Message

from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.keys import bindings
from grpo_top.ui.rollouts.browse import GROUPS, ROLLOUTS, STEPS, Browse
from grpo_top.ui.rollouts.browser_text import MIDDLE, counts_row, path_row, widths
from grpo_top.ui.rollouts.excerpts import glance_at
from grpo_top.ui.rollouts.families import Families
from grpo_top.ui.rollouts.filters import Filter, FilterError, completed, parse
from grpo_top.ui.rollouts.group_rows import groups_listing
from grpo_top.ui.rollouts.layout import joined
from grpo_top.ui.rollouts.out import group_document, rollout_document
from grpo_top.ui.rollouts.preview import preview_frame, preview_rows
from grpo_top.ui.rollouts.rollout_rows import rollouts_listing
from grpo_top.ui.rollouts.searching import Searching
from grpo_top.ui.rollouts.step_rows import steps_listing
from grpo_top.ui.rollouts.subject import Subject
from grpo_top.ui.rollouts.texts import Texts, whole
from grpo_top.ui.screens import export
from grpo_top.ui.screens.browser_keys import BROWSER_KEYS, FILTER_KEYS
from grpo_top.ui.screens.export import Exporting
from grpo_top.ui.screens.reading import GLANCES
from grpo_top.ui.screens.replay import ReplayScreen
from grpo_top.ui.widgets.filter_line import FilterLine, Said
from grpo_top.ui.widgets.framed_rows import FramedRows
from grpo_top.ui.widgets.triage_strip import TriageStrip
from grpo_top.ui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from textual.app import ComposeResult
    from textual.events import Key as KeyEvent
    from textual.timer import Timer
    from textual.widgets import Input

    from grpo_top.ui.keys import Key
    from grpo_top.ui.rollouts.out import Document
    from grpo_top.ui.rollouts.search import Progress, Search
    from grpo_top.ui.view import View

_LONG = 0.05
"""Seconds: a Snapshot that takes longer to go through, such as a filter over a million rollouts, …"""
_REST = 10
"""… is the last one for so many times as long: keys come first."""
_MANY = 1000
"""Rollouts that a replay can go through one after another, at most."""


class Told(Message):
    """How far a search is, and what it has found since it was told of last."""

    def __init__(self, search: Search, progress: Progress, rows: NDArray[np.int64]) -> None:
        super().__init__()
        self.search = search
        self.progress = progress
        self.rows = rows


class BrowserScreen(Exporting):
    """The rollouts of a run.

    Args:
        step: the step to begin at; None follows the newest.
        rows: rollouts to which all is narrowed down, such as the evidence of a finding.
        title: what they are, for the path at the top.
        filter_text: the filter to begin with.
    """

    DEFAULT_CSS = """
    BrowserScreen Said.path { height: 1; }
    BrowserScreen #detail { width: 1fr; }
    BrowserScreen FramedRows { height: 1fr; }
    """
    NAME = "rollouts"
    KEYS = BROWSER_KEYS
    BINDINGS = bindings(KEYS)

    def __init__(
        self,
        step: int | None = None,
        rows: tuple[int, ...] | None = None,
        title: str = "",
        filter_text: str = "",
    ) -> None:
        super().__init__()
        self._filter_text = filter_text
        self._step = step
        self._evidence = rows
        self._title = title
        self._browse: Browse | None = None
        self._view: View | None = None
        """What the lists are of; the app's own may be newer while a long take rests."""
        self._drawn: tuple[int, int | None] | None = None
        self._error: FilterError | None = None
        self._rests_until = 0.0
        self._later: Timer | None = None
        self._families = Families()
        self._searching = Searching(self._search)

    def body(self) -> ComposeResult:
        """The path, the filter, the lists and the preview."""
        self._path = Said()
        self._path.add_class("path")
        self._filter = FilterLine()
        self._steps, self._groups, self._rollouts = (
            VirtualList(name=name) for name in ("steps", "groups", "rollouts")
        )
        self._preview = FramedRows()
        yield self._path
        yield self._filter
        with Horizontal():
            yield self._steps
            yield self._groups
            with Vertical(id="detail"):
                yield self._rollouts
                yield self._preview

    def show(self, view: View) -> None:
        """Draw a view."""
        if self._browse is None:
            step = None if self._step == view.snapshot.judged_step else self._step
            self._browse = Browse(view.snapshot, self._evidence, step, view.cursor)
            if self._filter_text:
                self._filter.input.value = self._filter_text  # its change narrows the lists
        elif view.key != self._drawn:
            if (wait := self._rests_until - time.monotonic()) > 0:
                self._later = self._later or self.set_timer(wait, self._catch_up)
                return
            begun = time.monotonic()
            self._browse.take(view.snapshot, view.cursor)
            self._searching.follow(self._browse)
            taken = time.monotonic() - begun
            self._rests_until = begun + taken * _REST if taken > _LONG else 0.0
        self._drawn, self._view = view.key, view
        self.draw()
        self.fetch()

    def draw(self) -> None:
        """Draw the lists, the preview, and what stands around them."""
        browse, view, glyphs = self._browse, self._view, glyphs_of(self.app)
        if browse is None or view is None:
            return
        self.glances.want_nothing()
        if browse.row is not None:
            self.glances.get(browse.row)  # asked for first, it is read first
        self._lay_out()
        at = browse.column
        self._steps.show(steps_listing(view, browse, glyphs, focused=at == STEPS), browse.step_at)
        groups = groups_listing(view, browse, self.glances, glyphs, focused=at == GROUPS)
        self._groups.show(groups, browse.group_at)
        rollouts = rollouts_listing(view, browse, self.glances, glyphs, focused=at == ROLLOUTS)
        self._rollouts.show(rollouts, browse.member)
        self._rollouts.styles.height = min(self._rollouts.wanted_rows, max(5, self.size.height // 2))
        self._draw_preview(browse, view)
        first = self.glances.get(int(browse.members[0])) if len(browse.members) else None
        self._path.show(path_row(browse, first, self._title, self.size.width, glyphs))
        self._draw_filter(browse)

    async def on_key(self, event: KeyEvent) -> None:
        """What is typed right after `/` belongs to the filter, even where it came before the line had the focus."""
        if not self._is_whole:
            return
        line = self._filter.input
        if event.key == "slash" and self.focused is not line:
            self.action_filter()
        elif self.focused is line and event.key == "enter":
            await line.action_submit()
        elif self.focused is line and event.key == "backspace":
            line.action_delete_left()
        elif self.focused is line and event.is_printable:
            line.insert_text_at_cursor(event.character or "")
        else:
            return
        event.stop()

    def on_resize(self) -> None:
        """Share out the width anew."""
        self.call_after_refresh(self._redraw)

    def on_virtual_list_chosen(self, message: VirtualList.Chosen) -> None:
        """Go where was clicked."""
        browse = self._browse
        if browse is None:
            return
        browse.column = (self._steps, self._groups, self._rollouts).index(message.list)
        if message.deeper:
            self.action_open()
        else:
            browse.move_to(message.position)
            self._redraw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Take the filter over as far as it can be read."""
        if self._browse is None:
            return
        try:
            filter_ = parse(event.value, self.grpo_top.view.snapshot.run.components)
            self._error = None
        except FilterError as error:
            self._error = error
        else:
            if filter_.text != self._browse.filter.text:
                self._narrow(self._browse, filter_)
        self._redraw()

    def on_input_submitted(self) -> None:
        """Look for the filter's texts, and back to the lists."""
        self.set_focus(None)
        if self._browse is not None and self._error is None:
            self._searching.begin(self._browse)
            self.glances = Texts(glance_at(self._browse.filter.texts), GLANCES)
        self._redraw()

    def on_told(self, message: Told) -> None:
        """List what a search has found."""
        if self._browse is not None:
            self._searching.told(message.search, message.progress, message.rows, self._browse)
            self._redraw()

    def on_unmount(self) -> None:
        """Nobody looks any more."""
        self._searching.stop()

    def action_column(self, by: int) -> None:
        """Go to the list beside this one."""
        if self._browse is not None:
            _ = self._browse.deeper() if by > 0 else self._browse.back()
            self._redraw()

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        if self._browse is not None:
            self._browse.move(by)
            self._redraw()

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        if self._browse is not None:
            list_ = (self._steps, self._groups, self._rollouts)[self._browse.column]
            self.action_move(by * list_.page)

    def action_move_to(self, position: int) -> None:
        """Go to a row, counted from the end where it is negative."""
        if self._browse is not None:
            self._browse.move_to(position if position >= 0 else 1 << 62)
            self._redraw()

    def action_mark(self) -> None:
        """Mark the step at the cursor."""
        if self._browse is not None:
            self._browse.mark()
            self._redraw()

    def action_mark_all(self) -> None:
        """Mark every step, or none."""
        if self._browse is not None:
            self._browse.mark_all()
            self._redraw()

    def action_order(self) -> None:
        """The next order of the groups."""
        if self._browse is not None:
            self._browse.next_order()
            self._redraw()

    def action_turn_order(self) -> None:
        """The groups the other way round."""
        if self._browse is not None:
            self._browse.turn_order()
            self._redraw()

    def action_flagged(self, by: int) -> None:
        """The next flagged group or rollout."""
        if self._browse is not None:
            self._browse.flagged(by)
            self._redraw()

    def keys(self) -> Sequence[Key]:
        """While the filter is written, keys are letters."""
        return FILTER_KEYS if self._filter.editing else self.KEYS

    def action_filter(self) -> None:
        """Write the filter."""
        self._filter.add_class("-shown")
        self.set_focus(self._filter.input)
        self._redraw()

    def action_complete(self) -> None:
        """Write the field out that was begun; outside of the filter, go to the next list."""
        if not self._filter.editing:
            self.action_column(1)
            return
        line = self._filter.input
        line.value = completed(line.value, self.grpo_top.view.snapshot.run.components)
        line.cursor_position = len(line.value)

    def action_open(self) -> None:
        """Go one list deeper, from the last one to the replay."""
        browse = self._browse
        if browse is None:
            return
        if browse.deeper():
            self._redraw()
        elif browse.row is not None:
            self.app.push_screen(ReplayScreen(browse.row, browse.walk(_MANY)))

    async def action_back(self) -> None:
        """Back one layer: out of the filter's line, of a search, to the list before, out of the filter, out."""
        browse = self._browse
        base = STEPS if self._evidence is None else GROUPS
        if self._filter.editing:
            self.set_focus(None)
        elif self._searching.running:
            self._searching.stop()
        elif browse is not None and browse.column > base and browse.back():
            pass
        elif browse is not None and (browse.filter or self._error):
            self._filter.input.value = ""
            self._narrow(browse, Filter())
        else:
            await self.grpo_top.action_back()
            return
        self._redraw()

    def action_copy(self) -> None:
        """Copy the prompt and the completion under the cursor."""
        browse, glances = self._browse, self.glances
        row = None if browse is None else browse.row
        seen = None if row is None else glances.get(row)
        if row is None or seen is None or seen.gone:
            export.copy(self, "", "")
        else:
            self.run_worker(partial(self._copy, row), thread=True, group="out")

    def document(self) -> Document | None:
        """The group at the cursor; in the list of rollouts the one there."""
        browse, snapshot = self._browse, self.grpo_top.view.snapshot
        if browse is None or browse.row is None:
            self.notify("there is nothing here to take out", severity="warning", markup=False)
            return None
        if browse.column == ROLLOUTS:
            return rollout_document(snapshot, browse.row)
        return group_document(snapshot, browse.members.tolist())

    def _copy(self, row: int) -> None:
        """Copy a rollout's texts, as a whole and not as far as they are shown."""
        read = whole(self.grpo_top.view.snapshot.read(row))
        text = "\n\n".join(turn.text for turn in read.turns)
        self.app.call_from_thread(export.copy, self, "the prompt and the completion", text)

    def _narrow(self, browse: Browse, filter_: Filter) -> None:
        """List what another filter leaves; a search was for the one before."""
        if browse.filter.texts:
            self._searching.drop()
            self.glances = Texts(glance_at(()), GLANCES)
        browse.narrow(filter_)

    def _search(self, search: Search) -> None:
        """Run a search beside all else."""
        work = partial(search.run, lambda progress, rows: self.post_message(Told(search, progress, rows)))
        self.run_worker(work, thread=True, group="search")

    def _catch_up(self) -> None:
        self._later = None
        self.show(self.grpo_top.view)

    def _redraw(self) -> None:
        self.draw()
        self.fetch()
        self.refresh_keys()

    def _lay_out(self) -> None:
        if self._browse is None:
            return
        shared = widths(self.size.width, self._browse.column)
        self.query_one(TriageStrip).display = self.size.width >= MIDDLE
        detail = self.query_one("#detail")
        for widget, width in (
            (self._steps, shared.steps),
            (self._groups, shared.groups),
            (detail, shared.detail),
        ):
            widget.display = width > 0
            if width > 0:
                widget.styles.width = width

    def _draw_filter(self, browse: Browse) -> None:
        error, searching = self._error, self._searching
        counts = counts_row(browse) if not searching.running else []
        said, column = (searching.trouble, None) if error is None else (str(error), error.column)
        self._filter.set_class(self._filter.editing or bool(browse.filter) or error is not None, "-shown")
        self._filter.show(joined([searching.words(browse), counts]), said, column)

    def _draw_preview(self, browse: Browse, view: View) -> None:
        if browse.row is None:
            self._preview.show(preview_frame(None), lambda _width, _height: [])
            return
        subject = Subject(view.snapshot, browse.row)
        group = int(browse.groups[browse.group_at])
        seen, family = self.glances.get(browse.row), subject.name("family")
        place = int(browse.catalogue.table["place"][group])
        around = None if family is None or place < 0 else self._families.beside(view, place, family)
        glyphs = glyphs_of(self.app)
        self._preview.show(
            preview_frame(subject),
            lambda width, height: preview_rows(view, subject, seen, around, width, height, glyphs),
        )
