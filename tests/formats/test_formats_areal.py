import json
from statistics import fmean

import pytest
from format_reading import fed, of, opened, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.areal import Schedule, TableReader, TrajectoryReader
from grpo_top.formats.base import RunContext
from grpo_top.formats.names import canonical_values
from grpo_top.records import Eval, Rollout, Run, Skipped, Step

RECORD = {
    "task_id": 5,
    "sample_idx": 3,
    "seqlen": 15,
    "prompt_len": 6,
    "head_version": -1,
    "tail_version": 1,
    "reward": 1.55,
    "prompt": "10+39=",
    "completion": "<answer>40</answer>",
}
TRIAL = "logs/root/grpo-demo/trial0"


def dumped(*records: dict[str, object], name: str = f"{TRIAL}/rollout/1/5.jsonl") -> list[object]:
    return read(name, b"".join(json.dumps(record).encode() + b"\n" for record in records))


def steps_of(tasks: dict[int, int]) -> dict[int, int]:
    """The step of each task that ended under a version, where all of them are there when reading begins."""
    schedule = Schedule()
    for task, version in tasks.items():
        schedule.expect(task, version)
    return {task: schedule.step(task, version) for task, version in tasks.items()}


# Trajectories


def test_a_file_is_a_group_and_the_task_its_id():
    name = f"{TRIAL}/rollout/0/0.jsonl"
    found = read(name, packed("areal", name))
    assert [(rollout.group, rollout.index) for rollout in found] == [("0", index) for index in range(8)]
    assert fmean(rollout.reward for rollout in found) == pytest.approx(1.19375, abs=1e-6)


def test_the_length_is_what_follows_the_prompt():
    (found,) = dumped(RECORD)
    assert (found.prompt_tokens, found.completion_tokens) == (6, 9)


def test_a_head_version_of_minus_1_is_the_prompts_and_says_nothing():
    (found,) = dumped(RECORD)
    assert (found.policy_version, found.policy_version_end) == (None, 1)
    (found,) = dumped(RECORD | {"head_version": 0})
    assert (found.policy_version, found.policy_version_end) == (0, 1)


def test_whether_a_completion_was_cut_is_not_said():
    (found,) = dumped(RECORD)
    assert (found.truncated, found.finish_reason) == (None, None)


def test_evaluations_lie_in_a_folder_of_their_own():
    assert dumped(RECORD, name=f"{TRIAL}/eval-rollout/1/5.jsonl")[0].split == "eval"
    assert dumped(RECORD)[0].split == "train"


def test_the_folder_is_a_policy_version_and_not_a_step():
    """A step takes 4 groups; the first of each was finished one version before."""
    tasks = {task: max(task - 1, 0) // 4 for task in range(40)}
    assert steps_of(tasks) == {task: task // 4 + 1 for task in range(40)}


@pytest.mark.parametrize(
    "tasks",
    [
        {0: 0, 1: 0, 2: 1},
        {0: 0, 1: 0, 2: 1, 3: 1, 4: 1, 5: 2, 6: 3},
        {0: 0, 2: 1, 3: 1, 5: 2, 6: 2, 7: 3},
        {0: 2, 1: 2, 2: 3, 3: 3, 4: 4, 5: 4, 6: 5},
    ],
    ids=["too few versions", "uneven versions", "tasks are missing", "begun later"],
)
def test_where_versions_show_no_batch_a_group_belongs_to_the_step_after_its_version(tasks):
    assert steps_of(tasks) == {task: version + 1 for task, version in tasks.items()}


def test_a_run_that_is_watched_from_its_beginning_goes_by_versions_throughout():
    schedule = Schedule()
    schedule.expect(0, 0)
    assert schedule.step(0, 0) == 1
    for task in range(1, 40):
        schedule.expect(task, task // 4)
        assert schedule.step(task, task // 4) == task // 4 + 1


def test_a_version_in_the_record_that_no_schedule_explains_wins():
    schedule = Schedule()
    for task in range(40):
        schedule.expect(task, task // 4)
    assert schedule.step(40, 10) == 11
    assert schedule.step(41, 30) == 31


def test_readers_of_one_run_share_the_schedule():
    context = RunContext()
    data = json.dumps(RECORD).encode()
    readers = [
        opened(f"{TRIAL}/rollout/{max(task - 1, 0) // 4}/{task}.jsonl", data, context) for task in range(40)
    ]
    record = RECORD | {"task_id": 4, "tail_version": 0}
    assert fed(readers[4], json.dumps(record).encode())[0].step == 2


@pytest.mark.parametrize("broken", [{"tail_version": None}, {"tail_version": "x"}])
def test_a_trajectory_without_a_version_is_skipped(broken):
    assert [type(record) for record in dumped(RECORD, RECORD | broken, RECORD)] == [Rollout, Skipped, Rollout]


# The console


def test_printed_tables_are_steps_with_several_numbers_a_row():
    found = read("console_table.log", packed("areal", "console_table.log"))
    steps = of(Step, found)
    assert [step.step for step in steps] == list(range(1, 41))
    assert len(steps[0].metrics) == 10
    values = canonical_values("areal", steps[0].metrics)
    assert (values["reward_mean"], values["truncation_rate"]) == (0.9375, 0.4375)
    assert set(of(Run, found)) == {Run(framework="areal", total_steps=150)}


def test_several_tables_of_one_step_and_its_evaluation():
    data = (
        "\x1b[36m20261130-10:24:33.123 StatsLogger INFO: Epoch 1/1 Step 2/9 Train step 2/9 done.\x1b[0m\n"
        "20261130-10:24:33.124 StatsLogger INFO: Stats (1/2):\n"
        "│ ppo_actor/task_reward/avg │ 9.3e-01 │ eval-rollout/reward │ 5.0e-01 │\n"
        "╘═══╧═══╛\n"
        "20261130-10:24:33.125 StatsLogger INFO: Stats (2/2):\n"
        "│ ppo_actor/update/lr │ 1e-06 │ │ │\n"
    )
    found = read("main.log", data.encode())
    assert [(step.step, len(step.metrics)) for step in of(Step, found)] == [(2, 2)]
    assert [(record.step, record.metrics) for record in of(Eval, found)] == [(2, {"reward": 0.5})]


# Whatever is cut, the same records

LINES = [
    json.dumps(RECORD).encode(),
    json.dumps(RECORD)[:50].encode(),
    b"Train step 3/9 done.",
    "│ a/b │ 1.0 │ c/d │ nan │".encode(),
    "│ a │".encode(),
    b"noise",
    b"\r",
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=14), st.sets(st.integers(1, 13)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    for reader in (TrajectoryReader("train", Schedule()), TableReader()):
        assert repr(fed(reader.fresh(), data, cuts)) == repr(fed(reader.fresh(), data))


def test_garbage_between_records_loses_itself_alone():
    record = json.dumps(RECORD).encode()
    found = fed(TrajectoryReader("train", Schedule()), b"\n".join([record, record[:60], record]))
    assert [type(record) for record in found] == [Rollout, Skipped, Rollout]


def test_fields_that_a_version_adds_are_taken_by_their_usual_names():
    record = {
        "task_id": 3,
        "sample_idx": 0,
        "seqlen": 9,
        "prompt_len": 4,
        "head_version": -1,
        "tail_version": 2,
    }
    extras = {"reward": 1.0, "prompt": "2+2?", "completion": "4", "truncated": False, "data_source": "gsm8k"}
    (found,) = of(Rollout, read("rollout/2/3.jsonl", json.dumps(record | extras).encode()))
    assert (found.truncated, found.family, found.task) == (False, "gsm8k", None)


@pytest.mark.parametrize(("folder", "split"), [("generated", "train"), ("generated-eval", "eval")])
def test_dumps_of_2025_are_texts_in_folders_of_versions(folder, split):
    dim, plain = "\x1b[33m\x1b[2m", "\x1b[0m"
    data = "".join(
        f"idx: {n} / 2, seqlen: 30, reward is {reward}.\nprompt is \n{dim}2+2?{plain}\n"
        f"sequence is: \n{dim}It is\n{n}.{plain}\n"
        for n, reward in ((1, 1.0), (2, 0))
    ).encode()
    found = read(f"run/{folder}/7/a1b2.txt", data)
    assert [(rollout.step, rollout.group, rollout.index, rollout.reward) for rollout in found] == [
        (8, "a1b2", 0, 1.0),
        (8, "a1b2", 1, 0.0),
    ]
    assert found[0]._replace(location=None) == Rollout(
        step=8,
        group="a1b2",
        index=0,
        reward=1.0,
        split=split,
        prompt="2+2?",
        completion="It is\n1.",
        policy_version_end=7,
        location=None,
    )
    reader = opened(f"run/{folder}/7/a1b2.txt", data)
    assert [reader.replay(data, rollout.location) for rollout in found] == found
