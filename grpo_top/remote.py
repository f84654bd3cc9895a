"""A run that another grpo-top serves: its log is asked for on the network's thread and read as if its files were here.

See `grpo_top.service` for what is asked and `grpo_top.wire_records` for what the lines say. All of its sources stand
beside each other here as they do there, in the same order and with the state that they have there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from grpo_top.completions import text_key
from grpo_top.formats.base import Claim
from grpo_top.formats.decode import integer, number, parse_record, text
from grpo_top.formats.endpoint import Kind, Watcher
from grpo_top.records import Skipped
from grpo_top.snapshot import SkippedRecord, SourceFacts
from grpo_top.sources.feed import NoAnswer
from grpo_top.sources.urls import server_of
from grpo_top.wire_records import SCHEMA, BeginsAgain, LetGo, Piece, PieceReader, Source, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grpo_top.endpoints import Endpoint
    from grpo_top.formats.base import RunContext
    from grpo_top.formats.endpoint import Give
    from grpo_top.records import Location, Record, Rollout
    from grpo_top.sources.client import Answer, Client

NAME = "grpo-top serve"
GONE, PAST_THE_END = 410, 416
AHEAD = 8
"""Answers that wait to be taken up, at most."""
TOGETHER = 256
"""Records of one source that are handed over together."""


class Begins(NamedTuple):
    """A log, before its first line."""

    settings: Mapping[str, Any]
    """Those in force at the other end, as `config.as_table` gives them."""


def begins_in(pieces: Sequence[object]) -> Begins | None:
    """The beginning of a log that is among what came, if there is one."""
    return next((piece for piece in pieces if isinstance(piece, Begins)), None)


class Beat(NamedTuple):
    """How things stand at the other end."""

    offset: int
    """Where to go on in the log."""
    size: int
    """Of the log so far."""
    revision: int
    ended: bool
    reading: float | None
    """As `Reading.reading` there."""
    sources: Sequence[Mapping[str, Any]]
    """State by `source`, of those where it changed."""
    left_out: Sequence[str] | None
    """None: as before."""
    past: int | None = None
    """How far the lines were read that stand for what was let go; None where the log itself was."""

    @property
    def caught_up(self) -> bool:
        """Whether all that was there has come."""
        return self.offset >= self.size and self.reading is None


class ServedRun(Kind):
    """Another grpo-top."""

    name: ClassVar[str] = NAME
    paths: ClassVar[tuple[str, ...]] = ("/",)

    def claim(self, answer: Answer) -> int:
        """By the schema that it names."""
        return 99 if _log_of(answer) is not None else 0

    def watcher(self, answer: Answer, context: RunContext) -> Watcher:
        """One that follows its log."""
        return RunWatcher(server_of(answer.url), context)


class RunWatcher(Watcher):
    """Follows a log from where it got to, whatever happens to the connection; from the beginning of another one."""

    name = NAME
    role = "run"
    every = 0.05

    def __init__(self, url: str, context: RunContext) -> None:
        self.ended = False
        """All that there will be has come."""
        self._url = url
        self._context = context
        self._reader = PieceReader()
        self._log: str | None = None
        self._whole = False
        """The log is one that ends."""
        self._offset = self._past = self._revision = 0
        self._given = 0
        self.taken = 0
        """Answers that were handed over, and that were taken up: the next one is not asked for far ahead."""

    async def turn(self, client: Client, give: Give) -> None:
        """Follow the log, until it ends or no answer comes."""
        while not self.ended:
            while self._given - self.taken > AHEAD:
                await asyncio.sleep(0.01)
            if self._whole != self._context.to_end:
                await self._leave(give)
            if self._log is None:
                self._whole = self._context.to_end
                self._log, begins = await self._which_log(client)
                await give(cast("list[Record]", [begins]))
            asked = {
                "log": self._log,
                "offset": str(self._offset),
                "past": str(self._past),
                "since": str(self._revision),
                "wait": "5",
            }
            answer = await client.get(f"{self._url}/records", params=asked)
            if answer.status in {GONE, PAST_THE_END}:
                await self._leave(give)
                continue
            pieces, beat = self._read(answer.required().body)
            # Pieces take the way of records: whoever takes them knows what this watcher gives.
            await give(cast("list[Record]", [*pieces, beat]))
            self._given += 1
            self._offset, self._past, self._revision = beat.offset, beat.past or 0, beat.revision
            self.ended = beat.ended and beat.caught_up
            if beat.caught_up and not self._whole:
                give.caught_up()

    async def find(self, client: Client, location: Location) -> Rollout | None:
        """Ask for the rollout by its id."""
        if self._log is None:
            raise NoAnswer("another log by now")
        asked = {"log": self._log, "id": str(location.offset)}
        body = (await client.get(f"{self._url}/rollout", params=asked)).required().body
        try:
            gone = text(parse_record(body).get("gone"))
            if gone is None:
                return self._reader.rollout(body)
        except ValueError as error:
            raise NoAnswer("it answers with no rollout") from error
        raise NoAnswer(gone)

    def text_key(self, completion: str) -> int:
        """The key of what came in place of the text."""
        return text_key(stand_in(completion))

    async def _leave(self, give: Give) -> None:
        """Begin anew, with another log."""
        if self._log is not None:
            self._log, self._offset, self._past, self._revision = None, 0, 0, 0
            await give([], anew=True)

    async def _which_log(self, client: Client) -> tuple[str, Begins]:
        answer = (await client.get(f"{self._url}/end" if self._whole else f"{self._url}/")).required()
        log = _log_of(answer)
        if log is None:
            raise NoAnswer("it is no grpo-top any more")
        settings = parse_record(answer.body).get("settings")
        return log, Begins(settings if isinstance(settings, Mapping) else {})

    def _read(self, body: bytes) -> tuple[list[Piece], Beat]:
        *lines, last = body.removesuffix(b"\n").split(b"\n")
        beat = _beat(last)
        size = sum(map(len, lines)) + len(lines)
        if size != (beat.offset - self._offset if beat.past is None else beat.past - self._past):
            raise NoAnswer("an answer with something missing")
        pieces: list[Piece] = []
        for line in lines:
            try:
                pieces.append(self._reader.read(line))
            except ValueError as error:
                pieces.append(Piece(0, Skipped(str(error), self._offset)))
        return pieces, beat


def _log_of(answer: Answer) -> str | None:
    try:
        raw = parse_record(answer.body)
    except ValueError:
        return None
    log = text(raw.get("log"))
    return log if raw.get("schema") == SCHEMA and log and log.isalnum() else None


def _beat(line: bytes) -> Beat:
    try:
        raw = parse_record(line)
    except ValueError as error:
        raise NoAnswer("an answer that ended in the middle") from error
    offset, size, revision = (integer(raw.get(name)) for name in ("offset", "size", "revision"))
    if raw.get("kind") != "beat" or offset is None or size is None or revision is None:
        raise NoAnswer("an answer that ended in the middle")
    sources, left_out = raw.get("sources"), raw.get("left_out")
    return Beat(
        offset,
        size,
        revision,
        raw.get("ended") is True,
        number(raw.get("reading")),
        [state for state in sources if isinstance(state, Mapping)] if isinstance(sources, list) else [],
        [line for line in left_out if isinstance(line, str)] if isinstance(left_out, list) else None,
        integer(raw.get("past")),
    )


class _Format(NamedTuple):
    """What reads a source at the other end."""

    name: str


class Part:
    """One source of a run that is served. The same door as `grpo_top.intake.Intake`."""

    def __init__(self, number: int, source: Source, endpoint: Endpoint) -> None:
        self.number = number
        self._endpoint = endpoint
        self.is_now(source)
        self.records = self.skipped = self.size = 0
        self.unread = 0.0
        """Share of it that has not come yet."""
        self.rewritten = self.new_epoch = False
        self.written: float | None = None
        """See `SourceFacts.written`."""
        self._state, self._note = "waiting", ""
        self._fields: dict[str, str | None] = {}

    def is_now(self, source: Source) -> None:
        """Take in what it is, as far as that is known at the other end."""
        self.where = source.where
        self.format = _Format(source.format)
        self.claim = Claim(100, "none", source.role, f"{self._endpoint.where} {source.writer}")

    @property
    def behind(self) -> int:
        """Bytes, of the source's own, that have not come yet."""
        return round(self.size * self.unread)

    def hear(self, now: float, last: bool = False) -> None:
        """Nothing: when it was written is told from the other end."""

    def find(self, location: Location) -> Rollout | None:
        """The rollout that lies there, with its text; OSError where it cannot be had."""
        return self._endpoint.find(location)

    def text_key(self, completion: str) -> int:
        """The value of the column `text` for a rollout of this source with that completion."""
        return self._endpoint.text_key(completion)

    def raw(self, location: Location) -> bytes | None:  # noqa: ARG002
        """None: the line itself stays where it is."""
        return None

    def facts(self) -> SourceFacts:
        """As it stands at the other end; an error where that does not answer."""
        connection = self._endpoint.facts()
        broken = connection.state == "error"
        return SourceFacts(
            where=self.where,
            path=f"{connection.where} {self.where}",
            format=self.format.name,
            role=self.claim.role,
            records=self.records,
            bytes=self.size,
            skipped=self.skipped,
            state="error" if broken else self._state,
            note=connection.note if broken else self._note,
            fields=self._fields,
            written=self.written,
        )

    def named(self, skipped: Skipped) -> SkippedRecord:
        """A skipped record with the source that it is in."""
        return SkippedRecord(self.where, skipped.offset, skipped.line, skipped.reason)

    def told(self, state: Mapping[str, Any]) -> None:
        """Take in how it stands at the other end."""
        self.records, self.size, self.skipped = (
            integer(state.get(name)) or 0 for name in ("records", "bytes", "skipped")
        )
        self._state, self._note = text(state.get("state")) or "live", text(state.get("note")) or ""
        self.written = number(state.get("written"))
        fields = state.get("fields")
        self._fields = {
            name: text(of) for name, of in (fields.items() if isinstance(fields, Mapping) else ())
        }


class RemoteRun:
    """The sources of a run that is served, as they are found, and whose records come when."""

    def __init__(self, endpoint: Endpoint, watcher: RunWatcher) -> None:
        self.parts: dict[int, Part] = {}
        """By their number at the other end."""
        self.left_out: tuple[str, ...] = ()
        self.changes = 0
        """Grows when the state of a source is another one."""
        self.let_go = 0
        """Rollouts that had been let go there before they were asked for."""
        self._endpoint = endpoint
        self._watcher = watcher

    def new_parts(self, pieces: Sequence[object], next_number: int) -> list[Part]:
        """The sources that are told of for the first time. The first of all takes the endpoint's own number."""
        found = []
        for piece in pieces:
            if isinstance(piece, Piece) and isinstance(piece.what, Source):
                if piece.source in self.parts:
                    self.parts[piece.source].is_now(piece.what)
                    continue
                first = not self.parts
                part = Part(self._endpoint.number if first else next_number, piece.what, self._endpoint)
                next_number += not first
                self.parts[piece.source] = part
                found.append(part)
        return found

    def take(self, pieces: Sequence[object]) -> Iterator[tuple[Part, list[Record]]]:
        """Whose records come next; a part that begins anew is marked so, as an intake is."""
        part: Part | None = None
        records: list[Record] = []
        for piece in pieces:
            if isinstance(piece, Beat):
                self._watcher.taken += 1
                self._told(piece)
            if not isinstance(piece, Piece) or isinstance(piece.what, Source):
                continue
            if isinstance(piece.what, LetGo):
                self.let_go += piece.what.rollouts
                self.changes += 1
                continue
            of = self.parts.get(piece.source)
            if of is None:
                continue
            begins = isinstance(piece.what, BeginsAgain)
            if records and part is not None and (of is not part or begins or len(records) >= TOGETHER):
                yield part, records
                records = []
            part = of
            part.rewritten = part.new_epoch = False
            if isinstance(piece.what, BeginsAgain):
                part.rewritten, part.new_epoch = piece.what.forget, True
                yield part, []
                part.rewritten = part.new_epoch = False
            else:
                records.append(piece.what)
        if records and part is not None:
            yield part, records

    def _told(self, beat: Beat) -> None:
        share = beat.offset / beat.size if beat.size else 1.0
        unread = 1 - share * (1.0 if beat.reading is None else min(max(beat.reading, 0.0), 1.0))
        for state in beat.sources:
            part = self.parts.get(integer(state.get("source")) or 0)
            if part is not None:
                part.told(state)
                self.changes += 1
        for part in self.parts.values():
            part.unread = unread
        if beat.left_out is not None:
            self.left_out = tuple(beat.left_out)
