"""The number formats, from the values that the screens' designs show."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_top import numbers

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.25, "25%"),
        (0.0912, "9.1%"),
        (0.0, "0%"),
        (1.0, "100%"),
        (0.012, "1.2%"),
        (0.1, "10%"),
        (0.0996, "10%"),
        (0.0994, "9.9%"),
        (0.405, "40%"),
        (0.0001, "<0.1%"),
        (0.9991, ">99%"),
        (0.99, "99%"),
        (2.5, "250%"),
        (-0.25, "−25%"),
        (-0.0001, "−<0.1%"),
    ],
)
def test_shares_are_percent_with_a_decimal_below_ten(fraction: float, text: str) -> None:
    assert numbers.share(fraction) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.94, "0.940"),
        (0.0683, "0.0683"),
        (1.5501, "1.55"),
        (0.2888, "0.289"),
        (8.98, "8.98"),
        (9.999, "10.0"),
        (10.31, "10.3"),
        (287.4, "287"),
        (999.6, "1,000"),
        (1234.5, "1,234"),
        (128_000.0, "128k"),
        (0, "0"),
        (0.0, "0"),
        (-0.0, "0"),
        (2e-4, "2.0e-4"),
        (1e-5, "1.0e-5"),
        (3.14e-12, "3.1e-12"),
        (0.00999999, "0.0100"),
        (0.001, "0.00100"),
        (-0.043, "−0.0430"),
        (-2e-4, "−2.0e-4"),
    ],
)
def test_values_have_three_significant_digits(number: float, text: str) -> None:
    assert numbers.value(number) == text


@pytest.mark.parametrize(
    ("number", "decimals", "text"),
    [(1.0, 2, "1.00"), (0.0614, 3, "0.061"), (2.37, 1, "2.4"), (-0.0001, 2, "0.00"), (-1.474, 2, "−1.47")],
)
def test_lists_have_a_fixed_number_of_decimals(number: float, decimals: int, text: str) -> None:
    assert numbers.fixed(number, decimals) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (0.15, "0.15"),
        (32, "32"),
        (0, "0"),
        (-1, "−1"),
        ("auto", "auto"),
        (1e-6, "1e-06"),
        (None, "?"),
    ],
)
def test_settings_are_written_as_in_a_config(number: float | str | None, text: str) -> None:
    assert numbers.setting(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1920, "1,920"),
        (9, "9"),
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100k"),
        (128_345, "128k"),
        (999_600, "1.0M"),
        (1_234_567, "1.2M"),
        (12_345_678, "12M"),
        (3e12, "3.00e12"),
        (-1920, "−1,920"),
        (-0.2, "0"),
    ],
)
def test_counts_have_commas_and_from_a_hundred_thousand_a_unit(number: float, text: str) -> None:
    assert numbers.count(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.08, "0.08 s"),
        (0.0812, "0.081 s"),
        (0.3, "0.3 s"),
        (0.24, "0.24 s"),
        (1.0, "1 s"),
        (2.1, "2.1 s"),
        (9.96, "10 s"),
        (40, "40 s"),
        (59.6, "1 m"),
        (1200, "20 m"),
        (3570, "1 h"),
        (3 * 3600 + 600, "3 h 10 m"),
        (52 * 3600, "2 d 4 h"),
        (72 * 3600, "3 d"),
        (0, "0 s"),
        (-4, "−4 s"),
    ],
)
def test_durations_have_at_most_two_units(number: float, text: str) -> None:
    assert numbers.seconds(number) == text


@pytest.mark.parametrize(
    ("difference", "share", "decimals", "text"),
    [
        (0.0212, False, None, "+0.021"),
        (-0.0131, False, 2, "−0.01"),
        (0.0004, False, None, "0"),
        (-0.004, False, 2, "0"),
        (0.183, False, None, "+0.183"),
        (-0.65, False, 2, "−0.65"),
        (12.34, False, None, "+12.3"),
        (1234.0, False, None, "+1,234"),
        (0.05, True, None, "+5pt"),
        (-0.02, True, None, "−2pt"),
        (0.004, True, None, "0"),
        (0.0, False, None, "0"),
    ],
)
def test_changes_carry_a_sign(difference: float, share: bool, decimals: int | None, text: str) -> None:
    assert numbers.change(difference, share=share, decimals=decimals) == text


def test_parts_of_a_whole_are_ratios_or_sentences() -> None:
    assert numbers.ratio(3, 8) == "3/8"
    assert numbers.part_of(0, 640) == "0 of 640"
    assert numbers.part_of(1920, 1920) == "1,920 of 1,920"
    assert numbers.ratio(None, 8) == "?/8"


def test_a_span_of_one_step_is_that_step() -> None:
    assert numbers.span(69, 87) == "69–87"
    assert numbers.span(52, 52) == "52"


@pytest.mark.parametrize(
    "write", [numbers.share, numbers.value, numbers.count, numbers.seconds, numbers.change, numbers.setting]
)
def test_unknown_is_a_question_mark_and_infinity_is_said(write) -> None:
    assert write(None) == "?"
    assert write(math.nan) == "?"
    assert write(math.inf) == "not finite"
    assert write(-math.inf) == "not finite"


@given(ANY_FLOAT)
def test_every_number_can_be_written(number: float) -> None:
    for write in (numbers.share, numbers.value, numbers.count, numbers.seconds, numbers.change):
        text = write(number)
        assert text
        assert "-" not in text.replace("e-", "")  # a minus is a minus sign


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_value_is_read_back_within_its_last_digit(number: float) -> None:
    text = numbers.value(number).replace(",", "").replace("k", "e3").replace("M", "e6")
    assert float(text) == pytest.approx(number, rel=0.06 if number < 1e-3 or number >= 1e5 else 0.006)


@given(st.floats(min_value=1e-9, max_value=1 - 1e-9))
def test_a_share_in_between_is_never_written_as_none_or_all(fraction: float) -> None:
    assert numbers.share(fraction) not in {"0%", "100%"}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0812, "0.081 s"),
        (40, "40 s"),
        (61, "61 s"),
        (89, "89 s"),
        (999, "999 s"),
        (1234, "20.6 m"),
        (2.5 * 3600, "2.5 h"),
        (-75, "−75 s"),
        (None, "?"),
    ],
)
def test_the_time_of_a_step_is_written_so_that_two_of_them_can_be_told_apart(
    number: float | None, text: str
) -> None:
    assert numbers.pace(number) == text
