"""Which runs are in the places that are watched, and which file is of which run.

Trackers tell their runs apart by ids; of plain files the folders tell (`grpo_top.places`). A tracker's run that lies
in the folder of one plain run is that run logged once more.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.formats.registry import TENSORBOARD, TRACKERS
from grpo_top.places import BESIDE_A_RUN, Ground, Kind, Piece, grounds, home_of, is_part
from grpo_top.sources.names import natural_key
from grpo_top.spelling import meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grpo_top.formats.base import Claim, RunContext

_TRACKERS = frozenset(tracker.name for tracker in TRACKERS)
_ID_SHOWN = 8
"""Characters of an id that tell it from others, mostly."""
_LEVELS_OF_TENSORBOARD = re.compile(r"runs|[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.*")
"""Folders that its writers make below a run's own."""


def is_trackers(format_name: str) -> bool:
    """Whether a format is a tracker's, whose files may hold several runs each."""
    return format_name in _TRACKERS


class TrackedRun(NamedTuple):
    """One run of a tracker."""

    tracker: str
    id: str
    name: str
    began: float
    place: Path
    """The folder of its own, or the database or folder that it shares with others."""
    has_folder: bool


class FoundRun(NamedTuple):
    """One run among those that the watched places hold."""

    key: str
    """Its folder, or its id in a tracker."""
    name: str
    """What it is called here; no other run here is called so."""
    where: tuple[str, ...]
    """What to read it from."""
    pick: str | None
    """The run to pick there, where there are others as well."""
    root: Path | None
    """Its folder, where plain files have shown it."""
    tracked: tuple[TrackedRun, ...]
    """The trackers' runs that are of it; of one tracker, only one of them is read."""
    formats: tuple[str, ...]
    """A trainer's before a tracker's."""

    def command(self, verb: str = "") -> str:
        """What to type to read it."""
        from shlex import quote  # noqa: PLC0415  most places hold one run

        words = ["grpo-top", verb, *map(_from_here, self.where), *(("--run", self.pick) if self.pick else ())]
        return " ".join(quote(word) for word in words if word)

    def is_called(self, name: str) -> bool:
        """Whether that is its name here, or its folder's, or a tracker's name or id of it."""
        names = {
            self.name,
            self.key,
            *self.where,
            *(one for run in self.tracked for one in (run.id, run.name)),
        }
        return name in names or (
            self.root is not None and name.rstrip("/") in (self.root.name, str(self.root))
        )


class Runs:
    """Every run in the watched places, kept up to date as files appear."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._files: list[tuple[Path, str, Claim]] = []
        self._samples: dict[tuple[Path, str, Kind], Path] = {}
        """Folder, writer and kind of plain files → one of them: the others are of the same run."""
        self._pieces: dict[tuple[Path, str, Kind], Piece] = {}
        self._seen: object = None
        self._top = Path()
        self._of_home: dict[Path, str] = {}
        self._of_tracked: dict[tuple[str, str], str] = {}
        self.all: tuple[FoundRun, ...] = ()
        """In natural order of their names."""

    def note(self, path: Path, format_name: str, claim: Claim) -> None:
        """Take a file in that a format reads. What a tracker's file holds must have been offered (see `Choice`)."""
        self._files.append((path, format_name, claim))
        if format_name not in _TRACKERS:
            self._samples.setdefault(_key(path, format_name, claim), path)

    def update(self, top: Path) -> bool:
        """Find the runs anew where something may have changed; whether it has. `top` holds every file."""
        offered = sum(len(choice.offers) for choice in self._context.choices.values())
        seen = top, len(self._samples), offered
        if seen == self._seen:
            return False
        self._seen, self._top, before = seen, top, self.all
        self._pieces = {
            key: Piece(home_of(path, key[1], top), key[2])
            for key, path in self._samples.items()
            if self._owner(path) is None
        }
        self.all = _found(set(self._pieces.values()), self._tracked(), top)
        self._of_home = {}
        self._of_tracked = {(run.tracker, run.id): found.key for found in self.all for run in found.tracked}
        by_root = {found.root: found.key for found in self.all if found.root is not None}
        for home in {piece.home for piece in self._pieces.values()}:
            nearest = next((folder for folder in (home, *home.parents) if folder in by_root), None)
            if nearest is not None:
                self._of_home[home] = by_root[nearest]
        return self.all != before

    def of(self, path: Path, format_name: str, claim: Claim) -> frozenset[str]:
        """The keys of the runs that a file is of: none where it is beside several, more than one of a database."""
        owner = self._owner(path)
        if owner is not None:
            return self._keys([owner])
        if format_name not in _TRACKERS:
            piece = self._pieces.get(_key(path, format_name, claim))
            key = None if piece is None else self._of_home.get(piece.home)
            return frozenset(() if key is None else (key,))
        choice = self._context.choices.get(format_name)
        if choice is None:
            return frozenset()
        run = choice.run_of(path) or claim.run
        if run:
            return self._keys([(format_name, run)])
        return self._keys((format_name, id_) for id_, offer in choice.offers.items() if offer.place == path)

    def of_tracked(self, tracker: str, run: str) -> str | None:
        """The key of the run that a tracker's run is of."""
        return self._of_tracked.get((tracker, run))

    def with_key(self, key: str | None) -> FoundRun | None:
        """The run of that key, if it is still there."""
        return next((run for run in self.all if run.key == key), None)

    def named(self, name: str) -> FoundRun:
        """The one run of that name; ValueError, with the nearest, where there is none or more than one."""
        found = [run for run in self.all if run.name == name] or [
            run for run in self.all if run.is_called(name)
        ]
        if len(found) == 1:
            return found[0]
        names = [run.name for run in self.all]
        if found:
            raise ValueError(f"{name} may be {' or '.join(run.name for run in found)}")
        near = meant(name, names)
        raise ValueError(f"no run here is called {name}" + (f"; did you mean {near}?" if near else ""))

    def written(self) -> dict[str, float]:
        """Key → when one of the run's files was last written, in seconds since the epoch."""
        found: dict[str, float] = {}
        for path, format_name, claim in self._files:
            try:
                time = path.stat().st_mtime
            except OSError:
                continue  # it has gone since it was found
            for key in self.of(path, format_name, claim):
                found[key] = max(time, found.get(key, 0.0))
        return found

    def _keys(self, tracked: Iterable[tuple[str, str]]) -> frozenset[str]:
        return frozenset(self._of_tracked[one] for one in tracked if one in self._of_tracked)

    def _owner(self, path: Path) -> tuple[str, str] | None:
        """The tracker and its run in whose own folder a file lies; TensorBoard's folders may be the trainer's."""
        for tracker, choice in self._context.choices.items():
            if tracker != TENSORBOARD and (run := choice.run_of(path)) is not None:
                return tracker, run
        return None

    def _tracked(self) -> list[TrackedRun]:
        return [
            TrackedRun(
                tracker, id_, offer.name, offer.began, Path(offer.place or self._top), offer.has_folder
            )
            for tracker, choice in self._context.choices.items()
            for id_, offer in choice.offers.items()
        ]


def _key(path: Path, format_name: str, claim: Claim) -> tuple[Path, str, Kind]:
    return path.parent, claim.writer, Kind(format_name, claim.role)


def _found(pieces: set[Piece], tracked: Sequence[TrackedRun], top: Path) -> tuple[FoundRun, ...]:
    """The runs that these make up."""
    plain = [ground for ground in grounds(pieces, top) if _tells(ground, pieces, tracked)]
    inside: dict[Path, list[TrackedRun]] = {ground.root: [] for ground in plain}
    outside: list[TrackedRun] = []
    for run in tracked:
        nearest = next((folder for folder in (run.place, *run.place.parents) if folder in inside), None)
        (outside if nearest is None else inside[nearest]).append(run)
    found = [_of_ground(ground, inside, pieces, top) for ground in plain]
    found += [_of_trackers(runs, tracked, top) for runs in _together(outside, alone=not plain, top=top)]
    return _told_apart(sorted(found, key=lambda run: natural_key(run.name)), top)


def _tells(ground: Ground, pieces: set[Piece], tracked: Sequence[TrackedRun]) -> bool:
    """Whether a folder's plain files show one run: not where there are but logs beside several runs of a tracker."""
    roles = {piece.kind.role for piece in pieces if piece.home in ground.homes}
    within = [run for run in tracked if run.place.is_relative_to(ground.root)]
    return not roles <= BESIDE_A_RUN or not _several(within)


def _several(runs: Iterable[TrackedRun]) -> bool:
    return any(count > 1 for count in Counter(run.tracker for run in runs).values())


def _together(runs: Sequence[TrackedRun], alone: bool, top: Path) -> list[list[TrackedRun]]:
    """Which trackers' runs are one run, logged to several trackers: those of one home, if each is its tracker's only.

    alone: there are no plain files that tell; then one run of each tracker is one run, wherever they are.
    """
    if runs and alone and not _several(runs):
        return [list(runs)]
    homes: dict[Path, list[TrackedRun]] = {}
    for run in runs:
        inner = run.place / run.id if run.tracker == TENSORBOARD else run.place
        homes.setdefault(home_of(inner, "", top), []).append(run)
    return [
        part
        for of_home in homes.values()
        for part in ([[run] for run in of_home] if _several(of_home) else [of_home])
    ]


def _of_ground(
    ground: Ground, inside: Mapping[Path, list[TrackedRun]], pieces: set[Piece], top: Path
) -> FoundRun:
    kinds = {piece.kind for piece in pieces if piece.home in ground.homes}
    formats = [kind.format for kind in sorted(kinds, key=lambda kind: (_ORDER.get(kind.role, 2), kind))]
    name = str(ground.root.relative_to(top)) if ground.root != top else top.name
    holds_others = any(root != ground.root and root.is_relative_to(ground.root) for root in inside)
    return FoundRun(
        key=str(ground.root),
        name=name,
        where=(str(ground.root),),
        pick=name if holds_others else None,
        root=ground.root,
        tracked=tuple(inside[ground.root]),
        formats=tuple(dict.fromkeys((*formats, *(run.tracker for run in inside[ground.root])))),
    )


def _of_trackers(runs: Sequence[TrackedRun], tracked: Sequence[TrackedRun], top: Path) -> FoundRun:
    first = runs[0]
    shared = next((run for run in runs if sum(other.place == run.place for other in tracked) > 1), None)
    return FoundRun(
        key=f"{first.tracker} {first.id}",
        name=_short(first.place, top) if first.tracker == TENSORBOARD else first.name,
        where=tuple(dict.fromkeys(str(run.place) for run in runs)),
        pick=None if shared is None else _said(shared, tracked),
        root=None,
        tracked=tuple(runs),
        formats=tuple(dict.fromkeys(run.tracker for run in runs)),
    )


def _said(run: TrackedRun, tracked: Sequence[TrackedRun]) -> str:
    """What to call a run that shares its place with others."""
    namesakes = sum(other.place == run.place and other.name == run.name for other in tracked)
    return run.name if namesakes == 1 else run.id


def _from_here(place: str) -> str:
    """A path as one would type it."""
    path, here = Path(place), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else place


_ORDER = {"rollouts": 0, "results": 0, "traces": 0, "metrics": 1, "console": 3}


def _short(folder: Path, top: Path) -> str:
    """A folder's name here, without the levels at its end that are called after what is in them."""
    parts = list(folder.relative_to(top).parts if folder.is_relative_to(top) else folder.parts)
    while len(parts) > 1 and (is_part(parts[-1]) or _LEVELS_OF_TENSORBOARD.fullmatch(parts[-1])):
        parts.pop()
    return "/".join(parts) or folder.name


def _told_apart(runs: Sequence[FoundRun], top: Path) -> tuple[FoundRun, ...]:
    """The runs, those of one name by what else tells them apart."""
    namesakes: dict[str, list[FoundRun]] = {}
    for run in runs:
        namesakes.setdefault(run.name, []).append(run)
    return tuple(
        run if len(namesakes[run.name]) == 1 else run._replace(name=_long_name(run, namesakes[run.name], top))
        for run in runs
    )


def _long_name(run: FoundRun, namesakes: Sequence[FoundRun], top: Path) -> str:
    if run.root is None and run.tracked[0].tracker != TENSORBOARD:
        ids = [other.tracked[0].id for other in namesakes if other.tracked]
        brief = len({id_[:_ID_SHOWN] for id_ in ids}) == len(ids)
        return f"{run.name} {run.tracked[0].id[: _ID_SHOWN if brief else None]}"
    folder = run.root or run.tracked[0].place
    return str(folder.relative_to(top)) if folder.is_relative_to(top) and folder != top else str(folder)
