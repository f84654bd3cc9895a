import pytest
from format_reading import fed, lines, of, opened, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.base import RunContext
from grpo_top.formats.plain import PlainReader
from grpo_top.records import Eval, Rollout, Skipped, Step


def test_a_rollout_is_read_by_the_usual_names_of_its_fields():
    record = {
        "global_step": 3,
        "group_id": 7,
        "input": "2+2?",
        "output": "4",
        "score": 1,
        "response_length": 5,
        "truncated": False,
        "stop_reason": "stop",
        "timestamp": 1760000000,
    }
    (found,) = read("samples.jsonl", lines(record))
    assert found._replace(location=None) == Rollout(
        step=3,
        group="7",
        reward=1.0,
        prompt="2+2?",
        completion="4",
        completion_tokens=5,
        truncated=False,
        finish_reason="stop",
        time=1760000000.0,
        location=None,
    )


def test_token_ids_and_log_probabilities_keep_their_lengths():
    record = {
        "step": 0,
        "group": "g0",
        "prompt": "p",
        "completion_ids": [1, 2],
        "sampling_logprobs": [-0.1] * 3,
        "reward": 0,
    }
    (found,) = read("rollouts.jsonl", lines(record))
    assert (found.completion_tokens, len(found.logprobs_sampler)) == (2, 3)


def test_lines_that_several_processes_wrote_into_each_other_are_lost_alone():
    good = lines({"step": 0, "rank": 0, "prompt": "p", "completion": "c", "reward": 0.79})
    found = read("rollouts.jsonl", good + good[:40] + good + good[40:] + good)
    assert [type(record) for record in found] == [Rollout, Skipped, Skipped, Rollout]


@pytest.mark.parametrize("name", ["step", "global_step", "training_step", "trainer/global_step"])
def test_a_row_of_known_numbers_is_a_step(name):
    (found,) = read("metrics.jsonl", lines({name: 5, "train/reward": 0.5, "lr": 1e-6, "ts": 1760000000}))
    assert (found.step, found.metrics, found.time) == (5, {"train/reward": 0.5, "lr": 1e-6}, 1760000000.0)


def test_a_row_may_carry_its_evaluation():
    step, evaluation = read("metrics.jsonl", lines({"step": 0, "reward": 1.8, "eval/strict_accuracy": 0.9}))
    assert (type(step), step.metrics) == (Step, {"reward": 1.8})
    assert (type(evaluation), evaluation.metrics) == (Eval, {"strict_accuracy": 0.9})


def test_a_row_without_a_step_is_skipped():
    found = read(
        "metrics.jsonl",
        lines({"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.5}) * 3 + lines({"reward": 0.5}),
    )
    assert of(Skipped, found) == [Skipped("record without a step", found[-1].offset, 7)]


def test_a_rollout_is_replayed_from_its_own_bytes():
    data = lines(
        {"step": 1, "prompt": "a", "completion": "b", "reward": 0.5},
        {"step": 1, "prompt": "c", "completion": "d", "reward": 0},
    )
    reader = opened("rollouts.jsonl", data)
    for found in fed(reader, data):
        where = found.location
        assert reader.replay(data[where.offset : where.offset + where.length], where) == found


anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2)
)
names = st.sampled_from(
    ["step", "reward", "score", "prompt", "completion", "group", "eval/x", "kl", "completion_ids", "time"]
)


@given(st.lists(st.dictionaries(names, anything), max_size=5), st.sets(st.integers(1, 4)))
def test_any_fields_in_any_cut_give_the_same_records(records, cuts):
    data = lines(*records)
    assert repr(fed(PlainReader(RunContext()), data, cuts)) == repr(fed(PlainReader(RunContext()), data))


row_names = st.sampled_from(
    [
        *("global_step", "_step", "time", "ts", "loss", "kl", "reward", "train/x", "value", "metric", "text"),
        *("eval/x", "eval_x", "eval/eval_x", "test/y"),
    ]
)
spelled = anything | st.sampled_from(["3", "0.5", "NaN"])
row_values = spelled | st.dictionaries(row_names, st.integers(), max_size=2)


def without_place(found):
    return found._replace(offset=0, line=0) if isinstance(found, Skipped) else found._replace(location=None)


@given(
    st.dictionaries(row_names, st.integers(0, 9)),
    st.lists(st.dictionaries(row_names, row_values, max_size=3), max_size=4),
)
def test_a_row_is_read_the_same_after_others_with_its_names(first, changes):
    rows = [{"step": 1, **first}, *({"step": 2, **first, **change} for change in changes)]
    together = fed(PlainReader(RunContext()), lines(*rows))
    begun = {"step": 0, "loss": 1.0}
    alone = [found for row in rows for found in fed(PlainReader(RunContext()), lines(begun, row))[1:]]
    assert repr(list(map(without_place, together))) == repr(list(map(without_place, alone)))
