"""What leads from one place to another: keys and commands that mean the same on every screen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from textual.app import App, SystemCommand

from grpo_top.ui.keys import as_set, with_app_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.command import Provider
    from textual.screen import Screen

    from grpo_top.config import Settings
    from grpo_top.ui.screens.base import RunScreen
    from grpo_top.ui.screens.runs import RunsScreen
    from grpo_top.ui.view import View


def _jumps() -> type[Provider]:
    from grpo_top.ui.jumps import Jumps

    return Jumps


class Going(App[int]):
    """An app that shows a run, as far as it goes from screen to screen and from step to step."""

    COMMANDS = {_jumps}  # noqa: RUF012  declared so by Textual

    @property
    def view(self) -> View:
        """What every screen draws."""
        raise NotImplementedError

    @property
    def settings(self) -> Settings:
        """What the user has set."""
        raise NotImplementedError

    @property
    def has_runs(self) -> bool:
        """Whether there is a table of runs to go to from here."""
        raise NotImplementedError

    @property
    def shows_run(self) -> bool:
        """Whether a run is open, and not the table of runs on top of it."""
        raise NotImplementedError

    @property
    def keyed_screen(self) -> RunScreen | RunsScreen | None:
        """The screen on top, where it has a table of keys."""
        raise NotImplementedError

    def look(self, **how: Any) -> None:
        """Draw the view otherwise: at another `cursor`, through another `lens`."""
        raise NotImplementedError

    def action_runs(self) -> None:
        """Leave the run for the table of all runs of the place."""
        raise NotImplementedError

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002
        """What the command palette offers: this app's own commands alone."""
        if self.shows_run:
            yield SystemCommand("Findings", "every finding, first cause first", self.action_findings)
            yield SystemCommand("Rollouts", "steps, groups and rollouts", self.action_rollouts)
            yield SystemCommand(
                "Other metrics", "what the trainer logs beside the series", self.action_metrics
            )
            yield SystemCommand("Hand scores", "score 20 rollouts unseen", self.action_grade)
            yield SystemCommand("Pause", "hold the view at this step, or let it go on", self.action_pause)
            yield SystemCommand("Go live", "follow the newest step again", self.action_live)
            yield SystemCommand("Zoom in", "fewer steps in every chart", lambda: self.action_zoom(1))
            yield SystemCommand("Zoom out", "more steps in every chart", lambda: self.action_zoom(-1))
            yield SystemCommand("Log scale", "charts by powers of ten, or linear again", self.action_scale)
            yield SystemCommand(
                "Smoothing", "the line as the mean of 20, 50, 1 or 5 steps", self.action_smooth
            )
        if self.has_runs:
            yield SystemCommand("Runs", "the table of all runs of this place", self.action_runs)
        if not self.no_color:
            yield SystemCommand("Theme", "choose other colours", self.action_change_theme)
        yield SystemCommand("Help", "the keys of this screen", self.action_help)
        yield SystemCommand("Quit", "leave grpo-top", self.action_quit)

    def action_command_palette(self) -> None:
        """Open the palette, its cursor steady: a blinking one writes to the terminal forever."""
        from textual.command import CommandPalette

        from grpo_top.ui.jumps import PLACEHOLDER

        if not CommandPalette.is_open(cast("App[object]", self)):
            self.push_screen(CommandPalette(placeholder=PLACEHOLDER, id="--command-palette"))
            self.call_after_refresh(self._steady_cursors)

    def look_at(self, step: int) -> None:
        """Hold the view at a step, or at the judged step that is nearest."""
        steps = self.view.steps
        if len(steps):
            self.look(cursor=int(steps[abs(steps - step).argmin()]))

    def action_pause(self) -> None:
        """Hold the view at its step, or follow the run again."""
        self.look(cursor=self.view.step if self.view.cursor is None else None)

    def action_live(self) -> None:
        """Follow the newest step."""
        self.look(cursor=None)

    def action_move(self, by: int) -> None:
        """Pause and move the cursor by so many judged steps, as far as there are any."""
        steps, at = self.view.steps, self.view.step
        if at is None or not len(steps):
            return
        row = int(steps.searchsorted(at, side="right")) - 1 + by
        self.look(cursor=int(steps[min(max(row, 0), len(steps) - 1)]))

    def action_zoom(self, by: int) -> None:
        """Show fewer steps in every chart, or more."""
        run = self.view.snapshot.run
        if run.first_step is not None and run.last_step is not None:
            self.look(lens=self.view.lens.zoomed(by, run.last_step - run.first_step + 1))

    def action_scale(self) -> None:
        """Draw charts by powers of ten, or linear again."""
        self.look(lens=replace(self.view.lens, log=not self.view.lens.log))

    def action_smooth(self) -> None:
        """Draw the mean of another number of steps."""
        self.look(lens=self.view.lens.smoothed())

    def action_findings(self, selected: str | None = None) -> None:
        """Open the findings, at one of them where it is named."""
        from grpo_top.ui.screens.findings import FindingsScreen

        if isinstance(self.screen, FindingsScreen):
            if selected is None:
                return
            self.pop_screen()
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

    def action_group(self, step: int, group: int) -> None:
        """Open the rollouts of one group of a step, by its number there."""
        from grpo_top.ui.screens.browser import BrowserScreen

        batch = self.view.snapshot.batch(step)
        if batch is not None:
            rows = tuple(batch.rows[batch.group == group].tolist())
            self.push_screen(BrowserScreen(rows=rows, title=f"step {step}"))

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

        if (screen := self.keyed_screen) is not None:
            keys = with_app_keys(screen.keys(), screen.NAME) if self.shows_run else screen.keys()
            self.push_screen(HelpScreen(as_set(keys, self.settings.keys), screen.NAME))

    def _steady_cursors(self) -> None:
        from textual.widgets import Input

        for line in self.screen.query(Input):
            line.cursor_blink = False
