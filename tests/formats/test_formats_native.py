import json
import math

import pytest
from format_reading import fed, lines, of, opened, read
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_top.bundle import Bundle, joined, one_by_one
from grpo_top.formats.base import Lines, RunContext
from grpo_top.formats.native import NativeReader
from grpo_top.records import (
    EVAL,
    Eval,
    Grade,
    Location,
    Message,
    Rollout,
    Run,
    SamplerLook,
    Skipped,
    Step,
    Success,
)

RUN = {
    "kind": "run",
    "schema": "grpo-top/1",
    "run": "add-1",
    "framework": "custom",
    "algorithm": "grpo",
    "group_size": 8,
    "sampling": {"temperature": 1.0, "top_k": -1, "max_completion_length": 32},
    "version_lag_tolerance": 2,
    "reward_range": [0.0, 1.2],
    "success": {"of": "accuracy", "at_least": 1.0},
    "env_version": "add-1",
    "reward_version": "r1",
    "config": {"beta": 0.04},
    "recording": "real run, played back",
}
ROLLOUT = {
    "kind": "rollout",
    "step": 51,
    "split": "train",
    "group": "51t-0",
    "index": 3,
    "task": "add/1+14",
    "family": "plain",
    "tier": "easy",
    "prompt": "1+14=",
    "completion": "<answer>16</answer>",
    "reward": 0.2,
    "rewards": {"accuracy": 0.0, "format": 0.2},
    "verifier": {"raw": "16", "error": "timeout"},
    "parsed": True,
    "advantage": -0.5,
    "prompt_tokens": 5,
    "completion_tokens": 9,
    "finish_reason": "stop",
    "truncated": False,
    "termination": "answered",
    "policy_version": 50,
    "trainer_version": 50,
    "sampling": {"temperature": 0.15, "top_p": 1.0},
    "sampler": "engine-0",
    "seed": 7,
    "logprobs": {"sampler": [-0.1, -0.2], "trainer": [-0.1, -0.3]},
    "env_version": "add-1",
    "reward_version": "r1",
    "time": 1760000000.5,
}


def one(record: dict[str, object]) -> object:
    (found,) = fed(NativeReader(RunContext()), lines(record))
    return found


def rollout(**changes: object) -> Rollout:
    found = one(ROLLOUT | changes)
    assert isinstance(found, Rollout), found
    return found


def test_a_run_record_is_read():
    assert one(RUN) == Run(
        run="add-1",
        framework="custom",
        algorithm="grpo",
        group_size=8,
        sampling={"temperature": 1.0, "top_k": 0, "max_tokens": 32},
        version_lag_tolerance=2.0,
        reward_range=(0.0, 1.2),
        success=Success("accuracy", 1.0),
        env_version="add-1",
        reward_version="r1",
        config={"beta": 0.04},
        recording="real run, played back",
    )


def test_a_run_may_say_that_groups_without_variance_never_reach_the_log():
    assert one(RUN | {"drops_flat_groups": True}).drops_flat_groups is True
    assert one(RUN | {"drops_flat_groups": "yes"}).drops_flat_groups is None


def test_every_field_of_a_rollout_is_read_into_its_place():
    data = lines(ROLLOUT)
    assert rollout() == Rollout(
        step=51,
        group="51t-0",
        reward=0.2,
        index=3,
        rewards={"accuracy": 0.0, "format": 0.2},
        split="train",
        task="add/1+14",
        family="plain",
        tier="easy",
        prompt="1+14=",
        completion="<answer>16</answer>",
        messages=None,
        verifier_raw="16",
        verifier_error="timeout",
        parsed=True,
        advantage=-0.5,
        prompt_tokens=5,
        completion_tokens=9,
        finish_reason="stop",
        truncated=False,
        termination="answered",
        policy_version=50,
        policy_version_end=None,
        trainer_version=50,
        sampling={"temperature": 0.15, "top_p": 1.0},
        sampler="engine-0",
        seed=7,
        logprobs_sampler=[-0.1, -0.2],
        logprobs_trainer=[-0.1, -0.3],
        env_version="add-1",
        reward_version="r1",
        time=1760000000.5,
        location=Location(0, len(data) - 1),
    )


def test_what_a_rollout_does_not_say_is_unknown():
    assert one({"kind": "rollout", "step": 1, "group": "a", "reward": None}) == Rollout(
        step=1, group="a", reward=None, location=Location(0, 60)
    )


def test_a_policy_version_may_span_several():
    spanning = rollout(policy_version=[48, 50])
    assert (spanning.policy_version, spanning.policy_version_end) == (48, 50)


def test_an_evaluation_rollout_is_told_apart():
    assert rollout(split="eval").split == EVAL


def test_a_reward_that_is_not_finite_stays_so():
    assert math.isnan(rollout(reward=math.nan).reward)
    assert rollout(reward=math.inf).reward == math.inf
    assert rollout(rewards={"accuracy": math.nan, "format": 1}).rewards["format"] == 1.0


def test_a_flag_as_a_reward_counts_as_a_number():
    assert rollout(reward=True).reward == 1.0


def test_numbers_and_structures_of_a_verifier_are_kept_as_text():
    assert rollout(verifier={"raw": {"x": 1}, "error": None}).verifier_raw == '{"x": 1}'
    assert rollout(verifier={"raw": 16, "error": ""})[12:14] == ("16", None)


def test_a_conversation_keeps_its_turns_and_tool_calls():
    call = {"function": {"name": "lookup", "arguments": "{}"}}
    found = rollout(
        prompt=None,
        completion=None,
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "2+2?"}, {"type": "image"}]},
            {"role": "assistant", "content": None, "tool_calls": [call], "reward": 0.5},
            "no turn",
        ],
    )
    assert found.messages == [
        Message("user", "2+2?[image]"),
        Message("assistant", "", [call], 0.5),
    ]


def test_a_prompt_and_completion_of_messages_become_text_and_turns():
    found = rollout(
        prompt=[{"role": "user", "content": "2+2?"}], completion=[{"role": "assistant", "content": "4"}]
    )
    assert (found.prompt, found.completion) == ("2+2?", "4")
    assert found.messages == [Message("user", "2+2?"), Message("assistant", "4")]


def test_masked_log_probabilities_keep_their_place():
    found = rollout(logprobs={"sampler": [-0.1, None, -0.2], "trainer": "none"})
    assert len(found.logprobs_sampler) == 3
    assert math.isnan(found.logprobs_sampler[1])
    assert found.logprobs_trainer is None


@pytest.mark.parametrize(
    "sampling", [{"stop": ["\n"], "temperature": 0.7}, {"temperature": 0.7}, {"temperature": "0.7"}]
)
def test_sampling_is_brought_under_common_names_each_time(sampling):
    data = lines(*[ROLLOUT | {"sampling": sampling}] * 3)
    assert [found.sampling for found in fed(NativeReader(RunContext()), data)] == [{"temperature": 0.7}] * 3


def test_thousands_of_sampling_configs_are_each_read():
    data = lines(
        *(ROLLOUT | {"sampling": {"temperature": 1.0, "max_tokens": count}} for count in range(1000))
    )
    found = fed(NativeReader(RunContext()), data)
    assert [record.sampling["max_tokens"] for record in found] == list(range(1000))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"step": None}, "rollout without a step"),
        ({"step": "7"}, "rollout whose step is no integer"),
        ({"step": 1.5}, "rollout whose step is no integer"),
        ({"step": True}, "rollout whose step is no integer"),
        ({"step": 2**63 + 1}, "rollout whose step is no integer"),
        ({"reward": "0.5"}, "rollout whose reward is a str"),
        ({"reward": [1]}, "rollout whose reward is a list"),
        ({"kind": None}, "record without a kind"),
        ({"kind": "trace"}, "unknown kind 'trace'"),
        ({"kind": ["rollout"]}, "unknown kind ['rollout']"),
    ],
)
def test_a_record_that_cannot_be_right_is_skipped_with_its_reason(change, reason):
    assert one(ROLLOUT | change) == Skipped(reason, 0, 1)


def test_a_step_written_as_a_whole_float_is_a_step():
    assert rollout(step=51.0).step == 51


def test_a_step_keeps_unknown_and_nonfinite_numbers_apart():
    found = one(
        {"kind": "step", "step": 3, "metrics": {"loss": math.nan, "kl": None, "note": "x", "reward": 1}}
    )
    assert found.metrics.keys() == {"loss", "kl", "reward"}
    assert math.isnan(found.metrics["loss"])
    assert found.metrics["kl"] is None


def test_a_step_that_only_tells_of_the_runtime_is_a_step():
    assert one({"kind": "step", "step": 120, "metrics": {"train_runtime": 17.7}}) == Step(
        120, {"train_runtime": 17.7}, location=Location(0, 65)
    )


def test_an_evaluation_loses_the_prefix_of_its_names():
    found = one({"kind": "eval", "step": 20, "suite": "math", "metrics": {"eval_reward": 0.3, "pass@1": 0.2}})
    assert found == Eval(20, {"reward": 0.3, "pass@1": 0.2}, "math", location=found.location)


def test_a_look_at_a_sampler_is_read():
    look = {
        "kind": "sampler",
        "sampler": "http://a:8000",
        "sampling": {"temperature": 0.6},
        "weight_version": 12,
        "counters": {"stop": 3, "length": None},
        "time": 5,
    }
    assert one(look) == SamplerLook("http://a:8000", {"temperature": 0.6}, "12", {"stop": 3.0}, 5.0)


def test_a_grade_is_read_with_the_place_of_its_rollout():
    grade = {"kind": "grade", "rollout": {"offset": 10, "length": 20}, "score": 0.5, "note": "wrong unit"}
    assert one(grade) == Grade(Location(10, 20), 0.5, "wrong unit")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"kind": "step", "step": 1}, "step without metrics"),
        ({"kind": "step", "metrics": {}}, "step without a step"),
        ({"kind": "eval", "step": 1, "metrics": [1]}, "eval without metrics"),
        ({"kind": "sampler"}, "sampler record without a sampler"),
        ({"kind": "grade", "rollout": {"offset": 1, "length": 2}}, "grade without a score"),
        ({"kind": "grade", "score": 1.0}, "grade without the location of its rollout"),
        ({"kind": "run", "schema": "grpo-top/9"}, "schema 'grpo-top/9' is not grpo-top/1"),
    ],
)
def test_other_records_that_cannot_be_right_are_skipped(record, reason):
    assert one(record) == Skipped(reason, 0, 1)


def test_garbage_between_records_loses_itself_alone():
    good = lines(ROLLOUT)
    found = fed(
        NativeReader(RunContext()), good + b'{"kind": "rollout", "step": 5\n' + b"[1]\n" + b"\n" + good
    )
    assert [type(record) for record in found] == [Rollout, Skipped, Skipped, Rollout]
    assert found[1].line == 2
    assert found[1].offset == len(good)
    assert found[3].location.offset == len(good) + 30 + 4 + 1


@pytest.mark.parametrize("dirt", [b"\xef\xbb\xbf", b"\x00\x00\x00", b"  "])
def test_dirt_before_and_after_a_record_does_not_matter(dirt):
    found = fed(NativeReader(RunContext()), dirt + lines(ROLLOUT)[:-1] + b"\r\n")
    assert [type(record) for record in found] == [Rollout]
    assert found[0].location.length == len(dirt) + len(lines(ROLLOUT))


def test_a_rollout_is_replayed_from_its_own_bytes():
    data = lines(RUN, ROLLOUT, ROLLOUT | {"index": 4})
    reader = opened("rollouts.jsonl", data)
    for found in of(Rollout, fed(reader, data)):
        where = found.location
        assert reader.replay(data[where.offset : where.offset + where.length], where) == found


def test_a_replay_of_bytes_that_hold_something_else_by_now_finds_nothing():
    assert NativeReader(RunContext()).replay(b'{"other": 1}', Location(0, 12)) is None


def test_the_context_learns_the_framework():
    context = RunContext()
    read("a.jsonl", lines(RUN), context)
    assert context.framework == "custom"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(["run", "rollout", "step", "eval", "sampler", "grade"]),
    st.dictionaries(
        st.sampled_from([*ROLLOUT, *RUN, "metrics", "suite", "counters", "messages", "score"]), anything
    ),
)
def test_no_types_of_fields_are_too_wrong_to_read_on(kind, fields):
    data = lines(fields | {"kind": kind}, ROLLOUT)
    found = fed(NativeReader(RunContext()), data)
    assert len(found) == 2
    assert isinstance(found[1], Rollout)


@given(
    st.lists(
        st.sampled_from(
            [
                json.dumps(RUN).encode(),
                json.dumps(ROLLOUT).encode(),
                b"",
                b"{",
                b"[]",
                b"\r",
                b'{"kind":"step"}',
            ]
        ),
        max_size=12,
    ),
    st.sets(st.integers(1, 11)),
)
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    assert fed(NativeReader(RunContext()), data, cuts) == fed(NativeReader(RunContext()), data)


LINES = st.one_of(
    st.builds(
        lambda changes: json.dumps(ROLLOUT | changes).encode(),
        st.dictionaries(st.sampled_from([*ROLLOUT, "messages"]), anything, max_size=3),
    ),
    st.builds(
        lambda keys: json.dumps({key: ROLLOUT[key] for key in ROLLOUT if key not in keys}).encode(),
        st.sets(st.sampled_from(list(ROLLOUT)), max_size=4),
    ),
    st.sampled_from(
        [
            *(json.dumps(record).encode() for record in (RUN, ROLLOUT)),
            b'{"kind": "rollout", "step": 1, "reward": NaN}',
            *(b"", b" ", b"{", b"[]", b"7", b"\r", b"}{", b"\xff", b'{"kind":"step"}'),
            # Lines that are JSON only side by side, and two that are four values.
            *(b'{"kind": "rollout", "x": [{}', b'{}], "step": 3}', b"7, 8", b'"a", "b'),
            json.dumps(ROLLOUT).encode() + b"," + json.dumps(ROLLOUT).encode(),
        ]
    ),
)


@settings(max_examples=150)
@given(st.lists(LINES, max_size=12))
def test_lines_that_are_read_together_give_the_records_that_each_gives_by_itself(parts):
    data = b"".join(part + b"\n" for part in parts)
    alone = fed(NativeReader(RunContext()), data, range(1, len(parts)))
    whole, uncut = NativeReader(RunContext()), Lines.uncut(0, data, 1)
    assert repr(list(one_by_one(whole.together(uncut)))) == repr(alone)
    assert repr(fed(NativeReader(RunContext()), data)) == repr(alone)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
PLAIN = [key for key, value in ROLLOUT.items() if not isinstance(value, list)]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(PLAIN), scalars | st.dictionaries(st.sampled_from("abc"), scalars, max_size=3)
        )
        | st.builds(
            lambda changes: {key: ROLLOUT[key] for key in PLAIN} | changes,
            st.dictionaries(st.sampled_from(["step", "index", "prompt", "seed"]), st.integers(0, 3)),
        ),
        max_size=6,
    )
)
def test_rollouts_that_come_from_several_files_a_line_each_are_the_same_once_they_are_joined(fields):
    alone = [lines(one | {"kind": "rollout"}) for one in fields]
    readers = [NativeReader(RunContext()) for _ in alone]
    read_apart = [
        record
        for reader, line in zip(readers, alone, strict=True)
        for record in reader.together(Lines.uncut(0, line, 1))
    ]
    records = [record for line in alone for record in fed(NativeReader(RunContext()), line)]
    bundles = of(Bundle, read_apart)
    assert [bundle.steps[0] for bundle in bundles] == [rollout.step for rollout in of(Rollout, records)]
    if bundles:
        assert repr(list(joined(bundles))) == repr(of(Rollout, records))
    assert repr(list(one_by_one(read_apart))) == repr(records)


def test_rollouts_around_one_that_cannot_be_right_are_bundled():
    data = lines(*[ROLLOUT] * 5, ROLLOUT | {"step": None}, *[ROLLOUT] * 6, RUN, *[ROLLOUT] * 4)
    found = NativeReader(RunContext()).together(Lines.uncut(0, data, 1))
    assert sum(len(one) for one in found if isinstance(one, Bundle)) == 15
    assert of(Skipped, found) == [Skipped("rollout without a step", 5 * len(lines(ROLLOUT)), 6)]
    assert len(of(Run, found)) == 1


def test_a_batch_of_no_lines_gives_no_records():
    assert NativeReader(RunContext()).feed(Lines(0, [], 1)) == []
