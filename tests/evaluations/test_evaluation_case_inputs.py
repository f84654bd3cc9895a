"""Every file of the public bug reports is read to its end, and what is broken in it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_top.formats.base import RunContext
from grpo_top.formats.registry import choose
from grpo_top.records import Eval, Rollout, Skipped, Step
from grpo_top.sources.lines import Lines

SHARED = Path(__file__).parents[3] / "shared"
INDEX = SHARED / "cases" / "index.json"
CASES: list[dict[str, Any]] = json.loads(INDEX.read_text()) if INDEX.is_file() else []
BROKEN = {"C68/rollouts.jsonl": 29}
"""Files that have lines which nobody can read → how many."""
UNFINISHED = {"C67/static_no_newline.jsonl": 1}
"""Files whose last line is still being written."""
FILES = [
    INDEX.parent / name
    for case in CASES
    for name in case["input_files"]
    if not name.endswith((".ops.jsonl", ".py", ".zst", "/"))
]

pytestmark = pytest.mark.skipif(not CASES, reason="the cases lie beside the project")


def rollouts_of(line: str) -> int:
    """Rollouts that a line of a log holds: a table in one line has several."""
    raw = json.loads(line)
    return len(raw["completion"]) if isinstance(raw.get("completion"), list) else 1


@pytest.mark.parametrize("path", FILES, ids=["/".join(path.parts[-2:]) for path in FILES])
def test_a_file_is_read_and_all_that_it_carries(path: Path) -> None:
    data = path.read_bytes()
    chosen = choose(path, data[: 64 << 10])
    assert chosen is not None
    reader = chosen[0].reader(path, chosen[1], RunContext())
    lines = data.split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    found = (
        reader.whole(data) if chosen[1].feed == "whole" else reader.feed(Lines(0, lines, 1)) + reader.end()
    )
    name = "/".join(path.parts[-2:])
    skipped = [record for record in found if isinstance(record, Skipped)]
    assert len(skipped) == BROKEN.get(name, UNFINISHED.get(name, 0))
    if chosen[1].role in {"rollouts", "samples"}:
        whole = [line for line in data.decode("utf-8", "replace").splitlines() if is_whole(line)]
        rollouts = [record for record in found if isinstance(record, Rollout)]
        assert len(rollouts) == sum(map(rollouts_of, whole))
    elif chosen[1].role != "config":
        assert any(isinstance(record, Step | Eval) for record in found)


def is_whole(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
