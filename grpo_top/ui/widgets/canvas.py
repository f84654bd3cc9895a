"""Rows that a screen draws itself, from whatever it has selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from grpo_top.ui.glyphs import Glyphs, glyphs_of
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

    from grpo_top.ui.widgets.strips import Run


class Canvas(Rows):
    """Draws what `draw(width, height, glyphs)` returns, and tells of clicks and of the wheel."""

    class Clicked(Message):
        """A cell was clicked."""

        def __init__(self, x: int, y: int) -> None:
            super().__init__()
            self.x = x
            self.y = y

    class Wheeled(Message):
        """The wheel was turned over a cell."""

        def __init__(self, x: int, y: int, by: int) -> None:
            super().__init__()
            self.x = x
            self.y = y
            self.by = by
            """Rows, negative is up."""

    def __init__(self, draw: Callable[[int, int, Glyphs], list[list[Run]]]) -> None:
        super().__init__()
        self._draw = draw

    def make_rows(self, width: int, height: int) -> list[list[Run]]:
        """The screen's rows."""
        return self._draw(width, height, glyphs_of(self.app))

    def on_click(self, event: events.Click) -> None:
        """Tell the screen."""
        self.post_message(self.Clicked(event.x, event.y))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Tell the screen."""
        self.post_message(self.Wheeled(event.x, event.y, 3))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Tell the screen."""
        self.post_message(self.Wheeled(event.x, event.y, -3))
