"""A step that has a file of its own: written again, it takes the place of all that the file held."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from grpo_top.config import Settings
from grpo_top.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path

TRAJECTORY = {
    "status": "completed",
    "reward": 1.0,
    "prompt": "2+2?",
    "messages": [{"role": "user", "content": "2+2?"}],
}


def write(path: Path, group: int, count: int) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"sample_index": n, "group_index": group, **TRAJECTORY}) for n in range(count)]
    path.write_text("\n".join(lines) + "\n")


def test_a_step_that_a_resumed_run_writes_again_holds_only_what_it_wrote_last(tmp_path: Path) -> None:
    path = tmp_path / "trajectory" / "5.jsonl"
    write(path, group=1, count=4)
    monitor = Monitor([str(tmp_path)], Settings())
    while monitor.poll():
        pass
    path.unlink()
    write(path, group=2, count=3)
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    assert snapshot.series["rollouts"].values.tolist() == [3.0]
    assert snapshot.series["groups"].values.tolist() == [1.0]
