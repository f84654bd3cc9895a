import json
import math
from pathlib import Path, PurePath

import pytest
from format_reading import fed, lines, of, opened, packed, read, sample
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.config import Settings
from grpo_top.formats.base import RunContext
from grpo_top.formats.names import canonical, canonical_values, heldout_value
from grpo_top.formats.tinker import MetricsReader, SummaryReader, TableReader
from grpo_top.formats.tinker_logtree import KEPT, texts_of
from grpo_top.formats.tinker_summaries import KEPT_READERS
from grpo_top.monitor import Monitor
from grpo_top.records import Eval, Message, Rollout, Run, Skipped, Step

TURN = {"step_idx": 0, "ob_len": 20, "ac_len": 30, "reward": 0.1, "metrics": {"format": 1.0}, "logs": {}}
SUMMARY = {
    "schema_version": 1,
    "split": "train",
    "iteration": 7,
    "group_idx": 2,
    "traj_idx": 5,
    "tags": ["arithmetic", "hard"],
    "sampling_client_step": 6,
    "total_reward": 1.1,
    "final_reward": 1.0,
    "trajectory_metrics": {},
    "steps": [TURN],
}
ROW = {"step": 3, "env/all/reward/total": 0.5, "optim/lr": 1e-4, "progress/done_frac": 0.1}


SUMMARIES = "iteration_000007/train_rollout_summaries.jsonl"
TREE = "iteration_000007/train_logtree.json"


def summaries(*records: dict[str, object], context: RunContext | None = None) -> list[object]:
    return read(SUMMARIES, lines(*records), context)


def metrics(*records: dict[str, object]) -> list[object]:
    return read("metrics.jsonl", lines(*records))


# metrics.jsonl


def test_steps_count_from_0_and_the_share_done_tells_how_many_there_are():
    found = read("metrics.jsonl", packed("tinker-multiturn", "metrics.jsonl"))
    assert [step.step for step in of(Step, found)] == list(range(6))
    assert of(Run, found) == [Run(framework="tinker", total_steps=24)]


def test_the_last_step_says_that_training_has_ended():
    found = metrics(ROW | {"step": 9, "progress/done_frac": 1.0})
    assert of(Run, found) == [Run(framework="tinker", total_steps=10, finished=True)]


def test_a_row_of_an_evaluation_alone_is_no_step():
    found = read("metrics.jsonl", packed("tinker-multiturn", "metrics.jsonl"))
    last = of(Eval, found)[-1]
    assert (last.step, last.suite) == (24, "test")
    assert last.metrics == {"reward/total": 0.81, "correct": 0.77}
    assert heldout_value(last.metrics) == 0.81


def test_evaluators_are_told_by_their_names():
    found = of(
        Eval,
        metrics(ROW | {"math/env/all/reward/total": 0.2, "math/env/hard/reward/total": 0.1, "nll/x": 2.0}),
    )
    assert [(record.suite, record.metrics["reward/total"]) for record in found if record.suite == "math"] == [
        ("math", 0.2)
    ]
    assert [record.suite for record in found] == ["math", "nll"]


def test_a_row_without_a_step_adds_to_the_step_before():
    found = of(Step, metrics(ROW, {"time/save": 2.0}))
    assert [(step.step, step.metrics) for step in found][1] == (3, {"time/save": 2.0})


def test_a_row_without_a_step_at_the_beginning_is_skipped():
    assert isinstance(fed(MetricsReader(), lines({"time/save": 2.0}, ROW))[0], Skipped)


def test_a_bare_nan_is_not_finite_and_the_next_row_is_read():
    data = b'{"step": 1, "optim/kl_sample_train_v1": NaN, "env/all/reward/total": 0.5}\n' + lines(ROW)
    first, second = of(Step, read("metrics.jsonl", data))
    assert math.isnan(first.metrics["optim/kl_sample_train_v1"])
    assert second.step == 3


def test_the_share_of_turns_that_carry_a_stop_reason_is_not_a_truncation_rate():
    assert canonical("tinker", "env/all/stop/max_tokens") is None


def test_keys_repeated_for_each_tag_are_not_the_runs():
    values = canonical_values("tinker", {"env/all/reward/total": 0.5, "env/easy/reward/total": 0.9})
    assert values == {"reward_mean": 0.5}


def test_groups_that_are_not_mixed_have_no_variance():
    values = canonical_values("tinker", {"env/all/by_group/frac_mixed": 0.75})
    assert values["zero_variance_group_frac"] == 0.25


def test_the_share_of_correct_answers_is_a_component_and_the_success_rate():
    values = canonical_values("tinker", {"env/all/correct": 0.25})
    assert values == {"component_mean{correct}": 0.25, "success_rate": 0.25}


def test_an_environments_numbers_are_components_but_its_counts_are_not():
    values = canonical_values("tinker", {"env/all/format": 0.5, "env/all/turns_per_episode": 2.0})
    assert values == {"component_mean{format}": 0.5}


# config.json


def test_the_config_is_the_intended_sampling():
    (run,) = read("config.json", packed("tinker-multiturn", "config.json"))
    assert (run.framework, run.group_size, run.sampling) == ("tinker", 8, {"max_tokens": 256})


def test_a_config_of_nested_builders_is_read():
    config = {
        "model_name": "m",
        "log_path": "/x",
        "dataset_builder": {"group_size": 4},
        "lora_rank": 32,
        "max_tokens": 512,
        "temperature": 1.0,
    }
    (run,) = read("config.json", json.dumps(config, indent=2).encode())
    assert (run.group_size, run.sampling) == (4, {"max_tokens": 512, "temperature": 1.0})


# Rollout summaries


def test_a_summary_is_a_rollout_with_group_index_and_versions():
    (found,) = summaries(SUMMARY)
    assert (found.step, found.group, found.index, found.reward) == (7, "2", 5, 1.1)
    assert (found.policy_version, found.trainer_version) == (6, 7)
    assert (found.family, found.split) == ("arithmetic hard", "train")


@pytest.mark.parametrize("split", ["test", "eval/gsm8k"])
def test_any_other_split_is_an_evaluation(split):
    assert summaries(SUMMARY | {"split": split})[0].split == "eval"


def test_the_reward_is_the_total_where_the_turns_carry_none():
    found = read("x.jsonl", packed("tinker-multiturn", "iteration_000000/train_rollout_summaries.jsonl"))
    assert len(found) == 64
    assert found[0].reward == 1.1
    assert {message.reward for message in found[0].messages if message.role == "assistant"} == {0.0}


def test_the_completion_is_as_long_as_all_turns_together():
    found = read("x.jsonl", packed("tinker-multiturn", "iteration_000000/train_rollout_summaries.jsonl"))
    assert (found[0].prompt_tokens, found[0].completion_tokens) == (20, 51)


def test_texts_are_those_that_the_environment_logs():
    turns = [
        TURN | {"logs": {"problem": "1+1?", "response": "3", "gold": "2"}},
        TURN | {"logs": {"problem": "1+1?", "response": "2"}, "reward": 1.0},
    ]
    (found,) = summaries(SUMMARY | {"steps": turns})
    assert (found.prompt, found.completion) == ("1+1?", "3\n2")
    assert found.messages == [
        Message("user", "1+1?"),
        Message("assistant", "3", reward=0.1),
        Message("assistant", "2", reward=1.0),
    ]


def test_without_texts_there_are_none():
    (found,) = summaries(SUMMARY)
    assert (found.prompt, found.completion, found.messages) == (None, None, None)


@pytest.mark.parametrize(
    ("reason", "truncated"), [("completed", False), ("max_tokens", True), ("context_overflow", True)]
)
def test_the_reason_to_stop_says_what_was_cut(reason, truncated):
    (found,) = summaries(SUMMARY | {"steps": [TURN, TURN | {"metrics": {f"stop/{reason}": 1.0}}]})
    assert (found.termination, found.truncated) == (reason, truncated)


@pytest.mark.parametrize(("budget", "truncated"), [(30, True), (31, False), (None, None)])
def test_without_a_reason_a_turn_that_used_the_budget_was_cut(budget, truncated):
    context = RunContext()
    read(
        "config.json",
        json.dumps({"model_name": "m", "group_size": 8, "lora_rank": 1, "max_tokens": budget}).encode(),
        context,
    )
    assert summaries(SUMMARY, context=context)[0].truncated is truncated


def test_an_environments_numbers_are_means_over_the_turns_that_carry_them():
    turns = [
        TURN | {"metrics": {"format": 1.0, "num_turns": 3}},
        TURN | {"metrics": {"format": 0.0, "correct": 1.0}},
    ]
    assert summaries(SUMMARY | {"steps": turns})[0].rewards == {"format": 0.5, "correct": 1.0}


@pytest.mark.parametrize("broken", [{"iteration": None}, {"iteration": "x"}])
def test_a_summary_without_an_iteration_is_skipped(broken):
    assert [type(record) for record in summaries(SUMMARY, SUMMARY | broken, SUMMARY)] == [
        Rollout,
        Skipped,
        Rollout,
    ]


@pytest.mark.parametrize("odd", [{"steps": None}, {"steps": [3]}, {"tags": "x"}, {"total_reward": None}])
def test_a_field_of_another_shape_is_unknown(odd):
    assert [type(record) for record in summaries(SUMMARY | odd)] == [Rollout]


# Texts of the logtree: the tree was written by tinker-cookbook's own logtree module, what stands in it is made up


REWARDS = {0: (1.0, 0.0, 1.0), 1: (0.0, 0.0, 1.0)}


def logged_in_full() -> list[dict[str, object]]:
    """The summaries of the tree's two groups, after a group that it does not hold."""
    groups = {2: (0.0, 1.0, 0.0), 0: REWARDS[0], 1: REWARDS[1]}
    return [
        SUMMARY
        | {"group_idx": group, "traj_idx": number, "total_reward": reward}
        | {"steps": [TURN | {"ac_len": 10 + 10 * group + number, "ob_len": 5, "metrics": {}}]}
        for group, rewards in groups.items()
        for number, reward in enumerate(rewards)
    ]


def tree() -> bytes:
    return sample("tinker/train_logtree.json.gz")


def seen_texts(found: list[object]) -> dict[tuple[str, int], str | None]:
    return {(one.group, one.index): one.completion for one in of(Rollout, found)}


TEXTS = {(str(group), number): f"answer {number} {'x' * number}" for group in REWARDS for number in range(3)}


def test_texts_of_groups_that_are_logged_in_full_are_matched_by_reward_and_then_by_length():
    context = RunContext()
    assert read(TREE, tree(), context) == []
    found = summaries(*logged_in_full(), context=context)
    assert seen_texts(found) == TEXTS | {("2", number): None for number in range(3)}
    prompts = {(rollout.group, rollout.prompt) for rollout in of(Rollout, found)}
    assert prompts == {("2", None), ("0", "2+2?"), ("1", "1+2?")}


def test_texts_that_come_after_the_summaries_are_added_once():
    context = RunContext()
    reader = opened(SUMMARIES, lines(*logged_in_full()), context)
    first = fed(reader, lines(*logged_in_full()))
    assert set(seen_texts(first).values()) == {None}
    read(TREE, tree(), context)
    again = reader.idle()
    assert seen_texts(again) == TEXTS
    assert [rollout.location for rollout in again] == [rollout.location for rollout in first[3:]]
    assert reader.idle() == reader.end() == []


def test_texts_of_old_iterations_are_let_go_and_read_again_where_they_are_asked_for(tmp_path):
    context = RunContext()
    names = [f"iteration_{number:06}/train_logtree.json" for number in range(KEPT + 1)]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir()
        path.write_bytes(tree())
        read(str(path), tree(), context)
    data = lines(logged_in_full()[3])
    reader = opened(str(Path(tmp_path / names[0]).with_name("train_rollout_summaries.jsonl")), data, context)
    (rollout,) = of(Rollout, fed(reader, data))
    assert rollout.completion is None
    assert reader.replay(data.strip(), rollout.location).completion == TEXTS["0", 0]
    (tmp_path / names[0]).unlink()
    assert reader.replay(data.strip(), rollout.location).completion is None


def test_rollouts_wait_for_their_texts_in_the_newest_files_alone():
    context = RunContext()
    data = lines(*logged_in_full())
    names = [f"iteration_{number:06}" for number in range(KEPT_READERS + 1)]
    readers = [opened(f"{name}/train_rollout_summaries.jsonl", data, context) for name in names]
    for reader in readers:
        fed(reader, data)
    for name in names:
        read(f"{name}/train_logtree.json", tree(), context)
    assert [len(reader.idle()) for reader in readers] == [0, *[6] * KEPT_READERS]


def test_a_tree_of_another_shape_adds_nothing():
    context = RunContext()
    for data in (
        tree()[:-9],
        b'{"root": 3, "x": "lt-root"}',
        tree().replace(b"Policy Response", b"Thoughts"),
    ):
        read(TREE, data, context)
    assert set(seen_texts(summaries(*logged_in_full(), context=context)).values()) <= {None, ""}
    assert texts_of(context).version == 1


# The console


def test_printed_tables_are_steps_and_evaluations():
    found = read("logs.log", packed("tinker-multiturn", "logs.log"))
    assert [step.step for step in of(Step, found)] == list(range(6))
    assert of(Step, found)[0].metrics["env/all/total_episodes"] == 64.0
    assert [(record.step, record.metrics["correct"]) for record in of(Eval, found)][-1] == (24, 0.77)
    assert {record.rank for record in (*of(Step, found), *of(Eval, found))} == {0}


# Whatever is cut, the same records

TABLE = """tinker_cookbook.utils.ml_log:279 [INFO]
           Step 4
┏━━━━━━━━━━━━━┳━━━━━━━┓
┃ Metric      ┃ Value ┃
┡━━━━━━━━━━━━━╇━━━━━━━┩
│ env/all/x   │ 0.5   │
│ optim/lr    │ nan   │
└─────────────┴───────┘""".encode().splitlines()
LINES = [
    json.dumps(SUMMARY).encode(),
    json.dumps(ROW).encode(),
    b'{"time/save": 1.0}',
    b'{"step": 5, "x": NaN, "test/env/all/reward/total": 0.1}',
    b'{"step": 5, "x"',
    b"\r",
    b"",
    *TABLE,
]


@given(st.lists(st.sampled_from(LINES), max_size=14), st.sets(st.integers(1, 13)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    for reader in (SummaryReader(PurePath(SUMMARIES), RunContext()), MetricsReader(), TableReader()):
        assert repr(fed(reader.fresh(), data, cuts)) == repr(fed(reader.fresh(), data))


def test_garbage_between_records_loses_itself_alone():
    summary = json.dumps(SUMMARY).encode()
    found = fed(
        SummaryReader(PurePath(SUMMARIES), RunContext()), b"\n".join([summary, summary[:60], summary])
    )
    assert [type(record) for record in found] == [Rollout, Skipped, Rollout]
    found = fed(TableReader(), b"\n".join([*TABLE[:5], b"\xff\x00 noise \xe2", *TABLE[5:]]))
    assert [sorted(step.metrics) for step in of(Step, found)] == [["env/all/x", "optim/lr"]]


# A resume


def test_metrics_that_are_rewritten_on_resume_take_the_place_of_the_old_ones(tmp_path):
    log = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "env/all/reward/total": 0.1} for step in range(6)]
    log.write_bytes(lines(*rows))
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.poll()
    log.rename(tmp_path / "metrics.jsonl.pre_resume_000001")
    log.write_bytes(lines(*rows[:4]))
    monitor.poll()
    with log.open("ab") as file:
        file.write(lines(*({"step": step, "env/all/reward/total": 0.9} for step in range(4, 7))))
    monitor.read_all()
    series = monitor.snapshot(finished=True).series["reward_mean"]
    assert dict(zip(series.steps.tolist(), series.values.tolist(), strict=True)) == {
        **dict.fromkeys(range(4), 0.1),
        **dict.fromkeys(range(4, 7), 0.9),
    }
