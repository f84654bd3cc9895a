"""A widget drawn row by row that tells the terminal only of the cells that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.widget import Widget

from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.theme import styles_of
from grpo_top.ui.widgets.runs import changed_spans, merged
from grpo_top.ui.widgets.strips import line, runs_to_parts

if TYPE_CHECKING:
    from rich.style import Style
    from textual.strip import Strip

    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]


class Rows(Widget):
    """Rows of (text, role) runs. A subclass says what they are in `make_rows` and calls `redraw` on new data.

    Rows are cut or filled to the width; roles are keys of `Styles`, such as `fail` or `text bold on raised`.
    """

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._rows: list[Row] = []
        self._base: Style | None = None
        """The widget's own style, which is dear to ask for with every row; None where it may have changed."""
        self._made_for = (0, 0)
        """The size that the rows are for: a layout may change it before anybody asks for other rows."""

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The rows for a size; rows that are missing at the end are blank."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Make the rows anew and repaint what differs."""
        width, height = self.size
        if not width or not height:
            return
        before, made_for = self._rows, self._made_for
        self._rows = self._filled(width, height)
        if made_for != (width, height):
            self.refresh()
            return
        pairs = zip(before, self._rows, strict=True)
        changed = [
            Region(x, y, length, 1)
            for y, (old, new) in enumerate(pairs)
            if old != new
            for x, length in changed_spans(old, new, width)
        ]
        if changed:
            self.refresh(*changed)

    def text_of(self, y: int) -> str:
        """What a row says, as it is drawn; empty where there is none."""
        return "".join(text for text, _ in self._rows[y]) if 0 <= y < len(self._rows) else ""

    def notify_style_update(self) -> None:
        """Ask for the style anew, of which Textual says here that it may have changed."""
        super().notify_style_update()
        self._base = None

    def on_resize(self) -> None:
        """Make the rows for the new size."""
        self._rows = self._filled(*self.size)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row in the colours of the app's theme."""
        width, height = self.size
        if self._made_for != (width, height):
            self._rows = self._filled(width, height)
        row = self._rows[y] if y < len(self._rows) else []
        parts = runs_to_parts(row, styles_of(self.app))
        if self._base is None:
            self._base = self.rich_style
        return line(width, *parts, base=self._base, ellipsis=glyphs_of(self.app).ellipsis)

    def _filled(self, width: int, height: int) -> list[Row]:
        self._made_for = (width, height)
        rows = [merged(row) for row in self.make_rows(width, height)[:height]]
        return rows + [[] for _ in range(height - len(rows))]
