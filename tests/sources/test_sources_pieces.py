"""A binary stream is read piece by piece as it grows, each byte once, whatever happens to the file."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tailing import append, pieces_of

from grpo_top.sources.files import FileState
from grpo_top.sources.pieces import ByteTail

if TYPE_CHECKING:
    from pathlib import Path

BINARY = st.binary(max_size=300)


def drain(tail: ByteTail, budget: int = 1 << 20) -> bytes:
    """All bytes that are there now; each piece begins where the one before ended."""
    found, epoch = b"", tail.epoch
    start = None
    while (piece := tail.read(budget)) is not None:
        if tail.epoch != epoch:
            epoch, found, start = tail.epoch, b"", 0
        start = piece.offset if start is None else start
        assert piece.offset == start + len(found)
        found += piece.data
    return found


@given(content=BINARY, data=st.data())
def test_any_cut_into_pieces_and_polls_gives_the_same_bytes(
    content: bytes, data: st.DataObject, fresh: Any
) -> None:
    path = fresh(".bin")
    tail = ByteTail(path)
    budget = data.draw(st.integers(1, 50))
    found = b""
    for piece in data.draw(pieces_of(content)):
        append(path, piece)
        if data.draw(st.booleans()):
            found += drain(tail, budget)
    assert found + drain(tail, budget) == content
    assert (tail.behind, tail.size, tail.epoch) == (0, len(content), 0)


def test_a_file_appears_late(tmp_path: Path) -> None:
    tail = ByteTail(tmp_path / "a")
    assert tail.read(100) is None
    assert tail.state is FileState.WAITING
    append(tmp_path / "a", b"abc")
    assert drain(tail) == b"abc"
    assert tail.state is FileState.LIVE


def test_a_rewritten_file_begins_again_at_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a"
    append(path, b"first content")
    tail = ByteTail(path)
    assert drain(tail) == b"first content"
    path.write_bytes(b"second")
    assert drain(tail) == b"second"
    assert tail.epoch == 1


def test_a_replaced_file_is_read_to_its_end_before_the_new_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "a"
    append(path, b"old ")
    tail = ByteTail(path)
    assert drain(tail) == b"old "
    append(path, b"end")
    path.rename(tmp_path / "b")
    append(path, b"new")
    pieces = []
    while (piece := tail.read(100)) is not None:
        pieces.append((tail.epoch, piece.offset, piece.data))
    assert [piece for piece in pieces if piece[2]] == [(0, 4, b"end"), (1, 0, b"new")]


def test_a_compressed_stream_gives_plain_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    content = os.urandom(100_000) + bytes(100_000)
    stored = gzip.compress(content)
    tail = ByteTail(path)
    append(path, stored[:70_000])
    found = drain(tail, 9_000)
    append(path, stored[70_000:])
    assert found + drain(tail, 9_000) == content


def test_a_damaged_compressed_stream_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    append(path, b"no gzip at all")
    tail = ByteTail(path)
    drain(tail)
    assert tail.state is FileState.ERROR
    assert "damaged gzip data" in tail.note
    assert tail.read(100) is None


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    tail = ByteTail(tmp_path / "a")
    assert tail.read(100) is None
    assert tail.state is FileState.ERROR
    tail.close()
