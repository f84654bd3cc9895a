"""How a store stands that a format looks into itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.sources.files import FileState
from grpo_top.sources.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_is_waited_for_then_live_then_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = Store(path)
    assert store.look(lambda: [1]) is None
    assert store.state is FileState.WAITING
    path.write_bytes(b"abc")
    assert store.look(lambda: [1]) == [1]
    assert (store.state, store.size, store.note) == (FileState.LIVE, 3, "")
    path.unlink()
    assert store.look(lambda: [1]) is None
    assert store.state is FileState.GONE


def test_what_stands_in_the_way_is_said_until_it_is_away(tmp_path: Path) -> None:
    def fails() -> list[int]:
        raise OSError("not readable as a database: file is encrypted")

    path = tmp_path / "a.db"
    path.touch()
    store = Store(path)
    assert store.look(fails) is None
    assert store.state is FileState.ERROR
    assert store.note == f"{path}: not readable as a database: file is encrypted; tried again at every look"
    assert store.look(lambda: [1]) == [1]
    assert (store.state, store.note) == (FileState.LIVE, "")
