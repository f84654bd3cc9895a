"""Looks into SQLite files that another program may be writing, without a trace.

SQLite's own read-only mode is not good enough for a run directory: it takes locks that can make the trainer's
commit fail, and it leaves `-shm` and `-wal` files beside a database in WAL mode. So there are two ways:

* Where no journal lies beside the database, the file alone is its content. It is opened `immutable`, which takes no
  lock and makes no file. SQLite then trusts that nobody writes; we look whether that held, and forget what was found
  if it did not.
* Where a `-wal` or `-journal` is there, content is in both files. They are copied into a temporary directory, and
  SQLite puts them together there. A copy during which one of them changed is thrown away.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

MAGIC = b"SQLite format 3\0"
_BESIDE = ("-wal", "-journal")
_REST = 20
"""After a copy, no other one for this many times as long as it took."""
_SETTLED_SECONDS = 2.0
"""Only then is an unchanged mtime trusted: two commits within one tick of a coarse clock look like one."""

T = TypeVar("T")
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
_Signature = tuple[tuple[int, ...], ...]


class Database:
    """One SQLite file. For one thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        """Grows when another file took the path: what was read of the one before says nothing of it."""
        self._identity: tuple[int, int] | None = None
        self._seen: _Signature = ()
        self._since = 0.0
        self._settled = False
        self._rest_until = 0.0

    def look(self, ask: Callable[[sqlite3.Connection], T], at_once: bool = False) -> T | None:
        """What `ask` finds (never None); None where nothing was written since, or something is being written now.

        `at_once` puts off no copy. Raises OSError where the file is not there or is no readable database. `ask` must
        fetch all that it wants: the connection is closed behind it.
        """
        signature = self._signature()
        if signature == self._seen and self._settled:
            return None
        journal = any(size for size, *_ in signature[1:])
        now = time.monotonic()
        if journal and not at_once and now < self._rest_until:
            return None
        identity = signature[0][-2], signature[0][-1]
        if identity != self._identity:
            self.generation += self._identity is not None
            self._identity = identity
        found = self._ask_copy(ask, signature) if journal else self._ask_in_place(ask, signature)
        if found is not None:
            if signature != self._seen:
                self._seen, self._since = signature, now
            self._settled = now - self._since >= _SETTLED_SECONDS
        return found

    def _ask_in_place(self, ask: Callable[[sqlite3.Connection], T], signature: _Signature) -> T | None:
        try:
            found = _ask(f"file:{quote(str(self.path.absolute()))}?mode=ro&immutable=1", ask)
        except OSError:
            if self._signature() == signature:
                raise
            return None
        return found if self._signature() == signature else None

    def _ask_copy(self, ask: Callable[[sqlite3.Connection], T], signature: _Signature) -> T | None:
        import shutil  # noqa: PLC0415  most runs have no database
        import tempfile  # noqa: PLC0415

        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="grpo-top-") as folder:
            copy = Path(folder) / "copy.db"
            for suffix in ("", *_BESIDE):
                try:
                    shutil.copyfile(f"{self.path}{suffix}", f"{copy}{suffix}")
                except FileNotFoundError:
                    if not suffix:
                        raise
            unchanged = self._signature() == signature
            now = time.monotonic()
            self._rest_until = now + _REST * (now - began)
            return _ask(f"file:{quote(str(copy))}", ask) if unchanged else None

    def _signature(self) -> _Signature:
        """What changes when the database or what lies beside it is written to; raises OSError."""
        found = [_signature(self.path)]
        for suffix in _BESIDE:
            try:
                found.append(_signature(Path(f"{self.path}{suffix}")))
            except FileNotFoundError:
                found.append((0,))
        return tuple(found)


def head_of_database(path: Path) -> bytes:
    """What tells whose database it is: the magic and the names of the tables, one a line. Its first bytes need not.

    The magic alone where the database cannot be read now.
    """
    try:
        names = Database(path).look(lambda connection: connection.execute(_TABLES).fetchall(), at_once=True)
    except OSError:
        names = None
    return MAGIC + "".join(f"{name}\n" for (name,) in names or ()).encode()


def _signature(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_dev, status.st_ino


def _ask(uri: str, ask: Callable[[sqlite3.Connection], T]) -> T:
    """What `ask` finds; OSError where SQLite cannot read it."""
    try:
        import sqlite3  # noqa: PLC0415  (only where there is a database; some Pythons are built without)
    except ImportError as error:
        raise OSError("this Python has no sqlite3 module, so the database is not read") from error
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.text_factory = _text
            return ask(connection)
    except sqlite3.Error as error:
        raise OSError(f"not readable as a database: {error}") from error


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
