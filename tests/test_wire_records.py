"""What goes over the wire: a run's records with stand-ins for the texts, which measure as the texts do."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_top.encode import completion_of
from grpo_top.history import History
from grpo_top.records import (
    EVAL,
    NOWHERE,
    REQUEST,
    TRAIN,
    Eval,
    FleetLook,
    FleetPoint,
    Grade,
    Location,
    Message,
    Record,
    Rollout,
    Run,
    SamplerLook,
    Skipped,
    Step,
    Success,
)
from grpo_top.wire_records import (
    SENT,
    SENT_OTHERWISE,
    BeginsAgain,
    Piece,
    PieceReader,
    Source,
    again_line,
    record_line,
    rollout_lines,
    source_line,
    texts_of,
    whole_line,
)

TEXT = st.one_of(
    st.sampled_from(
        (
            *(
                "",
                " ",
                "\x1f",
                "4",
                " 4\n",
                "4" + " " * 12,
                "4\x1f\x1f",
                "4\x00\x00",
                "the answer is 4",
                "the  answer\tis 4",
                "ab" * 40,
                "0" * 200,
            ),
            *("\ufffd" * 9, "<pad>" * 30, "\x1b[31m" * 3, "é " * 30, "x" * 12, "\ufffd" * 60 + "a"),
        )
    ),
    st.text(max_size=40),
)
SAME_OR_NONE = st.one_of(st.none(), TEXT)
NUMBER = st.one_of(st.none(), st.floats(), st.integers(-3, 3).map(float))
SAMPLING = st.one_of(
    st.none(),
    st.fixed_dictionaries({"temperature": st.sampled_from((0.5, 1.0))}, optional={"top_k": st.just(0)}),
)
MESSAGES = st.one_of(
    st.none(),
    st.lists(st.builds(Message, st.sampled_from(("user", "assistant")), TEXT), min_size=1, max_size=3),
)
LOGPROBS = st.one_of(st.none(), st.lists(st.floats(-5, 0), max_size=3))


@st.composite
def rollouts(draw: st.DrawFn) -> list[Rollout]:
    """A batch, with few values for each field, so that many are equal."""
    return [
        Rollout(
            step=draw(st.integers(0, 3)),
            group=draw(st.sampled_from((None, "", "a", "b"))),
            reward=draw(NUMBER),
            index=draw(st.sampled_from((None, 0, 1))),
            rewards=draw(st.one_of(st.none(), st.dictionaries(st.sampled_from("xy"), NUMBER, min_size=1))),
            split=draw(st.sampled_from((TRAIN, EVAL, REQUEST, None))),
            task=draw(st.sampled_from((None, "t", "u"))),
            prompt=draw(SAME_OR_NONE),
            completion=draw(SAME_OR_NONE),
            messages=draw(MESSAGES),
            verifier_raw=draw(st.sampled_from((None, "", "raw"))),
            verifier_error=draw(st.sampled_from((None, "timeout"))),
            parsed=draw(st.sampled_from((None, True, False))),
            advantage=draw(NUMBER),
            finish_reason=draw(st.sampled_from((None, "stop", "length"))),
            policy_version=draw(st.sampled_from((None, 3))),
            policy_version_end=draw(st.sampled_from((None, 4))),
            sampling=draw(SAMPLING),
            seed=draw(st.sampled_from((None, 2**62))),
            logprobs_sampler=draw(LOGPROBS),
            logprobs_trainer=draw(LOGPROBS),
            time=draw(st.sampled_from((None, 1.5))),
            location=Location(place, 0),
        )
        for place in range(draw(st.integers(1, 6)))
    ]


def sent(batch: list[Rollout]) -> list[Rollout]:
    """As they come out at the other end."""
    lines = rollout_lines(0, batch, [rollout.location.offset for rollout in batch], texts_of(batch))
    found = [PieceReader().read(line).what for line in lines]
    assert all(isinstance(rollout, Rollout) for rollout in found)
    return found


@given(rollouts())
@settings(max_examples=20)
def test_columns_are_the_same_at_both_ends(batch: list[Rollout]) -> None:
    here, there = History(), History()
    here.add(batch, 0)
    there.add(sent(batch), 0)
    for name, column in here.columns.items():
        ours, theirs = column.view(), there.columns[name].view()
        if name in ("text", "verifier_raw"):  # keys: equal where the texts are equal
            ours, theirs = (np.unique(keys, return_inverse=True)[1] for keys in (ours, theirs))
            assert len(set(zip(ours.tolist(), theirs.tolist(), strict=True))) == len(set(ours.tolist()))
            assert len(set(theirs.tolist())) == len(set(ours.tolist()))
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
    for name, column in here.components.items():
        np.testing.assert_array_equal(column.view(), there.components[name].view())
    assert {name: known.names for name, known in here.names.items()} == {
        name: known.names for name, known in there.names.items()
    }
    assert here.samplings == there.samplings
    for step in here.steps:
        assert here.grouped_by_prompt(step) == there.grouped_by_prompt(step)


@given(st.lists(TEXT, min_size=2, max_size=6))
def test_no_text_is_in_what_is_sent(texts: list[str]) -> None:
    secret = "the secret words"
    batch = [
        Rollout(1, None, 0.0, prompt=secret + text, completion=secret, verifier_raw=secret) for text in texts
    ]
    lines = rollout_lines(0, batch, [-1] * len(batch), texts_of(batch))
    assert b"secret" not in b"".join(lines)
    assert [PieceReader().read(line).what.location for line in lines] == [NOWHERE] * len(batch)


RECORDS = (
    Run("a", "trl", "grpo", 8, {"temperature": 1.0}, 2.0, (0.0, 1.0), Success("reward", 0.5)),
    Run(config={"a": {"b": [1, None]}}, finished=True, drops_flat_groups=False, recording="played"),
    Run(env_version="1", reward_version="2", total_steps=100),
    Step(3, {"kl": 0.1, "loss": None, "grad": math.inf}, 12.5, 2, "rank 3"),
    Step(4, {}),
    Eval(5, {"reward": 0.5}, "gsm8k", None, 0),
    Eval(6, {"reward": -math.inf}),
    SamplerLook("a:1", {"top_p": 0.9}, "7", {"requests": 3.0}, 1.0, "vllm", "m", {"top_p": "its own"}),
    SamplerLook("b", gauges={"running": 2.0}, unknown=("ask for it",)),
    FleetLook("running", [FleetPoint(1.0, 3, 2.0, 1.0, 5.0)], "a", "b", "count", "high"),
    Skipped("not JSON", 7, 3),
    Skipped("cut", 9),
    Grade(Location(12, 0), 1.0, "good", 3.0),
)


@pytest.mark.parametrize("record", RECORDS)
def test_every_other_record_comes_out_as_it_went_in(record: Record) -> None:
    assert PieceReader().read(record_line(4, record)) == Piece(4, record)


def test_sources_and_new_beginnings_come_out_as_they_went_in() -> None:
    source = Source(3, "rollouts/1.jsonl", "verl", "rollouts", 1)
    assert PieceReader().read(source_line(source)) == Piece(3, source)
    for begins in (BeginsAgain(True), BeginsAgain(False)):
        assert PieceReader().read(again_line(2, begins)) == Piece(2, begins)


def test_a_number_that_is_none_stays_one_and_is_not_unknown() -> None:
    found = PieceReader().read(record_line(0, Step(1, {"kl": math.nan, "loss": None}))).what
    assert isinstance(found, Step)
    assert math.isnan(found.metrics["kl"] or 0.0)
    assert found.metrics["loss"] is None


@given(rollouts())
@settings(max_examples=15)
def test_a_rollout_that_is_asked_for_comes_with_all_of_its_texts(batch: list[Rollout]) -> None:
    for rollout in batch:
        found = PieceReader().rollout(whole_line(rollout))
        for name in (
            "prompt",
            "completion",
            "verifier_raw",
            "verifier_error",
            "step",
            "group",
            "task",
            "seed",
        ):
            assert getattr(found, name) == getattr(rollout, name), name
        assert completion_of(found) == completion_of(rollout)
        said = [list(map(str, (message.role, message.content))) for message in rollout.messages or ()]
        assert [list(map(str, (message.role, message.content))) for message in found.messages or ()] == said
        assert found.logprobs_sampler == rollout.logprobs_sampler


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"[]", b"{}", b"nonsense", b'{"kind":"rollout"}', b'{"kind":"rollout","source":0,"step":"x"}'),
        *(b'{"source":-1}', b'{"source":40000,"kind":"again"}', b'{"source":0,"kind":["again"]}'),
        *(b'{"source":0}', b'{"source":0,"kind":"step","step":1}', b'{"source":0,"kind":"grade","score":1}'),
    ],
)
def test_a_line_that_is_none_is_refused_with_a_reason(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        PieceReader().read(line)


def test_every_field_of_a_rollout_is_sent_or_stood_for() -> None:
    assert {*SENT, *SENT_OTHERWISE} == {*Rollout._fields}


def test_lines_are_json_that_others_can_read() -> None:
    batch = [Rollout(1, "a", 1.0, 0, completion="4"), Rollout(1, "a", 0.0, 1, completion="5")]
    lines = rollout_lines(0, batch, [0, 1], texts_of(batch))
    assert [json.loads(line)["reward"] for line in lines] == [1.0, 0.0]
    assert all(first != second for first, second in pairwise(lines))
