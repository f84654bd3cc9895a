"""What a person waits for: the first frame in a terminal, and a rollout's text."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import termios
import time
from typing import TYPE_CHECKING

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.records import Rollout
from tests.bench.figures import Figure
from tests.bench.inputs import write_run
from tests.bench.processes import grpo_top, python

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROWS, COLUMNS = 45, 160
BARE_APP = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("hello bare")
Bare().run()
"""


def first_frame(folder: Path, quick: bool) -> list[Figure]:
    """From the start of the process to the first frame, against a bare Textual app."""
    log = folder / "rollouts.jsonl"
    write_run(log, 2_560)
    ratios, pictures = [], []
    for _ in range(3 if quick else 9):
        bare = _until(python("-c", BARE_APP), b"hello bare")
        ratios.append(_until(grpo_top(str(folder)), b"grpo-top") / bare)
        pictures.append(_until(grpo_top(str(folder)), b"TRIAGE") / bare)
    return [
        Figure(
            "first frame against a bare Textual app", statistics.median(ratios), "x", 1.3, "its title line"
        ),
        Figure(
            "panels filled against a bare Textual app",
            statistics.median(pictures),
            "x",
            None,
            "2,560 rollouts",
        ),
    ]


def replay(folder: Path, quick: bool) -> list[Figure]:
    """A rollout's text, read again from deep in the log."""
    log = folder / "rollouts.jsonl"
    write_run(log, 30_000 if quick else 500_000)
    monitor = Monitor([str(log)], Settings())
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    times = []
    for row in range(snapshot.rollouts.length - 1, 0, -snapshot.rollouts.length // 50):
        begin = time.perf_counter()
        found = snapshot.read(row)
        times.append(time.perf_counter() - begin)
        if not isinstance(found, Rollout):
            raise TypeError(found.reason)
    detail = f"the slowest of {len(times)} in {log.stat().st_size / 1e6:,.0f} MB"
    return [Figure("a rollout's text, read again", max(times) * 1e3, "ms", 50.0, detail)]


def _until(command: Sequence[str], marker: bytes, seconds: float = 20.0) -> float:
    """Seconds from the start of a command in a terminal of its own to the marker in what it prints."""
    begin = time.perf_counter()
    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    printed = b""
    try:
        while marker not in printed:
            if time.perf_counter() - begin > seconds:
                raise RuntimeError(f"{command[-1]} did not draw: {printed[-200:]!r}")
            ready, _, _ = select.select([terminal], [], [], 0.05)
            if ready:
                printed += os.read(terminal, 1 << 16)
        return time.perf_counter() - begin
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)
        sys.stdout.flush()
