"""A detector's page: what `grpo-top explain` prints, with the knobs in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.detectors import find
from grpo_top.pages import page
from grpo_top.ui.evidence.layout import Frame, aired, box, path_row, scrolled
from grpo_top.ui.keys import BACK_KEY, HELP_KEY, Key, bindings
from grpo_top.ui.screens.base import RunScreen
from grpo_top.ui.widgets.canvas import Canvas

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from grpo_top.config import Settings
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View

LINE = 96
"""Cells of a line at most."""


def page_rows(id_: str, settings: Settings, width: int, glyphs: Glyphs) -> list[Row]:
    """The page in lines of `width` cells: headings in the accent, what is said under them in the text's colour."""
    lines = page(find(id_), settings, min(width, LINE)).splitlines()
    about = lines.index("")
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], 1):
        role = "dim" if number < about else "text" if line.startswith(" ") else "accent bold"
        rows.append([(glyphs.plain(line), role)] if line else [])
    return rows


class ExplainScreen(RunScreen):
    """One detector's page, scrolled with the keys of a pager."""

    NAME = "explain"
    KEYS = (
        Key("up,k", "scroll(-1)", "↑↓", "scroll", "one line up or down"),
        Key("down,j", "scroll(1)"),
        Key("pageup,b", "scroll(-15)", "pgup", "", "a page up"),
        Key("pagedown,space", "scroll(15)", "pgdn", "page", "a page down"),
        Key("home,g", "scroll(-9999)", "home", "", "to the top"),
        Key("end,G", "scroll(9999)", "end", "", "to the end"),
        BACK_KEY._replace(keys="escape,q", what="back to the screen before; also q, as in a pager"),
        HELP_KEY,
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, id_: str) -> None:
        super().__init__()
        self._detector = id_
        self._top = 0

    def body(self) -> ComposeResult:
        """The page."""
        yield Canvas(self._draw)

    def show(self, view: View) -> None:  # noqa: ARG002
        """The page is the same at every step."""
        self.query_one(Canvas).redraw()

    def action_scroll(self, by: int) -> None:
        """Move the text."""
        self._top += by
        self.query_one(Canvas).redraw()

    def on_canvas_wheeled(self, event: Canvas.Wheeled) -> None:
        """The wheel scrolls."""
        self.action_scroll(event.by)

    def _draw(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        rows = page_rows(self._detector, self.grpo_top.settings, width - 4, glyphs)
        self._top, shown, more = scrolled(rows, self._top, height - 3)
        frame = Frame([(self._detector, "text bold")], foot=more)
        return [
            path_row(["Monitor", "Explain", self._detector], width, glyphs),
            *box(frame, aired(shown, width, glyphs), width, height - 1, glyphs),
        ]
