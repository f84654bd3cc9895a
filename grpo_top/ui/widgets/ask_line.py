"""A line in which one writes something short: what to search for, a number, a note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.widgets import Input

from grpo_top.ui.widgets.filter_line import Said

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from grpo_top.ui.widgets.runs import Row


class AskLine(Horizontal):
    """An input, a label before it and words after it; it is seen while something is being written, or stands in it."""

    DEFAULT_CSS = """
    AskLine { height: 1; display: none; background: $surface; }
    AskLine.-shown { display: block; }
    AskLine .label { width: 3; }
    AskLine Input { width: 1fr; min-width: 16; max-width: 60; height: 1; border: none; padding: 0;
        background: $surface; background-tint: $surface 0%; }
    AskLine .words { width: 1fr; }
    """

    def __init__(self, label: str = "/") -> None:
        super().__init__()
        self._label = Said([(f" {label}", "accent bold")])
        self._label.add_class("label")
        self._label.styles.width = len(label) + 2
        self._words = Said()
        self._words.add_class("words")
        self.input = Input(compact=True)
        self.input.cursor_blink = False

    def compose(self) -> ComposeResult:
        """The line."""
        yield self._label
        yield self.input
        yield self._words

    @property
    def editing(self) -> bool:
        """Whether keys go into the input."""
        return self.screen.focused is self.input

    def ask(self, label: str = "", value: str = "") -> None:
        """Begin to write, with something there already."""
        if label:
            self._label.styles.width = len(label) + 2
            self._label.show([(f" {label}", "accent bold")])
        self.add_class("-shown")
        self.input.value = value
        self.input.cursor_position = len(value)
        self.screen.set_focus(self.input)

    def show(self, words: Row) -> None:
        """Say something beside it; nothing written and nothing being written hides the line."""
        self.set_class(self.editing or bool(self.input.value), "-shown")
        self._words.show([("  ", ""), *words])
