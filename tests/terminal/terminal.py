"""A real terminal for tests: a shell in a tmux server of its own."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROMPT = "ready> "
_numbers = itertools.count()


class Tmux:
    """A window of `columns` x `rows` in which a plain shell waits at `PROMPT`, with `environment` added.

    The server is private to it and reads no configuration: nothing else that runs in tmux is seen or touched.
    """

    def __init__(
        self, directory: Path, environment: Mapping[str, str], columns: int = 120, rows: int = 40
    ) -> None:
        self._server = f"grpo-top-test-{os.getpid()}-{next(_numbers)}"
        own = {"LC_ALL": "C.UTF-8", "COLORTERM": "truecolor", "PS1": PROMPT, "ENV": "", **environment}
        # A size that the environment states would stand above the window's own.
        variables = [f"{name}={value}" for name, value in own.items()]
        shell = shlex.join(["env", "-u", "COLUMNS", "-u", "LINES", *variables, "sh", "-i"])
        window = ["new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(directory), shell]
        terminal = ["set", "-g", "default-terminal", "screen-256color"]
        size = ["set", "-g", "default-size", f"{columns}x{rows}"]
        self._tmux("-f", os.devnull, "start-server", ";", *terminal, ";", *size, ";", *window)
        try:
            self.wait_for(PROMPT.strip(), 10)
        except AssertionError:
            self.close()
            raise

    def start(self, command: list[str]) -> None:
        """Type a command and enter it."""
        self._tmux("send-keys", "-l", shlex.join(command))
        self.keys("Enter")

    def keys(self, *names: str) -> None:
        """Press keys, by tmux's names: `q`, `Enter`, `Escape`, `Up`, `C-c`, …"""
        self._tmux("send-keys", *names)

    def record(self, path: Path) -> None:
        """Write every byte that programs send to the window into a file, from now on."""
        self._tmux("pipe-pane", shlex.join(["tee", str(path)]) + " >/dev/null")

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> str:
        """What is seen now, a line a row, without colours."""
        return self._tmux("capture-pane", "-p")

    @property
    def alternate_screen(self) -> bool:
        """Whether a full-screen program holds the terminal."""
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    @property
    def at_prompt(self) -> bool:
        """Whether the shell waits for a command and no full-screen program holds the terminal."""
        lines = self.screen().rstrip().splitlines()
        return not self.alternate_screen and bool(lines) and lines[-1].strip() == PROMPT.strip()

    def wait_for(self, text: str, seconds: float) -> str:
        """The screen once `text` is on it. AssertionError, with the screen, where it is not in time."""
        self.wait_until(lambda: text in self.screen(), seconds, f"{text!r} is on the screen")
        return self.screen()

    def wait_until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Return once `holds` does. AssertionError, with the screen, where it does not in time."""
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"after {seconds:g} s it does not hold that {what}:\n{self.screen()}")
            time.sleep(0.05)

    def close(self) -> None:
        """End the server and all that runs in it."""
        socket = Path(self._tmux("display-message", "-p", "#{socket_path}").strip())
        self._tmux("kill-server")
        socket.unlink(missing_ok=True)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-L", self._server, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
        return done.stdout
