"""Texts of any length: wrapped where they are looked at, and always safe to show."""

from __future__ import annotations

import time
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from grpo_top.ui.rollouts.document import Document, Fixed, Passage, Place
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.rollouts.wrap import Line, Wrapped
from grpo_top.ui.widgets.wrapped_text import WrappedText

BAR = ("▏", "border")
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(" \n\t\r\x1b\u202e日e\u0301x")), max_size=300)
LONG = "a word and another, " * 500_000  # 10 MB


def down(wrapped: Wrapped) -> list[Line]:
    found, line = [], wrapped.at(0)
    while line is not None:
        found.append(line)
        line = wrapped.after(line)
    return found


def up(wrapped: Wrapped) -> list[Line]:
    found, line = [], wrapped.last
    while line is not None:
        found.append(line)
        line = wrapped.before(line)
    return found[::-1]


def rows(text: str, width: int) -> list[str]:
    wrapped = Wrapped(text, width)
    return [wrapped.shown(*line) for line in down(wrapped)]


def test_lines_break_at_blanks_and_only_too_long_words_within():
    assert rows("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert rows("incomprehensibilities ok", 10) == ["incomprehe", "nsibilitie", "s ok"]


def test_newlines_and_indents_stay():
    assert rows("a\n\n  b\n", 10) == ["a", "", "  b", ""]


def test_wide_characters_count_two_cells():
    assert rows("日本語のテキスト", 8) == ["日本語の", "テキスト"]


def test_tabs_are_four_blanks():
    assert rows("a\tb", 10) == ["a    b"]


def test_a_carriage_return_is_shown_as_a_symbol():
    assert rows("one\r\ntwo", 10) == ["one␍", "two"]


def test_an_empty_text_is_one_empty_line():
    assert rows("", 10) == [""]


@given(TEXTS, st.integers(1, 30))
def test_going_down_and_going_up_meet_the_same_lines(text: str, width: int) -> None:
    wrapped = Wrapped(text, width)
    assert down(wrapped) == up(wrapped)


@given(TEXTS, st.integers(10, 30))
def test_no_line_is_wider_than_its_width_and_none_holds_what_a_terminal_acts_on(
    text: str, width: int
) -> None:
    for line in rows(text, width):
        assert cell_len(line) <= width
        assert not {character for character in line if unicodedata.category(character) in {"Cc", "Cf", "Cs"}}


@given(TEXTS, st.integers(1, 30))
def test_nothing_but_blanks_at_line_ends_and_newlines_is_left_out(text: str, width: int) -> None:
    kept = "".join(text[line.start : line.end] for line in down(Wrapped(text, width)))
    assert kept.translate({32: None, 9: None}) == text.translate({32: None, 9: None, 10: None})


@given(TEXTS, st.integers(1, 30), st.data())
def test_every_offset_lies_on_the_line_that_holds_it(text: str, width: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    line = Wrapped(text, width).at(offset)
    assert line.start <= offset
    assert line in down(Wrapped(text, width))


def test_a_paragraph_longer_than_a_block_is_the_same_from_both_ends():
    wrapped = Wrapped("word " * 3000 + "x" * 9000, 40)
    assert down(wrapped) == up(wrapped)


def test_ten_megabytes_open_within_a_tenth_of_a_second_at_either_end():
    for text in (LONG, LONG.replace("another,", "another\n"), LONG.replace("word", "wörd"), "x" * len(LONG)):
        begun = time.perf_counter()
        document = Document([Passage(text, BAR, 0)], 100)
        first = [document.row(place) for place in document.places(document.first, 40)]
        last = [document.row(place) for place in document.places(document.moved(document.last, -39), 40)]
        assert time.perf_counter() - begun < 0.1
        assert len(first) == len(last) == 40


def test_a_document_goes_from_piece_to_piece_and_back():
    document = Document(
        [Fixed(([("head", "dim")],)), Passage("one two", BAR, 0), Fixed(([("end", "dim")],))], 7
    )
    places = document.places(document.first, 10)
    assert [place.piece for place in places] == [0, 1, 1, 2]
    back = [document.last]
    while (before := document.before(back[-1])) is not None:
        back.append(before)
    assert back[::-1] == places
    assert document.find(0, 5) == Place(1, 4)


class OneText(App[None]):
    def compose(self) -> ComposeResult:
        yield WrappedText()


async def test_a_page_scrolls_to_its_end_and_no_further() -> None:
    async with OneText().run_test(size=(30, 12)) as pilot:
        text = pilot.app.query_one(WrappedText)
        text.open(lambda width: [Passage("\n".join(f"line {number}" for number in range(30)), BAR, 0)])
        text.show(Frame(), None)
        await pilot.pause()
        assert "line 0" in text.render_line(1).text
        text.scroll(1000)
        assert "line 29" in text.render_line(10).text
        assert "line 20" in text.render_line(1).text
        assert text.more() == (True, False)
        text.scroll(-1)
        assert text.more() == (True, True)


async def test_a_page_that_is_wrapped_anew_stays_at_the_same_text() -> None:
    async with OneText().run_test(size=(60, 12)) as pilot:
        text = pilot.app.query_one(WrappedText)
        text.open(
            lambda width: [Passage("\n".join(f"{number} {'word ' * 12}" for number in range(40)), BAR, 0)]
        )
        text.show(Frame(), None)
        text.reveal(0, 0)
        text.scroll(30)
        await pilot.pause()
        before = text.render_line(1).text.split()[1]
        await pilot.resize_terminal(30, 12)
        await pilot.pause()
        assert text.render_line(1).text.split()[1] == before
