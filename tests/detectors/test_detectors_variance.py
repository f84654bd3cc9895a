"""Stage 3: does each group disagree?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from runs import group, rollout, run_record
from watching import Watched, finding, logged

from grpo_top.facts import RunState
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from pathlib import Path

Records = list[dict[str, Any]]
UNIT = RunState(reward_range=(0.0, 1.0))


def flat(*parts: tuple[int, float], id_: str = "DEGENERATE_GROUPS", **others: float) -> Watched:
    """A detector after so many steps of such a zero-variance share, one part after another."""
    values = [share for count, share in parts for _ in range(count)]
    return Watched(id_).series("zero_variance_group_frac", values, **others)


def test_flat_groups_above_the_limit_for_15_steps_warn() -> None:
    watched = flat((20, 0.2), (40, 0.49), groups=32.0)
    assert watched.statuses[20:34] == [Status.WATCH] * 14
    assert watched.fired_at == 35
    assert watched.status == Status.WARN
    assert watched.verdicts[-1].onset == 21
    assert watched.details.summary == "zero-variance 49%, limit 40%, 40 steps"
    assert watched.details.evidence["before"]["zero_variance_group_frac"] == pytest.approx(0.2)


@pytest.mark.parametrize(("share", "steps"), [(0.55, 10), (0.6, 8), (0.75, 5), (1.0, 5)])
def test_the_farther_above_the_limit_the_fewer_steps_it_takes(share: float, steps: int) -> None:
    watched = flat((20, 0.35), (20, share), groups=32.0)
    assert watched.fired_at == 20 + steps


def test_nearly_all_groups_flat_fail() -> None:
    assert flat((60, 0.93), groups=32.0).status == Status.FAIL


def test_a_step_below_the_limit_begins_the_count_anew() -> None:
    watched = flat((14, 0.5), (1, 0.3), (14, 0.5), groups=32.0)
    assert watched.fired_at is None


def test_the_late_mean_must_be_above_the_limit_as_well() -> None:
    watched = flat((5, 0.0), (15, 0.41), groups=32.0)
    assert watched.status == Status.WATCH
    assert watched.series("zero_variance_group_frac", [0.41] * 6, groups=32.0).status == Status.WARN


def test_the_shares_of_a_two_valued_reward_in_good_health_are_no_fault() -> None:
    rng = np.random.default_rng(1)
    watched = Watched("DEGENERATE_GROUPS").series(
        "zero_variance_group_frac", (rng.binomial(4, 0.3, 400) / 4).tolist(), groups=4.0
    )
    assert watched.fired_at is None


def test_few_groups_a_step_are_taken_together() -> None:
    """With one group a step the share is 0 or 1, and 15 ones running are rare even where 70% of groups are flat."""
    rng = np.random.default_rng(1)
    watched = Watched("DEGENERATE_GROUPS").series(
        "zero_variance_group_frac", rng.binomial(1, 0.75, 200).astype(float).tolist(), groups=1.0
    )
    assert watched.fired_at is not None


def test_a_row_that_stands_for_ten_steps_counts_as_ten() -> None:
    watched = Watched("DEGENERATE_GROUPS").rows([{"zero_variance_group_frac": 0.7}] * 2, gap=10)
    assert watched.status == Status.WARN


def test_a_series_that_stops_does_not_clear() -> None:
    watched = flat((40, 0.7), groups=32.0)
    assert watched.rows([{"reward_mean": 0.5}] * 10).statuses[-10:] == [Status.WARN] * 10


def degenerate(tmp_path: Path, rewards: list[float], text: str | None = None) -> Any:
    records: Records = [run_record(reward_range=[0, 1], success={"of": "reward", "at_least": 1.0})]
    for step in range(1, 31):
        for name in range(8):
            given = rewards if name < 6 else [0.0, 1.0, 0.0, 1.0]
            fields = {} if text is None or name >= 6 else {"completion": text}
            records += group(step, f"{step}-{name}", given, task=f"{step} {name}", **fields)
    return finding(logged(tmp_path, records), "DEGENERATE_GROUPS")


@pytest.mark.parametrize(
    ("rewards", "text", "kind", "advice"),
    [
        ([0.0] * 4, None, "all_fail", "Mix in easier prompts"),
        ([1.0] * 4, None, "all_pass", "Mix in harder prompts"),
        ([0.0] * 4, "always the same", "identical_texts", "Compare the sampler's deployed temperature"),
        ([1.0] * 4, "always the same", "identical_texts", "Compare the sampler's deployed temperature"),
    ],
)
def test_why_groups_agree_picks_the_advice(
    tmp_path: Path, rewards: list[float], text: str | None, kind: str, advice: str
) -> None:
    found = degenerate(tmp_path, rewards, text)
    assert found.evidence["mostly"] == kind
    assert found.try_next[0].startswith(advice)
    assert len(found.rollouts) == 6, "one rollout of each flat group of the newest step"


def test_groups_that_agree_on_a_reward_in_between_get_the_pages_advice(tmp_path: Path) -> None:
    found = degenerate(tmp_path, [0.5] * 4)
    assert found.summary.startswith("zero-variance 75%, limit 40%, 30 steps")


def test_advantages_that_lose_their_spread_warn_after_ten_steps() -> None:
    watched = Watched("ADV_COLLAPSE").series("adv_std", [0.9] * 30 + [0.05] * 12)
    assert watched.fired_at == 40
    assert watched.details.summary == "advantage std 0.0500, 0.900 in the first 20 steps, 12 steps"


def test_advantages_without_spread_from_the_start_have_nothing_to_lose() -> None:
    assert Watched("ADV_COLLAPSE").series("adv_std", [0.0] * 60).fired_at is None


def test_a_batch_of_one_reward_is_dead_after_ten_steps() -> None:
    watched = Watched("REWARD_STD_DEATH", UNIT)
    watched.series("reward_std", [0.4] * 20 + [0.0005] * 12, rollouts=32.0, reward_mean=0.2)
    assert watched.fired_at == 30
    assert "every reward is about 0.200" in watched.details.summary


def test_without_a_range_the_largest_std_stands_for_half_of_it() -> None:
    assert Watched("REWARD_STD_DEATH").series("reward_std", [0.4] * 20 + [0.0] * 12).status == Status.WARN
    assert Watched("REWARD_STD_DEATH").series("reward_std", [0.4] * 20 + [0.01] * 12).status == Status.OK


def test_steps_of_one_rollout_have_no_spread_to_lose() -> None:
    assert Watched("REWARD_STD_DEATH", UNIT).series("reward_std", [0.0] * 40, rollouts=1.0).fired_at is None


def test_few_trainable_groups_since_the_start_warn_after_ten_steps() -> None:
    watched = Watched("LOW_TRAINABILITY").series("trainable_ratio", [5 / 28] * 12, groups=28.0)
    assert watched.fired_at == 10
    assert watched.details.summary == (
        "60 of 336 groups, 18% of all groups so far were trainable, limit 30%; 18% over the last 20 steps"
    )


def test_the_zero_variance_share_tells_the_trainable_one_as_well() -> None:
    assert flat((12, 0.9), id_="LOW_TRAINABILITY").status == Status.WARN


def test_a_run_that_has_recovered_is_not_blamed_for_its_start() -> None:
    watched = Watched("LOW_TRAINABILITY").series("trainable_ratio", [0.0] * 50 + [0.6] * 20)
    assert watched.statuses[49] == Status.WARN
    assert watched.status == Status.OK


def test_trainability_that_falls_with_a_trend_warns() -> None:
    falling = [0.9] * 30 + [0.9 - 0.01 * step for step in range(60)]
    watched = Watched("TRAINABILITY_DECLINE").series("trainable_ratio", falling)
    assert watched.status == Status.WARN
    assert watched.details.summary.startswith("trainable groups fell from 90% at step ")


def test_trainability_that_only_scatters_does_not_decline() -> None:
    rng = np.random.default_rng(4)
    values = (rng.binomial(4, 0.6, 400) / 4).tolist()
    assert Watched("TRAINABILITY_DECLINE").series("trainable_ratio", values).fired_at is None


def test_three_steps_without_a_trainable_group_fail() -> None:
    watched = Watched("NO_TRAINABLE_GROUPS").series(
        "trainable_ratio", [0.5, 0.0, 0.5, 0.0, 0.0, 0.0], groups=4.0
    )
    assert watched.statuses == [Status.OK, Status.WATCH, Status.OK, Status.WATCH, Status.WATCH, Status.FAIL]
    assert watched.verdicts[-1].onset == 4


def test_one_group_a_step_needs_twelve_steps() -> None:
    watched = Watched("NO_TRAINABLE_GROUPS").series("trainable_ratio", [1.0] + [0.0] * 12, groups=1.0)
    assert watched.fired_at == 13


def test_the_finest_share_that_was_logged_tells_how_many_groups_a_step_has() -> None:
    unknown = Watched("NO_TRAINABLE_GROUPS").series("trainable_ratio", [1.0] + [0.0] * 12)
    assert unknown.fired_at == 13
    eighths = Watched("NO_TRAINABLE_GROUPS").series("trainable_ratio", [7 / 8] + [0.0] * 12)
    assert eighths.fired_at == 4


def component_rows(**means: Any) -> list[dict[str, float]]:
    count = min(len(values) for values in means.values())
    return [
        {f"component_mean{{{name}}}": values[row] for name, values in means.items()} for row in range(count)
    ]


VARIES = [0.4 + 0.01 * (row % 7) for row in range(31)]


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_a_component_that_is_stuck_while_another_varies_warns(value: float) -> None:
    watched = Watched("UNIFORM_COMPONENT").rows(component_rows(math_correct=[value] * 30, format_ok=VARIES))
    assert watched.fired_at == 10
    assert watched.details.evidence["math_correct"]["mastered"] is False
    assert "the only value it ever had, in 100% of groups" in watched.details.summary


def test_a_component_that_came_to_its_top_is_mastered() -> None:
    rising = [row / 10 for row in range(10)] + [1.0] * 21
    watched = Watched("UNIFORM_COMPONENT").rows(component_rows(format_ok=rising, accuracy=VARIES))
    assert watched.status == Status.INFO
    assert watched.details.summary == "format_ok is 1.00, at its top, in 100% of groups"
    assert watched.details.try_next is not None
    assert watched.details.try_next[0].startswith("Nothing is broken")


def test_a_penalty_that_nobody_incurs_is_no_warning() -> None:
    watched = Watched("UNIFORM_COMPONENT").rows(component_rows(length_penalty=[0.0] * 30, accuracy=VARIES))
    assert watched.fired_at is None


def test_a_component_that_fell_and_stuck_warns() -> None:
    fallen = [row / 10 for row in range(10)] + [0.1] * 20
    assert Watched("UNIFORM_COMPONENT").rows(component_rows(a=fallen, b=VARIES)).status == Status.WARN


def test_components_that_are_all_flat_are_degenerate_groups_business() -> None:
    assert Watched("UNIFORM_COMPONENT").rows(component_rows(a=[0.0] * 30, b=[1.0] * 30)).status == Status.OK


def test_three_rows_are_too_few_to_call_a_component_stuck() -> None:
    watched = Watched("UNIFORM_COMPONENT").rows(component_rows(format_reward=[0.0] * 3, accuracy=VARIES[:3]))
    assert watched.status == Status.UNKNOWN


def test_a_component_is_judged_within_groups_where_there_are_rollouts(tmp_path: Path) -> None:
    records: Records = [run_record()]
    for step in range(1, 31):
        for name in range(4):
            records += [
                {**record, "rewards": {"accuracy": record["reward"], "style": float(name)}}
                for record in group(step, str(name), [0.0, 1.0, 0.0, 1.0])
            ]
    found = finding(logged(tmp_path, records), "UNIFORM_COMPONENT")
    assert found is not None
    assert found.severity == Status.WARN
    assert found.summary == "style is 1.50, stuck below its highest, in 100% of groups"
    assert found.rollouts


def test_a_reward_at_the_top_of_its_declared_range_is_saturated() -> None:
    rising = [min(1.0, 0.5 + 0.02 * step) for step in range(60)]
    watched = Watched("SATURATED_REWARD", UNIT).series("reward_mean", rising)
    assert watched.status == Status.WARN
    assert watched.verdicts[-1].onset == 41
    assert watched.details.summary == "mean reward 1.00, 100% of the range 0 to 1"
    assert watched.statuses[30] == Status.OK


def test_a_range_that_was_only_seen_is_trusted_after_500_rollouts(tmp_path: Path) -> None:
    def run(steps: int) -> Records:
        records: Records = [run_record()]
        for step in range(1, steps + 1):
            records += group(step, "a", [0.0, *[1.0] * 15] if step == 1 else [1.0] * 15 + [0.98])
        return records

    assert finding(logged(tmp_path / "short", run(28)), "SATURATED_REWARD") is None
    assert finding(logged(tmp_path / "long", run(40)), "SATURATED_REWARD") is not None


def test_a_trainers_reward_between_0_and_1_is_taken_to_have_that_range() -> None:
    assert Watched("SATURATED_REWARD").series("reward_mean", [0.99] * 12).status == Status.WARN
    assert Watched("SATURATED_REWARD").series("reward_mean", [1.6] * 12).status == Status.UNKNOWN
    assert (
        Watched("SATURATED_REWARD").series("reward_mean", [0.96] * 12, reward_std=0.4).status
        == Status.UNKNOWN
    )


def test_rare_successes_are_sparse() -> None:
    watched = Watched("SPARSE_REWARD").series("success_rate", [0.01] * 20, rollouts=32.0)
    assert watched.fired_at is not None
    assert watched.details.summary == "success 1.0% over 20 steps, limit 5.0%"


def test_a_success_rate_that_chance_may_have_lowered_is_only_watched() -> None:
    assert Watched("SPARSE_REWARD").series("success_rate", [0.045] * 20, rollouts=8.0).status == Status.WATCH
    assert (
        Watched("SPARSE_REWARD").series("success_rate", [0.045] * 20, rollouts=1024.0).status == Status.WARN
    )


@pytest.mark.parametrize(("tokens", "status"), [(6000, Status.INFO), (300, Status.OK)])
def test_one_bit_for_thousands_of_tokens_is_remarked_upon(
    tmp_path: Path, tokens: int, status: Status
) -> None:
    records: Records = [run_record()]
    for step in range(1, 31):
        records += group(step, "a", [0.0, 1.0] * 10, completion_tokens=tokens)
    snapshot = logged(tmp_path, records)
    assert snapshot.tracks["SPARSE_REWARD"].status[-1] == status
    if status == Status.INFO:
        found = finding(snapshot, "SPARSE_REWARD")
        assert found is not None
        assert found.summary == "0 or 1 is all that 6,000 tokens earn"


def test_a_gradient_of_exactly_0_beside_trainable_groups_fails() -> None:
    watched = Watched("NO_UPDATE").series("grad_norm", [0.4] * 5 + [0.0] * 12, trainable_ratio=0.8)
    assert watched.fired_at == 15
    assert watched.details.summary == (
        "gradient norm exactly 0 on 12 steps running, although 80% of groups are trainable"
    )
    assert watched.details.evidence["last_norm_above_0"] == 0.4


def test_a_gradient_of_0_is_right_where_nothing_is_trainable() -> None:
    assert Watched("NO_UPDATE").series("grad_norm", [0.0] * 30, zero_variance_group_frac=1.0).fired_at is None


def test_a_small_gradient_is_no_missing_one() -> None:
    assert Watched("NO_UPDATE").series("grad_norm", [1e-12] * 30, trainable_ratio=1.0).status == Status.OK


def test_without_knowing_what_is_trainable_it_cannot_be_judged() -> None:
    assert Watched("NO_UPDATE").series("grad_norm", [0.0] * 30).status == Status.UNKNOWN


def test_a_reward_that_has_levelled_off_is_remarked_upon() -> None:
    rng = np.random.default_rng(2)
    curve = [
        0.8 + 0.1 * np.exp(-((step - 100) ** 2) / 500) if step > 50 else step / 50 for step in range(300)
    ]
    watched = Watched("REWARD_PLATEAU").series(
        "reward_mean", (np.array(curve) + rng.normal(0, 0.02, 300)).tolist()
    )
    assert watched.status == Status.INFO
    assert watched.details.summary.startswith("reward level at 0.79")


@pytest.mark.parametrize("seed", range(4))
def test_a_level_rewards_best_stretch_need_not_lie_back_by_more_than_chance(seed: int) -> None:
    """Of a level curve any stretch may be the best one, the last as well."""
    level = np.minimum(0.2 + 0.01 * np.arange(400), 0.6) + np.random.default_rng(seed).normal(0, 0.02, 400)
    assert Watched("REWARD_PLATEAU").series("reward_mean", level.tolist()).status == Status.INFO


def test_a_reward_that_still_rises_has_no_plateau() -> None:
    rng = np.random.default_rng(2)
    rising = np.linspace(0.2, 0.9, 400) + rng.normal(0, 0.05, 400)
    assert Status.INFO not in Watched("REWARD_PLATEAU").series("reward_mean", rising.tolist()).statuses


def test_a_short_run_has_no_plateau_yet() -> None:
    assert set(Watched("REWARD_PLATEAU").series("reward_mean", [0.5] * 170).statuses) == {Status.UNKNOWN}


def test_one_step_whose_groups_are_copies_of_a_long_text_is_no_chance(tmp_path: Path) -> None:
    def copies(tokens: int) -> list[dict[str, Any]]:
        return [
            rollout(1, f"g{number}", index, 0.0, completion=f"text {number}", completion_tokens=tokens)
            for number in range(3)
            for index in range(5)
        ]

    assert finding(logged(tmp_path, copies(200)), "NO_TRAINABLE_GROUPS") is not None
    assert finding(logged(tmp_path, copies(9)), "NO_TRAINABLE_GROUPS") is None
