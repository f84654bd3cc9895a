"""What changes in a run's verdicts from one Snapshot to the next, and the command that is told of it."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.snapshot import Finding, Snapshot, Status

FOUND, WORSE, MILDER, CLEARED = "found", "worse", "milder", "cleared"
TIME_LIMIT = 30.0
"""Seconds that a command may take."""
WAITING = 100
"""Findings that may wait for the command before them."""


class Change(NamedTuple):
    """A finding that began, ended or changed its severity."""

    event: str
    finding: Finding
    step: int | None
    """The last step judged."""
    first_cause: bool


class Changes:
    """Compares each Snapshot with the one before it."""

    def __init__(self) -> None:
        self._standing: dict[str, Status] = {}

    def of(self, snapshot: Snapshot) -> list[Change]:
        """What changed, in triage order; at first everything that stands."""
        found = []
        for finding in snapshot.findings:
            before = self._standing.get(finding.id)
            event = _event(before, finding)
            if event:
                cause = finding.id == snapshot.first_cause
                found.append(Change(event, finding, snapshot.judged_step, cause))
        self._standing = {one.id: one.severity for one in snapshot.findings if one.active}
        # What went with a rewritten log has no finding any more, and nothing to tell of it.
        return found


def _event(before: Status | None, finding: Finding) -> str:
    if before is None:
        return FOUND if finding.active else ""
    if not finding.active:
        return CLEARED
    if finding.severity == before:
        return ""
    return WORSE if finding.severity > before else MILDER


class Command:
    """Runs a shell command for one finding after another, each on its standard input, beside everything else.

    It never holds anything up: what waits too long for its turn is dropped and said, a command that takes longer
    than the limit is ended.
    """

    def __init__(self, line: str, say: Callable[[str], None], limit: float = TIME_LIMIT) -> None:
        self._line = line
        self._say = say
        self._limit = limit
        self._waiting: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._running: subprocess.Popen[bytes] | None = None
        self._over = False
        self._thread = threading.Thread(target=self._run, name="on finding", daemon=True)
        self._thread.start()

    def tell(self, finding: bytes) -> None:
        """Have it told of a finding, as JSON."""
        try:
            self._waiting.put_nowait(finding)
        except queue.Full:
            self._say(f"on-finding: {WAITING} findings wait for the command already; this one is not told")

    def close(self) -> None:
        """Wait for what is under way, hardly longer than the limit."""
        try:
            self._waiting.put(None, timeout=self._limit)
        except queue.Full:
            return
        self._thread.join(self._limit + 1)

    def end(self) -> None:
        """End the command that is under way, and begin no other."""
        self._over = True
        if (running := self._running) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)

    def _run(self) -> None:
        while (finding := self._waiting.get()) is not None and not self._over:
            self._tell(finding)

    def _tell(self, finding: bytes) -> None:
        # The line is the user's own, written for a shell; what a log says reaches its standard input alone.
        process = subprocess.Popen(  # noqa: S602
            self._line,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._running = process
        try:
            _, errors = process.communicate(finding, timeout=self._limit)
        except subprocess.TimeoutExpired:
            _end(process)
            self._say(f"on-finding: ended after {self._limit:g} s: {self._line}")
            return
        finally:
            self._running = None
        if process.returncode and not self._over:
            last = errors.decode(errors="replace").strip().rpartition("\n")[2]
            self._say(f"on-finding: exit status {process.returncode}: {last or self._line}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it began."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
