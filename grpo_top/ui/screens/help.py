"""The keys of the screen that it was called from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from grpo_top.snapshot import Status
from grpo_top.ui.glyphs import STATUS_ROLES, glyphs_of
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import ClassVar

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from grpo_top.ui.keys import Key
    from grpo_top.ui.widgets.strips import Run


_MARKS = (
    (Status.OK, "ok"),
    (Status.WATCH, "past its limit, not for long"),
    (Status.WARN, "warn"),
    (Status.FAIL, "fail"),
    (Status.INFO, "remark"),
    (Status.UNKNOWN, "unknown"),
)


class KeyTable(Rows):
    """One key a row, with what it does; then what the marks mean."""

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = [key for key in keys if key.shown]
        self._top = 0

    def shift(self, by: int) -> None:
        """Move the table, where it is longer than the window."""
        self._top = max(0, min(self._top + by, self.rows_needed - self.size.height))
        self.redraw()

    def on_mouse_scroll_down(self) -> None:
        """The wheel scrolls."""
        self.shift(1)

    def on_mouse_scroll_up(self) -> None:
        """The wheel scrolls."""
        self.shift(-1)

    def make_rows(self, width: int, height: int) -> list[list[Run]]:  # noqa: ARG002
        """The table."""
        glyphs = glyphs_of(self.app)
        rows: list[list[Run]] = [
            [(f"{key.label(glyphs):<9}", "accent bold"), (glyphs.plain(key.what or key.word), "text")]
            for key in self._keys
        ]
        marks = [
            run
            for status, meaning in _MARKS
            for run in ((f"{glyphs.mark(status)} ", STATUS_ROLES[status]), (f"{meaning}  ", "dim"))
        ]
        return [*rows, [], marks][self._top :]

    @property
    def rows_needed(self) -> int:
        """How many rows the whole table takes."""
        return len(self._keys) + 2


class HelpScreen(ModalScreen[None]):
    """Lies over a screen until any of its keys closes it."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background; }
    HelpScreen KeyTable { width: 78; max-width: 100%; max-height: 100%; background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,question_mark,f1,enter", "dismiss", "close"),
        ("down,j", "scroll_table(1)", "down"),
        ("up,k", "scroll_table(-1)", "up"),
    ]

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._table = KeyTable(keys)

    def action_scroll_table(self, by: int) -> None:
        """Move the table, where it is longer than the window."""
        self._table.shift(by)

    def compose(self) -> ComposeResult:
        """The table, as tall as it needs."""
        self._table.styles.height = self._table.rows_needed
        yield self._table
