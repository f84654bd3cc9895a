"""Stage 1: does the base policy ever succeed?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from runs import group, run_record
from watching import Watched, finding, logged

from grpo_top.flowchart import flow_chart
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from pathlib import Path

RIGHT = {"of": "reward", "at_least": 1.0}


def run_of(successes: dict[int, int], steps: int, size: int = 32, **fields: Any) -> list[dict[str, Any]]:
    """A run of one group of `size` a step, of which `successes` says how many earn 1; the rest earn 0."""
    records = [run_record(success=RIGHT, reward_range=[0, 1])]
    for step in range(1, steps + 1):
        right = successes.get(step, 0)
        records += group(step, "a", [1.0] * right + [0.0] * (size - right), **fields)
    return records


def test_no_success_in_the_first_256_rollouts_fails(tmp_path: Path) -> None:
    snapshot = logged(tmp_path, run_of({}, 12))
    found = finding(snapshot, "BASE_SUCCESS_ZERO")
    assert found is not None
    assert (found.severity, found.episodes, found.onset) == (Status.FAIL, ((8, 12),), 1)
    assert found.summary == "0 of 256 first rollouts succeeded, success is reward at least 1, as declared"
    assert snapshot.tracks["BASE_SUCCESS_ZERO"].status[:7].max() == Status.UNKNOWN


def test_large_steps_are_judged_after_five_of_them(tmp_path: Path) -> None:
    found = finding(logged(tmp_path, run_of({}, 6, size=128)), "BASE_SUCCESS_ZERO")
    assert found is not None
    assert found.first_step == 5
    assert found.evidence["first_rollouts"] == 640


def test_three_successes_in_256_are_enough(tmp_path: Path) -> None:
    assert finding(logged(tmp_path, run_of({1: 1, 4: 1, 8: 1}, 12)), "BASE_SUCCESS_ZERO") is None


def test_it_is_judged_once(tmp_path: Path) -> None:
    assert finding(logged(tmp_path, run_of(dict.fromkeys(range(1, 9), 8), 60)), "BASE_SUCCESS_ZERO") is None


def test_it_clears_once_rollouts_succeed_after_all(tmp_path: Path) -> None:
    found = finding(logged(tmp_path, run_of(dict.fromkeys(range(30, 60), 4), 60)), "BASE_SUCCESS_ZERO")
    assert found is not None
    assert not found.active
    assert 30 <= found.last_step <= 40


def test_a_family_without_success_is_a_warning_while_others_succeed(tmp_path: Path) -> None:
    records = [run_record(success=RIGHT, reward_range=[0, 1])]
    for step in range(1, 15):
        records += group(step, "easy", [1.0] * 8 + [0.0] * 24, family="easy", tier="1")
        records += group(step, "hard", [0.0] * 32, family="hard", tier="2")
    found = finding(logged(tmp_path, records), "BASE_SUCCESS_ZERO")
    assert found is not None
    assert found.severity == Status.WARN
    assert (
        found.summary
        == "family hard and 1 more: 0 of 256 first rollouts succeeded; 12% in the run as a whole"
    )
    assert found.evidence["without_success"] == {"family hard": 256, "tier 2": 256}


def test_a_family_is_not_blamed_where_the_whole_run_has_stopped_succeeding(tmp_path: Path) -> None:
    records = [run_record(success=RIGHT, reward_range=[0, 1])]
    for step in range(1, 40):
        records += group(step, "easy", [float(step < 5)] * 8, family="easy")
        records += group(step, "hard", [0.0] * 8, family="hard")
    assert not getattr(finding(logged(tmp_path, records), "BASE_SUCCESS_ZERO"), "active", False)


def test_graded_rewards_whose_success_is_only_assumed_warn(tmp_path: Path) -> None:
    records = [run_record(reward_range=[0, 1])]
    for step in range(1, 12):
        records += group(step, "a", [0.1, 0.2, 0.3, 0.4] * 8)
    found = finding(logged(tmp_path, records), "BASE_SUCCESS_ZERO")
    assert found is not None
    assert found.severity == Status.WARN
    assert "the upper half of the declared range" in found.summary


@pytest.mark.parametrize(("spread", "status"), [(0.0, Status.FAIL), (0.3, Status.UNKNOWN)])
def test_a_trainers_rewards_that_are_all_zero_are_no_success(spread: float, status: Status) -> None:
    watched = Watched("BASE_SUCCESS_ZERO").rows([{"reward_mean": 0.0, "reward_std": spread}] * 10)
    assert watched.status == status


@pytest.mark.parametrize(
    ("declared", "rewards", "status"),
    [
        ({"success": {"of": "reward", "at_least": 0.3}}, [0.1, 0.2, 0.3, 0.4], Status.OK),
        ({}, [0.0, 1.0, 0.0, 0.0], Status.OK),
        ({}, [0.1, 0.2, 0.3, 0.4], Status.UNKNOWN),
    ],
)
def test_that_graded_rewards_earn_something_is_no_success_where_nothing_says_what_one_is(
    declared: dict[str, object], rewards: list[float], status: Status, tmp_path: Path
) -> None:
    records = [
        run_record(**declared),
        *(row for step in range(1, 12) for row in group(step, "a", rewards * 8)),
    ]
    snapshot = logged(tmp_path, records)
    assert snapshot.tracks["BASE_SUCCESS_ZERO"].status[-1] == status
    answer = flow_chart(snapshot)[1]
    assert ("what a success is, nothing says" in answer.says) == (answer.answer == "?") == (not status)


def test_a_trainers_own_success_rate_is_taken_without_rollouts() -> None:
    assert Watched("BASE_SUCCESS_ZERO").series("success_rate", [0.02] * 10).status == Status.OK
    failing = Watched("BASE_SUCCESS_ZERO").series("success_rate", [0.0] * 10)
    assert failing.fired_at == 8
    assert failing.details.evidence["first_rollouts"] == 256


def test_steps_on_which_something_was_earned_count_beside_those_that_earned_nothing() -> None:
    """With one group a step, many a step of a healthy run earns nothing at all."""
    rows = [{"reward_mean": mean, "reward_std": mean} for mean in (0.0, 0.0, 0.25, 0.0) * 20]
    assert Watched("BASE_SUCCESS_ZERO").rows(rows).fired_at is None
    assert Watched("SPARSE_REWARD").rows(rows).fired_at is None
