import json
from pathlib import PurePath
from statistics import fmean

import pytest
from format_reading import batches, fed, of, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.config import Settings
from grpo_top.formats.names import canonical_values
from grpo_top.formats.nemo_rl import ResultsReader, SampleReader
from grpo_top.formats.registry import choose
from grpo_top.monitor import Monitor
from grpo_top.records import Eval, Message, Rollout, Run, Skipped, Step

SAMPLE = {
    "content": [["2+2=", "4"]],
    "rewards": [1.0],
    "input_lengths": [5],
    "token_ids": [[1, 2, 3, 4, 5, 0, 0]],
    "token_loss_mask": [[0, 0, 0, 1, 1, 0, 0]],
    "sample_loss_mask": [1.0],
    "advantages": [[0.5] * 7],
    "generation_logprobs": [[0.0, 0.0, 0.0, -0.5, -0.1, 0.0, 0.0]],
    "prev_logprobs": [[0.0, 0.0, 0.0, -0.4, -0.2, 0.0, 0.0]],
    "idx": 0,
}


def samples(*records: dict[str, object], name: str = "train_data_step12.jsonl") -> list[object]:
    return read(f"exp_001/{name}", b"".join(json.dumps(record).encode() + b"\n" for record in records))


def turns(content: list[str], mask: list[int]) -> Rollout:
    (found,) = samples(
        SAMPLE | {"content": [content], "token_loss_mask": [mask], "input_lengths": [len(mask)]}
    )
    return found


# Samples


def test_every_value_is_a_list_of_one():
    (found,) = samples(SAMPLE)
    assert (found.reward, found.advantage, found.prompt, found.completion) == (1.0, 0.5, "2+2=", "4")


def test_the_step_is_the_files():
    assert samples(SAMPLE)[0].step == 12
    assert samples(SAMPLE, name="train_data_step2.jsonl")[0].step == 2


def test_a_sample_names_no_group_so_groups_are_equal_prompts():
    data = packed("nemo-rl-truncation", "exp_001/train_data_step1.jsonl")
    found = read("exp_001/train_data_step1.jsonl", data)
    assert {rollout.group for rollout in found} == {None}
    assert [rollout.prompt for rollout in found] == [found[0].prompt] * 8 + [found[8].prompt] * 8


def test_rewards_are_float32_widened():
    data = packed("nemo-rl-truncation", "exp_001/train_data_step1.jsonl")
    rewards = [rollout.reward for rollout in read("exp_001/train_data_step1.jsonl", data)]
    assert fmean(rewards) == pytest.approx(0.475, abs=1e-6)
    assert 0.6499999761581421 in rewards


def test_the_length_is_the_number_of_tokens_that_the_policy_wrote():
    (found,) = samples(SAMPLE)
    assert (found.prompt_tokens, found.completion_tokens) == (3, 2)


def test_log_probabilities_are_compared_where_the_policy_wrote_and_nowhere_else():
    (found,) = samples(SAMPLE)
    assert (found.logprobs_sampler, found.logprobs_trainer) == ([-0.5, -0.1], [-0.4, -0.2])


def test_padding_is_no_token_even_where_the_mask_says_so():
    (found,) = samples(SAMPLE | {"token_loss_mask": [[0, 0, 0, 1, 1, 1, 1]]})
    assert found.completion_tokens == 2


def test_log_probabilities_that_are_not_there_are_unknown():
    (found,) = samples({name: value for name, value in SAMPLE.items() if "logprobs" not in name})
    assert (found.logprobs_sampler, found.logprobs_trainer) == (None, None)


@pytest.mark.parametrize(
    ("content", "mask", "roles"),
    [
        (["q", "a"], [0, 1, 1], "user assistant"),
        (["s", "q", "a"], [0, 0, 1], "system user assistant"),
        (["q", "a", "tool", "b"], [0, 1, 0, 1], "user assistant user assistant"),
        (["q", "a", "tool"], [0, 1, 0], "user assistant user"),
        (["s", "q", "a", "tool", "b"], [0, 1, 0, 1], "system user assistant user assistant"),
        (["q", "a"], [0, 0, 0], "user assistant"),
    ],
)
def test_the_mask_tells_who_wrote_which_message(content, mask, roles):
    assert [message.role for message in turns(content, mask).messages] == roles.split()


def test_turns_of_the_policy_are_the_completion_and_what_came_before_is_the_prompt():
    found = turns(["s", "q", "a", "tool", "b"], [0, 1, 0, 1])
    assert (found.prompt, found.completion) == ("s\nq", "a\nb")


def test_validation_gives_its_messages_with_roles_and_no_tokens():
    data = packed("nemo-rl-truncation", "exp_001/val_data_step4.jsonl")
    found = read("exp_001/val_data_step4.jsonl", data)
    assert {(rollout.step, rollout.split) for rollout in found} == {(4, "eval")}
    assert found[0].messages == [
        Message("user", "12+9="),
        Message("assistant", "<answer>36</answer>"),
    ]
    assert (found[0].prompt, found[0].completion_tokens, found[0].reward) == ("12+9=", None, 0.45)


@pytest.mark.parametrize("broken", [{"content": None}, {"content": "x"}, {"content": []}])
def test_a_sample_without_content_is_skipped(broken):
    assert [type(record) for record in samples(SAMPLE, SAMPLE | broken, SAMPLE)] == [
        Rollout,
        Skipped,
        Rollout,
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"rewards": None},
        {"token_loss_mask": None},
        {"token_loss_mask": [3]},
        {"generation_logprobs": [[None]]},
    ],
)
def test_a_field_of_another_shape_is_unknown(odd):
    assert [type(record) for record in samples(SAMPLE | odd)] == [Rollout]


def test_a_sample_longer_than_the_head_is_recognised():
    sample = SAMPLE | {"token_ids": [[1] * 50_000]}
    assert len(samples(sample, sample)) == 2
    assert len(samples(SAMPLE | {"content": [["a" * 100_000, "b"]]})) == 1


def test_files_of_that_content_under_another_name_are_not_claimed():
    assert choose(PurePath("train_data.jsonl"), json.dumps(SAMPLE).encode()) is None


# The console

CONSOLE = """
========================= Step 3/100 =========================
▶ Preparing batch...
▶ Generating responses for batch of size 64...
{noise}
▶ Starting validation at step 3...

📊 Validation Results:
    • Accuracy: 0.4500
    • Average response length: 45.2 tokens
    • Samples processed: 128

  ⏱️  Validation Timing:
    • Total validation time: 12.30s

📊 Training Results:
  • Loss: 0.0123
  • Generation KL Error: 0.0007
  • Avg Reward: 0.4127
  • Mean Generation Length: 187.2500

⏱️  Timing:
  • Total step time: 34.12s
  • policy_training: 11.00s (32.2%)
========================= Step 4/100 =========================
""".replace("{noise}", "\n".join(f"generated {count}/64" for count in range(100)))


def test_printed_results_are_a_step_and_its_validation():
    found = read("train.log", CONSOLE.encode())
    (step,) = of(Step, found)
    assert (step.step, step.rank) == (3, 0)
    assert canonical_values("nemo-rl", step.metrics) == {
        "loss": 0.0123,
        "mismatch_kl": 0.0007,
        "reward_mean": 0.4127,
        "completion_tokens_mean": 187.25,
        "step_time": 34.12,
    }
    assert [(record.step, record.metrics) for record in of(Eval, found)] == [
        (3, {"accuracy": 0.45, "avg_length": 45.2})
    ]
    assert Run(framework="nemo-rl", total_steps=100) in found


def test_a_step_that_is_being_printed_is_given_while_nothing_more_comes():
    whole = CONSOLE.encode().split(b"========================= Step 4")[0]
    reader = ResultsReader()
    assert of(Step, fed_without_end(reader, whole)) == []
    assert [step.step for step in of(Step, reader.idle())] == [3]
    assert reader.idle() == reader.end() == []


def fed_without_end(reader: ResultsReader, data: bytes) -> list[object]:
    return [record for lines in batches(data) for record in reader.feed(lines)]


# Whatever is cut, the same records

LINES = [
    json.dumps(SAMPLE).encode(),
    json.dumps(SAMPLE)[:80].encode(),
    b'{"content": [["a"]]}',
    b"[]",
    b"\r",
    b"",
    *CONSOLE.encode().splitlines()[-14:],
    b"========================= Step 9/9 =========================",
]


@given(st.lists(st.sampled_from(LINES), max_size=20), st.sets(st.integers(1, 19)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    for reader in (SampleReader(1, "train"), ResultsReader()):
        assert repr(fed(reader.fresh(), data, cuts)) == repr(fed(reader.fresh(), data))


def test_garbage_between_records_loses_itself_alone():
    sample = json.dumps(SAMPLE).encode()
    found = fed(SampleReader(1, "train"), b"\n".join([sample, sample[:60], sample]))
    assert [type(record) for record in found] == [Rollout, Skipped, Rollout]


# Traps of its scalars


def test_shares_of_baselines_are_percentages():
    metrics = {"train/baseline_reward/pct_0": 12.5, "train/baseline_reward/pct_1": 25.0}
    assert canonical_values("nemo-rl", metrics)["zero_variance_group_frac"] == 0.375


def test_step_10_comes_after_step_2(tmp_path):
    for step in (1, 2, 10):
        (tmp_path / f"train_data_step{step}.jsonl").write_text(json.dumps(SAMPLE) + "\n")
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    where = [source.where for source in monitor.snapshot(finished=True).sources]
    assert where == ["train_data_step1.jsonl", "train_data_step2.jsonl", "train_data_step10.jsonl"]


def test_the_agent_of_a_sample_is_its_family_and_fields_that_a_version_adds_are_taken():
    sample = {
        "agent_ref": [{"name": "math", "type": "responses_api_agents"}],
        "content": [["2+2?", "4"]],
        "rewards": [1.0],
        "truncated": [True],
        "weight_version": [6],
    }
    (found,) = of(Rollout, read("train_data_step7.jsonl", json.dumps(sample).encode()))
    assert (found.family, found.truncated, found.policy_version) == ("math", True, 6)
