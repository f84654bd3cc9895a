import copy
import json
from pathlib import PurePath

import pytest
from format_reading import fed, lines, of, opened, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.base import RunContext
from grpo_top.formats.registry import choose
from grpo_top.formats.verifiers import ResultsReader, TracesReader
from grpo_top.formats.verifiers_traces import Intended
from grpo_top.records import Location, Message, Rollout, Run, Skipped


def results(*records: object) -> list[object]:
    return of(Rollout, read("outputs/results.jsonl", lines(*records)))


def traced(*records: object) -> list[object]:
    return of(Rollout, read("outputs/traces.jsonl", lines(*records)))


# Results of 0.1

RESULT = {
    "example_id": 3,
    "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}],
    "completion": [{"role": "assistant", "content": "4"}],
    "reward": 1.25,
    "error": None,
    "is_completed": True,
    "is_truncated": False,
    "stop_condition": "max_turns_reached",
    "metrics": {"correct": 1.0, "has_tags": 0.25, "num_turns": 1.0},
    "token_usage": {"input_tokens": 9.0, "output_tokens": 2.0},
    "correct": 1.0,
    "has_tags": 0.25,
    "num_turns": 1.0,
}


def test_a_result_is_a_rollout_of_its_example():
    (found,) = results(RESULT)
    assert (found.step, found.split, found.group, found.reward) == (0, "train", "3", 1.25)
    assert (found.prompt, found.completion) == ("Be brief.\n2+2?", "4")
    assert (found.prompt_tokens, found.completion_tokens) == (9, 2)
    assert found.messages[1] == Message("user", "2+2?")


def test_metrics_stand_in_the_row_twice_and_count_once_without_those_that_merely_count():
    assert results(RESULT)[0].rewards == {"correct": 1.0, "has_tags": 0.25}


def test_the_packages_own_flag_says_what_is_truncated_and_max_turns_is_how_one_turn_ends():
    (found,) = results(RESULT)
    assert (found.truncated, found.termination) == (False, "max_turns_reached")
    found = results(*map(json.loads, packed("verifiers-v0.1.14_single", "results.jsonl").splitlines()))
    assert sum(rollout.truncated for rollout in found) == 11
    assert {rollout.termination for rollout in found if rollout.truncated} == {
        "max_turns_reached",
        "prompt_too_long",
    }


def test_a_rollout_whose_first_call_failed_has_no_length_and_an_empty_text():
    found = results(*map(json.loads, packed("verifiers-v0.1.14_single", "results.jsonl").splitlines()))
    (failed,) = [rollout for rollout in found if rollout.completion_tokens is None]
    assert (failed.completion, failed.truncated, failed.termination) == ("", True, "prompt_too_long")


def test_tool_calls_in_json_strings_are_read_and_told_apart():
    found = results(*map(json.loads, packed("verifiers-v0.1.14_tool", "results.jsonl").splitlines()))
    first = found[0]
    assert [message.role for message in first.messages] == ["user", "assistant", "tool", "assistant"]
    assert first.messages[1].tool_calls[0]["name"] == "multiply"
    assert first.completion == 'multiply({"a": 9, "b": 20})\nThe result is <answer>180</answer>'


def test_malformed_tool_calls_are_let_go():
    record = RESULT | {"completion": [{"role": "assistant", "content": "x", "tool_calls": ["{broken", 3]}]}
    assert results(record)[0].messages[-1].tool_calls == []


def test_results_of_0_1_9_have_their_metrics_among_the_other_fields_and_errors_in_words():
    """Written by hand after its source: one `Dataset.to_json` at the end."""
    row = {
        "example_id": 3,
        "prompt": "2+2?",
        "completion": [{"role": "assistant", "content": "4"}],
        "task": "tiny-math",
        "reward": 0.5,
        "error": "ToolCallError('no such tool: add(1, 2)')",
        "generation_ms": 12.5,
        "scoring_ms": 0.5,
        "total_ms": 13.0,
        "info": {"difficulty": "easy"},
        "answer": "4",
        "correct": 0.0,
        "format": 1.0,
        "num_turns": 2.0,
    }
    (found,) = of(Rollout, read("results.jsonl", json.dumps(row).encode()))
    assert (found.reward, found.rewards) == (0.5, {"correct": 0.0, "format": 1.0})
    assert (found.termination, found.tier, found.family) == ("ToolCallError", "easy", "tiny-math")
    assert (found.prompt, found.completion) == ("2+2?", "4")


def test_an_error_is_why_a_rollout_ended():
    assert (
        results(RESULT | {"error": {"error": "ModelError", "error_chain_str": "…"}})[0].termination
        == "ModelError"
    )


def test_examples_of_several_environments_are_told_apart():
    found = results(RESULT | {"task": "math"}, RESULT | {"task": "code"})
    assert [(rollout.group, rollout.family) for rollout in found] == [("math 3", "math"), ("code 3", "code")]


def test_equal_numbers_of_different_data_sets_are_different_tasks():
    other = RESULT | {"prompt": "3+3?", "completion": "6"}
    first, second = results(RESULT, other)
    assert first.task != second.task
    assert (second.prompt, second.completion) == ("3+3?", "6")


def test_log_probabilities_are_there_where_the_trajectory_was_saved():
    turns = [{"tokens": {"completion_logprobs": [-0.1, -0.2]}}, {"tokens": {"completion_logprobs": [-0.3]}}]
    assert results(RESULT | {"trajectory": turns})[0].logprobs_sampler == [-0.1, -0.2, -0.3]
    assert results(RESULT | {"trajectory": [*turns, {"tokens": None}]})[0].logprobs_sampler is None


def test_a_reward_that_is_none_is_skipped_and_one_that_is_missing_unknown():
    found = read("results.jsonl", lines(RESULT, RESULT | {"reward": "good"}, RESULT | {"reward": None}))
    assert of(Skipped, found)[0].reason == "rollout whose reward is a str"
    assert of(Rollout, found)[-1].reward is None


# Traces of 0.2 and later

NODES = [
    {"message": {"role": "user", "content": "2+2?"}, "sampled": False},
    {"parent": 0, "message": {"role": "assistant", "content": "4"}, "sampled": True, "logprobs": [-0.5]},
]
TRACE = {
    "id": "t1",
    "task": {
        "type": "T",
        "data": {"idx": 0, "name": "add", "prompt": "2+2?", "difficulty": "easy"},
        "key": "abcdef012345",
    },
    "agent": {"config": {"sampling": {"temperature": 1.0, "top_p": None, "max_tokens": 40}}, "name": "agent"},
    "nodes": NODES,
    "calls": [
        {
            "node": 1,
            "sampling": {"temperature": 1.0, "max_tokens": 40},
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 5, "completion_tokens": 3, "cached_input_tokens": 2},
            "time": {"start": 10.0, "end": 11.5},
        }
    ],
    "rewards": {"correct": {"score": 1.0, "weight": 1.0}, "tags": {"score": 1.0, "weight": 0.25}},
    "ok": True,
    "stop_condition": "agent_completed",
}
EPISODE = {
    "id": "e1",
    "env": {"id": "tiny-math"},
    "task": TRACE["task"],
    "run": {"type": "eval", "id": "r", "name": "single"},
    "ok": True,
    "traces": [TRACE],
}


def trace(**fields: object) -> dict[str, object]:
    return copy.deepcopy(TRACE) | fields


def episode(*traces: dict[str, object]) -> dict[str, object]:
    return copy.deepcopy(EPISODE) | {"traces": list(traces)}


def test_the_reward_is_the_sum_of_scores_times_weights():
    (found,) = traced(EPISODE)
    assert (found.reward, found.rewards) == (1.25, {"correct": 1.0, "tags": 0.25})
    assert (found.group, found.family, found.tier) == ("add abcdef01", "tiny-math", "easy")
    assert (found.prompt_tokens, found.completion_tokens, found.finish_reason) == (7, 3, "stop")
    assert (found.truncated, found.termination, found.time) == (False, "agent_completed", 11.5)


def test_rewards_before_july_2026_are_their_product_already():
    (found,) = traced(trace(rewards={"correct": 0.5, "tags": 0.1}))
    assert (found.reward, found.rewards) == (0.6, {"correct": 0.5, "tags": 0.1})


def test_a_reward_that_was_not_scored_is_unknown():
    (found,) = traced(episode(trace(rewards={"correct": None, "tags": None})))
    assert (found.reward, found.rewards) == (None, {"correct": None, "tags": None})
    assert traced(episode(trace(rewards={})))[0].reward is None


@pytest.mark.parametrize("stop", ["max_turns", "max_output_tokens", "context_length"])
def test_a_limit_of_the_framework_truncates(stop):
    assert traced(episode(trace(stop_condition=stop)))[0].truncated is True


def test_a_last_answer_that_ends_for_its_length_truncates_whatever_the_stop_condition_says():
    calls = [TRACE["calls"][0] | {"finish_reason": "length"}]
    (found,) = traced(episode(trace(calls=calls)))
    assert (found.truncated, found.termination, found.finish_reason) == (True, "agent_completed", "length")


def test_a_failed_call_has_no_finish_reason_and_is_why_the_rollout_ended():
    found = traced(*map(json.loads, packed("verifiers-v0.4.0_single", "traces.jsonl").splitlines()))
    failed = [rollout for rollout in found if rollout.finish_reason is None]
    assert len(failed) == 2
    for rollout in failed:
        assert (rollout.termination, rollout.truncated) == ("ProviderError", False)
        assert (rollout.completion_tokens, rollout.completion, rollout.prompt[:7]) == (0, "", "What is")


def test_escape_bytes_in_a_completion_stay_what_they_are():
    found = traced(*map(json.loads, packed("verifiers-v0.4.0_single", "traces.jsonl").splitlines()))
    assert any("\x1b" in rollout.completion for rollout in found)


def test_each_trace_of_the_policy_is_a_rollout_and_other_agents_are_none():
    judge = trace(agent={"name": "judge", "trainable": False})
    found = traced(episode(trace(), judge, trace(stop_condition="max_turns")))
    assert [rollout.location.part for rollout in found] == [0, 1]
    assert [rollout.truncated for rollout in found] == [False, True]


def test_an_episode_that_failed_before_any_trace_gives_no_rollout():
    assert traced(episode() | {"ok": False, "errors": [{"type": "EnvError", "message": "x"}]}) == []


def test_branches_of_a_graph_follow_one_another_and_each_message_comes_once():
    said = [
        (None, "user", "q"),
        (0, "assistant", "a"),
        (0, "assistant", "b"),
        (1, "user", "more"),
        (3, "assistant", "c"),
    ]
    nodes = [
        {"parent": parent, "message": {"role": role, "content": text}, "sampled": role == "assistant"}
        for parent, role, text in said
    ]
    (found,) = traced(episode(trace(nodes=nodes)))
    assert [message.content for message in found.messages] == ["q", "a", "more", "c", "b"]
    assert (found.prompt, found.completion) == ("q", "a\nc\nb")


def test_reasoning_and_tool_calls_are_part_of_what_was_said():
    message = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "1", "name": "add", "arguments": '{"a": 2}'}],
    }
    (found,) = traced(episode(trace(nodes=[NODES[0], {"parent": 0, "message": message, "sampled": True}])))
    assert found.completion == '<think>\nhm\n</think>\n\nadd({"a": 2})'
    assert found.messages[1].tool_calls == [{"id": "1", "name": "add", "arguments": '{"a": 2}'}]


def test_without_usage_the_sampled_tokens_are_counted():
    nodes = [NODES[0], NODES[1] | {"mask": [False, True, True], "token_ids": [1, 2, 3]}]
    (found,) = traced(episode(trace(nodes=nodes, calls=[{"node": 1}])))
    assert (found.completion_tokens, found.prompt_tokens) == (2, None)


def test_calls_before_0_2_1_are_written_on_their_nodes():
    nodes = [
        NODES[0],
        NODES[1] | {"finish_reason": "length", "usage": {"prompt_tokens": 4, "completion_tokens": 9}},
    ]
    record = {name: value for name, value in trace(nodes=nodes).items() if name not in {"calls", "agent"}}
    (found,) = traced(record)
    assert (found.completion_tokens, found.truncated) == (9, True)


def test_trainer_log_probabilities_are_compared_where_every_turn_has_them():
    nodes = [NODES[0], NODES[1] | {"trainer_logprobs": [-0.6], "token_ids": [7]}]
    (found,) = traced(episode(trace(nodes=nodes)))
    assert (found.logprobs_sampler, found.logprobs_trainer) == ([-0.5], [-0.6])
    assert traced(EPISODE)[0].logprobs_trainer is None


def test_what_a_judge_answered_is_the_raw_verifier_output():
    (found,) = traced(episode(trace(info={"judge": [{"score": 1}]})))
    assert found.verifier_raw == '[{"score": 1}]'


# Runs, configs and several evaluations


def test_the_config_that_an_agent_was_given_is_what_the_run_intends():
    found = read("traces.jsonl", lines(EPISODE, EPISODE))
    assert of(Run, found) == [
        Run(run="single", framework="verifiers"),
        Run(sampling={"temperature": 1.0, "max_tokens": 40}),
    ]


def test_agents_that_are_meant_to_sample_otherwise_are_not_shown_to_drift():
    intended = Intended()
    assert intended.note(("math", "agent"), {"temperature": 1.0, "top_p": 1.0})
    assert not intended.note(("code", "agent"), {"temperature": 0.7, "top_p": 1.0})
    assert intended.of_run == {"temperature": 1.0, "top_p": 1.0}
    own = {"temperature": 0.7, "top_p": 1.0}
    assert intended.shown(own, {"temperature": 0.7, "top_p": 1.0}) == {"top_p": 1.0}
    assert intended.shown(own, {"temperature": 0.15, "top_p": 1.0}) == {"temperature": 0.15, "top_p": 1.0}


def test_metadata_of_0_1_gives_the_intended_sampling():
    (found,) = read("metadata.json", packed("verifiers-v0.1.14_tool", "metadata.json"))
    assert (found.run, found.group_size) == ("tiny_math mock-arith-1b", 8)
    assert found.sampling == {"max_tokens": 40, "temperature": 1.0}


def test_the_resolved_config_of_0_4_gives_the_intended_sampling():
    name = "configs/resolved/eval.json"
    (found,) = read(name, packed("verifiers-v0.4.0_single", name))
    assert (found.run, found.group_size, found.sampling) == (
        "single",
        8,
        {"temperature": 1.0, "max_tokens": 40},
    )


def test_the_toml_config_of_0_2_is_read():
    data = b'model = "m"\nnum_rollouts = 4\n[sampling]\ntemperature = 0.5\n[taskset]\nid = "x"\n'
    (found,) = read("config.toml", data)
    assert (found.group_size, found.sampling) == (4, {"temperature": 0.5})
    assert [type(record) for record in read("config.toml", data + b"broken")] == [Skipped]


def test_several_evaluations_are_a_step_each():
    context = RunContext()
    steps = [
        of(Rollout, read(f"evals/{name}/results.jsonl", lines(RESULT), context))[0].step
        for name in ("a", "b", "a")
    ]
    assert steps == [0, 1, 0]


def test_rollouts_that_a_trainer_ran_are_not_an_evaluations():
    train = EPISODE | {"run": {"type": "train", "id": "r", "work": {"type": "train", "step": 4}}}
    assert choose(PurePath("x/traces.jsonl"), lines(train))[0].name == "prime-rl"
    assert choose(PurePath("x/traces.jsonl"), lines(EPISODE))[0].name == "verifiers"


def test_an_episode_longer_than_the_head_is_known_by_its_beginning():
    long = copy.deepcopy(EPISODE)
    long["traces"][0]["nodes"][1]["logprobs"] = [-0.123] * 20_000
    assert choose(PurePath("x"), lines(long)[: 64 << 10])[0].name == "verifiers"


# Whatever is cut, the same records

LINES = [lines(RESULT), lines(EPISODE), b'{"example_id": 3', b"[]", b"", b'{"traces": 3, "id": 1}']


@given(st.lists(st.sampled_from(LINES), max_size=8), st.sets(st.integers(1, 7)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part.strip() + b"\n" for part in parts)
    for reader in (ResultsReader(0), TracesReader(0)):
        assert fed(reader.fresh(), data, cuts) == fed(reader.fresh(), data)


def test_garbage_between_records_loses_itself_alone():
    good = lines(EPISODE)
    found = fed(TracesReader(0), good + good[:50] + b"\n" + good)
    assert [type(record) for record in found] == [Run, Run, Rollout, Skipped, Rollout]


anything = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers())
)


@given(
    st.dictionaries(st.sampled_from([*TRACE, *RESULT]), anything),
    st.dictionaries(st.sampled_from(list(TRACE)), anything),
)
def test_fields_of_any_kind_break_nothing(fields, inner):
    for record in (RESULT | fields, EPISODE | fields, episode(TRACE | inner), TRACE | inner):
        for reader in (ResultsReader(0), TracesReader(0)):
            fed(reader, json.dumps(record).encode())


@pytest.mark.parametrize(
    ("run", "name"),
    [("verifiers-v0.1.14_tool", "results.jsonl"), ("verifiers-v0.4.0_single", "traces.jsonl")],
)
def test_a_rollout_is_replayed_from_its_own_bytes(run, name):
    data = packed(run, name)
    reader = opened(name, data)
    for found in of(Rollout, fed(reader, data)):
        where = found.location
        assert reader.replay(data[where.offset : where.offset + where.length], where) == found


def test_the_second_trace_of_an_episode_is_replayed():
    data = lines(episode(trace(), trace(stop_condition="max_turns")))[:-1]
    assert TracesReader(0).replay(data, Location(0, len(data), 1)).truncated is True
    assert TracesReader(0).replay(data, Location(0, len(data), 2)) is None
