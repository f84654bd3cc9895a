"""Rows in a frame, given from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.ui.widgets.runs import Row


class FramedRows(Rows):
    """Draws what a function makes of the room inside the frame."""

    def __init__(self) -> None:
        super().__init__()
        self._frame = Frame()
        self._make: Callable[[int, int], list[Row]] | None = None

    def show(self, frame: Frame, make: Callable[[int, int], list[Row]]) -> None:
        """Draw something else: `make` is given the width and the height that are left for it."""
        self._frame, self._make = frame, make
        self.redraw()

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The frame and what is in it."""
        if self._make is None:
            return []
        inner, body = width - self._frame.columns, height - self._frame.rows
        rows = self._make(inner, body) if inner > 0 and body > 0 else []
        return self._frame.around(rows, width, height, glyphs_of(self.app))
