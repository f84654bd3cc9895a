"""Stage 2: is the reward the one you defined?"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from runs import group, rollout, run_record, step_record
from watching import Watched, finding, logged

from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Records = list[dict[str, Any]]


def run_of(
    reward: Callable[[int, int], float | None],
    steps: int = 60,
    groups: int = 4,
    size: int = 8,
    start: dict[str, Any] | None = None,
    **fields: Any,
) -> Records:
    """A run whose reward depends on the step and a number that grows from rollout to rollout."""
    records = [run_record(**{"reward_range": [0, 1], **(start or {})})]
    number = 0
    for step in range(1, steps + 1):
        for name in range(groups):
            rewards = [reward(step, number + index) for index in range(size)]
            records += group(step, f"{step}-{name}", rewards, task=f"task {step}-{name}", **fields)
            number += size
    return records


def mixed(step: int, number: int) -> float:
    """Rewards that differ within every group."""
    return (number % 8) / 8


def test_rewards_that_differ_make_no_streak(tmp_path: Path) -> None:
    snapshot = logged(tmp_path, run_of(mixed))
    assert finding(snapshot, "REWARD_STREAK") is None
    assert snapshot.tracks["REWARD_STREAK"].status[-1] == Status.OK


def test_a_scorer_that_goes_silent_is_found_within_64_rollouts(tmp_path: Path) -> None:
    snapshot = logged(tmp_path, run_of(lambda step, n: mixed(step, n) if step < 30 else 0.0))
    found = finding(snapshot, "REWARD_STREAK")
    assert found is not None
    assert (found.severity, found.first_step, found.onset) == (Status.FAIL, 31, 30)
    assert (
        found.summary == "every reward is 0 since step 30: 992 rollouts over 124 groups, 992 different texts"
    )
    assert found.try_next[0].endswith("call it by hand on a rollout from before step 30")
    assert snapshot.first_cause == "REWARD_STREAK"


def test_a_streak_of_few_groups_is_not_enough(tmp_path: Path) -> None:
    records = run_of(lambda step, n: mixed(step, n) if step < 30 else 0.0, steps=36, groups=1, size=32)
    assert finding(logged(tmp_path, records), "REWARD_STREAK") is None


def test_equal_texts_earn_equal_rewards(tmp_path: Path) -> None:
    records = run_of(lambda step, n: mixed(step, n) if step < 30 else 0.0, completion="always the same")
    assert finding(logged(tmp_path, records), "REWARD_STREAK") is None


def test_without_texts_a_streak_cannot_be_judged(tmp_path: Path) -> None:
    records = run_of(lambda step, n: 0.0)
    for record in records[1:]:
        del record["completion"]
    snapshot = logged(tmp_path, records)
    assert finding(snapshot, "REWARD_STREAK") is None
    assert dict(snapshot.unknown)["REWARD_STREAK"] == ("distinct_texts_mean",)


def test_a_policy_that_climbs_to_the_top_step_by_step_is_no_streak(tmp_path: Path) -> None:
    def climbing(step: int, number: int) -> float:
        return 1.0 if number % 100 < 3 * step else 0.0

    snapshot = logged(tmp_path, run_of(climbing, steps=80))
    assert finding(snapshot, "REWARD_STREAK") is None
    assert finding(snapshot, "SATURATED_REWARD") is not None


def test_a_scorer_that_suddenly_accepts_everything_is_a_streak(tmp_path: Path) -> None:
    found = finding(
        logged(tmp_path, run_of(lambda step, n: mixed(step, n) if step < 30 else 1.0)), "REWARD_STREAK"
    )
    assert found is not None
    assert "every reward is 1.00" in found.summary


def test_a_policy_whose_groups_went_flat_before_got_there_by_itself(tmp_path: Path) -> None:
    def sinking(step: int, number: int) -> float:
        return 0.2 + (mixed(step, number) / 2 if number // 8 % 4 >= step // 5 else 0)

    snapshot = logged(tmp_path, run_of(sinking))
    assert finding(snapshot, "REWARD_STREAK") is None
    assert finding(snapshot, "DEGENERATE_GROUPS") is not None


def test_where_nothing_parses_extraction_is_named_first(tmp_path: Path) -> None:
    found = finding(
        logged(tmp_path, run_of(lambda step, n: mixed(step, n) if step < 30 else 0.0, parsed=False)),
        "REWARD_STREAK",
    )
    assert found is not None
    assert found.try_next[0].startswith("Nearly nothing parses")


def answers(step: int, changed: int | None, version: str = "r1", **fields: Any) -> Records:
    """One group a step on one of three tasks; the same four answers come again and again."""
    records = []
    for index in range(4):
        reward = index / 4 if changed is None or step < changed else 0.1
        records.append(
            rollout(
                step,
                "a",
                index,
                reward,
                task=f"task {step % 3}",
                completion=f"answer {index}",
                reward_version=version,
                **{"verifier": {"raw": f"raw {index}", "error": None}, **fields},
            )
        )
    return records


def test_one_answer_with_one_reward_is_consistent(tmp_path: Path) -> None:
    records = [run_record(), *(record for step in range(1, 50) for record in answers(step, None))]
    snapshot = logged(tmp_path, records)
    assert finding(snapshot, "REWARD_INCONSISTENT") is None
    assert snapshot.tracks["REWARD_INCONSISTENT"].status[-1] == Status.OK


def test_an_answer_that_earns_something_else_now_is_found_with_both_rollouts(tmp_path: Path) -> None:
    records = [run_record(), *(record for step in range(1, 40) for record in answers(step, 30))]
    found = finding(logged(tmp_path, records), "REWARD_INCONSISTENT")
    assert found is not None
    assert (found.severity, found.onset, found.first_step) == (Status.FAIL, 30, 31)
    assert found.summary.startswith("the same completion earned ")
    newest, earlier = found.rollouts[:2]
    assert newest.step >= 30 > earlier.step
    assert newest.index == earlier.index


def test_it_clears_when_no_such_pair_has_been_seen_for_20_steps(tmp_path: Path) -> None:
    records = [run_record(), *(record for step in range(1, 90) for record in answers(step, 30))]
    found = finding(logged(tmp_path, records), "REWARD_INCONSISTENT")
    assert found is not None
    assert not found.active
    assert found.last_step < 75


def test_raw_output_that_earns_something_else_now_is_found_though_every_text_is_new(tmp_path: Path) -> None:
    records = [run_record()]
    for step in range(1, 46):  # 66 answers came again before the last 20 steps
        for record in answers(step, 30):
            record["completion"] = f"step {step}, answer {record['index']}"
            records.append(record)
    found = finding(logged(tmp_path, records), "REWARD_INCONSISTENT")
    assert found is not None
    assert found.summary.startswith("the same raw verifier output earned ")


def test_raw_output_that_never_fixed_the_reward_proves_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)
    records = [run_record()]
    for step in range(1, 60):
        for record in answers(step, None):
            record["completion"] = f"step {step}, answer {record['index']}"
            record["reward"] += rng.choice([0.0, 0.3])
            records.append(record)
    assert finding(logged(tmp_path, records), "REWARD_INCONSISTENT") is None


def test_a_new_reward_version_may_pay_otherwise(tmp_path: Path) -> None:
    records = [run_record()]
    for step in range(1, 40):
        records += answers(step, 30, version="r1" if step < 30 else "r2")
    assert finding(logged(tmp_path, records), "REWARD_INCONSISTENT") is None


def test_a_verifier_that_failed_is_another_matter(tmp_path: Path) -> None:
    records = [run_record()]
    for step in range(1, 40):
        records += answers(
            step, 30, **({"verifier": {"raw": None, "error": "timeout"}} if step >= 30 else {})
        )
    snapshot = logged(tmp_path, records)
    assert finding(snapshot, "REWARD_INCONSISTENT") is None
    assert finding(snapshot, "VERIFIER_ERRORS") is not None


def test_rewards_that_differ_by_a_rounding_are_the_same(tmp_path: Path) -> None:
    rng = random.Random(6)
    records = [run_record(reward_range=[0, 1])]
    for step in range(1, 40):
        for record in answers(step, None):
            record["reward"] += rng.uniform(0, 0.005)
            records.append(record)
    assert finding(logged(tmp_path, records), "REWARD_INCONSISTENT") is None


def errors(tmp_path: Path, every: int, reward: float | None = 0.0) -> Any:
    records = run_of(mixed, steps=30, verifier={"raw": "ok", "error": None})
    for number, record in enumerate(records[1:]):
        if record["step"] > 10 and number % every == 0:
            record["verifier"], record["reward"] = {"raw": None, "error": "timeout"}, reward
    return finding(logged(tmp_path, records), "VERIFIER_ERRORS")


def test_verifier_errors_are_found_with_what_they_were_scored(tmp_path: Path) -> None:
    found = errors(tmp_path, 10)
    assert (found.severity, found.onset) == (Status.FAIL, 11)
    assert (
        found.summary
        == "10% of rollouts carry a verifier error, 100% of them scored all the same; mostly “timeout”"
    )
    assert found.evidence["errors_by_name"] == {"timeout": 64}


def test_errors_that_were_not_scored_are_errors_all_the_same(tmp_path: Path) -> None:
    assert ", none of them scored; " in errors(tmp_path, 10, reward=None).summary


def test_a_rare_error_is_only_watched(tmp_path: Path) -> None:
    assert errors(tmp_path, 100) is None


def test_a_log_without_verifier_output_is_no_log_without_errors(tmp_path: Path) -> None:
    snapshot = logged(tmp_path, run_of(mixed, steps=10))
    assert dict(snapshot.unknown)["VERIFIER_ERRORS"] == ("verifier_error_rate",)


def rewards(*parts: tuple[int, float], noise: float = 0.03, seed: int = 8) -> list[float]:
    """Rewards with noise: so many rows around such a level, one part after another."""
    rng = np.random.default_rng(seed)
    return [float(rng.normal(level, noise)) for count, level in parts for _ in range(count)]


def test_a_reward_that_falls_off_a_cliff_and_stays_down_fails() -> None:
    watched = Watched("REWARD_COLLAPSE").series("reward_mean", rewards((30, 0.8), (20, 0.1)))
    assert watched.fired_at == 35
    assert watched.status == Status.FAIL
    assert watched.verdicts[-1].onset == 31
    assert watched.details.summary.startswith("mean reward fell from 0.8")
    assert watched.details.evidence["within_3_rows"] is True


def test_a_fall_that_takes_three_rows_is_a_cliff_too() -> None:
    watched = Watched("REWARD_COLLAPSE").series(
        "reward_mean", rewards((30, 0.8), (1, 0.6), (1, 0.35), (20, 0.1))
    )
    assert watched.status == Status.FAIL


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_dip_of_a_few_rows_is_only_watched(length: int) -> None:
    watched = Watched("REWARD_COLLAPSE").series("reward_mean", rewards((30, 0.8), (length, 0.1), (30, 0.8)))
    assert watched.fired_at is None
    assert Status.WATCH in watched.statuses
    assert watched.status == Status.OK


def test_it_stands_until_the_reward_is_back() -> None:
    watched = Watched("REWARD_COLLAPSE").series("reward_mean", rewards((30, 0.8), (40, 0.1), (10, 0.8)))
    assert watched.statuses[69] == Status.FAIL
    assert watched.statuses[70] == Status.OK


def test_a_reward_that_hardly_moves_has_nothing_to_fall_from() -> None:
    watched = Watched("REWARD_COLLAPSE").series("reward_mean", [1.0] * 30 + [0.99] * 30)
    assert watched.fired_at is None


def test_a_reward_that_sinks_bit_by_bit_warns() -> None:
    sinking = [(1, 0.5 - 0.003 * step) for step in range(100)]
    watched = Watched("REWARD_COLLAPSE").series("reward_mean", rewards((50, 0.5), *sinking, noise=0.01))
    assert watched.status == Status.WARN
    assert watched.details.summary.startswith("mean reward sinks: 0.5")


def test_noise_around_a_level_is_no_fall() -> None:
    for seed in range(30):
        watched = Watched("REWARD_COLLAPSE").series("reward_mean", rewards((200, 0.5), noise=0.1, seed=seed))
        assert watched.fired_at is None, seed


def with_trainer(tmp_path: Path, logged_reward: Callable[[int, float], float], **metrics: float) -> Any:
    records = run_of(mixed, steps=20, groups=2, completion_tokens=10)
    mean = sum(mixed(0, index) for index in range(8)) / 8
    records += [step_record(step, reward=logged_reward(step, mean), **metrics) for step in range(1, 21)]
    return logged(tmp_path, records)


def test_a_trainer_that_logs_its_rollouts_mean_agrees(tmp_path: Path) -> None:
    snapshot = with_trainer(tmp_path, lambda _, mean: mean, **{"completions/mean_length": 10.0})
    assert finding(snapshot, "LOGGED_REWARD_MISMATCH") is None
    assert snapshot.tracks["LOGGED_REWARD_MISMATCH"].status[-1] == Status.OK


def test_a_trainer_that_logs_another_reward_is_found_on_the_third_step(tmp_path: Path) -> None:
    snapshot = with_trainer(
        tmp_path, lambda step, mean: mean * (0.5 if step > 5 else 1), **{"completions/mean_length": 10.0}
    )
    found = finding(snapshot, "LOGGED_REWARD_MISMATCH")
    assert found is not None
    assert (found.first_step, found.onset) == (8, 6)
    assert (
        found.summary == "the trainer logs reward 0.219, its rollouts average 0.438, 15 comparisons running"
    )
    assert found.evidence["ratio"] == pytest.approx(0.5)


def test_a_log_that_holds_a_sample_of_the_rollouts_is_not_compared(tmp_path: Path) -> None:
    snapshot = with_trainer(tmp_path, lambda _, mean: mean / 2, **{"completions/mean_length": 13.0})
    assert finding(snapshot, "LOGGED_REWARD_MISMATCH") is None


def test_a_sample_whose_mean_length_comes_near_now_and_then_is_not_compared(tmp_path: Path) -> None:
    start, *records = run_of(mixed, steps=40, groups=2)
    for place, record in enumerate(records):
        record["completion_tokens"] = 5 + place * 7 % 11
    for step in range(1, 41):
        own = [record["completion_tokens"] for record in records[:640] if record["step"] == step]
        near = sum(own) / len(own) + (0.005 if step % 3 else 0.9)
        records.append(step_record(step, reward=0.9, **{"completions/mean_length": near}))
    assert finding(logged(tmp_path, [start, *records]), "LOGGED_REWARD_MISMATCH") is None


def test_without_lengths_a_difference_must_be_more_than_a_samples(tmp_path: Path) -> None:
    assert finding(with_trainer(tmp_path, lambda _, mean: mean - 0.05), "LOGGED_REWARD_MISMATCH") is None
    assert finding(with_trainer(tmp_path, lambda _, mean: mean - 0.40), "LOGGED_REWARD_MISMATCH") is not None


def test_a_row_that_averages_over_several_steps_is_compared_with_all_of_them(tmp_path: Path) -> None:
    records = run_of(
        lambda step, n: mixed(step, n) if step % 5 else 0.0, steps=40, groups=2, completion_tokens=10
    )
    mean = sum(mixed(0, index) for index in range(8)) / 8
    for step in range(5, 41, 5):
        metrics = {"reward": mean * 4 / 5, "completions/mean_length": 10.0}
        records.append(step_record(step, **metrics))
    assert finding(logged(tmp_path, records), "LOGGED_REWARD_MISMATCH") is None


def test_hand_scores_that_disagree_fail() -> None:
    watched = Watched("HAND_SCORE_MISMATCH").rows([{"hand_scores": 20.0, "hand_score_agreement": 0.85}])
    assert watched.status == Status.FAIL
    assert watched.details.summary == "85% of 20 hand scores agree with the pipeline's"


def test_hand_scores_are_judged_from_ten_on() -> None:
    watched = Watched("HAND_SCORE_MISMATCH")
    watched.rows(
        [
            {"hand_scores": 9.0, "hand_score_agreement": 0.0},
            {"hand_scores": 10.0, "hand_score_agreement": 0.95},
        ]
    )
    assert watched.statuses == [Status.UNKNOWN, Status.OK]


def test_without_hand_scores_it_cannot_be_judged(tmp_path: Path) -> None:
    assert dict(logged(tmp_path, run_of(mixed, steps=5)).unknown)["HAND_SCORE_MISMATCH"] == ("hand_scores",)


def test_a_new_reward_version_begins_anew_even_on_a_step_without_rollouts(tmp_path: Path) -> None:
    records = [run_record(reward_version="r1", reward_range=[0, 1])]
    for step in range(1, 6):
        records += [
            rollout(step, "a", index, float(index % 2), task="t", completion="the same") for index in range(4)
        ]
    records += [run_record(reward_version="r2"), step_record(6, kl=0.1), step_record(7, kl=0.1)]
    found = finding(logged(tmp_path, records), "REWARD_INCONSISTENT")
    assert found is not None
    assert found.episodes == ((3, 5),)
