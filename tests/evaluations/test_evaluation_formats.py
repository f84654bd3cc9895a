"""Every sampled TRL and verl run against what was computed independently from its raw records."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from grpo_top.formats.base import Lines, RunContext
from grpo_top.formats.names import canonical_values
from grpo_top.formats.registry import choose
from grpo_top.records import Rollout, Step

SHARED = Path(__file__).parents[3] / "shared"
SAMPLES = SHARED / "samples"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples lie beside the project")

LOGGED = {
    "mean_reward": "reward_mean",
    "truncation_rate": "truncation_rate",
    "mean_completion_length": "completion_tokens_mean",
    "max_completion_length": "completion_tokens_max",
    "kl_logged": "kl",
}


def read(path: Path) -> list[object]:
    data = path.read_bytes()
    chosen = choose(path, data[: 64 << 10])
    assert chosen is not None, path
    reader = chosen[0].reader(path, chosen[1], RunContext())
    if chosen[1].feed == "whole":
        return reader.whole(data)
    return reader.feed(Lines(0, data.split(b"\n"), 1)) + reader.end()


def truth(name: str) -> dict[int, dict[str, float]]:
    found = json.loads((SAMPLES / "truth" / f"{name}.json").read_text())
    return {row["step"]: row for row in (found["train"] if isinstance(found, dict) else found)}


def agrees(
    framework: str, steps: list[object], expected: dict[int, dict[str, float]], tolerance: float
) -> None:
    seen = set()
    for step in steps:
        values = canonical_values(framework, step.metrics) if isinstance(step, Step) else {}
        if "loss" not in values:
            continue
        seen.add(step.step)
        for name, series in LOGGED.items():
            reused = expected[step.step].get("reused_generation", False)
            if not (reused and series not in values):
                assert values[series] == pytest.approx(
                    expected[step.step][name], rel=tolerance, abs=tolerance
                )
    assert seen == expected.keys()


@pytest.mark.parametrize("run", ["normal", "lowtemp", "runaway"])
def test_trl_logs_agree_with_the_truth(run):
    agrees("trl", read(SAMPLES / f"trl/{run}/trainer_state.json"), truth(f"trl-{run}"), 1e-6)
    agrees("trl", read(SAMPLES / f"trl/{run}/stdout.log"), truth(f"trl-{run}"), 1e-2)


@pytest.mark.parametrize("run", ["normal", "lowtemp", "runaway"])
def test_trl_completions_agree_with_the_truth(run):
    pytest.importorskip("pyarrow")
    expected = truth(f"trl-{run}")
    for path in (SAMPLES / f"trl/{run}/completions").iterdir():
        rollouts = read(path)
        row = expected[rollouts[0].step]
        groups = defaultdict(list)
        for rollout in rollouts:
            groups[rollout.group].append(rollout)
        assert {len(group) for group in groups.values()} == {row["group_size"]}
        if row["parquet_matches_train_generation"] and not row["parquet_holds_eval_rows"]:
            accuracy = [rollout.rewards["accuracy_reward"] for rollout in rollouts]
            known = [value for value in accuracy if value is not None]
            assert len(accuracy) - len(known) == row["n_null_accuracy"]
            assert not known or fmean(known) == pytest.approx(row["mean_accuracy_reward"], abs=1e-6)
            formats = [rollout.rewards["format_reward"] for rollout in rollouts]
            assert fmean(formats) == pytest.approx(row["mean_format_reward"], abs=1e-6)


@pytest.mark.parametrize("run", ["healthy", "length_runaway", "v1"])
def test_verl_logs_agree_with_the_truth(run):
    for file in (f"grpo-demo/tiny_{run}.jsonl", "console.log"):
        agrees("verl", read(SAMPLES / f"verl/{run}" / file), truth(f"verl-{run}"), 1e-6)


@pytest.mark.parametrize("run", ["healthy", "length_runaway", "v1"])
def test_verl_dumps_agree_with_the_truth(run):
    expected = truth(f"verl-{run}")
    for path in (SAMPLES / f"verl/{run}/rollout_data").iterdir():
        rollouts = [record for record in read(path) if isinstance(record, Rollout)]
        row = expected[rollouts[0].step]
        assert len(rollouts) == row["n_rollouts"]
        assert fmean(rollout.reward for rollout in rollouts) == pytest.approx(row["mean_reward"], abs=1e-6)
        groups = defaultdict(list)
        for rollout in rollouts:
            groups[rollout.group or rollout.prompt].append(rollout.reward)
        if (
            len(groups) == row["n_groups"]
        ):  # two groups with one prompt cannot be told apart in a classic dump
            spread = fmean(map(pstdev, groups.values()))
            assert spread == pytest.approx(row["mean_group_reward_std_population"], abs=1e-6)
