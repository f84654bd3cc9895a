"""What the README tells a reader to do works."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from grpo_top.detectors import ALL
from grpo_top.formats.base import Lines, RunContext
from grpo_top.formats.native import Native
from grpo_top.records import Rollout, Run, Step
from grpo_top.triage import TEN_THINGS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

TRAINING = [
    (
        1,
        [
            {"task": "2+2", "score": 1.0, "prompt": "2+2?", "completion": "4", "finish_reason": "stop"},
            {"task": "2+2", "score": 0.0, "prompt": "2+2?", "completion": "5", "finish_reason": "length"},
        ],
        {"kl": 0.02, "entropy": 0.6},
    )
]


def test_a_log_written_as_the_readme_says_is_read_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = [
        code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "rollouts.jsonl" in code
    ]
    exec(example, {"training": TRAINING})
    log = (tmp_path / "runs" / "my-run" / "rollouts.jsonl").read_bytes()

    claim = Native().claim(PurePath("rollouts.jsonl"), log)
    records = (
        Native().reader(PurePath("rollouts.jsonl"), claim, RunContext()).feed(Lines(0, log.splitlines(), 1))
    )

    assert [type(record) for record in records] == [Run, Rollout, Rollout, Step, Run]
    assert (records[0].group_size, records[0].reward_range, records[-1].finished) == (8, (0, 1), True)
    assert [(rollout.group, rollout.reward, rollout.completion) for rollout in records[1:3]] == [
        ("2+2", 1.0, "4"),
        ("2+2", 0.0, "5"),
    ]
    assert records[3].metrics == {"kl": 0.02, "entropy": 0.6}


def test_the_ten_things_are_those_that_inspect_asks_for():
    for item in TEN_THINGS:
        assert f"| {item.name} |" in README


def test_the_tests_that_the_readme_names_are_those_that_ci_runs():
    command = "python -m pytest -n auto"
    ci = (ROOT / ".ci" / "run").read_text().splitlines()

    assert [line for line in README.splitlines() if line.endswith(f".venv/bin/{command}")]
    assert command in ci


def test_the_files_that_the_readme_points_at_are_there():
    targets = re.findall(r"\]\(([^)#:]+)\)", README)

    assert targets
    assert [target for target in targets if not (ROOT / target).is_file()] == []


def test_the_number_of_checks_is_the_number_of_checks():
    assert f"| {len(ALL)} checks in order of cause |" in README
