"""The filter's terms: what they find in the columns, and how they point at what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_screens import read

from grpo_top.ui.rollouts.catalogue import Catalogue
from grpo_top.ui.rollouts.columns import Columns
from grpo_top.ui.rollouts.filters import Filter, FilterError, completed, parse

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

RUN = {"kind": "run", "schema": "grpo-top/1", "run": "r", "group_size": 2}


def rollout(index: int, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "rollout",
        "step": 1,
        "group": "a",
        "index": index,
        "reward": 0.0,
        "completion": "x",
        **fields,
    }


def matches(directory: Path, text: str, *rollouts: dict[str, Any]) -> list[bool]:
    """Which of these rollouts, all of step 1, a filter finds."""
    snapshot = read(directory, [RUN, *rollouts, {"kind": "step", "step": 1, "metrics": {}}])
    found = Catalogue(snapshot, parse(text, snapshot.run.components)).matching
    return found.tolist()


def test_no_terms_find_everything():
    assert not parse("")
    assert not parse("   ")
    assert parse("flat")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("reward<0.5", [True, False, False]),
        ("reward<=0.5", [True, True, False]),
        ("reward>0.5", [False, False, True]),
        ("reward>=0.5", [False, True, True]),
        ("reward=0.5", [False, True, False]),
        ("reward!=0.5", [True, False, True]),
        ("reward=0.1..0.5", [True, True, False]),
        ("reward=0.5..", [False, True, True]),
        ("reward=..0.5 reward>0.1", [False, True, False]),
    ],
)
def test_numbers_are_compared(tmp_path: Path, text: str, wanted: list[bool]) -> None:
    assert matches(tmp_path, text, *(rollout(i, reward=r) for i, r in enumerate([0.1, 0.5, 1.0]))) == wanted


def test_what_is_unknown_never_matches_whatever_is_asked(tmp_path: Path) -> None:
    known = rollout(0, truncated=True, completion_tokens=5, policy_version=3, trainer_version=5, family="f")
    unknown = rollout(1, reward=None)
    for text in ("truncated", "tokens=5", "lag=2", "family=f", "reward=0"):
        assert matches(tmp_path, text, known, unknown) == [True, False], text
    for text in (
        "!truncated",
        "tokens!=5",
        "lag!=2",
        "family!=f",
        "reward!=0",
        "parsed",
        "!parsed",
        "error",
        "!error",
    ):
        assert matches(tmp_path, text, known, unknown) == [False, False], text


def test_what_is_not_finite_is_no_number(tmp_path: Path) -> None:
    found = matches(tmp_path, "reward>0.5", rollout(0, reward=1.0), {**rollout(1), "reward": float("inf")})
    assert found == [True, False]


def test_flags_and_their_opposites(tmp_path: Path) -> None:
    records = [
        rollout(0, finish_reason="length", verifier={"raw": "1", "error": "boom"}, parsed=False),
        rollout(1, finish_reason="stop", verifier={"raw": "1", "error": None}, parsed=True, completion="y"),
        rollout(
            2, finish_reason="stop", verifier={"raw": "1", "error": None}, parsed=True, policy_version=[1, 2]
        ),
    ]
    assert matches(tmp_path, "truncated", *records) == [True, False, False]
    assert matches(tmp_path, "!truncated", *records) == [False, True, True]
    assert matches(tmp_path, "error", *records) == [True, False, False]
    assert matches(tmp_path, "!error", *records) == [False, True, True]
    assert matches(tmp_path, "!parsed", *records) == [True, False, False]
    assert matches(tmp_path, "dup", *records) == [True, False, True]
    assert matches(tmp_path, "mixed", *records) == [False, False, True]


def test_words_are_compared_whatever_their_case_and_several_at_once(tmp_path: Path) -> None:
    records = [rollout(0, family="Carry"), rollout(1, family="plain"), rollout(2, family="other one")]
    assert matches(tmp_path, "family=carry", *records) == [True, False, False]
    assert matches(tmp_path, "family=carry,plain", *records) == [True, True, False]
    assert matches(tmp_path, "family!=carry", *records) == [False, True, True]
    assert matches(tmp_path, 'family="other one"', *records) == [False, False, True]


def test_components_of_the_reward_are_fields(tmp_path: Path) -> None:
    records = [
        rollout(0, rewards={"format": 1.0, "lag": 0.2}),
        rollout(1, rewards={"format": 0.0, "lag": 0.9}),
    ]
    assert matches(tmp_path, "format<0.5", *records) == [False, True]
    assert matches(tmp_path, "reward.lag>0.5", *records) == [False, True]


def test_what_is_asked_of_a_group_holds_for_all_of_its_rollouts(tmp_path: Path) -> None:
    records = [
        rollout(0, group="flat", reward=1.0),
        rollout(1, group="flat", reward=1.0),
        rollout(0, group="mixed", reward=0.0),
        rollout(1, group="mixed", reward=1.0),
    ]
    assert matches(tmp_path, "std<0.1", *records) == [True, True, False, False]
    assert matches(tmp_path, "flat", *records) == [True, True, False, False]
    assert matches(tmp_path, "!flat reward=1", *records) == [False, False, False, True]
    assert matches(tmp_path, "mean=0.5", *records) == [False, False, True, True]


def test_a_recorded_run_is_found_as_its_truth_has_it(cold: Snapshot) -> None:
    catalogue = Catalogue(cold, parse("std<0.1 temperature<1 step=91..110"))
    steps = [int(step) for step in catalogue.steps]
    assert len(catalogue.groups(steps, "newest first")) == 56
    assert int(catalogue.matching.sum()) == 448
    flat = [cold.batch(step) for step in range(91, 111)]
    assert len(Catalogue(cold, parse("flat step=91..110")).groups(range(91, 111), "newest first")) == sum(
        int(batch.flat.sum()) for batch in flat if batch is not None
    )


def test_rollouts_are_joined_to_the_groups_that_the_batches_have(cold: Snapshot) -> None:
    group_of = Columns(cold).group_of
    table = cold.groups.columns
    for step in (1, 50, 110):
        batch = cold.batch(step)
        assert batch is not None
        assert (table["step"][group_of[batch.rows]] == step).all()
        assert (table["group"][group_of[batch.rows]] == batch.group).all()
    evaluation = cold.eval_batch(101)
    assert evaluation is not None
    assert (group_of[evaluation.rows] == -1).all()


def test_groups_that_are_equal_prompts_are_joined_as_they_were_cut(tmp_path: Path) -> None:
    records = [
        {
            "kind": "rollout",
            "step": step,
            "reward": float(number % 2),
            "prompt": prompt,
            "completion": f"{number}",
        }
        for step in (1, 2)
        for number, prompt in enumerate(["a", "a", "a", "a", "b", "b"])
    ]
    snapshot = read(tmp_path, [RUN, *records, {"kind": "step", "step": 3, "metrics": {}}])
    group_of = Columns(snapshot).group_of
    for step in (1, 2):
        batch = snapshot.batch(step)
        assert batch is not None
        assert (snapshot.groups.columns["group"][group_of[batch.rows]] == batch.group).all()


def test_advantages_are_the_batches_own_logged_or_computed(cold: Snapshot) -> None:
    batch = cold.batch(110)
    assert batch is not None
    assert np.allclose(Columns(cold).numbers("advantage")[batch.rows], batch.advantages())


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("reward<x", 7, "x is no number"),
        ("flat rewrad<1", 5, "there is no field rewrad; did you mean reward?"),
        ("reward<", 7, "reward< needs a value"),
        ("reward", 0, "reward needs a comparison, such as reward<0.5"),
        ("truncated=1", 0, "truncated is a flag: write truncated or !truncated"),
        ("family<carry", 6, "family is a word: it is compared with = and !="),
        ("step<1..2", 4, "a range is asked for with ="),
        ("step=1..x", 8, "x is no number"),
        ("flat  hello", 6, "hello is no field, and words are not searched for in texts yet"),
        ("!family=carry", 0, "! stands before a flag"),
        ("<5", 0, "<5 is no term"),
        ('family="a', 0, "is no term"),
    ],
)
def test_an_error_points_at_its_column(text: str, column: int, words: str) -> None:
    with pytest.raises(FilterError) as error:
        parse(text)
    assert error.value.column == column
    assert words in str(error.value)


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_an_error_with_a_column_within_it(text: str) -> None:
    try:
        column = 0 if isinstance(parse(text, ["format"]), Filter) else -1
    except FilterError as error:
        column = error.column
    assert 0 <= column <= len(text)


def test_a_field_that_was_begun_is_written_out():
    assert completed("temp") == "temperature"
    assert completed("flat trunc") == "flat truncated"
    assert completed("!par") == "!parsed"
    assert completed("form", ["format", "fo\x1brm"]) == "format"
    assert completed("zzz") == "zzz"
    assert completed("") == ""
    assert completed("reward ") == "reward "
