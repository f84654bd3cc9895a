"""From a directory, a file or a glob to the files behind it. Nothing is opened here."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.sources.globs import Glob, States, split_glob
from grpo_top.sources.names import SKIPPED_FOLDERS, Kind, kind_of, natural_key

if TYPE_CHECKING:
    from collections.abc import Collection

LIMIT = 20_000
"""Files taken and folders looked into, at most."""
SETTLED_SECONDS = 2.0
"""A folder whose mtime had stood this long when it was listed is not listed again until its mtime changes.
Measured by our own clock: a file system's may be coarse, or another machine's."""


class Discovery(NamedTuple):
    """What lies behind a place."""

    root: Path
    """Absolute folder that the names are relative to."""
    files: tuple[Path, ...]
    """Absolute. A folder's files before its subfolders, `step_2` before `step_10`, links last."""
    left_out: tuple[str, ...]
    """One line for each kind of thing that was not taken."""


def discover(where: str | Path, limit: int = LIMIT) -> Discovery:
    """The files worth reading behind a directory (any depth), a file or a glob; none if nothing is there."""
    return Walker(where, limit).scan()


class _Aside(Enum):
    """Why something was left out: one of them, several of them, and the reason."""

    PICKLE = ("pickle file", "pickle files", "never loaded, since unpickling runs code")
    OLD_COPY = ("old copy", "old copies", "set aside by a rotation or a resume; only the file in use is read")
    SPECIAL = ("pipe, socket or device", "pipes, sockets or devices", "never opened")
    UNREADABLE = ("unreadable folder", "unreadable folders", "see its permissions")
    RUBBISH = ("file of weights or a tokenizer", "files of weights or a tokenizer", "no log")
    TOO_MANY_FILES = ("file", "files", "past the limit of {limit:,}")
    TOO_MANY_FOLDERS = ("folder", "folders", "past the limit of {limit:,}")


_ASIDE_KINDS = {Kind.PICKLE: _Aside.PICKLE, Kind.OLD_COPY: _Aside.OLD_COPY}


class _Place(NamedTuple):
    """A folder to look into, or a link that may lead to one."""

    path: Path
    states: States
    any_name: bool
    """Files below it are taken whatever their names."""


class _File(NamedTuple):
    path: Path
    identity: tuple[int, int]
    """Device and inode."""


class _Listing(NamedTuple):
    """What one look at a folder, or at a link's target, found."""

    files: tuple[_File, ...] = ()
    folders: tuple[_Place, ...] = ()
    links: tuple[_Place, ...] = ()
    aside: tuple[tuple[_Aside, Path], ...] = ()


_NOTHING = _Listing()


class _Folder:
    """A listing that is kept, and how far it can be trusted."""

    def __init__(self, mtime_ns: int, first_seen: float, paths: dict[str, Path]) -> None:
        self.mtime_ns = mtime_ns
        self.first_seen = first_seen
        self.paths = paths
        """Made once for each name: most of the cost of listing a folder anew."""
        self.settled = False
        self.listing = _NOTHING


class Walker:
    """Finds the files behind one place again and again; where nothing changed, for one `stat` a folder."""

    def __init__(self, where: str | Path, limit: int = LIMIT) -> None:
        given = Path(where).expanduser().absolute()
        self.place, parts = (given, ()) if os.path.lexists(given) else split_glob(given)
        """The file or folder that is looked at; of a glob, the part before its first wildcard."""
        self.is_glob = bool(parts)
        self._glob = Glob(parts)
        self._limit = limit
        self._folders: dict[Path, _Folder] = {}
        self._seen: tuple[bool, list[_Listing]] = (False, [])
        self._last: Discovery | None = None

    @property
    def folders(self) -> Collection[Path]:
        """The folders that the last scan looked into."""
        return self._folders.keys()

    def scan(self) -> Discovery:
        """What is there now: the same object as the last time where nothing changed."""
        listings = self._walk()
        seen = (bool(self._folders), listings)  # an empty folder is not the same as none
        if self._last is None or seen != self._seen:
            self._seen, self._last = seen, self._summed(listings)
        return self._last

    def _walk(self) -> list[_Listing]:
        listings: list[_Listing] = []
        before, self._folders = self._folders, {}
        visited: set[tuple[int, int]] = set()
        now = time.monotonic()
        start = _Place(self.place, self._glob.start, any_name=not self.is_glob)
        # Links come last, so that a file is known by its own name rather than by that of a link to it.
        stack: list[_Place] = []
        links = deque([start])
        while stack or links:
            place = stack.pop() if stack else links.popleft()
            try:
                status = place.path.stat()
            except OSError as error:
                listings.append(_unreadable(place, error))
                continue
            if not stat.S_ISDIR(status.st_mode):
                listings.append(self._target(place, status))
                continue
            identity = (status.st_dev, status.st_ino)
            if identity in visited:
                continue
            visited.add(identity)
            if len(visited) > self._limit:
                listings.append(_Listing(aside=((_Aside.TOO_MANY_FOLDERS, place.path),)))
                continue
            if place is start:
                place = start._replace(any_name=False)
            listing = self._look(place, status, before.get(place.path), now)
            listings.append(listing)
            links.extend(listing.links)
            stack.extend(reversed(listing.folders))
        return listings

    def _target(self, place: _Place, status: os.stat_result) -> _Listing:
        """What a link, or the place itself, leads to where that is no folder."""
        if not self._glob.takes(place.states):
            return _NOTHING
        if not stat.S_ISREG(status.st_mode):
            return _Listing(aside=((_Aside.SPECIAL, place.path),))
        return _file_or_aside(place.path, (status.st_dev, status.st_ino), place.any_name)

    def _look(self, place: _Place, status: os.stat_result, known: _Folder | None, now: float) -> _Listing:
        """The folder's listing, from memory where that is safe."""
        if known is None or known.mtime_ns != status.st_mtime_ns:
            known = _Folder(status.st_mtime_ns, now, known.paths if known else {})
        self._folders[place.path] = known
        if known.settled:
            return known.listing
        try:
            with os.scandir(place.path) as found:
                entries = sorted(found, key=lambda entry: natural_key(entry.name))
        except OSError as error:
            return _unreadable(place, error)
        known.listing = self._listed(place, known.paths, entries, status.st_dev)
        known.settled = now - known.first_seen >= SETTLED_SECONDS
        return known.listing

    def _listed(
        self, place: _Place, paths: dict[str, Path], entries: list[os.DirEntry[str]], device: int
    ) -> _Listing:
        files: list[_File] = []
        folders: list[_Place] = []
        links: list[_Place] = []
        aside: list[tuple[_Aside, Path]] = []
        # MLflow names a metric's file after the metric, without a suffix.
        mlflow_run = any(entry.name == "meta.yaml" for entry in entries)
        for entry in entries:
            name = entry.name
            states = self._glob.step(place.states, name)
            if not states or name in SKIPPED_FOLDERS:
                continue
            path = paths.get(name) or paths.setdefault(name, place.path / name)
            any_name = place.any_name or (mlflow_run and name == "metrics")
            if entry.is_symlink():
                links.append(_Place(path, states, any_name))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(_Place(path, states, any_name))
            elif not self._glob.takes(states):
                continue
            elif entry.is_file(follow_symlinks=False):
                found = _file_or_aside(path, (device, entry.inode()), place.any_name)
                files += found.files
                aside += found.aside
            else:
                aside.append((_Aside.SPECIAL, path))
        return _Listing(tuple(files), tuple(folders), tuple(links), tuple(aside))

    def _summed(self, listings: list[_Listing]) -> Discovery:
        root = self.place if self._folders or self.is_glob else self.place.parent
        files: dict[tuple[int, int], Path] = {}
        aside: dict[_Aside, list[Path]] = {}
        for listing in listings:
            for kind, path in listing.aside:
                if kind is not _Aside.RUBBISH or path == self.place:
                    aside.setdefault(kind, []).append(path)
            for file in listing.files:
                files.setdefault(file.identity, file.path)
        taken = tuple(files.values())
        if len(taken) > self._limit:
            aside[_Aside.TOO_MANY_FILES] = list(taken[self._limit :])
        lines = tuple(_line(kind, aside[kind], root, self._limit) for kind in _Aside if kind in aside)
        return Discovery(root, taken[: self._limit], lines)


def _file_or_aside(path: Path, identity: tuple[int, int], any_name: bool) -> _Listing:
    kind = kind_of(path.name)
    if kind is Kind.READABLE or (any_name and kind in {Kind.OTHER, Kind.OLD_COPY}):
        return _Listing(files=(_File(path, identity),))
    if kind in _ASIDE_KINDS:
        return _Listing(aside=((_ASIDE_KINDS[kind], path),))
    return _Listing(aside=((_Aside.RUBBISH, path),)) if kind is Kind.RUBBISH else _NOTHING


def _unreadable(place: _Place, error: OSError) -> _Listing:
    """Nothing for a link to nowhere, or for what vanished since its folder was listed."""
    gone = error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
    return _NOTHING if gone else _Listing(aside=((_Aside.UNREADABLE, place.path),))


def _line(kind: _Aside, paths: list[Path], root: Path, limit: int) -> str:
    """`12 pickle files (e.g. a/b.pt): never loaded, …`."""
    one, several, why = kind.value
    name = paths[0].relative_to(root) if paths[0].is_relative_to(root) else paths[0]
    noun = one if len(paths) == 1 else several
    return f"{len(paths):,} {noun} (e.g. {name}): {why.format(limit=limit)}"
