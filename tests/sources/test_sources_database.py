"""A SQLite file is read while another program writes it: no lock, no file beside it, and never half a commit."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from grpo_top.sources import database
from grpo_top.sources.database import MAGIC, Database, head_of_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODES = ("WAL", "DELETE", "TRUNCATE", "PERSIST")


def made(path: Path, mode: str = "WAL") -> sqlite3.Connection:
    """A new database with a table of numbers, and the connection that writes to it without waiting for anybody."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("CREATE TABLE t (n INTEGER)")
    return connection


@pytest.fixture(params=MODES)
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(made(tmp_path / "a.db", request.param)) as connection:
        yield connection


def rows(connection: sqlite3.Connection) -> list[int]:
    return [n for (n,) in connection.execute("SELECT n FROM t ORDER BY n")]


def listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = ((path, path.stat()) for path in folder.iterdir())
    return {path.name: (status.st_ino, status.st_size, status.st_mtime_ns) for path, status in found}


def test_what_a_second_connection_commits_is_found_at_the_next_look(
    writer: sqlite3.Connection, tmp_path: Path
) -> None:
    found = Database(tmp_path / "a.db")
    assert found.look(rows) == []
    for n in range(5):
        writer.execute("INSERT INTO t VALUES (?)", (n,))
        assert found.look(rows, at_once=True) == list(range(n + 1))


def test_what_is_not_committed_is_not_found(writer: sqlite3.Connection, tmp_path: Path) -> None:
    writer.execute("INSERT INTO t VALUES (0)")
    writer.execute("PRAGMA cache_size = 1")  # so that pages reach the files before the commit
    writer.execute("BEGIN IMMEDIATE")
    writer.executemany("INSERT INTO t VALUES (?)", ((n,) for n in range(1, 20_000)))
    found = Database(tmp_path / "a.db")
    assert found.look(rows, at_once=True) == [0]
    writer.execute("COMMIT")
    assert found.look(rows, at_once=True) == list(range(20_000))


def test_nothing_is_made_or_changed_beside_the_database(writer: sqlite3.Connection, tmp_path: Path) -> None:
    writer.execute("INSERT INTO t VALUES (0)")
    before = listing(tmp_path)
    assert Database(tmp_path / "a.db").look(rows) == [0]
    assert listing(tmp_path) == before


def test_nothing_is_made_beside_a_database_that_its_writer_has_closed(
    writer: sqlite3.Connection, tmp_path: Path
) -> None:
    writer.execute("INSERT INTO t VALUES (0)")
    writer.close()
    before = listing(tmp_path)
    assert Database(tmp_path / "a.db").look(rows) == [0]
    assert listing(tmp_path) == before


def test_a_folder_that_nobody_may_write_to_is_read(writer: sqlite3.Connection, tmp_path: Path) -> None:
    writer.execute("INSERT INTO t VALUES (0)")
    tmp_path.chmod(0o555)
    (tmp_path / "a.db").chmod(0o444)
    try:
        assert Database(tmp_path / "a.db").look(rows) == [0]
    finally:
        tmp_path.chmod(0o755)


def test_a_look_never_makes_the_writer_wait_or_fail(writer: sqlite3.Connection, tmp_path: Path) -> None:
    def held_open(connection: sqlite3.Connection) -> list[int]:
        cursor = connection.execute("SELECT n FROM t")
        first = cursor.fetchone()
        writer.execute(
            "INSERT INTO t VALUES (1)"
        )  # in the middle of the reading; `timeout=0` would fail at once
        return [first[0], *(n for (n,) in cursor)]

    writer.execute("INSERT INTO t VALUES (0)")
    Database(tmp_path / "a.db").look(held_open)
    assert rows(writer) == [0, 1]


def test_what_was_found_while_something_was_written_is_thrown_away(tmp_path: Path) -> None:
    with closing(made(tmp_path / "a.db", "DELETE")) as writer:
        found = Database(tmp_path / "a.db")

        def disturbed(connection: sqlite3.Connection) -> list[int]:
            writer.execute("INSERT INTO t VALUES (1)")
            return rows(connection)

        assert found.look(disturbed) is None
        assert found.look(rows) == [1]


def test_a_writer_in_another_process_is_followed_to_its_last_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    made(path).close()
    code = (
        "import sqlite3, sys\n"
        "for n in range(200):\n"
        "    connection = sqlite3.connect(sys.argv[1], timeout=0)\n"
        "    with connection: connection.execute('INSERT INTO t VALUES (?)', (n,))\n"
        "    if n % 7 == 0: connection.close()\n"
    )
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, str(path)])
    found, seen = Database(path), []
    while process.poll() is None:
        if (now := found.look(rows, at_once=True)) is not None:
            seen.append(now)
    assert process.returncode == 0
    seen.append(found.look(rows, at_once=True) or seen[-1])
    assert all(now == list(range(len(now))) for now in seen), "each commit is seen whole, and in order"
    assert [len(now) for now in seen] == sorted(len(now) for now in seen)
    assert seen[-1] == list(range(200))


def test_a_database_whose_writer_was_killed_gives_all_that_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    code = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1])\n"
        "connection.execute('PRAGMA journal_mode=WAL')\n"
        "connection.execute('CREATE TABLE t (n INTEGER)')\n"
        "with connection: connection.executemany('INSERT INTO t VALUES (?)', [(0,), (1,)])\n"
        "connection.execute('INSERT INTO t VALUES (2)')\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert (tmp_path / "a.db-wal").stat().st_size > 0
    before = listing(tmp_path)
    assert Database(path).look(rows) == [0, 1]
    assert listing(tmp_path) == before


def test_where_nothing_was_written_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SETTLED_SECONDS", 0.0)
    with closing(made(tmp_path / "a.db", "DELETE")) as writer:
        found = Database(tmp_path / "a.db")
        assert found.look(rows) == []
        assert found.look(rows) is None
        writer.execute("INSERT INTO t VALUES (1)")
        assert found.look(rows) == [1]
        assert found.look(rows) is None


def test_an_unchanged_time_is_not_trusted_at_once(tmp_path: Path) -> None:
    with closing(made(tmp_path / "a.db", "DELETE")) as writer:
        found = Database(tmp_path / "a.db")
        writer.execute("INSERT INTO t VALUES (1)")
        status = (tmp_path / "a.db").stat()
        assert found.look(rows) == [1]
        writer.execute("INSERT INTO t VALUES (2)")
        os.utime(tmp_path / "a.db", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert found.look(rows) == [1, 2]


def test_copies_of_a_large_database_are_spaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_REST", 1e9)
    with closing(made(tmp_path / "a.db")) as writer:
        found = Database(tmp_path / "a.db")
        assert found.look(rows) == []
        writer.execute("INSERT INTO t VALUES (1)")
        assert found.look(rows) is None
        assert found.look(rows, at_once=True) == [1]


def test_another_database_in_its_place_is_another_generation(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    made(path, "DELETE").close()
    made(tmp_path / "b.db", "DELETE").close()
    found = Database(path)
    found.look(rows)
    (tmp_path / "b.db").replace(path)
    assert found.look(rows) == []
    assert found.generation == 1


@pytest.mark.parametrize("content", [b"", MAGIC, MAGIC + bytes(5000), b"no database"])
def test_what_is_no_database_is_said_in_words(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(OSError, match="not readable as a database"):
        Database(path).look(rows)


def test_a_database_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Database(tmp_path / "a.db").look(rows)


def test_paths_with_the_signs_of_a_url_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=rw&x#50%.db"
    made(path, "DELETE").close()
    assert Database(path).look(rows) == []


def test_the_head_of_a_database_is_the_names_of_its_tables(tmp_path: Path) -> None:
    with closing(made(tmp_path / "a.db")) as writer:
        writer.execute("CREATE TABLE another (n)")
        assert head_of_database(tmp_path / "a.db") == MAGIC + b"another\nt\n"
    (tmp_path / "broken.db").write_bytes(MAGIC)
    assert head_of_database(tmp_path / "broken.db") == MAGIC


def test_texts_that_are_no_utf_8_are_read(tmp_path: Path) -> None:
    with closing(made(tmp_path / "a.db")) as writer:
        writer.execute("INSERT INTO t VALUES (CAST(x'ff61' AS TEXT))")
        found = Database(tmp_path / "a.db").look(lambda db: db.execute("SELECT n FROM t").fetchall())
    assert found == [("\ufffda",)]


def test_looks_from_two_threads_at_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    results: list[list[int] | None] = []
    with closing(made(tmp_path / "a.db")) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        threads = [
            threading.Thread(target=lambda: results.append(Database(tmp_path / "a.db").look(rows)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [[1]] * 4
