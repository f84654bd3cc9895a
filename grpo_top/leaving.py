"""How a process of grpo-top ends: told to by a signal, or left by its terminal. In seconds, whatever it is doing."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grpo_top.defects import info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRACE_SECONDS = 3.0
"""How long an ending in good order may take; then the process ends as it stands."""
GONE_SECONDS = 1.0
"""The same where the terminal has gone: there is nothing to give back, and Textual reads its end over and over."""
LOOK_SECONDS = 0.5
"""How often it is looked whether the terminal is still there."""
LAST_SECONDS = 0.5
"""How long one of the last things may take: a terminal that takes no bytes must not hold the end up."""

_last: list[Callable[[], object]] = []


def status_of(number: int) -> int:
    """The exit status of a process that a signal ended, as shells have it."""
    return 128 + number


def raise_it(number: int) -> None:
    """End the main thread by an exception, so that whatever is open is closed on the way."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(status_of(number))


@contextmanager
def told(end: Callable[[int], object] = raise_it) -> Iterator[None]:
    """Within it, SIGINT, SIGTERM and SIGHUP call `end` with their number; what takes too long then is cut short.

    A signal that is ignored stays so, as under `nohup`. `end` is called in the main thread, between two of its steps.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals come to the main thread alone
        return

    def came(number: int, _frame: object) -> None:
        info("told to end by %s", signal.Signals(number).name)
        _begin_to_end(status_of(number), GRACE_SECONDS)
        end(number)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, came)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def with_its_terminal() -> Iterator[None]:
    """Within it, the process gets a SIGTERM once a terminal that it began on is gone (`ssh` cut, window closed).

    SIGHUP says so too, but not where it is ignored, nor to a process in the background.
    """
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            if not all(map(os.isatty, terminals)):
                info("the terminal has gone")
                _begin_to_end(status_of(signal.SIGHUP), GONE_SECONDS)
                os.kill(os.getpid(), signal.SIGTERM)
                return

    if terminals:
        threading.Thread(target=look, name="grpo-top terminal", daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def at_last(action: Callable[[], object]) -> Iterator[None]:
    """Within it, `action` is also done where the process has to end as it stands. It is called in another thread."""
    _last.append(action)
    try:
        yield
    finally:
        _last.remove(action)


def _begin_to_end(status: int, grace: float) -> None:
    threading.Thread(target=_end_late, args=(status, grace), name="grpo-top end", daemon=True).start()


def _end_late(status: int, grace: float) -> None:
    time.sleep(grace)
    for action in reversed(_last):
        doing = threading.Thread(target=action, daemon=True)
        doing.start()
        doing.join(LAST_SECONDS)
    os._exit(status)
