"""MLflow: a SQLite database of all runs, and the older file store with a folder a run.

Both hold one number at a time with its step. In the file store a metric is a file `metrics/KEY` whose lines are
`milliseconds value step`, where a slash in the key is a folder; the run is known by its `meta.yaml`, and read as one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format
from grpo_top.formats.choice import choice_of
from grpo_top.formats.decode import literal, number
from grpo_top.formats.mlflow_store import StoreReader, metadata
from grpo_top.formats.stored import DatabaseReader
from grpo_top.formats.tracked import Rows, Tracked
from grpo_top.sources.database import MAGIC

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator
    from pathlib import PurePath

    from grpo_top.formats.base import Reader, RunContext
    from grpo_top.formats.stored import Fetched
    from grpo_top.records import Location, Record

NAME = "mlflow"

_TABLES = {b"latest_metrics", b"metrics", b"params", b"runs"}
_LINE = re.compile(rb"\d{10,} \S+ -?\d+\r?(?:\n|$)")
_LARGEST = 1.7976931348623157e308
"""What the database has for infinity."""
_ENDED = ("FINISHED", "FAILED", "KILLED")


class MlFlow(Format):
    """Reads MLflow's stores."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = (
        "MLflow holds numbers alone: give the folder where the trainer writes its rollouts as well"
    )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the names of the tables; by a run's `meta.yaml`, through which its other files are read."""
        if head.startswith(MAGIC):
            known = {*head.removeprefix(MAGIC).split(b"\n")} >= _TABLES
            return Claim(90, "database", "metrics", f"{NAME} {path}", 1) if known else None
        if path.name == "meta.yaml":
            return _claim_run(head)
        own = "metrics" in path.parent.parts and _LINE.match(head)
        return Claim(90, "none", "metrics", NAME) if own else None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader of the database, or of the run's folder."""
        if claim.run:
            choice_of(context, NAME).offer(claim.run, claim.began, claim.called, folder=path.parent)
            return StoreReader(context)
        reader = MlFlowReader(context)
        reader.introduce(Path(path))
        return reader


def _claim_run(head: bytes) -> Claim | None:
    fields = metadata(head)
    run = fields.get("run_id") or fields.get("run_uuid")
    if run is None:  # an experiment's
        return Claim(90, "none", "experiment", NAME) if "artifact_location" in fields else None
    if fields.get("lifecycle_stage") == "deleted":
        return Claim(90, "none", "deleted run", NAME)
    began = number(fields.get("start_time")) or 0.0
    return Claim(
        *(90, "database", "metrics", f"{NAME} {run}", 1),
        run=run,
        began=began,
        called=fields.get("run_name", ""),
    )


class MlFlowReader(DatabaseReader):
    """Reads one run of a database."""

    def __init__(self, context: RunContext) -> None:
        super().__init__()
        self._context = context
        self._choice = choice_of(context, NAME)
        self._tracked = Tracked(context)
        self._rows = Rows()
        self._offered: dict[str, None] = {}
        """Runs of this database, in order."""
        self._last = 0
        self._told: tuple[Any, ...] = ()
        """What was last found of the run as a whole."""

    def fresh(self) -> MlFlowReader:
        """A reader that has read nothing."""
        return MlFlowReader(self._context)

    @property
    def note(self) -> str:
        """The runs that are not read."""
        return self._choice.note(self._offered)

    def restart(self) -> None:
        """Forget what was fetched."""
        self._last, self._told, self._rows = 0, (), Rows()

    def is_another(self, connection: sqlite3.Connection) -> bool:
        """Whether there are fewer rows than were fetched."""
        newest = connection.execute("SELECT max(rowid) FROM metrics").fetchone()[0] or 0
        return bool(newest < self._last)

    def offer(self, connection: sqlite3.Connection) -> None:
        """Every run that was not deleted."""
        runs = "SELECT run_uuid, name, start_time FROM runs WHERE lifecycle_stage = 'active'"
        for run, name, began in connection.execute(runs):
            self._offered[str(run)] = None
            self._choice.offer(str(run), number(began) or 0.0, str(name or ""), within=self.path)

    def fetch(self, connection: sqlite3.Connection) -> Iterator[Fetched]:
        """New numbers: (key, value, milliseconds, step, whether it is NaN); the run: (name, status, parameters)."""
        run = self._choice.chosen
        told = connection.execute("SELECT name, status FROM runs WHERE run_uuid = ?", (run,)).fetchone() or (
            "",
            "",
        )
        params = connection.execute("SELECT key, value FROM params WHERE run_uuid = ?", (run,)).fetchall()
        if (*told, params) != self._told:
            self._told = (*told, params)
            yield 0, self._told
        rows = (
            "SELECT rowid, key, value, timestamp, step, is_nan FROM metrics"
            " WHERE rowid > ? AND run_uuid = ? ORDER BY rowid"
        )
        for rowid, *row in connection.execute(rows, (self._last, run)):
            self._last = rowid
            yield rowid, tuple(row)

    def records(self, row: tuple[Any, ...], location: Location) -> Iterable[Record]:
        """The run, or the row before where this number begins another."""
        if len(row) == 3:
            name, status, params = row
            config = {key: literal(value) for key, value in params}
            return self._tracked.about(name or None, config, True if status in _ENDED else None)
        key, value, time, step, is_nan = row
        whole = self._rows.add(int(step), str(key), _value(value, is_nan), time / 1000)
        return self._tracked.row(*whole, location) if whole else ()

    def idle(self) -> list[Record]:
        """The row that is open, as far as it goes."""
        row = self._rows.take()
        return list(self._tracked.row(*row)) if row else []

    def end(self) -> list[Record]:
        """The row that is open."""
        return self.idle()


def _value(value: float, is_nan: int) -> float:
    if is_nan:
        return float("nan")
    return value if abs(value) < _LARGEST else value * 2
