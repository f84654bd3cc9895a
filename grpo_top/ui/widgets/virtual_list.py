"""A list of any length that makes only the rows that are seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.message import Message

from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.rollouts.layout import on
from grpo_top.ui.widgets.rows import Rows
from grpo_top.ui.widgets.runs import filled

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.widgets.runs import Row


@dataclass(frozen=True, slots=True)
class Listing:
    """What a list shows: how many rows there are, and how to make one."""

    count: int
    row: Callable[[int, int], Row]
    """The row at a position, for a width; its first cell is the mark of the cursor's row."""
    header: Callable[[int], Row] | None = None
    """The titles of the columns, for a width."""
    foot: list[Row] = field(default_factory=list)
    """Rows under the last one."""
    frame: Frame = field(default_factory=Frame)
    empty: str = ""
    """What is said where there are no rows."""


class VirtualList(Rows):
    """Draws a `Listing` around a cursor; rows out of sight are never made."""

    class Chosen(Message):
        """A row was clicked, or the wheel moves the cursor."""

        def __init__(self, list_: VirtualList, position: int, deeper: bool) -> None:
            super().__init__()
            self.list = list_
            self.position = position
            self.deeper = deeper
            """It was the cursor's row already: go where it leads."""

    class Remade(Message):
        """Rows were made that nobody had asked for: the list has another size."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._listing: Listing | None = None
        self._cursor = 0
        self._top = 0
        self._seen: range = range(0)
        self.wanted_rows = 0
        """Rows that all of the listing would take, border and all."""

    def show(self, listing: Listing, cursor: int) -> None:
        """Show other rows, or another cursor."""
        self._listing, self._cursor = listing, cursor
        rows = listing.count + (listing.header is not None) + len(listing.foot)
        self.wanted_rows = rows + listing.frame.rows
        self.redraw()

    @property
    def seen(self) -> range:
        """Positions of the rows that were drawn last."""
        return self._seen

    @property
    def page(self) -> int:
        """Rows that one page holds."""
        return max(1, self._room(self.size.height))

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The frame, the header, the rows around the cursor, the foot."""
        listing, glyphs = self._listing, glyphs_of(self.app)
        if listing is None:
            return []
        inner = width - listing.frame.columns
        room = self._room(height)
        if self._cursor < self._top:
            self._top = self._cursor
        elif self._cursor >= self._top + room:
            self._top = self._cursor - room + 1
        self._top = max(0, min(self._top, listing.count - room))
        self._seen = range(self._top, min(listing.count, self._top + room))
        rows: list[Row] = [] if listing.header is None else [listing.header(inner)]
        for position in self._seen:
            row = filled(listing.row(position, inner), inner, glyphs.ellipsis)
            rows.append(on(row, "raised") if position == self._cursor else row)
        if not listing.count and listing.empty:
            rows.append([(f" {listing.empty}", "dim")])
        return listing.frame.around([*rows, *listing.foot], width, height, glyphs)

    def on_resize(self) -> None:
        """Make the rows for the new size, and say so: other ones may be seen."""
        super().on_resize()
        self.post_message(self.Remade())

    def on_click(self, event: events.Click) -> None:
        """Choose the row under the pointer."""
        listing = self._listing
        if listing is None:
            return
        above = (listing.header is not None) + 1
        position = self._top + event.y - above
        if position in self._seen:
            self.post_message(self.Chosen(self, position, position == self._cursor))

    def on_mouse_scroll_down(self) -> None:
        """Move the cursor down."""
        self.post_message(self.Chosen(self, self._cursor + 3, deeper=False))

    def on_mouse_scroll_up(self) -> None:
        """Move the cursor up."""
        self.post_message(self.Chosen(self, self._cursor - 3, deeper=False))

    def _room(self, height: int) -> int:
        listing = self._listing
        if listing is None:
            return 1
        fixed = listing.frame.rows + (listing.header is not None)
        foot = len(listing.foot) if height - fixed - len(listing.foot) >= min(listing.count, 3) else 0
        return max(1, height - fixed - foot)


def cursor_mark(selected: bool, glyphs: Glyphs) -> tuple[str, str]:
    """The first cell of a list's row."""
    return (glyphs.selected, "accent bold") if selected else (" ", "")
