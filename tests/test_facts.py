"""Statistics of a step's rollouts against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.batch import Batch
from grpo_top.facts import RewardScale, RunState, StepFacts
from grpo_top.history import History
from grpo_top.measure import measure
from grpo_top.records import Rollout, Success

rewards_of_groups = st.lists(
    st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
)


def batch_of(groups: list[list[float | None]], **fields: list[Any]) -> Batch:
    """One step of these groups; `fields` give each rollout its own value, in order."""
    history = History()
    rollouts = []
    for number, rewards in enumerate(groups):
        for index, reward in enumerate(rewards):
            extra = {name: values[len(rollouts)] for name, values in fields.items()}
            rollouts.append(Rollout(step=1, group=str(number), index=index, reward=reward, **extra))
    history.add(rollouts, source=0)
    return Batch(history, 1, history.rows_of(1))


def measured(batch: Batch, run: RunState | None = None) -> dict[str, float]:
    scale = RewardScale()
    scale.update(batch.reward[batch.known])
    return measure(batch, run or RunState(), scale)


@given(rewards_of_groups)
def test_group_statistics_follow_their_definitions(groups: list[list[float | None]]) -> None:
    found = measured(batch_of(groups))
    known = [[reward for reward in rewards if reward is not None] for rewards in groups]
    everything = [reward for rewards in known for reward in rewards]
    judged = [rewards for rewards in known if len(rewards) >= 2]
    assert found["rollouts"] == sum(map(len, groups))
    assert ("reward_mean" in found) == bool(everything)
    if everything:
        assert found["reward_mean"] == pytest.approx(np.mean(everything))
        assert found["reward_std"] == pytest.approx(np.std(everything))
    assert ("zero_variance_group_frac" in found) == bool(judged)
    if judged:
        flat = [float(np.std(rewards)) <= 1e-8 for rewards in judged]
        assert found["zero_variance_group_frac"] == pytest.approx(np.mean(flat))
        assert found["group_reward_std_mean"] == pytest.approx(
            np.mean([np.std(rewards) for rewards in judged])
        )


def test_flat_groups_are_told_apart_by_whether_they_fail_or_pass() -> None:
    found = measured(batch_of([[0, 0], [1, 1], [0, 1], [0, 0]]))
    assert found["all_fail_group_frac"] == 0.5
    assert found["all_pass_group_frac"] == 0.25
    assert found["zero_variance_group_frac"] == 0.75


def test_duplicates_are_counted_within_their_group_alone() -> None:
    found = measured(batch_of([[0, 1, 0], [1, 0, 1]], completion=["x", "x", "y", "x", "z", "w"]))
    assert found["duplicate_frac"] == pytest.approx(2 / 6)
    assert found["distinct_texts_mean"] == pytest.approx(2.5)


def test_reward_against_length_is_correlated_within_groups() -> None:
    # Between the groups length and reward fall together; within each they rise together.
    found = measured(batch_of([[0.8, 0.9], [0.1, 0.2]], completion_tokens=[10, 20, 100, 110]))
    assert found["reward_length_corr"] == pytest.approx(1.0)


def test_lag_is_the_trainers_version_less_the_first_that_sampled() -> None:
    batch = batch_of([[0, 1]], policy_version=[3, 5], policy_version_end=[4, None], trainer_version=[6, 6])
    found = measured(batch)
    assert (found["version_lag_mean"], found["version_lag_max"]) == (2.0, 3.0)
    assert found["mixed_version_frac"] == 0.5


def test_what_is_not_logged_gives_no_series() -> None:
    found = measured(batch_of([[0, 1]]))
    for name in (
        "truncation_rate",
        "parse_failure_rate",
        "version_lag_max",
        "completion_tokens_mean",
        "duplicate_frac",
    ):
        assert name not in found


@pytest.mark.parametrize(
    ("run", "rewards", "passed"),
    [
        (RunState(), [0.0, 1.0], [0, 1]),
        (RunState(), [0.0, 0.1, 0.9], [0, 1, 1]),
        (RunState(), [-1.0, 0.0, 1.0], [0, 1, 1]),
        (RunState(reward_range=(0.0, 1.0)), [0.1, 0.5, 0.9], [0, 1, 1]),
        (RunState(success=Success("reward", 0.9)), [0.1, 0.5, 0.9], [0, 0, 1]),
    ],
)
def test_success_is_as_declared_else_as_the_rewards_suggest(
    run: RunState, rewards: list[float], passed: list[int]
) -> None:
    batch = batch_of([list(rewards)])
    measured(batch, run)
    assert batch.success.tolist() == passed


def test_success_by_a_component_is_unknown_where_the_component_is() -> None:
    batch = batch_of([[1.0, 1.0]], rewards=[{"accuracy": 1.0}, {"format": 1.0}])
    measured(batch, RunState(success=Success("accuracy", 1.0)))
    assert batch.success.tolist() == [1, -1]


def test_without_total_rewards_a_group_is_flat_where_all_advantages_are_zero() -> None:
    batch = batch_of([[None, None], [None, None]], advantage=[0.0, 0.0, 0.7, -0.7])
    assert measured(batch)["zero_variance_group_frac"] == 0.5


def by_prompt(prompts: str) -> Batch:
    history = History()
    history.add([Rollout(step=1, group=None, reward=1.0, prompt=prompt) for prompt in prompts], source=0)
    return Batch(history, 1, history.rows_of(1))


def test_one_prompt_asked_in_two_groups_is_cut_where_the_order_keeps_groups_together() -> None:
    assert by_prompt("aaaabbbbaaaacccc").groups == 4
    assert by_prompt("aaaaaaaabbbbcccc").groups == 4


def test_a_shuffled_order_is_never_cut() -> None:
    assert by_prompt("abacbabcaabaacac").groups == 3


def test_a_rollout_whose_last_policy_version_alone_is_known_may_be_mixed_or_not() -> None:
    batch = batch_of([[0, 1]], policy_version=[None, None], policy_version_end=[4, 5])
    found = measured(batch)
    assert found["policy_version"] == 5.0
    assert "mixed_version_frac" not in found


def test_where_flat_groups_never_reach_the_log_their_share_is_unknown() -> None:
    run = RunState(drops_flat_groups=True)
    found = measured(batch_of([[0.0, 1.0], [1.0, 0.0]]), run)
    assert not {"zero_variance_group_frac", "trainable_ratio", "all_fail_group_frac"} & found.keys()
    assert found["group_reward_std_mean"] == 0.5


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=12))
def test_flags_are_told_apart(parsed: list[bool | None]) -> None:
    flags = batch_of([[0.0] * len(parsed)], parsed=parsed).flags("parsed")
    known = [value for value in parsed if value is not None]
    assert flags.yes.tolist() == [value is True for value in parsed]
    assert flags.no.tolist() == [value is False for value in parsed]
    assert (flags.hits, flags.of) == (known.count(True), len(known))
    assert (flags.known is None) == (None not in parsed)


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12))
def test_the_different_values_of_a_column_are_found(families: list[str | None]) -> None:
    batch = batch_of([[0.0] * len(families)], family=families)
    names = {None if number < 0 else batch.names("family")[number] for number in batch.distinct("family")}
    assert names == set(families)
    ids = batch.column("family")
    assert batch.extent("family") == (ids.min(), ids.max())
    assert batch.part_ids["family"].tolist() == (ids + 1).tolist()


def test_texts_differ_where_all_are_known_and_no_two_are_equal() -> None:
    for texts, differ in ((["a", "b"], True), (["a", "a"], False), (["a", None], False)):
        assert batch_of([[0.0, 1.0]], completion=texts).texts_differ is differ


def test_series_in_braces_are_found_by_what_the_braces_hold() -> None:
    facts = StepFacts(
        1, RunState(), RewardScale(), {"kl": 0.1, "component_mean{a}": 1.0, "component_mean{b{c}}": 2.0}
    )
    assert facts.braced("component_mean") == {"a": 1.0, "b{c}": 2.0}
    assert facts.braced("kl") == {}
