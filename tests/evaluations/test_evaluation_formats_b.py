"""Every sampled run of ms-swift, tinker, NeMo-RL, SkyRL, AReaL, OpenRLHF and of the engines' request logs, whole,
against what was computed independently from its raw records."""

from __future__ import annotations

import json
import math
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grpo_top.config import Settings
from grpo_top.monitor import Monitor

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

SHARED = Path(__file__).parents[3] / "shared"
SAMPLES = SHARED / "samples"
CASES = SHARED / "cases" / "inputs"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples lie beside the project")

RUNS = {
    "ms-swift": "ms-swift",
    "tinker-cookbook-healthy": "tinker-cookbook/healthy",
    "tinker-cookbook-multiturn": "tinker-cookbook/multiturn",
    "nemo-rl-healthy": "nemo-rl/healthy.tar.xz",
    "nemo-rl-truncation": "nemo-rl/truncation",
    "skyrl": "skyrl",
    "areal": "areal",
    "openrlhf": "openrlhf",
    "sglang-request-metrics-sampler_cold": "sglang-request-metrics/sampler_cold",
}
SERIES = {
    "groups": "n_groups",
    "rollouts": "n_rollouts",
    "reward_mean": "mean_reward",
    "zero_variance_group_frac": "zero_variance_fraction",
    "group_reward_std_mean": "mean_group_reward_std_population",
    "completion_tokens_mean": "mean_completion_length",
    "completion_tokens_max": "max_completion_length",
    "truncation_rate": "truncation_rate",
    "kl": "kl_logged",
    "entropy": "entropy_logged",
    "mismatch_kl": "kl_sample_train_v2_logged",
}
NOT_WRITTEN = {
    "skyrl": {"groups", "zero_variance_group_frac", "group_reward_std_mean", "truncation_rate"},
    "openrlhf": {"groups", "zero_variance_group_frac"},
    "sglang-request-metrics-sampler_cold": {
        "reward_mean",
        "zero_variance_group_frac",
        "group_reward_std_mean",
    },
}
"""What the truth knows and the framework's files do not tell."""
ROLLOUTS = {"C31": 30, "C38": 16, "C11": 16}
STEPS = {"C06": 12, "C07": 15, "C11": 33, "C28": 11, "C35": 759, "C40": 101, "C48": 31, "C50": 111, "C79": 50}


def read(where: Path, directory: Path) -> Snapshot:
    if where.name.endswith(".tar.xz"):
        with tarfile.open(where) as archive:
            archive.extractall(directory, filter="data")
        where = directory
    monitor = Monitor([str(where)], Settings())
    monitor.read_all()
    return monitor.snapshot(finished=True)


def truth(name: str) -> list[dict[str, Any]]:
    found = json.loads((SAMPLES / "truth" / f"{name}.json").read_text())
    return found["train"] if isinstance(found, dict) else found


@pytest.mark.parametrize("name", RUNS)
def test_a_run_read_whole_agrees_with_the_truth_on_every_step(name, tmp_path):
    snapshot = read(SAMPLES / RUNS[name], tmp_path)
    rows = truth(name)
    assert snapshot.run.steps == len(rows)
    assert snapshot.skipped_count == 0
    for series, key in SERIES.items():
        expected = {row["step"]: row[key] for row in rows if row.get(key) is not None}
        if not expected or series in NOT_WRITTEN.get(name, ()):
            continue
        found = dict(
            zip(snapshot.series[series].steps.tolist(), snapshot.series[series].values.tolist(), strict=True)
        )
        wrong = {
            step: (found.get(step), value)
            for step, value in expected.items()
            if not math.isclose(found.get(step, math.nan), value, abs_tol=1e-6)
        }
        assert wrong == {}, series
    for series in NOT_WRITTEN.get(name, ()):
        assert series not in snapshot.series or series == "groups"


def test_the_tables_of_ms_swift_are_told_apart(tmp_path):
    snapshot = read(SAMPLES / "ms-swift", tmp_path)
    lines = json.loads((SAMPLES / "truth" / "ms-swift.json").read_text())["completions_jsonl_lines"]
    evaluated = {line["step"] for line in lines if line["holds"] != "train"}
    for step in range(1, 61):
        trained, heldout = snapshot.batch(step), snapshot.eval_batch(step)
        assert trained is not None
        assert trained.size == 16
        assert (heldout is not None) == (step in evaluated)


def test_log_probabilities_of_nemo_rl_are_compared_token_by_token(tmp_path):
    snapshot = read(SAMPLES / "nemo-rl/truncation", tmp_path)
    differences = snapshot.series["logp_abs_diff"].values
    assert len(differences) == 24
    assert all(0 < value < 0.05 for value in differences)
    assert "logp_length_mismatch_frac" not in snapshot.series


def test_requests_of_weights_that_no_longer_change_are_all_read(tmp_path):
    snapshot = read(SAMPLES / "sglang-request-metrics/stale_weights", tmp_path)
    rows = truth("sglang-request-metrics-stale_weights")
    versions: dict[int, int] = {}
    for row in rows:
        (version,) = row["weight_versions"]
        versions[int(version)] = versions.get(int(version), 0) + row["n_records"]
    found = dict(
        zip(
            snapshot.series["rollouts"].steps.tolist(),
            snapshot.series["rollouts"].values.tolist(),
            strict=True,
        )
    )
    assert found == {version + 1: float(count) for version, count in versions.items()}


def test_a_vllm_log_shows_what_every_request_was_sampled_with(tmp_path):
    snapshot = read(SAMPLES / "vllm-request-log/sampler_cold", tmp_path)
    rollouts = snapshot.rollouts
    ids = rollouts.columns["sampling"].tolist()
    assert rollouts.length == 200
    for row in truth("vllm-request-log-sampler_cold"):
        first = row["first_request"] - 1
        for place in range(first, first + row["n_requests"]):
            sampling = rollouts.samplings[ids[place]]
            assert {name: sampling[name] for name in ("temperature", "top_p", "top_k", "max_tokens")} == {
                name: row[name] for name in ("temperature", "top_p", "top_k", "max_tokens")
            }


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases lie beside the project")
@pytest.mark.parametrize("case", sorted(STEPS.keys() | ROLLOUTS.keys()))
def test_every_input_of_a_case_is_read_without_an_error(case, tmp_path):
    snapshot = read(CASES / case, tmp_path)
    assert snapshot.skipped_count == 0
    assert snapshot.left_out == ()
    assert len(snapshot.sources) == sum(1 for file in (CASES / case).rglob("*") if file.is_file())
    assert snapshot.run.steps == STEPS.get(case, snapshot.run.steps)
    assert snapshot.run.rollouts == ROLLOUTS.get(case, 0)
