"""What an inference engine logged of its requests, alone and beside a trainer's own log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runs import group, read, run_record, step_record, unpack_sample, values, write_log

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.records import Rollout
from grpo_top.snapshot import Gone, Status

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Finding, Snapshot

STEPS = range(1, 13)
COLD = 7
"""The first step that is sampled at another temperature than the run record says."""


def request(version: int, prompt: str, temperature: float) -> dict[str, Any]:
    """A line of SGLang's request metrics."""
    asked = {"text": prompt, "sampling_params": {"temperature": temperature, "max_new_tokens": 32}}
    return {
        "request_parameters": json.dumps(asked),
        "finish_reason": {"type": "stop"},
        "completion_tokens": 10,
        "weight_version": str(version),
    }


def requests_of(step: int, temperature: float | None = None, count: int = 8) -> list[dict[str, Any]]:
    """The requests that sampled a step, of two prompts."""
    if temperature is None:
        temperature = 0.15 if step >= COLD else 1.0
    return [request(step - 1, f"{step} {place % 2}", temperature) for place in range(count)]


def trainer_log(directory: Path, *more: dict[str, Any]) -> Path:
    """A trainer's log whose rollouts do not say how they were sampled."""
    rollouts = [
        record
        for step in STEPS
        for name in ("a", "b")
        for record in group(step, f"{step} {name}", (0.0, 1.0, 0.0, 1.0), completion_tokens=20)
    ]
    return write_log(directory / "log.jsonl", [run_record(sampling={"temperature": 1.0}), *rollouts, *more])


def drift(snapshot: Snapshot) -> Finding | None:
    return next((finding for finding in snapshot.findings if finding.id == "SAMPLER_DRIFT"), None)


def test_beside_rollouts_that_do_not_say_it_requests_show_how_the_fleet_samples(tmp_path: Path) -> None:
    trainer_log(tmp_path)
    write_log(tmp_path / "requests.log", [row for step in STEPS for row in requests_of(step)])
    finding = drift(read(tmp_path))
    assert finding is not None
    assert (finding.severity, finding.onset) == (Status.FAIL, COLD)
    assert finding.summary == "temperature 0.15 deployed, 1.0 intended"


def test_beside_rollouts_requests_are_not_counted_among_them(tmp_path: Path) -> None:
    trainer_log(tmp_path / "alone")
    trainer_log(tmp_path / "both")
    write_log(tmp_path / "both" / "requests.log", [row for step in STEPS for row in requests_of(step, 1.0)])
    alone, both = read(tmp_path / "alone"), read(tmp_path / "both")
    assert (both.run.rollouts, both.run.groups) == (alone.run.rollouts, alone.run.groups)
    for name in alone.series:
        assert values(both, name) == values(alone, name)
    assert drift(both) is None


def test_where_the_run_evaluates_a_few_requests_may_sample_otherwise(tmp_path: Path) -> None:
    evaluations = [{"kind": "eval", "step": step, "metrics": {"reward": 0.5}} for step in STEPS]
    trainer_log(tmp_path, *evaluations)
    greedy = [row for step in STEPS for row in requests_of(step, 0.0, count=3)]
    write_log(
        tmp_path / "requests.log", greedy + [row for step in STEPS for row in requests_of(step, 1.0, count=8)]
    )
    assert drift(read(tmp_path)) is None


def test_where_the_run_does_not_evaluate_a_few_requests_are_a_sampler_that_differs(tmp_path: Path) -> None:
    trainer_log(tmp_path)
    rows = [row for step in STEPS for row in (*requests_of(step, 0.0, count=1), *requests_of(step, 1.0))]
    write_log(tmp_path / "requests.log", rows)
    finding = drift(read(tmp_path))
    assert finding is not None
    assert "on 12 of 108 rollouts" in finding.summary


def test_rollouts_that_say_how_they_were_sampled_need_no_request_log(tmp_path: Path) -> None:
    rollouts = [
        record
        for step in STEPS
        for record in group(step, str(step), (0.0, 1.0), sampling={"temperature": 1.0})
    ]
    write_log(tmp_path / "log.jsonl", [run_record(sampling={"temperature": 1.0}), *rollouts])
    write_log(tmp_path / "requests.log", [row for step in STEPS for row in requests_of(step)])
    assert drift(read(tmp_path)) is None


def test_beside_a_trainer_that_logs_no_rollouts_requests_are_the_steps_batch(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *(step_record(step, reward=0.5) for step in STEPS)])
    write_log(tmp_path / "requests.log", [row for step in STEPS for row in requests_of(step)])
    snapshot = read(tmp_path)
    assert values(snapshot, "completion_tokens_mean") == dict.fromkeys(STEPS, 10.0)
    assert values(snapshot, "truncation_rate") == dict.fromkeys(STEPS, 0.0)
    assert values(snapshot, "reward_mean") == dict.fromkeys(STEPS, 0.5)


def test_requests_after_the_trainers_last_step_make_no_step_of_their_own(tmp_path: Path) -> None:
    trainer_log(tmp_path)
    write_log(tmp_path / "requests.log", [row for step in range(1, 16) for row in requests_of(step, 1.0)])
    snapshot = read(tmp_path)
    assert (snapshot.run.last_step, snapshot.run.steps) == (12, 12)


def test_requests_that_come_before_the_trainers_rows_are_there_when_these_come(tmp_path: Path) -> None:
    log, requests = tmp_path / "log.jsonl", tmp_path / "requests.log"
    monitor = Monitor([str(tmp_path)], Settings())
    rows = [run_record(sampling={"temperature": 1.0})]
    for step in STEPS:
        write_log(requests, [row for before in range(1, step + 1) for row in requests_of(before)])
        while monitor.poll():
            pass
        rows.append(step_record(step, reward=0.5))
        write_log(log, rows)
        while monitor.poll():
            pass
    monitor.read_all()
    found, whole = monitor.snapshot(finished=True), read(tmp_path)
    assert found.run.steps == whole.run.steps == 12
    assert values(found, "rollouts") == values(whole, "rollouts") == dict.fromkeys(STEPS, 8.0)
    assert [finding.onset for finding in found.findings if finding.id == "SAMPLER_DRIFT"] == [COLD]


def test_request_logs_alone_show_the_sampling_and_when_it_changed(tmp_path: Path) -> None:
    snapshot = read(unpack_sample("sglang-sampler_cold", tmp_path))
    assert (snapshot.run.first_step, snapshot.run.last_step, snapshot.run.rollouts) == (45, 54, 160)
    finding = drift(snapshot)
    assert finding is not None
    assert (finding.onset, finding.summary) == (51, "temperature 0.15 deployed, 1.0 before step 51")


def test_a_request_is_read_again_with_its_prompt(tmp_path: Path) -> None:
    snapshot = read(unpack_sample("sglang-sampler_cold", tmp_path))
    found = snapshot.read(0)
    assert isinstance(found, Rollout)
    assert found.prompt == "token ids 1 72 75 63 69 73 81 2 3"


def test_weights_that_no_longer_change_pile_requests_on_one_step(tmp_path: Path) -> None:
    """The log knows no steps: only beside a trainer's can it be seen that the steps go on."""
    rows = [row for step in STEPS for row in requests_of(min(step, 5), 1.0)]
    write_log(tmp_path / "requests.log", rows)
    snapshot = read(tmp_path)
    assert values(snapshot, "policy_version") == {step: step - 1.0 for step in range(1, 6)}
    assert values(snapshot, "rollouts")[5] == 8 * 8


def test_looks_that_know_no_weights_are_requests_of_the_newest_step(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(sampling={"temperature": 1.0}), step_record(7, reward=0.5)])
    (tmp_path / "vllm.log").write_text(
        "INFO Received request a: params: SamplingParams(temperature=0.6, top_p=1.0), lora_request: None.\n"
    )
    snapshot = read(tmp_path)
    assert (snapshot.run.first_step, snapshot.run.last_step) == (7, 7)
    finding = drift(snapshot)
    assert finding is not None
    assert "temperature 0.6 deployed, 1.0 intended" in finding.summary


def test_a_look_has_no_text_to_read(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_text(
        "INFO Received request a: params: SamplingParams(temperature=0.6, top_p=1.0), lora_request: None.\n"
    )
    assert read(tmp_path).read(0) == Gone("vllm.log: only its settings were logged")
