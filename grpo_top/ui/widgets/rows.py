"""A widget drawn row by row that tells the terminal only of the cells that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from grpo_top.ui.cell_screen import CellScreen
from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.theme import styles_of
from grpo_top.ui.widgets.runs import changed_spans, filled, merged, part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style

    from grpo_top.ui.cell_screen import Span
    from grpo_top.ui.theme import Styles
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]


class Rows(Widget):
    """Rows of (text, role) runs. A subclass says what they are in `make_rows` and calls `redraw` on new data.

    Rows are cut or filled to the width; roles are keys of `Styles`, such as `fail` or `text bold on raised`.
    """

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._rows: list[Row] = []
        """The rows as they were made."""
        self._made_for = (0, 0)
        """The size that the rows are for: a layout may change it before anybody asks for other rows."""
        self._lines: dict[int, Strip] = {}
        """Rows that are drawn already."""
        self._looks: dict[str, Style | None] = {}
        """The style of each role on this widget, dear to ask for with every row; empty where they may have changed."""
        self._styles_of_looks: Styles | None = None

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The rows for a size; rows that are missing at the end are blank."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Make the rows anew and repaint what differs."""
        width, height = self.size
        if not width or not height:
            return
        before, made_for = self._rows, self._made_for
        changed = self._remake(width, height)
        if made_for != (width, height):
            self.refresh()
        elif changed:
            spans = [
                (y, x, length)
                for y in changed
                for x, length in changed_spans(before[y], self._rows[y], width)
            ]
            screen = next((node for node in self.ancestors if isinstance(node, CellScreen)), None)
            if screen is not None:
                screen.unsent.add(self, spans)
            else:  # of another kind, or left meanwhile
                self.refresh(*(Region(x, y, length, 1) for y, x, length in spans))

    def text_of(self, y: int) -> str:
        """What a row says, as it is drawn; empty where there is none."""
        return "".join(text for text, _ in self._rows[y]) if 0 <= y < len(self._rows) else ""

    def notify_style_update(self) -> None:
        """Ask for the style anew, of which Textual says here that it may have changed."""
        super().notify_style_update()
        self._looks.clear()

    def on_resize(self) -> None:
        """Make the rows for the new size."""
        self._remake(*self.size)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row in the colours of the app's theme, drawn once."""
        self._let_old_lines_fall()
        return self._drawn_row(y)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Rows as they are shown: what Textual adds to a line is not for a widget without edge and padding."""
        self._let_old_lines_fall()
        strips = [self._drawn_row(y) for y in crop.line_range]
        first, last = crop.column_span
        if (first, last) == (0, self._made_for[0]):
            return strips
        return [strip.crop(first, last) for strip in strips]

    def cells(self, spans: Iterable[Span]) -> list[Iterable[Segment]]:
        """The cells of some spans, as `changed_spans` names them."""
        self._let_old_lines_fall()
        width = self._made_for[0]
        return [
            self._drawn_row(y) if length == width else self._drawn(part(self._rows[y], first, first + length))
            for y, first, length in spans
        ]

    def _drawn_row(self, y: int) -> Strip:
        line = self._lines.get(y)
        if line is None:
            width = self._made_for[0]
            row = merged(self._rows[y]) if y < len(self._rows) else []
            row = filled(row, width, glyphs_of(self.app).ellipsis)
            line = self._lines[y] = Strip(self._drawn(row), width)
        return line

    def _drawn(self, runs: Row) -> list[Segment]:
        return [Segment(text, self._style_of(role)) for text, role in runs]

    def _style_of(self, role: str) -> Style | None:
        """The widget's own style with a role's laid over it, as the terminal has colours for it."""
        look = self._looks.get(role)
        if look is None:
            base, ground = self.rich_style, self.background_colors[1]
            segments = [Segment(" ", base + styles_of(self.app)[role] if role else base)]
            for each in self.get_line_filters():
                segments = each.apply(segments, ground)
            look = self._looks[role] = segments[0].style
        return look

    def _let_old_lines_fall(self) -> None:
        """Those of another size, or in other colours, are not drawn already."""
        if self._made_for != self.size:
            self._remake(*self.size)
        styles = styles_of(self.app)
        if not self._looks or styles is not self._styles_of_looks:
            self._styles_of_looks = styles
            self._looks.clear()
            self._lines.clear()

    def _remake(self, width: int, height: int) -> list[int]:
        """Make the rows; which of them differ from those before."""
        before = self._rows
        rows = self._rows = self.make_rows(width, height)[:height]
        rows += [[] for _ in range(height - len(rows))]
        if self._made_for != (width, height):
            self._made_for = (width, height)
            self._lines.clear()
            return list(range(height))
        changed = [y for y in range(height) if rows[y] != before[y]]
        for y in changed:
            self._lines.pop(y, None)
        return changed
