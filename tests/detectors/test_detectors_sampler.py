"""Stage 4: the fleet samples as the run record says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from detector_steps import FAIL, OK, UNKNOWN, WARN, WATCH, findings, statuses
from runs import group, read, rollout, run_record, step_record

from grpo_top.demo.recordings import find

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTENDED = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 32}


def recorded(tmp_path: Path, name: str) -> Any:
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(b"\n".join(find(name).lines()) + b"\n")
    return read(path)


def steps(count: int, first: int = 1, **fields: Any) -> Iterator[dict[str, Any]]:
    """Steps of two groups of four with rewards that differ."""
    for step in range(first, first + count):
        for name in ("a", "b"):
            yield from group(step, f"{step}{name}", [0, 1, 0, 1], **fields)


def test_a_deployed_temperature_that_is_not_the_intended_one_fails_at_its_first_step(tmp_path):
    records = [
        run_record(sampling=INTENDED),
        *steps(3, sampling=INTENDED),
        *steps(4, first=4, sampling={**INTENDED, "temperature": 0.15}),
    ]

    drift = findings(tmp_path, records)["SAMPLER_DRIFT"]

    assert (drift.first_step, drift.active) == (4, True)
    assert drift.summary == "temperature 0.15 deployed, 1.0 intended"
    assert drift.evidence["settings"] == [
        {
            "setting": "temperature",
            "intended": 1.0,
            "before": None,
            "deployed": 0.15,
            "deployed_too": [],
            "since": 4,
            "rollouts": 32,
            "of": 32,
            "heldout_rollouts": 0,
            "samplers": [],
        }
    ]
    assert drift.rollouts[0].step == 4
    assert "Go on from a checkpoint before step 4" in drift.try_next


def test_the_drift_clears_when_the_sampler_is_as_intended_again(tmp_path):
    cold = {**INTENDED, "temperature": 0.15}
    records = [
        run_record(sampling=INTENDED),
        *steps(2, sampling=cold),
        *steps(6, first=3, sampling=INTENDED),
    ]

    assert statuses(tmp_path, records, "SAMPLER_DRIFT") == [FAIL] * 6 + [OK] * 2


def test_numbers_that_are_written_otherwise_are_no_drift(tmp_path):
    records = [
        run_record(sampling={"temperature": 1, "top_k": -1, "max_completion_length": 32}),
        *steps(3, sampling={"temperature": 1.0, "top_k": 0, "max_tokens": 32}),
    ]

    assert "SAMPLER_DRIFT" not in findings(tmp_path, records)


def test_one_sampler_of_several_is_named(tmp_path):
    records = [run_record(sampling=INTENDED)]
    for step in range(1, 4):
        records += group(step, f"{step}a", [0, 1, 0, 1], sampling=INTENDED, sampler="gpu1:8000")
        records += group(
            step, f"{step}b", [0, 1, 0, 1], sampling={**INTENDED, "temperature": 0.15}, sampler="gpu3:8000"
        )

    drift = findings(tmp_path, records)["SAMPLER_DRIFT"]

    assert drift.summary == (
        "temperature 0.15 deployed, 1.0 intended, on 12 of 24 rollouts (sampler gpu3:8000)"
    )
    assert drift.evidence["settings"][0]["samplers"] == ["gpu3:8000"]
    assert any("restart sampler gpu3:8000" in step for step in drift.try_next)


def test_a_setting_that_the_run_record_does_not_name_is_compared_with_its_first_value(tmp_path):
    records = [
        run_record(sampling={"temperature": 1.0}),
        *steps(2, sampling={"temperature": 1.0, "repetition_penalty": 1.0}),
        *steps(2, first=3, sampling={"temperature": 1.0, "repetition_penalty": 1.05}),
    ]

    drift = findings(tmp_path, records)["SAMPLER_DRIFT"]

    assert drift.first_step == 3
    assert drift.summary == "repetition_penalty 1.05 deployed, 1.0 before step 3"


def test_without_a_run_record_a_constant_config_is_no_drift(tmp_path):
    assert "SAMPLER_DRIFT" not in findings(tmp_path, steps(4, sampling=INTENDED))


def test_an_evaluation_may_sample_as_it_likes(tmp_path):
    records = [run_record(sampling=INTENDED), *steps(3, sampling=INTENDED)]
    records += [
        rollout(2, "held", index, 1.0, split="eval", completion="x", sampling={**INTENDED, "temperature": 0})
        for index in range(4)
    ]

    assert "SAMPLER_DRIFT" not in findings(tmp_path, records)


def test_budgets_of_single_requests_are_no_drift(tmp_path):
    records = [run_record(sampling=INTENDED)]
    for step in range(1, 4):
        for index, budget in enumerate((32, 20, 11, 25)):
            fields = {"completion": f"{index}", "sampling": {**INTENDED, "max_tokens": budget}}
            records.append(rollout(step, f"{step}", index, float(index % 2), **fields))

    assert "SAMPLER_DRIFT" not in findings(tmp_path, records)


def cut(step: int, lengths: tuple[int, ...], end: int) -> list[dict[str, Any]]:
    return [
        rollout(
            step,
            f"{step}",
            index,
            float(index % 2),
            completion=f"{step} {index}",
            completion_tokens=length,
            finish_reason="length" if length == end else "stop",
        )
        for index, length in enumerate(lengths)
    ]


def test_completions_that_are_all_cut_at_one_length_below_the_budget_fail_without_a_recorded_config(tmp_path):
    records = [run_record(sampling={"max_tokens": 32})]
    for step in range(1, 6):
        records += cut(step, (10, 10, 10, 7, 10, 10, 9, 10), end=10)

    drift = findings(tmp_path, records)["SAMPLER_DRIFT"]

    assert drift.first_step == 3
    assert drift.summary == "30 completions are truncated at 10 tokens and none is longer, 32 intended"
    assert drift.evidence["inferred_from"] == "the length of cut completions"


@pytest.mark.parametrize(
    ("lengths", "end"), [((32, 32, 32, 7, 32, 32, 9, 32), 32), ((10, 10, 10, 7, 10, 10, 14, 10), 10)]
)
def test_completions_cut_at_the_budget_or_beside_longer_ones_are_no_drift(tmp_path, lengths, end):
    records = [run_record(sampling={"max_tokens": 32})]
    for step in range(1, 8):
        records += cut(step, lengths, end)

    assert "SAMPLER_DRIFT" not in findings(tmp_path, records)


def copies(step: int, same: bool, spread: int = 0) -> list[dict[str, Any]]:
    """Two groups of eight whose texts are all different or all the same."""
    return [
        rollout(
            step,
            f"{step}{name}",
            index,
            float(index % 2),
            completion=f"{step} {name}" if same else f"{step} {name} {index}",
            completion_tokens=40 + spread * index,
        )
        for name in "ab"
        for index in range(8)
    ]


def test_without_a_recorded_config_nothing_is_said_of_the_sampler(tmp_path):
    records = [
        run_record(sampling=INTENDED),
        *(record for step in range(1, 9) for record in copies(step, False, 4)),
    ]

    assert set(statuses(tmp_path, records, "SAMPLER_DRIFT")) == {UNKNOWN}


def test_copies_that_the_entropy_of_the_policy_rules_out_are_a_warning(tmp_path):
    records = [run_record(sampling={"temperature": 1.0})]
    for step in range(1, 9):
        records += [*copies(step, step > 6, 4), step_record(step, entropy=0.5)]

    found = statuses(tmp_path, records, "SAMPLER_DRIFT")

    assert found == [UNKNOWN] * 6 + [WARN] * 2
    drift = findings(tmp_path, records)["SAMPLER_DRIFT"]
    assert drift.summary == "every group is one text since step 7, and no sampling config is logged"
    assert drift.evidence["choice_nats"] == pytest.approx(0.5 * 54)


def test_copies_of_a_policy_without_entropy_are_not_the_samplers(tmp_path):
    records = [run_record(sampling={"temperature": 1.0})]
    for step in range(1, 9):
        records += [*copies(step, step > 6, 4), step_record(step, entropy=0.01)]

    assert set(statuses(tmp_path, records, "SAMPLER_DRIFT")) == {UNKNOWN}


def test_a_jump_of_duplicates_with_lengths_that_draw_together_is_a_watch_and_no_more(tmp_path):
    records: list[dict[str, Any]] = []
    for step in range(1, 9):
        records += copies(step, step > 6, 0 if step > 6 else 4)

    assert statuses(tmp_path, records, "SAMPLER_DRIFT") == [UNKNOWN] * 6 + [WATCH] * 2


def test_the_recorded_cold_sampler_is_found_where_it_began_with_what_followed(tmp_path):
    found = {finding.id: finding for finding in recorded(tmp_path, "sampler_cold").findings}

    drift, diversity = found["SAMPLER_DRIFT"], found["LOW_DIVERSITY"]

    assert (drift.first_step, drift.severity, drift.active) == (51, FAIL, True)
    assert drift.evidence["settings"][0]["rollouts"] == drift.evidence["settings"][0]["of"] == 2240
    assert drift.evidence["settings"][0]["heldout_rollouts"] > 0
    before, now = drift.evidence["before"], drift.evidence["now"]
    assert before["steps"] == [31, 50]
    assert before["duplicate_frac"] == pytest.approx(0.41, abs=0.01)
    assert now["duplicate_frac"] > 0.85
    assert before["group_reward_std_mean"] == pytest.approx(0.288, abs=0.001)
    assert diversity.first_step == 69
    json.dumps([drift.evidence, diversity.evidence])


def test_a_recorded_healthy_run_is_silent(tmp_path):
    found = {finding.id for finding in recorded(tmp_path, "healthy").findings if finding.stage >= 4}

    assert found <= {"PARSE_FAILURES"}
