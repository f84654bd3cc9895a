"""W&B's `.wandb` files: what the real ones hold, and what others may."""

import json
import math
from pathlib import Path, PurePath

import pytest
from format_reading import of
from hypothesis import given
from hypothesis import strategies as st
from tracker_messages import (
    WANDB_EXIT,
    WANDB_HEADER,
    field,
    items,
    leveldb_log,
    wandb_row,
    wandb_run,
)
from tracker_samples import OFFLINE

from grpo_top.config import Settings
from grpo_top.formats.base import RunContext
from grpo_top.formats.registry import choose
from grpo_top.monitor import Monitor
from grpo_top.records import Eval, Rollout, Run, Skipped, Step

NAME = "wandb/offline-run-20261130_120948-abc/run-abc.wandb"
TRL = {"train/reward": 0.5, "train/kl": 0.1, "train/frac_reward_zero_std": 0.0}


def read(*records):
    data = leveldb_log(WANDB_HEADER, records)
    format_, claim = choose(PurePath(NAME), data)
    assert (format_.name, claim.feed, claim.run) == ("wandb", "bytes", "abc")
    reader = format_.reader(PurePath(NAME), claim, RunContext())
    return reader.feed_bytes(0, data) + reader.end()


def test_a_file_of_seven_bytes_is_a_run_that_has_just_begun():
    assert read() == []


def test_step_counts_log_calls_and_the_trainers_step_is_inside():
    found = read(
        wandb_row(20, TRL | {"train/global_step": 20, "train/epoch": 0.1}),
        wandb_row(22, {"eval/reward": 0.8, "train/global_step": 20, "train/epoch": 0.1}),
        wandb_row(23, TRL | {"train/global_step": 21, "train/epoch": 0.2}),
        wandb_row(24, {"train/global_step": 21, "train/epoch": 0.2}),
    )
    assert [step.step for step in of(Step, found)] == [20, 21]
    assert [(evaluation.step, evaluation.metrics) for evaluation in of(Eval, found)] == [
        (20, {"reward": 0.8})
    ]


def test_with_a_step_given_train_and_evaluation_are_one_row():
    found = read(wandb_row(20, TRL | {"eval/reward": 0.8}))
    assert [record.step for record in found if isinstance(record, Step | Eval)] == [20, 20]


def test_keys_are_in_nested_key_and_in_older_versions_in_key():
    for nested in (True, False):
        found = read(field(2, items(TRL, nested=nested) + field(2, field(1, 7))))
        assert [(step.step, len(step.metrics)) for step in of(Step, found)] == [(7, 3)]


def test_a_key_of_several_parts_is_one_name():
    item = field(1, field(2, "train") + field(2, "reward") + field(16, "0.5"))
    (step,) = of(Step, read(field(2, item + field(2, field(1, 7)))))
    assert step.metrics == {"train/reward": 0.5}


def test_step_zero_is_left_out_of_the_message():
    (step,) = of(Step, read(field(2, items(TRL) + field(2, b""))))
    assert step.step == 0


def test_numbers_that_are_not_finite_are_bare_words():
    values = TRL | {"train/kl": math.nan, "train/loss": -math.inf, "train/entropy": None}
    (step,) = of(Step, read(wandb_row(1, values)))
    assert math.isnan(step.metrics["kl"])
    assert (step.metrics["loss"], step.metrics["entropy"]) == (-math.inf, None)


def test_pictures_tables_and_words_are_no_numbers():
    values = TRL | {"table": {"_type": "table-file"}, "phase": "warm", "shape": [1, 2], "flag": True}
    (step,) = of(Step, read(wandb_row(1, values)))
    assert step.metrics.keys() == {"reward", "kl", "frac_reward_zero_std", "flag"}


def test_summaries_printed_lines_and_the_machines_numbers_are_let_pass():
    summary = field(3, items(TRL))
    printed = field(13, field(2, "{'reward': '0.5'}"))
    assert read(summary, printed, field(7, field(3, field(1, "cpu") + field(16, "2")))) == []


def test_later_configs_win_and_the_trackers_own_part_is_left_out():
    found = read(
        wandb_run(name="mine", config={"_wandb": {}, "temperature": 1.0}),
        field(
            5, items({"temperature": 0.5, "num_generations": 8, "max_completion_length": 32}, nested=False)
        ),
    )
    run = of(Run, found)[-1]
    assert (run.run, run.framework, run.group_size) == ("mine", "trl", 8)
    assert run.sampling == {"temperature": 0.5, "max_tokens": 32}
    assert "_wandb" not in run.config


def test_a_nested_sampling_section_is_what_was_intended():
    (run,) = of(
        Run, read(wandb_run(config={"temperature": 1.0, "sampling": {"temperature": 0.7, "top_k": -1}}))
    )
    assert run.sampling == {"temperature": 0.7, "top_k": 0}


def test_the_exit_record_says_that_the_run_has_ended():
    assert of(Run, read(wandb_run(name="mine"), WANDB_EXIT))[-1] == Run(run="mine", finished=True)
    assert all(run.finished is None for run in of(Run, read(wandb_run(name="mine"))))


def test_a_record_that_cannot_be_read_is_skipped_and_the_next_one_read():
    broken = field(2, field(1, field(2, "train/reward") + field(16, "0.5.5")))
    found = read(wandb_row(1, TRL), broken, b"\xff", wandb_row(2, TRL))
    assert [type(record) for record in found] == [Run, Step, Skipped, Skipped, Step]


@given(st.binary(max_size=200))
def test_no_record_makes_the_reader_fail(payload):
    read(payload, field(2, payload), field(5, payload), field(17, payload), field(2, field(1, payload)))


def test_of_files_that_were_copied_to_one_place_one_is_read(tmp_path):
    for name, step in (("a", 3), ("b", 5)):
        (tmp_path / f"run-{name}.wandb").write_bytes(leveldb_log(WANDB_HEADER, [wandb_row(step, TRL)]))
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    assert monitor.snapshot().run.steps == 1
    assert [source.where for source in monitor.snapshot().sources] == ["run-b.wandb"]
    assert [line.partition(":")[0] for line in monitor.snapshot().left_out] == ["a"]


# Beside the file


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("files/wandb-summary.json", '{"train/reward":0.5,"_step":9,"train/global_step":8}'),
        ("files/wandb-metadata.json", '{"os":"Linux"}'),
        ("files/config.yaml", "wandb_version: 1\n"),
        ("logs/debug.log", "2026-11-30 12:09:48,541 INFO MainThread\n"),
    ],
)
def test_the_trackers_own_files_are_known_and_not_read(name, content):
    _, claim = choose(PurePath("wandb/run-20261130_120948-abc") / name, content.encode())
    assert claim.feed == "none"


def test_what_the_program_printed_is_read_by_whoever_knows_it():
    printed = b"{'loss': '0.1', 'reward': '0.5', 'reward_std': '0.1'}\n"
    assert choose(PurePath("wandb/run-20261130_120948-abc/files/output.log"), printed)[0].name == "trl"


def test_a_log_that_says_nothing_yet_is_looked_at_again(tmp_path):
    folder = tmp_path / "offline-run-20261130_120948-abc"
    (folder / "files").mkdir(parents=True)
    (folder / "run-abc.wandb").write_bytes(leveldb_log(WANDB_HEADER, [wandb_run(name="mine")]))
    log = folder / "files" / "output.log"
    log.write_text("loading\n")
    monitor = Monitor([str(tmp_path)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__)
    monitor.poll()
    assert [source.format for source in monitor.snapshot().sources] == ["wandb"]
    assert monitor.snapshot().left_out == ()
    log.write_text("loading\n{'loss': '0.1', 'reward': '0.5', 'reward_std': '0.1'}\n")
    monitor.read_all()
    assert {source.format for source in monitor.snapshot().sources} == {"wandb", "trl"}


# Tables of completions


def test_tables_of_completions_are_rollouts_of_their_trainers_step(tracker_folder):
    monitor = Monitor([str(tracker_folder("wandb") / f"{OFFLINE}120948-rmglbqnw")], Settings())
    monitor.read_all()
    snapshot = monitor.snapshot()
    batch = snapshot.batch(30)
    assert (snapshot.run.rollouts, len(batch.rows), snapshot.run.groups) == (384, 32, 48)
    rollout = snapshot.read(int(batch.rows[0]))
    assert isinstance(rollout, Rollout)
    assert (rollout.step, rollout.rewards.keys(), rollout.split) == (30, {"reward"}, None)
    assert rollout.completion


def table(columns, *rows):
    return json.dumps({"columns": columns, "data": rows}).encode()


def read_table(data):
    path = Path("wandb/run-20261130_120948-abc/files/media/table/completions_10_abc.table.json")
    format_, claim = choose(path, data)
    assert (format_.name, claim.feed, claim.role) == ("wandb", "whole", "rollouts")
    return format_.reader(path, claim, RunContext()).whole(data)


def test_a_table_of_an_early_version_has_no_advantage_and_its_step_is_a_word():
    found = read_table(
        table(["step", "prompt", "completion", "accuracy"], ["7", "2+2?", "4", 1.0], ["7", "2+2?", "5", None])
    )
    assert [(rollout.step, rollout.group, rollout.index, rollout.rewards) for rollout in found] == [
        (7, "0", 0, {"accuracy": 1.0}),
        (7, "0", 1, {"accuracy": None}),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b'{"columns": ["prompt", "completion"], "data": [["a"',
        b'{"columns": ["prompt", "completion"], "data": [["a"]]}',
        b'{"columns": ["prompt", "completion"]}',
    ],
)
def test_a_broken_table_is_skipped(data):
    assert [type(record) for record in read_table(data)] == [Skipped]


def test_another_table_is_no_rollout():
    path = PurePath("wandb/run-20261130_120948-abc/files/media/table/scores.table.json")
    assert choose(path, table(["name", "score"], ["a", 1]))[1].feed == "none"


def test_numbers_that_lost_their_fraction_are_numbers():
    (step,) = of(Step, read(wandb_row(1, TRL | {"train/reward": 1})))
    assert step.metrics["reward"] == 1.0
