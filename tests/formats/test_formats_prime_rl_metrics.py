"""prime-rl's metrics, configs and printed lines."""

import json

import pytest
import runs
from format_reading import fed, lines, of, packed, read

from grpo_top.formats.names import canonical_values, heldout_value
from grpo_top.formats.prime_rl_console import ConsoleReader
from grpo_top.records import Eval, Run, Skipped, Step


def test_a_step_is_six_rows_of_two_processes():
    found = read("metrics.jsonl", packed("prime-rl-healthy-short", "metrics.jsonl"))
    first = [step for step in of(Step, found) if step.step == 1]
    assert [step.writer for step in first] == [" orchestrator"] + [" trainer"] * 5
    merged = {}
    for step in first:
        merged |= canonical_values("prime-rl", step.metrics)
    assert merged["reward_mean"] == 0.646875
    assert merged["truncation_rate"] == 0.25
    assert {
        "entropy",
        "mismatch_kl",
        "loss",
        "grad_norm",
        "learning_rate",
        "version_lag_max",
    } <= merged.keys()


def test_means_are_those_of_all_rollouts_and_not_of_what_shipped():
    row = {"train/agg/effective/agent/reward/mean": 0.9, "train/agg/all/agent/reward/mean": 0.5}
    assert canonical_values("prime-rl", row) == {"reward_mean": 0.5}


def test_values_that_are_not_finite_are_missing():
    found = read("metrics.jsonl", packed("prime-rl-healthy-short", "metrics.jsonl"))
    assert not any("loss/std" in step.metrics for step in of(Step, found))


def test_an_evaluation_comes_with_its_step_as_a_fraction():
    found = read("metrics.jsonl", packed("prime-rl-evaluated", "metrics.jsonl"))
    (evaluation,) = of(Eval, found)
    assert (evaluation.step, evaluation.suite) == (21, "add-numbers")
    assert (
        heldout_value(evaluation.metrics)
        == evaluation.metrics["effective/agent/avg@4"]
        == pytest.approx(0.825)
    )
    assert "all/agent/pass@1" not in evaluation.metrics


def test_the_number_of_an_evaluation_is_that_of_the_episodes_without_errors():
    row = {
        "step": 1,
        "time": 1.0,
        "eval/org/gsm8k/all/agent/reward/mean": 0.25,
        "eval/org/gsm8k/effective/agent/reward/mean": 0.5,
    }
    (found,) = of(Eval, read("metrics.jsonl", lines(row)))
    assert (found.suite, heldout_value(found.metrics)) == ("org/gsm8k", 0.5)


def test_a_trainer_one_step_behind_its_orchestrator_is_no_restart(tmp_path):
    rows = []
    for step in range(1, 9):
        rows.append({"step": step + 1, "time": 1.0, "train/agg/all/agent/reward/mean": 0.5, "time/step": 9.0})
        rows += [{"step": step, "time": 1.0, "optim/lr": 1e-5}, {"step": step, "time": 1.0, "time/step": 8.0}]
    (tmp_path / "metrics.jsonl").write_bytes(lines(*rows))
    snapshot = runs.read(tmp_path)
    assert "STEP_RESTART" not in {finding.id for finding in snapshot.findings}
    assert runs.values(snapshot, "learning_rate")[4] == 1e-5
    assert runs.values(snapshot, "reward_mean")[4] == 0.5


def test_metrics_without_a_step_are_skipped():
    row = {"step": 1, "time": 1.0, "optim/lr": 1e-5}
    found = read("metrics.jsonl", lines(row, {"time": 2.0, "optim/lr": 1e-5}, row))
    assert [type(record) for record in found] == [Run, Step, Skipped, Step]


# Configs


def test_a_config_tells_what_was_intended():
    orchestrator = {
        "algo": {"type": "grpo"},
        "model": {"name": "m"},
        "train": {
            "sampling": {"temperature": 0.8, "max_completion_tokens": 64, "extra_body": {"top_k": 20}},
            "source": [{"group_size": 16, "sampling": {"temperature": 0.9}}],
        },
        "group_size": 8,
        "max_steps": 100,
        "max_off_policy_steps": 8,
    }
    expected = Run(
        framework="prime-rl",
        algorithm="grpo",
        group_size=16,
        sampling={"top_k": 20, "top_p": 1.0, "temperature": 0.9, "max_tokens": 64},
        version_lag_tolerance=8.0,
        total_steps=100,
        config={"model": "m"},
    )
    assert read("configs/orchestrator.json", json.dumps(orchestrator, indent=2).encode()) == [expected]
    whole = {"trainer": {}, "orchestrator": orchestrator, "inference": {}, "run": {"name": "mine"}}
    assert read("configs/rl.json", json.dumps(whole, indent=2).encode()) == [expected._replace(run="mine")]


# Printed lines


def console(text: str) -> list[object]:
    return fed(ConsoleReader(), text.encode())


def test_the_orchestrators_log_gives_its_step_lines():
    found = read(
        "logs/latest/orchestrator.log", packed("prime-rl-healthy-short", "logs/latest/orchestrator.log")
    )
    steps = of(Step, found)
    assert [(step.step, step.rank) for step in steps] == [(1, 0), (2, 0), (3, 0)]
    assert canonical_values("prime-rl", steps[0].metrics) == {
        "reward_mean": 0.6469,
        "version_lag_max": 0.0,
        "truncation_rate": 0.25,
        "step_time": 17.9,
    }
    assert steps[2].metrics["Trainable"] == 1.0


def test_a_line_of_old_is_read_with_the_share_without_advantage_before_it():
    found = of(
        Step,
        console(
            "Generating rollouts (train): 100%|██████████| 128/128 [00:07<00:00]02:14:11    INFO "
            "Detected 52/128 rollouts (gibberish=1, zero_advantage=51), enforced 51\n"
            "02:14:11 SUCCESS Step 4 | Time: 8.46s | Reward: 0.9300 | Throughput: 5263.6 tokens/s | "
            "Async Level: 1 | Max. Off-Policy Level: 1\n"
        ),
    )
    assert [step.step for step in found] == [4]
    assert canonical_values("prime-rl", found[0].metrics) == {
        "reward_mean": 0.93,
        "version_lag_max": 1.0,
        "step_time": 8.46,
        "zero_variance_group_frac": 51 / 128,
    }


def test_the_trainers_line_and_an_evaluations_are_read_and_micro_steps_are_not():
    found = console(
        "SUCCESS Step 7 |   1m 5s | Loss 0.0123 | Entropy 0.5 | Mismatch KL 0.0002 | Grad. Norm 1.5 | "
        "LR 2.00e-06 | MFU 40.0%\n"
        "DEBUG Micro Step 1/4 | Loss 0.1 | Entropy 0.2\n"
        "SUCCESS Evaluated gsm8k (Step 8) | Policy v7 | 1.2s | Reward 0.5000 | Turns 1.0 | Truncation 10.0%\n"
    )
    (step,), (evaluation,) = of(Step, found), of(Eval, found)
    assert canonical_values("prime-rl", step.metrics) == {
        "step_time": 65.0,
        "loss": 0.0123,
        "entropy": 0.5,
        "mismatch_kl": 0.0002,
        "grad_norm": 1.5,
        "learning_rate": 2e-6,
    }
    assert (evaluation.suite, evaluation.step, heldout_value(evaluation.metrics)) == ("gsm8k", 8, 0.5)


def test_the_orchestrator_says_how_many_steps_there_are_and_when_it_ends():
    assert of(
        Run, console("INFO Starting orchestrator loop (max_steps=100)\nSUCCESS Orchestrator finished.\n")
    ) == [
        Run(total_steps=100),
        Run(finished=True),
    ]
