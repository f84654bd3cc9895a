"""What a process costs: processor time, time on the clock, and the most memory that it held."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

BARE_LOOP = "import orjson, sys\nfor line in open(sys.argv[1], 'rb'): orjson.loads(line)"
"""The least that reading a log of JSON lines can cost here."""


class Cost(NamedTuple):
    """Of one process, run to its end."""

    cpu: float
    """Seconds of user and system time."""
    wall: float
    memory: int
    """Peak resident set, in bytes."""


def cost(command: Sequence[str]) -> Cost:
    """Run a command to its end; its output is dropped. RuntimeError where it fails otherwise than by findings."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    said = process.stderr.read().decode() if process.stderr else ""
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1}:
        raise RuntimeError(f"{' '.join(command)}: status {process.returncode}: {said[-300:]}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * scale)


def python(*arguments: str) -> list[str]:
    """The command for this Python."""
    return [sys.executable, *arguments]


def grpo_top(*arguments: str) -> list[str]:
    """The command for grpo-top."""
    return python("-m", "grpo_top", *arguments)


def in_turn(times: int, *commands: Sequence[str]) -> list[list[Cost]]:
    """The costs of several commands, each run so many times, one after the other: what disturbs one disturbs all.

    A first round is not counted: there, Python may compile what it imports.
    """
    rounds = [[cost(command) for command in commands] for _ in range(times + 1)]
    return [list(of_one) for of_one in zip(*rounds[1:], strict=True)]


def least(costs: Sequence[Cost]) -> float:
    """The least processor time of several runs: a busy machine can only add to it."""
    return min(one.cpu for one in costs)
