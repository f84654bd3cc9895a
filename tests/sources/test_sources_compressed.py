"""A compressed log is read as it grows, in bounded memory, and says what is wrong with it."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tailing import CONTENT, append, drain, pieces_of

from grpo_top.sources.files import FileState, Tail, WholeFile

if TYPE_CHECKING:
    from pathlib import Path


def compressed(kind: str, content: bytes) -> bytes:
    return gzip.compress(content) if kind == ".gz" else zstandard.ZstdCompressor().compress(content)


@pytest.mark.parametrize("kind", [".gz", ".zst"])
@given(content=CONTENT, data=st.data())
def test_a_compressed_log_that_grows_in_any_pieces_gives_the_same_lines(
    kind: str, content: bytes, data: st.DataObject, fresh: Any
) -> None:
    path = fresh(f".jsonl{kind}")
    tail = Tail(path)
    members = data.draw(pieces_of(content.lstrip(b"\0") + b"end\n"))
    stored = b"".join(compressed(kind, member) for member in members)
    found: list[bytes] = []
    for piece in data.draw(pieces_of(stored)):
        append(path, piece)
        found += drain(tail, budget=data.draw(st.integers(1, 50)))
        assert tail.state is FileState.LIVE
    assert found == (content.lstrip(b"\0") + b"end\n").split(b"\n")[:-1]
    assert tail.behind == 0


@pytest.mark.parametrize("kind", [".gz", ".zst"])
def test_what_one_read_decompresses_is_bounded(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"bomb.jsonl{kind}"
    path.write_bytes(compressed(kind, b"first\n" + bytes([120]) * (15 << 20) + b"\nlast\n"))
    tail = Tail(path, max_line=1 << 20)
    tracemalloc.start()
    lines = drain(tail)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == [b"first", b"last"]
    assert tail.take_skipped() == [(6, 15 << 20, 2)]
    assert peak < 12 << 20


@pytest.mark.parametrize("kind", [".gz", ".zst"])
def test_a_stream_without_an_end_is_not_read_to_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"bomb.jsonl{kind}"
    path.write_bytes(compressed(kind, b"first\n" + b"x" * (24 << 20) + b"\nlast\n"))
    tail = Tail(path, max_line=1 << 20)
    assert drain(tail) == [b"first"]
    assert tail.state is FileState.ERROR
    assert "more than 500 plain bytes for a stored one" in tail.note
    whole = WholeFile(path)
    assert whole.finish() is None
    assert whole.state is FileState.ERROR


def test_a_gzip_log_cut_in_the_middle_is_no_error_while_it_may_grow(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    content = b"".join(b'{"step": %d}\n' % step for step in range(1000))
    stored = gzip.compress(content)
    path.write_bytes(stored[: len(stored) // 2])
    tail = Tail(path)
    some = drain(tail)
    assert 0 < len(some) < 1000
    assert (tail.state, tail.note) == ("live", "")
    tail.finish()
    assert "cut short" in tail.note


@pytest.mark.parametrize("kind", [".gz", ".zst"])
def test_damaged_compressed_data_is_an_error_until_the_file_is_replaced(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl{kind}"
    path.write_bytes(compressed(kind, b"one\n") + b"this is not compressed, and long enough to be seen")
    tail = Tail(path)
    assert drain(tail) == [b"one"]
    assert tail.state is FileState.ERROR
    assert str(path) in tail.note
    assert "damaged" in tail.note
    path.unlink()
    path.write_bytes(compressed(kind, b"two\n"))
    assert drain(tail) == [b"two"]
    assert (tail.state, tail.note) == ("live", "")


def test_nul_padding_after_a_gzip_member_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"one\n") + bytes(512) + gzip.compress(b"two\n"))
    assert drain(Tail(path)) == [b"one", b"two"]


def test_without_zstandard_the_note_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"anything")
    tail = Tail(path)
    assert drain(tail) == []
    assert tail.state is FileState.ERROR
    assert "pip install 'grpo-top[zstd]'" in tail.note
