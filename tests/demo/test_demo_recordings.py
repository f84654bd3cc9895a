"""The recordings that ship with the package are the runs that they say they are."""

from __future__ import annotations

import json

import pytest

from grpo_top.demo.recordings import RECORDINGS, find


def records(name: str, kind: str) -> list[dict]:
    return [record for line in find(name).lines() if (record := json.loads(line))["kind"] == kind]


def first_step_where(name: str, holds) -> int | None:
    return next((rollout["step"] for rollout in records(name, "rollout") if holds(rollout)), None)


def lags_more_than_two(rollout: dict) -> bool:
    return rollout["trainer_version"] - rollout["policy_version"] > 2


def is_sampled_cold(rollout: dict) -> bool:
    return rollout["sampling"]["temperature"] != 1.0


def is_right_and_scored_zero(rollout: dict) -> bool:
    prompt, answer = rollout["prompt"], rollout["verifier"]["raw"]
    right = sum(int(number) for number in prompt.rstrip("=").split("+"))
    return answer == str(right) and rollout["reward"] == 0


def truncated_share(name: str) -> float:
    rollouts = records(name, "rollout")
    return sum(rollout["finish_reason"] == "length" for rollout in rollouts) / len(rollouts)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_every_recording_is_a_whole_run_of_120_steps(recording):
    kinds = [json.loads(line)["kind"] for line in recording.lines()]
    steps = {rollout["step"] for rollout in records(recording.name, "rollout") if rollout["split"] == "train"}

    assert kinds[0] == "run"
    assert kinds.count("run") == 1
    assert steps == set(range(1, 121))
    assert kinds.count("eval") == 6


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("sampler_cold", is_sampled_cold),
        ("verifier_broken", is_right_and_scored_zero),
        ("stale_weights", lags_more_than_two),
    ],
)
def test_the_fault_is_there_from_its_onset_and_not_in_the_healthy_run(name, fault):
    assert first_step_where(name, fault) == find(name).onset
    assert first_step_where("healthy", fault) is None


def test_the_small_budget_cuts_nearly_every_completion():
    assert truncated_share("truncation") > 0.9
    assert truncated_share("healthy") < 0.05


def test_only_the_healthy_run_has_no_onset():
    assert [recording.name for recording in RECORDINGS if recording.onset is None] == ["healthy"]


def test_names_are_unique_and_found():
    assert [find(recording.name) for recording in RECORDINGS] == list(RECORDINGS)
    assert len({recording.name for recording in RECORDINGS}) == len(RECORDINGS)


def test_an_unknown_name_is_answered_with_the_nearest_and_all():
    with pytest.raises(ValueError, match="did you mean sampler_cold") as error:
        find("sampler-cold")
    assert all(recording.name in str(error.value) for recording in RECORDINGS)


def test_a_name_that_is_near_to_none_is_answered_with_all():
    with pytest.raises(ValueError, match="the recordings are healthy, ") as error:
        find("zzz")
    assert "did you mean" not in str(error.value)
