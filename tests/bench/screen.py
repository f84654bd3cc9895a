"""What a person at a terminal waits for, and what the line to it carries."""

from __future__ import annotations

import os
import random
import statistics
import time
from contextlib import closing
from typing import TYPE_CHECKING

import orjson

from tests.bench.figures import Figure
from tests.bench.inputs import RUN, metrics, rollout_records, write_run
from tests.bench.processes import cost, grpo_top, python
from tests.bench.terminal import PLAIN, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

TITLE, PANELS = b"grpo-top", b"TRIAGE"
_FOCUSED = "┏".encode()
"""The corner of the panel that has the focus."""
_READ = b"live  ", b"quiet for"
"""What the title says of a run once all of it has been read."""
BARE_APP = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("hello bare")
Bare().run()
"""
SSH = PLAIN | {"SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22"}


def first_frame(folder: Path, quick: bool) -> list[Figure]:
    """From the start of the process to the first frame of a small and of a large run, against a bare Textual app."""
    small, large = folder / "small", folder / "large"
    for place, rollouts in ((small, 2_560), (large, 30_000 if quick else 500_000)):
        place.mkdir()
        write_run(place / "rollouts.jsonl", rollouts)
    size = (large / "rollouts.jsonl").stat().st_size / 1e6
    times: dict[str, list[float]] = {}
    _seconds_until(python("-c", BARE_APP), b"hello bare")
    for _ in range(3 if quick else 9):
        bare = _seconds_until(python("-c", BARE_APP), b"hello bare")
        for name, place, marker in (
            ("small", small, TITLE),
            ("large", large, TITLE),
            ("panels", small, PANELS),
            ("filling", large, b"reading "),
        ):
            times.setdefault(name, []).append(_seconds_until(grpo_top(str(place)), marker) / bare)
    ratio = {name: statistics.median(found) for name, found in times.items()}
    return [
        Figure("first frame against a bare Textual app", ratio["small"], "x", 1.3, "its title line"),
        Figure("… of a large directory", ratio["large"], "x", 1.3, f"{size:,.0f} MB"),
        Figure("… panels filled", ratio["panels"], "x", None, "2,560 rollouts"),
        Figure(
            "… a large directory's panels filling", ratio["filling"], "x", None, "with how far it has read"
        ),
    ]


def catching_up(folder: Path, quick: bool) -> list[Figure]:
    """A large directory to its full picture, against `check`; and how quickly keys are answered meanwhile."""
    log = folder / "rollouts.jsonl"
    rollouts = 60_000 if quick else 500_000
    write_run(log, rollouts)
    checks, wholes = [], []
    for _ in range(1 if quick else 3):  # in turn, so that a load that comes or goes weighs on both
        checks.append(cost(grpo_top("check", "--fail-on", "never", str(folder))).wall)
        with closing(Terminal(grpo_top(str(folder)))) as terminal:
            terminal.until(b"reading ")
            wholes.append(terminal.until(*_READ, seconds=600.0))
    ratio = statistics.median(whole / check for whole, check in zip(wholes, checks, strict=True))
    answers = sorted(_answers(folder))
    late = answers[int(0.99 * len(answers))]
    detail = f"{log.stat().st_size / 1e6:,.0f} MB: {min(wholes):.1f} s, `check` {min(checks):.1f} s"
    keys = f"99th percentile of {len(answers)}, median {statistics.median(answers) * 1e3:.0f} ms"
    log.unlink()
    return [
        Figure("a large directory to its full picture, against `check`", ratio, "x", 1.3, detail),
        Figure("… a key answered meanwhile", late * 1e3, "ms", 50.0, keys),
    ]


def line_to_screen(folder: Path, quick: bool) -> list[Figure]:
    """From a line that is written to the step's number on the screen."""
    log = folder / "rollouts.jsonl"
    log.write_bytes(orjson.dumps(RUN) + b"\n")
    chance, delays = random.Random(1), []
    with closing(Terminal(grpo_top(str(folder)))) as terminal, log.open("ab", buffering=0) as file:
        terminal.until(PANELS)
        for number in range(8 if quick else 60):
            terminal.collect(1.1 + chance.random() * 0.4)
            step = 1_072 + number * 1_001
            # Digits that stay are not drawn again.
            known = os.path.commonprefix((str(step), str(step - 1_001)))  # noqa: RUF071  no paths
            terminal.printed = b""
            begin = time.perf_counter()
            file.write(orjson.dumps({"kind": "step", "step": step, "metrics": metrics(chance, step)}) + b"\n")
            # Not just anything that is drawn: how old the newest record is changes by itself.
            terminal.until(str(step).removeprefix(known).encode())
            delays.append(time.perf_counter() - begin)
    log.unlink()
    delays.sort()
    at = delays[int(0.95 * len(delays))]
    median = f"95th percentile, median {statistics.median(delays) * 1e3:.0f} ms; local disk"
    return [Figure("a line appended → on the screen", at * 1e3, "ms", 150.0, median)]


def at_rest(folder: Path, quick: bool) -> list[Figure]:
    """What an idle run, and one with a new step every second, cost the machine and the line to the terminal."""
    log = folder / "rollouts.jsonl"
    count = 5 if quick else 20
    write_run(log, 40 * 256)
    with closing(Terminal(grpo_top(str(folder)))) as terminal, log.open("ab") as file:
        terminal.until(PANELS)
        busy, sent = _idle(terminal, quick)
        cpu, bytes_ = _growing(terminal, file, count)
    write_run(log, 40 * 256)
    with closing(Terminal(grpo_top(str(folder)), SSH)) as terminal, log.open("ab") as file:
        terminal.until(PANELS)
        terminal.collect(3.0)
        cpu_there, bytes_there = _growing(terminal, file, count)
    log.unlink()
    made_of = "256 rollouts, 9 panels at 160x45; median"
    return [
        Figure("idle", busy * 100, "%", 0.5, "of a core; the whole app at 160x45"),
        Figure("idle: to the terminal", sent, "bytes", 0.0, f"in {4 if quick else 20} s"),
        Figure("a new step a second: CPU", cpu * 1e3, "ms", 10.0, made_of),
        Figure("a new step a second: to the terminal", bytes_ / 1e3, "kB", 4.0, f"{made_of}; 256 colours"),
        Figure("… CPU, where it is used over SSH", cpu_there * 1e3, "ms", 10.0, made_of),
        Figure("… to the terminal, over SSH", bytes_there / 1e3, "kB", 4.0, made_of),
    ]


# ---- inside


def _seconds_until(command: list[str], marker: bytes) -> float:
    with closing(Terminal(command)) as terminal:
        return terminal.until(marker, seconds=30.0)


def _answers(folder: Path) -> list[float]:
    """Seconds from a key that moves the focus to the next panel's border, again and again while a log is read."""
    found = []
    with closing(Terminal(grpo_top(str(folder)))) as terminal:
        terminal.until(b"reading ")
        key = b"j"
        while not terminal.shows(*_READ):
            terminal.printed = b""
            begin = time.perf_counter()
            terminal.press(key)
            terminal.until(_FOCUSED)
            found.append(time.perf_counter() - begin)
            terminal.collect(0.05)
            key = b"k" if key == b"j" else b"j"
    return found


def _idle(terminal: Terminal, quick: bool) -> tuple[float, int]:
    """Share of a core, and bytes, while nothing happens; the age of the newest record is told to the minute by then."""
    terminal.collect(10.5 if quick else 65.0)
    spent, begin = terminal.cpu(), time.perf_counter()
    sent = terminal.collect(4.0 if quick else 20.0)
    return (terminal.cpu() - spent) / (time.perf_counter() - begin), sent


def _lines_by_step(first: int) -> Iterator[bytes]:
    """The lines of one step after another of the run that `write_run` writes."""
    lines: list[bytes] = []
    for record in rollout_records(10_000):
        lines.append(orjson.dumps(record) + b"\n")
        if record["kind"] == "step":
            if record["step"] >= first:
                yield b"".join(lines)
            lines = []


def _growing(terminal: Terminal, log: BinaryIO, count: int) -> tuple[float, float]:
    """Processor time and bytes of a step of 256 rollouts, a second: beside what a second without one takes."""
    seconds, sent = [], []
    lines = _lines_by_step(41)
    for _ in range(count):
        log.write(next(lines))
        spent = terminal.cpu()
        log.flush()
        sent.append(terminal.collect(1.0))
        seconds.append(terminal.cpu() - spent)
    return statistics.median(seconds), statistics.median(sent)
