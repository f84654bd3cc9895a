"""A run as it is served: read as the monitor reads it, and written to a spool instead of judged."""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.bundle import one_by_one
from grpo_top.reading import NothingReadable, Reading
from grpo_top.records import Grade, Location, Rollout, Run, Skipped
from grpo_top.remote import Part
from grpo_top.reread import find_again
from grpo_top.spool import LIMIT, Place, Spool
from grpo_top.wire_records import (
    BeginsAgain,
    Source,
    again_line,
    is_rollout,
    let_go_line,
    record_line,
    rollout_lines,
    source_line,
    texts_of,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from grpo_top.bundle import Read
    from grpo_top.endpoints import Endpoint
    from grpo_top.intake import Intake
    from grpo_top.snapshot import SourceFacts

LET_GO = "let go by the grpo-top that serves the run, to bound what it keeps"
LONGEST_LINE = 8 << 20
"""A record that takes more is left out and counted as skipped."""
FACTS_SECONDS, SOURCES_A_SECOND = 1.0, 4000
"""Between two looks at how the sources stand; longer where there are more of them than that allows."""
FACTS_AT_ONCE = 2000
"""Sources whose state is told in one answer."""


class Told(NamedTuple):
    """How a source stands, and when that last changed."""

    revision: int
    number: int
    facts: SourceFacts


class Standing(NamedTuple):
    """How all of them stand."""

    revision: int
    """Grows with every change."""
    sources: tuple[Told, ...]
    """The latest change first."""
    left_out: tuple[str, ...]
    reading: float | None
    """As `Reading.reading`."""
    ended: bool
    """Everything was read to its end, and nothing more is looked for."""


class SpooledRun(Reading):
    """Reads a run into a spool. One thread drives it; `standing`, `beat` and `text` are for any."""

    def __init__(self, where: Sequence[str], *, limit: int = LIMIT, **how: Any) -> None:
        """As `Reading`. `limit`: as `Spool` takes it."""
        super().__init__(where, **how)
        self._limit = limit
        self.spool = Spool(limit, is_rollout, let_go_line)
        self._let_go = 0
        """Rollouts that lack in the log since they were let go before they came here."""
        self.standing = Standing(0, (), (), None, False)
        self._announced: list[tuple[str, str]] = []
        """Format and role of each source that has a line."""
        self._config: Mapping[str, Any] = {}
        """The run's settings, as far as records say them, and whether it has ended."""
        self._finished = False
        self._writers: dict[str, int] = {}
        self._framework_known = False
        self._last_told: dict[int, Told] = {}
        """By number, in the order in which they changed."""
        self._next_look = 0.0

    def poll(self, seconds: float = 0.05, last: bool = False) -> bool:
        """Read for at most about `seconds`; whether anything new came. OSError where there is no room for it."""
        came = super().poll(seconds, last)
        self._announce()
        self.watchlist.consider(self._config, self._finished)
        now = time.monotonic()
        if last or now >= self._next_look:
            self._next_look = now + max(FACTS_SECONDS, self.files / SOURCES_A_SECOND)
            self._look(ended=last and not came)
        return came

    def require_there(self) -> None:
        """Raise NothingReadable where a place is not there; one that is still empty may be filled yet."""
        self.look()
        if self.tree.missing:
            raise NothingReadable(f"{', '.join(self.tree.missing)}: no such file, directory or URL")

    def read_to_end(self, stop: threading.Event) -> None:
        """Read everything that is there, as `read_all` does, unless it is stopped."""
        self._read_to_end(stop.is_set)

    def beat(self, since: int) -> dict[str, Any]:
        """What has changed of the sources' state since a revision, and up to which this tells it."""
        standing = self.standing
        changed = [told for told in standing.sources if told.revision > since][-FACTS_AT_ONCE:]
        fields: dict[str, Any] = {
            "revision": changed[0].revision if changed else standing.revision,
            "sources": [_state(told) for told in reversed(changed)],
            "ended": standing.ended,
        }
        if standing.reading is not None:
            fields["reading"] = round(standing.reading, 4)
        if standing.revision > since:
            fields["left_out"] = standing.left_out
        return fields

    def text(self, id_: int) -> Rollout | str | None:
        """The rollout with that id, with its text; why it cannot be had; None where there is no such id."""
        place = self.spool.place(id_)
        if place is None:
            return LET_GO if 0 <= id_ < self.spool.first_id else None
        return find_again(self._intakes[place.source], place.location, place.step, place.text)

    def _take(self, intake: Intake | Endpoint | Part, records: Sequence[Read]) -> None:
        self._announce()
        if not self._framework_known and self._context.framework:
            records = [Run(framework=self._context.framework), *records]
        every = one_by_one(records)
        for of_rollouts, run in groupby(every, lambda record: type(record) is Rollout):
            part = list(run)
            lines = self._rollouts(intake, part) if of_rollouts else self._others(intake, part)
            self.spool.append(
                line if len(line) <= LONGEST_LINE else _left_out(intake.number, line) for line in lines
            )

    def _start_over(self) -> None:
        super()._start_over()
        self.spool, self._let_go = Spool(self._limit, is_rollout, let_go_line), 0
        self._announced, self._framework_known = [], False
        self._last_told = {}

    def _begin_again(self, intake: Intake | Endpoint | Part) -> None:
        forget = intake.rewritten or intake.claim.anew
        self.spool.append([again_line(intake.number, BeginsAgain(forget))])

    def _rollouts(self, intake: Intake | Endpoint | Part, rollouts: list[Any]) -> list[bytes]:
        texts = texts_of(rollouts, are_stand_ins=isinstance(intake, Part))
        lie = [rollout.location.offset >= 0 for rollout in rollouts]
        ids = iter(
            self.spool.add_places(
                [
                    Place(rollout.step, key, intake.number, rollout.location)
                    for rollout, key, lies in zip(rollouts, texts.keys, lie, strict=True)
                    if lies
                ]
            )
        )
        return rollout_lines(intake.number, rollouts, [next(ids) if lies else -1 for lies in lie], texts)

    def _others(self, intake: Intake | Endpoint | Part, records: list[Any]) -> Iterator[bytes]:
        for record in records:
            if isinstance(record, Grade):
                id_ = self.spool.id_of(intake.number, record.rollout)
                if id_ is None:
                    continue
                record = record._replace(rollout=Location(id_, 0))  # noqa: PLW2901
            elif isinstance(record, Run):
                self._note(record)
            yield record_line(intake.number, record)

    def _note(self, run: Run) -> None:
        self._framework_known |= run.framework is not None
        self._finished = self._finished if run.finished is None else run.finished
        if run.config:
            self._config = {**self._config, **run.config}

    def _announce(self) -> None:
        """Say which sources there are; again where more is known of an endpoint by now."""
        for number in range(len(self._announced), len(self._intakes)):
            self._tell(number)
        for endpoint in self.watchlist.endpoints:
            self._tell(endpoint.number)
        if self.let_go > self._let_go:
            self.spool.append([let_go_line(self.let_go - self._let_go)])
            self._let_go = self.let_go

    def _tell(self, number: int) -> None:
        intake = self._intakes[number]
        told = intake.format.name, intake.claim.role
        if self._announced[number : number + 1] != [told]:
            self._announced[number : number + 1] = [told]
            writer = self._writers.setdefault(intake.claim.writer, len(self._writers))
            self.spool.append([source_line(Source(number, intake.where, *told, writer))])

    def _look(self, *, ended: bool) -> None:
        revision = self.standing.revision
        for number, facts in enumerate(self.sources()):
            told = self._last_told.get(number)
            if told is None or told.facts != facts:
                revision += 1
                self._last_told.pop(number, None)
                self._last_told[number] = Told(revision, number, facts)
        left_out = self.left_out()
        revision += left_out != self.standing.left_out
        self.standing = Standing(
            revision, tuple(reversed(self._last_told.values())), left_out, self.reading, ended
        )


def _left_out(source: int, line: bytes) -> bytes:
    return record_line(source, Skipped(f"a record of {len(line):,} bytes, longer than is sent", 0))


def _state(told: Told) -> dict[str, Any]:
    facts = told.facts
    fields: dict[str, Any] = {
        "source": told.number,
        "records": facts.records,
        "bytes": facts.bytes,
        "skipped": facts.skipped,
        "state": facts.state,
    }
    if facts.written is not None:
        fields["written"] = facts.written
    if facts.note:
        fields["note"] = facts.note
    if facts.fields:
        fields["fields"] = facts.fields
    return fields
