import json
import math
from pathlib import PurePath
from statistics import fmean, pstdev

import pytest
import runs
from format_reading import fed, of, opened, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.atropos import GROUPS_A_STEP, GroupsReader
from grpo_top.formats.base import RunContext
from grpo_top.formats.names import heldout_value
from grpo_top.formats.registry import choose
from grpo_top.records import Eval, Rollout, Run, Skipped

GROUP = {
    "tokens": [[1, 5, 6], [1, 7, 8, 9]],
    "masks": [[-100, 5, 6], [-100, 7, -100, 9]],
    "scores": [0.5, 1.0],
    "inference_logprobs": [[1.0, -0.1, -0.2], [1.0, -0.3, 1.0, -0.4]],
    "messages": [
        [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "5"}],
        [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
    ],
    "advantages": None,
    "generation_params": {"temperature": 0.7, "max_tokens": 32},
}


def groups(*records: object) -> list[object]:
    return read("groups.jsonl", b"".join(json.dumps(record).encode() + b"\n" for record in records))


@pytest.mark.parametrize("name", ["healthy", "sampler_cold"])
def test_every_group_of_a_real_file_agrees_with_the_truth(name):
    found = of(Rollout, read("groups.jsonl", packed(f"atropos-{name}", "groups.jsonl")))
    by_group = {}
    for rollout in found:
        by_group.setdefault(rollout.group, []).append(rollout)
    written = list(by_group.values())
    rows = runs.truth("samples", f"atropos-{name}")
    assert len(written) == sum(row["groups_written"] for row in rows)
    compared = 0
    for row in rows:
        if row["groups_written"] < row["n_groups"]:
            continue
        step = written[row["first_line"] : row["first_line"] + row["groups_written"]]
        rewards = [[rollout.reward for rollout in group] for group in step]
        assert fmean(map(fmean, rewards)) == pytest.approx(row["mean_reward"])
        assert fmean(map(pstdev, rewards)) == pytest.approx(row["mean_group_reward_std_population"])
        lengths = [rollout.completion_tokens for group in step for rollout in group]
        assert fmean(lengths) == pytest.approx(row["mean_completion_length"])
        compared += 1
    assert compared >= 10


def test_groups_without_a_step_are_counted_into_steps():
    found = of(Rollout, groups(*[GROUP] * (GROUPS_A_STEP + 1)))
    assert [rollout.step for rollout in found] == [1] * 2 * GROUPS_A_STEP + [2] * 2
    assert [rollout.group for rollout in found[:3]] == ["groups 1", "groups 1", "groups 2"]


def test_flat_groups_are_not_written_so_their_share_is_unknown(tmp_path):
    directory = runs.unpack_sample("atropos-sampler_cold", tmp_path)
    snapshot = runs.read(directory)
    assert "zero_variance_group_frac" not in snapshot.series
    assert "all_fail_group_frac" not in snapshot.series
    assert not any(math.isnan(value) for value in runs.values(snapshot, "group_reward_std_mean").values())


def test_an_environment_that_writes_flat_groups_is_judged_by_them(tmp_path):
    flat = GROUP | {"scores": [1.0, 1.0]}
    found = groups(GROUP, flat, GROUP)
    assert [run.drops_flat_groups for run in of(Run, found)] == [True, False]
    (tmp_path / "groups.jsonl").write_text("".join(json.dumps(group) + "\n" for group in (flat, GROUP)))
    assert runs.values(runs.read(tmp_path), "zero_variance_group_frac") == {1: 0.5}


def test_the_prompt_is_masked_and_does_not_count():
    first, second = of(Rollout, groups(GROUP))
    assert (first.prompt_tokens, first.completion_tokens, first.logprobs_sampler) == (1, 2, [-0.1, -0.2])
    assert (second.prompt_tokens, second.completion_tokens, second.logprobs_sampler) == (1, 2, [-0.3, -0.4])


def test_what_was_deployed_may_be_null():
    assert of(Rollout, groups(GROUP))[0].sampling == {"temperature": 0.7, "max_tokens": 32}
    assert of(Rollout, groups(GROUP | {"generation_params": None}))[0].sampling is None


def test_a_cold_sampler_is_found_by_what_was_deployed_before(tmp_path):
    snapshot = runs.read(runs.unpack_sample("atropos-sampler_cold", tmp_path))
    assert snapshot.first_cause == "SAMPLER_DRIFT"


def test_texts_are_read_with_and_without_roles():
    first, _ = of(Rollout, groups(GROUP))
    assert (first.prompt, first.completion) == ("2+2?", "5")
    decoded = [[{"role": "user", "content": "2+2? 5"}], [{"role": "user", "content": "2+2? 4"}]]
    first, _ = of(Rollout, groups(GROUP | {"messages": decoded}))
    assert (first.prompt, first.completion) == (None, "2+2? 5")
    first, _ = of(Rollout, groups(GROUP | {"messages": None}))
    assert (first.prompt, first.completion, first.messages) == (None, None, None)


def test_an_advantage_is_that_of_the_tokens_that_have_one():
    first, second = of(Rollout, groups(GROUP | {"advantages": [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]]}))
    assert (first.advantage, second.advantage) == (0.5, 0.0)


def test_a_group_longer_than_the_head_is_known_by_its_beginning():
    long = GROUP | {"tokens": [[1] * 40_000] * 2}
    assert choose(PurePath("x.jsonl"), json.dumps(long).encode()[: 64 << 10])[0].name == "atropos"


def test_several_environments_have_groups_of_their_own(tmp_path):
    for name in ("math.jsonl", "math_1.jsonl"):
        (tmp_path / name).write_text(json.dumps(GROUP) + "\n")
    assert runs.values(runs.read(tmp_path), "groups") == {1: 2}


def test_each_rollout_of_a_group_is_replayed(tmp_path):
    directory = runs.unpack_sample("atropos-healthy", tmp_path)
    snapshot = runs.read(directory)
    for row in range(0, snapshot.rollouts.length, 5):
        found = snapshot.read(row)
        assert isinstance(found, Rollout)
        assert found.step == snapshot.rollouts.columns["step"][row]
        assert found.reward == snapshot.rollouts.columns["reward"][row]


def test_replay_takes_the_part_of_its_line():
    data = packed("atropos-healthy", "groups.jsonl")
    reader = opened("groups.jsonl", data)
    found = of(Rollout, fed(reader, data))[13]
    where = found.location
    again = reader.replay(data[where.offset : where.offset + where.length], where)
    assert (again.completion, again.reward) == (found.completion, found.reward)


# Evaluations: written by hand after Atropos' source

EVALUATION = {
    "config_general": {"model_name": "m", "generation_parameters": {"max_new_tokens": 512}},
    "results": {"atropos|gsm8k_eval|0": {"eval/percent_correct": 0.4}, "all": {"eval/percent_correct": 0.4}},
}
SAMPLE = {
    "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
    "score": 1,
    "category": "easy",
    "finish_reason": "stop",
}


def test_an_evaluation_is_of_the_step_that_the_groups_had_reached():
    context = RunContext()
    data = json.dumps(EVALUATION, indent=2).encode()
    (before,) = read("evals/metrics.json", data, context)
    read("groups.jsonl", b"\n".join([json.dumps(GROUP).encode()] * (GROUPS_A_STEP + 1)), context)
    (after,) = read("evals/metrics.json", data, context)
    assert isinstance(after, Eval)
    assert (before.step, after.step, after.suite, heldout_value(after.metrics)) == (0, 2, "gsm8k_eval", 0.4)
    (skipped,) = read("evals/metrics.json", data[:-5], context)
    assert isinstance(skipped, Skipped)


def test_an_evaluations_samples_are_rollouts_of_it():
    (found,) = of(Rollout, read("evals/samples.jsonl", json.dumps(SAMPLE).encode()))
    assert (found.split, found.reward, found.prompt, found.completion) == ("eval", 1.0, "2+2?", "4")
    assert (found.family, found.finish_reason, found.step) == ("easy", "stop", 0)


LINES = [
    json.dumps(GROUP).encode(),
    json.dumps(GROUP | {"scores": [1, 1]}).encode(),
    json.dumps(GROUP | {"masks": [3], "messages": [None], "scores": ["x", None, 2]}).encode(),
    b'{"tokens": [[1',
    b'{"tokens": 3, "masks": 4, "scores": 5}',
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=8), st.sets(st.integers(1, 7)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    assert fed(GroupsReader("g", RunContext()), data, cuts) == fed(GroupsReader("g", RunContext()), data)


def test_garbage_between_groups_loses_itself_alone():
    found = fed(GroupsReader("g", RunContext()), b"\n".join([LINES[0], LINES[3], LINES[0]]))
    assert [type(record) for record in found] == [Run, *[Rollout] * 2, Skipped, *[Rollout] * 2]
    assert of(Rollout, found)[-1].group == "g 2"
