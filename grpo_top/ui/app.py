"""The Textual app: holds the view that every screen draws, and the monitor that brings newer ones.

What the first frame does not need is imported after it, in `_load`: a user sees at once that grpo-top has started.
"""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.events import Event, InputEvent, Key
from textual.message import Message
from textual.worker import WorkerFailed

from grpo_top.defects import described
from grpo_top.leaving import raise_it, status_of
from grpo_top.text import safe
from grpo_top.ui.glyphs import UNICODE, Glyphs
from grpo_top.ui.going import Going
from grpo_top.ui.keys import APP_KEYS, RUNS_KEY, bindings
from grpo_top.ui.screens.opening import OpeningScreen
from grpo_top.ui.several import AGE_SECONDS, Several
from grpo_top.ui.theme import ANSI_NAME, DARK_NAME, THEMES
from grpo_top.ui.update import only_changed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType
    from textual.binding import BindingType
    from textual.driver import Driver
    from textual.screen import Screen

    from grpo_top.config import Settings
    from grpo_top.monitor import LiveMonitor, Monitor
    from grpo_top.runs import FoundRun
    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.screens.base import RunScreen
    from grpo_top.ui.screens.runs import RunsScreen
    from grpo_top.ui.view import View

WRONG = 2
"""The exit status where what is to be opened cannot be."""
_CLOCK_SECONDS = 1.0
"""Between two looks at the clock: how old the newest record is changes by itself, and is all that does."""
_LEAVE = ("quit", "ctrl+c")
_OF_NO_RUN = (*_LEAVE, "help", "command_palette", "change_theme", "back")
"""Actions that the table of runs has as well."""


class GrpoTop(Going):
    """A run on the screen.

    Args:
        first: the picture to begin with; without it, `open_monitor` brings one once the first frame is there.
        monitor: what brings newer ones; without it `first` is shown, and what `take` is given.
        open_monitor: makes the monitor.
        open_run: makes the monitor of one of several runs, for its `whole` picture or for its row in the table, and
            says what is set for it.
        where: what is being opened, for the first frame.
        settings: what the user has set; the screens show it beside the rules.
        glyphs: the set of marks to draw with.
        theme: a name of `THEMES`.
        redraws_per_second: how often a newer picture is drawn at most.
        clock: seconds since the epoch.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(APP_KEYS, (RUNS_KEY,)),
        ("backspace", "back", "back"),  # where there is no table of runs to go to
        ("ctrl+c", "quit", "quit"),
    ]
    ALLOW_SELECT: ClassVar[bool] = False
    TITLE = "grpo-top"
    CSS = """
    CommandPalette { background: $background; }
    CommandPalette > Vertical { margin-top: 0; background: $surface; }
    CommandPalette #--input { border: none; }
    CommandPalette #--input.--list-visible { border: none; }
    CommandPalette CommandList { text-wrap: nowrap; text-overflow: ellipsis; max-height: 80vh; }
    CommandPalette SearchIcon, CommandPalette LoadingIndicator { display: none; }
    """

    class Newer(Message):
        """A newer picture was handed over."""

    def __init__(
        self,
        first: Snapshot | None = None,
        monitor: Monitor | None = None,
        *,
        open_monitor: Callable[[], Monitor] | None = None,
        open_run: Callable[[FoundRun, bool], tuple[Monitor, Settings]] | None = None,
        where: Sequence[str] = (),
        settings: Settings | None = None,
        glyphs: Glyphs = UNICODE,
        theme: str = DARK_NAME,
        redraws_per_second: float = 4,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(ansi_color=True if theme == ANSI_NAME else None)
        self.glyphs = glyphs
        self.where = tuple(where) if monitor is None else monitor.where
        self._settings = settings
        self._open_monitor = open_monitor
        self._clock = clock
        self._period = 1 / redraws_per_second
        self._loop_here: asyncio.AbstractEventLoop | None = None
        self.failed = False
        """Whether an error of our own ended it."""
        self._live: LiveMonitor | None = None
        self._opening: Monitor | None = None
        """The monitor that looks for what there is."""
        self._bottom = 1
        """Screens that are never left: the monitor, and the first frame under it."""
        self._view: View | None = None
        if first is not None:
            self._begin(first, monitor)
        self.several: Several | None = None
        """The runs of the place, where one of several can be opened."""
        if open_monitor is not None and open_run is not None:
            self.several = Several(self, open_monitor, open_run)
        self._presented = 0.0
        """When the view was last drawn, by the clock; `_told`: or the title alone."""
        self._told = 0.0
        self._is_due = False
        """Whether something newer is drawn in a moment."""
        for own in THEMES.values():
            self.register_theme(own)
        self.theme = theme
        self.animation_level = "none"

    @property
    def view(self) -> View:
        """What every screen draws; there is one as soon as there is a screen to draw it."""
        if self._view is None:
            raise RuntimeError("nothing has been opened yet")
        return self._view

    @property
    def settings(self) -> Settings:
        """What the user has set; the screens show it beside the rules."""
        if self._settings is None:
            from grpo_top.config import Settings

            self._settings = Settings()
        return self._settings

    def take(self, snapshot: Snapshot) -> None:
        """Take a newer picture; the next redraw shows it. Safe from any thread."""
        self._newest = snapshot
        self.tell_newer()

    def tell_newer(self) -> None:
        """Have what is newer drawn. Safe from any thread."""
        if self._loop_here is not None:
            self.post_message(self.Newer())

    def leave(self, number: int) -> None:
        """End because of a signal. Called where the signal came, in the middle of anything."""
        if self._loop_here is None:
            raise_it(number)
        else:
            self._loop_here.call_soon_threadsafe(self.exit, None, status_of(number))

    def get_default_screen(self) -> Screen[None]:
        """The monitor lies under everything else, once there is something to show."""
        if self._view is None:
            return OpeningScreen(self.where, lambda: 0 if self._opening is None else self._opening.looked_at)
        from grpo_top.ui.screens.monitor import MonitorScreen

        return MonitorScreen()

    def get_driver_class(self) -> type[Driver]:
        """How the terminal is spoken to."""
        found = super().get_driver_class()
        if found.__name__ != "LinuxDriver":  # as its module is named, which cannot be imported everywhere
            return found
        from grpo_top.ui.quiet_input import QuietInput

        return QuietInput

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The palette's roles for CSS, where a theme of Textual's own is shown."""
        return {**super().get_theme_variable_defaults(), **THEMES[DARK_NAME].variables}

    def on_mount(self) -> None:
        """Begin to read once the first frame is there."""
        self._loop_here = asyncio.get_running_loop()
        if self.settings.keys:
            self.set_keymap(self.settings.keys)
        self.set_interval(_CLOCK_SECONDS, self._tick)
        if self._live is not None:
            self.call_after_refresh(self._live.start)
        elif self._open_monitor is not None:
            self.call_after_refresh(self.run_worker, self._load, thread=True)

    def on_unmount(self) -> None:
        """End the reading."""
        if self._live is not None and self._live.is_alive():
            self._live.stop()
        if self.several is not None:
            self.several.stop()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Until something is open, one can only leave; on the table of runs, what is of no one run."""
        if action == "runs":
            return self.has_runs
        if self._runs_screen is not None:
            return action in _OF_NO_RUN
        return self._view is not None or action in _LEAVE

    @property
    def shows_run(self) -> bool:
        """Whether a run is open, and not the table of runs on top of it."""
        return self._view is not None and self._runs_screen is None

    async def action_back(self) -> None:
        """Leave the top screen, never the monitor."""
        if len(self.screen_stack) > self._bottom:
            self.pop_screen()

    @property
    def has_runs(self) -> bool:
        """Whether there is a table of runs to go to from here."""
        return self.several is not None and self.several.can_be_shown

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()

    def action_runs(self) -> None:
        """Leave the run for the table of all runs of the place."""
        if self.several is not None:
            self.several.show()

    def hold(self, screen: Screen[None]) -> None:
        """Show a screen that `esc` does not leave."""
        self._bottom = len(self.screen_stack) + 1
        self.push_screen(screen)

    def begin_run(
        self, first: Snapshot, monitor: Monitor, screen: Screen[None], settings: Settings | None = None
    ) -> None:
        """Show a run on the screen that was made for it, and read on."""
        self._settings = settings or self._settings
        self.set_keymap(self.settings.keys)
        self.where = monitor.where
        self._begin(first, monitor)
        self.hold(screen)
        if self._live is not None:
            screen.call_after_refresh(self._live.start)

    def end_run(self) -> Snapshot:
        """Read no more of the run; the newest picture of it."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        return self._newest

    @property
    def watched(self) -> Monitor | None:
        """The monitor of the run that is open and being followed."""
        return self._live.monitor if self._live is not None and self._live.is_alive() else None

    @property
    def _runs_screen(self) -> RunsScreen | None:
        """The table of runs, where it is on top."""
        return None if self.several is None else self.several.screen

    @property
    def keyed_screen(self) -> RunScreen | RunsScreen | None:
        """The screen on top, where it has a table of keys."""
        return self._run_screen or self._runs_screen

    @property
    def _run_screen(self) -> RunScreen | None:
        """The screen on top, where it is one that shows the run."""
        from grpo_top.ui.screens.base import RunScreen

        top = self.screen_stack[-1] if self.screen_stack else None  # none while the app is ending
        return top if isinstance(top, RunScreen) else None

    def _load(self) -> None:
        """Import what the screens need and open what was asked for, beside the first frame."""
        from grpo_top.ui.screens.monitor import MonitorScreen

        if self._open_monitor is None:
            return
        try:
            monitor = self._opening = self._open_monitor()
            monitor.look()
            gc.freeze()  # modules and classes, which every collection would go through again
        except (ValueError, OSError) as error:  # the command line is wrong, and that is all there is to say
            self.call_from_thread(self.exit, None, WRONG, Text(f"grpo-top: {safe(str(error))}"))
            return
        self._opening = None
        if self.several is not None and monitor.selection.several and not monitor.selection.is_chosen:
            self.several.list(monitor)
            return
        first = monitor.snapshot()
        if self.is_running:
            self.call_from_thread(self.begin_run, first, monitor, MonitorScreen())

    def _begin(self, first: Snapshot, monitor: Monitor | None) -> None:
        from grpo_top.monitor import LiveMonitor
        from grpo_top.ui.view import View

        self._newest = first
        self._view = View(first, None, self._clock())
        self._live = None if monitor is None else LiveMonitor(monitor, self.take)

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Send what has changed on the screen to the terminal."""
        super()._display(screen, only_changed(renderable))

    def _fatal_error(self) -> None:
        """Say what failed and where; Textual's own message quotes variables, which hold what a model wrote."""
        if self.failed:
            return  # what fails in the wake of it says nothing new
        self.failed = True
        error: BaseException | None = self._exception
        if isinstance(error, WorkerFailed):
            error = error.error
        if error is not None:
            self.panic(Text(described("the screen", error, "failed")))

    def look(self, **how: Any) -> None:
        """Draw the view otherwise: at another `cursor`, through another `lens`."""
        self._present(replace(self.view, now=self._clock(), **how))

    def _tick(self) -> None:
        """Draw what is newer: a newly judged step at once, what else has changed once a second.

        While a log is caught up with, its steps but the first as well: drawing takes as long as reading a step.
        """
        if self.several is not None:
            self.several.tick()
        if self._view is None or self._runs_screen is not None:
            return
        error = str(self._live.error) if self._live is not None and self._live.error is not None else ""
        is_new = self._newest is not self._view.snapshot or error != self._view.error
        if not is_new and abs(self._clock() - self._told) < AGE_SECONDS:
            return
        view = replace(self._view, snapshot=self._newest, now=self._clock(), error=error)
        before = self.view.snapshot.judged_step
        judged = view.snapshot.judged_step != before and (before is None or view.snapshot.reading is None)
        stale = view.key != self.view.key and abs(view.now - self._presented) >= 1
        if judged or stale or view.error != self.view.error:
            self._present(view)
        elif abs(view.now - self._told) >= AGE_SECONDS and (screen := self._run_screen) is not None:
            self._told = view.now
            self._view = view
            screen.refresh_title(view)

    def on_grpo_top_newer(self) -> None:
        """Draw it now; where something was drawn just before, once the time between two drawings is over."""
        drawn = self._presented if self.several is None or self._runs_screen is None else self.several.drawn
        rest = self._period - abs(self._clock() - drawn)
        if rest <= 0:
            self._tick()
        elif not self._is_due:
            self._is_due = True
            self.set_timer(rest, self._draw_what_is_due)

    def _draw_what_is_due(self) -> None:
        self._is_due = False
        self._tick()

    async def on_event(self, event: Event) -> None:
        """Let a key or the mouse be answered before anything more is read."""
        if isinstance(event, InputEvent):
            if self._is_early(event):
                return
            self._hold_reading()
        await super().on_event(event)

    def _is_early(self, event: Event) -> bool:
        """Whether a key was typed ahead, for a screen that is not there yet: it comes again once it is."""
        screen = self._run_screen
        if not isinstance(event, Key) or screen is None or screen.is_whole:
            return False
        screen.call_after_refresh(self.post_message, event)
        return True

    def _hold_reading(self) -> None:
        """Read on when what is to be drawn has been drawn."""
        if self._live is not None:
            self._live.hold()
            self.call_after_refresh(self._live.go_on)

    def _leave_rows(self) -> None:
        """Leave what stands on rollouts of a run that is read anew, and what lies above it."""
        stack = self.screen_stack
        at = next((at for at, screen in enumerate(stack) if getattr(screen, "OF_ROWS", False)), len(stack))
        for _ in stack[at:]:
            self.pop_screen()
        if at < len(stack):
            self.notify("the log was written anew: all of it is read again", markup=False)

    def _present(self, view: View) -> None:
        if self._view is not None and view.snapshot.epoch != self._view.snapshot.epoch:
            self._leave_rows()
        self._view = view
        self._presented = self._told = view.now
        self._hold_reading()
        if (screen := self._run_screen) is not None:
            screen.present(view)
