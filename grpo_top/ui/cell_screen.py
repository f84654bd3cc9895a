"""A screen that sends what changed in its rows by itself, and at once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from textual.geometry import Region
from textual.screen import Screen

from grpo_top.ui.update import CellCompositor, ChangedCells, Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType
    from textual.widget import Widget

    from grpo_top.ui.widgets.rows import Rows

    Span = tuple[int, int, int]
    """Row, first cell and length, within a widget."""


class CellScreen(Screen[None]):
    """Textual's own way to the terminal takes some messages a widget and the time of a frame.

    It is still taken where a layout is due, or where something lies over what changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._compositor = compositor = CellCompositor()
        self.unsent = Unsent(self, compositor)

    def is_settled(self) -> bool:
        """Whether everything is where it was when it was drawn last, and stays there."""
        return (
            self.is_current
            and self.app.screen is self
            and not self.app._batch_count
            and not self._layout_required
            and not self._scroll_required
            and not any(widget._layout_required for widget in _below(self))
        )

    def send(self, pieces: Iterable[Piece]) -> None:
        """Send cells to the terminal, as one update."""
        self.app._display(self, cast("RenderableType", ChangedCells(pieces)))  # Textual takes it as one


class Unsent:
    """Cells that have changed on a screen and are sent together: when what goes on has come to its end."""

    def __init__(self, screen: CellScreen, compositor: CellCompositor) -> None:
        self._screen = screen
        self._compositor = compositor
        self._spans: dict[Rows, list[Span]] = {}
        self._gathers = False

    def add(self, widget: Rows, spans: Iterable[Span]) -> None:
        """Cells of a widget have changed."""
        if not self._spans and not self._gathers:
            self._screen.call_next(self.send)
        self._spans.setdefault(widget, []).extend(spans)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """What changes meanwhile is sent at the end, and nothing before."""
        gathers, self._gathers = self._gathers, True
        try:
            yield
        finally:
            self._gathers = gathers
        if not gathers:
            self.send()

    def send(self) -> None:
        """Send what has changed so far."""
        changed, self._spans = self._spans, {}
        if not changed:
            return
        pieces = self._pieces(changed) if self._screen.is_settled() else None
        if pieces is not None:
            self._screen.send(pieces)
            return
        for widget, spans in changed.items():
            widget.refresh(*(Region(x, y, length, 1) for y, x, length in spans))

    def _pieces(self, changed: dict[Rows, list[Span]]) -> list[Piece] | None:
        """The cells, or None where not all of them are seen."""
        pieces: list[Piece] = []
        for widget, spans in changed.items():
            region = self._compositor.in_full_view(widget)
            if region is None:
                return None
            pieces += [
                Piece(region.y + y, region.x + x, length, segments)
                for (y, x, length), segments in zip(spans, widget.cells(spans), strict=True)
            ]
        return pieces


def _below(widget: Widget) -> Iterator[Widget]:
    for child in widget._nodes:
        yield child
        if child._nodes:
            yield from _below(child)
