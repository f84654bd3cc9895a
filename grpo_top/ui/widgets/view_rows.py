"""Rows that follow from a view alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.ui.glyphs import Glyphs, glyphs_of
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run


class ViewRows(Rows):
    """Draws the view that it was last shown; a subclass says how in `rows_of`."""

    def __init__(self) -> None:
        super().__init__()
        self.view: View | None = None

    def show(self, view: View) -> None:
        """Draw a view."""
        self.view = view
        self.redraw()

    def make_rows(self, width: int, height: int) -> list[list[Run]]:
        """The rows of the view; none before there is one."""
        return [] if self.view is None else self.rows_of(self.view, width, height, glyphs_of(self.app))

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[list[Run]]:
        """A view as rows of a size."""
        raise NotImplementedError
