import copy
import json
import re
import tarfile
from pathlib import PurePath

import pytest
import runs
from format_reading import DATA, fed, of, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.names import canonical_values
from grpo_top.formats.registry import choose
from grpo_top.formats.rllm import EpisodeReader, MetricsReader
from grpo_top.records import Eval, Location, Message, Rollout, Run, Skipped, Step

FOLDER = "episodes/train_step_12_epoch_0"


def turn(observation: str, answer: str, before: list[dict[str, str]], reward: float) -> dict[str, object]:
    said = [*before, {"role": "user", "content": observation}, {"role": "assistant", "content": answer}]
    return {"observation": observation, "model_response": answer, "reward": reward, "chat_completions": said}


FIRST = turn("2+2?", "hm", [], 0.0)
SECOND = turn("so?", "4", FIRST["chat_completions"], 1.0)
EPISODE = {
    "training_step": 12,
    "epoch": 0,
    "episode_id": "a-b:3",
    "task": {"id": "add/1", "data_source": "add", "question": "2+2?"},
    "task_hash": "87d8ee64",
    "is_correct": True,
    "termination_reason": "env_done",
    "metrics": {"accuracy": 1.0, "response_tokens": 9, "num_turns": 1},
    "trajectories": [{"name": "solver", "uid": "u", "reward": 0.5, "steps": [FIRST]}],
}


def episode(**fields: object) -> list[Rollout]:
    data = json.dumps(copy.deepcopy(EPISODE) | fields, indent=2).encode() + b"\n"
    return of(Rollout, read(f"{FOLDER}/episode_hashx_idy_3.json", data))


def test_a_file_is_an_episode_whose_id_is_its_group_and_number():
    (found,) = episode()
    assert (found.step, found.split, found.group, found.index) == (12, "train", "a-b", 3)
    assert (found.reward, found.rewards, found.completion_tokens) == (0.5, {"accuracy": 1.0}, 9)
    assert (found.prompt, found.completion, found.family) == ("2+2?", "hm", "add")


def test_the_same_task_drawn_twice_is_two_groups_although_its_hash_is_one():
    (first,), (second,) = episode(), episode(episode_id="c-d:0")
    assert first.task == second.task
    assert first.group != second.group


@pytest.mark.parametrize(
    ("reason", "truncated"),
    [("env_done", False), ("max_response_length_exceeded", True), ("unknown", None), (None, None)],
)
def test_the_reason_for_the_end_says_whether_it_was_cut(reason, truncated):
    (found,) = episode(termination_reason=reason)
    assert (found.termination, found.truncated) == (reason, truncated)


def test_each_turn_comes_once_with_its_reward_though_steps_repeat_what_came_before():
    (found,) = episode(trajectories=[{"name": "solver", "reward": 1.0, "steps": [FIRST, SECOND]}])
    assert found.messages == [
        Message("user", "2+2?"),
        Message("assistant", "hm", reward=0.0),
        Message("user", "so?"),
        Message("assistant", "4", reward=1.0),
    ]
    assert (found.prompt, found.completion) == ("2+2?", "hm\n4")


def test_steps_with_conversations_of_their_own_follow_one_another():
    steps = [FIRST, turn("3+3?", "6", [], 1.0)]
    (found,) = episode(trajectories=[{"name": "solver", "reward": 1.0, "steps": steps}])
    assert [message.content for message in found.messages] == ["2+2?", "hm", "3+3?", "6"]


def test_several_trajectories_are_rollouts_in_groups_of_their_names():
    judge = {"name": "judge", "reward": 0.1, "steps": [FIRST]}
    found = episode(trajectories=[EPISODE["trajectories"][0], judge])
    assert [(rollout.group, rollout.index, rollout.location.part) for rollout in found] == [
        ("a-b solver", None, 0),
        ("a-b judge", None, 1),
    ]
    assert {rollout.completion_tokens for rollout in found} == {None}


def test_a_validation_folder_holds_evaluation_rollouts():
    data = json.dumps(EPISODE).encode()
    (found,) = read("episodes/val_step_12_epoch_0/episode.json", data)
    assert found.split == "eval"


def test_the_summary_beside_the_episodes_is_not_read():
    name = "episodes/train_step_46_epoch_0/batch_summary.json"
    assert choose(PurePath(name), packed("rllm-sampler_cold", name))[1].feed == "none"


def test_every_episode_of_the_run_is_replayed(tmp_path):
    snapshot = runs.read(runs.unpack_sample("rllm-sampler_cold", tmp_path))
    assert snapshot.rollouts.length == 192
    for row in range(0, 192, 7):
        found = snapshot.read(row)
        assert isinstance(found, Rollout)
        assert found.completion.startswith("<answer>") or found.completion


def test_a_second_trajectory_is_replayed():
    judge = {"name": "judge", "reward": 0.1, "steps": [SECOND]}
    data = json.dumps(EPISODE | {"trajectories": [EPISODE["trajectories"][0], judge]}).encode()
    assert EpisodeReader("train").replay(data, Location(0, 0, 1)).completion == "hm\n4"
    assert EpisodeReader("train").replay(data, Location(0, 0, 2)) is None


@pytest.mark.parametrize(
    ("data", "reason"), [(b"{", "not JSON"), (b"[1]", "not a JSON"), (b"{}", "episode without")]
)
def test_what_is_no_episode_is_skipped(data, reason):
    (found,) = EpisodeReader("train").whole(data)
    assert found.reason.startswith(reason)


anything = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers())
)


@given(
    st.dictionaries(st.sampled_from(list(EPISODE)), anything),
    st.dictionaries(st.sampled_from([*EPISODE["trajectories"][0], *FIRST]), anything),
)
def test_fields_of_any_kind_break_nothing(fields, inner):
    trajectory = EPISODE["trajectories"][0] | inner
    for record in (EPISODE | fields, EPISODE | {"trajectories": [trajectory, inner | {"steps": [inner]}]}):
        EpisodeReader("train").whole(json.dumps(record).encode())


# Metrics


def test_the_file_logger_has_verls_shape_and_keys_of_its_own():
    found = read("logs/x.jsonl", packed("rllm-sampler_cold", "metrics.jsonl"))
    assert found[0] == Run(framework="rllm")
    assert [step.step for step in of(Step, found)] == list(range(46, 58))
    values = canonical_values("rllm", of(Step, found)[0].metrics)
    assert (values["reward_mean"], values["version_lag_max"], values["truncation_rate"]) == (
        0.884375,
        0.0,
        0.0,
    )
    assert values["termination{env_done}"] == 1.0


def test_a_verl_log_without_keys_of_rllm_is_verls():
    data = json.dumps({"step": 1, "data": {"critic/score/mean": 0.5, "actor/lr": 1e-6}}).encode()
    assert choose(PurePath("m.jsonl"), data)[0].name == "verl"


def test_validation_is_told_by_its_data_source():
    row = {
        "step": 5,
        "data": {"batch/x": 1, "val/math/pass@1": 0.2, "val/math/pass@4": 0.5, "val/code/pass@1": 0.1},
    }
    found = read("m.jsonl", json.dumps(row).encode())
    assert [(record.suite, record.metrics) for record in of(Eval, found)] == [
        ("code", {"pass@1": 0.1}),
        ("math", {"pass@1": 0.2, "pass@4": 0.5}),
    ]


LINES = [
    json.dumps({"step": 1, "data": {"reward/mean": 0.5, "val/a/pass@1": float("nan")}}).encode(),
    b'{"step": 2, "data": {"reward/mean": NaN}}',
    b'{"step": 2, "data"',
    b'{"step": "x", "data": {}}',
    b'{"step": 1, "data": 3}',
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=8), st.sets(st.integers(1, 7)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    assert repr(fed(MetricsReader(), data, cuts)) == repr(fed(MetricsReader(), data))


def test_garbage_between_rows_loses_itself_alone():
    found = fed(MetricsReader(), b"\n".join([LINES[0], LINES[2], LINES[0]]))
    assert [type(record) for record in found] == [Run, Step, Eval, Skipped, Step, Eval]


def test_file_names_of_the_sample_are_what_the_logger_makes():
    with tarfile.open(DATA.parent / "samples" / "rllm-sampler_cold.tar.xz") as archive:
        names = [name for name in archive.getnames() if "episode_hash" in name]
    assert len(names) == 192
    assert all(re.search(r"episode_hash[0-9a-f]{8}_id[0-9a-f-]{36}_\d\.json$", name) for name in names)


def test_where_an_environment_counts_nothing_whether_it_was_correct_is_the_component():
    (found,) = episode(metrics={}, is_correct=True)
    assert found.rewards == {"is_correct": 1.0}
    (found,) = episode(metadata={"seed": 5, "difficulty": "hard"})
    assert (found.seed, found.tier) == (5, "hard")
