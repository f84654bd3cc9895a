"""The command palette: what can be done, where one can go from anywhere, and what can be taken along."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Provider

from grpo_top.detectors import ALL
from grpo_top.screen_settings import shown_key
from grpo_top.snapshot import STAGES
from grpo_top.text import safe
from grpo_top.ui.keys import name_of, with_app_keys
from grpo_top.ui.panels import fleet
from grpo_top.ui.panels.catalogue import PANELS
from grpo_top.ui.screens.base import RunScreen
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.explain import ExplainScreen
from grpo_top.ui.screens.reporting import HTML, MARKDOWN, write_report
from grpo_top.ui.screens.runs import RunsScreen
from grpo_top.ui.theme import ANSI_NAME, THEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.command import Hits
    from textual.screen import Screen

    from grpo_top.ui.app import GrpoTop

PLACEHOLDER = "a panel, step, finding, rule or family; a report; a theme"
_TITLE, _KEY = 28, 6
"""Cells of a title and of its key, so that what is said of each stands in one column."""
_ACTIONS = {
    "Findings": "app.findings",
    "Rollouts": "app.rollouts",
    "Other metrics": "app.metrics",
    "Hand scores": "app.grade",
    "Pause": "app.pause",
    "Go live": "app.live",
    "Zoom in": "app.zoom(1)",
    "Zoom out": "app.zoom(-1)",
    "Log scale": "app.scale",
    "Smoothing": "app.smooth",
    "Runs": "app.runs",
    "Help": "app.help",
    "Quit": "app.quit",
}
"""Commands that have a key on some screen: what it does there."""
_STEP = re.compile(r"\s*(?:step\s*)?(\d{1,15})\s*", re.IGNORECASE)


class Jump(NamedTuple):
    """One line of the palette."""

    title: str
    what: str
    run: Callable[[], object]
    first: bool = True
    """Whether it is offered before anything is typed."""
    key: str = ""
    """What does the same on the screen below, as it is written."""


class Jumps(Provider):
    """Everything in one list, so that it is always in one order."""

    async def discover(self) -> Hits:
        """What is offered at first."""
        for jump in jumps(self._grpo_top, self.screen):
            if jump.first:
                yield DiscoveryHit(_shown(jump), jump.run, text=jump.title)

    async def search(self, query: str) -> Hits:
        """What goes with the words that are typed; a number is a step."""
        app = self._grpo_top
        if (found := _STEP.fullmatch(query)) and app.shows_run:
            step = int(found[1])
            hold = Jump(
                f"Step {step}", "hold the view there, or as near as there is one", partial(app.look_at, step)
            )
            yield Hit(1.0, _shown(hold), hold.run, text=hold.title)
        matcher = self.matcher(query.replace("_", " "))
        for jump in jumps(app, self.screen):
            if (score := matcher.match(jump.title.replace("_", " "))) > 0:
                yield Hit(score, _shown(jump), jump.run, text=jump.title)

    @property
    def _grpo_top(self) -> GrpoTop:
        return cast("GrpoTop", self.app)


def _shown(jump: Jump) -> Text:
    """A jump in one line. It is no string: in those the palette reads markup."""
    return Text.assemble(
        f"{jump.title:<{_TITLE}} ",
        f"{jump.key:<{_KEY}} ",
        (jump.what, "not bold dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def jumps(app: GrpoTop, screen: Screen[object]) -> Iterator[Jump]:
    """Everything that can be done and gone to as things stand, from a screen."""
    keys = _keys_of(app, screen)
    for title, what, run, first in app.get_system_commands(screen):
        yield Jump(title, what, run, first, keys.get(_ACTIONS.get(title, ""), ""))
    if app.shows_run:
        yield from _of_the_run(app)
    if not app.no_color:
        for name in THEMES:
            if name not in (app.theme, ANSI_NAME):
                title = f"Theme: {name.removeprefix('grpo-top-')}"
                yield Jump(title, "change the colours", partial(setattr, app, "theme", name))


def _keys_of(app: GrpoTop, screen: Screen[object]) -> dict[str, str]:
    """The actions of a screen's keys, and how the first key of each is written."""
    if not isinstance(screen, RunScreen | RunsScreen):
        return {}
    own = app.settings.keys
    return {
        key.action: shown_key(own.get(name_of(key), key.keys).split(",")[0])
        for key in (with_app_keys(screen.keys(), screen.NAME) if app.shows_run else screen.keys())
    }


def _of_the_run(app: GrpoTop) -> Iterator[Jump]:
    view = app.view
    for finding in view.findings():
        cleared = "" if view.is_active(finding) else ", cleared"
        what = f"{finding.severity.word}{cleared}: evidence, what to try, rollouts"
        yield Jump(f"Finding: {finding.id}", what, partial(app.action_findings, finding.id))
    for panel in PANELS:
        question = STAGES[panel.stage][1]
        yield Jump(f"Panel: {panel.title}", question, partial(app.action_panel, panel.key))
    if view.snapshot.fleet:
        yield Jump("Panel: Fleet", "numbers over all samplers", partial(app.action_panel, fleet.KEY))
    for word, suffix in (("HTML", HTML), ("Markdown", MARKDOWN)):
        yield Jump(
            f"Report: {word}", "write the run's picture to one file", partial(write_report, app, suffix)
        )
    for family in view.snapshot.run.families:
        rollouts = partial(_open_family, app, family)
        yield Jump(f"Family: {safe(family)}", "its rollouts alone", rollouts, first=False)
    for detector in ALL:
        page = partial(_explain, app, detector.id)
        yield Jump(f"Rule: {detector.id}", STAGES[detector.stage][1], page, first=False)


def _open_family(app: GrpoTop, family: str) -> None:
    app.push_screen(BrowserScreen(step=app.view.step, filter_text=f'family="{family}"'))


def _explain(app: GrpoTop, id_: str) -> None:
    app.push_screen(ExplainScreen(id_))
