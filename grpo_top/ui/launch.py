"""From what the command line says to the app that runs."""

from __future__ import annotations

import gc
import os
import sys
import termios
from typing import TYPE_CHECKING

from grpo_top.formats.fleet_queries import NO_FLEETS
from grpo_top.leaving import at_last, told
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.theme import ANSI_NAME, DARK_NAME, LIGHT_NAME, choose_theme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grpo_top.behind import Behind
    from grpo_top.config import Settings
    from grpo_top.formats.fleet_queries import Fleets
    from grpo_top.monitor import Monitor
    from grpo_top.runs import FoundRun
    from grpo_top.sources.http import Network

FAILED = 3
"""The exit status where the screen itself failed."""
COLLECT_AFTER = 20_000
"""Objects after which garbage is looked for: a step makes thousands, and hardly one of them is in a cycle."""
SWITCH_SECONDS = 0.001
"""How long a thread that reads may keep one waiting that draws: a key's answer takes some ten turns."""
_STDIN, _STDERR = 0, 2
_KEYS, _MODES_ON, _MODES_OFF = "\x1b[<u", (25, 7), (1049, 2004, 2048, 1004, 1000, 1003, 1015, 1006)
"""Ends what Textual switches on in a terminal: keys; cursor, wrapping; other screen, pastes, sizes, focus, mouse."""
LOCALES = ("LC_ALL", "LC_CTYPE", "LANG")
"""Variables that say how a terminal's letters are encoded, the first that is set above the others."""
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
    since: int | None = None,
    reference: str | None = None,
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
        since, reference: the step with which the run begins, and what is laid behind it.
    """

    def behind(where: Sequence[str], settings: Settings, run: str | None) -> Behind | None:
        from grpo_top.behind import Behind

        return None if reference is None else Behind(reference, where, settings, since, run)

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
            since=since,
            reference=behind(where, settings, which),
        )

    def open_run(found: FoundRun, whole: bool) -> tuple[Monitor, Settings]:
        from grpo_top.grade_store import GradeStore
        from grpo_top.monitor import Monitor
        from grpo_top.sources.urls import is_url

        own = settings if settings_of is None else settings_of(found)
        if not whole:
            return Monitor(found.where, own, format_name=format_name, run=found.pick, since=since), own
        monitor = Monitor(
            [*found.where, *filter(is_url, where)],
            own,
            format_name=format_name,
            grades=GradeStore(),
            network=network,
            samplers=samplers,
            fleets=fleets,
            run=found.pick,
            since=since,
            reference=behind(found.where, own, found.pick),
        )
        return monitor, own

    app = GrpoTop(
        open_monitor=open_monitor,
        open_run=open_run,
        where=where,
        settings=settings,
        glyphs=ASCII if ascii_only or settings.screen.get("ascii", _lacks_glyphs(os.environ)) else UNICODE,
        theme=theme_name(theme or settings.screen.get("theme"), os.environ),
        redraws_per_second=settings.screen.get("redraws_per_second", 2 if _is_remote(os.environ) else 4),
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(COLLECT_AFTER)
    with at_last(_giving_the_terminal_back()), told(app.leave):
        app.run()
    return FAILED if app.failed else app.return_code or 0


def _giving_the_terminal_back() -> Callable[[], None]:
    """What sets the terminal as it is now, for an end that Textual has no time for."""
    try:
        now = termios.tcgetattr(_STDIN)
    except termios.error:
        return lambda: None

    def give_back() -> None:
        termios.tcsetattr(_STDIN, termios.TCSANOW, now)
        modes = [*(f"\x1b[?{mode}h" for mode in _MODES_ON), *(f"\x1b[?{mode}l" for mode in _MODES_OFF)]
        os.write(_STDERR, (_KEYS + "".join(modes)).encode())

    return give_back


def theme_name(wanted: str | None, environ: Mapping[str, str]) -> str:
    """The theme to show: `dark`, `light` or `ansi` as wanted, unless the terminal must not have colours."""
    if wanted is None or environ.get("NO_COLOR") is not None:
        return choose_theme(environ)
    return _THEME_NAMES[wanted]


def _lacks_glyphs(environ: Mapping[str, str]) -> bool:
    """Whether it is the Linux console, whose font has neither braille nor marks, or the locale says that it is ASCII.

    Where no locale is set, as in many containers, nothing is said of the terminal.
    """
    locale = next((found for name in LOCALES if (found := environ.get(name))), "utf-8")
    return environ.get("TERM") == "linux" or "utf" not in locale.lower()


def _is_remote(environ: Mapping[str, str]) -> bool:
    return "SSH_CONNECTION" in environ or "SSH_TTY" in environ
