"""Held-out evaluations: one number a suite and step, counted once however many sources tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runs import group, read, rollout, run_record, step_record, values, write_log

if TYPE_CHECKING:
    from pathlib import Path


def heldout(step: int, reward: float) -> dict[str, Any]:
    return rollout(step, f"e{step}", 0, reward, split="eval", prompt="held out")


def steps(count: int) -> list[dict[str, Any]]:
    return [
        record
        for step in range(1, count + 1)
        for record in (*group(step, f"g{step}", (0, 1)), step_record(step, kl=0.1))
    ]


def test_the_trainers_number_stands_at_the_trainers_step(tmp_path: Path) -> None:
    log = write_log(
        tmp_path / "log.jsonl",
        [run_record(), *steps(5), {"kind": "eval", "step": 4, "metrics": {"eval_reward": 0.75}}],
    )
    snapshot = read(log)
    assert values(snapshot, "heldout") == {4: 0.75}
    assert snapshot.run.evals == 1


def test_an_evaluation_told_by_the_trainer_and_by_its_rollouts_counts_once(tmp_path: Path) -> None:
    records = [
        run_record(),
        *steps(5),
        {"kind": "eval", "step": 4, "metrics": {"reward": 0.75}},
        heldout(5, 0.5),
    ]
    snapshot = read(write_log(tmp_path / "log.jsonl", records))
    assert values(snapshot, "heldout") == {4: 0.75}


def test_without_the_trainers_number_the_held_out_rollouts_give_it(tmp_path: Path) -> None:
    snapshot = read(
        write_log(tmp_path / "log.jsonl", [run_record(), *steps(5), heldout(3, 0.5), heldout(3, 0.5)])
    )
    assert values(snapshot, "heldout") == {3: 0.5}
    assert snapshot.series["heldout"].origin == "rollouts"


def test_held_out_rollouts_are_no_part_of_the_training_step(tmp_path: Path) -> None:
    snapshot = read(write_log(tmp_path / "log.jsonl", [run_record(), *steps(3), heldout(2, 99.0)]))
    assert values(snapshot, "reward_mean")[2] == 0.5
    assert snapshot.run.rollouts == 6


def test_an_evaluation_after_the_last_step_is_no_training_step(tmp_path: Path) -> None:
    snapshot = read(write_log(tmp_path / "log.jsonl", [run_record(), *steps(3), heldout(4, 0.5)]))
    assert snapshot.run.last_step == 3
    assert snapshot.run.evals == 1


def test_suites_are_series_of_their_own(tmp_path: Path) -> None:
    evaluation = {"kind": "eval", "step": 2, "suite": "gsm8k", "metrics": {"accuracy": 0.5}}
    snapshot = read(write_log(tmp_path / "log.jsonl", [run_record(), *steps(3), evaluation]))
    assert values(snapshot, "heldout{gsm8k}") == {2: 0.5}
