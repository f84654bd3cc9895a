"""`python -m tests.bench`: every figure of the speed that is promised, as a ratio or a count in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import browsing, following, judging, peers, reading, screen, serving, soak, wire
from tests.bench.figures import Figure, table

CASES = {
    "version": reading.version,
    "metrics": peers.metrics_log,
    "ingest": reading.ingest,
    "steps": judging.steps,
    "live": peers.live,
    "first-frame": screen.first_frame,
    "catching-up": screen.catching_up,
    "delay": screen.line_to_screen,
    "at-rest": screen.at_rest,
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


def main() -> int:
    """Measure, print the table, write JSON where asked to; 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller inputs; within about a minute")
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
        for name in options.only or CASES:
            figures += _measured(name, options.quick)
            if options.json:  # after each, so that a run that is broken off has not been for nothing
                rows = [{**figure._asdict(), "met": figure.met} for figure in figures]
                written = {"machine": shape, "quick": options.quick, "figures": rows}
                options.json.write_text(json.dumps(written, indent=2) + "\n")
    sys.stdout.write(f"{table(figures)}\n\n{shape}; {time.perf_counter() - begin:.0f} s\n")
    return int(any(figure.met is False for figure in figures))


def _measured(name: str, quick: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="grpo-top-bench-") as folder:
        sys.stderr.write(f"{name} … ")
        sys.stderr.flush()
        before = time.perf_counter()
        found = CASES[name](Path(folder), quick)
        sys.stderr.write(f"{time.perf_counter() - before:.0f} s\n")
        return found


if __name__ == "__main__":
    sys.exit(main())
