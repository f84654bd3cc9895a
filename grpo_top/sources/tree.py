"""Watches all the places that were given: which files are new, and when it is worth looking again."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.sources.discover import LIMIT, Discovery, Walker
from grpo_top.sources.names import natural_key
from grpo_top.sources.wake import Wake, new_wake

if TYPE_CHECKING:
    from collections.abc import Sequence

_WATCHED_FOLDERS = 2_000
"""A tree of more folders is polled only: watches are a resource that all of a user's programs share."""
_REMOTE = (
    *("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "fuse"),
    *("virtiofs", "vboxsf", "prl_fs", "drvfs"),
)
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
        self._wake: Wake | None = None
        """Begins with the first wait: a run that is read to its end needs none."""
        self._watched: list[Discovery | None] = []
        """What was there when the folders to watch were told last."""
        self._closed = False
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

    def wait(self, timeout: float) -> set[Path]:
        """Sleeps until something has probably changed, or for `timeout` seconds; which files have, if that is told."""
        if self._closed:
            return set()
        self._wake = self._wake or new_wake()
        if self._watched != self._found:
            self._watched = self._found
            self._wake.watch(self._to_watch())
        return self._wake.wait(timeout)

    @property
    def tells_at_once(self) -> bool:
        """Whether a wait ends as soon as anything changes."""
        if self._wake is None or not self._wake.at_once or self._watched != self._found:
            return False
        return all(map(_has_events, self._walkers))

    def ring(self) -> None:
        """Ends a wait that is under way. From any thread."""
        if self._wake is not None:
            self._wake.ring()

    def close(self) -> None:
        """Ends the watching, and a `wait` that is under way."""
        self._closed = True
        if self._wake is not None:
            self._wake.close()

    def _to_watch(self) -> list[Path]:
        told = filter(_has_events, self._walkers)
        return [folder for walker in told for folder in walker.folders or (walker.place.parent,)]

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


def _has_events(walker: Walker) -> bool:
    """Whether the system can be asked to tell of changes there."""
    is_there = bool(walker.folders) or walker.place.is_file()
    return is_there and len(walker.folders) <= _WATCHED_FOLDERS and _is_local(walker.place)


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
