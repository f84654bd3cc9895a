"""What a person at a terminal waits for, and what the line to it carries."""

from __future__ import annotations

import os
import random
import statistics
import time
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

import orjson

from tests.bench.figures import Figure
from tests.bench.inputs import RUN, metrics, rollout_records, write_run
from tests.bench.processes import cost, grpo_top, python
from tests.bench.terminal import COLUMNS, PLAIN, ROWS, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

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
POLL_SECONDS = 0.25
"""Between two looks at what the system tells nothing of."""
ENOUGH_KEYS = 100
"""Answers of which the 99th percentile is more than the slowest one."""
SSH = PLAIN | {"SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22"}


def first_frame(folder: Path, quick: bool) -> list[Figure]:
    """From the start of the process to the first frame of a small and of a large run, against a bare Textual app."""
    small, large = folder / "small", folder / "large"
    for place, rollouts in ((small, 2_560), (large, 30_000 if quick else 500_000)):
        place.mkdir()
        write_run(place / "rollouts.jsonl", rollouts)
    size = (large / "rollouts.jsonl").stat().st_size / 1e6
    _first_marks(python("-c", BARE_APP), b"hello bare")
    ratios: list[list[float]] = []
    for _ in range(3 if quick else 9):
        (bare,) = _first_marks(python("-c", BARE_APP), b"hello bare")
        marks = _first_marks(grpo_top(str(small)), TITLE, PANELS)
        marks += _first_marks(grpo_top(str(large)), TITLE, b"reading ")
        ratios.append([mark / bare for mark in marks])
    title, panels, large_title, filling = map(statistics.median, zip(*ratios, strict=True))
    return [
        Figure("first frame against a bare Textual app", title, "x", 1.3, "its title line; 2,560 rollouts"),
        Figure("first frame of a large directory, the same", large_title, "x", 1.3, f"{size:,.0f} MB"),
        Figure("panels filled, the same", panels, "x", None, "2,560 rollouts"),
        Figure(
            "panels of a large directory filling, the same",
            filling,
            "x",
            None,
            f"{size:,.0f} MB; with how far it has read",
        ),
    ]


def catching_up(folder: Path, quick: bool) -> list[Figure]:
    """A large directory to its full picture, against `check`; and how quickly keys are answered meanwhile."""
    log = folder / "rollouts.jsonl"
    rollouts = 30_000 if quick else 500_000
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
    unlike = "too few for the start not to weigh" if quick else ""
    log.unlink()
    return [
        Figure(
            "a large directory to its full picture, against `check`", ratio, "x", 1.3, detail, unlike=unlike
        ),
        Figure(
            "a key answered while a large directory is read",
            late * 1e3,
            "ms",
            50.0,
            keys,
            unlike="too few to tell" if len(answers) < ENOUGH_KEYS else "",
        ),
    ]


def line_to_screen(folder: Path, quick: bool) -> list[Figure]:
    """From a line that is written to the step's number on the screen."""
    what = "a line appended until its step is on the screen"
    return [_delay(what, grpo_top(str(folder)), folder, 150.0, quick)]


def line_to_screen_elsewhere(folder: Path, quick: bool) -> list[Figure]:
    """The same on a disk whose changes the system does not tell of, as one that lies on another machine."""
    program = "from grpo_top.sources import tree; tree._REMOTE = ('',); from grpo_top.cli import main; main()"
    what = "a line appended, on a disk without file events"
    return [_delay(what, python("-c", program, str(folder)), folder, 1e3 * POLL_SECONDS, quick)]


def at_rest(folder: Path, quick: bool) -> list[Figure]:
    """What an idle run, and one with a new step every second, cost the machine and the line to the terminal."""
    seconds = 2.0 if quick else 20.0
    with closing(_Run(folder, PLAIN)) as run:
        busy, sent = _idle(run.terminal, seconds)
        growing = _growing(run, "a new step a second", quick)
    return [
        Figure("idle", busy * 100, "%", 0.5, f"of a core; the whole app at {COLUMNS}x{ROWS}"),
        Figure("idle: to the terminal", sent, "bytes", 0.0, f"in {seconds:g} s"),
        *growing,
    ]


def over_ssh(folder: Path, quick: bool) -> list[Figure]:
    """What a new step every second costs where the terminal is elsewhere."""
    with closing(_Run(folder, SSH)) as run:
        return _growing(run, "a new step a second over SSH", quick)


# ---- inside


def _first_marks(command: list[str], *markers: bytes) -> list[float]:
    """Seconds from the start of a command until each of several things is on the screen, one after the other."""
    with closing(Terminal(command)) as terminal:
        return [terminal.until(marker, seconds=30.0) for marker in markers]


def _delay(what: str, command: list[str], folder: Path, target: float, quick: bool) -> Figure:
    """Milliseconds from each of many lines to its step on the screen."""
    log = folder / "rollouts.jsonl"
    log.write_bytes(orjson.dumps(RUN) + b"\n")
    chance, delays = random.Random(1), []
    with closing(Terminal(command)) as terminal, log.open("ab", buffering=0) as file:
        terminal.until(PANELS)
        terminal.collect(1.0)
        for number in range(8 if quick else 60):
            terminal.collect(0.5 + chance.random() * 0.4)
            step = 1_072 + number * 1_001
            # Digits that stay are not drawn again.
            known = os.path.commonprefix((str(step), str(step - 1_001)))  # noqa: RUF071  no paths
            terminal.printed = b""
            begin = time.perf_counter()
            file.write(orjson.dumps({"kind": "step", "step": step, "metrics": metrics(chance, step)}) + b"\n")
            # Not just anything that is drawn: how old the newest record is changes by itself.
            terminal.until(str(step).removeprefix(known).encode())
            delays.append(time.perf_counter() - begin)
    delays.sort()
    median = f"95th percentile of {len(delays)}, median {statistics.median(delays) * 1e3:.0f} ms"
    return Figure(what, delays[int(0.95 * len(delays))] * 1e3, "ms", target, median)


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


def _idle(terminal: Terminal, seconds: float) -> tuple[float, int]:
    """Share of a core, and bytes, while nothing happens."""
    spent, begin = terminal.cpu(), time.perf_counter()
    sent = terminal.collect(seconds)
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


class _Run:
    """A run of 40 steps with a grpo-top on it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.log = folder / "rollouts.jsonl"
        write_run(self.log, 40 * 256)
        # Of a run that is older than a minute the title tells the age to the minute.
        written = time.time() - 75.0
        os.utime(self.log, (written, written))
        self.terminal = Terminal(grpo_top(str(folder)), environment)
        self.terminal.until(PANELS)
        # Until all is drawn that there is to draw.
        for _ in range(20):
            if not self.terminal.collect(1.0):
                break

    def close(self) -> None:
        """End the grpo-top."""
        self.terminal.close()


def _growing(run: _Run, what: str, quick: bool) -> list[Figure]:
    """Processor time and bytes of a step of 256 rollouts, one a second: of all that happens in that second."""
    seconds, sent, count = [], [], 3 if quick else 20
    with run.log.open("ab", buffering=0) as file:
        for step in islice(_lines_by_step(41), 1 + count):
            spent = run.terminal.cpu()
            file.write(step)
            sent.append(run.terminal.collect(1.0))
            seconds.append(run.terminal.cpu() - spent)
    # With the first one the run is no more a quiet one, which is drawn once.
    cpu, bytes_ = statistics.median(seconds[1:]), statistics.median(sent[1:])
    made_of = f"256 rollouts, 9 panels at {COLUMNS}x{ROWS}; median of {count}"
    return [
        Figure(f"{what}: CPU", cpu * 1e3, "ms", 10.0, made_of),
        Figure(f"{what}: to the terminal", bytes_ / 1e3, "kB", 4.0, f"{made_of}; 256 colours"),
    ]
