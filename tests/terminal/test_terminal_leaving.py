"""How it ends in a terminal: told to by a signal, or left by a terminal that has gone."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from runs import group, run_record, write_log

ROOT = Path(__file__).parent.parent.parent
VANISHES = "its terminal vanishes, and SIGHUP is ignored"
ENDS = {
    ("monitor", "SIGTERM"): 143,
    ("monitor", VANISHES): None,
    ("demo", "SIGHUP"): 129,
    ("check", "SIGHUP"): 129,
    ("follow", VANISHES): None,
    ("serve", VANISHES): None,
}
"""Verb and what happens to it → exit status; None where there is nobody left to take it."""
SIGNS = {"monitor": b" live", "demo": b" live", "serve": b"is served at"}
"""What shows that it has begun; the others say nothing."""
PATIENCE = 15.0
"""Seconds until it is gone: thrice the 5 that are promised, where six of them leave at once beside other tests."""


class InTerminal:
    """A program that holds a terminal of its own, of which this is the other end."""

    def __init__(self, arguments: list[str], scratch: Path, *, ignores_hangup: bool) -> None:
        self._ours, self._its = os.openpty()
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.before = termios.tcgetattr(self._its)
        self.scratch = scratch

        # The first terminal that the leader of a session opens is the session's.
        trap = 'trap "" HUP; ' if ignores_hangup else ""
        begin = f'{trap}exec "$@" <"$0" >"$0" 2>&1'
        self.process = subprocess.Popen(
            ["sh", "-c", begin, os.ttyname(self._its), sys.executable, "-m", "grpo_top", *arguments],
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", "TMPDIR": str(scratch)},
            start_new_session=True,
        )
        self.sent = bytearray()
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, text: bytes) -> None:
        """Return once it has written that."""
        end = time.monotonic() + 30
        while text not in self.sent:
            assert time.monotonic() < end, bytes(self.sent[-500:])
            time.sleep(0.02)

    def meet(self, what: str) -> None:
        """Have that happen to it."""
        if what == VANISHES:
            self.close()
        else:
            self.process.send_signal(signal.Signals[what])

    @property
    def busy_seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal takes lines again, shows its cursor, and no full-screen program has it."""
        entered, left = self.sent.rfind(b"\x1b[?1049h"), self.sent.rfind(b"\x1b[?1049l")
        hidden, shown = self.sent.rfind(b"\x1b[?25l"), self.sent.rfind(b"\x1b[?25h")
        return termios.tcgetattr(self._its) == self.before and left >= entered and shown >= hidden

    def end(self) -> None:
        """End it, if it has not ended."""
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Let the terminal go."""
        if not self._over.is_set():
            self._over.set()
            self._reader.join()
            os.close(self._its)
            os.close(self._ours)

    def _read(self) -> None:
        while not self._over.is_set():
            if select.select([self._ours], [], [], 0.05)[0]:
                self.sent += os.read(self._ours, 1 << 16)


def _arguments(verb: str, folder: Path, silent_port: int) -> list[str]:
    return {
        "monitor": [str(folder)],
        "demo": ["demo"],
        "check": ["check", f"http://127.0.0.1:{silent_port}/metrics"],
        "follow": ["check", "--follow", str(folder)],
        "serve": ["serve", "--port", "0", str(folder)],
    }[verb]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc to see processor time in")
@pytest.mark.usefixtures("signals_are_heard")
def test_each_verb_is_gone_in_time_and_leaves_all_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write_log(folder / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    with ExitStack() as at_the_end:
        silent = at_the_end.enter_context(socket.create_server(("127.0.0.1", 0)))
        programs = {}
        for number, (verb, what) in enumerate(ENDS):
            scratch = tmp_path / str(number)
            scratch.mkdir()
            arguments = _arguments(verb, folder, silent.getsockname()[1])
            programs[verb, what] = InTerminal(arguments, scratch, ignores_hangup=what == VANISHES)
            at_the_end.callback(programs[verb, what].end)
        for (verb, _), program in programs.items():
            if verb in SIGNS:
                program.wait_for(SIGNS[verb])
        at_the_end.enter_context(silent.accept()[0])

        for (_, what), program in programs.items():
            program.meet(what)
        began = time.monotonic()
        for (verb, what), program in programs.items():
            busy = program.busy_seconds
            while (status := program.process.poll()) is None:
                assert time.monotonic() - began < PATIENCE, (verb, what)
                assert program.busy_seconds - busy < 2, (verb, what)
                time.sleep(0.02)
            if what != VANISHES:
                assert status == ENDS[verb, what], (verb, what)
                assert program.is_as_before, (verb, what, bytes(program.sent[-300:]))
            assert list(program.scratch.iterdir()) == [], (verb, what)
