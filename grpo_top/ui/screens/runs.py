"""The table of runs: where a place holds several, one sees how each stands and opens one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Container
from textual.screen import Screen

from grpo_top.snapshot import Status
from grpo_top.sources.names import natural_key
from grpo_top.ui.evidence.layout import keep_seen
from grpo_top.ui.keys import COMMANDS_KEY, HELP_KEY, QUIT_KEY, Key, as_set, bindings
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


class RunsScreen(Screen[None]):
    """Every run of the place, one a row."""

    DEFAULT_CSS = """
    RunsScreen { background: $background; }
    RunsScreen > #title { height: 1; background: $surface; }
    RunsScreen > #table { height: 1fr; }
    RunsScreen > KeyLine { height: 1; }
    """

    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("up,k", "move(-1)", "↑↓", "run", "the run above or below"),
        Key("down,j", "move(1)"),
        Key("enter", "open", "enter", "open", "open the run; backspace comes back"),
        Key("o", "order", "o", "order", "newest first, worst first, by name"),
        Key("pageup", f"move(-{_PAGE})", "pgup", "", "ten runs up or down"),
        Key("pagedown", f"move({_PAGE})"),
        Key("home", "move(-1000000)", "home", "", "the first or the last run"),
        Key("end", "move(1000000)"),
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
        self._sort()

    def compose(self) -> ComposeResult:
        """The title, the table with what is said of the selected run, the keys."""
        with Container(id="title"):
            yield Canvas(self._title)
        with Container(id="table"):
            yield Canvas(self._draw)
        yield KeyLine()

    def on_mount(self) -> None:
        """Write the keys."""
        self.query_one(KeyLine).show(as_set(self.KEYS, self._app.settings.keys))

    def keys(self) -> Sequence[Key]:
        """The keys of this screen, for the help."""
        return self.KEYS

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
        return self._states[self._keys[self._at]] if self._keys else None

    def action_move(self, by: int) -> None:
        """Select another run."""
        if self._keys:
            self._selected = self._keys[min(max(self._at + by, 0), len(self._keys) - 1)]
            if self._app.several is not None:
                self._app.several.want(self._states[self._selected].run)
            self.draw()

    def action_order(self) -> None:
        """Sort the runs otherwise; the selected one stays selected."""
        self._order = (self._order + 1) % len(_ORDERS)
        if self._keys:
            self._selected = self._keys[self._at]
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
        if event.y < 1 or row >= min(len(self._keys), self._top + self._room(self._table.size.height)):
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
        return self._keys.index(self._selected) if self._selected in self._keys else 0

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
        states = [self._states[key] for key in self._keys]
        if not states:
            return [[(f"  {glyphs.unknown} no run is here any more", "info")]]
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
