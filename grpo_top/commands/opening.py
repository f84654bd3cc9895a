"""From options to the one run that is read: its settings, its sources, and which of several it is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grpo_top.behind import Behind
    from grpo_top.config import Settings
    from grpo_top.monitor import Monitor
    from grpo_top.runs import FoundRun, Runs
    from grpo_top.snapshot import Snapshot

OK, FOUND, WRONG, FAILED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: nothing at or above --fail-on; something; the command line or the log cannot be read; grpo-top itself
failed; interrupted."""


class Wrong(Exception):
    """One line for the user; exit status 2."""


def read(options: argparse.Namespace) -> Snapshot:
    """Everything that is there now of one run, read to its end."""
    from grpo_top.first_run import advice
    from grpo_top.monitor import NothingReadable

    monitor = one_opened(options)
    try:
        monitor.read_all()
        require_places(monitor.tree.missing)
        monitor.require_readable()
    except (NothingReadable, ValueError) as error:
        raise Wrong(f"{error}{advice(str(error))}") from error
    return monitor.snapshot(finished=True)


def require_places(missing: Sequence[str]) -> None:
    """Wrong where a place is not there, with what is like it: half of what was asked for is no answer."""
    from grpo_top.first_run import did_you_mean
    from grpo_top.options import VERBS
    from grpo_top.text import safe

    if missing:
        told = (
            f"{safe(place)}: no such file, directory or URL{safe(did_you_mean(place, VERBS))}"
            for place in missing
        )
        raise Wrong("; ".join(told))


def one_opened(options: argparse.Namespace) -> Monitor:
    """What reads the one run that is there, or that was chosen."""
    try:
        monitor = _opened(options)
        monitor.look()
        run = _one_of(monitor.selection.runs, monitor.selection.wanted, options)
        if run is not None and [*run.where] != where_of(options):
            monitor.close()
            monitor = _opened(for_run(options, run))
    except ValueError as error:
        raise Wrong(str(error)) from error
    return monitor


def _opened(options: argparse.Namespace) -> Monitor:
    from grpo_top.endpoint_options import fleets_of, network_of, samplers_of
    from grpo_top.grade_store import GradeStore
    from grpo_top.monitor import Monitor

    settings = settings_of(options)
    return Monitor(
        where_of(options),
        settings,
        format_name=options.format,
        grades=GradeStore(),
        run=options.run,
        one_run=options.one_run,
        network=network_of(options),
        samplers=samplers_of(options, live=getattr(options, "follow", False)),
        fleets=fleets_of(options),
        since=getattr(options, "since", None),
        reference=behind_of(options, where_of(options), settings, options.run),
    )


def behind_of(
    options: argparse.Namespace, where: Sequence[str], settings: Settings, run: str | None
) -> Behind | None:
    """What is laid behind the run at `where`; None where nothing is. ValueError where `--reference` cannot be."""
    reference = getattr(options, "reference", None)
    if reference is None:
        return None
    from grpo_top.behind import Behind

    return Behind(reference, where, settings, getattr(options, "since", None), run)


def _one_of(runs: Runs, wanted: str | None, options: argparse.Namespace) -> FoundRun | None:
    """The run to read where there are several; None where there is one. Wrong, with the list, without a choice."""
    if options.one_run or (len(runs.all) < 2 and not options.run):
        return None
    try:
        if wanted is not None and runs.all:
            return runs.named(wanted)
        why = "--run NAME reads one of them" + (", --all each" if hasattr(options, "all") else "")
    except ValueError as error:
        why = str(error)
    if len(runs.all) < 2:
        raise (
            Wrong(f"{' '.join(where_of(options))}: {why}")
            if runs.all
            else Wrong(f"{options.run}: nothing to read")
        )
    raise Wrong(_list_of_runs(runs, why, options))


def _list_of_runs(runs: Runs, why: str, options: argparse.Namespace) -> str:
    from grpo_top.runs_list import listed, runs_text

    table = runs_text(list(listed(runs, options.format, settings_of(options).fields)), options.verb)
    return f"{' '.join(where_of(options))}: {len(runs.all)} runs; {why}\n{table}".rstrip("\n")


def each_run(options: argparse.Namespace, show: Callable[[Snapshot, FoundRun | None], int]) -> int:
    """Read and show every run that is there, one after another; the worst of their statuses."""
    from grpo_top.text import safe

    monitor = _opened(options)
    monitor.look()
    monitor.close()
    runs = monitor.selection.runs.all
    if options.one_run or options.run or len(runs) < 2:
        return show(read(options), None)
    worst = OK
    for number, run in enumerate(runs, 1):
        if not getattr(options, "json", False):
            print(
                *([""] if number > 1 else []), f"run {number} of {len(runs)}: {safe(run.name)}", "", sep="\n"
            )
        try:
            status = show(read(for_run(options, run)), run)
        except Wrong as error:
            print(f"grpo-top: {safe(run.name)}: {error}", file=sys.stderr)
            status = WRONG
        worst = max(worst, status)
    return worst


def for_run(options: argparse.Namespace, run: FoundRun) -> argparse.Namespace:
    """The options with which that run alone is read: with its own settings file, else with that of the place."""
    from grpo_top.config import FILE_NAME, find

    where = where_of(options)
    config = options.config
    if config is None and not (Path(run.where[0]) / FILE_NAME).is_file():
        config = find(Path(where[0]) if Path(where[0]).is_dir() else None)
    urls = [place for place in where if "://" in place]
    changed = {"where": [*run.where, *urls], "run": run.pick, "config": config, "all": False}
    return argparse.Namespace(**vars(options) | changed)


def where_of(options: argparse.Namespace) -> list[str]:
    """The places to look at; here where none is given."""
    return options.where or ["."]


def settings_of(options: argparse.Namespace) -> Settings:
    """Settings in force. Wrong where one cannot be."""
    from grpo_top.config import ConfigError, Settings, find, load

    where = getattr(options, "where", None) or ["."]
    directory = Path(where[0]) if Path(where[0]).is_dir() else None
    if not options.overrides and options.config is None and find(directory) is None:
        return Settings()  # nothing to check against the detectors, so the first frame need not wait for them
    from grpo_top.detectors import BY_ID

    try:
        return load(BY_ID, options.config, directory, options.overrides)
    except ConfigError as error:
        raise Wrong(str(error)) from error
