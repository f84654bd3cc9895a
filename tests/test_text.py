"""What is measured on a completion, and that nothing a model wrote can act on a terminal or hide in it."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grpo_top.text import cells, ends_in_loop, first_line, gibberish, normalised, safe, text_hash

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)
PROSE = (
    "To find the number of apples we add those in the first basket, 17, to those in the second, 25. "
    "That gives 42. Checking: 42 - 25 = 17, as it should be. The answer is \\boxed{42}.\n"
)


# ---- hash


@given(ANY_TEXT)
def test_the_hash_ignores_how_white_space_is_written(text: str) -> None:
    assert text_hash(text) == text_hash("  " + "\n".join(text.split()) + "\t") == text_hash(normalised(text))


@given(ANY_TEXT)
def test_the_hash_fits_a_signed_64_bit_column(text: str) -> None:
    assert -(1 << 63) <= text_hash(text) < 1 << 63


def test_the_hash_is_the_same_in_every_process() -> None:
    code = "from grpo_top.text import text_hash; print(text_hash('a\\n b'))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) == text_hash("a b")


def test_different_texts_have_different_hashes() -> None:
    texts = [f"{number} apples" for number in range(10_000)]
    assert len(set(map(text_hash, texts))) == 10_000
    assert text_hash("a b") != text_hash("ab")


def test_normalised_folds_white_space() -> None:
    assert normalised("  a\n\n b\t\u2003c ") == "a b c"


# ---- loops


def loops_by_definition(text: str) -> bool:
    """The rule as it is written, for every period, and for digits."""
    if len(text) >= 128 and text[-128:].isdecimal():
        return True
    for period in range(1, len(text) // 3 + 1):
        length = period
        while length < len(text) and text[-1 - length] == text[period - 1 - length]:
            length += 1
        repeats = length // period
        if repeats >= 12 if period == 1 else repeats >= 3 and repeats * period >= 24:
            return True
    return False


FEW_LETTERS = st.text("ab", max_size=60)
LOOPING = st.builds(
    lambda head, span, repeats, cut, tail: head + span * repeats + span[:cut] + tail,
    FEW_LETTERS,
    st.text("abc", min_size=1, max_size=20),
    st.integers(1, 15),
    st.integers(0, 20),
    st.sampled_from(["", "", "", "a", "xy"]),
)


@given(
    st.one_of(FEW_LETTERS, LOOPING, st.builds(lambda text, times: text * times, LOOPING, st.integers(1, 4)))
)
@example("ab" * 12)
@example("ab" * 11 + "a")
@example("a" * 12)
@example("a" * 11)
@example("abcde" * 5)
@example("abcdefgh" * 3)
@example("abcdefg" * 3)
@example("x" + "abcde" * 4 + "abcd")
def test_a_loop_is_found_exactly_where_the_definition_says_so(text: str) -> None:
    assert ends_in_loop(text) == loops_by_definition(text)


def test_loops_are_found_at_every_period_and_phase() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        period = chance.randint(2, 700)
        span = "".join(chance.choices("abcdefgh ", k=period))
        repeats = max(3, -(-24 // period)) + chance.randint(0, 2)
        looping = PROSE + span * repeats + span[: chance.randrange(period)]
        assert ends_in_loop(looping), (period, repeats)
        assert not ends_in_loop(looping + PROSE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "ha ha ha",
        PROSE,
        PROSE * 2,
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12",
        f"2 to the 300 is {2**300}",
        "| - | - | - |",
        "Yes. " * 4,
    ],
)
def test_text_that_does_not_loop_is_not_called_a_loop(text: str) -> None:
    assert not ends_in_loop(text)


@pytest.mark.parametrize(
    "text",
    [
        PROSE * 3,
        "wait, " * 4,
        "I think so. " * 50,
        "." * 12,
        "答案是四十二。" * 9,
        "\n" * 40,
        f"The answer is {7**160}",
    ],
)
def test_text_that_loops_is_called_a_loop(text: str) -> None:
    assert ends_in_loop(text)


def fibonacci_word(size: int) -> str:
    before, word = "a", "ab"
    while len(word) < size:
        before, word = word, word + before
    return word[:size]


def test_even_texts_made_to_be_slow_take_milliseconds() -> None:
    near = ("abcdefgh" * 1000 + "z") * 30
    words = [
        fibonacci_word(1_000_000),
        fibonacci_word(1_000_000)[::-1],
        ("ab" * 8 + "c") * 2 + near,
        near + "ab" * 11,
    ]
    words += ["".join("ab" * 8 + chr(33 + n % 90) * 17 for n in range(20_000)) + "ab" * 8]
    for word in words:
        begun = time.perf_counter()
        ends_in_loop(word)
        assert time.perf_counter() - begun < 0.5


# ---- gibberish


@pytest.mark.parametrize(
    "text",
    [
        "\ufffd" * 30,
        "ok \ufffd\ufffd\ufffd\ufffd",
        "\x00\x01\x02\x03 a",
        "<pad>" * 20,
        "yes<|endoftext|><|endoftext|>",
        "<|im_end|>\n<|im_end|>\n",
        "[PAD] [PAD] [PAD]",
        "\udc80\udc81 \ud800",
        "\x85\x9b\x90\x91x",
        "<｜end▁of▁sentence｜><｜end▁of▁sentence｜>",
    ],
)
def test_replacement_control_and_padding_are_gibberish(text: str) -> None:
    assert gibberish(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        PROSE,
        "42<|im_end|>",
        "<|endoftext|>",
        "答案是四十二。",
        "Ответ: 42",
        "def f(x):\n\treturn [x] * 2\n",
        "<b>bold</b> <s>struck</s> and more words than tags",
        "a \ufffd in a longer text",
        "\x1b[1mbold words\x1b[0m",
    ],
)
def test_ordinary_text_is_not_gibberish(text: str) -> None:
    assert not gibberish(text)


# ---- safe

HOSTILE = [
    "\x1b[2J\x1b[H\x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJmIC8=\x07",
    "\x9b31mred\x9d0;title\x9c",
    "\r\x08\x08\x08overwritten\x7f",
    "user\u202egpj.exe\u202c \u2066isolated\u2069 \u200e\u200f\u061c",
    "zero\u200bwidth\u200c\u200d\u2060\ufeff\u00ad",
    "line\u2028paragraph\u2029next\x85\x0b\x0c",
    "".join(map(chr, range(0xE0000, 0xE0080))),
    "vari\ufe0fation \ufe00 \U000e0100 \u180b \u180e",
    "\ud800 \udfff \udc80",
    "\ue000 \uf8ff \U000f0000 \U0010fffd",
    "\uffff \ufdd0 \U0001ffff \u0378",
    "\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5",
    "👨\u200d👩\u200d👧 ❤\ufe0f",
    "[bold]markup[/bold] [@click=app.quit]x[/]",
    "\x00" * 5 + "a\tb\tc\n\td",
]


def is_safe(text: str, *, newlines: bool) -> bool:
    allowed = {"\n"} if newlines else set()
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return all(character in allowed or unicodedata.category(character) not in hidden for character in text)


@given(st.one_of(ANY_TEXT, st.sampled_from(HOSTILE)), st.booleans(), st.integers(0, 9))
def test_nothing_that_acts_or_hides_is_left_and_twice_is_as_once(text: str, newlines: bool, tab: int) -> None:
    shown = safe(text, newlines=newlines, tab=tab)
    assert is_safe(shown, newlines=newlines)
    assert safe(shown, newlines=newlines, tab=tab) == shown
    shown.encode("utf-8")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("newlines", [True, False])
def test_the_hostile_corpus_is_harmless(text: str, newlines: bool) -> None:
    assert is_safe(safe(text, newlines=newlines), newlines=newlines)
    assert is_safe(first_line(text, 40), newlines=False)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31m", "␛[31m"),
        ("\x00\x07\x7f", "␀␇␡"),
        ("a\r\nb", "a␍␊b"),
        ("\x9b", "⟨U+009B⟩"),
        ("\u202e", "⟨U+202E⟩"),
        ("❤\ufe0f", "❤⟨U+FE0F⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\udc80", "⟨U+DC80⟩"),
        ("[bold]x[/]", "[bold]x[/]"),
        ("日本語 é ñ\u00a0x", "日本語 é ñ\u00a0x"),
        ("a\tb", "a   b"),
        ("abcd\te", "abcd    e"),
    ],
)
def test_each_kind_of_character_has_one_way_to_be_shown(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_newlines_stay_where_they_are_asked_for() -> None:
    assert safe("a\nb\n\tc", newlines=True) == "a\nb\n    c"
    assert safe("a\r\nb", newlines=True) == "a␍\nb"


def test_tabs_can_be_shown_instead_of_expanded() -> None:
    assert safe("a\tb", tab=0) == "a␉b"


def test_plain_text_comes_back_as_the_same_object() -> None:
    assert safe(PROSE, newlines=True) is PROSE


# ---- previews


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("abc\n\n", 3, "abc"),
        ("a\nb", 9, "a…"),
        ("\n\n  a  \n", 9, "a"),
        ("a\rb", 9, "a…"),
        ("你好世界", 8, "你好世界"),
        ("你好世界", 7, "你好世…"),
        ("你好世界", 6, "你好…"),
        ("\x1b[31mred", 6, "␛[31m…"),
        ("", 5, ""),
        (" \n\t", 5, ""),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("e\u0301" * 4, 4, "e\u0301" * 4),
    ],
)
def test_a_preview_is_the_first_line_that_is_not_blank(text: str, width: int, shown: str) -> None:
    assert first_line(text, width) == shown


@given(ANY_TEXT, st.integers(0, 50))
def test_a_preview_is_one_safe_line_that_fits(text: str, width: int) -> None:
    shown = first_line(text, width)
    assert is_safe(shown, newlines=False)
    assert cells(shown) <= width


def test_a_preview_of_a_huge_text_is_quick() -> None:
    text = "word " * 2_000_000
    begun = time.perf_counter()
    for _ in range(100):
        first_line(text, 80)
    assert time.perf_counter() - begun < 0.5


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("你好", 4), ("e\u0301", 1), ("한글", 4), ("ｱ", 1), ("Ａ", 2), ("😀", 2)],
)
def test_cells_are_counted_as_terminals_count_them(text: str, width: int) -> None:
    assert cells(text) == width


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_the_cells_of_parts_add_up(text: str) -> None:
    shown = safe(text)
    assert cells(shown) == sum(cells(character) for character in shown)


def test_the_measures_are_quick_enough_for_every_rollout() -> None:
    words = random.Random(0).choices(PROSE.split(), k=340)
    text = " ".join(words)
    begun = time.perf_counter()
    for _ in range(1000):
        text_hash(text)
        ends_in_loop(text)
        gibberish(text)
    assert time.perf_counter() - begun < 0.5  # 15 µs each on an idle machine; the rest is for a busy one
