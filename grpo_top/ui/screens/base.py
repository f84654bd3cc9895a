"""What every screen shares: the title, the triage strip, a body, and the keys of where one is."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Container

from grpo_top.ui.cell_screen import CellScreen
from grpo_top.ui.keys import APP_KEYS, Key, as_set
from grpo_top.ui.widgets.footer import KeyLine
from grpo_top.ui.widgets.title import TitleLine
from grpo_top.ui.widgets.triage_strip import TriageStrip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from grpo_top.ui.app import GrpoTop
    from grpo_top.ui.view import View


_LOW = 9
"""Rows below which the body needs those of the title and the triage strip."""


class RunScreen(CellScreen):
    """A screen over a run. A subclass composes `body`, draws in `show` and lists its keys in `KEYS`.

    Its bindings come from the same table: `BINDINGS = bindings(KEYS)`.
    """

    DEFAULT_CSS = """
    RunScreen > TitleLine, RunScreen > TriageStrip, RunScreen > KeyLine { height: 1; }
    RunScreen > #body { height: 1fr; }
    RunScreen.-low > TitleLine, RunScreen.-low > TriageStrip { display: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (_LOW, "-high")]  # noqa: RUF012  declared so by Textual

    KEYS: ClassVar[tuple[Key, ...]] = APP_KEYS
    NAME: ClassVar[str] = ""
    """What the help calls it."""
    OF_ROWS: ClassVar[bool] = False
    """It stands on single rollouts, and is left when the run is read anew: their rows are other ones then."""
    _is_whole = False
    """Whether every widget is there, those inside others as well, so that there is something to draw on."""

    def compose(self) -> ComposeResult:
        """The shared lines around the body."""
        yield TitleLine()
        yield TriageStrip()
        with Container(id="body"):
            yield from self.body()
        yield KeyLine()

    def body(self) -> ComposeResult:
        """The widgets between the triage strip and the footer."""
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Draw a view: called with every newer Snapshot, when the cursor moves and when the screen is shown again."""
        raise NotImplementedError

    def keys(self) -> Sequence[Key]:
        """The keys of where one is now, in the footer's order; `KEYS` unless it depends on something."""
        return self.KEYS

    @property
    def grpo_top(self) -> GrpoTop:
        """The app, which holds the view and the time cursor."""
        return cast("GrpoTop", self.app)

    def present(self, view: View) -> None:
        """Draw the shared lines and the body; the app calls it. A screen that is not there yet does it on resume."""
        if not self._is_whole:
            return
        with self.unsent.gathered():
            self.query_one(TitleLine).show(view)
            self.query_one(TriageStrip).show(view)
            self.show(view)
            self.refresh_keys()

    def refresh_title(self, view: View) -> None:
        """Draw how fresh the data is; the app calls it while nothing else is new."""
        if self._is_whole:
            for title in self.query(TitleLine):  # none, where the screen is on its way out
                title.show(view)

    @property
    def is_whole(self) -> bool:
        """Whether it has been drawn, so that keys mean something."""
        return self._is_whole

    def refresh_keys(self) -> None:
        """Write the footer anew, after something that `keys` depends on has changed."""
        self.query_one(KeyLine).show(as_set(self.keys(), self.grpo_top.settings.keys))

    def on_screen_resume(self) -> None:
        """Draw what happened while another screen was on top."""
        if self._is_whole and self.is_current:  # it may have been left meanwhile
            self.present(self.grpo_top.view)
        elif not self._is_whole:
            self.call_after_refresh(self._present_first)

    def _present_first(self) -> None:
        self._is_whole = True
        self.present(self.grpo_top.view)
