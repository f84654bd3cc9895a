"""`--since`: a run read as if it had begun at a later step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from runs import comparable, group, run_record, step_record, write_log

from grpo_top.cli import main
from grpo_top.config import Settings
from grpo_top.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot


def records(steps: range) -> list[dict]:
    found = []
    for step in steps:
        found += group(step, f"{step}a", [0, 1, step % 2, 1]) + group(step, f"{step}b", [0, 0, 0, 0])
        found.append(step_record(step, kl=0.01 * step, loss=0.1))
        if step % 10 == 0:
            found.append({"kind": "eval", "step": step, "metrics": {"reward": step / 100}})
    return found


def read(directory: Path, since: int | None = None) -> Snapshot:
    monitor = Monitor([str(directory)], Settings(), since=since)
    monitor.read_all()
    return monitor.snapshot(finished=True)


def test_what_lies_before_is_as_if_it_had_never_been_written(tmp_path: Path) -> None:
    write_log(tmp_path / "whole" / "rollouts.jsonl", [run_record(), *records(range(1, 41))])
    write_log(tmp_path / "rest" / "rollouts.jsonl", [run_record(), *records(range(21, 41))])

    since = read(tmp_path / "whole", since=21)
    alone = read(tmp_path / "rest")

    assert since.run.first_step == 21
    assert since.run.since == 21
    found = comparable(since)
    assert found["run"].pop("since") == 21
    assert found == comparable(alone)


def test_a_line_that_cannot_be_read_falls_with_the_steps_around_it(tmp_path: Path) -> None:
    log = write_log(tmp_path / "rollouts.jsonl", [run_record(), *records(range(1, 11))])
    with log.open("a") as file:
        file.write("{broken\n")
        for record in records(range(11, 31)):
            file.write(json.dumps(record) + "\n")
        file.write("{broken as well\n")

    assert read(tmp_path).skipped_count == 2
    assert read(tmp_path, since=20).skipped_count == 1


def test_a_step_that_never_came_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "rollouts.jsonl", [run_record(), *records(range(1, 6))])

    assert main(["check", "--since", "100", str(tmp_path)]) == 0
    assert "no step from 100 on, where --since begins" in capsys.readouterr().out


def test_a_step_is_a_whole_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["check", "--since", "early", "."])
    assert left.value.code == 2
    assert "early is no step: a whole number from 0 up" in capsys.readouterr().err
