"""What a process costs: processor time, time on the clock, and the most memory that it held."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
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


STARTER = """
import json, os, subprocess, sys, time
begin = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
wall = time.perf_counter() - begin
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss]))
"""
"""Starts a command from a small process: a child's peak begins with the memory of the one that it is forked from."""


def cost(command: Sequence[str]) -> Cost:
    """Run a command to its end; its output is dropped. RuntimeError where it fails otherwise than by findings."""
    # What is installed has its bytecode beside it: without this every run would compile what it imports.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        python("-c", STARTER, *command), capture_output=True, text=True, check=True, env=environment
    )
    status, cpu, wall, memory = json.loads(done.stdout)
    if status not in {0, 1}:
        raise RuntimeError(f"{' '.join(command)}: status {status}: {done.stderr[-300:]}")
    return Cost(cpu, wall, memory * (1 if sys.platform == "darwin" else 1024))


def peak_memory(process: int) -> float:
    """The most memory that a running process has held, in bytes. Linux alone can say: elsewhere nan."""
    return _memory(str(process), "VmHWM:")


def resident() -> float:
    """The memory that this process holds now, in bytes. Linux alone can say: elsewhere nan."""
    return _memory("self", "VmRSS:")


def _memory(process: str, what: str) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return math.nan
    return next((int(line.split()[1]) * 1024.0 for line in lines if line.startswith(what)), math.nan)


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
