"""A month in minutes: a run that grows and grows in files that are rotated, cut, lost and broken, followed to its end.

`python -m tests.bench.soak FOLDER ROLLOUTS STEPS HELD` prints what it came to as JSON: it runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from tests.bench.figures import Figure
from tests.bench.inputs import RUN
from tests.bench.processes import python

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP_SIZE = 10
WRITERS = 2
EVERY = 20
"""Steps between two looks; after each of them something happens to a file."""
BYTES_A_ROLLOUT, BYTES_A_STEP, BYTES_AT_ALL = 130, 1500, 90 << 20
"""The bound that is stated, times what is held: half as many rollouts again are there while the oldest are let go."""


def soak(folder: Path, quick: bool) -> list[Figure]:
    """Memory against its stated bound, and what must not grow at all."""
    rollouts, steps, held = (60_000, 600, 24_000) if quick else (2_000_000, 20_000, 500_000)
    command = python("-m", "tests.bench.soak", str(folder), str(rollouts), str(steps), str(held))
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    bound = BYTES_AT_ALL + 1.5 * held * BYTES_A_ROLLOUT + steps * BYTES_A_STEP
    made = f"{rollouts:,} rollouts, {steps:,} steps, {held:,} held; {found['accidents']:,} accidents"
    return [
        Figure("soak: peak memory", found["peak"] / 1e6, "MB", bound / 1e6, made),
        Figure("soak: growth of memory over the second half", found["growth"] / 1e6, "MB", None, made),
        Figure("soak: rollouts lost or doubled", abs(found["read"] - rollouts), "", 0, made),
        Figure("soak: growth of open files", found["files"], "", 0, made),
        Figure("soak: growth of threads", found["threads"], "", 0, made),
    ]


class Log:
    """A file that somebody else writes, and to which things happen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._away = path.with_suffix(".away")
        self.lost = False

    def append(self, data: bytes) -> None:
        """Write, to wherever the file is by now."""
        with (self._away if self.lost else self._path).open("ab") as file:
            file.write(data)

    def rename(self) -> None:
        """Rotate: the file is moved away, and a new one takes its place with the next line."""
        self._path.rename(self._path.with_name(f"old.{self._path.name}.txt"))
        self._path.touch()

    def cut(self) -> None:
        """Rotate: the file is copied elsewhere and truncated."""
        os.truncate(self._path, 0)

    def lose(self) -> None:
        """The file is gone, and what is in its place cannot be read."""
        self._path.rename(self._away)
        self._path.mkdir()
        self.lost = True

    def find(self) -> None:
        """It is back."""
        self._path.rmdir()
        self._away.rename(self._path)
        self.lost = False


def follow(folder: Path, rollouts: int, steps: int, held: int) -> dict[str, int]:
    """Write and read in turn; what it came to."""
    logs = [Log(folder / f"rank-{number}.jsonl") for number in range(WRITERS)]
    for log in logs:
        log.append(json.dumps(RUN).encode() + b"\n")
    monitor = Monitor([str(folder), "http://127.0.0.1:9/metrics"], Settings(rollouts_held=held))
    chance = random.Random(1)
    half: dict[str, int] = {}
    accidents = 0
    for step in range(1, steps + 1):
        for number, log in enumerate(logs):
            log.append(_lines(chance, step, number, rollouts // steps // GROUP_SIZE // WRITERS))
        if step % EVERY and step != steps:
            continue
        monitor.look()  # so that what was moved away is found now, however little time has gone by
        while monitor.poll(1.0, last=step == steps):
            pass
        monitor.snapshot()
        if step >= steps // 2 and not half:
            half = _standing()
        if step < steps - EVERY:
            _accident(logs[step // EVERY % WRITERS], chance)
            accidents += 1
        else:
            for log in logs:
                if log.lost:
                    log.find()
    end = _standing()
    snapshot = monitor.snapshot(finished=True)
    monitor.close()
    return {
        "peak": end["peak"],
        "growth": end["memory"] - half["memory"],
        "files": end["files"] - half["files"],
        "threads": end["threads"] - half["threads"],
        "read": snapshot.run.rollouts,
        "accidents": accidents,
    }


def _accident(log: Log, chance: random.Random) -> None:
    ways: list[Callable[[], None]] = [log.find] if log.lost else [log.rename, log.cut, log.lose]
    chance.choice(ways)()


def _lines(chance: random.Random, step: int, writer: int, groups: int) -> bytes:
    """What one writer writes of a step."""
    lines = []
    for group in range(groups):
        task = chance.randrange(200_000)
        likely = (task % 7) / 7
        for index in range(GROUP_SIZE):
            reward = int(chance.random() < likely)
            lines.append(
                b'{"kind":"rollout","step":%d,"group":"%d-%d","index":%d,"task":"t%d","reward":%d,'
                b'"completion":"%d is %d","completion_tokens":%d,"finish_reason":"stop","policy_version":%d}'
                % (step, writer, group, index, task, reward, task, chance.randrange(999), task % 99, step - 1)
            )
    if writer == 0:
        lines.append(
            b'{"kind":"step","step":%d,"metrics":{"kl":%.4f,"entropy":%.3f,"grad_norm":%.3f}}'
            % (step, 0.01 + 0.002 * chance.random(), 0.5 + 0.1 * chance.random(), chance.random())
        )
    return b"\n".join(lines) + b"\n"


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.strip()


def _standing() -> dict[str, int]:
    """What the process holds now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {name: int(size.split()[0]) * 1024 for name, size in map(_field, lines) if size.endswith(" kB")}
    return {
        "memory": sizes["VmRSS"],
        "peak": sizes["VmHWM"],
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "threads": threading.active_count(),
    }


if __name__ == "__main__":
    where, *sizes = sys.argv[1:]
    sys.stdout.write(json.dumps(follow(Path(where), *map(int, sizes))))
