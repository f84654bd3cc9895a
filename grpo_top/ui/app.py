"""The Textual app: holds the view that every screen draws, and the monitor that brings newer ones.

What the first frame does not need is imported after it, in `_load`: a user sees at once that grpo-top has started.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand

from grpo_top.formats.fleet_queries import NO_FLEETS
from grpo_top.text import safe
from grpo_top.ui.glyphs import ASCII, UNICODE, Glyphs
from grpo_top.ui.keys import APP_KEYS, RUNS_KEY, bindings
from grpo_top.ui.screens.opening import OpeningScreen
from grpo_top.ui.theme import ANSI_NAME, DARK_NAME, LIGHT_NAME, THEMES, choose_theme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from textual.binding import BindingType
    from textual.screen import Screen

    from grpo_top.config import Settings
    from grpo_top.formats.fleet_queries import Fleets
    from grpo_top.monitor import LiveMonitor, Monitor
    from grpo_top.overview import Overview
    from grpo_top.runs import FoundRun
    from grpo_top.snapshot import Snapshot
    from grpo_top.sources.http import Network
    from grpo_top.ui.screens.base import RunScreen
    from grpo_top.ui.screens.runs import RunsScreen
    from grpo_top.ui.several import Several
    from grpo_top.ui.view import View

_STDIN = 0
_LEAVE = ("quit", "ctrl+c")
_OF_NO_RUN = (*_LEAVE, "help", "command_palette", "change_theme", "back")
"""Actions that the table of runs has as well."""
_THEME_NAMES = {"dark": DARK_NAME, "light": LIGHT_NAME, "ansi": ANSI_NAME}


def run(
    where: Sequence[str],
    settings: Settings,
    *,
    format_name: str | None,
    ascii_only: bool,
    theme: str | None,
    network: Callable[[], Network] | None = None,
    samplers: Sequence[str] = (),
    fleets: Fleets = NO_FLEETS,
    which: str | None = None,
    one_run: bool = False,
    settings_of: Callable[[FoundRun], Settings] | None = None,
) -> int:
    """Show a run until the user leaves; the exit status.

    Args:
        where: what to look at; where it holds several runs, a table of them is shown.
        settings: what the user has set.
        format_name: the one format that may claim a file.
        ascii_only: draw with ASCII alone.
        theme: `dark`, `light` or `ansi`.
        network, samplers, fleets, one_run: as `Monitor` takes them.
        which: the run to open of several.
        settings_of: what is set for one of several runs.
    """

    def open_monitor() -> Monitor:
        from grpo_top.grade_store import GradeStore
        from grpo_top.monitor import Monitor

        return Monitor(
            where,
            settings,
            format_name=format_name,
            grades=GradeStore(),
            network=network,
            samplers=samplers,
            fleets=fleets,
            run=which,
            one_run=one_run,
        )

    def open_run(found: FoundRun, whole: bool) -> tuple[Monitor, Settings]:
        from grpo_top.grade_store import GradeStore
        from grpo_top.monitor import Monitor
        from grpo_top.sources.urls import is_url

        own = settings if settings_of is None else settings_of(found)
        if not whole:
            return Monitor(found.where, own, format_name=format_name, run=found.pick), own
        monitor = Monitor(
            [*found.where, *filter(is_url, where)],
            own,
            format_name=format_name,
            grades=GradeStore(),
            network=network,
            samplers=samplers,
            fleets=fleets,
            run=found.pick,
        )
        return monitor, own

    app = GrpoTop(
        open_monitor=open_monitor,
        open_run=open_run,
        where=where,
        settings=settings,
        glyphs=ASCII if ascii_only else UNICODE,
        theme=theme_name(theme, os.environ),
        redraws_per_second=2 if _is_remote(os.environ) else 4,
    )
    app.run()
    return app.return_code or 0


def theme_name(wanted: str | None, environ: Mapping[str, str]) -> str:
    """The theme to show: `dark`, `light` or `ansi` as wanted, unless the terminal must not have colours."""
    if wanted is None or environ.get("NO_COLOR") is not None:
        return choose_theme(environ)
    return _THEME_NAMES[wanted]


def _is_remote(environ: Mapping[str, str]) -> bool:
    return "SSH_CONNECTION" in environ or "SSH_TTY" in environ


class GrpoTop(App[int]):
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

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP_KEYS, (RUNS_KEY,)), ("ctrl+c", "quit", "quit")]
    ALLOW_SELECT: ClassVar[bool] = False
    TITLE = "grpo-top"
    CSS = """
    CommandPalette { background: $background; }
    CommandPalette > Vertical { margin-top: 0; background: $surface; }
    CommandPalette #--input { border: none; }
    CommandPalette #--input.--list-visible { border: none; }
    CommandPalette SearchIcon, CommandPalette LoadingIndicator { display: none; }
    """

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
        self._open_run = open_run
        self._several: Several | None = None
        self._clock = clock
        self._period = 1 / redraws_per_second
        self._has_terminal = os.isatty(_STDIN)
        self._live: LiveMonitor | None = None
        self._bottom = 1
        """Screens that are never left: the monitor, and the first frame under it."""
        self._view: View | None = None
        if first is not None:
            self._begin(first, monitor)
        self._place = self.where
        """What was asked for: the place of all runs."""
        self._runs_told: set[str] = set()
        """Keys of the runs that the user knows to be here."""
        self._opening = False
        """Whether a run of the table is being opened."""
        self._presented = 0.0
        """When the view was last drawn, by the clock."""
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

    def get_default_screen(self) -> Screen[None]:
        """The monitor lies under everything else, once there is something to show."""
        if self._view is None:
            return OpeningScreen(self.where)
        from grpo_top.ui.screens.monitor import MonitorScreen

        return MonitorScreen()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The palette's roles for CSS, where a theme of Textual's own is shown."""
        return {**super().get_theme_variable_defaults(), **THEMES[DARK_NAME].variables}

    def on_mount(self) -> None:
        """Begin to read once the first frame is there."""
        self.set_interval(self._period, self._tick)
        if self._live is not None:
            self.call_after_refresh(self._live.start)
        elif self._open_monitor is not None:
            self.call_after_refresh(self.run_worker, self._load, thread=True)

    def on_unmount(self) -> None:
        """End the reading."""
        if self._live is not None and self._live.is_alive():
            self._live.stop()
        if self._several is not None:
            self._several.stop()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Until something is open, one can only leave; on the table of runs, what is of no one run."""
        if action == "runs":
            return self.has_runs
        if self._runs_screen is not None:
            return action in _OF_NO_RUN
        return self._view is not None or action in _LEAVE

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002
        """What the command palette offers: this app's own commands alone."""
        if self._runs_screen is None:
            yield SystemCommand("Findings", "every finding, first cause first", self.action_findings)
            yield SystemCommand("Rollouts", "steps, groups and rollouts", self.action_rollouts)
            yield SystemCommand(
                "Other metrics", "what the trainer logs beside the series", self.action_metrics
            )
            yield SystemCommand("Hand scores", "score 20 rollouts unseen", self.action_grade)
            yield SystemCommand("Pause", "hold the view at this step, or let it go on", self.action_pause)
            yield SystemCommand("Go live", "follow the newest step again", self.action_live)
        if self.has_runs:
            yield SystemCommand("Runs", "the table of all runs of this place", self.action_runs)
        if not self.no_color:
            yield SystemCommand("Theme", "choose other colours", self.action_change_theme)
        yield SystemCommand("Help", "the keys of this screen", self.action_help)
        yield SystemCommand("Quit", "leave grpo-top", self.action_quit)

    def action_command_palette(self) -> None:
        """Open the palette, its cursor steady: a blinking one writes to the terminal forever."""
        super().action_command_palette()
        self.call_after_refresh(self._steady_cursors)

    async def action_back(self) -> None:
        """Leave the top screen, never the monitor."""
        if len(self.screen_stack) > self._bottom:
            self.pop_screen()

    def action_pause(self) -> None:
        """Hold the view at its step, or follow the run again."""
        self._look_at(self.view.step if self.view.cursor is None else None)

    def action_live(self) -> None:
        """Follow the newest step."""
        self._look_at(None)

    def action_move(self, by: int) -> None:
        """Pause and move the cursor by so many judged steps, as far as there are any."""
        steps, at = self.view.steps, self.view.step
        if at is None or not len(steps):
            return
        row = int(steps.searchsorted(at, side="right")) - 1 + by
        self._look_at(int(steps[min(max(row, 0), len(steps) - 1)]))

    def action_findings(self, selected: str | None = None) -> None:
        """Open the findings, at one of them where it is named."""
        from grpo_top.ui.screens.findings import FindingsScreen

        if not isinstance(self.screen, FindingsScreen):
            self.push_screen(FindingsScreen(selected))

    def action_panel(self, panel: str) -> None:
        """Open a panel whole; samplers and fleets have screens of their own."""
        from grpo_top.ui.panels import fleet, sampler
        from grpo_top.ui.screens.drift import DriftScreen
        from grpo_top.ui.screens.fleet import FleetScreen
        from grpo_top.ui.screens.panel import PanelScreen

        if panel == sampler.KEY:
            self.push_screen(DriftScreen())
        elif panel != fleet.KEY:
            self.push_screen(PanelScreen(panel))
        elif self.view.snapshot.fleet:
            self.push_screen(FleetScreen())
        else:
            self.notify("no fleet: --prometheus URL reads a server that scrapes the samplers", markup=False)

    def action_rollouts(self) -> None:
        """Open the browser at the view's step."""
        from grpo_top.ui.screens.browser import BrowserScreen

        if not isinstance(self.screen, BrowserScreen):
            self.push_screen(BrowserScreen(step=self.view.step))

    def action_grade(self) -> None:
        """Score rollouts by hand."""
        from grpo_top.ui.screens.grading import GradingScreen

        if not isinstance(self.screen, GradingScreen):
            self.push_screen(GradingScreen())

    def action_metrics(self) -> None:
        """Open the trainer's numbers that no series stands for."""
        from grpo_top.ui.screens.metrics import MetricsScreen

        if not isinstance(self.screen, MetricsScreen):
            self.push_screen(MetricsScreen())

    async def action_search(self) -> None:
        """Open the browser at its filter."""
        from grpo_top.ui.screens.browser import BrowserScreen

        browser = BrowserScreen(step=self.view.step)
        await self.push_screen(browser)
        browser.action_filter()

    def action_help(self) -> None:
        """Show the keys of the screen on top."""
        from grpo_top.ui.screens.help import HelpScreen

        if (screen := self._run_screen or self._runs_screen) is not None:
            self.push_screen(HelpScreen(screen.keys()))

    @property
    def has_runs(self) -> bool:
        """Whether there is a table of runs to go to from here."""
        if self._open_run is None or self._runs_screen is not None:
            return False
        return self._several is not None or (self._live is not None and self._live.monitor.selection.several)

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()

    def want_run(self, found: FoundRun) -> None:
        """Have a run of the table read before the others."""
        if self._several is not None:
            self._several.want(found)

    def open_run(self, found: FoundRun) -> None:
        """Open one of the runs of the table."""
        if self._several is not None and not self._opening:
            self._opening = True
            self._several.opened(found)
            self.run_worker(lambda: self._load_run(found), thread=True)

    def action_runs(self) -> None:
        """Leave the run for the table of all runs of the place."""
        from grpo_top.ui.screens.runs import RunsScreen

        while len(self.screen_stack) > 1 and not isinstance(self.screen, RunsScreen):
            self.pop_screen()
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._several is not None:
            self._bottom = len(self.screen_stack)
            self._several.closed(self._newest)
        else:
            self._bottom = 1
            self.run_worker(self._list_runs, thread=True)

    @property
    def _runs_screen(self) -> RunsScreen | None:
        """The table of runs, where it is on top."""
        if self._several is None or not self.screen_stack:
            return None
        from grpo_top.ui.screens.runs import RunsScreen

        top = self.screen_stack[-1]
        return top if isinstance(top, RunsScreen) else None

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
        monitor = self._open_monitor()
        monitor.look()
        if self._open_run is not None and monitor.selection.several and not monitor.selection.is_chosen:
            self._list_runs(monitor)
            return
        first = monitor.snapshot()
        if self.is_running:
            self.call_from_thread(self._opened, first, monitor, MonitorScreen())

    def _list_runs(self, finder: Monitor | None = None) -> None:
        """Make the table of runs, beside the frame that is shown."""
        from grpo_top.overview import Overview

        open_run = self._open_run
        if self._open_monitor is None or open_run is None:
            return
        overview = Overview(
            finder or self._open_monitor(), lambda found: open_run(found, False)[0], self._clock
        )
        if self.is_running:
            self.call_from_thread(self._listed, overview)

    def _listed(self, overview: Overview) -> None:
        from grpo_top.ui.screens.runs import RunsScreen
        from grpo_top.ui.several import Several

        self._several = Several(overview)
        self._bottom += 1
        self.push_screen(RunsScreen(self._place, self._several.states))
        self.call_after_refresh(self._several.start)

    def _load_run(self, found: FoundRun) -> None:
        """Open one of several runs, beside the table."""
        from grpo_top.ui.screens.monitor import MonitorScreen

        if self._open_run is None:
            return
        try:
            monitor, settings = self._open_run(found, True)
            first = monitor.snapshot()
        except Exception as error:  # whatever stands in the way is said, and the table stays
            self.call_from_thread(self._not_opened, str(error) or type(error).__name__)
            return
        if self.is_running:
            self.call_from_thread(self._opened, first, monitor, MonitorScreen(), settings)

    def _not_opened(self, why: str) -> None:
        self._opening = False
        if self._several is not None:
            self._several.closed(None)
        self.notify(why, severity="error", markup=False)

    def _opened(
        self, first: Snapshot, monitor: Monitor, screen: Screen[None], settings: Settings | None = None
    ) -> None:
        self._opening = False
        self._settings = settings or self._settings
        self.where = monitor.where
        self._begin(first, monitor)
        self._bottom += 1
        self.push_screen(screen)
        if self._live is not None:
            screen.call_after_refresh(self._live.start)

    def _begin(self, first: Snapshot, monitor: Monitor | None) -> None:
        from grpo_top.monitor import LiveMonitor
        from grpo_top.ui.view import View

        self._newest = first
        self._runs_told = set()
        self._view = View(first, None, self._clock())
        self._live = None if monitor is None else LiveMonitor(monitor, self.take)

    def _steady_cursors(self) -> None:
        from textual.widgets import Input

        for line in self.screen.query(Input):
            line.cursor_blink = False

    def _look_at(self, cursor: int | None) -> None:
        self._present(replace(self.view, cursor=cursor, now=self._clock()))

    def _tick(self) -> None:
        """Draw what is newer: a newly judged step at once, what else has changed once a second."""
        if self._has_terminal and not os.isatty(_STDIN):
            self.exit()  # the terminal has gone; reading from what is left of it would spin
            return
        if (runs := self._runs_screen) is not None and self._several is not None:
            # What is new at once; how old the rest is by now, once a second.
            if runs.differs(self._several.states) or abs(self._clock() - self._presented) >= 1:
                self._presented = self._clock()
                runs.show(self._several.states, self._several.error)
            return
        if self._view is None:
            return
        self._tell_of_runs()
        error = str(self._live.error) if self._live is not None and self._live.error is not None else ""
        view = replace(self._view, snapshot=self._newest, now=self._clock(), error=error)
        judged = view.snapshot.judged_step != self.view.snapshot.judged_step
        if judged or view.error != self.view.error:
            self._present(view)
        elif abs(view.now - self._presented) >= 1:
            if view.key != self.view.key:
                self._present(view)
            elif (screen := self._run_screen) is not None:
                self._presented = view.now
                self._view = view
                screen.refresh_title(view)

    def _tell_of_runs(self) -> None:
        """Say so where another run begins beside the one that is open."""
        if self._live is None or not self._live.is_alive():
            return
        names = {run.key: run.name for run in self._live.monitor.selection.runs.all}
        new = names.keys() - self._runs_told
        if new and self._runs_told and self._live.monitor.selection.several:
            others = ", ".join(safe(names[key]) for key in sorted(new))
            self.notify(f"{others}: another run has begun here; backspace shows them all", markup=False)
        self._runs_told |= new

    def _present(self, view: View) -> None:
        self._view = view
        self._presented = view.now
        if (screen := self._run_screen) is not None:
            screen.present(view)
