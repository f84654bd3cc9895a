"""Input of a terminal that wakes nobody while no key is pressed."""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from threading import Event
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

_AGAIN_SECONDS = 0.1
"""After so long without more, what has come of a key is looked at again: `esc` begins many others."""


class QuietInput(LinuxDriver):
    """Waits for a key, or for the end. Textual's own driver looks ten times a second whether the end has come."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.exit_event = self._end = _Rung()

    def run_input_thread(self) -> None:
        """Tell the app of what is typed, until the end."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        sources = [self.fileno, self._end.bell]
        while not self._end.is_set():
            waits = getattr(parser, "_timeout_time", 0.0) is not None
            ready, _, _ = select.select(sources, [], [], _AGAIN_SECONDS if waits else None)
            if self.fileno in ready:
                typed = os.read(self.fileno, 4096)
                if not typed:  # nobody is at the other end any more
                    sources.remove(self.fileno)
                elif text := decode(typed):
                    for event in parser.feed(text):
                        self.process_message(event)
            for event in parser.tick():
                self.process_message(event)


class _Rung(Event):
    """An event that a `select` wakes up for."""

    def __init__(self) -> None:
        super().__init__()
        self.bell, self._rope = os.pipe()

    def set(self) -> None:
        """Let it happen."""
        super().set()
        os.write(self._rope, b"!")

    def clear(self) -> None:
        """Let it not have happened."""
        if self.is_set():
            os.read(self.bell, 1)
        super().clear()
