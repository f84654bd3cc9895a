"""Stage 7: sampler and trainer hold the same policy, and agree on what it says."""

from __future__ import annotations

from typing import Any

import pytest
from detector_steps import FAIL, INFO, OK, UNKNOWN, WARN, WATCH, Watched, findings
from runs import read, rollout, run_record

from grpo_top.demo.recordings import find
from grpo_top.detectors.mismatch import LogprobMismatch
from grpo_top.detectors.staleness import MixedVersions, StaleRollouts, WeightSyncStuck
from grpo_top.facts import RunState

DECLARED = RunState(version_lag_tolerance=2)

# ---- STALE_ROLLOUTS


def test_a_lag_above_the_declared_tolerance_fails_on_the_third_step():
    watched = Watched(StaleRollouts, run=DECLARED)

    found = watched.show_all(version_lag_max=[0, 1, 2, 3, 4, 5, 1])

    assert found == [OK, OK, OK, WATCH, WATCH, FAIL, OK]
    assert watched.verdicts[5].onset == 4
    assert watched.summary == "lag 5, tolerance 2 (declared)"


def test_a_lag_above_a_tolerance_that_nobody_chose_is_a_warning():
    watched = Watched(StaleRollouts)

    assert watched.show_all(version_lag_mean=[2.6] * 3)[-1] == WARN
    assert watched.summary == "lag 2.6, tolerance 2 (the default)"


def test_a_run_that_tolerates_more_is_left_alone():
    watched = Watched(StaleRollouts, run=RunState(version_lag_tolerance=8))

    assert set(watched.show_all(version_lag_max=[6] * 10)) == {OK}


def test_stale_samples_that_are_dropped_on_a_fifth_of_the_steps_warn():
    often, once = Watched(StaleRollouts), Watched(StaleRollouts)
    often.show_all(stale_dropped=[0, 0, 0, 0, 8] * 4)
    once.show_all(stale_dropped=[8, *[0] * 20])

    assert often.fired
    assert often.summary == "stale rollouts dropped on 4 of 20 steps"
    assert not once.fired


def test_a_negative_lag_is_a_remark_about_the_log():
    watched = Watched(StaleRollouts, run=DECLARED)

    assert watched.show_all(version_lag_max=[-1] * 3, version_lag_min=[-1] * 3)[-1] == INFO
    assert watched.summary == "lag below 0: the log counts versions of sampler and trainer differently"


def test_the_recorded_run_with_old_weights_is_found(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n".join(find("stale_weights").lines()) + b"\n")
    found = {finding.id: finding for finding in read(path).findings}

    stale, stuck = found["STALE_ROLLOUTS"], found["WEIGHT_SYNC_STUCK"]

    assert (stale.first_step, stale.onset, stale.active) == (55, 53, True)
    assert [episode[0] for episode in stuck.episodes] == [55, 95]
    assert stuck.summary.startswith("rollouts stay at policy version 89")


# ---- MIXED_VERSIONS


def spanning(step: int, spans: list[int], end: int = 20) -> list[dict[str, Any]]:
    return [
        rollout(
            step, f"{step}", index, float(index % 2), completion=f"{index}", policy_version=[end - span, end]
        )
        for index, span in enumerate(spans)
    ]


@pytest.mark.parametrize(("span", "severity"), [(1, INFO), (4, WARN)])
def test_rollouts_that_span_versions_are_a_remark_and_beyond_the_tolerance_a_warning(
    tmp_path, span, severity
):
    records = [run_record(version_lag_tolerance=2)]
    for step in range(1, 6):
        records += spanning(step, [span, span, *[0] * 14])

    found = findings(tmp_path, records)["MIXED_VERSIONS"]

    assert found.severity == severity
    assert found.evidence["widest_span"] == span
    assert {ref.index for ref in found.rollouts} == {0, 1}


def test_one_step_of_them_is_enough_where_chance_cannot_explain_it(tmp_path):
    found = findings(tmp_path, spanning(6, [4] * 4 + [0] * 12))["MIXED_VERSIONS"]

    assert found.summary == (
        "25% of rollouts span two policy versions or more, 25% more than the 2 that are tolerated"
    )


def test_a_trainers_own_share_is_a_remark():
    assert Watched(MixedVersions).show_all(mixed_version_frac=[0.2] * 5)[-1] == INFO


# ---- WEIGHT_SYNC_STUCK


def test_a_policy_version_that_stands_while_the_trainer_goes_on_fails():
    watched = Watched(WeightSyncStuck, run=DECLARED)

    found = watched.show_all(trainer_version=range(12), policy_version=[0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 10, 11])

    assert found == [OK] * 8 + [FAIL] * 2 + [OK] * 2
    assert watched.verdicts[8].onset == 5
    assert watched.summary == "rollouts stay at policy version 3 while the trainer made 6 more"


def test_a_trainer_that_goes_back_begins_the_count_again():
    watched = Watched(WeightSyncStuck, run=DECLARED)
    watched.show_all(trainer_version=[6, 7, 8, 9, 4, 5, 6, 7], policy_version=[6, 6, 6, 6, 4, 4, 4, 4])

    assert not watched.fired


def test_without_the_trainers_version_it_cannot_judge():
    watched = Watched(WeightSyncStuck)

    assert set(watched.show_all(policy_version=[3] * 20)) == {UNKNOWN}


# ---- LOGPROB_MISMATCH


@pytest.mark.parametrize(
    ("series", "value", "status"),
    [
        ("mismatch_kl", 0.02, WARN),
        ("mismatch_kl", 0.2, FAIL),
        ("logp_abs_diff", 0.06, WARN),
        ("logp_abs_diff", 0.9, FAIL),
        ("is_ratio_mean", 0.6, WARN),
        ("is_ratio_mean", 1.4, WARN),
        ("is_ratio_mean", 0.02, FAIL),
        ("effective_sample_size", 0.2, WARN),
        ("mismatch_kl", 0.001, OK),
        ("logp_abs_diff", 0.012, OK),
        ("is_ratio_mean", 0.987, OK),
        ("effective_sample_size", 0.93, OK),
    ],
)
def test_each_measure_has_its_limit_and_fails_at_ten_times_it(series, value, status):
    watched = Watched(LogprobMismatch)

    found = watched.show_all(**{series: [value] * 3})

    assert found == ([OK] * 3 if status == OK else [WATCH, WATCH, status])


def test_a_ratio_that_length_alone_explains_is_not_blamed_on_weights():
    watched = Watched(LogprobMismatch)
    watched.show_all(logp_abs_diff=[0.0135] * 3, is_ratio_mean=[0.49] * 3, completion_tokens_mean=[631.0] * 3)

    assert watched.verdicts[-1].status == WARN
    assert watched.summary == (
        "mean importance ratio 0.490, limit 0.800; that is the effect of length: 0.0135 a token adds up to "
        "8.52 nats over 631 tokens"
    )
    assert watched.details is not None
    assert watched.details.try_next is not None
    assert not any("staleness" in step for step in watched.details.try_next)


def test_arrays_of_different_lengths_fail_at_once(tmp_path):
    records = [
        rollout(
            1,
            "1",
            index,
            float(index % 2),
            completion=f"{index}",
            logprobs={"sampler": [-0.1, -0.2, -0.3], "trainer": [-0.1, -0.2]},
        )
        for index in range(4)
    ]

    found = findings(tmp_path, records)["LOGPROB_MISMATCH"]

    assert found.severity == FAIL
    assert found.summary == "100% of rollouts have log-probability arrays of different lengths"
    assert len(found.rollouts) == 4


def test_logged_arrays_that_agree_are_fine(tmp_path):
    records = [
        rollout(
            step,
            f"{step}",
            index,
            float(index % 2),
            completion=f"{index}",
            logprobs={"sampler": [-0.1, -0.2], "trainer": [-0.101, -0.199]},
        )
        for step in range(1, 5)
        for index in range(4)
    ]

    assert "LOGPROB_MISMATCH" not in findings(tmp_path, records)
