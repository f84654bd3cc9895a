"""Watches all the places that were given: which files are new, and when it is worth looking again."""

from __future__ import annotations

import os
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.sources.discover import LIMIT, Discovery, Walker
from grpo_top.sources.names import natural_key

if TYPE_CHECKING:
    from collections.abc import Sequence

_WATCHED_FOLDERS = 2_000
"""A tree of more folders is polled only: watches are a resource that all of a user's programs share."""
_STEP = 40
"""Milliseconds between two looks at whether events have come: an event waits for one or two, an idle run for all."""
_REMOTE = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "fuse")
"""File systems, by how their names begin, on which others' writes raise no event here."""


class Tree:
    """The files behind several places, as they appear. For one thread; `close` may come from another."""

    def __init__(self, wheres: Sequence[str], limit: int = LIMIT) -> None:
        self._wheres = tuple(wheres)
        self._limit = limit
        self._walkers = [Walker(where, limit) for where in self._wheres]
        self._found: list[Discovery | None] = [None] * len(self._walkers)
        self._known: set[Path] = set()
        self._past_limit: dict[Path, None] = {}
        self._wake = _Wake()
        self.root = _common_root([walker.place for walker in self._walkers])
        """The deepest folder that holds everything: names are shown relative to it."""
        self.left_out: tuple[str, ...] = ()
        """What was not taken, one line for each kind of thing."""
        self.missing: tuple[str, ...] = self._wheres
        """Places that are not there, or globs that match nothing."""

    def scan(self) -> list[Path]:
        """Files that were not there at the last call, in natural order."""
        before, self._found = self._found, [walker.scan() for walker in self._walkers]
        if all(new is old for new, old in zip(self._found, before, strict=True)):
            return []
        found = [discovery for discovery in self._found if discovery is not None]
        new = (
            {path for discovery in found for path in discovery.files} - self._known - self._past_limit.keys()
        )
        ordered = sorted(new, key=lambda path: [natural_key(part) for part in path.parts])
        room = self._limit - len(self._known)
        taken = ordered[:room]
        self._known.update(taken)
        self._past_limit.update(dict.fromkeys(ordered[room:]))
        self._describe(found)
        return taken

    def wait(self, timeout: float) -> None:
        """Sleeps until something has probably changed, or for `timeout` seconds.

        Events are asked for on folders of local file systems alone; files and globs are for the poll.
        """
        if not self._wake.started:
            folders = [
                walker.place
                for walker in self._walkers
                if not walker.is_glob and 0 < walker.folders <= _WATCHED_FOLDERS and _is_local(walker.place)
            ]
            if folders:
                self._wake.start(folders)
        self._wake.wait(timeout)

    def close(self) -> None:
        """Ends the watching, and a `wait` that is under way."""
        self._wake.close()

    def _describe(self, found: list[Discovery]) -> None:
        self.root = _common_root([discovery.root for discovery in found])
        lines = dict.fromkeys(line for discovery in found for line in discovery.left_out)
        if self._past_limit:
            first = next(iter(self._past_limit))
            lines[f"{len(self._past_limit):,} files (e.g. {first}): past the limit of {self._limit:,}"] = None
        self.left_out = tuple(lines)
        self.missing = tuple(
            where
            for where, walker, discovery in zip(self._wheres, self._walkers, found, strict=True)
            if not discovery.files and (walker.is_glob or not walker.place.exists())
        )


class _Wake:
    """A bell that the system's file events ring, from a thread of its own; without them, a plain sleep."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        return self._thread is not None or self._stop.is_set()

    def start(self, folders: list[Path]) -> None:
        """Watches these folders with all below them."""
        self._thread = threading.Thread(target=self._watch, args=(folders,), name="file events", daemon=True)
        self._thread.start()

    def wait(self, timeout: float) -> None:
        if self._changed.wait(timeout) and not self._stop.is_set():
            self._changed.clear()

    def close(self) -> None:
        self._stop.set()
        self._changed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)

    def _watch(self, folders: list[Path]) -> None:
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


def _common_root(places: list[Path]) -> Path:
    return Path(os.path.commonpath(places)) if places else Path.cwd()


@cache
def _is_local(folder: Path) -> bool:
    """Whether file events can be expected; where the mounts cannot be read, yes."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return True
    best, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split(" ")[4].replace("\\040", " ")
        if len(point) >= len(best) and folder.is_relative_to(point):
            best, kind = point, after.split(" ")[0]
    return not kind.startswith(_REMOTE)
