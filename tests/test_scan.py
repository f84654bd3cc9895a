"""Many rollouts read again for a search: the same texts as one by one, whatever the files are, and none is missed."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import group, read, run_record, step_record, unpack_sample

from grpo_top import scan as scanning
from grpo_top.records import Rollout
from grpo_top.scan import Literal, Looked
from grpo_top.snapshot import Gone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

SAMPLES = (
    "trl-lowtemp",
    "openpipe-art-run",
    "rllm-sampler_cold",
    "sglang-sampler_cold",
    "verifiers-v0.1.14_tool",
)
"""Parquet tables, a folder of them, a file a rollout, an engine's log, conversations."""


def looks(snapshot: Snapshot, *literals: tuple[str, bool], rows: Sequence[int] | None = None) -> list[Looked]:
    assert snapshot.scan is not None
    wanted = np.arange(snapshot.rollouts.length) if rows is None else np.array(rows, np.int64)
    return list(snapshot.scan(wanted, [Literal(text.encode(), any_case) for text, any_case in literals]))


def found(looked: Sequence[Looked]) -> dict[int, Rollout | Gone]:
    return {row: rollout for one in looked for row, rollout in one.found}


def completions(looked: Sequence[Looked]) -> list[str | None]:
    """In the order in which they are handed over."""
    return [rollout.completion for one in looked for _, rollout in one.found if isinstance(rollout, Rollout)]


def log(path: Path, *texts: str, write: object = json.dumps) -> Path:
    records = [run_record()]
    for step, text in enumerate(texts, 1):
        records += [*group(step, "g", [0.0, 1.0], completion=text), step_record(step)]
    path.write_bytes(b"".join(as_bytes(write(record)) + b"\n" for record in records))  # type: ignore[operator]
    return path


def as_bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else line.encode()


@pytest.mark.parametrize("name", SAMPLES)
def test_all_rows_are_as_each_is_when_read_by_itself(tmp_path: Path, name: str) -> None:
    snapshot = read(unpack_sample(name, tmp_path))
    looked = looks(snapshot)
    there = found(looked)
    assert sum(one.rows for one in looked) == snapshot.rollouts.length == len(there)
    for row in range(0, snapshot.rollouts.length, 7):
        alone, together = snapshot.read(row), there[row]
        assert isinstance(alone, Rollout)
        assert isinstance(together, Rollout)
        assert together._replace(step=alone.step) == alone


def test_the_newest_rows_come_first_and_only_what_holds_every_literal(tmp_path: Path) -> None:
    snapshot = read(log(tmp_path / "a.jsonl", "one APPLE", "two", "an apple, three pears"))
    assert completions(looks(snapshot, ("apple", True))) == ["an apple, three pears"] * 2 + ["one APPLE"] * 2
    assert completions(looks(snapshot, ("apple", False))) == ["an apple, three pears"] * 2
    assert completions(looks(snapshot, ("apple", True), ("pear", True))) == ["an apple, three pears"] * 2
    assert completions(looks(snapshot, ("cherry", True))) == []


def test_only_the_rows_that_are_asked_for_are_looked_at(tmp_path: Path) -> None:
    snapshot = read(log(tmp_path / "a.jsonl", "apple", "apple", "apple"))
    looked = looks(snapshot, ("apple", True), rows=[1, 4])
    assert sorted(found(looked)) == [1, 4]
    assert sum(one.rows for one in looked) == 2


@settings(max_examples=25)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["ascii", "raw", "orjson"]),
)
def test_no_way_of_writing_json_hides_letters(
    tmp_path_factory: pytest.TempPathFactory, around: str, way: str
) -> None:
    write = {
        "ascii": json.dumps,
        "raw": lambda record: json.dumps(record, ensure_ascii=False),
        "orjson": orjson.dumps,
    }[way]
    snapshot = read(
        log(tmp_path_factory.mktemp("log") / "a.jsonl", f"{around}needle42{around}", "hay", write=write)
    )
    assert len(found(looks(snapshot, ("NEEDLE42", True), ("needle", False)))) == 2


def test_slices_part_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "SLICE", 700)
    monkeypatch.setattr(scanning, "GAP", 300)
    monkeypatch.setattr(scanning, "PORTION", 5)
    monkeypatch.setattr(scanning, "TOGETHER", 2)
    texts = [f"text {number} " + "x" * (number * 37 % 900) for number in range(30)]
    snapshot = read(log(tmp_path / "a.jsonl", *texts))
    assert sorted(found(looks(snapshot))) == list(range(60))
    some = [row for row in range(60) if row % 7 < 2]
    assert sorted(found(looks(snapshot, ("text", True), rows=some))) == some


def test_a_packed_log_is_gone_through_once_from_its_beginning(tmp_path: Path) -> None:
    plain = log(tmp_path / "a.jsonl", "apple", "pear", "APPLE")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert completions(looks(read(tmp_path), ("apple", True))) == ["apple"] * 2 + ["APPLE"] * 2


def test_a_line_that_holds_several_rollouts_gives_each_of_them(tmp_path: Path) -> None:
    trajectories = [
        {
            "messages_and_choices": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": text},
            ],
            "reward": 1,
        }
        for text in ("apple", "pear")
    ]
    place = tmp_path / "trajectories" / "train"
    place.mkdir(parents=True)
    (place / "0001.jsonl").write_text(json.dumps({"trajectories": trajectories}) + "\n")
    assert len(found(looks(read(tmp_path), ("apple", True)))) == 2


def test_files_that_are_gone_say_so_and_the_others_are_read(tmp_path: Path) -> None:
    log(tmp_path / "a.jsonl", "apple")
    log(tmp_path / "b.jsonl", "apple pie")
    snapshot = read(tmp_path)
    (tmp_path / "a.jsonl").unlink()
    reasons = [rollout.reason for rollout in found(looks(snapshot)).values() if isinstance(rollout, Gone)]
    assert reasons == ["a.jsonl: No such file or directory"]
    assert completions(looks(snapshot)) == ["apple pie"] * 2


def test_a_file_that_shrank_gives_what_is_left_of_it(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", "apple", "apple pie", "apple tart")
    snapshot = read(path)
    path.write_bytes(path.read_bytes()[:400])
    there = found(looks(snapshot))
    assert isinstance(there[0], Rollout)
    assert isinstance(there[5], Gone)
