"""What it costs to read a log that is there: `check`, and the memory that it takes."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from tests.bench.figures import Figure
from tests.bench.inputs import write_run
from tests.bench.processes import BARE_LOOP, cost, grpo_top, in_turn, least, python

if TYPE_CHECKING:
    from pathlib import Path


def ingest(folder: Path, quick: bool) -> list[Figure]:
    """`check` on rollouts with texts against a bare loop of `orjson.loads` over the same file; its memory."""
    few, many = (30_000, 0) if quick else (500_000, 750_000)
    log = folder / "rollouts.jsonl"
    write_run(log, few)
    size = log.stat().st_size
    check, bare = grpo_top("check", "--fail-on", "never", str(log)), python("-c", BARE_LOOP, str(log))
    loops, checks = in_turn(2 if quick else 3, bare, check)
    ratio = statistics.median(one.cpu / other.cpu for one, other in zip(checks, loops, strict=True))
    first = max(checks, key=lambda one: one.memory)
    detail = f"{few:,} rollouts, {size / 1e6:,.0f} MB: {least(checks):.2f} s CPU, loop {least(loops):.2f} s"
    unlike = "too few for the start not to weigh" if quick else ""
    figures = [
        Figure("check over rollouts, against a bare loop", ratio, "x", 4.0, detail, unlike=unlike),
        Figure(
            "check over rollouts: peak memory",
            first.memory / 1e6,
            "MB",
            300.0,
            f"{few:,} rollouts",
            unlike="too few to tell" if quick else "",
        ),
    ]
    if many:
        write_run(log, many)
        further = (cost(check).memory - first.memory) / (many - few)
        detail = f"peak, from {few:,} to {many:,} rollouts"
        figures.append(Figure("check over rollouts: memory of a further one", further, "B", 120.0, detail))
    return figures


def version(folder: Path, quick: bool) -> list[Figure]:
    """`--version` against what starting Python costs."""
    times = 6 if quick else 25
    nothing, said = in_turn(times, python("-c", "pass"), grpo_top("--version"))
    ratio = statistics.median(one.cpu / other.cpu for one, other in zip(said, nothing, strict=True))
    detail = f"{least(said) * 1e3:.0f} ms CPU, Python itself {least(nothing) * 1e3:.0f} ms"
    return [Figure("--version against `python -c pass`", ratio, "x", 2.5, detail)]
