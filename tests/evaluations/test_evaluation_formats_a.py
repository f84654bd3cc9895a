"""Every sampled run of prime-rl, verifiers, ART, rLLM, Atropos and miles against what its raw records give."""

import json
import math
import tarfile
from pathlib import Path

import numpy as np
import pytest
from runs import read, values

from grpo_top.records import Rollout

SHARED = Path(__file__).parents[3] / "shared"
SAMPLES = SHARED / "samples"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples lie beside the project")

SERIES = {
    "n_groups": "groups",
    "n_rollouts": "rollouts",
    "mean_reward": "reward_mean",
    "zero_variance_fraction": "zero_variance_group_frac",
    "mean_group_reward_std_population": "group_reward_std_mean",
    "truncation_rate": "truncation_rate",
    "mean_completion_length": "completion_tokens_mean",
    "mean_completion_tokens": "completion_tokens_mean",
    "max_completion_length": "completion_tokens_max",
    "version_lag_max": "version_lag_max",
    "kl_logged": "kl",
}
RUNS = {
    "prime-rl-healthy-short": "prime-rl/healthy-short",
    "prime-rl-healthy": "prime-rl/healthy.tar.xz",
    "prime-rl-sampler_cold": "prime-rl/sampler_cold.tar.xz",
    "prime-rl-stale_weights": "prime-rl/stale_weights.tar.xz",
    "prime-rl-truncation": "prime-rl/truncation.tar.xz",
    "verifiers-v0.1.14_single": "verifiers/v0.1.14_single",
    "verifiers-v0.1.14_tool": "verifiers/v0.1.14_tool",
    "verifiers-v0.4.0_single": "verifiers/v0.4.0_single",
    "openpipe-art-run": "openpipe-art/run",
    "rllm-sampler_cold": "rllm/sampler_cold",
    "miles-sampler_cold": "miles/sampler_cold",
    "miles-stale_weights": "miles/stale_weights",
}
FIRST_CAUSES = {
    "prime-rl-sampler_cold": {"SAMPLER_DRIFT"},
    "prime-rl-stale_weights": {"WEIGHT_SYNC_STUCK", "STALE_ROLLOUTS"},
    "miles-stale_weights": {"WEIGHT_SYNC_STUCK", "STALE_ROLLOUTS"},
}


def directory(place: str, tmp_path: Path) -> Path:
    if not place.endswith(".tar.xz"):
        return SAMPLES / place
    with tarfile.open(SAMPLES / place) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def truth(name: str) -> list[dict[str, float]]:
    return json.loads((SAMPLES / "truth" / f"{name}.json").read_text())


@pytest.mark.parametrize("name", RUNS)
def test_a_run_agrees_with_its_truth_on_every_step(name, tmp_path):
    snapshot = read(directory(RUNS[name], tmp_path))
    rows = truth(name)
    assert snapshot.skipped_count == 0
    assert snapshot.run.steps == len(rows)
    compared = 0
    for key, series in SERIES.items():
        found = values(snapshot, series) if series in snapshot.series else {}
        for row in rows:
            if key in row:
                step = row.get("rollout_id", row["step"])
                assert found[step] == pytest.approx(row[key], abs=1e-6), (series, step)
                compared += 1
    assert compared >= 7 * len(rows)
    if name in FIRST_CAUSES:
        assert snapshot.first_cause in FIRST_CAUSES[name]
    for row_number in range(0, snapshot.rollouts.length, max(snapshot.rollouts.length // 40, 1)):
        assert isinstance(snapshot.read(row_number), Rollout)


@pytest.mark.parametrize("name", ["healthy", "sampler_cold"])
def test_atropos_groups_agree_with_the_truth_as_far_as_they_are_written(name):
    snapshot = read(SAMPLES / "atropos" / name)
    rows = truth(f"atropos-{name}")
    table = snapshot.groups.columns
    assert snapshot.run.groups == sum(row["groups_written"] for row in rows)
    assert "zero_variance_group_frac" not in snapshot.series
    for row in rows:
        mine = slice(row["first_line"], row["first_line"] + row["groups_written"])
        if row["groups_written"] == row["n_groups"]:
            assert table["mean"][mine].mean() == pytest.approx(row["mean_reward"])
            assert table["std"][mine].mean() == pytest.approx(row["mean_group_reward_std_population"])
        else:
            missing = row["n_groups"] - row["groups_written"]
            assert missing / row["n_groups"] == pytest.approx(row["zero_variance_fraction"])
    lengths = snapshot.rollouts.columns["completion_tokens"]
    full = [row for row in rows if row["groups_written"] == row["n_groups"]]
    for row in full:
        first = row["first_line"] * 8
        assert np.mean(lengths[first : first + row["n_rollouts"]]) == pytest.approx(
            row["mean_completion_length"]
        )
    assert not math.isnan(snapshot.series["reward_mean"].values[-1])
