"""trackio: a SQLite database a project, and on network file systems an inbox of JSON lines.

A row is what was logged at once: `metrics(id, run_id, run_name, step, metrics)`, the numbers as JSON, what is not
finite as the strings "NaN", "Infinity" and "-Infinity". Its timestamp is the batch's that it was written with. TRL's
tables of completions are among the numbers, in rows of their own; conversations have a table of theirs, `traces`. (The
folder of that name holds copies of them for show.)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format
from grpo_top.formats.choice import choice_of
from grpo_top.formats.decode import head_records, integer, numbers, parse, parse_record, text, timestamp
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.stored import DatabaseReader
from grpo_top.formats.tracked import tracked_of
from grpo_top.formats.trackio_traces import FEW, traced_rollout
from grpo_top.formats.trl import table_rollouts
from grpo_top.records import Location, Rollout
from grpo_top.sources.database import MAGIC, Database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import Reader, RunContext
    from grpo_top.formats.stored import Fetched
    from grpo_top.formats.tracked import Tracked
    from grpo_top.records import Record

NAME = "trackio"

_TABLES = {b"metrics", b"configs", b"system_metrics"}
_FRAGMENT = {"v", "kind", "project", "run", "step", "timestamp"}
_TRACE = -1
"""In place of a part: the row is one of the traces, whose numbers are their own."""


class Trackio(Format):
    """Reads trackio's databases and inboxes."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = (
        "set log_completions=True (TRL), or give the folder where the trainer writes its rollouts as well"
    )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the names of the tables, or the fields of the first records."""
        if head.startswith(MAGIC):
            known = {*head.removeprefix(MAGIC).split(b"\n")} >= _TABLES
            return Claim(90, "database", "metrics", f"{NAME} {path}", 1) if known else None
        records = head_records(head)
        if records and records[0].get("harness") == NAME and records[0].get("type") == "session":
            return Claim(90, "none", "copies of traces", NAME)
        if not records or not all(record.keys() >= _FRAGMENT for record in records):
            return None
        began = timestamp(records[0]["timestamp"]) or 0.0
        return Claim(
            90,
            "lines",
            "metrics",
            f"{NAME} {path.parent}",
            1,
            run=_run(records[0]),
            began=began,
            called=text(records[0]["run"]) or "",
        )

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader of the database or of a fragment of the inbox."""
        if claim.feed == "database":
            reader = TrackioReader(context)
            reader.introduce(Path(path))
            return reader
        choice_of(context, NAME).offer(claim.run, claim.began, claim.called, within=path.parent)
        return InboxReader(claim.run, context)


def _run(record: Mapping[str, Any]) -> str:
    return text(record.get("run_id")) or text(record.get("run")) or ""


class InboxReader(JsonLinesReader):
    """Reads one fragment; only the first record of a run carries the config."""

    def __init__(self, run: str, context: RunContext) -> None:
        self._run = run
        self._context = context
        self._choice = choice_of(context, NAME)

    def fresh(self) -> InboxReader:
        """A reader that has read nothing."""
        return InboxReader(self._run, self._context)

    @property
    def note(self) -> str:
        """Says so where the run is not read."""
        return self._choice.note([self._run])

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The row of a log call; nothing for the machine's own numbers and for other runs."""
        run, name = _run(raw), text(raw.get("run"))
        if raw.get("kind") != "metric" or not self._choice.is_read(run):
            return
        tracked = tracked_of(self._context, f"{NAME} {run}")
        config = raw.get("config")
        yield from tracked.about(name, config if isinstance(config, dict) else None)
        yield from _logged(raw.get("metrics"), integer(raw.get("step")), tracked, self._context, location)


class TrackioReader(DatabaseReader):
    """Reads one run of a project's database."""

    def __init__(self, context: RunContext) -> None:
        super().__init__()
        self._context = context
        self._choice = choice_of(context, NAME)
        self._offered: dict[str, None] = {}
        """Runs of this database, in order."""
        self._last = self._last_trace = 0
        self._configured = False

    def fresh(self) -> TrackioReader:
        """A reader that has read nothing."""
        return TrackioReader(self._context)

    @property
    def note(self) -> str:
        """The runs that are not read."""
        return self._choice.note(self._offered)

    def restart(self) -> None:
        """Forget what was fetched."""
        self._last = self._last_trace = 0
        self._configured = False

    def is_another(self, connection: sqlite3.Connection) -> bool:
        """Whether there are fewer rows than were fetched."""
        newest = connection.execute("SELECT max(rowid) FROM metrics").fetchone()[0] or 0
        return bool(newest < self._last)

    def offer(self, connection: sqlite3.Connection) -> None:
        """Every run has a config; where none is stored, the rows tell of the runs."""
        run = _run_column(connection)
        for table, began in (("configs", "created_at"), ("metrics", "timestamp")):
            runs = f"SELECT {run}, max(run_name), min({began}) FROM {table} GROUP BY 1"  # noqa: S608
            found = connection.execute(runs).fetchall()
            for id_, name, time in found:
                self._offered[str(id_)] = None
                self._choice.offer(str(id_), timestamp(time) or 0.0, str(name), within=self.path)
            if found:
                break

    def fetch(self, connection: sqlite3.Connection) -> Iterator[Fetched]:
        """The run's config once, then its new rows.

        They are (name, config or None, step, numbers), or (step, messages, metadata).
        """
        run, chosen = _run_column(connection), self._choice.chosen
        if not self._configured:
            of_run = f"SELECT run_name, config FROM configs WHERE {run} = ?"  # noqa: S608
            for name, config in connection.execute(of_run, (chosen,)):
                self._configured = True
                yield 0, (name, config, None, None)
        rows = (
            f"SELECT rowid, run_name, step, metrics FROM metrics WHERE rowid > ? AND {run} = ? ORDER BY rowid"  # noqa: S608
        )
        for number, name, step, metrics in connection.execute(rows, (self._last, chosen)):
            self._last = number
            yield number, (name, None, step, metrics)
        if not _has_traces(connection):
            return
        traces = (
            f"SELECT rowid, step, messages, metadata FROM traces WHERE rowid > ? AND {run} = ? ORDER BY rowid"  # noqa: S608
        )
        for number, *trace in connection.execute(traces, (self._last_trace, chosen)):
            self._last_trace = number
            yield number, tuple(trace)

    def records(self, row: tuple[Any, ...], location: Location) -> Iterable[Record]:
        """The run, the row of a log call, or the rollout of a trace."""
        if len(row) == 3:
            rollout = _traced(row, location._replace(part=_TRACE))
            if rollout:
                yield FEW
                yield rollout
            return
        name, config, step, metrics = row
        tracked = tracked_of(self._context, f"{NAME} {self._choice.chosen}")
        yield from tracked.about(text(name), None if config is None else parse_record(_bytes(config)))
        if metrics is not None:
            logged = parse_record(_bytes(metrics))
            yield from _logged(logged, integer(step), tracked, self._context, location)

    def find(self, path: Path, location: Location) -> Rollout | None:
        """The rollout of row `location.offset` of the database and row `location.part` of its table."""
        if location.part == _TRACE:
            sql = "SELECT step, messages, metadata FROM traces WHERE rowid = ?"
            found = Database(path).look(
                lambda db: db.execute(sql, (location.offset,)).fetchone(), at_once=True
            )
            return _traced(found, location) if found else None
        sql = "SELECT step, metrics FROM metrics WHERE rowid = ?"
        rows = Database(path).look(lambda db: db.execute(sql, (location.offset,)).fetchall(), at_once=True)
        for step, metrics in rows or ():
            logged = parse_record(_bytes(metrics))
            for record in _rollouts(logged, integer(step), self._context, location):
                if isinstance(record, Rollout) and record.location.part == location.part:
                    return record
        return None


def _logged(
    metrics: object, step: int | None, tracked: Tracked, context: RunContext, location: Location
) -> Iterator[Record]:
    """What was logged at once: numbers, and rollouts."""
    yield from tracked.row(step, numbers(metrics), location=location)
    if isinstance(metrics, dict):
        yield from _rollouts(metrics, step, context, location)


def _rollouts(
    metrics: Mapping[str, Any], step: int | None, context: RunContext, location: Location
) -> Iterator[Record]:
    """The rollouts among what was logged at once, `location.part` counting them.

    They are in TRL's tables, `{"_type": "trackio.table", "_value": [{column: value}, …]}`, or are traces, alone or in a
    list: in the inbox, and in the databases of versions that have no table of traces.
    """
    part = 0
    for value in metrics.values():
        found: Iterable[Record | None] = ()
        if isinstance(value, dict) and value.get("_type") == "trackio.table":
            rows = [row for row in value.get("_value") or () if isinstance(row, dict)]
            found = table_rollouts(rows, context) if all("completion" in row for row in rows) else ()
        else:
            traces = [one for one in (value if isinstance(value, list) else [value]) if _is_trace(one)]
            traced = [
                traced_rollout(step, one.get("messages"), one.get("metadata"), location) for one in traces
            ]
            found = [FEW, *traced] if any(traced) else ()
        for record in found:
            if isinstance(record, Rollout):
                yield record._replace(location=location._replace(part=part))
                part += 1
            elif record is not None:
                yield record


def _is_trace(value: object) -> bool:
    return isinstance(value, dict) and value.get("_type") == "trackio.trace"


def _traced(row: tuple[Any, ...], location: Location) -> Rollout | None:
    step, messages, metadata = row
    turns = parse(_bytes(messages))
    return traced_rollout(integer(step), turns, parse(_bytes(metadata)), location)


def _has_traces(connection: sqlite3.Connection) -> bool:
    """Whether this version has a table of traces: they are newer than the rest."""
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'traces'"
    return connection.execute(sql).fetchone() is not None


def _run_column(connection: sqlite3.Connection) -> str:
    """What tells runs apart; early versions know them by their name alone."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(metrics)")}
    return "run_id" if "run_id" in columns else "run_name"


def _bytes(stored: object) -> bytes:
    """JSON as it is stored: in a column of texts, mostly as a blob."""
    return stored if isinstance(stored, bytes) else str(stored).encode()
