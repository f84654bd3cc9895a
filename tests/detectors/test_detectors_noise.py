"""Runs that are well but noisy, small, at a ceiling or at a start: what must not be said of them, and what must be."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from detector_steps import FAIL, INFO, OK, UNKNOWN, WARN, WATCH, Watched, evaluation

from grpo_top.detectors.collapse import RewardCollapse
from grpo_top.detectors.components import ComponentDivergence, UniformComponent
from grpo_top.detectors.heldout import HeldoutFlat
from grpo_top.detectors.kl import KlPinned
from grpo_top.detectors.learnable import BaseSuccessZero
from grpo_top.detectors.progress import NoUpdate
from grpo_top.detectors.staleness import StaleRollouts
from grpo_top.detectors.trainability import LowTrainability, NoTrainableGroups
from grpo_top.detectors.variance import DegenerateGroups, RewardStdDeath
from grpo_top.facts import RunState

if TYPE_CHECKING:
    from collections.abc import Callable

# ---- HELDOUT_FLAT: an evaluation on a few rollouts tells little, and a ceiling leaves nothing to gain


def hits(noise: random.Random, of: int, rate: float) -> float:
    """A success rate as an evaluation on so many rollouts shows it."""
    return sum(noise.random() < rate for _ in range(of)) / of


def evaluated(
    train: Callable[[int], float], heldout: Callable[[int], float], every: int, steps: int = 240
) -> Watched:
    watched = Watched(HeldoutFlat, run=RunState(reward_range=(0.0, 1.0)))
    for step in range(1, steps + 1):
        watched.show([evaluation(step, heldout(step))] if step % every == 0 else [], reward_mean=train(step))
    return watched


@pytest.mark.parametrize("every", [5, 20])
def test_a_small_heldout_set_that_rises_with_train_to_a_ceiling_is_not_flat(every: int) -> None:
    fired = 0
    for seed in range(12):
        noise = random.Random(seed)

        def rate(step: int) -> float:
            return 0.9 - 0.3 * 0.97**step

        watched = evaluated(
            lambda step, noise=noise: hits(noise, 64, rate(step)),
            lambda step, noise=noise: hits(noise, 24, rate(step)),
            every,
        )
        fired += bool(watched.fired)
    assert not fired


def test_the_same_set_that_stands_still_while_train_rises_is() -> None:
    for seed in range(4):
        noise = random.Random(seed)
        watched = evaluated(
            lambda step: 0.3 + 0.5 * step / 400,
            lambda _, noise=noise: hits(noise, 24, 0.3),
            every=5,
            steps=400,
        )
        assert watched.fired, seed


@pytest.mark.parametrize(("heldout", "fires"), [(0.97, False), (0.6, True)])
def test_heldout_near_its_top_cannot_gain_what_train_gains(heldout: float, fires: bool) -> None:
    watched = evaluated(lambda step: 0.3 + 0.5 * step / 240, lambda _: heldout, every=20)
    assert bool(watched.fired) is fires


@pytest.mark.parametrize(("rising", "fires"), [("format", False), ("accuracy", True)])
def test_what_only_form_has_gained_is_not_missed_on_heldout(rising: str, fires: bool) -> None:
    watched = Watched(HeldoutFlat, run=RunState(reward_range=(0.0, 2.0)))
    for step in range(1, 241):
        parts = {"format": 0.2, "accuracy": 0.2} | {rising: 0.2 + 0.7 * step / 240}
        watched.show(
            [evaluation(step, 0.2)] if step % 20 == 0 else [],
            reward_mean=sum(parts.values()),
            component_mean__format=parts["format"],
            component_mean__accuracy=parts["accuracy"],
        )
    assert bool(watched.fired) is fires


# ---- KL_PINNED: what has moved, or is not meant to move, is not held


def pinned(rewards: list[float], kl: float = 5e-4, **others: list[float]) -> Watched:
    watched = Watched(KlPinned)
    watched.show_all(kl=[kl] * len(rewards), reward_mean=rewards, **others)
    return watched


def test_a_small_mean_over_the_tokens_of_long_answers_is_a_long_way() -> None:
    flat = [0.3, 0.32] * 25
    assert pinned(flat, completion_tokens_mean=[40.0] * 50).fired
    assert not pinned(flat, completion_tokens_mean=[2000.0] * 50).fired
    assert pinned(flat, kl=1e-5, completion_tokens_mean=[2000.0] * 50).fired


def test_a_learning_rate_that_warms_up_or_has_run_out_is_not_held_by_a_penalty() -> None:
    flat = [0.3, 0.32] * 25
    assert pinned(flat, learning_rate=[1e-6] * 50).fired
    assert not pinned(flat, learning_rate=[1e-6 * step / 50 for step in range(50)]).fired
    assert not pinned(flat, learning_rate=[1e-6] * 10 + [1e-8] * 40).fired
    assert pinned(flat, learning_rate=[1e-6] * 45 + [1e-8] * 5).fired[-1] == 50


def test_a_reward_that_came_up_before_it_levelled_off_shows_that_the_policy_moved() -> None:
    risen = [0.3 + 0.02 * min(step, 20) + 0.01 * (step % 2) for step in range(80)]
    assert pinned(risen).verdicts[-1].status == OK


# ---- REWARD_COLLAPSE in a log without rollouts


def test_a_dip_that_is_small_beside_the_rewards_spread_is_no_collapse() -> None:
    watched = Watched(RewardCollapse)
    watched.show_all(reward_mean=[0.93, 0.92] * 20 + [0.86, 0.85] * 20, reward_std=[0.25] * 80)
    assert not {WATCH, WARN, FAIL} & {verdict.status for verdict in watched.verdicts}


def test_a_rare_success_that_is_lost_is_one() -> None:
    watched = Watched(RewardCollapse)
    watched.show_all(reward_mean=[0.08, 0.07] * 20 + [0.0] * 20, reward_std=[0.25] * 60)
    assert watched.fired[0] == 45


def test_a_slow_fall_must_last() -> None:
    rows = [0.6] * 60 + [0.6 - 0.01 * row for row in range(40)]
    watched = Watched(RewardCollapse)
    watched.show_all(reward_mean=rows, reward_std=[0.4] * 100)
    below = [place for place, verdict in enumerate(watched.verdicts) if verdict.status >= WATCH]
    assert watched.fired
    assert watched.fired[0] - 1 - below[0] == 4


# ---- UNIFORM_COMPONENT: of few rollouts, of rare successes, of penalties


def components(rows: int, rollouts: float | None = None, **values: Callable[[int], float]) -> Watched:
    watched = Watched(UniformComponent)
    for row in range(rows):
        named = {f"component_mean__{name}": of(row) for name, of in values.items()}
        watched.show(rollouts=rollouts, other=None, component_mean__graded=row / 100, **named)
    return watched


@pytest.mark.parametrize(
    ("name", "said"), [("soft_overlong_punishment", INFO), ("length_penalty", INFO), ("accuracy", WARN)]
)
def test_nothing_taken_off_is_the_top_of_what_only_takes_off(name: str, said: int) -> None:
    assert components(12, **{name: lambda _: 0.0}).verdicts[-1].status == said


def test_what_is_always_paid_for_form_is_paid_in_full() -> None:
    for name, said in (("format", INFO), ("accuracy", WARN)):
        assert components(12, **{name: lambda _: 0.2}).verdicts[-1].status == said


def test_a_success_once_in_a_while_in_a_small_batch_is_no_stuck_component() -> None:
    assert not components(15, accuracy=lambda row: 0.125 * (row == 4)).fired


def test_one_value_on_a_few_rollouts_is_chance() -> None:
    assert not components(12, rollouts=4.0, accuracy=lambda _: 0.0).fired
    assert components(12, rollouts=8.0, accuracy=lambda _: 0.0).fired


def test_two_components_that_part_by_next_to_nothing_beside_a_third_do_not_part() -> None:
    for third, fires in ((0.5, False), (0.01, True)):
        watched = Watched(ComponentDivergence)
        for row in range(40):
            watched.show(
                component_mean__format=0.9 + 1e-4 * row,
                component_mean__brevity=0.2 - 1e-4 * row,
                component_mean__accuracy=0.3 + third * (row % 2),
            )
        assert bool(watched.fired) is fires


# ---- one group a step, and logs that tell of groups by their mean spread alone


def test_a_group_without_spread_now_and_then_is_no_death_of_the_rewards_spread() -> None:
    noise = random.Random(1)
    watched = Watched(RewardStdDeath, run=RunState(group_size=4))
    spread = [0.0 if noise.random() < 0.5 else 0.5 for _ in range(300)] + [0.0] * 40
    statuses = watched.show_all(reward_std=spread, reward_mean=[0.5] * 340)
    assert WARN not in statuses[:300]
    assert statuses[-1] == WARN


def test_a_mean_spread_of_0_is_that_of_groups_that_are_all_flat() -> None:
    for detector in (DegenerateGroups, NoTrainableGroups, LowTrainability):
        watched = Watched(detector)
        watched.show_all(group_reward_std_mean=[0.0] * 20, reward_mean=[2.0] * 20)
        assert watched.verdicts[-1].status >= WARN, detector.id


def test_any_other_mean_spread_does_not_say_how_many_are() -> None:
    for detector in (DegenerateGroups, NoTrainableGroups, LowTrainability):
        watched = Watched(detector)
        watched.show_all(group_reward_std_mean=[0.3] * 20, reward_mean=[0.5] * 20)
        assert watched.verdicts[-1].status == UNKNOWN, detector.id


# ---- a trainer that logs the lowest and the highest reward


def test_rewards_that_are_all_0_from_the_first_step_are_no_success() -> None:
    watched = Watched(BaseSuccessZero)
    watched.show_all(reward_mean=[0.0] * 10, reward_min=[0.0] * 10, reward_max=[0.0] * 10)
    assert watched.fired[0] == 8


def test_a_gradient_of_0_beside_rewards_that_differ_is_no_update() -> None:
    watched = Watched(NoUpdate)
    watched.show_all(grad_norm=[0.0] * 12, reward_min=[0.0] * 12, reward_max=[1.0] * 12)
    assert watched.summary == "gradient norm exactly 0 on 12 steps running, although rewards differ"


def test_groups_that_agree_within_need_not_agree_with_each_other() -> None:
    watched = Watched(BaseSuccessZero)
    watched.show_all(reward_mean=[-0.5] * 10, group_reward_std_mean=[0.0] * 10)
    assert not watched.fired


# ---- STALE_ROLLOUTS by fits and starts


@pytest.mark.parametrize(("declared", "fires"), [(2, True), (None, False)])
def test_a_lag_that_exceeds_the_runs_own_tolerance_again_and_again_fails(
    declared: int | None, fires: bool
) -> None:
    watched = Watched(StaleRollouts, run=RunState(version_lag_tolerance=declared))
    watched.show_all(version_lag_max=[6.0 if step % 10 < 2 else 1.0 for step in range(40)])
    assert bool(watched.fired) is fires
    if fires:
        assert watched.summary == "lag above the declared tolerance of 2 on 4 of 20 steps"
