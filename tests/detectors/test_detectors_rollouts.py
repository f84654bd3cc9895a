"""Stage 4: texts are diverse and language, episodes end for the right reason, the policy still chooses."""

from __future__ import annotations

from typing import Any

import pytest
from detector_steps import OK, UNKNOWN, WARN, WATCH, Watched, findings, statuses
from runs import rollout

from grpo_top.detectors.endings import TerminationShift
from grpo_top.detectors.entropy import EntropyCollapse, EntropyExplosion
from grpo_top.detectors.texts import Gibberish, LowDiversity, RepetitionLoops

LONG = {"completion_tokens_p50": 300.0}
SHORT = {"completion_tokens_p50": 9.0}


# ---- LOW_DIVERSITY


@pytest.mark.parametrize(("tokens", "duplicates"), [(LONG, 0.55), (SHORT, 0.95), ({}, 0.95)])
def test_duplicates_above_the_limit_of_their_length_warn_on_the_fifth_step(tokens, duplicates):
    watched = Watched(LowDiversity)

    found = [watched.show(duplicate_frac=duplicates, rollouts=32, **tokens).status for _ in range(6)]

    assert found == [WATCH] * 4 + [WARN] * 2
    assert watched.verdicts[-1].onset == 1


@pytest.mark.parametrize(("tokens", "duplicates"), [(LONG, 0.45), (SHORT, 0.74), ({}, 0.74)])
def test_short_answers_may_repeat_and_long_ones_a_little(tokens, duplicates):
    watched = Watched(LowDiversity)

    assert {watched.show(duplicate_frac=duplicates, rollouts=32, **tokens).status for _ in range(30)} == {OK}


def test_one_step_of_copies_is_enough_unless_answers_are_known_to_be_short():
    assert Watched(LowDiversity).show(duplicate_frac=1.0, rollouts=15).status == WARN
    assert Watched(LowDiversity).show(duplicate_frac=1.0, rollouts=15, **SHORT).status == WATCH
    assert Watched(LowDiversity).show(duplicate_frac=1.0, rollouts=8).status == WATCH


def test_texts_that_each_appear_equally_often_are_named_as_repeated_requests(tmp_path):
    records = [
        rollout(4, prompt, index, float(index % 2), completion=f"{prompt} {index % 3}")
        for prompt in "abcde"
        for index in range(6)
    ]

    diversity = findings(tmp_path, records)["LOW_DIVERSITY"]

    assert diversity.evidence["copies_of_each_text"] == 2
    assert diversity.try_next[0].startswith("Each text appears exactly 2 times")
    assert diversity.summary == "duplicates 100%, limit 90%, 3.0 different texts in a group of 6"


# ---- REPETITION_LOOPS, GIBBERISH


@pytest.mark.parametrize(
    ("detector", "series"), [(RepetitionLoops, "repetition_frac"), (Gibberish, "gibberish_frac")]
)
def test_a_tenth_of_the_late_window_warns(detector, series):
    watched = Watched(detector)

    watched.show_all(**{series: [0.0] * 15 + [0.6] * 5, "rollouts": [128.0] * 20})

    assert watched.fired == [19, 20]


@pytest.mark.parametrize(
    ("detector", "series"), [(RepetitionLoops, "repetition_frac"), (Gibberish, "gibberish_frac")]
)
def test_a_single_step_warns_only_where_chance_cannot_explain_it(detector, series):
    assert Watched(detector).show(**{series: 0.25, "rollouts": 4}).status == WATCH
    assert Watched(detector).show(**{series: 1.0, "rollouts": 24}).status == WARN
    assert Watched(detector).show(**{series: 0.0, "rollouts": 24}).status == UNKNOWN


def test_gibberish_from_the_first_step_is_not_blamed_on_training():
    watched = Watched(Gibberish)
    watched.show(gibberish_frac=1.0, rollouts=24)

    assert watched.summary == (
        "100% of completions are not language; 100% already at step 1, so training did not cause it"
    )
    assert watched.details is not None
    assert watched.details.evidence["caused_by_training"] is False


def test_gibberish_that_begins_later_is():
    watched = Watched(Gibberish)
    watched.show_all(gibberish_frac=[0.0] * 10 + [0.8] * 5, rollouts=[32.0] * 15)

    assert watched.details is not None
    assert watched.details.evidence["caused_by_training"] is True


# ---- TERMINATION_SHIFT


def ended(step: int, reasons: list[str], family: str = "plain", reward: float = 0.0) -> list[dict[str, Any]]:
    return [
        rollout(
            step, f"{step}{family}", index, reward, completion=f"{index}", termination=reason, family=family
        )
        for index, reason in enumerate(reasons)
    ]


def test_errors_on_a_twentieth_of_the_late_window_warn(tmp_path):
    records = [record for step in range(1, 11) for record in ended(step, ["done"] * 11 + ["env_timeout"])]

    shift = findings(tmp_path, records)["TERMINATION_SHIFT"]

    assert shift.first_step == 6  # 6 of 72: of fewer, one in twelve may be chance
    assert shift.summary == "8.3% of rollouts end in an error, a crash, a timeout or an abort"
    assert {ref.index for ref in shift.rollouts} == {11}


def test_a_few_aborts_of_one_step_warn_where_chance_cannot_explain_them(tmp_path):
    records = ended(6, ["stop"] * 12 + ["abort"] * 4)

    assert "TERMINATION_SHIFT" in findings(tmp_path, records)
    assert "TERMINATION_SHIFT" not in findings(tmp_path, ended(6, ["stop"] * 15 + ["abort"]))


def test_a_family_whose_natural_endings_give_way_to_another_reason_warns(tmp_path):
    records: list[dict[str, Any]] = []
    for step in range(1, 41):
        records += ended(step, ["done"] * 8, "carry")
        records += ended(step, ["done"] * 8 if step <= 15 else ["done"] * 3 + ["invalid_move"] * 5, "plain")

    shift = findings(tmp_path, records)["TERMINATION_SHIFT"]

    assert list(shift.evidence["families"]) == ["plain"]
    assert "plain ends with invalid_move in" in shift.summary
    assert shift.onset > 15


def test_more_natural_endings_are_learning(tmp_path):
    records: list[dict[str, Any]] = []
    for step in range(1, 41):
        records += ended(step, ["gave_up"] * 6 + ["done"] * 2 if step <= 12 else ["done"] * 8)

    assert "TERMINATION_SHIFT" not in findings(tmp_path, records)


@pytest.mark.parametrize(("reward", "expected"), [(0.0, True), (1.0, False)])
def test_reasons_that_nobody_knows_count_only_while_reward_does_not_rise(tmp_path, reward, expected):
    records: list[dict[str, Any]] = []
    for step in range(1, 41):
        early = step <= 12
        records += ended(step, ["lost"] * 8 if early else ["won"] * 8, reward=0.0 if early else reward)

    assert ("TERMINATION_SHIFT" in findings(tmp_path, records)) is expected


def test_what_a_budget_ends_is_left_to_truncation(tmp_path):
    records: list[dict[str, Any]] = []
    for step in range(1, 41):
        records += ended(step, ["done"] * 8 if step <= 12 else ["max_turns_exceeded"] * 8)

    assert "TERMINATION_SHIFT" not in findings(tmp_path, records)


@pytest.mark.parametrize(("tokens", "expected"), [(256.0, [10, 11, 12]), (8.0, [])])
def test_a_run_in_which_nothing_ever_ends_by_itself_warns_unless_its_budget_is_small(tokens, expected):
    watched = Watched(TerminationShift)
    watched.show_all(truncation_rate=[1.0] * 12, completion_tokens_mean=[tokens] * 12)

    assert watched.fired == expected


def test_one_completion_that_ends_by_itself_is_enough():
    watched = Watched(TerminationShift)
    watched.show_all(truncation_rate=[1.0, 0.97, *[1.0] * 20], completion_tokens_mean=[256.0] * 22)

    assert watched.fired == []


# ---- NONDETERMINISTIC_REPLAY


def replayed(step: int, seeds: list[int], texts: list[str], version: int = 7) -> list[dict[str, Any]]:
    return [
        rollout(step, f"{step}", index, 1.0, task="t", seed=seed, completion=text, policy_version=version)
        for index, (seed, text) in enumerate(zip(seeds, texts, strict=True))
    ]


def test_the_same_seed_that_gives_other_texts_under_one_policy_warns_at_three_pairs(tmp_path):
    records = replayed(1, [1, 2, 3, 4], list("abcd")) + replayed(2, [1, 2, 3, 4], list("abxy"))

    assert statuses(tmp_path, records, "NONDETERMINISTIC_REPLAY") == [UNKNOWN, WATCH]
    records += replayed(3, [1, 2, 3, 4], list("zbxy"))
    found = findings(tmp_path, records)["NONDETERMINISTIC_REPLAY"]
    assert found.summary == "3 of 8 replays of one task, seed and policy came out otherwise"
    assert len(found.rollouts) == 6


def test_a_later_policy_may_answer_otherwise(tmp_path):
    records = replayed(1, [1, 2, 3, 4], list("abcd"), 7) + replayed(2, [1, 2, 3, 4], list("wxyz"), 8)

    assert set(statuses(tmp_path, records, "NONDETERMINISTIC_REPLAY")) == {UNKNOWN}


def test_a_seed_that_a_whole_group_shares_is_the_requests(tmp_path):
    records = replayed(1, [5] * 4, list("abcd")) + replayed(2, [5] * 4, list("wxyz"))

    assert set(statuses(tmp_path, records, "NONDETERMINISTIC_REPLAY")) == {UNKNOWN}


# ---- ENTROPY_COLLAPSE, ENTROPY_EXPLOSION


def falling(first: float, factor: float, count: int, start: int) -> list[float]:
    return [first if step <= start else first * factor ** (step - start) for step in range(1, count + 1)]


def test_entropy_that_falls_below_a_fifth_of_its_start_warns_and_stays_a_watch_once_it_lies_there():
    entropy = falling(0.6, 0.9, 45, 20)
    watched = Watched(EntropyCollapse)
    watched.show_all(entropy=entropy)

    assert watched.fired
    assert all(entropy[position - 1] < 0.12 for position in watched.fired)
    assert watched.summary.endswith("0.600 early in the run")
    rest = watched.show_all(entropy=[0.08, 0.081, 0.079] * 12)
    assert rest[-1] == WATCH


def test_low_entropy_from_the_start_is_no_collapse():
    watched = Watched(EntropyCollapse)

    assert set(watched.show_all(entropy=[0.07 + 0.0005 * step for step in range(50)])) <= {OK, UNKNOWN}


def test_entropy_that_falls_to_half_is_learning():
    watched = Watched(EntropyCollapse)

    assert WARN not in watched.show_all(entropy=falling(0.6, 0.985, 60, 10))


def test_entropy_above_three_times_its_start_warns_while_reward_does_not_rise():
    entropy = falling(0.3, 1.08, 50, 15)
    flat, rising = Watched(EntropyExplosion), Watched(EntropyExplosion)
    flat.show_all(entropy=entropy, reward_mean=[0.5] * 50)
    rising.show_all(entropy=entropy, reward_mean=[0.01 * step for step in range(50)])

    assert flat.fired
    assert flat.summary.endswith("0.300 early in the run")
    assert not rising.fired


def test_a_row_of_ten_steps_counts_as_ten():
    watched = Watched(EntropyExplosion, span=10)
    watched.show_all(entropy=[0.3] * 5 + [1.2], reward_mean=[0.5] * 6)

    assert watched.fired == [6]
