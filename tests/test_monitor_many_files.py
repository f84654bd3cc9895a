"""A run of very many files: quiet ones take turns, and nothing is missed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from grpo_top.config import Settings
from grpo_top.history import History
from grpo_top.monitor import Monitor
from grpo_top.reading import FILES_AT_ONCE, QUIET_LOOKS, TURNS
from grpo_top.records import Rollout

if TYPE_CHECKING:
    from pathlib import Path


def line(step: int, group: str) -> str:
    return json.dumps({"kind": "rollout", "step": step, "group": group, "reward": 1.0}) + "\n"


def test_a_quiet_file_among_very_many_that_grows_again_is_read_within_its_turns(tmp_path: Path) -> None:
    paths = [tmp_path / f"worker-{number:03}.jsonl" for number in range(2 * FILES_AT_ONCE + 1)]
    for number, path in enumerate(paths):
        path.write_text(line(1, str(number)))
    monitor = Monitor([str(tmp_path)], Settings())
    for _ in range(QUIET_LOOKS + 2):
        monitor.poll(10.0)
    assert monitor.ledger.history.length == len(paths)
    for number, path in enumerate(paths):
        with path.open("a") as file:
            file.write(line(2, str(number)))
    for _ in range(TURNS):
        monitor.poll(10.0)
    assert monitor.ledger.history.length == 2 * len(paths)


def test_rollouts_of_several_sources_taken_in_together_are_placed_as_one_after_the_other() -> None:
    parts = [
        ([Rollout(1, "a", 0.0, 0), Rollout(1, "a", 1.0, 1)], 0),
        ([Rollout(2, "a", 1.0), Rollout(1, "b", 0.5)], 1),
        ([Rollout(1, "a", 0.25, 1), Rollout(2, "a", 0.0)], 2),
    ]
    together, apart = History(), History()
    together.add_of_several(parts)
    for rollouts, source in parts:
        apart.add(rollouts, source)
    for name, column in apart.columns.items():
        assert together.columns[name].view().tolist() == column.view().tolist() or name in {
            "reward",
            "advantage",
            "logp_diff",
        }
    assert together.columns["reward"].view().tolist() == apart.columns["reward"].view().tolist()
    assert together.replaced == apart.replaced == 1
    assert together.group_labels(1) == apart.group_labels(1) == ["a", "b"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only the kernel's events name files")
def test_a_quiet_file_that_is_told_to_have_grown_is_read_in_the_next_poll(tmp_path: Path) -> None:
    paths = [tmp_path / f"worker-{number:03}.jsonl" for number in range(4 * FILES_AT_ONCE)]
    for number, path in enumerate(paths):
        path.write_text(line(1, str(number)))
    clock = iter(range(10**6))  # each poll scans
    monitor = Monitor([str(tmp_path)], Settings(), clock=lambda: float(next(clock)))
    for _ in range(6):
        monitor.poll(10.0)
        monitor.wait(0)
    if not monitor.is_told:
        pytest.skip("no file events on this file system")
    looked: list[Path] = []
    for number in (0, 100, 255):
        with paths[number].open("a") as file:
            file.write(line(2, str(number)))
    monitor.wait(20)
    for intake in monitor._order:
        intake.read = lambda last, intake=intake: (
            looked.append(intake.path) or type(intake).read(intake, last)
        )
    monitor.poll(10.0)
    assert monitor.ledger.history.length == len(paths) + 3
    assert {paths[number] for number in (0, 100, 255)} <= set(looked)
    assert len(looked) < len(paths) / 2  # of the others some take their turn
    monitor.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only the kernel's events name files")
def test_a_file_that_nobody_knew_is_recognised_once_it_is_told_to_have_grown(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    clock = iter(range(10**6))
    monitor = Monitor([str(tmp_path)], Settings(), clock=lambda: float(next(clock)))
    for _ in range(4):
        monitor.poll(10.0)
        monitor.wait(0)
    assert monitor.files == 0
    (tmp_path / "a.jsonl").write_text(line(1, "a"))
    monitor.wait(20)
    while monitor.poll(10.0):
        pass
    assert monitor.ledger.history.length == 1
    monitor.close()
