"""A log that is truncated, rewritten, rotated, or deleted is followed, and no line is lost or given twice."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tailing import append, drain, drain_located

from grpo_top.sources.files import FileState, Tail, clean

OPS = Path(__file__).parents[1] / "data" / "ops"


# ---- the file begins anew


def test_a_file_that_appears_later_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "run" / "a.jsonl"
    tail = Tail(path)
    assert tail.read() is None
    assert tail.state is FileState.WAITING
    path.parent.mkdir()
    append(path, b"one\n")
    assert drain(tail) == [b"one"]
    assert (tail.state, tail.epoch) == ("live", 0)


def test_a_file_that_vanishes_is_gone_until_it_returns(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    tail = Tail(path)
    drain(tail)
    path.unlink()
    assert tail.read() is None
    assert tail.state is FileState.GONE
    append(path, b"two\n")
    assert drain(tail) == [b"two"]
    assert (tail.state, tail.epoch) == ("live", 1)


def test_what_was_written_just_before_a_file_was_deleted_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    tail = Tail(path)
    drain(tail)
    append(path, b"two\n")
    path.unlink()
    assert drain(tail) == [b"two"]


def test_truncation_begins_a_new_epoch(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\ntwo\nthr")
    tail = Tail(path)
    drain(tail)
    path.write_bytes(b"new\n")
    assert drain(tail) == [b"new"]
    assert (tail.epoch, tail.offset) == (1, 4)


def test_the_half_line_before_a_truncation_does_not_reach_into_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\nhalf")
    tail = Tail(path)
    drain(tail)
    path.write_bytes(b"x\n")
    assert drain(tail) == [b"x"]


@pytest.mark.parametrize("new", [b"ONE\ntwo\n", b"one\nTWO\n", b"ONE\ntwo\nthree\n", b"one\ntwO\nthree\n"])
def test_a_rewrite_to_the_same_size_or_more_is_seen(tmp_path: Path, new: bytes) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\ntwo\n")
    tail = Tail(path)
    drain(tail)
    path.write_bytes(new)
    assert drain(tail) == new.split(b"\n")[:-1]
    assert tail.epoch == 1


def test_a_rewrite_that_keeps_the_mtime_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    tail = Tail(path)
    drain(tail)
    before = path.stat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert drain(tail) == [b"two"]


def test_a_touch_is_nothing_new(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n" * 1000)
    tail = Tail(path)
    drain(tail)
    os.utime(path)
    assert tail.read() is None
    assert tail.epoch == 0


def test_a_hole_that_copytruncate_left_is_stepped_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb", buffering=0) as writer:  # not in append mode: it goes on at its old place
        writer.write(b"one\n" * 10)
        tail = Tail(path)
        assert len(drain(tail)) == 10
        os.truncate(path, 0)
        writer.write(b"two\n")
        assert drain_located(tail) == [(40, b"two")]
    assert tail.epoch == 1


def test_a_hole_of_gigabytes_is_stepped_over_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.seek(200 << 30)
        file.write(b"one\ntwo\n")
    tail = Tail(path)
    assert drain_located(tail) == [(200 << 30, b"one"), ((200 << 30) + 4, b"two")]


# ---- rotation


def test_rotation_by_rename_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    tail = Tail(path)
    drain(tail)
    append(path, b"two\n")
    path.rename(tmp_path / "a.jsonl.1")
    append(tmp_path / "a.jsonl.1", b"three\nno newline")
    append(path, b"four\n")
    assert drain(tail) == [b"two", b"three", b"no newline", b"four"]
    assert tail.epoch == 1


def test_the_epoch_grows_with_the_first_lines_of_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"one\n")
    tail = Tail(path)
    drain(tail)
    append(path, b"two")
    path.rename(tmp_path / "a.jsonl.1")
    append(path, b"three\n")
    seen = []
    while (found := tail.read()) is not None:
        seen += [(tail.epoch, line) for line in found.lines]
    assert seen == [(0, b"two"), (1, b"three")]


def test_the_old_file_is_read_on_until_the_new_one_is_written_to(tmp_path: Path) -> None:
    path, old = tmp_path / "a.jsonl", tmp_path / "a.jsonl.1"
    append(path, b"one\n")
    tail = Tail(path)
    drain(tail)
    path.rename(old)
    path.touch()
    assert drain(tail) == []
    append(old, b"two\n")
    assert drain(tail) == [b"two"]
    append(path, b"three\n")
    assert drain(tail) == [b"three"]


@given(data=st.data())
def test_any_sequence_of_appends_and_rotations_gives_each_line_once(data: st.DataObject, fresh: Any) -> None:
    path, tail = (first := fresh()), Tail(first)
    written, found = [], []
    opened = False
    for number in range(data.draw(st.integers(1, 15))):
        match data.draw(st.sampled_from(["append", "half", "rotate", "delete", "poll"])):
            case "append" | "half" as how:
                line = b"%d" % number
                written.append(line)
                append(path, line if how == "half" else line + b"\n")
                if how == "half":
                    append(path, b"\n")
            case "poll":
                found += drain(tail)
                opened = path.exists()
            case how if path.exists():
                if not opened:
                    found += drain(tail)  # a file that comes and goes between two polls cannot be known of
                opened = False
                path.rename(fresh(".old")) if how == "rotate" else path.unlink()
    found += drain(tail)
    assert found == written


@given(data=st.data())
def test_any_sequence_of_changes_that_are_polled_one_by_one_gives_each_line_once(
    data: st.DataObject, fresh: Any
) -> None:
    path, tail = (first := fresh()), Tail(first)
    written, found = [], []
    for number in range(data.draw(st.integers(1, 20))):
        match data.draw(st.sampled_from(["append", "truncate", "replace", "rewrite", "delete", "touch"])):
            case "append":
                append(path, b"%d\n" % number)
                written.append(b"%d" % number)
            case "rewrite":
                path.write_bytes(b"%d\n" % number)
                written.append(b"%d" % number)
            case "replace":
                other = fresh(".tmp")
                other.write_bytes(b"%d\n" % number)
                other.replace(path)
                written.append(b"%d" % number)
            case "truncate" if path.exists():
                os.truncate(path, 0)
            case "delete":
                path.unlink(missing_ok=True)
            case "touch":
                path.touch()
        found += drain(tail)
    assert found == written


def replayed(operation: dict[str, Any], folder: Path) -> None:
    path = folder / operation["path"]
    path.parent.mkdir(parents=True, exist_ok=True)
    match operation["op"]:
        case "mkdir":
            path.mkdir(exist_ok=True)
        case "append":
            append(path, operation["data"].encode())
        case "append_b64":
            append(path, base64.b64decode(operation["data"]))
        case "truncate":
            os.truncate(path, operation["size"])
        case "copytruncate":
            shutil.copyfile(path, folder / operation["to"])
            os.truncate(path, 0)
        case "rename":
            path.rename(folder / operation["to"])
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize(
    ("script", "log", "steps"),
    [
        ("copytruncate", "run/metrics.jsonl", 8),
        ("rename", "run/metrics.jsonl", 9),
        ("regrow", "run/metrics.jsonl", 12),
        ("partial", "rollouts.jsonl", 4),
        ("no_events", "nfs/metrics.jsonl", 5),
    ],
)
def test_recorded_scripts_of_real_writers_give_every_step_once(
    script: str, log: str, steps: int, tmp_path: Path
) -> None:
    tail = Tail(tmp_path / log)
    lines = []
    operations = map(json.loads, (OPS / f"{script}.ops.jsonl").read_text().splitlines())
    for _, together in itertools.groupby(operations, key=lambda operation: operation["t"]):
        for operation in together:
            replayed(operation, tmp_path)
        lines += drain(tail)
    if last := tail.finish():
        lines += last.lines
    assert [json.loads(clean(line))["step"] for line in lines] == list(range(1, steps + 1))
