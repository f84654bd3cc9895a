"""From what the command line says to the app that runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from grpo_top.formats.fleet_queries import NO_FLEETS
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.theme import ANSI_NAME, DARK_NAME, LIGHT_NAME, choose_theme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grpo_top.config import Settings
    from grpo_top.formats.fleet_queries import Fleets
    from grpo_top.monitor import Monitor
    from grpo_top.runs import FoundRun
    from grpo_top.sources.http import Network

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
