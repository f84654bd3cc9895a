"""The filter's terms: what they find in the columns, and how they point at what is wrong."""

from __future__ import annotations

import re
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
    found = Catalogue(Columns(snapshot), parse(text, snapshot.run.components)).matching
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


def test_a_name_alone_asks_whether_it_is_known_at_all(tmp_path: Path) -> None:
    records = [rollout(0, reward=0.5, seed=7, sampler="gpu3"), rollout(1, reward=None)]
    for text in ("reward", "seed", "sampler"):
        assert matches(tmp_path, text, *records) == [True, False], text
        assert matches(tmp_path, f"!{text}", *records) == [False, True], text


def test_each_field_of_the_columns_is_asked_for(tmp_path: Path) -> None:
    asked = {
        "finish_reason": "abort",
        "policy_version": 3,
        "trainer_version": 6,
        "seed": 7,
        "sampler": "gpu3:8000",
        "family": "carry",
        "rewards": {"format": 0.0},
        "verifier": {"raw": "1", "error": "boom"},
    }
    records = [rollout(0, **asked), rollout(1, completion="y", rewards={"format": 1.0})]
    for text in (
        "lag>2",
        "component.format=0",
        "finish=abort",
        "end=abort",
        "error",
        "seed=7",
        "sampler=gpu3:8000",
    ):
        assert matches(tmp_path, text, *records) == [True, False], text
    assert matches(tmp_path, "step=1..120 family=carry !dup", *records) == [True, False]


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
    catalogue = Catalogue(Columns(cold), parse("std<0.1 temperature<1 step=91..110"))
    steps = [int(step) for step in catalogue.steps]
    assert len(catalogue.groups(steps)) == 56
    assert int(catalogue.matching.sum()) == 448
    flat = [cold.batch(step) for step in range(91, 111)]
    assert len(Catalogue(Columns(cold), parse("flat step=91..110")).groups(range(91, 111))) == sum(
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
        ("truncated=1", 0, "truncated is a flag: write truncated or !truncated"),
        ("family<carry", 6, "family is a word: it is compared with = and !="),
        ("step<1..2", 4, "a range is asked for with ="),
        ("step=1..x", 8, "x is no number"),
        ("zzz<1", 0, "there is no field zzz; what is looked for in texts goes in quotes"),
        ("flat component.zzz=0", 5, "there is no component zzz"),
        ("!family=carry", 0, "! stands before a name alone; write family!=carry"),
        ("flat /ab(/", 8, "not a pattern: missing ), unterminated subpattern"),
        ("/tmp/x", 0, 'no / ends this pattern; what begins with / and is none goes in "quotes"'),
        ("flat //", 5, "there is nothing between the slashes"),
        ('""', 0, "there is nothing between the quotes"),
        ("a! b", 0, 'a! is no term: write a field, a word, "a phrase" or /a pattern/'),
        (" ".join(["/a/"] * 9), 32, "at most 8 patterns"),
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


def test_what_is_no_field_is_looked_for_in_texts():
    found = parse('answer reward<0.5 "the end" !sorry /a b\\/c/ !/Q\\d+/')
    assert [(term.text, term.regex, term.wanted) for term in found.texts] == [
        ("answer", False, True),
        ("the end", False, True),
        ("sorry", False, False),
        ("a b/c", True, True),
        (r"Q\d+", True, False),
    ]
    assert len(found.terms) == 1


def test_capitals_matter_only_where_there_are_some():
    cases = {"answer": True, "Answer": False, "/ans/": True, r"/\W\S+ans/": True, "/[A-Z]ns/": False}
    for text, any_case in cases.items():
        assert parse(text).texts[0].any_case == any_case, text


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("answer", ("answer",)),
        ('"the 12 answers!"', ("answers", "the", "12")),
        ("!answer", ()),
        (r"/<answer>\d{12}<.answer>/", ("answer", "answer")),
        ("/ab?cd*ef+gh/", ("ef", "gh")),
        ("/ab(cd)ef/", ("ab", "ef")),
        ("/ab|cd/", ()),
        ("/(?i)abcd/", ()),
        (r"/ab[xy\]z]cd\x41ef/", ("ab", "cd", "ef")),
        ("/a/", ()),
    ],
)
def test_some_letters_stand_in_whatever_matches(text: str, certain: tuple[str, ...]) -> None:
    assert parse(text).texts[0].certain == certain


_PATTERNS = st.recursive(
    st.sampled_from(["ab", "cd", r"\d", "[ab]", ".", "^", "b$", "[^]c]", "ef"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,2}", "{1,2}", "*?"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
    ),
    max_leaves=5,
)


@given(_PATTERNS, st.text("abcdef1", max_size=8))
def test_what_a_pattern_matches_holds_the_letters_that_are_certain(pattern: str, text: str) -> None:
    if re.search(pattern, text):
        assert all(run in text for run in parse(f"/{pattern}/").texts[0].certain)


def test_a_field_that_was_begun_is_written_out():
    assert completed("temp") == "temperature"
    assert completed("flat trunc") == "flat truncated"
    assert completed("!par") == "!parsed"
    assert completed("form", ["format", "fo\x1brm"]) == "format"
    assert completed("zzz") == "zzz"
    assert completed("") == ""
    assert completed("reward ") == "reward "
