"""A command in a terminal of its own, of 160x45: what it prints, when, and what it costs meanwhile."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROWS, COLUMNS = 45, 160
PLAIN = {"TERM": "xterm-256color", "COLORTERM": ""}
"""As over SSH, which does not pass on that a terminal has all colours."""


class Terminal:
    """Begins with the command; `close` ends it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] = PLAIN) -> None:
        self.began = time.perf_counter()
        self._process, self._file = pty.fork()
        if self._process == 0:
            os.environ.update(environment)
            os.execvp(command[0], command)
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.printed = b""
        """What came since this was last emptied."""

    def until(self, *markers: bytes, seconds: float = 60.0) -> float:
        """Read until a marker is in what is printed; the seconds since the command began. RuntimeError if not."""
        deadline = time.perf_counter() + seconds
        while not self.shows(*markers):
            if time.perf_counter() > deadline or not self._read(0.05):
                raise RuntimeError(f"{markers} were never drawn; the last: {self.printed[-200:]!r}")
        return time.perf_counter() - self.began

    def shows(self, *markers: bytes) -> bool:
        """Whether one of the markers is in what was printed."""
        return any(marker in self.printed for marker in markers)

    def collect(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> int:
        """Read for so long, or until `stop`; the bytes that came."""
        before, deadline = len(self.printed), time.perf_counter() + seconds
        while time.perf_counter() < deadline and not stop() and self._read(0.01):
            pass
        return len(self.printed) - before

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._file, keys)

    def cpu(self) -> float:
        """Processor time of the command so far, in seconds. Linux alone can say: elsewhere nan."""
        threads = list(Path(f"/proc/{self._process}/task").glob("*/schedstat"))
        return sum(int(one.read_text().split()[0]) for one in threads) / 1e9 if threads else float("nan")

    def close(self) -> None:
        """End the command."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._file)

    def _read(self, seconds: float) -> bool:
        """Take what is printed within so long; False where the command has ended."""
        ready, _, _ = select.select([self._file], [], [], seconds)
        if ready:
            try:
                self.printed += os.read(self._file, 1 << 16)
            except OSError:
                return False
        return True
