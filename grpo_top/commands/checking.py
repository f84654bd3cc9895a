"""`check`: what is there, judged and printed, once or while it grows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.commands.opening import FOUND, OK, Wrong, each_run, one_opened, read, where_of

if TYPE_CHECKING:
    import argparse

    from grpo_top.runs import FoundRun
    from grpo_top.snapshot import Snapshot


def check(options: argparse.Namespace) -> int:
    """Print what stands, of one run or of each; or follow one."""
    # Imported further in, under more open calls, it crosses the end of a piece of the stack thousands of times, and
    # Python 3.11 takes and gives back the next piece each time: 14 ms.
    import numpy  # noqa: F401

    how = {"as_json": options.json, "series": options.series, "fail_on": options.fail_on}
    if options.follow:
        return _follow(options)
    for name, value in (("--for", options.seconds), ("--on-finding", options.on_finding)):
        if value is not None:
            raise Wrong(f"{name} goes with --follow")
    if options.series and not options.json:
        raise Wrong("--series goes with --json")
    if options.all:
        return each_run(options, lambda snapshot, found: print_check(snapshot, found, **how))
    return print_check(read(options), place=place_of(options), **how)


def _follow(options: argparse.Namespace) -> int:
    from grpo_top.follow import follow

    if options.all:
        raise Wrong("--follow reads one run: give its folder, or --run NAME, in place of --all")

    def say(line: str) -> None:
        print(line, flush=True)

    def complain(line: str) -> None:
        print(f"grpo-top: {line}", file=sys.stderr, flush=True)

    snapshot = follow(
        one_opened(options),
        say,
        complain,
        as_json=options.json,
        seconds=options.seconds,
        command=options.on_finding,
    )
    return _status(snapshot, options.fail_on)


def print_check(
    snapshot: Snapshot,
    found: FoundRun | None = None,
    *,
    as_json: bool,
    series: bool,
    fail_on: str,
    place: str = "",
) -> int:
    """Print a Snapshot; the exit status for what stands in it."""
    from grpo_top.check_text import check_text
    from grpo_top.report import check_object

    if as_json:
        import orjson

        sys.stdout.write(orjson.dumps(check_object(snapshot, found, series=series)).decode() + "\n")
    else:
        sys.stdout.write(check_text(snapshot, found.name if found else place, _width()))
    sys.stdout.flush()
    return _status(snapshot, fail_on)


def _width() -> int:
    """Cells of a line: as many as the terminal has, within reason; what is not a terminal takes the usual number."""
    from grpo_top.check_text import WIDTH

    if not sys.stdout.isatty():
        return WIDTH
    import shutil

    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, 60), 120)


def place_of(options: argparse.Namespace) -> str:
    """What a run is called whose log gives it no name: its folder or file."""
    first = where_of(options)[0]
    return first if "://" in first else Path(first).resolve().name


def _status(snapshot: Snapshot, fail_on: str) -> int:
    """The exit status for what stands."""
    from grpo_top.report import worst
    from grpo_top.snapshot import Status

    limit = {"warn": Status.WARN, "fail": Status.FAIL}.get(fail_on)
    return FOUND if limit is not None and worst(snapshot) >= limit else OK
