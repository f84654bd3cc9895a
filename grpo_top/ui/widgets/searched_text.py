"""A page of text that is searched: the hits are shown, and one goes from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.ui.rollouts.inside import Inside, hit_marker, place_of, search
from grpo_top.ui.widgets.wrapped_text import WrappedText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.rollouts.document import Document
    from grpo_top.ui.rollouts.marks import Marker


class SearchedText(WrappedText):
    """Searches the page that is shown, and again whatever page comes after it."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = Inside("")
        """What is searched for, and where it stands."""
        self._own: Sequence[Marker] = ()

    def look_for(self, text: str) -> None:
        """Search from the row on that is seen first; nothing ends the search."""
        document = self.document
        self.inside = Inside(text) if document is None else search(document, text).from_place(*self.top)
        self._show_hit()

    def next_hit(self, by: int) -> None:
        """Go to another hit, round and round."""
        self.inside = self.inside.next(by)
        self._show_hit()

    def mark(self, markers: Sequence[Marker]) -> None:
        """Mark other parts of the page; hits lie above them."""
        self._own = markers
        super().mark([*markers, hit_marker(self.inside)] if self.inside.hits else markers)

    def made(self, document: Document) -> None:
        """Search a page that is new, or wrapped anew."""
        if self.inside.text:
            self.inside = search(document, self.inside.text).from_place(*self.top)
        self.mark(self._own)

    def _show_hit(self) -> None:
        self.mark(self._own)
        document, hit = self.document, self.inside.current
        if document is not None and hit is not None:
            self.reveal_place(place_of(document, hit))
        self.redraw()
