"""A custom loop's log: what is written is what is read, whole lines, from several processes, whatever happens."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.recorder import RolloutLogger

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot


def _read(folder: Path) -> Snapshot:
    monitor = Monitor([str(folder)], Settings())
    monitor.read_all()
    return monitor.snapshot(finished=True)


def test_a_run_that_is_logged_is_read_with_the_ten_things(tmp_path: Path) -> None:
    with RolloutLogger(
        tmp_path / "deep" / "rollouts.jsonl",
        run="mine",
        group_size=2,
        sampling={"temperature": 1.0, "max_tokens": 64},
        reward_range=(0, 1),
        success=("reward", 1),
    ) as log:
        for step in range(1, 4):
            for group in range(2):
                for index in range(2):
                    log.log(
                        step,
                        group,
                        float(index),
                        rewards={"accuracy": float(index), "format": np.float32(1)},
                        prompt=f"{group} + 1",
                        completion="2" * (index + 1),
                        index=index,
                        task=group,
                        family="sums",
                        tier=1,
                        verifier_raw={"equal": bool(index)},
                        parsed=True,
                        advantage=index - 0.5,
                        prompt_tokens=3,
                        completion_tokens=index + 1,
                        finish_reason="stop",
                        termination="answered",
                        policy_version=step - 1,
                        trainer_version=step,
                        sampling={"temperature": 1.0},
                        sampler="gpu0",
                        seed=7,
                        logprobs_sampler=[-0.5] * (index + 1),
                        logprobs_trainer=[-0.4] * (index + 1),
                        env_version="1",
                        reward_version="2",
                    )
            log.log_step(step, {"kl": 0.1, "entropy": np.float64(1.5)})
        log.log_eval(3, {"reward": 0.5})
        log.finish()
    snapshot = _read(tmp_path)
    assert (snapshot.run.name, snapshot.run.rollouts, snapshot.run.groups) == ("mine", 12, 6)
    assert snapshot.finished
    assert {item.status for item in snapshot.coverage} <= {"present", "derived"}
    assert not snapshot.skipped
    assert snapshot.series["kl"].values.tolist() == [0.1] * 3


def test_numbers_that_are_not_finite_and_broken_text_are_not_turned_into_unknown(tmp_path: Path) -> None:
    with RolloutLogger(tmp_path / "a.jsonl") as log:
        log.log(1, "g", math.nan, completion="\ud800 half", logprobs_sampler=[-0.1, math.inf])
        log.log(1, "g", None)
        log.log_step(1, {"loss": math.nan, "kl": None})
    snapshot = _read(tmp_path)
    rewards = snapshot.rollouts.columns["reward"]
    assert math.isinf(rewards[0])
    assert math.isnan(rewards[1])
    assert "kl" not in snapshot.series
    assert not snapshot.skipped


def test_a_line_that_a_crash_cut_costs_that_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with RolloutLogger(path) as log:
        log.log(1, "g", 1.0)
    path.write_bytes(path.read_bytes()[:-9])
    with RolloutLogger(path) as log:
        log.log(1, "g", 0.0)
    snapshot = _read(tmp_path)
    assert snapshot.run.rollouts == 1
    assert snapshot.skipped_count == 1


def test_several_processes_write_whole_lines_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    loop = (
        "import sys; from grpo_top.recorder import RolloutLogger\n"
        "log = RolloutLogger(sys.argv[1])\n"
        "for step in range(200): log.log(step, sys.argv[2], 1.0, completion='x' * 5000)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", loop, str(path), str(rank)]) for rank in range(3)]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]
    snapshot = _read(tmp_path)
    assert snapshot.run.rollouts == 600
    assert snapshot.skipped_count == 0


def test_a_full_disk_loses_records_and_never_ends_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = RolloutLogger(tmp_path / "a.jsonl")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._file)
    os.close(full)
    log.log(1, "g", 1.0)
    log.log(1, "g", 1.0)
    assert log.lost == 2
    (said,) = [record.getMessage() for record in caplog.records if record.name == "grpo_top.recorder"]
    assert "No space left" in said


def test_what_cannot_be_logged_is_an_error_that_says_so(tmp_path: Path) -> None:
    with (
        RolloutLogger(tmp_path / "a.jsonl") as log,
        pytest.raises(TypeError, match="object cannot be logged"),
    ):
        log.log(1, "g", 1.0, verifier_raw=object())


def test_it_needs_nothing_but_orjson() -> None:
    code = "import sys, grpo_top.recorder; print({'numpy', 'textual', 'httpx', 'grpo_top.records'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(codec=None, exclude_categories=())),
    st.floats() | st.none(),
    st.dictionaries(st.text(min_size=1), st.floats() | st.none()),
)
def test_any_text_and_number_comes_back(
    tmp_path: Path, text: str, reward: float | None, rewards: dict[str, float | None]
) -> None:
    path = tmp_path / "a.jsonl"
    path.unlink(missing_ok=True)
    with RolloutLogger(path) as log:
        log.log(1, "g", reward, completion=text, rewards=rewards)
    monitor = Monitor([str(path)], Settings())
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    assert snapshot.skipped_count == 0
    rollout = snapshot.read(0)
    assert rollout.completion == text  # type: ignore[union-attr]
    assert rollout.reward == reward or (math.isnan(reward) and math.isnan(rollout.reward))  # type: ignore
