"""Stage 5: answers parse and fit, and the reward measures more than form or length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from detector_steps import FAIL, INFO, OK, UNKNOWN, WARN, WATCH, Watched, evaluation, findings
from runs import rollout, run_record, step_record

from grpo_top.detectors.components import ComponentDivergence
from grpo_top.detectors.format import FormatExploit, ParseFailures
from grpo_top.detectors.length import LengthCollapse, LengthHacking
from grpo_top.detectors.truncation import Truncation
from grpo_top.facts import RunState

# ---- PARSE_FAILURES


def test_parse_failures_above_a_fifth_warn_from_the_fifth_step_and_clear_with_the_late_mean():
    watched = Watched(ParseFailures)

    found = watched.show_all(parse_failure_rate=[0.25] * 8 + [0.0] * 4)

    assert found == [WATCH] * 4 + [WARN] * 6 + [OK] * 2
    assert watched.verdicts[4].onset == 1


def test_more_than_half_fail():
    watched = Watched(ParseFailures)

    assert watched.show_all(parse_failure_rate=[0.6] * 6, rollouts=[32.0] * 6)[-1] == FAIL


def test_a_share_above_the_limit_that_chance_could_make_is_watched():
    watched = Watched(ParseFailures)

    assert watched.show_all(parse_failure_rate=[0.25] * 20, rollouts=[4.0] * 20)[-1] == WATCH
    assert watched.show_all(parse_failure_rate=[0.25] * 20, rollouts=[64.0] * 20)[-1] == WARN


def test_a_first_step_on_which_hardly_anything_parses_needs_no_second_one():
    assert Watched(ParseFailures).show(parse_failure_rate=1.0, rollouts=32).status == FAIL


def unparsed(step: int, of: int, **fields: Any) -> list[dict[str, Any]]:
    return [
        rollout(
            step,
            f"{step}",
            index,
            0.0,
            completion=f"{index}",
            parsed=index >= of,
            family="ab"[index % 2],
            **fields,
        )
        for index in range(8)
    ]


def test_the_families_that_do_not_parse_and_the_rollouts_are_named(tmp_path):
    found = findings(tmp_path, [record for step in range(1, 7) for record in unparsed(step, 3)])[
        "PARSE_FAILURES"
    ]

    assert found.summary == "38% of answers do not parse, limit 20%"
    assert found.evidence["by_family"] == {"a": 0.5, "b": 0.25}
    assert {ref.index for ref in found.rollouts} == {0, 1, 2}


def test_answers_that_are_cut_before_their_end_send_to_the_budget_first(tmp_path):
    records = [record for step in range(1, 7) for record in unparsed(step, 3, finish_reason="length")]

    assert (
        findings(tmp_path, records)["PARSE_FAILURES"].try_next[0].startswith("If completions are truncated")
    )


# ---- FORMAT_EXPLOIT

FELL = [0.4] * 10 + [0.0] * 30
ROSE = [0.3] * 10 + [0.6] * 30


def exploited(content: list[float], heldout: list[float] | None = None) -> Watched:
    watched = Watched(FormatExploit, run=RunState(reward_range=(0.0, 1.0)))
    for step, (failures, reward, correct) in enumerate(zip(FELL, ROSE, content, strict=True), 1):
        points = [evaluation(step, heldout[step // 10 - 1])] if heldout and step % 10 == 0 else []
        watched.show(
            points,
            parse_failure_rate=failures,
            reward_mean=reward,
            component_mean__format_reward=reward,
            component_mean__correct=correct,
        )
    return watched


def test_form_alone_that_rises_while_parse_failures_vanish_warns():
    watched = exploited([0.1] * 40)

    assert watched.fired[0] == 34
    assert watched.summary == "parse failures 40% → 0%, reward 0.300 → 0.600, content no better"


def test_content_that_rises_with_form_is_learning():
    assert not exploited([0.1] * 10 + [0.3] * 30).fired


def test_a_heldout_result_that_rises_speaks_against_it():
    assert not exploited([0.1] * 40, [0.2, 0.3, 0.4, 0.5]).fired
    assert exploited([0.1] * 40, [0.4, 0.3, 0.4, 0.3]).fired


def test_without_content_or_evaluations_it_cannot_judge():
    watched = Watched(FormatExploit)

    assert set(watched.show_all(parse_failure_rate=FELL, reward_mean=ROSE)) == {UNKNOWN}


# ---- COMPONENT_DIVERGENCE


def test_a_component_that_rises_while_another_falls_by_as_much_warns():
    watched = Watched(ComponentDivergence)
    rising = [0.3 + 0.01 * step + 0.01 * (step % 3) for step in range(40)]
    watched.show_all(component_mean__form=rising, component_mean__correct=[1 - value for value in rising])

    assert watched.fired[0] >= 12
    assert watched.fired[-1] == 40
    assert watched.summary.startswith("form rises by 0.2")
    assert "while correct falls by 0.2" in watched.summary


@pytest.mark.parametrize(
    "other",
    [[0.4] * 40, [0.2 + 0.012 * step for step in range(40)], [0.40 - 0.0005 * step for step in range(40)]],
)
def test_one_that_stands_or_rises_or_hardly_falls_does_not(other):
    watched = Watched(ComponentDivergence)
    watched.show_all(
        component_mean__form=[0.3 + 0.01 * step for step in range(40)], component_mean__correct=other
    )

    assert not watched.fired


# ---- TRUNCATION


@pytest.mark.parametrize(("rate", "status"), [(0.15, WARN), (0.4, FAIL), (0.08, OK)])
def test_the_share_that_is_cut_warns_and_fails_on_the_fifth_step(rate, status):
    watched = Watched(Truncation)

    found = watched.show_all(truncation_rate=[rate] * 5, rollouts=[128.0] * 5)

    assert found[-1] == status
    assert found[:4] == [OK if status == OK else WATCH] * 4


def test_a_row_that_stands_for_ten_steps_is_enough():
    assert Watched(Truncation, span=10).show(truncation_rate=0.6).status == FAIL


@pytest.mark.parametrize("rollouts", [8, 16, None])
def test_the_one_of_a_few_rollouts_that_is_often_cut_is_no_finding(rollouts):
    for seed in range(5):
        random = np.random.default_rng(seed)
        watched = Watched(Truncation)
        cut = random.binomial(rollouts or 8, 0.06, 300) / (rollouts or 8)
        watched.show_all(truncation_rate=cut, rollouts=[rollouts] * 300)
        assert not watched.fired, seed


def test_a_step_below_the_limit_begins_the_count_again():
    watched = Watched(Truncation)
    watched.show_all(truncation_rate=[0.2] * 4 + [0.0] + [0.2] * 4)

    assert not watched.fired


def test_where_no_rate_is_logged_a_mean_length_at_the_budget_tells_it():
    run = RunState(sampling={"max_tokens": 512})
    full, half = Watched(Truncation, run=run), Watched(Truncation, run=run)
    full.show_all(completion_tokens_mean=[512.0] * 5)

    assert full.fired == [5]
    assert full.summary == "100% of completions are truncated, limit 30%, budget 512 tokens"
    assert set(half.show_all(completion_tokens_mean=[300.0] * 5)) == {UNKNOWN}


def test_what_cut_rollouts_earn_is_set_against_the_others(tmp_path):
    records = [run_record(sampling={"max_tokens": 9})]
    for step in range(1, 6):
        records += [
            rollout(
                step,
                f"{step}",
                index,
                0.0 if index < 4 else 1.0,
                completion=f"{index}",
                completion_tokens=9 if index < 4 else 5,
                finish_reason="length" if index < 4 else "stop",
            )
            for index in range(8)
        ]

    evidence = findings(tmp_path, records)["TRUNCATION"].evidence

    assert (evidence["reward_of_cut"], evidence["reward_of_others"], evidence["budget"]) == (0.0, 1.0, 9)


# ---- LENGTH_HACKING


def grown(tokens: list[float], correlation: float | None, **more: Any) -> Watched:
    watched = Watched(LengthHacking)
    for length in tokens:
        watched.show(
            completion_tokens_mean=length, reward_length_corr=correlation, rollouts=32, groups=4, **more
        )
    return watched


def test_longer_answers_that_are_paid_better_within_groups_warn_once_answers_grow():
    watched = grown([100.0] * 5 + [150.0] * 15, 0.7)

    assert watched.fired
    assert watched.summary == "reward and length correlate at 0.700 within groups, length 100 → 138 tokens"


def test_growth_without_a_correlation_is_reasoning():
    assert not grown([100.0 * 1.05**step for step in range(40)], 0.1).fired


def test_a_correlation_without_growth_is_no_hacking():
    assert not grown([100.0] * 30, 0.9).fired


def test_a_budget_that_cuts_nearly_all_from_the_start_is_no_hacking():
    assert not grown([8.0] * 40, 0.6, truncation_rate=0.9).fired


@pytest.mark.parametrize(("correlation", "expected"), [(0.98, True), (0.55, False)])
def test_few_steps_count_where_chance_cannot_explain_them(correlation, expected):
    watched = Watched(LengthHacking)
    for step in range(1, 31):
        dumped = correlation if step % 10 == 0 else None
        watched.show(completion_tokens_mean=100.0 + 5 * step, reward_length_corr=dumped, rollouts=8, groups=2)

    assert bool(watched.fired) is expected


def test_a_mean_reward_that_is_the_mean_length_times_a_constant_warns_without_rollouts():
    watched = Watched(LengthHacking)
    lengths = [50.0 + 5 * step for step in range(30)]
    watched.show_all(
        completion_tokens_mean=lengths, reward_mean=[4 * length + length % 3 for length in lengths]
    )

    assert watched.fired
    assert watched.summary.startswith("mean reward is mean length times a constant")


def test_reward_that_merely_rises_with_length_does_not():
    watched = Watched(LengthHacking)
    lengths = [400.0 + 20 * step for step in range(40)]
    watched.show_all(
        completion_tokens_mean=lengths,
        reward_mean=[0.3 + 0.008 * step + 0.05 * (-1) ** step for step in range(40)],
    )

    assert not watched.fired


# ---- LENGTH_COLLAPSE

SHRANK = [400.0] * 10 + [120.0] * 20


def test_answers_that_halve_while_success_stands_warn_on_the_tenth_step():
    watched = Watched(LengthCollapse)
    watched.show_all(completion_tokens_mean=SHRANK, success_rate=[0.4] * 30)

    assert watched.fired[0] == 20
    assert watched.summary == "mean length 120 tokens, 400 at first, and success no higher"


@pytest.mark.parametrize("better", ["success_rate", "component_mean__correct", "reward_mean"])
def test_answers_that_shrink_as_they_get_better_do_not(better):
    watched = Watched(LengthCollapse)
    watched.show_all(**{"completion_tokens_mean": SHRANK, better: [0.3] * 10 + [0.6] * 20})

    assert not watched.fired


def test_form_that_rises_is_no_excuse():
    watched = Watched(LengthCollapse)
    watched.show_all(
        completion_tokens_mean=SHRANK,
        reward_mean=[0.3] * 10 + [0.6] * 20,
        component_mean__format=[0.3] * 10 + [0.8] * 20,
        component_mean__correct=[0.2] * 10 + [0.0] * 20,
    )

    assert watched.fired


def test_a_heldout_result_that_rises_is():
    watched = Watched(LengthCollapse)
    for step, length in enumerate(SHRANK, 1):
        points = [evaluation(step, 0.01 * step)] if step % 5 == 0 else []
        watched.show(points, completion_tokens_mean=length, reward_mean=0.3)

    assert not watched.fired


def test_answers_of_a_token_that_earn_nothing_warn_though_they_never_were_longer():
    watched = Watched(LengthCollapse)
    watched.show_all(completion_tokens_mean=[1.1] * 12, reward_mean=[0.0] * 12, reward_std=[0.0] * 12)

    assert watched.fired == [10, 11, 12]
    assert watched.summary == "answers have 1.10 tokens on average and earn nothing"


def test_answers_of_a_token_that_are_right_do_not():
    watched = Watched(LengthCollapse)
    watched.show_all(completion_tokens_mean=[1.1] * 12, success_rate=[0.7] * 12)

    assert not watched.fired


def test_a_trainers_log_without_rollouts_is_judged_too(tmp_path):
    records = [run_record()] + [
        step_record(step, **{"completions/mean_length": length, "reward": 0.2})
        for step, length in enumerate(SHRANK, 1)
    ]

    assert "LENGTH_COLLAPSE" in findings(tmp_path, records)


def test_form_that_rises_late_while_content_stands_still_warns_without_a_parse_rate():
    watched = Watched(FormatExploit)
    content = [min(0.2 + 0.01 * step, 0.6) for step in range(200)]
    form = [0.2 if step < 100 else min(0.2 + 0.01 * (step - 100), 1.0) for step in range(200)]

    watched.show_all(component_mean__correct=content, component_mean__format=form)

    assert 100 < watched.fired[0] < 170
    assert watched.summary.startswith("format 0.200 → 1.00 since step")
    assert watched.summary.endswith("while no component that pays for content has gained anything")


def earning(form_weight: float, rows: int = 120) -> Watched:
    """A reward of content that rises from 0.2 to 0.6 and of form that is mastered early."""
    chance = [0.02, -0.01, 0.0, -0.02, 0.01]
    content = [0.2 + 0.4 * row / rows + chance[row % 5] for row in range(rows)]
    form = [min(0.4 + 0.02 * row, 0.95) + chance[row % 4] for row in range(rows)]
    watched = Watched(FormatExploit)
    watched.show_all(
        reward_mean=[0.1 * of + form_weight * and_form for of, and_form in zip(content, form, strict=True)],
        component_mean__correct=content,
        component_mean__format=form,
    )
    return watched


def test_form_that_earns_most_of_the_reward_is_a_remark():
    watched = earning(form_weight=0.4)

    assert watched.verdicts[-1].status == INFO
    assert watched.fired[0] == 70
    assert watched.summary.startswith("87% of the reward is earned by the form of answers, since step ")


def test_form_that_earns_less_than_content_is_none():
    assert not earning(form_weight=0.02).fired


def test_form_that_is_learned_before_content_begins_to_rise_is_a_usual_start():
    watched = Watched(FormatExploit)
    content = [0.2 if step < 120 else min(0.2 + 0.01 * (step - 120), 0.6) for step in range(200)]
    form = [min(0.2 + 0.01 * step, 1.0) for step in range(200)]

    watched.show_all(component_mean__correct=content, component_mean__format=form)

    assert not watched.fired


def test_length_that_climbs_with_reward_is_a_remark_where_nothing_logged_could_tell_why():
    lengths = [200.0 + 3 * step for step in range(150)]
    rewards = [0.2 + 0.003 * step + 0.01 * (step % 3) for step in range(150)]
    watched = Watched(LengthHacking)

    watched.show_all(completion_tokens_mean=lengths, reward_mean=rewards)

    assert watched.fired
    assert watched.verdicts[-1].status == INFO
    assert watched.summary.startswith("reward and length climb together, and nothing logged tells")


def test_length_that_climbs_with_reward_is_nothing_where_the_run_is_evaluated():
    watched = Watched(LengthHacking)
    for step in range(150):
        watched.show(
            [evaluation(step, 0.5)] if step == 10 else [],
            completion_tokens_mean=200.0 + 3 * step,
            reward_mean=0.2 + 0.003 * step + 0.01 * (step % 3),
        )

    assert not watched.fired


def test_two_components_that_part_for_a_few_rows_are_watched():
    chance = [0.5, 0.52, 0.49, 0.51] * 10
    watched = Watched(ComponentDivergence)

    watched.show_all(
        component_mean__correct=chance, component_mean__format=[0.5 + 0.01 * row for row in range(40)]
    )

    assert not watched.fired
