"""`python -m tests.bench`: every figure of the speed that is promised, as a ratio or a count in one run."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.ui.launch import COLLECT_AFTER
from tests.bench import browsing, following, judging, peers, reading, screen, serving, soak, wire
from tests.bench.figures import Figure, table

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = {
    "version": reading.version,
    "metrics": peers.metrics_log,
    "ingest": reading.ingest,
    "steps": judging.steps,
    "live": peers.live,
    "first-frame": screen.first_frame,
    "catching-up": screen.catching_up,
    "delay": screen.line_to_screen,
    "delay-elsewhere": screen.line_to_screen_elsewhere,
    "at-rest": screen.at_rest,
    "over-ssh": screen.over_ssh,
    "growing": following.many_growing,
    "files": following.many_files,
    "burst": following.burst,
    "browser": browsing.browser,
    "large-file": browsing.large_file,
    "long-text": browsing.long_text,
    "wire": wire.wire,
    "samplers": serving.samplers,
    "soak": soak.soak,
}
SIDE_BY_SIDE = (("delay", "delay-elsewhere", "at-rest", "over-ssh", "growing", "samplers"), ("wire", "soak"))
"""What a quick run measures at the same time: those that wait most of it, and those that measure no time."""


def main() -> int:
    """Measure, print the table, write JSON where asked to; 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller inputs; within a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--only", choices=CASES, action="append", help="measure this alone")
    options = parser.parse_args()
    figures: list[Figure] = []
    shape = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="grpo-top-bench-") as compiled:
        # Every command is measured as one that is installed: what it imports has been compiled.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        for names in _in_order(options.only or list(CASES), options.quick):
            figures += _measured(names, options.quick)
            if options.json:  # after each, so that a run that is broken off has not been for nothing
                rows = [figure.row() for figure in figures]
                written = {"machine": shape, "quick": options.quick, "figures": rows}
                options.json.write_text(json.dumps(written, indent=2) + "\n")
    sys.stdout.write(f"{table(figures)}\n\n{shape}; {time.perf_counter() - begin:.0f} s\n")
    return int(any(figure.met is False for figure in figures))


def _in_order(names: Sequence[str], quick: bool) -> list[Sequence[str]]:
    """What is measured at a time."""
    if not quick:
        return [[name] for name in names]
    groups = [[name for name in names if name in group] for group in SIDE_BY_SIDE]
    of_each = [next((group for group in groups if name in group), [name]) for name in names]
    return [group for name, group in zip(names, of_each, strict=True) if name == group[0]]


def _measured(names: Sequence[str], quick: bool) -> list[Figure]:
    """The figures of some cases, each in a process of its own, in which nothing is left of those before."""
    sys.stderr.write(f"{', '.join(names)} … ")
    sys.stderr.flush()
    before = time.perf_counter()
    with ProcessPoolExecutor(len(names), get_context("fork"), _as_the_monitor_runs) as processes:
        found = [figure for of_one in processes.map(_case, names, [quick] * len(names)) for figure in of_one]
    sys.stderr.write(f"{time.perf_counter() - before:.0f} s\n")
    return found


def _as_the_monitor_runs() -> None:
    gc.set_threshold(COLLECT_AFTER)


def _case(name: str, quick: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="grpo-top-bench-") as folder:
        return CASES[name](Path(folder), quick)


if __name__ == "__main__":
    sys.exit(main())
