"""Plays a recording as a live log: the file grows as it would under a trainer, only quicker."""

from __future__ import annotations

import threading
import time
from math import isfinite, isnan
from typing import TYPE_CHECKING, NamedTuple

import orjson

from grpo_top.records import TRAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from grpo_top.demo.recordings import Recording

FILE_NAME = "rollouts.jsonl"
SECONDS_PER_STEP = 0.35
"""How long a training step takes at speed 1."""
LEAD = 20
"""Steps that are there at once, so that the first screen is not empty."""
LONGEST_PAUSE = 60.0
"""Seconds; a longer wait is made of several, since the system takes no wait of any length."""


class Due(NamedTuple):
    """A line of the log, and when it is to be written."""

    steps: float
    """In training steps after the start."""
    line: bytes
    """Without its newline."""


def labelled(recording: Recording) -> list[bytes]:
    """The recording's lines, with what it is and how many steps it has added to its `run` record."""
    lines = recording.lines()
    records = [orjson.loads(line) for line in lines]
    last_step = max(record["step"] for record in records if record.get("split") == TRAIN)
    label = {"recording": f"recording of a real run: {recording.what}", "total_steps": last_step}
    return [
        orjson.dumps(record | label) if record["kind"] == "run" else line
        for line, record in zip(lines, records, strict=True)
    ]


def schedule(lines: Sequence[bytes], lead: int = LEAD) -> Iterator[Due]:
    """When each line is due: a step's lines are spread evenly over its time.

    The first `lead` steps are due at once. The trainer's `step` record closes a step; an evaluation belongs
    to the step that follows it.
    """
    for number, step in enumerate(_by_step(lines)):
        for position, line in enumerate(step, start=1):
            yield Due(max(0.0, number - lead + position / len(step)), line)


def _by_step(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    step: list[bytes] = []
    for line in lines:
        step.append(line)
        if orjson.loads(line)["kind"] == "step":
            yield step
            step = []
    if step:
        yield step


def play_all(recording: Recording, directory: Path) -> Path:
    """Write the whole recording into `directory` at once; the file that was written."""
    path = directory / FILE_NAME
    path.write_bytes(_text(labelled(recording)))
    return path


class Player:
    """Writes a recording line by line from a thread of its own, into `directory`, which stays the caller's.

    A `speed` of 10 is ten times quicker than 1; 0 and infinity are as quick as the disk. `clock` tells
    seconds and `pause` waits for some: tests give their own.
    """

    def __init__(
        self,
        recording: Recording,
        directory: Path,
        speed: float = 1.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        if isnan(speed) or speed < 0:
            raise ValueError(f"a speed is 0 or more, not {speed}")
        self.path = directory / FILE_NAME
        self._recording = recording
        self._seconds_per_step = SECONDS_PER_STEP / speed if speed and isfinite(speed) else 0.0
        self._clock = clock
        self._stopping = threading.Event()
        self._pause = pause or self._stopping.wait
        self._thread: threading.Thread | None = None
        self._finished = False
        self._error: OSError | None = None

    @property
    def finished(self) -> bool:
        """Whether the whole recording has been written."""
        return self._finished

    def start(self) -> None:
        """Begin: the file holds the lead when this returns. OSError where it cannot be written."""
        if self._thread is not None:
            raise RuntimeError("a player plays once")
        lines = list(schedule(labelled(self._recording)))
        lead = [due.line for due in lines if due.steps == 0]
        self.path.write_bytes(_text(lead))
        self._thread = threading.Thread(
            target=self._run, args=(lines[len(lead) :],), name="demo player", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Write nothing more, and return once that is so. OSError where writing failed."""
        self._stopping.set()
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, `timeout` seconds at most; `finished`. OSError where writing failed."""
        if self._thread is not None:
            self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return self._finished

    def _run(self, lines: Sequence[Due]) -> None:
        try:
            self._finished = self._write(lines)
        except OSError as error:
            self._error = error  # to be raised in the thread that waits: here it would spoil the screen

    def _write(self, lines: Sequence[Due]) -> bool:
        """Append each line when it is due; whether it came to the end."""
        start = self._clock()
        with self.path.open("ab") as log:
            for steps, line in lines:
                due = start + steps * self._seconds_per_step
                while not self._stopping.is_set() and (ahead := due - self._clock()) > 0:
                    self._pause(min(ahead, LONGEST_PAUSE))
                if self._stopping.is_set():
                    return False
                log.write(_text([line]))
                log.flush()
        return True


def _text(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)
