"""The line in which a filter is written, with what it finds, and under it what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from grpo_top.text import safe
from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.widgets.rows import Rows
from grpo_top.ui.widgets.runs import ends

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from grpo_top.ui.widgets.runs import Row

HINT = "reward<0.5 family=carry, or words of the texts"
"""What stands in an empty line."""


class Said(Rows):
    """One line that is given from outside: at both of its ends."""

    def __init__(self, left: Row | None = None, right: Row | None = None) -> None:
        super().__init__()
        self._left: Row = left or []
        self._right: Row = right or []

    def show(self, left: Row, right: Row | None = None) -> None:
        """Say something else."""
        self._left, self._right = left, right or []
        self.redraw()

    def make_rows(self, width: int, height: int) -> list[Row]:  # noqa: ARG002
        """The line."""
        return [ends(self._left, self._right, width, glyphs_of(self.app).ellipsis)]


class FilterLine(Vertical):
    """An input, counts beside it, and an error that points at the column where it begins."""

    DEFAULT_CSS = """
    FilterLine { height: auto; display: none; background: $surface; }
    FilterLine.-shown { display: block; }
    FilterLine Horizontal { height: 1; }
    FilterLine .slash { width: 3; }
    FilterLine Input { width: 1fr; min-width: 20; max-width: 60; height: 1; border: none; padding: 0;
        background: $surface; background-tint: $surface 0%; }
    FilterLine Input:focus { width: 3fr; }
    FilterLine .counts { width: 2fr; }
    FilterLine .error { height: 1; display: none; }
    FilterLine.-wrong .error { display: block; }
    """

    def compose(self) -> ComposeResult:
        """The line, and the line under it."""
        self.input = Input(compact=True, placeholder=HINT)
        self.input.cursor_blink = False
        self._counts = Said()
        self._counts.add_class("counts")
        self._error = Said()
        self._error.add_class("error")
        slash = Said([(" /", "accent bold")])
        slash.add_class("slash")
        with Horizontal():
            yield slash
            yield self.input
            yield self._counts
        yield self._error

    @property
    def editing(self) -> bool:
        """Whether keys go into the input; the input itself hears of it later."""
        return self.screen.focused is self.input

    def show(self, counts: Row, error: str = "", column: int | None = 0) -> None:
        """Say what the filter finds, or what is wrong: with the term at a column, or, at None, with the search."""
        self.set_class(bool(error), "-wrong")
        glyphs = glyphs_of(self.app)
        self._counts.show([], [*counts, (" ", "")])
        said = (safe(glyphs.plain(error)), "warn")
        if column is None:
            self._error.show([("   ", ""), said])
        else:
            self._error.show([(" " * (3 + column), ""), ("^ ", "warn bold"), said])
