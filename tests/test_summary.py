"""A run in five headings: numbers that are there, in the field's words, and nothing about what is not logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runs import recorded_lines, write_log

from grpo_top.check_text import check_text
from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.summary import summary

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot


def _read(folder: Path) -> Snapshot:
    monitor = Monitor([str(folder)], Settings())
    monitor.read_all()
    return monitor.snapshot(finished=True)


def test_a_whole_run_has_numbers_under_each_heading(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(recorded_lines("sampler_cold")) + b"\n")
    told = {section.heading: section.parts for section in summary(_read(tmp_path))}
    assert list(told) == ["progress", "stability", "reward", "performance", "notes"]
    assert told["progress"][:3] == ("steps 1–120", "3,840 rollouts in 480 groups", "6 evaluations")
    assert told["stability"][0] == "KL 0.253 (max 0.561)"
    assert "zero-variance groups 26%" in told["reward"]
    assert told["performance"][0] == "held-out 0.852 → 0.956, best 1.02"
    assert told["notes"][0] == "success: accuracy at least 1, as declared"


def test_what_is_not_logged_is_said_to_be_not_logged_and_never_zero(tmp_path: Path) -> None:
    write_log(
        tmp_path / "a.jsonl",
        [{"kind": "step", "schema": "grpo-top/1", "step": 3, "metrics": {"loss": 0.1}}],
    )
    told = {section.heading: section.parts for section in summary(_read(tmp_path))}
    assert told["progress"] == ("step 3", "0 evaluations")
    assert told["stability"] == told["reward"] == told["performance"] == ("not logged",)
    assert any(part.endswith("checks cannot be made") for part in told["notes"])


def test_printed_lines_break_between_numbers_and_never_within_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(recorded_lines("sampler_cold")) + b"\n")
    head = check_text(_read(tmp_path)).split("\n\n")[1].splitlines()
    assert all(len(line) <= 110 for line in head)
    assert all(
        line.rstrip().endswith("·")
        for line in head
        if head.index(line) + 1 < len(head) and head[head.index(line) + 1].startswith("  ")
    )
    assert "\0" not in "".join(head)
