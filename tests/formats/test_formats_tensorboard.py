"""TensorBoard's event files: one event for each number, and nothing that says when a step is complete."""

import math
import struct
from pathlib import PurePath

import pytest
from format_reading import of
from hypothesis import given
from hypothesis import strategies as st
from tracker_messages import VERSION, event, field, scalar, single, text, tf_record

from grpo_top.formats.base import RunContext
from grpo_top.formats.registry import choose
from grpo_top.records import Eval, Run, Skipped, Step

NAME = "/runs/gsm8k/events.out.tfevents.1796040101.trainer-0.10488.0"


def opened(data, name=NAME, context=None):
    format_, claim = choose(PurePath(name), data)
    assert (format_.name, claim.feed) == ("tensorboard", "bytes")
    return format_.reader(PurePath(name), claim, context or RunContext())


def read(*events, name=NAME):
    data = b"".join((VERSION, *events))
    reader = opened(data, name)
    return reader.feed_bytes(0, data) + reader.end()


def packed(kind, number, layout, *values):
    """A tensor whose elements are a packed list."""
    return field(8, field(1, kind) + field(number, b"".join(struct.pack(layout, value) for value in values)))


# Which files


@pytest.mark.parametrize(
    "name",
    [
        "events.out.tfevents.1796040101.trainer-0.10488.0",
        "events.out.tfevents.1796040121.trainer-0",
        "renamed.log",
    ],
)
def test_a_file_is_known_by_its_first_record_whatever_library_named_it(name):
    assert choose(PurePath(name), VERSION)[1].confidence == 95


def test_a_record_file_of_something_else_is_claimed_only_faintly():
    assert choose(PurePath("images.tfrecord"), tf_record(b"no event"))[1].confidence == 50


def test_a_file_without_its_first_checksum_is_none():
    assert choose(PurePath(NAME), b"\x19" + VERSION[1:]) is None
    assert choose(PurePath(NAME), VERSION[:9]) is None


# Steps


def test_events_of_one_step_are_one_row():
    found = read(
        event(1, scalar("train/reward", 0.5)),
        event(1, scalar("train/kl", 0.25), scalar("train/entropy", 0.75)),
        event(2, scalar("train/reward", 1.0)),
    )
    assert [(step.step, step.metrics) for step in of(Step, found)] == [
        (1, {"train/reward": 0.5, "train/kl": 0.25, "train/entropy": 0.75}),
        (2, {"train/reward": 1.0}),
    ]


def test_numbers_are_floats_of_four_bytes():
    (step,) = of(Step, read(event(1, scalar("train/learning_rate", 0.0002))))
    assert step.metrics["train/learning_rate"] == 0.00019999999494757503


def test_what_is_not_finite_stays_so():
    values = [scalar("a", math.nan), scalar("b", math.inf), scalar("c", -math.inf)]
    (step,) = of(Step, read(event(1, *values)))
    assert math.isnan(step.metrics["a"])
    assert (step.metrics["b"], step.metrics["c"]) == (math.inf, -math.inf)


@pytest.mark.parametrize(
    "tensor",
    [
        packed(1, 5, "<f", 0.5),
        packed(2, 6, "<d", 0.5),
        field(8, field(1, 1) + single(5, 0.5)),
        field(8, field(1, 2) + field(6, 0.5)),
        field(8, field(1, 1) + field(4, struct.pack("<f", 0.5))),
        field(8, field(1, 2) + field(4, struct.pack("<d", 0.5))),
    ],
)
def test_newer_writers_put_a_number_into_a_tensor(tensor):
    (step,) = of(Step, read(event(1, field(1, "train/reward") + tensor)))
    assert step.metrics == {"train/reward": 0.5}


@pytest.mark.parametrize(
    "tensor", [field(8, field(1, 9) + field(10, 7)), field(8, field(1, 3) + field(4, b"\7\0\0\0"))]
)
def test_a_whole_number_in_a_tensor_is_a_number(tensor):
    (step,) = of(Step, read(event(1, field(1, "train/tokens") + tensor)))
    assert step.metrics == {"train/tokens": 7.0}


def test_charts_of_many_numbers_and_pictures_are_let_pass():
    many = field(1, "histogram") + packed(1, 5, "<f", 1, 2, 3)
    picture = field(1, "image") + field(4, field(1, 8) + field(4, b"\x89PNG"))
    assert of(Step, read(event(1, many), event(1, picture))) == []


def test_an_evaluation_shares_the_step_with_the_row_before_it_and_epoch_comes_twice():
    found = read(
        event(20, scalar("train/rewards/accuracy/mean", 0.5)),
        event(20, scalar("train/epoch", 0.5)),
        event(20, scalar("eval/reward", 0.75)),
        event(20, scalar("train/epoch", 0.5)),
        event(21, scalar("train/kl", 0.5)),
    )
    assert [(step.step, step.metrics) for step in of(Step, found)] == [
        (20, {"rewards/accuracy/mean": 0.5}),
        (21, {"kl": 0.5}),
    ]
    assert [(found.step, found.metrics) for found in of(Eval, found)] == [(20, {"reward": 0.75})]


def test_an_open_row_is_given_when_nothing_comes_and_again_when_it_grew():
    data = VERSION + event(1, scalar("train/reward", 0.5))
    reader = opened(data)
    assert of(Step, reader.feed_bytes(0, data)) == []
    assert [step.metrics for step in of(Step, reader.idle())] == [{"train/reward": 0.5}]
    assert reader.idle() == []
    more = event(1, scalar("train/kl", 0.25))
    assert of(Step, reader.feed_bytes(len(data), more)) == []
    assert [step.metrics for step in of(Step, reader.idle())] == [{"train/reward": 0.5, "train/kl": 0.25}]


# The run


def test_arguments_logged_as_text_tell_the_run():
    found = read(
        event(0, text("args", '{\n  "run_name": "mine",\n  "temperature": 0.7,\n  "num_generations": 4\n}'))
    )
    assert of(Run, found)[-1]._replace(config=None) == Run(
        run="mine", group_size=4, sampling={"temperature": 0.7}
    )


def test_a_config_in_a_block_of_code_is_read():
    found = read(event(0, text("config", '```json\n{"temperature": 0.7}\n```')))
    assert of(Run, found)[-1].sampling == {"temperature": 0.7}


def test_other_texts_are_no_config():
    found = read(event(0, text("completions", '{"temperature": 0.7}'), text("args", "{'temperature': 0.7}")))
    assert [run.sampling for run in of(Run, found)] == [None]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/out/gsm8k/runs/Nov30_12-01-41_trainer-0", "gsm8k"),
        ("/out/gsm8k", "gsm8k"),
        ("tensorboard_log/project/experiment", "experiment"),
        ("/runs", None),
    ],
)
def test_a_run_that_has_no_name_is_called_after_its_folder(folder, name):
    found = read(event(1, scalar("a", 1)), name=f"{folder}/{PurePath(NAME).name}")
    assert next((run.run for run in of(Run, found)), None) == name


def test_folders_below_a_runs_are_of_that_run_and_newer_ones_beside_it_are_not():
    context = RunContext()
    for folder in ("/logs/a", "/logs/a/1796040200.1", "/logs/b"):
        opened(VERSION, f"{folder}/events.out.tfevents.1796040101.host", context)
    choice = context.choices["tensorboard"]
    assert choice.run_of(PurePath("/logs/a/1796040200.1/x")) == "/logs/a"
    assert choice.run_of(PurePath("/logs/b/x")) == "/logs/b"


# Damage


def test_a_record_that_is_no_event_is_skipped_and_the_next_one_read():
    found = read(
        event(1, scalar("train/reward", 0.5)), tf_record(b"\xff\xff\xff"), event(2, scalar("train/reward", 1))
    )
    assert [skipped.offset for skipped in of(Skipped, found)] == [
        len(VERSION + event(1, scalar("train/reward", 0.5)))
    ]
    assert [step.step for step in of(Step, found)] == [1, 2]


def test_an_event_whose_number_is_of_another_length_is_skipped():
    found = read(event(1, field(1, "train/reward") + field(2, b"abc")), event(2, scalar("train/reward", 1)))
    assert [type(record) for record in found if not isinstance(record, Run)] == [Skipped, Step]


@given(st.binary(max_size=120))
def test_no_record_makes_the_reader_fail(payload):
    read(tf_record(payload), event(1, payload))


# Folders of one run, and its settings


def test_folders_for_training_and_evaluation_are_one_run():
    context = RunContext()
    found = {}
    for folder in ("train", "eval"):
        data = VERSION + event(10, scalar("reward", 0.5))
        reader = opened(data, f"/runs/mine/{folder}/events.out.tfevents.1796040101.x", context)
        found[folder] = reader.feed_bytes(0, data) + reader.end()
    (step,), (evaluation,) = of(Step, found["train"]), of(Eval, found["eval"])
    assert (step.metrics, evaluation.metrics) == ({"reward": 0.5}, {"reward": 0.5})
    assert not of(Step, found["eval"])
    assert list(context.choices["tensorboard"].offers) == ["/runs/mine"]


def test_settings_may_be_a_table_of_names_and_values():
    table = "|param|value|\n|-|-|\n|temperature|0.7|\n|num_generations|8|\n|name|my run|"
    runs = of(Run, read(event(0, text("hyperparameters", table)), event(1, scalar("reward", 0.5))))
    assert (runs[-1].sampling, runs[-1].group_size) == ({"temperature": 0.7}, 8)
