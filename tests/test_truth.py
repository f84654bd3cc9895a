"""Every series equals what was computed apart from the raw records, on every step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from runs import RECORDED, SAMPLES, read, recorded_lines, truth, unpack_sample, values

if TYPE_CHECKING:
    from pathlib import Path

COMPARED = (
    "reward_mean",
    "reward_std",
    "group_reward_std_mean",
    "zero_variance_group_frac",
    "truncation_rate",
    "completion_tokens_mean",
    "version_lag_max",
    "parse_failure_rate",
    "kl",
    "entropy",
)
OF_SAMPLES = {
    "reward_mean": "mean_reward",
    "zero_variance_group_frac": "zero_variance_fraction",
    "truncation_rate": "truncation_rate",
    "completion_tokens_mean": "mean_completion_length",
    "completion_tokens_max": "max_completion_length",
    "groups": "n_groups",
    "rollouts": "n_rollouts",
    "group_reward_std_mean": "mean_group_reward_std_population",
    "kl": "kl_logged",
    "version_lag_max": "version_lag_max",
}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("series", COMPARED)
def test_a_recorded_runs_series_equal_the_truth_on_every_step(name: str, series: str, tmp_path: Path) -> None:
    log = tmp_path / "rollouts.jsonl"
    log.write_bytes(b"\n".join(recorded_lines(name)) + b"\n")
    found = values(read(log), series)
    expected = {int(step): row.get(series) for step, row in truth("faults", name)["steps"].items()}
    assert len(expected) == 120
    for step, value in expected.items():
        if value is not None:
            assert found[step] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_frameworks_own_files_give_the_series_that_its_raw_records_give(name: str, tmp_path: Path) -> None:
    snapshot = read(unpack_sample(name, tmp_path))
    rows = truth("samples", name)
    rows = rows["train"] if isinstance(rows, dict) else rows
    compared = 0
    for series, key in OF_SAMPLES.items():
        found = values(snapshot, series) if series in snapshot.series else {}
        for row in rows:
            value = found.get(row["step"], math.nan)
            if row.get(key) is not None and not math.isnan(value):
                assert value == pytest.approx(row[key], abs=1e-5), (series, row["step"])
                compared += 1
    assert compared >= 3 * len(rows)
    assert snapshot.run.steps == len(rows)
    assert snapshot.skipped_count == 0


def test_trl_reward_mean_comes_from_the_trainers_own_row(tmp_path: Path) -> None:
    snapshot = read(unpack_sample("trl-normal", tmp_path))
    assert snapshot.series["reward_mean"].origin == "trainer"
    assert snapshot.batch(29) is not None


def test_trl_rollouts_that_an_evaluation_wrote_over_are_not_the_steps_own(tmp_path: Path) -> None:
    snapshot = read(unpack_sample("trl-normal", tmp_path))
    assert snapshot.batch(29) is not None
    assert snapshot.batch(30) is None
    assert snapshot.eval_batch(30) is not None


def test_trl_groups_are_flat_where_all_advantages_are_zero_although_no_reward_is_logged(
    tmp_path: Path,
) -> None:
    snapshot = read(unpack_sample("trl-lowtemp", tmp_path))
    batch = snapshot.batch(1)
    assert batch is not None
    assert not batch.known.any()
    assert batch.flat.sum() == 1


def test_verl_groups_with_the_same_prompt_in_one_step_are_two(tmp_path: Path) -> None:
    snapshot = read(unpack_sample("verl-length_runaway", tmp_path))
    assert values(snapshot, "groups")[9] == 8
