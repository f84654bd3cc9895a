"""Sources → records, in the order in which they come; what becomes of them is left to who derives from it."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from grpo_top.config import FILE_NAME
from grpo_top.formats.base import RunContext
from grpo_top.formats.fleet_queries import NO_FLEETS
from grpo_top.formats.pickles import explained
from grpo_top.formats.registry import with_fields
from grpo_top.intake import Intake, recognise
from grpo_top.records import FleetLook, SamplerLook
from grpo_top.selection import Selection
from grpo_top.sources.tree import Tree
from grpo_top.sources.urls import is_url
from grpo_top.watchlist import Watchlist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from grpo_top.endpoints import Endpoint
    from grpo_top.formats.fleet_queries import Fleets
    from grpo_top.records import Record
    from grpo_top.remote import Part, RemoteRun
    from grpo_top.snapshot import SourceFacts
    from grpo_top.sources.http import Network

_LOOKS = (SamplerLook, FleetLook)
"""Records that do not say that the run goes on."""
SCAN_SECONDS = 1.0
SMALL_FILE = 64 << 10
FILES_AT_ONCE = 64
"""Files that are looked at in every poll; of more than that, those that are quiet take turns."""
QUIET_LOOKS = 40
"""Looks in a row that found nothing new, from which on a file counts as quiet."""
TURNS = 64
"""A quiet file is looked at in one of that many polls at least."""
FIRST_LOOK_SECONDS = 20.0
"""How long an endpoint's first answer is waited for where a run is read to its end."""
ASKED_AGAIN_SECONDS = 0.01
SURE = 50
"""Confidence from which on a file that needs no reading is not looked at again."""


class NothingReadable(Exception):
    """No file of a known format was found: one line that says what was looked for and where."""


class Reading(ABC):
    """Reads what is there, and then what is new, a slice at a time. Driven from one thread."""

    def __init__(
        self,
        where: Sequence[str],
        *,
        format_name: str | None = None,
        wanted: str | None = None,
        one_run: bool = False,
        fields: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        network: Network | Callable[[], Network] | None = None,
        samplers: Sequence[str] = (),
        fleets: Fleets = NO_FLEETS,
    ) -> None:
        """`where`: directories, files, globs and URLs. `samplers`, `fleets`: as `Watchlist` takes them."""
        self.where = tuple(where)
        self.tree = Tree([place for place in where if not is_url(place)])
        self.unfinished = False
        """Whether the last poll ended before all that is there was read."""
        self._format_name = format_name
        self._formats = with_fields(fields or {})
        self._clock = clock
        self._context = RunContext(wanted=wanted)
        self.selection = Selection(self._context, wanted, one_run)
        """The run that is read, among those that are there."""
        urls = [place for place in where if is_url(place)]
        self.watchlist = Watchlist(network, urls, samplers, self._context, format_name, fleets)
        """The endpoints that are asked, and those that are not."""
        self._remotes: dict[Endpoint, RemoteRun] = {}
        """Endpoints behind which another grpo-top serves a run."""
        self._intakes: list[Intake | Endpoint | Part] = []
        """By number, in the order in which they were found."""
        self._order: list[Intake | Endpoint] = []
        """In the order in which they are read."""
        self._unknown: dict[Path, int] = {}
        """Files that no format reads, as far as is known → the size at which they were last looked at."""
        self._of_no_interest: set[Path] = set()
        """Those of them that a format knows, and need not be told of."""
        self.looked_at = 0
        """Files that have been looked at so far: what is to be seen of a large place while it is opened."""
        self._next_scan = 0.0
        self._turn = 0
        self._polls = 0
        self._changes = 0

    def poll(self, seconds: float = 0.05, last: bool = False) -> bool:
        """Read for at most about `seconds`; whether anything new came. `last`: the sources have ended."""
        now = self._clock()
        if last or now >= self._next_scan or self.watchlist.waiting:
            self._scan()
            self._next_scan = now + SCAN_SECONDS
        deadline = time.perf_counter() + seconds
        came = self.unfinished = False
        turns = len(self._order)
        self._polls += 1
        every = 1 if last else min(TURNS, 1 + turns // FILES_AT_ONCE)
        for place in self._places(every):
            intake, in_time = self._order[place], True
            while in_time and (records := intake.read(last)) is not None:
                came = True
                for source, of_source in self._by_source(intake, records):
                    if source.rewritten or source.new_epoch:
                        self._begin_again(source)
                    self._take(source, of_source)
                    if any(type(record) not in _LOOKS for record in of_source):
                        source.hear(now, last)
                in_time = time.perf_counter() <= deadline
                if not last and isinstance(intake, Intake) and intake.caught_up:
                    break
            if not in_time:
                self.unfinished, self._turn = True, place
                break
        return came

    def _places(self, every: int) -> list[int]:
        """Which sources a poll looks at, from where the last one ended; of those that are quiet, one in `every`."""
        turns = len(self._order)
        start, self._turn = min(self._turn, turns), 0
        places = [*range(start, turns), *range(start)]
        if every == 1:
            return places
        order, turn = self._order, self._polls
        return [at for at in places if order[at].quiet_looks < QUIET_LOOKS or not (at + turn) % every]

    def look(self) -> None:
        """Find what is there, and which runs that is; nothing is read, and no endpoint asked."""
        self._scan(ask=False)

    def read_all(self) -> None:
        """Read everything that is there, to its end: nothing more will come.

        Endpoints have FIRST_LOOK_SECONDS to answer, and as long again with everything that comes.
        """
        self._read_to_end(lambda: False)

    def _read_to_end(self, stopped: Callable[[], bool]) -> None:
        self._context.to_end = True
        deadline = time.monotonic() + FIRST_LOOK_SECONDS
        while not stopped():
            if self.poll(seconds=1.0):
                deadline = time.monotonic() + FIRST_LOOK_SECONDS
            elif self.watchlist.looked or time.monotonic() > deadline:
                break
            else:
                time.sleep(ASKED_AGAIN_SECONDS)
        while not stopped() and self.poll(seconds=1.0, last=True):
            pass

    def close(self) -> None:
        """Watch and ask nothing more; what was read can still be looked at."""
        self.tree.close()
        self.watchlist.close()

    @property
    def files(self) -> int:
        """Sources that are read."""
        return len(self._intakes)

    @property
    def newest(self) -> float | None:
        """When the newest of what the run wrote was written, as far as is known."""
        return max((source.written for source in self._intakes if source.written is not None), default=None)

    @property
    def reading(self) -> float | None:
        """Share of the bytes that are there which has been read, while it catches up; else None."""
        total = sum(intake.size for intake in self._intakes)
        behind = sum(intake.behind for intake in self._intakes)
        return 1 - behind / total if behind and total else None

    def sources(self) -> tuple[SourceFacts, ...]:
        """How each source stands, by number."""
        return tuple(intake.facts() for intake in self._intakes)

    def changed(self) -> bool:
        """Whether the state of an endpoint, or of what lies behind it, is another than at the last call."""
        changes = sum(remote.changes for remote in self._remotes.values())
        before, self._changes = self._changes, changes
        return self.watchlist.changed() or before != changes

    def left_out(self) -> tuple[str, ...]:
        """What is not read, one line each."""
        unread = [
            path for path in self._unknown if path not in self._of_no_interest and path.name != FILE_NAME
        ]
        return (
            *map(explained, self.tree.left_out),
            *self.selection.left_out(),
            *self.watchlist.left_out(),
            *(line for remote in self._remotes.values() for line in remote.left_out),
            *(f"{self._name(path)}: no known format{_what_helps(path)}" for path in unread[:20]),
        )

    def require_readable(self) -> None:
        """Raise NothingReadable where no file of a known format was found."""
        endpoints = self.watchlist.endpoints
        if len(self._intakes) > len(endpoints) or any(endpoint.answers for endpoint in endpoints):
            return
        if endpoints:
            notes = (f"{facts.where}: {facts.note}" for facts in self.sources())
            raise NothingReadable("; ".join(notes))
        if self.tree.missing:
            raise NothingReadable(f"{', '.join(self.tree.missing)}: no such file, directory or URL")
        looked = len(self._unknown)
        where = " ".join(self.where)
        if not looked and self.tree.left_out:
            raise NothingReadable(
                f"{where}: nothing that is read: {'; '.join(map(explained, self.tree.left_out))}"
            )
        raise NothingReadable(
            f"{where}: no log of a known trainer among {looked} file{'s' if looked != 1 else ''}; "
            f"looked for logs of known trainers and trackers (see `grpo-top inspect {where}`; or `grpo-top demo`)"
        )

    @abstractmethod
    def _take(self, intake: Intake | Endpoint | Part, records: list[Record]) -> None:
        """The next records of a source."""

    @abstractmethod
    def _begin_again(self, intake: Intake | Endpoint | Part) -> None:
        """The file was rewritten: what it held falls, at once or as it comes again."""

    def _scan(self, ask: bool = True) -> None:
        new = self.tree.scan()
        grown = [path for path, size in self._unknown.items() if size < SMALL_FILE and _size(path) != size]
        for path in (*new, *grown):
            self.looked_at += 1
            found = recognise(path, self._format_name, self._formats)
            if found is None or found[1].feed == "none":
                # It is looked at again while it is so small that its first bytes may not have said what it is.
                if found is None or found[1].confidence < SURE:
                    self._unknown[path] = _size(path)
                if found is not None:
                    self._of_no_interest.add(path)
                    self.selection.beside(path, *found)
                continue
            self._unknown.pop(path, None)
            self.selection.add(path, self._name(path), *found)
        self._intakes += self.selection.take(self.tree.root, self._intakes)
        if ask:
            self._intakes += self.watchlist.take(len(self._intakes))
        self._set_order()

    def _set_order(self) -> None:
        files = [intake for intake in self._intakes if isinstance(intake, Intake)]
        if len(self._order) < len(files) + len(self.watchlist.endpoints):
            self._order = sorted(
                (*files, *self.watchlist.endpoints), key=lambda intake: (intake.claim.order, intake.number)
            )

    def _by_source(
        self, intake: Intake | Endpoint, records: list[Record]
    ) -> Iterator[tuple[Intake | Endpoint | Part, list[Record]]]:
        """What was read, with the source that it is of: behind an endpoint may be a run of many."""
        if isinstance(intake, Intake):
            yield intake, records
            return
        from grpo_top.remote import RemoteRun, RunWatcher, begins_in  # noqa: PLC0415  a run of files needs none

        if not isinstance(intake.format, RunWatcher):
            yield intake, records
            return
        if intake.new_epoch:
            self._start_over()
        if (begins := begins_in(records)) is not None:
            self._judge_by(begins.settings, intake.where)
        remote = self._remotes.setdefault(intake, RemoteRun(intake, intake.format))
        for part in remote.new_parts(records, len(self._intakes)):
            self._intakes[part.number : part.number + 1] = [part]
        yield from remote.take(records)

    def _judge_by(self, settings: Mapping[str, Any], origin: str) -> None:  # noqa: B027  most judge nothing
        """The settings that are in force where a run is served, before its first record."""

    def _start_over(self) -> None:
        """Let everything fall, and read it again: the log of a served run is another one by now."""
        self._remotes = {}
        self._intakes = [
            *(intake.anew() for intake in self._intakes if isinstance(intake, Intake)),
            *self.watchlist.endpoints,
        ]
        for number, intake in enumerate(self._intakes):
            intake.number = number
        self._order = []
        self._set_order()

    def _name(self, path: Path) -> str:
        below, name = str(self.tree.root).rstrip(os.sep) + os.sep, str(path)
        return name.removeprefix(below) if name.startswith(below) else path.name


def _what_helps(path: Path) -> str:
    """What the user can do for a file of records whose fields nobody knows."""
    is_records = path.suffix.lower() in (".jsonl", ".ndjson", ".csv", ".tsv")
    return f"; [fields] in {FILE_NAME} says which of its fields is which" if is_records else ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
