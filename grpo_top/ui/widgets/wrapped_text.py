"""A page of text of any length: wraps and draws only the rows that are seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.rollouts.document import Document, Fixed, Passage, Place
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grpo_top.ui.rollouts.document import Paint
    from grpo_top.ui.rollouts.marks import Marker
    from grpo_top.ui.widgets.runs import Row

    Make = Callable[[int], list[Fixed | Passage]]
    """Pieces of a page, for a width."""


class WrappedText(Rows):
    """Draws a `Document` from its `top` on."""

    def __init__(self) -> None:
        super().__init__()
        self._frame = Frame()
        self._make: Make | None = None
        self._document: Document | None = None
        self._markers: Sequence[Marker] = ()
        self._paint: Paint | None = None
        self._top = Place(0, 0)

    def open(self, make: Make, *, keep_place: bool = False) -> None:
        """Show another page, from its first row on, or from where the one before was looked at."""
        self._make, self._document = make, None
        if not keep_place:
            self._top = Place(0, 0)

    def mark(self, markers: Sequence[Marker]) -> None:
        """Mark other parts of the page, and of those that are opened after it."""
        self._markers = markers
        if self._document is not None:
            self._document.mark(markers)

    def show(self, frame: Frame, paint: Paint | None) -> None:
        """Draw the page in another light."""
        self._frame, self._paint = frame, paint
        self.redraw()

    def reveal(self, turn: int, offset: int) -> None:
        """Scroll, where it is out of sight, so that an offset of a turn's text is seen."""
        document = self._document
        place = None if document is None else document.find(turn, offset)
        if place is not None:
            self.reveal_place(place)

    @property
    def document(self) -> Document | None:
        """The page as it is wrapped; None before it was drawn."""
        return self._document

    @property
    def top(self) -> Place:
        """The first row that is seen."""
        return self._top

    def reveal_place(self, place: Place) -> None:
        """Scroll, where it is out of sight, so that a row is seen."""
        document, rows = self._document, self._room(self.size.height)
        if document is None or place.piece >= len(document.pieces):
            return
        if place < self._top:
            self._top = place
        elif place not in document.places(self._top, rows):
            # With a third of the page to go: the page does not move with every line.
            self._top = document.moved(place, -(rows * 2 // 3))

    def scroll(self, by: int) -> None:
        """Scroll by rows, no further than to where the last row is the last one seen."""
        if self._document is not None:
            self._top = self._held(self._document, self._document.moved(self._top, by))
            self.redraw()

    @property
    def page(self) -> int:
        """Rows that are seen at once, less one that stays."""
        return max(1, self._room(self.size.height) - 1)

    def height_for(self, width: int, most: int) -> int:
        """Rows that the page and its frame would take in a width; counted up to `most`."""
        if self._make is None:
            return self._frame.rows
        inner = max(1, width - self._frame.columns)
        return Document(self._make(inner), inner).height(most) + self._frame.rows

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The rows from `top` on."""
        inner, room = width - self._frame.columns, self._room(height)
        if self._make is None or inner < 4:
            return []
        document = self._document
        if document is None or document.width != inner:
            document = self._document = Document(self._make(inner), inner, self._markers)
            self._top = self._resumed(document)
            self.made(document)
        self._top = self._held(document, self._top, room)
        rows = [document.row(place, self._paint) for place in document.places(self._top, room)]
        return self._frame.around(rows, width, height, glyphs_of(self.app))

    def made(self, document: Document) -> None:
        """Called once a page has been wrapped, before it is drawn."""

    def on_mouse_scroll_down(self) -> None:
        """Scroll down."""
        self.scroll(3)

    def on_mouse_scroll_up(self) -> None:
        """Scroll up."""
        self.scroll(-3)

    def more(self) -> tuple[bool, bool]:
        """Whether there are rows above and below those that are seen."""
        document = self._document
        if document is None or not document.pieces:
            return False, False
        seen = document.places(self._top, self._room(self.size.height))
        below = bool(seen) and document.after(seen[-1]) is not None
        return document.before(self._top) is not None, below

    def _room(self, height: int) -> int:
        return max(0, height - self._frame.rows)

    def _held(self, document: Document, top: Place, room: int | None = None) -> Place:
        """The lowest place to look from that leaves no row blank while there are rows above it."""
        rows = self._room(self.size.height) if room is None else room
        missing = rows - len(document.places(top, rows))
        return document.moved(top, -missing) if missing > 0 else top

    def _resumed(self, document: Document) -> Place:
        """The row of another wrapping on which the same text lies."""
        if self._top.piece >= len(document.pieces):
            return document.first
        piece = document.pieces[self._top.piece]
        if isinstance(piece, Passage):
            return Place(self._top.piece, document.wrapped(self._top.piece).at(self._top.at).start)
        return Place(self._top.piece, min(self._top.at, len(piece.rows) - 1))
