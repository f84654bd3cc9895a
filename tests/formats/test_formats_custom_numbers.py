"""Numbers of a home-made loop: logged a row, a name or a line at a time, exported, or printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from format_reading import lines, of, read
from runs import read as read_run
from runs import values

from grpo_top.formats.name_words import series_by_words
from grpo_top.formats.printed_rows import printed_row
from grpo_top.records import Eval, Step

if TYPE_CHECKING:
    from pathlib import Path


def test_numbers_within_objects_are_named_by_their_path() -> None:
    row = {"step": 3, "reward": {"mean": 0.5, "std": 0.25}, "policy": {"kl": 0.1}, "eval": {"accuracy": 0.75}}
    step, evaluation = read("x.jsonl", lines(row))
    assert isinstance(step, Step)
    assert step.metrics == {"reward/mean": 0.5, "reward/std": 0.25, "policy/kl": 0.1}
    assert isinstance(evaluation, Eval)
    assert evaluation.metrics == {"accuracy": 0.75}


def test_one_number_a_line_is_named_by_what_stands_beside_it() -> None:
    rows = [{"step": 1, "metric": name, "value": value} for name, value in (("reward", 0.5), ("kl", 0.1))]
    for name, data in (("x.jsonl", lines(*rows)), ("x.csv", b"step,metric,value\n1,reward,0.5\n1,kl,0.1\n")):
        assert [step.metrics for step in of(Step, read(name, data))] == [{"reward": 0.5}, {"kl": 0.1}]


def test_columns_of_numbers_are_rows(tmp_path: Path) -> None:
    history = {"step": [1, 2], "reward": [0.5, 0.75], "kl": [0.1, 0.2]}
    frame = {name: {"0": column[0], "1": column[1]} for name, column in history.items()}
    for number, columns in enumerate((history, frame)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "history.json").write_text(json.dumps(columns))
        snapshot = read_run(folder)
        assert values(snapshot, "reward_mean") == {1: 0.5, 2: 0.75}
        assert values(snapshot, "kl") == {1: 0.1, 2: 0.2}


def test_a_history_that_was_exported_from_weights_and_biases_counts_by_the_trainers_step(
    tmp_path: Path,
) -> None:
    names = (
        "_step",
        "_timestamp",
        "train/global_step",
        "train/reward",
        "train/completions/mean_length",
        "eval/reward",
    )
    rows = [
        (0, 1e9, None, None, None, None),
        (1, 1e9, 10, 0.5, 9.0, None),
        (2, 1e9, 10, None, None, 0.75),
        (3, 1e9, 20, 0.25, 8.0, None),
    ]
    (tmp_path / "history.jsonl").write_bytes(lines(*(dict(zip(names, row, strict=True)) for row in rows)))
    snapshot = read_run(tmp_path)
    assert (snapshot.run.framework, snapshot.skipped_count) == ("trl", 0)
    assert values(snapshot, "reward_mean") == {10: 0.5, 20: 0.25}
    assert values(snapshot, "heldout") == {10: 0.75}


def test_a_chart_that_was_exported_from_weights_and_biases_is_one_series() -> None:
    heading = '"Step","my-run - train/reward","my-run - train/reward__MIN","my-run - train/reward__MAX"\n'
    (found,) = read("chart.csv", (heading + '"3","0.5","0.5","0.5"\n').encode())
    assert isinstance(found, Step)
    assert found.metrics["train/reward"] == 0.5


@pytest.mark.parametrize(
    ("name", "series"),
    [
        *(("avg_reward", "reward_mean"), ("rewardMean", "reward_mean"), ("train/mean_score", "reward_mean")),
        *(("kl_divergence", "kl"), ("actor/kl", "kl"), ("kl_coef", None), ("approx_kl", None)),
        *(("policy_entropy", "entropy"), ("entropy_coef", None), ("gradient_norm", "grad_norm")),
        *(("mean_completion_length", "completion_tokens_mean"), ("response_len/mean", "completion_tokens_mean")),
        *(("prompt_length", None), ("num_tokens", None), ("tokens_per_sec", None)),
        *(("max_length", "completion_tokens_max"), ("frac_zero_std_groups", "zero_variance_group_frac")),
        *(("truncated_frac", "truncation_rate"), ("pct_truncated", None)),
        *(("eval_reward", None), ("val/avg_reward", None), ("reward_baseline", None), ("value_loss", None)),
        *(("pass_rate", "success_rate"), ("policy_loss", "loss"), ("solve_none", None)),
    ],
)  # fmt: skip
def test_a_name_stands_for_a_series_only_where_every_word_of_it_is_understood(
    name: str, series: str | None
) -> None:
    found = series_by_words(name)
    assert (found and found[0]) == series


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-30 10:00:05] step 5/30 | reward 0.5 | kl 0.01 | loss -1e-3",
        "INFO:root:step=5 reward=0.5 kl=0.01 loss=-1e-3",
        "Step 5: loss: -0.001, reward: 0.5, kl: 0.01",
        "GRPO:  25%|##5       | 5/20 [00:01<00:10,  1.00it/s, reward=0.5, kl=0.01, loss=-0.001]",
        "Epoch 1 [Iter 5/100] mean reward = 0.5, KL = 0.01 loss=-1e-3",
        '2026-11-30 10:00:00,123 INFO trainer: {"step": 5, "reward": 0.5, "kl": 0.01, "loss": -0.001}',
        'rank0: iteration 5 {"reward": {"mean": 0.5}, "kl": 0.01, "loss": -0.001}',
    ],
)
def test_a_printed_line_is_a_step_in_whatever_manner(tmp_path: Path, line: str) -> None:
    assert printed_row(line) is not None
    (tmp_path / "train.log").write_text(f"loading\n{line}\nsaved\n{line}\n")
    snapshot = read_run(tmp_path)
    assert values(snapshot, "reward_mean") == {5: 0.5}
    assert values(snapshot, "kl") == {5: 0.01}


@pytest.mark.parametrize(
    "heading", ["=== Step 5/100 ===", "Step 5:", "[2026-11-30 10:00:01] INFO Iteration 5", "## update: 5"]
)
def test_a_step_of_several_lines_is_one(tmp_path: Path, heading: str) -> None:
    block = f"{heading}\n  reward: 0.5\n  - KL = 0.01\nsaved 3 files\n  loss:  -1e-3 (mean)\n\n"
    (tmp_path / "train.log").write_text(f"loading\n{block}{block.replace(' 5', ' 6')}")
    snapshot = read_run(tmp_path)
    assert values(snapshot, "reward_mean") == {5: 0.5, 6: 0.5}
    assert values(snapshot, "kl") == {5: 0.01, 6: 0.01}


@pytest.mark.parametrize(
    "line",
    ["step 3 took 4.5 s for 3 files", "iter 3: mfu 5%", "reward 0.5 kl 0.1", "step 3 reward 50%", "step 3"],
)
def test_a_printed_line_that_tells_too_little_is_none(line: str) -> None:
    assert printed_row(line) is None
