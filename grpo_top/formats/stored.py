"""The frame of readers that look into a database which another program may be writing."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from grpo_top.formats.base import Reader
from grpo_top.records import Location, Skipped
from grpo_top.sources.database import Database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from pathlib import Path

    from grpo_top.records import Record

SLICE_ROWS = 1_000
"""Rows that are turned into records at once, so that a key press never waits long."""

Fetched = tuple[int, tuple[Any, ...]]
"""Number of a row, and what is in it."""


class DatabaseReader(Reader):
    """Fetches what is new at a look, and turns it into records a slice at a time."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._generation = 0
        self._waiting: deque[Fetched] = deque()
        self.path: Path | None = None
        """The database, once it was looked into."""

    @abstractmethod
    def offer(self, connection: sqlite3.Connection) -> None:
        """Make the database's runs known to the choice among them."""

    @abstractmethod
    def fetch(self, connection: sqlite3.Connection) -> Iterable[Fetched]:
        """The rows that were not fetched yet, in order."""

    @abstractmethod
    def is_another(self, connection: sqlite3.Connection) -> bool:
        """Whether the database holds less than was fetched of it, so that it is not the same one."""

    @abstractmethod
    def records(self, row: tuple[Any, ...], location: Location) -> Iterable[Record]:
        """The records of one row; ValueError with a short reason where it holds none."""

    @abstractmethod
    def restart(self) -> None:
        """Forget what was fetched."""

    def introduce(self, path: Path) -> None:
        """Offer the runs of the database at once, so that those of several databases are known before one is chosen."""
        self.path, self._database = path, Database(path)
        with suppress(OSError):  # whatever stands in the way is said when the database is polled
            self._database.look(self._introduce, at_once=True)

    def poll(self, path: Path, last: bool = False) -> list[Record]:
        """The next records. A row's location is its number."""
        if self._database is None:
            self.path, self._database = path, Database(path)
        if not self._waiting:
            self._waiting.extend(self._database.look(self._look, at_once=last) or ())
        found: list[Record] = []
        for _ in range(min(SLICE_ROWS, len(self._waiting))):
            number, row = self._waiting.popleft()
            try:
                found.extend(self.records(row, Location(number, 0)))
            except ValueError as error:
                found.append(Skipped(str(error), number))
        return found

    def _introduce(self, connection: sqlite3.Connection) -> bool:
        self.offer(connection)
        return True

    def _look(self, connection: sqlite3.Connection) -> list[Fetched]:
        generation = self._database.generation if self._database else 0
        if generation != self._generation or self.is_another(connection):
            self._generation = generation
            self.restart()
        self.offer(connection)
        return list(self.fetch(connection))
