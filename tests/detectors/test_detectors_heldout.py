"""Stage 8: held-out improves too, and is held out."""

from __future__ import annotations

from typing import Any

import pytest
from detector_steps import FAIL, OK, UNKNOWN, WARN, Watched, evaluation, findings, statuses
from runs import rollout, run_record

from grpo_top.detectors.heldout import HeldoutFlat
from grpo_top.facts import RunState

# ---- HELDOUT_FLAT


def evaluated(train: list[float], heldout: list[float], **run: Any) -> Watched:
    """A run that is evaluated after every 10 steps; `train` has a value for each of those spans."""
    watched = Watched(HeldoutFlat, run=RunState(**run))
    for span, (reward, result) in enumerate(zip(train, heldout, strict=True)):
        for step in range(1, 11):
            watched.show([evaluation(span * 10 + 10, result)] if step == 10 else [], reward_mean=reward)
    return watched


RISING = [0.3, 0.35, 0.4, 0.45, 0.5, 0.55]


def test_train_that_rises_while_heldout_stands_warns_at_the_sixth_evaluation():
    watched = evaluated(RISING, [0.4, 0.42, 0.41, 0.4, 0.41, 0.39], reward_range=(0.0, 1.0))

    assert watched.fired == [60]
    assert watched.summary == "train reward +0.200, held-out −0.010 over 6 evaluations"


def test_heldout_that_rises_a_little_is_progress():
    assert not evaluated(RISING, [0.4, 0.38, 0.41, 0.44, 0.4, 0.43], reward_range=(0.0, 1.0)).fired


def test_train_that_does_not_rise_is_no_gap():
    flat = [0.5, 0.52, 0.49, 0.51, 0.5, 0.53]

    assert not evaluated(flat, [0.4, 0.42, 0.41, 0.4, 0.41, 0.39], reward_range=(0.0, 1.0)).fired


def test_five_evaluations_are_too_few():
    assert not evaluated(RISING[:5], [0.5, 0.4, 0.3, 0.2, 0.1], reward_range=(0.0, 1.0)).fired


def test_a_heldout_result_that_falls_far_below_its_best_while_train_is_highest_warns():
    watched = evaluated(
        [0.15, 0.2, 0.3, 0.4, 0.5, 0.6], [0.14, 0.2, 0.27, 0.33, 0.4, 0.22], reward_range=(0.0, 1.0)
    )

    assert watched.fired == [60]
    assert (
        watched.summary == "held-out 0.220 at step 60, 0.400 at step 50, while train reward is at its highest"
    )


def test_a_reward_without_a_declared_range_within_0_and_1_is_taken_to_have_that_range():
    noisy = evaluated([0.5, 0.51, 0.52, 0.53, 0.54, 0.55], [0.5, 0.52, 0.48, 0.51, 0.49, 0.47])

    assert not noisy.fired


def test_suites_are_judged_apart():
    watched = Watched(HeldoutFlat, run=RunState(reward_range=(0.0, 1.0)))
    for span, reward in enumerate(RISING):
        step = span * 10 + 10
        watched.show(
            [evaluation(step, reward, "seen"), evaluation(step, 0.4 - 0.01 * span, "unseen")],
            reward_mean=reward,
        )

    assert "unseen" in watched.summary


def test_hundreds_of_evaluations_keep_their_thirds():
    watched = Watched(HeldoutFlat, run=RunState(reward_range=(0.0, 1.0)))
    for step in range(1, 801):
        watched.show([evaluation(step, 0.5 - 0.0001 * step)], reward_mean=0.2 + 0.0007 * step)

    assert watched.fired[-1] == 800
    assert watched.summary == "train reward +0.375, held-out −0.054 over 800 evaluations"


# ---- LEAKAGE


def asked(step: int, tasks: list[str], split: str = "train", by: str = "task") -> list[dict[str, Any]]:
    return [
        rollout(
            step,
            f"{step}{split}{number}",
            index,
            float(index % 2),
            completion=f"{index}",
            split=split,
            **{by: task},
        )
        for number, task in enumerate(tasks)
        for index in range(2)
    ]


def names(first: int, last: int) -> list[str]:
    return [f"task {number}" for number in range(first, last)]


@pytest.mark.parametrize("by", ["task", "prompt"])
def test_a_heldout_task_that_is_trained_on_fails_and_is_named(tmp_path, by):
    records = [run_record(), *asked(1, names(0, 8), by=by), *asked(2, names(8, 16), by=by)]
    records += asked(2, ["task 3", "task 99"], "eval", by)

    found = findings(tmp_path, records)["LEAKAGE"]

    assert (found.severity, found.onset) == (FAIL, 2)
    assert found.summary == "1 of 2 held-out tasks are in the training data"
    assert found.evidence["known_by"] == ("task id" if by == "task" else "prompt")
    if by == "task":
        assert found.evidence["tasks"] == ["task 3"]


def test_it_does_not_matter_which_of_the_two_came_first(tmp_path):
    records = [*asked(1, names(0, 8)), *asked(1, ["task 30"], "eval"), *asked(2, [*names(8, 12), "task 30"])]

    assert statuses(tmp_path, records, "LEAKAGE")[-1] == FAIL


def test_heldout_tasks_of_their_own_are_fine(tmp_path):
    records = [*asked(1, names(0, 8)), *asked(1, names(50, 58), "eval"), *asked(2, names(8, 16))]

    assert set(statuses(tmp_path, records, "LEAKAGE")) == {OK}


def test_many_train_tasks_alone_say_nothing_of_what_is_held_out(tmp_path):
    records = [record for step in range(1, 30) for record in asked(step, names(4 * step, 4 * step + 4))]

    assert set(statuses(tmp_path, records, "LEAKAGE")) == {UNKNOWN}


def test_one_prompt_for_all_tasks_does_not_tell_them_apart(tmp_path):
    records = [*asked(1, ["You are an agent."] * 8, by="prompt")]
    records += asked(1, ["You are an agent."] * 4, "eval", "prompt")

    assert set(statuses(tmp_path, records, "LEAKAGE")) == {UNKNOWN}


def test_a_few_tasks_over_and_over_warn(tmp_path):
    records = [record for step in range(1, 16) for record in asked(step, ["a", "b", "c", "a"])]

    found = findings(tmp_path, records)["LEAKAGE"]

    assert (found.severity, found.first_step) == (WARN, 10)
    assert found.summary == "3 different tasks in 60 groups of the last 20 steps"


def test_epochs_over_a_larger_set_do_not(tmp_path):
    records: list[dict[str, Any]] = []
    for step in range(60):
        records += asked(step, [f"task {(4 * step + number) % 40}" for number in range(4)])

    assert "LEAKAGE" not in findings(tmp_path, records)


def test_heldout_that_gains_next_to_nothing_of_what_train_gains_warns():
    train = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    watched = evaluated(train, [0.2, 0.21, 0.21, 0.22, 0.22, 0.22], reward_range=(0.0, 1.0))

    assert watched.fired == [60]


def test_heldout_that_sinks_from_its_best_while_train_goes_on_rising_warns():
    train = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85]
    heldout = [0.2, 0.3, 0.4, 0.42, 0.41, 0.38, 0.33, 0.3, 0.28]
    watched = evaluated(train, heldout, reward_range=(0.0, 1.0))

    assert watched.fired == [90]
    assert watched.summary == "held-out 0.410 → 0.303 since step 50, while train reward went 0.500 → 0.800"
