"""Waiting for files to change: what the system tells of it only ends a wait early, and the poll needs none of it."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_STEP = 40
"""Milliseconds between two looks at whether events have come: an event waits for one or two, an idle run for all."""
_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _ONLY_FOLDERS = 0x2, 0x40, 0x80, 0x100, 0x200, 0x01000000
"""From `sys/inotify.h`, the same on every machine."""
_MASK = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS
_OVERFLOW = 0x4000
"""Events were lost."""
_EVENT = struct.Struct("iIII")
"""Watch, kind, cookie, and the length of the name that follows."""
_READ = 1 << 16


class Wake(Protocol):
    """Ends a wait early. For one thread; `ring` and `close` may come from another."""

    at_once: bool
    """Whether every change in the folders is told, and as it happens."""

    def watch(self, folders: Sequence[Path]) -> None:
        """Watch these folders, which may be more than before."""

    def wait(self, timeout: float) -> set[Path]:
        """Sleep until something has changed, or for so many seconds; what has, as far as that is told."""

    def ring(self) -> None:
        """End a wait, one that is under way or the next."""

    def close(self) -> None:
        """End a wait that is under way, and watch nothing more."""


def new_wake() -> Wake:
    """The kernel's own events where it is Linux: they come at once, and waiting for them costs nothing."""
    if not sys.platform.startswith("linux"):
        return WatchedFolders()
    try:
        return KernelEvents()
    except (OSError, AttributeError):  # the user's instances are used up; a C library without them
        return PlainSleep()


class PlainSleep:
    """A sleep that can be ended."""

    at_once = False

    def __init__(self) -> None:
        self._changed = threading.Event()
        self._stop = threading.Event()

    def watch(self, folders: Sequence[Path]) -> None:
        """Nothing is watched."""

    def wait(self, timeout: float) -> set[Path]:
        """Sleep for so many seconds, unless `ring` ends it."""
        if self._changed.wait(timeout) and not self._stop.is_set():
            self._changed.clear()
        return set()

    def ring(self) -> None:
        """End a wait."""
        self._changed.set()

    def close(self) -> None:
        """End a wait, and every later one."""
        self._stop.set()
        self._changed.set()


class KernelEvents:
    """Linux's inotify. OSError where there is none to be had."""

    at_once = True

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._events = self._library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._events < 0:
            raise OSError(ctypes.get_errno(), "no file events")
        self._bell, self._hammer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        for end in (self._events, self._bell):
            self._poll.register(end, select.POLLIN)
        self._folders: dict[int, Path] = {}
        """By the number of their watch."""
        self._closed = False

    def watch(self, folders: Sequence[Path]) -> None:
        """Watch these folders; one that is watched already stays so, and one that cannot be is for the poll."""
        watches = {
            self._library.inotify_add_watch(self._events, os.fsencode(folder), _MASK): folder
            for folder in folders
        }
        self.at_once = watches.pop(-1, None) is None
        self._folders.update(watches)

    def wait(self, timeout: float) -> set[Path]:
        """Sleep until something has changed, or for so many seconds; which files have."""
        told: set[Path] = set()
        if self._closed:
            return told
        for end, _ in self._poll.poll(timeout * 1000):
            with suppress(BlockingIOError):
                while data := os.read(end, _READ):
                    if end == self._events:
                        told.update(self._files(data))
        return told

    def ring(self) -> None:
        """End a wait, one that is under way or the next."""
        with suppress(BlockingIOError):  # so many rings that one more says nothing
            os.write(self._hammer, b".")

    def close(self) -> None:
        """End a wait that is under way, and every later one."""
        self._closed = True
        self.ring()

    def __del__(self) -> None:
        """Not before: somebody may be waiting for what `close` would take away."""
        for end in ("_events", "_bell", "_hammer"):
            if getattr(self, end, -1) >= 0:
                os.close(getattr(self, end))

    def _files(self, data: bytes) -> Iterator[Path]:
        at = 0
        while at < len(data):
            watch, kind, _, length = _EVENT.unpack_from(data, at)
            self.at_once = self.at_once and not kind & _OVERFLOW
            at += _EVENT.size + length
            name = data[at - length : at].rstrip(b"\0")
            if name and watch in self._folders:
                yield _within(self._folders[watch], name)


@lru_cache(maxsize=4096)
def _within(folder: Path, name: bytes) -> Path:
    """A file that is told of; remembered, as the same ones are told again and again."""
    return folder / os.fsdecode(name)


class WatchedFolders(PlainSleep):
    """Events by way of watchfiles, from a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._thread: threading.Thread | None = None

    def watch(self, folders: Sequence[Path]) -> None:
        """Watch these folders with all below them; those that are told later lie below one of them."""
        if self._thread is None and folders and not self._stop.is_set():
            highest = [one for one in folders if not set(one.parents) & set(folders)]
            self._thread = threading.Thread(
                target=self._listen, args=(highest,), name="file events", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """End a wait that is under way, and the thread."""
        super().close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)

    def _listen(self, folders: Sequence[Path]) -> None:
        try:
            import watchfiles  # noqa: PLC0415  (only a run that is followed needs it)

            changes = watchfiles.watch(
                *folders,
                watch_filter=None,
                debounce=80,
                step=_STEP,
                stop_event=self._stop,
                rust_timeout=1_000,
                yield_on_timeout=False,
                raise_interrupt=False,
            )
            for _ in changes:
                self._changed.set()
        except Exception:  # events only wake the poll early, and the poll needs none of this
            return
