"""Columns of rollouts: what is kept, what is unknown, and which record of a rollout counts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from grpo_top.history import History
from grpo_top.records import Location, Message, Rollout


def rollout(step: int = 1, group: str | None = "a", index: int | None = 0, **fields: Any) -> Rollout:
    return Rollout(step=step, group=group, index=index, **{"reward": 1.0, **fields})


def column(history: History, name: str) -> list[Any]:
    return history.columns[name].view().tolist()  # type: ignore[no-any-return]


def test_a_missing_field_is_unknown_and_never_zero() -> None:
    history = History()
    history.add([Rollout(step=1, group="a", reward=None)], source=0)
    assert math.isnan(column(history, "reward")[0])
    for name in (
        "completion_tokens",
        "truncated",
        "parsed",
        "policy_start",
        "trainer_version",
        "sampling",
        "seed",
    ):
        assert column(history, name) == [-1], name


def test_a_reward_that_is_not_finite_is_told_from_one_that_is_unknown() -> None:
    history = History()
    history.add([rollout(reward=math.nan), rollout(index=1, reward=None)], source=0)
    assert column(history, "reward")[0] == math.inf
    assert math.isnan(column(history, "reward")[1])


@pytest.mark.parametrize(
    ("fields", "truncated"),
    [
        ({"finish_reason": "length"}, 1),
        ({"finish_reason": "stop"}, 0),
        ({"truncated": True, "finish_reason": "stop"}, 1),
        ({}, -1),
    ],
)
def test_truncation_is_what_the_source_says_else_what_the_finish_reason_means(
    fields: dict[str, Any], truncated: int
) -> None:
    history = History()
    history.add([rollout(**fields)], source=0)
    assert column(history, "truncated") == [truncated]


def test_the_text_is_measured_and_let_go_and_its_place_is_kept() -> None:
    history = History()
    history.add([rollout(completion="spam " * 10, location=Location(120, 64))], source=3)
    assert column(history, "loop") == [1]
    assert (column(history, "source"), column(history, "offset"), column(history, "length")) == (
        [3],
        [120],
        [64],
    )


def test_texts_that_differ_in_white_space_alone_are_one_text() -> None:
    history = History()
    history.add([rollout(completion="a  b\n"), rollout(index=1, completion="a b")], source=0)
    first, second = column(history, "text")
    assert first == second


def test_what_a_model_said_in_a_conversation_is_its_text() -> None:
    said = [
        Message("user", "2+2?"),
        Message("assistant", "4"),
        Message("tool", "x"),
        Message("assistant", "done"),
    ]
    history = History()
    history.add([rollout(messages=said), rollout(index=1, completion="4\ndone")], source=0)
    first, second = column(history, "text")
    assert first == second


def test_a_system_prompt_that_all_tasks_share_does_not_make_them_one_task() -> None:
    asked = [[Message("system", "be brief"), Message("user", question)] for question in ("1+1", "2+2")]
    history = History()
    history.add([rollout(group=None, index=None, messages=messages) for messages in asked], source=0)
    assert column(history, "group") == [0, 1]
    assert len(set(column(history, "task"))) == 2


def test_the_same_rollout_written_again_replaces_the_first() -> None:
    history = History()
    history.add([rollout(reward=0.0), rollout(index=1)], source=0)
    history.add([rollout(reward=1.0)], source=0)
    assert history.rows_of(1).tolist() == [1, 2]
    assert history.replaced == 1


def test_the_same_place_with_another_task_is_another_rollout() -> None:
    history = History()
    history.add([rollout(task="1+1"), rollout(task="2+2")], source=0)
    assert history.rows_of(1).tolist() == [0, 1]


def test_a_rollout_is_replaced_however_many_steps_came_between() -> None:
    history = History()
    history.add([rollout(step=step, reward=0.0) for step in range(1, 200)], source=0)
    history.add([rollout(step=3, reward=1.0)], source=0)
    assert history.rows_of(3).tolist() == [199]
    assert history.restarts == {3: 199}
    assert history.group_labels(3) == ["a"]


def test_groups_without_ids_are_equal_prompts_of_one_step() -> None:
    history = History()
    prompts = ["p", "q", "p", "q"]
    history.add([rollout(group=None, index=None, prompt=prompt) for prompt in prompts], source=0)
    assert column(history, "group") == [0, 1, 0, 1]
    assert column(history, "index") == [0, 0, 1, 1]
    assert history.grouped_by_prompt(1)


def test_a_component_that_appears_late_is_unknown_before() -> None:
    history = History()
    history.add([rollout(rewards={"accuracy": 1.0})], source=0)
    history.add([rollout(index=1, rewards={"accuracy": 0.5, "format": 0.2})], source=0)
    format_ = history.components["format"].view()
    assert math.isnan(format_[0])
    assert format_[1] == 0.2


def test_log_probabilities_whose_lengths_differ_are_marked_and_not_compared() -> None:
    history = History()
    history.add(
        [
            rollout(logprobs_sampler=[-1.0, -2.0], logprobs_trainer=[-1.0, -2.5]),
            rollout(index=1, logprobs_sampler=[-1.0], logprobs_trainer=[-1.0, -2.5]),
        ],
        source=0,
    )
    assert column(history, "logp_diff") == [0.25, math.inf]


def test_a_source_that_was_rewritten_can_be_forgotten() -> None:
    history = History()
    history.add([rollout(), rollout(step=2)], source=0)
    history.add([rollout(step=2, group="b")], source=1)
    assert history.forget(0) == {1, 2}
    assert history.rows_of(1).tolist() == []
    assert history.rows_of(2).tolist() == [2]


def test_a_copy_in_another_file_replaces_and_is_no_restart() -> None:
    history = History()
    history.add([rollout(), rollout(step=2)], source=0)
    history.add([rollout(step=2, reward=0.5), rollout(reward=0.5)], source=1)
    assert history.rows_of(1).tolist() == [3]
    assert history.restarts == {}


def test_the_prompts_of_the_newest_groups_are_kept_where_they_are_short() -> None:
    history = History()
    history.add([rollout(prompt="2+2="), rollout(index=1, prompt="2+2="), rollout(group="b")], source=0)
    history.add([rollout(group="c", prompt="x" * 100_000), rollout(group="d", prompt="3+3=")], source=0)
    assert history.prompts == {0: "2+2=", 4: "3+3="}
    history.add([rollout(step=2, group=f"{number}", prompt=f"{number}") for number in range(2_000)], source=0)
    assert 256 <= len(history.prompts) <= 512
    assert max(history.prompts) == history.length - 1
