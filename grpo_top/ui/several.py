"""The runs of a place that holds several: the table of them, and the way into one and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.config import Settings
    from grpo_top.monitor import Monitor
    from grpo_top.overview import LiveOverview, Overview, RunState
    from grpo_top.runs import FoundRun
    from grpo_top.ui.app import GrpoTop
    from grpo_top.ui.screens.runs import RunsScreen


AGE_SECONDS = 0.9
"""From which on an age is told anew, once a second: the timer may be a little early."""


class Several:
    """Holds how each run stands, read in turn while none of them is open.

    Args:
        app: whose screens these are.
        open_monitor: makes a monitor of the whole place.
        open_run: makes the monitor of one run, for its whole picture or for its row, and says what is set for it.
    """

    def __init__(
        self,
        app: GrpoTop,
        open_monitor: Callable[[], Monitor],
        open_run: Callable[[FoundRun, bool], tuple[Monitor, Settings]],
    ) -> None:
        self._app = app
        self._place = app.where
        self._open_monitor = open_monitor
        self._open_run = open_run
        self._states: tuple[RunState, ...] = ()
        self._overview: Overview | None = None
        self._live: LiveOverview | None = None
        self._opened: FoundRun | None = None
        """The run that is open, or being opened."""
        self._known: set[str] = set()
        """Keys of the runs that were there when the one that is open was opened, and of those named since."""
        self.drawn = 0.0
        """When the table was last drawn, by the clock."""

    @property
    def screen(self) -> RunsScreen | None:
        """The table, where it is on top."""
        if self._live is None or not self._app.screen_stack:
            return None
        from grpo_top.ui.screens.runs import RunsScreen

        top = self._app.screen_stack[-1]
        return top if isinstance(top, RunsScreen) else None

    @property
    def can_be_shown(self) -> bool:
        """Whether there is a table to go to from here."""
        if self.screen is not None:
            return False
        watched = self._app.watched
        return self._live is not None or (watched is not None and watched.selection.several)

    def list(self, finder: Monitor | None = None) -> None:
        """Find the runs and make the table. Called on a thread of its own, beside the frame that is shown."""
        from grpo_top.overview import Overview

        monitor = finder or self._open_monitor()
        overview = Overview(monitor, lambda found: self._open_run(found, False)[0], self._app.now)
        if self._app.is_running:
            self._app.call_from_thread(self._listed, overview, _not_found(monitor))

    def show(self) -> None:
        """Leave the run that is open for the table."""
        from grpo_top.ui.screens.runs import RunsScreen

        app = self._app
        while len(app.screen_stack) > 1 and not isinstance(app.screen, RunsScreen):
            app.pop_screen()
        snapshot = app.end_run()
        if self._live is None:
            app.run_worker(self.list, thread=True)
            return
        from grpo_top.overview import state_of

        known = next((state for state in self._states if state.run == self._opened), None)
        self._go_on(None if known is None else state_of(known.run, known.written, snapshot))

    def open(self, found: FoundRun) -> None:
        """Open a run of the table; the others wait."""
        if self._opened is None and self._live is not None:
            self._opened = found
            self._live.rest()
            self._app.run_worker(lambda: self._load(found), thread=True)

    def want(self, found: FoundRun) -> None:
        """Read a run before the others, since one looks at it."""
        if self._overview is not None:
            self._overview.wanted = found.key

    def tick(self) -> None:
        """Draw what is new of the table at once, how old the rest is by now once a second; else name new runs."""
        if (screen := self.screen) is None:
            self._tell()
        elif screen.differs(self._states) or abs(self._app.now() - self.drawn) >= AGE_SECONDS:
            self.drawn = self._app.now()
            error = None if self._live is None else self._live.error
            screen.show(self._states, "" if error is None else str(error) or type(error).__name__)

    def stop(self) -> None:
        """End the reading."""
        if self._live is not None and self._live.is_alive():
            self._live.stop()

    def _listed(self, overview: Overview, not_found: str) -> None:
        from grpo_top.overview import LiveOverview
        from grpo_top.ui.screens.runs import RunsScreen

        self._overview, self._states = overview, overview.states
        self._live = LiveOverview(overview, self._take)
        self._app.hold(RunsScreen(self._place, self._states))
        self._app.call_after_refresh(self._live.start)
        if not_found:
            self._app.notify(safe(not_found), severity="warning", markup=False)

    def _take(self, states: tuple[RunState, ...]) -> None:
        self._states = states
        self._app.tell_newer()

    def _load(self, found: FoundRun) -> None:
        """Make what reads a run, on a thread of its own."""
        from grpo_top.ui.screens.monitor import MonitorScreen

        app = self._app
        try:
            monitor, settings = self._open_run(found, True)
            first = monitor.snapshot()
        except Exception as error:  # whatever stands in the way is said, and the table stays
            app.call_from_thread(self._not_opened, str(error) or type(error).__name__)
            return
        if app.is_running:
            app.call_from_thread(app.begin_run, first, monitor, MonitorScreen(), settings)

    def _not_opened(self, why: str) -> None:
        self._app.notify(safe(why), severity="error", markup=False)
        self._go_on(None)

    def _go_on(self, state: RunState | None) -> None:
        self._opened = None
        self._known = set()
        if self._live is not None:
            self._live.go_on(state)

    def _tell(self) -> None:
        """Name a run that begins beside the one that is open."""
        watched = self._app.watched
        if watched is None:
            return
        names = {run.key: run.name for run in watched.selection.runs.all}
        new = names.keys() - self._known
        if new and self._known and watched.selection.several:
            others = ", ".join(safe(names[key]) for key in sorted(new))
            self._app.notify(f"{others}: another run has begun here; backspace shows them all", markup=False)
        self._known |= new


def _not_found(monitor: Monitor) -> str:
    """Why the run that was asked for is not there; empty where none was, or it is."""
    wanted = monitor.selection.wanted
    if wanted is None:
        return ""
    try:
        monitor.selection.runs.named(wanted)
    except ValueError as error:
        return str(error)
    return ""
