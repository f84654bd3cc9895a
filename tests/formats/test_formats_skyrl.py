import json
from pathlib import PurePath

import pytest
from format_reading import fed, of, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.names import canonical_values, heldout_value
from grpo_top.formats.registry import choose, named
from grpo_top.formats.skyrl import MetricsReader, SampleReader, StepReader
from grpo_top.records import Eval, Rollout, Run, Skipped, Step

SAMPLE = {
    "input_prompt": "2+2=",
    "output_response": "4<|eos|>",
    "score": 1.1,
    "stop_reason": "stop",
    "env_class": "gsm8k",
    "env_extras": {"extra_info": {"index": 0}},
    "data_source": "arith/easy",
}
FOLDER = "dumped_evals/global_step_30_evals"


def samples(*records: dict[str, object], folder: str = FOLDER) -> list[object]:
    return read(f"{folder}/arith_easy.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in records))


# Evaluations


def test_a_dump_holds_the_rollouts_of_an_evaluation():
    found = read(f"{FOLDER}/arith_easy.jsonl", packed("skyrl", f"{FOLDER}/arith_easy.jsonl"))
    assert len(found) == 96
    assert {(rollout.step, rollout.split, rollout.family) for rollout in found} == {
        (30, "eval", "arith/easy")
    }
    assert found[0].finish_reason == "stop"


def test_an_evaluation_without_training_is_step_0():
    assert samples(SAMPLE, folder="dumped_evals/eval_only")[0].step == 0


@pytest.mark.parametrize(
    ("score", "reward"), [(0.5, 0.5), ([0.0, 0.0, 1.5], 1.5), ([], None), (None, None), (["x"], None)]
)
def test_a_score_for_each_token_adds_up(score, reward):
    assert samples(SAMPLE | {"score": score})[0].reward == reward


def test_the_summary_is_metrics_and_no_sample():
    name = "dumped_evals/global_step_150_evals/aggregated_results.jsonl"
    (found,) = read(name, packed("skyrl", name))
    assert isinstance(found, Eval)
    assert (found.step, found.suite) == (150, "heldout")
    assert heldout_value(found.metrics) == pytest.approx(1.665234375)


def test_a_source_with_a_slash_keeps_its_name():
    row = {"eval/all/avg_score": 0.5, "eval/arith/easy/avg_score": 0.7, "eval/arith/easy/pass_at_8": 1.0}
    found = read(f"{FOLDER}/aggregated_results.jsonl", json.dumps(row).encode())
    assert [(record.suite, record.metrics) for record in found] == [
        ("heldout", {"avg_score": 0.5}),
        ("arith/easy", {"avg_score": 0.7, "pass_at_8": 1.0}),
    ]


# Metric lines


def test_lines_with_the_trainers_step_are_skyrls():
    row = {
        "trainer/global_step": 3,
        "reward/avg_raw_reward": 0.4,
        "policy/policy_entropy": 0.1,
        "eval/all/x": 1,
    }
    found = read("metrics.jsonl", json.dumps(row).encode())
    (step,) = of(Step, found)
    assert (step.step, canonical_values("skyrl", step.metrics)) == (3, {"reward_mean": 0.4, "entropy": 0.1})
    assert [record.step for record in of(Eval, found)] == [3]


# Pickles


def test_pickles_of_training_rollouts_are_refused_with_what_to_switch_on():
    assert choose(PurePath("dumped_data/global_step_1_training_input.pkl"), b"\x80\x05\x95") is None
    assert "dump_eval_results" in named("skyrl").rollouts_hint
    assert "never loaded" in named("skyrl").rollouts_hint


# The console


def test_a_printed_dict_runs_over_many_lines():
    found = read("console.log", packed("skyrl", "console.log"))
    steps = of(Step, found)
    assert [step.step for step in steps] == list(range(1, 41))
    assert canonical_values("skyrl", steps[0].metrics)["completion_tokens_mean"] == 14.7812
    assert {step.rank for step in steps} == {0}
    assert set(of(Run, found)) == {Run(framework="skyrl")}


def test_rays_prefix_and_lines_of_other_processes_do_not_hide_a_step():
    data = (
        "\x1b[36m(skyrl_entrypoint pid=71)\x1b[0m 2026-11-30 10:23:49.972 | INFO | tracking:log:189 - Step 5: \n"
        "\x1b[36m(skyrl_entrypoint pid=71)\x1b[0m {'policy/policy_kl': '0.0059',\n"
        "(Worker pid=72) Loading {'model': 'x'}\n"
        "\x1b[36m(skyrl_entrypoint pid=71)\x1b[0m  'eval/all/avg_score': '0.5000',\n"
        "\x1b[36m(skyrl_entrypoint pid=71)\x1b[0m  'trainer/global_step': 5}\n"
        "(Worker pid=72) {'policy/late': '9'}\n"
    )
    found = read("train.log", data.encode())
    assert [(step.step, step.metrics) for step in of(Step, found)] == [(5, {"policy/policy_kl": 0.0059})]
    assert [record.metrics for record in of(Eval, found)] == [{"avg_score": 0.5}]


def test_a_dict_that_is_never_closed_is_given_as_far_as_it_goes():
    data = "Step 5:\n{'policy/a': '1.0',\nTraceback (most recent call last):\n"
    assert [step.metrics for step in of(Step, fed(StepReader(), data.encode()))] == [{"policy/a": 1.0}]


def test_a_heading_without_numbers_is_no_step():
    assert fed(StepReader(), b"Step 5:\nMix flour and water.\nStep 6:\nBake.\n") == []
    assert choose(PurePath("recipe.txt"), b"Step 5:\nMix flour and water.\nStep 6:\nBake.\n") is None


# Whatever is cut, the same records

LINES = [
    json.dumps(SAMPLE).encode(),
    json.dumps(SAMPLE)[:40].encode(),
    b'{"trainer/global_step": 3, "reward/avg_raw_reward": 0.4}',
    b'{"eval/all/avg_score": NaN}',
    b" - Step 5: ",
    b"{'policy/a': '1.0',",
    b" 'policy/b': nan}",
    b"noise",
    b"\r",
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=14), st.sets(st.integers(1, 13)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    for reader in (SampleReader(1), MetricsReader(1), StepReader()):
        assert repr(fed(reader.fresh(), data, cuts)) == repr(fed(reader.fresh(), data))


def test_garbage_between_records_loses_itself_alone():
    sample = json.dumps(SAMPLE).encode()
    found = fed(SampleReader(1), b"\n".join([sample, sample[:60], b'{"score": 1}', sample]))
    assert [type(record) for record in found] == [Rollout, Skipped, Skipped, Rollout]


def test_a_sample_may_be_a_conversation_and_says_what_its_environment_adds():
    sample = {
        "input_prompt": [{"role": "user", "content": "2+2?"}],
        "output_response": "4",
        "score": [0.0, 1.0],
        "stop_reason": "length",
        "env_extras": {"extra_info": {"index": 7, "difficulty": "hard"}},
        "data_source": "gsm8k",
    }
    (found,) = of(Rollout, read("dumped_evals/global_step_3_evals/gsm8k.jsonl", json.dumps(sample).encode()))
    assert (found.prompt, found.completion, found.reward) == ("2+2?", "4", 1.0)
    assert [turn.role for turn in found.messages] == ["user", "assistant"]
    assert found.task.startswith("gsm8k 7 ")
    assert (found.tier, found.finish_reason, found.split) == ("hard", "length", "eval")
