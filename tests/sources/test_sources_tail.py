"""A log is read line by line as it grows, each line once, whatever pieces it comes in."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tailing import CONTENT, append, drain, drain_located, pieces_of

from grpo_top.sources.files import FileState, Tail, clean

ROOT = Path(__file__).parents[2]


# ---- appending


@given(content=CONTENT, data=st.data())
def test_any_cut_into_pieces_and_polls_gives_the_same_lines(
    content: bytes, data: st.DataObject, fresh: Any
) -> None:
    path = fresh()
    tail = Tail(path)
    budget = data.draw(st.integers(1, 30))
    found = []
    for piece in data.draw(pieces_of(content)):
        append(path, piece)
        if data.draw(st.booleans()):
            found += drain_located(tail, budget)
    found += drain_located(tail, budget)
    if last := tail.finish():
        found.append((last.offset, last.lines[0]))
    holes = len(content) - len(content.lstrip(b"\0"))
    expected = content[holes:].split(b"\n")
    assert [line for _, line in found] == (expected if expected[-1] else expected[:-1])
    assert all(content[offset : offset + len(line)] == line for offset, line in found)
    assert tail.lines_read == len(found)
    assert tail.behind == 0


@given(content=CONTENT, data=st.data())
def test_finishing_early_never_gives_a_line_twice_unless_it_had_grown(
    content: bytes, data: st.DataObject, fresh: Any
) -> None:
    path = fresh()
    path.touch()
    tail = Tail(path)
    given_at: dict[int, list[bytes]] = {}
    for piece in [*data.draw(pieces_of(content)), b""]:
        append(path, piece)
        for offset, line in drain_located(tail):
            given_at.setdefault(offset, []).append(line)
        if (not piece or data.draw(st.booleans())) and (last := tail.finish()):
            given_at.setdefault(last.offset, []).append(last.lines[0])
    for versions in given_at.values():
        assert all(len(shorter) < len(longer) for shorter, longer in itertools.pairwise(versions))
    text = content.lstrip(b"\0")
    expected = text.split(b"\n")
    final = [clean(versions[-1]) for _, versions in sorted(given_at.items())]
    assert final == [clean(line) for line in (expected if expected[-1] else expected[:-1])]


def test_only_whole_lines_are_given(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\ntw")
    tail = Tail(path)
    assert drain(tail) == [b"one"]
    assert tail.offset == 4
    assert tail.behind == 0
    append(path, b"o\nthree")
    assert drain(tail) == [b"two"]


def test_line_numbers_and_offsets_go_on_over_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n\n")
    tail = Tail(path)
    first = tail.read()
    append(path, b"three\n")
    second = tail.read()
    assert first is not None
    assert second is not None
    assert (first.offset, first.lines, first.first_number) == (0, [b"one", b""], 1)
    assert (second.offset, second.lines, second.first_number) == (5, [b"three"], 3)


def test_a_line_longer_than_the_budget_shows_progress_until_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"x" * 100 + b"\n")
    tail = Tail(path)
    partial = tail.read(budget=60)
    assert partial is not None
    assert partial.lines == []
    assert tail.behind == 41
    whole = tail.read(budget=60)
    assert whole is not None
    assert whole.lines == [b"x" * 100]


def test_nothing_new_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    tail = Tail(path)
    assert drain(tail) == [b"one"]
    assert tail.read() is None
    assert tail.read() is None


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        (b"\xef\xbb\xbfa\r", b"a"),
        (b"\0\0\0a", b"a"),
        (b"\0\xef\xbb\xbfa\0", b"a\0"),
        (b"a\rb\r\r", b"a\rb\r"),
        (b"a\0b", b"a\0b"),
        (b"\r", b""),
        (b"", b""),
    ],
)
def test_clean_takes_off_what_editors_and_rotation_put_around_a_line(line: bytes, cleaned: bytes) -> None:
    assert clean(line) == cleaned


# ---- lines past the limit


@given(data=st.data())
def test_long_lines_are_skipped_alike_however_they_arrive(data: st.DataObject, fresh: Any) -> None:
    lengths = data.draw(st.lists(st.integers(0, 14), min_size=1, max_size=12))
    lines = [bytes([65 + i]) * length for i, length in enumerate(lengths)]
    content = b"".join(line + b"\n" for line in lines)
    path = fresh()
    tail = Tail(path, max_line=8)
    budget = data.draw(st.integers(1, 40))
    found, skipped = [], []
    for piece in data.draw(pieces_of(content)):
        append(path, piece)
        found += drain_located(tail, budget)
        skipped += tail.take_skipped()
    starts = list(itertools.accumulate((length + 1 for length in lengths), initial=0))
    assert found == [(at, line) for at, line in zip(starts, lines, strict=False) if len(line) <= 8]
    assert skipped == [
        (at, len(line), number)
        for number, (at, line) in enumerate(zip(starts, lines, strict=False), start=1)
        if len(line) > 8
    ]
    assert tail.take_skipped() == []


def test_a_huge_line_takes_no_more_memory_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(b"first\n")
        for _ in range(40):
            file.write(b"x" * (1 << 20))
        file.write(b"\nlast\n")
    tail = Tail(path, max_line=1 << 20)
    tracemalloc.start()
    lines = drain(tail)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == [b"first", b"last"]
    assert tail.take_skipped() == [(6, 40 << 20, 2)]
    assert peak < 6 << 20


# ---- what cannot be read


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_an_error_until_it_may(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    path.chmod(0)
    tail = Tail(path)
    assert tail.read() is None
    assert tail.state is FileState.ERROR
    path.chmod(0o600)
    assert drain(tail) == [b"one"]


def test_a_path_that_cannot_be_looked_at_is_an_error_until_it_can(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.symlink_to(path)
    tail = Tail(path)
    assert tail.read() is None
    assert tail.state is FileState.ERROR
    assert str(path) in tail.note
    path.unlink()
    append(path, b"one\n")
    assert drain(tail) == [b"one"]
    assert (tail.state, tail.note) == ("live", "")


def test_a_pipe_or_a_folder_is_never_opened(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe.jsonl", tmp_path / "folder.jsonl"
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (pipe, folder):
        tail = Tail(path)
        assert tail.read() is None
        assert tail.state is FileState.ERROR


def test_reading_leaves_no_trace_in_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    before = path.stat()
    tail = Tail(path)
    drain(tail)
    tail.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]
    assert (path.stat().st_mtime_ns, path.stat().st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)


def test_many_files_are_followed_where_few_may_be_open(tmp_path: Path) -> None:
    for number in range(240):
        append(tmp_path / f"rank_{number:03}.jsonl", b"one\ntwo\n")
    code = """
import pathlib, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from grpo_top.sources.files import Tail
folder = pathlib.Path(sys.argv[1])
tails = [Tail(path) for path in sorted(folder.iterdir())]
rows = 0
for again in range(2):
    for tail in tails:
        while (lines := tail.read()) is not None:
            rows += len(lines.lines)
    with (folder / "rank_000.jsonl").open("ab") as file:
        file.write(b"three\\n" * (not again))
assert all(tail.state == "live" for tail in tails), [tail.note for tail in tails if tail.note]
print(rows)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("481\n", "")


def test_a_file_whose_descriptor_was_given_up_is_still_followed_over_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    tail = Tail(path)
    drain(tail)
    tail.close()
    path.rename(tmp_path / "a.jsonl.1")
    append(path, b"two\n")
    assert drain(tail) == [b"two"]
