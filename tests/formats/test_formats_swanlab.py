"""SwanLab's `.swanlab` files, and the config beside them."""

from pathlib import PurePath

import pytest
from format_reading import of
from hypothesis import given
from hypothesis import strategies as st
from tracker_messages import field, leveldb_log

from grpo_top.formats.base import RunContext
from grpo_top.formats.registry import choose
from grpo_top.records import Run, Skipped, Step

HEADER = b":SWL\xd6\xe1\x02"
RUN = PurePath("swanlog/run-20261130_120959-swlmam4z")
CONFIG = b"""FRAMEWORK:
  desc: ''
  sort: 0
  value: transformers
eos:
  desc: ''
  sort: 1
  value: 'null'
generation_kwargs:
  desc: ''
  sort: 2
  value: {}
max_completion_length:
  desc: ''
  sort: 3
  value: 8
nested:
  desc: ''
  sort: 4
  value:
    temperature: 9.0
    value: 5
num_generations:
  desc: ''
  sort: 5
  value: 4
temperature:
  desc: ''
  sort: 6
  value: 1.0e-01
"""


def scalar(step, key, value):
    number = field(1, value) if value else b""
    return field(13, field(1, key) + field(2, step) + field(3, 1) + field(4, field(1, 9)) + field(5, number))


def read(*records):
    data = leveldb_log(HEADER, records)
    path = RUN / "run-swlmam4z.swanlab"
    format_, claim = choose(path, data)
    assert (format_.name, claim.feed) == ("swanlab", "bytes")
    reader = format_.reader(path, claim, RunContext())
    return reader.feed_bytes(0, data) + reader.end()


def test_numbers_of_one_step_are_one_row():
    found = read(
        scalar(1, "train/reward", 0.5),
        scalar(1, "train/frac_reward_zero_std", 0.25),
        scalar(2, "train/reward", 0.7),
    )
    assert [(step.step, step.metrics) for step in of(Step, found)] == [
        (1, {"reward": 0.5, "frac_reward_zero_std": 0.25}),
        (2, {"reward": 0.7}),
    ]


def test_a_zero_is_left_out_of_the_message_and_is_zero():
    (step,) = of(Step, read(scalar(1, "train/kl", 0.0)))
    assert step.metrics == {"train/kl": 0.0}


def test_the_run_has_a_name_and_an_end():
    found = read(field(10, field(1, "project") + field(4, "mine") + field(10, "id")), field(11, field(1, 1)))
    assert of(Run, found)[-1] == Run(run="mine", finished=True)


def test_other_records_are_let_pass_and_broken_ones_skipped():
    found = read(
        field(12, field(3, "train/loss")), field(13, field(1, "train/loss")), b"\xff", scalar(1, "a", 1.0)
    )
    assert [type(record) for record in found] == [Skipped, Skipped, Step]


def test_of_the_config_the_value_under_each_key_is_read_whatever_its_shape():
    path = RUN / "files" / "config.yaml"
    format_, claim = choose(path, CONFIG)
    assert (format_.name, claim.feed, claim.role, claim.order) == ("swanlab", "whole", "config", 0)
    (run,) = format_.reader(path, claim, RunContext()).whole(CONFIG)
    assert (run.framework, run.group_size) == ("trl", 4)
    assert run.sampling == {"max_tokens": 8, "temperature": 0.1}
    assert run.config == {
        "FRAMEWORK": "transformers",
        "eos": "null",
        "generation_kwargs": {},
        "max_completion_length": 8,
        "num_generations": 4,
        "temperature": 0.1,
        "nested": {"temperature": 9.0, "value": 5},
    }
    (skipped,) = format_.reader(path, claim, RunContext()).whole(CONFIG + b"\n\t: [")
    assert "not YAML" in skipped.reason


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("logs/1/1000.log", b'{"index": 1, "data": 0.5, "create_time": "2026-11-30T12:10:00+00:00"}\n'),
        ("logs/1/_summary.json", b'{"max": 0.5, "max_step": 1}'),
        ("files/swanlab-metadata.json", b'{"_version":2}'),
        ("console/2026-11-30.log", b"swanlab: Tracking run\n"),
    ],
)
def test_the_trackers_own_files_are_known_and_not_read(name, content):
    assert choose(RUN / name, content)[1].feed == "none"


def test_its_database_is_known_and_not_read():
    assert choose(PurePath("swanlog/runs.swanlab"), b"SQLite format 3\0experiment\ntag\n")[1].feed == "none"


@given(st.binary(max_size=200))
def test_no_record_makes_the_reader_fail(payload):
    read(payload, field(13, payload), field(10, payload), field(13, field(1, "a") + field(5, payload)))
