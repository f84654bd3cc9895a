"""Stage 0: can the log be trusted?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from runs import group, rollout, run_record, step_record
from watching import Watched, finding, logged

from grpo_top.facts import RewardScale, RunChange, RunState, StepFacts
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from pathlib import Path


def with_holes(holes: dict[int, set[str]], steps: int) -> Watched:
    """NONFINITE_METRIC after rows of loss and kl that are not finite where `holes` says so."""
    watched = Watched("NONFINITE_METRIC")
    for step in range(1, steps + 1):
        odd = holes.get(step, set())
        known = {name: 0.1 for name in ("loss", "kl") if name not in odd}
        watched.look(StepFacts(step, RunState(), RewardScale(), known, nonfinite=tuple(sorted(odd))))
    return watched


def test_one_value_that_is_not_finite_is_only_watched() -> None:
    watched = with_holes({5: {"kl"}}, 30)
    assert watched.statuses[4] == Status.WATCH
    assert set(watched.statuses[5:]) == {Status.OK}


def test_two_rows_running_that_are_not_finite_fail_and_the_first_metric_is_named_first() -> None:
    watched = with_holes({5: {"kl"}, 6: {"kl", "loss"}, 7: {"kl", "loss"}}, 7)
    assert watched.fired_at == 6
    assert watched.verdicts[-1].onset == 5
    assert watched.details.summary == "kl and loss are not finite since step 5, 3 rows running"
    assert watched.details.evidence["kl"] == {
        "first_step": 5,
        "rows_running": 3,
        "rows_of_last_20": 3,
        "last_finite": 0.1,
    }


def test_two_metrics_that_break_on_one_row_each_are_not_running() -> None:
    assert with_holes({5: {"kl"}, 6: {"loss"}}, 7).fired_at is None


def test_every_fifth_row_that_is_not_finite_is_a_fifth_of_the_window() -> None:
    watched = with_holes({step: {"loss"} for step in range(5, 41, 5)}, 40)
    assert watched.fired_at == 20
    assert "again and again" in watched.details.summary


def test_a_metric_that_is_not_logged_is_unknown_and_no_fault() -> None:
    assert Watched("NONFINITE_METRIC").rows([{"tokens": 5.0}] * 30).status == Status.UNKNOWN


def test_a_reward_that_is_not_finite_points_at_its_rollouts(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [run_record()]
    for step in range(1, 5):
        records += group(step, "a", [1.0, 0.0, math.nan, 1.0] if step > 2 else [1.0, 0.0, 1.0, 0.0])
    found = finding(logged(tmp_path, records), "NONFINITE_METRIC")
    assert found is not None
    assert found.severity == Status.FAIL
    assert [(ref.step, ref.index) for ref in found.rollouts] == [(4, 2)]


def test_lines_that_cannot_be_read_are_counted() -> None:
    watched = Watched("UNREADABLE_LINES")
    for step, count in enumerate((0, 2, 0, 3), 1):
        watched.look(StepFacts(step, RunState(), RewardScale(), {}, unreadable=count))
    assert watched.statuses == [Status.OK, Status.INFO, Status.OK, Status.INFO]
    assert watched.details.summary == "3 records could not be read before step 4, 5 in all since step 2"


def test_where_most_records_cannot_be_read_the_log_is_not_to_be_trusted() -> None:
    watched = Watched("UNREADABLE_LINES")
    for step, count in enumerate((9, 64, 0), 1):
        watched.look(StepFacts(step, RunState(), RewardScale(), {}, unreadable=count))
    assert watched.statuses == [Status.INFO, Status.WARN, Status.OK]


def test_a_restart_says_from_where_to_where() -> None:
    watched = Watched("STEP_RESTART")
    watched.look(StepFacts(203, RunState(), RewardScale(), {}, restarted_from=249))
    assert watched.status == Status.INFO
    assert watched.details.summary == "the log went back from step 249 to step 203"
    watched.look(StepFacts(204, RunState(), RewardScale(), {}))
    assert watched.status == Status.OK


def test_silence_is_measured_against_the_usual_step() -> None:
    watched = Watched("LOG_STALLED").series("step_time", [30.0] * 20)
    assert watched.status == Status.OK
    quiet, stalled = watched.detector.idle(149, False), watched.detector.idle(151, False)
    assert quiet is not None
    assert quiet.status == Status.OK
    assert stalled is not None
    assert (stalled.status, stalled.value, stalled.threshold, stalled.onset) == (Status.WARN, 151, 150, 20)
    assert watched.details.summary == "no new record for 3 m, a step takes 30 s; last step 20"


def test_a_fast_run_is_given_a_minute() -> None:
    watched = Watched("LOG_STALLED").series("step_time", [0.08] * 20)
    verdicts = [watched.detector.idle(seconds, False) for seconds in (1, 30, 59, 61)]
    assert [verdict.status for verdict in verdicts if verdict] == [
        Status.OK,
        Status.OK,
        Status.OK,
        Status.WARN,
    ]


def test_a_run_that_is_finished_never_stalls() -> None:
    watched = Watched("LOG_STALLED").series("step_time", [0.08] * 20)
    assert watched.detector.idle(1e6, True) is None


def test_without_step_times_the_longest_pause_within_a_step_stands_for_them() -> None:
    watched = Watched("LOG_STALLED")
    for _ in range(10):
        watched.series("reward_mean", [0.5])
        assert watched.detector.idle(100, False) is None or watched.step > 1
    verdict = watched.detector.idle(400, False)
    assert verdict is not None
    assert verdict.status == Status.OK
    late = watched.detector.idle(501, False)
    assert late is not None
    assert late.status == Status.WARN


def test_a_log_that_was_only_read_tells_nothing_of_silence() -> None:
    watched = Watched("LOG_STALLED").series("reward_mean", [0.5] * 20)
    assert watched.detector.idle(1e5, False) is None


def test_steps_that_take_longer_and_longer_are_remarked_upon() -> None:
    watched = Watched("STEP_TIME_ROT").series(
        "step_time", [10.0] * 30 + [10 + step / 5 for step in range(60)]
    )
    assert watched.status == Status.INFO
    assert watched.details.summary == "a step takes 20 s, 10 s early in the run"


def test_a_step_time_that_rose_once_and_stays_is_no_rot() -> None:
    watched = Watched("STEP_TIME_ROT").series("step_time", [10.0] * 30 + [20.0] * 100)
    assert watched.status == Status.OK


def test_a_first_step_that_compiles_is_no_part_of_the_baseline() -> None:
    watched = Watched("STEP_TIME_ROT").series("step_time", [500.0, 300.0] + [10.0] * 28)
    assert watched.verdicts[-1].value == pytest.approx(1.0)


def test_a_change_of_the_run_record_stands_as_long_as_windows_mix_before_and_after() -> None:
    watched = Watched("RUN_RECORD_CHANGED")
    for step in range(1, 60):
        changes = (RunChange("reward_version", "r1", "r2"),) if step == 30 else ()
        watched.look(StepFacts(step, RunState(), RewardScale(), {}, changes=changes))
    assert watched.fired_at == 30
    assert watched.statuses[30:49] == [Status.WARN] * 19
    assert watched.statuses[49] == Status.OK


def test_rollouts_that_carry_a_new_version_are_a_change_too(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [run_record()]
    for step in range(1, 30):
        records += group(step, "a", [1.0, 0.0], env_version="e1", reward_version="r1" if step < 20 else "r2")
    found = finding(logged(tmp_path, records), "RUN_RECORD_CHANGED")
    assert found is not None
    assert found.onset == 20
    assert found.summary == "reward_version r1 → r2 at step 20"


def test_a_version_that_appears_late_is_no_change(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [run_record()]
    for step in range(1, 30):
        records += group(step, "a", [1.0, 0.0], **({"env_version": "e1"} if step > 9 else {}))
    assert finding(logged(tmp_path, records), "RUN_RECORD_CHANGED") is None


def whole_groups(steps: int, size: int = 4, **fields: Any) -> list[dict[str, Any]]:
    return [
        record
        for step in range(1, steps + 1)
        for name in "abcd"
        for record in group(
            step,
            name,
            [1.0, 0.0] * (size // 2),
            prompt=f"prompt {name} of {step}",
            task=f"task {name} {step}",
            **fields,
        )
    ]


def test_whole_groups_are_as_they_should_be(tmp_path: Path) -> None:
    snapshot = logged(tmp_path, [run_record(group_size=4), *whole_groups(10)])
    assert finding(snapshot, "GROUP_INTEGRITY") is None
    assert snapshot.tracks["GROUP_INTEGRITY"].status[-1] == Status.OK


def test_a_prompt_that_is_asked_in_two_whole_groups_is_no_fault(tmp_path: Path) -> None:
    records = [run_record(group_size=4)]
    for step in range(1, 6):
        for name in "ab":
            records += group(step, name, [1.0, 0.0, 1.0, 0.0], task="the same")
    assert finding(logged(tmp_path, records), "GROUP_INTEGRITY") is None


@pytest.mark.parametrize("declared", [4, None])
def test_a_group_id_for_each_sample_scatters_a_prompt(tmp_path: Path, declared: int | None) -> None:
    records = [run_record(group_size=declared)]
    records += [rollout(1, f"u{number}", 0, number % 2, task=f"task {number // 4}") for number in range(16)]
    found = finding(logged(tmp_path, records), "GROUP_INTEGRITY")
    assert found is not None
    assert found.summary == "16 of 16 groups are pieces of one prompt that has several group ids in its step"
    assert found.evidence["fault"] == "scattered"
    assert len(found.rollouts) == 16


def test_different_prompts_under_one_group_id_are_mixed(tmp_path: Path) -> None:
    records = [run_record(group_size=4)]
    for step in range(1, 6):
        for name in "ab":
            records += [
                rollout(step, name, index, index % 2, task=f"{step} {index // 2}") for index in range(4)
            ]
    found = finding(logged(tmp_path, records), "GROUP_INTEGRITY")
    assert found is not None
    assert found.evidence["fault"] == "mixed"


def test_group_sizes_other_than_the_declared_one_are_odd(tmp_path: Path) -> None:
    found = finding(logged(tmp_path, [run_record(group_size=8), *whole_groups(6)]), "GROUP_INTEGRITY")
    assert found is not None
    assert found.summary == "24 of 24 groups do not hold the 8 rollouts that were declared"
    assert found.evidence["sizes"] == {"4": 4}


def test_sizes_are_not_judged_where_the_size_was_not_declared(tmp_path: Path) -> None:
    assert finding(logged(tmp_path, [run_record(), *whole_groups(6)]), "GROUP_INTEGRITY") is None


def test_a_trainers_log_alone_says_nothing_of_groups(tmp_path: Path) -> None:
    snapshot = logged(
        tmp_path, [run_record(group_size=4), *(step_record(step, reward=0.5) for step in range(1, 9))]
    )
    assert dict(snapshot.unknown)["GROUP_INTEGRITY"] == ("rollouts",)
