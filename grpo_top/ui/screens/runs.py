"""The table of runs: where a place holds several, one sees how each stands and opens one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Container
from textual.screen import Screen

from grpo_top.snapshot import Status
from grpo_top.sources.names import natural_key
from grpo_top.ui.evidence.layout import keep_seen
from grpo_top.ui.keys import COMMANDS_KEY, HELP_KEY, QUIT_KEY, Key, as_set, bindings
from grpo_top.ui.widgets.ask_line import AskLine
from grpo_top.ui.widgets.canvas import Canvas
from grpo_top.ui.widgets.footer import KeyLine
from grpo_top.ui.widgets.runs_table import DETAIL_ROWS, ROWS_FOR_DETAIL, detail_rows, table_rows, title_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from grpo_top.overview import RunState
    from grpo_top.ui.app import GrpoTop
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_PAGE = 10
_ORDERS: tuple[tuple[str, Callable[[RunState], object]], ...] = (
    ("newest first", lambda state: -(state.written or 0.0)),
    ("worst first", lambda state: (state.status in (Status.UNKNOWN, Status.OK), -state.status)),
    ("by name", lambda state: natural_key(state.run.name)),
)
"""What `o` goes through. Rows move only when it is pressed: a run that comes later goes to the top."""


_WRITING = (
    Key("enter", "", "enter", "take it"),
    Key("escape", "leave", "esc", "all of them"),
)
"""Keys of the line in which one writes what to find."""


def _is_found(state: RunState, words: Sequence[str]) -> bool:
    """Whether all words are in what the table says of a run."""
    first = state.first_cause
    said = (
        state.run.name,
        state.name,
        state.framework or "",
        state.status.word,
        "" if first is None else first.id,
    )
    text = " ".join(said).lower()
    return all(word in text for word in words)


class RunsScreen(Screen[None]):
    """Every run of the place, one a row."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    RunsScreen { background: $background; }
    RunsScreen > #title { height: 1; background: $surface; }
    RunsScreen > #table { height: 1fr; }
    RunsScreen > KeyLine { height: 1; }
    """

    NAME: ClassVar[str] = "runs"
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("up,k", "move(-1)", "↑↓", "run", "the run above or below"),
        Key("down,j", "move(1)"),
        Key("enter", "open", "enter", "open", "open the run; backspace comes back"),
        Key("o", "order", "o", "order", "newest first, worst first, by name"),
        Key("slash", "search", "/", "find", "list only runs with these words: name, trainer, state, finding"),
        Key("escape", "leave", "esc", "", "list all of them again"),
        Key("pageup", f"move(-{_PAGE})", "pgup pgdn", "", "ten runs up or down"),
        Key("pagedown", f"move({_PAGE})"),
        Key("home,g", "move(-1000000)", "home end", "", "the first or the last run"),
        Key("end,G", "move(1000000)"),
        HELP_KEY,
        COMMANDS_KEY,
        QUIT_KEY,
    )
    BINDINGS = bindings(KEYS)

    def __init__(self, where: Sequence[str], states: Sequence[RunState]) -> None:
        super().__init__()
        self._where = tuple(where)
        self._shown: Sequence[RunState] = ()
        self._states: dict[str, RunState] = {state.run.key: state for state in states}
        self._keys: list[str] = []
        """The runs' keys in the order of the rows."""
        self._order = 0
        self._selected: str | None = None
        """Key of the selected run; None is the first row."""
        self._top = 0
        self._error = ""
        self._line = AskLine()
        self._sort()

    def compose(self) -> ComposeResult:
        """The title, the table with what is said of the selected run, the keys."""
        with Container(id="title"):
            yield Canvas(self._title)
        yield self._line
        with Container(id="table"):
            yield Canvas(self._draw)
        yield KeyLine()

    def on_mount(self) -> None:
        """Write the keys."""
        self._write_keys()

    def keys(self) -> Sequence[Key]:
        """The keys of this screen: while a word is written, they are letters."""
        return _WRITING if self._line.editing else self.KEYS

    def action_search(self) -> None:
        """Write what to find."""
        self._line.ask(value=self._line.input.value)
        self._write_keys()

    def on_input_changed(self) -> None:
        """List what is found while it is being written."""
        self._line.show([])
        self.draw()

    def on_input_submitted(self) -> None:
        """Give the keys back."""
        self.set_focus(None)
        self._write_keys()

    def action_leave(self) -> None:
        """List all of them again."""
        self.set_focus(None)
        self._line.input.value = ""
        self.on_input_changed()
        self._write_keys()

    def _write_keys(self) -> None:
        self.query_one(KeyLine).show(as_set(self.keys(), self._app.settings.keys))

    def differs(self, states: Sequence[RunState]) -> bool:
        """Whether these are others than are shown."""
        return states is not self._shown

    def show(self, states: Sequence[RunState], error: str = "") -> None:
        """Take newer states; rows stay in their places, new runs come on top."""
        self._error, self._shown = error, states
        self._states = {state.run.key: state for state in states}
        new = [state.run.key for state in states if state.run.key not in set(self._keys)]
        self._keys = [*new, *(key for key in self._keys if key in self._states)]
        self.draw()

    def draw(self) -> None:
        """Draw everything as it stands now."""
        for canvas in self.query(Canvas):
            canvas.redraw()

    @property
    def selected(self) -> RunState | None:
        """The selected run."""
        listed = self._listed
        return self._states[listed[self._at]] if listed else None

    def action_move(self, by: int) -> None:
        """Select another run."""
        listed = self._listed
        if listed:
            self._selected = listed[min(max(self._at + by, 0), len(listed) - 1)]
            if self._app.several is not None:
                self._app.several.want(self._states[self._selected].run)
            self.draw()

    def action_order(self) -> None:
        """Sort the runs otherwise; the selected one stays selected."""
        self._order = (self._order + 1) % len(_ORDERS)
        if (state := self.selected) is not None:
            self._selected = state.run.key
        self._sort()
        self.draw()
        self.notify(_ORDERS[self._order][0], timeout=2)

    def action_open(self) -> None:
        """Open the selected run."""
        if (state := self.selected) is not None and self._app.several is not None:
            self._app.several.open(state.run)

    def on_canvas_clicked(self, event: Canvas.Clicked) -> None:
        """A click selects a run; on the selected one it opens it."""
        row = event.y - 1 + self._top
        if event.y < 1 or row >= min(len(self._listed), self._top + self._room(self._table.size.height)):
            return
        if row == self._at:
            self.action_open()
        else:
            self.action_move(row - self._at)

    def on_canvas_wheeled(self, event: Canvas.Wheeled) -> None:
        """The wheel moves the selection."""
        self.action_move(1 if event.by > 0 else -1)

    @property
    def _app(self) -> GrpoTop:
        return cast("GrpoTop", self.app)

    @property
    def _table(self) -> Canvas:
        return self.query_one("#table Canvas", Canvas)

    @property
    def _at(self) -> int:
        listed = self._listed
        return listed.index(self._selected) if self._selected in listed else 0

    @property
    def _listed(self) -> list[str]:
        """The keys of the runs that are listed: all, or those that what is written finds."""
        words = self._line.input.value.lower().split()
        return [key for key in self._keys if not words or _is_found(self._states[key], words)]

    def _sort(self) -> None:
        sign = _ORDERS[self._order][1]
        self._keys = sorted(self._states, key=lambda key: sign(self._states[key]))  # type: ignore[arg-type, return-value]

    def _room(self, height: int) -> int:
        """Rows of the table without its heading."""
        return max(height - 1 - (DETAIL_ROWS + 1 if height >= ROWS_FOR_DETAIL else 0), 1)

    def _now(self) -> float:
        return self._app.now()

    def _title(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:  # noqa: ARG002
        states = list(self._states.values())
        return [title_row(self._where, states, self._now(), width, glyphs, self._error)]

    def _draw(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        states = [self._states[key] for key in self._listed]
        if not states:
            why = "no run has these words" if self._keys else "no run is here any more"
            return [[(f"  {glyphs.unknown} {why}", "info")]]
        room, at = self._room(height), self._at
        self._top = max(0, min(keep_seen(self._top, at, at, room), len(states) - room))
        shown = range(self._top, min(self._top + room, len(states)))
        rows = table_rows(states, shown, at, self._now(), width, glyphs)
        if height < ROWS_FOR_DETAIL:
            return rows
        below = len(states) - shown.stop
        rule: Row = [("─" * width if not glyphs.ascii else "-" * width, "border")]
        if below > 0:
            words = f" {below} more "
            rule = [
                (rule[0][0][: width - len(words) - 2], "border"),
                (words, "dim"),
                (rule[0][0][:2], "border"),
            ]
        rows += [[] for _ in range(room + 1 - len(rows))]
        return [*rows, rule, *detail_rows(states[at], width, glyphs)]
