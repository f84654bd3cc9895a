"""Files of prime-rl, verifiers, ART, rLLM, Atropos and miles are known by what they hold, whatever they are called."""

from pathlib import PurePath

import pytest
from format_reading import HEAD, packed
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.registry import choose

EPISODE = "episodes/train_step_46_epoch_0/episode_hash87d8ee64_id0d3d163b-1805-25ee-85e4-80a3b7892fb1_0.json"
ART = ".art/arith/models/tiny-001"
FILES = [
    ("prime-rl-stale_weights", "rollouts/step_52/train/all/traces.jsonl", "prime-rl", "rollouts"),
    ("prime-rl-stale_weights", "metrics.jsonl", "prime-rl", "metrics"),
    ("prime-rl-healthy-short", "logs/latest/orchestrator.log", "prime-rl", "console"),
    ("verifiers-v0.1.14_tool", "results.jsonl", "verifiers", "results"),
    ("verifiers-v0.1.14_tool", "metadata.json", "verifiers", "config"),
    ("verifiers-v0.4.0_single", "traces.jsonl", "verifiers", "traces"),
    ("verifiers-v0.4.0_single", "configs/resolved/eval.json", "verifiers", "config"),
    ("openpipe-art-run", f"{ART}/history.jsonl", "art", "metrics"),
    ("openpipe-art-run", f"{ART}/trajectories/train/0001.parquet", "art", "rollouts"),
    ("rllm-sampler_cold", "metrics.jsonl", "rllm", "metrics"),
    ("rllm-sampler_cold", EPISODE, "rllm", "rollouts"),
    ("atropos-healthy", "groups.jsonl", "atropos", "rollouts"),
    ("miles-stale_weights", "dashboard/metrics.jsonl", "miles", "metrics"),
    ("miles-stale_weights", "dashboard/meta.json", "miles", "config"),
    ("miles-stale_weights", "dashboard/trajectories/20261130_14.jsonl", "miles", "versions"),
    ("miles-stale_weights", "dashboard_columns/rollout_50.parquet", "miles", "lengths"),
    ("miles-stale_weights", "trajectory/50.jsonl", "miles", "rollouts"),
]


@pytest.mark.parametrize(("run", "file", "name", "role"), FILES)
@pytest.mark.parametrize("called", ["renamed", "renamed.json", "renamed.jsonl", "renamed.log"])
def test_a_file_is_known_by_its_content(run, file, name, role, called):
    chosen = choose(PurePath(called), packed(run, file)[:HEAD])
    assert chosen is not None
    assert (chosen[0].name, chosen[1].role) == (name, role)
    assert chosen[1].confidence >= 80


@given(st.sampled_from(FILES), st.integers(0, 2000), st.binary(max_size=20))
def test_a_head_that_is_cut_or_damaged_makes_no_claim_fail(file, length, garbage):
    head = packed(file[0], file[1])[:length] + garbage
    choose(PurePath(file[1]), head)
    choose(PurePath("renamed"), head)
