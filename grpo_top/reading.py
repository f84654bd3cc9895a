"""Sources → records, in the order in which they come; what becomes of them is left to who derives from it."""

from __future__ import annotations

import gc
import os
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from grpo_top import defects
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

    from grpo_top.bundle import Read
    from grpo_top.endpoints import Endpoint
    from grpo_top.formats.fleet_queries import Fleets
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
"""Looks in a row after which nothing was left to read, from which on a file counts as quiet."""
TURNS = 64
"""A quiet file is looked at in one of that many polls at least."""
FIRST_LOOK_SECONDS = 20.0
"""How long an endpoint's first answer is waited for where a run is read to its end."""
ASKED_AGAIN_SECONDS = 0.01
CALM = 4
"""Times as long between two polls where the system tells of changes at once: they are for what it does not tell."""
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
        self._place_of: dict[Path, int] = {}
        """Where the files stand in that order."""
        self._lively: set[int] = set()
        """The places of those that are not quiet."""
        self._told: set[Path] = set()
        """What was told to have changed since the last scan."""
        self._trusts_events = False
        """Whether all that had changed was told by then."""
        self._told_in_vain = 0
        """Waits in a row that something ended, and after which there was nothing to read."""
        self._unknown: dict[Path, int] = {}
        """Files that no format reads, as far as is known → the size at which they were last looked at."""
        self._defects: dict[Path, str] = {}
        """Those of them at which a format failed → what is said of it."""
        self._of_no_interest: set[Path] = set()
        """Those of them that a format knows, and need not be told of."""
        self.in_the_way = False
        """Set, from any thread, while somebody waits for the processor: a poll ends with what it is reading then."""
        self.looked_at = 0
        """Files that have been looked at so far: what is to be seen of a large place while it is opened."""
        self._next_scan = 0.0
        self._turn = 0
        self._polls = 0
        self._changes = 0
        self._reading_again = False
        """All that was read has fallen, and has not been read again yet."""

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
                if isinstance(intake, Intake) and intake.written_anew and self._can_be_read_again(intake):
                    self._start_over()
                    self.unfinished = self._reading_again = True
                    return True
                came = True
                for source, of_source in self._by_source(intake, records):
                    if source.rewritten or source.new_epoch:
                        self._begin_again(source)
                    self._take(source, of_source)
                    if any(type(record) not in _LOOKS for record in of_source):
                        source.hear(now, last)
                in_time = time.perf_counter() <= deadline and not self.in_the_way
                if intake.quiet_looks and not last:
                    break
            (self._lively.discard if self._is_quiet(intake) else self._lively.add)(place)
            if not in_time:
                self.unfinished, self._turn = True, place
                break
        self._reading_again = self._reading_again and self.unfinished
        self._told_in_vain = 0 if came else self._told_in_vain
        return came

    def _places(self, every: int) -> list[int]:
        """Which sources a poll looks at, from where the last one ended; of those that are quiet, one in `every`."""
        turns = len(self._order)
        start, self._turn = min(self._turn, turns), 0
        if every == 1:
            return [*range(start, turns), *range(start)]
        due = sorted(self._lively.union(range(-self._polls % every, turns, every)))
        first = bisect_left(due, start)
        return [*due[first:], *due[:first]]

    def wait(self, seconds: float) -> None:
        """Sleep until something has probably changed, or for so long: for longer where all changes are told.

        What is told to have changed is not quiet. Where somebody writes beside the log all the time, what is told
        brings nothing to read, and the polls come at their usual pace.
        """
        if self._told_in_vain:
            time.sleep(min(0.02 * 2**self._told_in_vain, seconds))
        longest = seconds * CALM if self.is_told else seconds
        begun = time.monotonic()
        told = self.tree.wait(longest)
        ended_early = time.monotonic() - begun < longest
        self._told_in_vain = min(self._told_in_vain + 1, 4) if ended_early else 0
        if ended_early:  # the more files, the more is gathered first
            time.sleep(min(self.files / 1000, seconds))
            told |= self.tree.wait(0)
        self._told |= told
        for path in told & self._place_of.keys():
            place = self._place_of[path]
            self._order[place].quiet_looks = 0
            self._lively.add(place)

    @property
    def is_told(self) -> bool:
        """Whether a `wait` ends as soon as there is something to read."""
        return self.tree.tells_at_once and not self.watchlist.endpoints

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
        if behind and total:
            return 1 - behind / total
        return 0.0 if self._reading_again else None

    def sources(self) -> tuple[SourceFacts, ...]:
        """How each source stands, by number."""
        return tuple(intake.facts() for intake in self._intakes)

    @property
    def let_go(self) -> int:
        """Rollouts that who serves the run had let go before they were asked for."""
        return sum(remote.let_go for remote in self._remotes.values())

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
            *(
                self._defects.get(path, f"{self._name(path)}: no known format{_what_helps(path)}")
                for path in unread[:20]
            ),
        )

    def require_readable(self) -> None:
        """Raise NothingReadable where no file of a known format was found."""
        endpoints = self.watchlist.endpoints
        if len(self._intakes) > len(endpoints) or any(endpoint.answers for endpoint in endpoints):
            return
        if endpoints:
            notes = (
                f"{facts.where}: {facts.note.partition('; next try at ')[0]}" for facts in self.sources()
            )
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
            f"{where}: no log of a known trainer or tracker among {looked} file{'s' if looked != 1 else ''}; "
            "`grpo-top --help` says what WHERE can be, `grpo-top demo` shows a recorded run"
        )

    @abstractmethod
    def _take(self, intake: Intake | Endpoint | Part, records: Sequence[Read]) -> None:
        """What came next of a source."""

    @abstractmethod
    def _begin_again(self, intake: Intake | Endpoint | Part) -> None:
        """The file was rewritten: what it held falls, at once or as it comes again."""

    def _scan(self, ask: bool = True) -> None:
        with _nothing_collected():
            for path in (*self.tree.scan(), *self._grown()):
                self._recognise(path)
            self._intakes += self.selection.take(self.tree.root, self._intakes)
        if ask:
            self._intakes += self.watchlist.take(len(self._intakes))
        self._set_order()

    def _grown(self) -> list[Path]:
        """Files that no format read, and that may be known by their first bytes by now."""
        told, self._told = self._told, set()
        known = self._unknown.keys() & told if self._trusts_events else self._unknown.keys()
        self._trusts_events = self.is_told
        return [
            path for path in known if self._unknown[path] < SMALL_FILE and _size(path) != self._unknown[path]
        ]

    def _recognise(self, path: Path) -> None:
        self.looked_at += 1
        try:
            found = recognise(path, self._format_name, self._formats)
        except Exception as error:  # one file that no format can look at must not take the others with it
            self._unknown[path] = _size(path)
            self._defects[path] = defects.defect(self._name(path), error, "is not read")
            return
        if found is None or found[1].feed == "none":
            # It is looked at again while it is so small that its first bytes may not have said what it is.
            if found is None or found[1].confidence < SURE:
                self._unknown[path] = _size(path)
            if found is not None:
                self._of_no_interest.add(path)
                self.selection.beside(path, *found)
            return
        self._unknown.pop(path, None)
        self.selection.add(path, self._name(path), *found)

    def _set_order(self) -> None:
        files = [intake for intake in self._intakes if isinstance(intake, Intake)]
        if len(self._order) < len(files) + len(self.watchlist.endpoints):
            self._order = sorted(
                (*files, *self.watchlist.endpoints), key=lambda intake: (intake.claim.order, intake.number)
            )
            places = list(enumerate(self._order))
            self._place_of = {each.path: place for place, each in places if isinstance(each, Intake)}
            self._lively = {place for place, each in places if not self._is_quiet(each)}

    def _is_quiet(self, intake: Intake | Endpoint) -> bool:
        """Whether it need not be looked at in every poll: it is told of what changes, or nothing did for long."""
        return intake.quiet_looks >= (1 if self._trusts_events else QUIET_LOOKS)

    def _by_source(
        self, intake: Intake | Endpoint, records: Sequence[Read]
    ) -> Iterator[tuple[Intake | Endpoint | Part, Sequence[Read]]]:
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

    def _can_be_read_again(self, but: Intake) -> bool:
        """Whether all that was read still lies there, but for the file that was written anew."""
        return not self.watchlist.endpoints and not any(
            isinstance(intake, Intake) and intake.rotated and intake is not but for intake in self._intakes
        )

    def _start_over(self) -> None:
        """Let everything fall, and read it again: the log is another one by now."""
        self._remotes = {}
        self._context.framework = self._context.logging_steps = None
        self._context.notes.clear()
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


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """While thousands of objects are made that all stay: looking for garbage among them takes a third as long again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _what_helps(path: Path) -> str:
    """What the user can do for a file of records whose fields nobody knows."""
    is_records = path.suffix.lower() in (".jsonl", ".ndjson", ".csv", ".tsv")
    return f"; [fields] in {FILE_NAME} says which of its fields is which" if is_records else ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
