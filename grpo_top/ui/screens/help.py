"""The keys of the screen that it was called from, and what its marks and words mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from grpo_top.snapshot import Status
from grpo_top.ui.glyphs import STATUS_ROLES, glyphs_of
from grpo_top.ui.keys import APP_KEYS, CHART_KEYS, TIME_KEYS
from grpo_top.ui.widgets.rows import Rows
from grpo_top.ui.widgets.runs import cut, ends

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import ClassVar

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.keys import Key
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_MARKS = (
    (Status.OK, "ok"),
    (Status.WATCH, "past its limit, not for long"),
    (Status.WARN, "warn"),
    (Status.FAIL, "fail"),
    (Status.INFO, "remark"),
    (Status.UNKNOWN, "unknown"),
)
_WORDS = (
    ("20 steps", "the mean of the last 20 steps, which most rules judge"),
    ("Δ20", "that mean less the mean of the 20 steps before it; pt is percentage points"),
    ("before", "the 20 steps before the first cause; early: the first 20, where all is well"),
    ("flat", "all rewards of a group are equal, so that it teaches nothing"),
    ("┊", "where the first cause began, in every chart"),
)
_TIME = {key.action for key in (*TIME_KEYS, *CHART_KEYS)}
_EVERYWHERE = {key.action for key in APP_KEYS}
_LABEL = 10


def sections(keys: Sequence[Key]) -> list[tuple[str, list[Key]]]:
    """The keys that are shown: those of the screen, those of time and charts, and those that work everywhere."""
    shown = [key for key in keys if key.shown]
    time = [key for key in shown if key.action in _TIME]
    everywhere = [key for key in shown if key.action in _EVERYWHERE]
    here = [key for key in shown if key not in time and key not in everywhere]
    parts = (("here", here), ("time and charts", time), ("everywhere", everywhere))
    return [(title, part) for title, part in parts if part]


class KeyTable(Rows):
    """One key a row, with what it does; then what the marks mean, and the words where there is room for them."""

    def __init__(self, keys: Sequence[Key], name: str) -> None:
        super().__init__()
        self._sections = sections(keys)
        self._name = name
        self._top = 0
        self._rows_in_all = 0

    def shift(self, by: int) -> None:
        """Move the table, where it is longer than the window."""
        self._top = max(0, min(self._top + by, self._rows_in_all - self.size.height + 1))
        self.redraw()

    def on_mouse_scroll_down(self) -> None:
        """The wheel scrolls."""
        self.shift(1)

    def on_mouse_scroll_up(self) -> None:
        """The wheel scrolls."""
        self.shift(-1)

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The table, as roomy as the window allows; where it is cut, its last row says how much is below."""
        glyphs = glyphs_of(self.app)
        head = ends(
            [(" Keys", "text bold"), (f"  {self._name}", "dim")],
            [("esc", "accent bold"), (" close ", "dim")],
            width,
            glyphs.ellipsis,
        )
        rows = next((rows for rows in self._layouts(glyphs) if len(rows) < height), self._keys(glyphs, False))
        self._rows_in_all = len(rows)
        room = max(height - 1, 0)
        shown = rows[self._top : self._top + room]
        if more := len(rows) - self._top - len(shown):
            shown[-1:] = [[(f"{more + 1} more ", "dim"), (glyphs.up_down, "accent bold")]]
        return [head, *(cut([(" ", ""), *row], width, glyphs.ellipsis) for row in shown)]

    def _layouts(self, glyphs: Glyphs) -> list[list[Row]]:
        """From the roomiest to the closest."""
        roomy, close = self._keys(glyphs, True), self._keys(glyphs, False)
        words: list[Row] = [_line(word, meaning, "text", glyphs) for word, meaning in _WORDS]
        return [[*roomy, [], [("words", "dim")], *words], roomy, close]

    def _keys(self, glyphs: Glyphs, roomy: bool) -> list[Row]:
        rows: list[Row] = []
        for title, keys in self._sections:
            if roomy:
                rows += [[], [(title, "dim")]]
            rows += [
                _line(key.label(glyphs), key.what or key.word, "accent bold", glyphs, plain=False)
                for key in keys
            ]
        marks = [
            run
            for status, meaning in _MARKS
            for run in ((f"{glyphs.mark(status)} ", STATUS_ROLES[status]), (f"{meaning}  ", "dim"))
        ]
        stage: Row = [
            (f"{glyphs.partly} ", "info"),
            ("a stage that is ok as far as it could be checked", "dim"),
        ]
        return [*rows, *([[], [("marks", "dim")]] if roomy else []), marks, stage]


def _line(label: str, meaning: str, role: str, glyphs: Glyphs, *, plain: bool = True) -> Row:
    label = glyphs.plain(label) if plain else label
    return [(f"{label:<{_LABEL}}", role), (glyphs.plain(meaning), "text")]


class HelpScreen(ModalScreen[None]):
    """Lies over a screen until any of its keys closes it."""

    DEFAULT_CSS = """
    HelpScreen { align: center top; background: $background; }
    HelpScreen KeyTable { width: 86; max-width: 100%; height: 100%; background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,question_mark,f1,enter,backspace", "dismiss", "close"),
        ("down,j", "scroll_table(1)", "down"),
        ("up,k", "scroll_table(-1)", "up"),
        ("pagedown,space", "scroll_table(10)", "a page down"),
        ("pageup", "scroll_table(-10)", "a page up"),
    ]

    def __init__(self, keys: Sequence[Key], name: str) -> None:
        super().__init__()
        self._table = KeyTable(keys, name)

    def action_scroll_table(self, by: int) -> None:
        """Move the table, where it is longer than the window."""
        self._table.shift(by)

    def compose(self) -> ComposeResult:
        """The table."""
        yield self._table
