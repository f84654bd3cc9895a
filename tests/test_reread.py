"""A rollout's text is read again from where it lies, and honestly refused where it lies no more."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from runs import group, read, recorded_lines, run_record, unpack_sample, write_log

from grpo_top.records import Rollout
from grpo_top.snapshot import Gone

if TYPE_CHECKING:
    from pathlib import Path


def test_every_row_of_a_log_gives_back_the_rollout_that_it_came_from(tmp_path: Path) -> None:
    log = tmp_path / "rollouts.jsonl"
    log.write_bytes(b"\n".join(recorded_lines("sampler_cold")) + b"\n")
    snapshot = read(log)
    rewards = snapshot.rollouts.columns["reward"]
    for row in range(0, snapshot.rollouts.length, 97):
        found = snapshot.read(row)
        assert isinstance(found, Rollout)
        assert found.completion is not None
        assert found.reward == rewards[row]


def test_a_compressed_log_gives_its_texts_too(tmp_path: Path) -> None:
    log = tmp_path / "rollouts.jsonl.gz"
    log.write_bytes(gzip.compress(b"\n".join(recorded_lines("truncation")) + b"\n"))
    snapshot = read(log)
    found = snapshot.read(snapshot.rollouts.length - 1)
    assert isinstance(found, Rollout)
    assert found.prompt


@pytest.mark.parametrize("name", ["trl-normal", "verl-v1"])
def test_a_frameworks_own_files_give_their_texts(name: str, tmp_path: Path) -> None:
    snapshot = read(unpack_sample(name, tmp_path))
    found = snapshot.read(5)
    assert isinstance(found, Rollout)
    assert found.completion
    assert found.step == snapshot.rollouts.columns["step"][5]


def test_a_file_that_vanished_is_said_to_be_gone(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    snapshot = read(log)
    log.unlink()
    found = snapshot.read(0)
    assert isinstance(found, Gone)
    assert "log.jsonl" in found.reason


def test_a_file_that_was_rewritten_is_not_shown_as_what_it_was(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    snapshot = read(log)
    write_log(log, [run_record(run="another, with a longer name"), *group(7, "b", (1, 1))])
    assert isinstance(snapshot.read(0), Gone)


def test_another_text_of_the_same_step_is_not_shown_as_what_it_was(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    snapshot = read(log)
    log.write_bytes(log.read_bytes().replace(b"a 0", b"b 0"))
    assert isinstance(snapshot.read(0), Gone)
    assert isinstance(snapshot.read(1), Rollout)
