"""Sparks, reward strips and lines of cells."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.theme import DARK, styles
from grpo_top.ui.widgets.spark import columns_of, spark
from grpo_top.ui.widgets.strips import fit, line, reward_strip, runs_to_parts, spread

BOLD = Style(bold=True)


def over(values: list[float], width: int, **options):
    return spark(np.arange(1, len(values) + 1), np.array(values, dtype=float), width, **options)


def test_a_spark_shows_the_mean_of_each_bin_from_zero() -> None:
    assert over([0, 1, 0.5, 0.5, 1, 1], 3, top=1.0).text == "▄▄▇"


def test_a_spark_never_fills_a_cell() -> None:
    assert "█" not in over([0, 1e9, 1, math.pi], 4).text


def test_a_limit_leaves_room_above_it_and_marks_what_is_past() -> None:
    row = over([1.0, 1.0, 0.15, 0.15], 4, limit=1.0, above=False)
    assert row.text == "▆▆▂▂"
    assert row.past == (False, False, True, True)
    assert over([0.1, 0.5], 2, limit=0.4, share=True).past == (False, True)


def test_a_share_is_never_scaled_past_all_of_it() -> None:
    assert over([1.0, 0.9], 2, limit=0.9, share=True).text == "▇▆"


def test_a_run_shorter_than_the_spark_fills_it_from_the_right() -> None:
    row = over([1, 1], 5, top=1.0)
    assert row.text == "   ▇▇"
    assert row.empty == (True, True, True, False, False)


def test_steps_without_a_value_are_dots() -> None:
    row = spark(np.array([4, 8]), np.array([1.0, math.nan]), 4, first=1, last=8, top=1.0)
    assert row.text == "·▇··"


def test_what_is_not_finite_or_unknown_is_left_out_of_the_mean() -> None:
    assert over([math.nan, 1.0, math.inf, 1.0], 2, top=1.0).text == "▇▇"


def test_values_below_zero_start_at_the_lowest() -> None:
    assert over([-1, 1], 2, top=1.0).text == "▁▇"


def test_values_at_the_end_of_the_floats_are_drawn() -> None:
    assert len(over([1.7e308, 1.7e308, -1.7e308, 1.0], 3).text) == 3


def test_a_spark_in_ascii() -> None:
    assert over([0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1], 7, top=1.0, glyphs=ASCII).text == "_.-=+*#"


def test_runs_of_a_spark_join_cells_of_one_role() -> None:
    row = spark(np.array([1, 2, 4]), np.array([0.1, 0.5, 0.5]), 4, first=1, last=4, limit=0.4, top=1.0)
    assert row.runs("series1_steps", "limit") == [
        ("▂", "series1_steps"),
        ("▄", "limit"),
        ("·", "faint"),
        ("▄", "limit"),
    ]
    assert row.runs("strip") == [("▂▄", "strip"), ("·", "faint"), ("▄", "strip")]


def test_a_step_of_the_axis_is_in_the_cell_of_its_bin() -> None:
    steps = np.array([1, 51, 110, 111, 0])
    assert columns_of(steps, 1, 110, 24).tolist() == [0, 10, 23, -1, -1]


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60),
    st.integers(0, 30),
    st.booleans(),
    st.one_of(st.none(), st.floats(-1e3, 1e3)),
)
def test_a_spark_is_as_wide_as_it_was_asked_for(
    values: list[float], width: int, share: bool, limit: float | None
) -> None:
    row = over(values, width, share=share, limit=limit)
    assert len(row.text) == len(row.past) == len(row.empty) == width
    assert set(row.text) <= set(UNICODE.spark) | {"·", " "}


def test_a_reward_above_the_mean_of_its_group_is_bright() -> None:
    rewards = [1.1, 0.75, 1.15, 1.15, 1.1, 1.1, 1.1, 0.7]
    cells = reward_strip(rewards, 0.0, 1.2, 1.01875)
    assert "".join(glyph for glyph, _ in cells) == "▇▅▇▇▇▇▇▅"
    assert [role for _, role in cells] == [
        "strip",
        "strip0",
        "strip",
        "strip",
        "strip",
        "strip",
        "strip",
        "strip0",
    ]


def test_a_flat_group_is_grey() -> None:
    rewards = [0.1 + 0.2] * 8
    assert {role for _, role in reward_strip(rewards, 0, 1.2, sum(rewards) / 8)} == {"strip0"}


def test_a_strip_in_ascii_is_tenths_of_the_range() -> None:
    cells = reward_strip([0, 0.12, 0.6, 1.2, 5, -1], 0, 1.2, 0.4, ASCII)
    assert "".join(glyph for glyph, _ in cells) == "015990"


def test_a_reward_that_is_unknown_or_not_finite_has_its_own_sign() -> None:
    cells = reward_strip([None, math.nan, math.inf, 1.0], 0, 1, None)
    assert cells == [("·", "faint"), ("·", "faint"), ("×", "fail"), ("▇", "strip0")]


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(allow_nan=True, allow_infinity=True),
)
def test_a_strip_has_one_cell_a_rollout_whatever_the_range(
    rewards: list[float], low: float, high: float
) -> None:
    assert [len(glyph) for glyph, _ in reward_strip(rewards, low, high, 0.5)] == [1] * len(rewards)


def test_a_reward_far_outside_the_range_is_at_its_end() -> None:
    assert reward_strip([1.7e308, -1.7e308], 0.0, 1e-9, 0.5) == [("▇", "strip"), ("▁", "strip0")]


def test_a_line_is_filled_to_its_width_in_the_base_style() -> None:
    strip = line(10, "ab", ("cd", BOLD), base=Style(color="red"))
    assert strip.text == "abcd      "
    assert [segment.style for segment in strip] == [
        Style(color="red"),
        Style(color="red", bold=True),
        Style(color="red"),
    ]


def test_a_line_that_is_too_long_ends_in_an_ellipsis() -> None:
    assert line(5, "abc", "defg").text == "abcd…"
    assert line(3, "abc", "defg").text == "ab…"
    assert line(3, "abc", "").text == "abc"
    assert line(4, "日本語").text == "日 …"
    assert line(5, "日本語").text == "日本…"
    assert line(5, "abcdefg", ellipsis=".").text == "abcd."
    assert line(0, "abc").text == ""


def test_both_ends_of_a_line_are_kept_and_the_left_is_cut_first() -> None:
    assert spread(12, ["left"], ["right"]).text == "left   right"
    assert spread(12, ["left "], [" right"], fill="─").text == "left ─ right"
    assert spread(8, ["left"], ["right"]).text == "le…right"
    assert spread(3, ["left"], ["right"]).text == "ri…"


def test_a_text_is_fitted_left_or_right() -> None:
    assert fit("ab", 4) == "ab  "
    assert fit("ab", 4, right=True) == "  ab"
    assert fit("abcdef", 4) == "abc…"
    assert fit("abcdef", 0) == ""


def test_runs_become_parts_in_the_style_of_their_role() -> None:
    parts = runs_to_parts([("a", "fail"), ("b", "")], styles(DARK))
    assert parts == [("a", Style(color=DARK.fail)), "b"]


ANY_TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=12)


@given(st.lists(ANY_TEXT, max_size=5), st.lists(ANY_TEXT, max_size=3), st.integers(0, 30))
def test_a_line_has_exactly_its_width(left: list[str], right: list[str], width: int) -> None:
    for strip in (line(width, *left, base=BOLD), spread(width, left, right, base=BOLD)):
        assert sum(cell_len(segment.text) for segment in strip) == width
        assert all(segment.style is not None for segment in strip)


@pytest.mark.parametrize("width", range(1, 9))
def test_a_fitted_text_has_exactly_its_width(width: int) -> None:
    for text in ("", "a", "日本語", "a日b本c語d"):
        assert cell_len(fit(text, width)) == cell_len(fit(text, width, right=True)) == width
