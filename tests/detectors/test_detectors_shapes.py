"""Runs of other shapes than the usual: what must stay silent in them because it is learning, and what must not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from detector_steps import FAIL, OK, WARN, WATCH, Watched, evaluation, findings
from runs import rollout, run_record, step_record

from grpo_top.detectors.collapse import RewardCollapse
from grpo_top.detectors.headroom import SaturatedReward
from grpo_top.detectors.heldout import HeldoutFlat
from grpo_top.detectors.kl import KlPinned, KlRatchet
from grpo_top.detectors.texts import LowDiversity
from grpo_top.detectors.trainability import TrainabilityDecline
from grpo_top.facts import RunState
from grpo_top.triage import first_cause

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grpo_top.snapshot import Finding


def learning(steps: int, first: float, last: float) -> list[float]:
    """A reward that rises quickly at first and levels off."""
    return [last - (last - first) * 0.97**step for step in range(steps)]


def run_of(reward: Callable[[int, int], float], steps: int = 40, **fields: Any) -> list[dict[str, Any]]:
    """Two groups of eight a step; `reward` is asked by step and index."""
    return [
        rollout(
            step,
            f"{step}-{group}",
            index,
            reward(step, index),
            task=f"t{step}-{group}",
            completion=f"text {step} {group} {index}",
            **{name: of(step) if callable(of) else of for name, of in fields.items()},
        )
        for step in range(1, steps + 1)
        for group in range(2)
        for index in range(8)
    ]


# ---- HELDOUT_FLAT: what an evaluation can tell depends on how noisy it is


@pytest.mark.parametrize("seed", range(2, 12))
def test_a_heldout_result_that_rises_under_much_noise_is_not_flat(seed: int) -> None:
    noise = random.Random(seed)
    watched = Watched(HeldoutFlat, run=RunState(reward_range=(0.0, 1.0)))
    for step, reward in enumerate(learning(240, 0.3, 0.8), 1):
        seen = [evaluation(step, reward + noise.gauss(0, 0.08))] if step % 20 == 0 else []
        watched.show(seen, reward_mean=reward + noise.gauss(0, 0.03))
    assert not watched.fired


def test_a_fall_within_the_noise_of_the_evaluations_is_none() -> None:
    watched = Watched(HeldoutFlat, run=RunState(reward_range=(0.0, 1.0)))
    for step in range(1, 121):
        value = (0.55, 0.75, 0.5, 0.8, 0.75, 0.55)[step // 20 - 1]
        watched.show([evaluation(step, value)] if step % 20 == 0 else [], reward_mean=step / 600)
    assert not watched.fired


def test_a_reward_that_rises_within_the_steps_before_an_evaluation_is_taken_at_its_end() -> None:
    watched = Watched(HeldoutFlat, run=RunState(reward_range=(0.0, 1.0)))
    for step in range(1, 121):
        reward = min(0.2 + 0.03 * step, 0.8)  # has arrived when the first evaluation is made
        watched.show(
            [evaluation(step, 0.79 + step % 40 / 2000)] if step % 20 == 0 else [], reward_mean=reward
        )
    assert not watched.fired


def test_an_accuracy_beside_a_reward_of_a_hundred_points_is_compared_each_with_its_own_range() -> None:
    for last, fires in ((0.75, False), (0.17, True)):
        watched = Watched(HeldoutFlat, run=RunState(reward_range=(0.0, 100.0)))
        for step, reward in enumerate(learning(160, 40.0, 85.0), 1):
            value = 0.17 + (last - 0.17) * step / 160
            watched.show([evaluation(step, value)] if step % 20 == 0 else [], reward_mean=reward)
        assert bool(watched.fired) is fires


# ---- REWARD_COLLAPSE: other tasks are no fall, and what was learned is no noise


def tiers(reward: dict[str, tuple[float, float]], of: Callable[[int], str]) -> list[dict[str, Any]]:
    return run_of(lambda step, index: reward[of(step)][index % 2], steps=60, tier=of)


def test_a_curriculum_that_moves_on_to_a_harder_tier_is_no_collapse(tmp_path: Path) -> None:
    reward = {"easy": (0.8, 1.0), "hard": (0.0, 0.4)}
    found = findings(tmp_path, tiers(reward, lambda step: "easy" if step <= 40 else "hard"))
    assert "REWARD_COLLAPSE" not in found


def test_a_mixture_that_shifts_to_a_tier_that_was_there_is_no_collapse(tmp_path: Path) -> None:
    reward = {"easy": (0.8, 1.0), "hard": (0.0, 0.4)}
    found = findings(tmp_path, tiers(reward, lambda step: "easy" if step <= 40 and step % 5 else "hard"))
    assert "REWARD_COLLAPSE" not in found


def test_a_fall_within_the_tiers_is_one(tmp_path: Path) -> None:
    records = run_of(lambda step, index: (0.8, 1.0)[index % 2] * (step <= 40), steps=60, tier="easy")
    assert findings(tmp_path, records)["REWARD_COLLAPSE"].onset == 41


def test_a_fall_out_of_a_steep_rise_is_found() -> None:
    rising = [0.2 + 0.07 * row for row in range(12)]
    watched = Watched(RewardCollapse, span=5)
    watched.show_all(reward_mean=[*rising, *([0.2] * 6)])
    assert watched.verdicts[-1].status == FAIL


# ---- REWARD_INCONSISTENT: weights may be annealed, a scale may not jump


def same_answer(reward: Callable[[int, int], float]) -> list[dict[str, Any]]:
    return [
        {**record, "task": "t", "completion": f"text {record['index']}"}
        for record in run_of(reward, steps=60, reward_version="r1")
    ]


def test_a_weight_that_is_annealed_slowly_is_consistent(tmp_path: Path) -> None:
    records = [run_record(reward_range=[0.0, 1.0]), *same_answer(lambda step, i: i / 10 + 0.2 - 0.002 * step)]
    assert "REWARD_INCONSISTENT" not in findings(tmp_path, records)


def test_a_weight_that_changes_at_a_stroke_is_not(tmp_path: Path) -> None:
    records = [
        run_record(reward_range=[0.0, 1.0]),
        *same_answer(lambda step, i: i / 10 + 0.2 - 0.1 * (step > 30)),
    ]
    assert findings(tmp_path, records)["REWARD_INCONSISTENT"].onset == 31


@pytest.mark.parametrize("times", [2, 10])
@pytest.mark.parametrize("declared", [True, False])
def test_a_reward_whose_scale_grows_at_a_stroke_is_found(tmp_path: Path, times: int, declared: bool) -> None:
    records = run_of(lambda step, index: (index + 1) / 8 * (times if step > 30 else 1))
    if times == 2 and not declared:
        records = run_of(lambda step, index: (0.5 + index / 16) * (times if step > 30 else 1))
    head = [run_record(reward_range=[0.0, 1.0])] if declared else []
    found = findings(tmp_path, [*head, *records])["REWARD_INCONSISTENT"]
    assert found.onset == 31
    assert found.rollouts


def test_a_range_that_never_held_is_not_believed(tmp_path: Path) -> None:
    records = [run_record(reward_range=[0.0, 0.5]), *run_of(lambda _, index: index / 8)]
    assert "REWARD_INCONSISTENT" not in findings(tmp_path, records)


def test_a_policy_that_finds_a_better_reward_does_not_leave_its_scale(tmp_path: Path) -> None:
    records = run_of(lambda step, index: min(step, 30) / 30 + index / 16)
    assert "REWARD_INCONSISTENT" not in findings(tmp_path, records)


# ---- REWARD_STREAK at the top of the range


def test_a_scorer_that_lets_everything_pass_is_a_streak_though_most_passed_before(tmp_path: Path) -> None:
    records = [
        run_record(reward_range=[-1.0, 0.0]),
        *run_of(lambda step, index: 0.0 if step > 30 or index < 7 else -1.0),
    ]
    assert findings(tmp_path, records)["REWARD_STREAK"].onset == 31


# ---- variance and texts: learning takes some of both


def test_a_decline_that_leaves_most_groups_trainable_is_learning() -> None:
    watched = Watched(TrainabilityDecline)
    watched.show_all(zero_variance_group_frac=[0.004 * step for step in range(100)])
    assert not watched.fired


def test_a_decline_begins_where_the_groups_went_flat_and_not_where_they_were_best() -> None:
    watched = Watched(TrainabilityDecline)
    watched.show_all(zero_variance_group_frac=[0.001 * step for step in range(60)] + [0.9] * 20)
    assert watched.verdicts[-1].status == WARN
    assert (watched.verdicts[-1].onset or 0) > 60


def test_short_answers_that_repeat_while_groups_disagree_do_not_ratchet() -> None:
    rising = [0.6 + 0.004 * step for step in range(70)]
    for flat, fires in ((0.1, False), (0.6, True)):
        watched = Watched(KlRatchet)
        for step, share in enumerate(rising):
            watched.show(
                kl=0.01 * step, duplicate_frac=share, completion_tokens_p50=2.0, zero_variance_group_frac=flat
            )
        assert bool(watched.fired) is fires


def test_copies_of_short_answers_in_groups_of_eight_warn(tmp_path: Path) -> None:
    watched = Watched(LowDiversity)
    statuses = watched.show_all(
        duplicate_frac=[0.95] * 6, completion_tokens_p50=[9.0] * 6, zero_variance_group_frac=[0.2] * 6
    )
    assert statuses[-1] == WARN
    texts = [f"answer {number}" for number in range(6)]
    records = [
        rollout(step, f"{step}", index, index % 2, completion=texts[index % 6], completion_tokens=3)
        for step in range(1, 9)
        for index in range(32)
    ]
    assert "LOW_DIVERSITY" not in findings(tmp_path, records)  # six answers fill a group of 32 with copies


# ---- KL_PINNED: a start is no standstill


def test_a_kl_that_will_leave_the_floor_at_its_pace_is_not_pinned() -> None:
    watched = Watched(KlPinned)
    watched.show_all(kl=[6e-4 * (step / 40) ** 2 for step in range(1, 41)], reward_mean=[0.3, 0.31] * 20)
    assert watched.verdicts[-1].status == OK


def test_a_kl_that_creeps_is_pinned_all_the_same() -> None:
    watched = Watched(KlPinned)
    watched.show_all(kl=[1e-6 * step for step in range(1, 41)], reward_mean=[0.3, 0.31] * 20)
    assert watched.verdicts[-1].status == WARN


# ---- a trainer that logs only the lowest and the highest reward


def test_the_highest_reward_of_a_trainer_is_the_top_of_the_range() -> None:
    for mean, top, fires in ((0.97, 1.0, True), (0.97, 1.2, False), (1.18, 1.2, True), (0.19, 0.2, False)):
        watched = Watched(SaturatedReward)
        watched.show_all(reward_mean=[mean] * 20, reward_min=[0.0] * 20, reward_max=[top] * 20)
        assert bool(watched.fired) is fires


def test_a_mean_above_the_declared_top_is_not_saturation() -> None:
    watched = Watched(SaturatedReward, run=RunState(reward_range=(0.0, 1.0)))
    assert not {WATCH, WARN} & set(watched.show_all(reward_mean=[8.0] * 30))


def test_a_verl_batch_whose_lowest_reward_is_its_highest_has_no_spread(tmp_path: Path) -> None:
    def row(step: int) -> dict[str, float]:
        lowest = 0.0 if step <= 30 else 1.0
        return {"critic/score/mean": (lowest + 1) / 2, "critic/score/min": lowest, "critic/score/max": 1.0}

    records = [
        {**run_record(), "framework": "verl"},
        *(step_record(step, **row(step)) for step in range(1, 61)),
    ]
    found = findings(tmp_path, records)
    assert found["REWARD_STD_DEATH"].onset == 31
    assert found["SATURATED_REWARD"].active


# ---- first cause


def test_a_sampler_that_turned_cold_explains_a_streak_and_the_noise_of_a_judge() -> None:
    def of(id_: str, stage: int) -> Finding:
        return _finding(id_, stage, onset=61)

    for effect in ("REWARD_STREAK", "REWARD_INCONSISTENT"):
        found = first_cause([of(effect, 2), of("SAMPLER_DRIFT", 4)], first_step=1)
        assert found is not None
        assert found.id == "SAMPLER_DRIFT"


def _finding(id_: str, stage: int, onset: int) -> Finding:
    from grpo_top.snapshot import Finding  # noqa: PLC0415 only here

    return Finding(
        id_, stage, FAIL, True, onset, onset, onset, ((onset, onset),), None, None, "", {}, (), (), None
    )
