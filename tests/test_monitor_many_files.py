"""A run of very many files: quiet ones take turns, and nothing is missed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

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
