"""Browsing, turns, playing, differences and loops, without a screen."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_screens import read, recorded, row_of

from grpo_top.records import Message, Rollout
from grpo_top.snapshot import Gone
from grpo_top.text import ends_in_loop
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.rollouts.browse import GROUPS, ROLLOUTS, STEPS, Browse
from grpo_top.ui.rollouts.difference import difference
from grpo_top.ui.rollouts.fact_parts import ordinal
from grpo_top.ui.rollouts.facts import packed
from grpo_top.ui.rollouts.filters import parse
from grpo_top.ui.rollouts.frame import Frame, Shape
from grpo_top.ui.rollouts.loops import loop_of
from grpo_top.ui.rollouts.playing import Playing, playing
from grpo_top.ui.rollouts.replay_text import sizes
from grpo_top.ui.rollouts.subject import Subject
from grpo_top.ui.rollouts.texts import Texts, glance
from grpo_top.ui.rollouts.timeline import Length, time_rows
from grpo_top.ui.rollouts.turns import Call, Turn, turns_of
from grpo_top.ui.widgets.runs import width_of

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return recorded(tmp_path_factory.mktemp("cold"), "sampler_cold", 60)


def said(text: str, number: int | None = 1) -> Turn:
    return Turn("policy", text, number)


# ---- browsing


def test_a_selection_stays_on_its_group_when_newer_steps_come(cold: Snapshot, tmp_path: Path) -> None:
    browse = Browse(recorded(tmp_path, "sampler_cold", 55))
    browse.deeper()
    browse.move(2)
    key = browse.group_key
    browse.take(cold)
    assert browse.group_key == key
    assert key is not None
    assert key.step == 55


def test_one_follows_the_newest_step_again_at_the_top(cold: Snapshot, tmp_path: Path) -> None:
    browse = Browse(recorded(tmp_path, "sampler_cold", 55))
    browse.move(3)
    browse.move(-3)
    browse.take(cold)
    assert browse.scope == {60}


def test_columns_end_at_both_sides(cold: Snapshot) -> None:
    browse = Browse(cold)
    assert not browse.back()
    assert browse.deeper()
    assert browse.deeper()
    assert not browse.deeper()
    assert browse.column == ROLLOUTS
    assert browse.back()
    assert browse.column == GROUPS


def test_a_filter_that_leaves_nothing_leaves_empty_lists(cold: Snapshot) -> None:
    browse = Browse(cold)
    browse.narrow(parse("reward>100"))
    assert not len(browse.steps)
    assert browse.row is None
    for act in (
        browse.mark,
        browse.deeper,
        lambda: browse.move(1),
        lambda: browse.flagged(1),
        browse.mark_all,
    ):
        act()
    assert browse.walk(10) == ()


def test_evidence_opens_at_its_groups_and_at_its_own_rollouts(cold: Snapshot) -> None:
    row = row_of(cold, 40, "40t-1", 3)
    browse = Browse(cold, (row,))
    assert browse.column == GROUPS
    assert browse.scope == {40}
    browse.deeper()
    assert browse.row == row


def test_an_empty_run_can_be_browsed(tmp_path: Path) -> None:
    browse = Browse(read(tmp_path, [{"kind": "run", "schema": "grpo-top/1", "run": "r"}]))
    browse.move(1)
    assert browse.column == STEPS
    assert browse.group_key is None


# ---- texts


def test_a_text_is_wanted_once_and_forgotten_last() -> None:
    texts = Texts(glance, 2)
    assert texts.get(1) is None
    assert texts.get(1) is None
    assert texts.take_wanted() == [1]
    assert texts.take_wanted() == []
    found: list[tuple[int, object]] = []
    texts.read([1, 2, 3], lambda row: Rollout(1, "g", 1.0, completion=f"text {row}"), found.extend)
    texts.keep(found)  # type: ignore[arg-type]
    assert texts.get(1) is None
    kept = texts.get(3)
    assert kept is not None
    assert kept.completion == "text 3"


def test_a_glance_keeps_the_beginning_of_a_long_text_alone() -> None:
    seen = glance(Rollout(1, "g", 1.0, prompt="p" * 10**6, completion="c" * 10**6))
    assert len(seen.prompt) == len(seen.completion) == 4000
    assert glance(Gone("away")).gone == "away"


# ---- turns


def test_a_prompt_and_a_completion_are_two_turns() -> None:
    turns = turns_of(Rollout(1, "g", 1.0, prompt="2+2", completion="4"))
    assert [(turn.who, turn.text, turn.number) for turn in turns] == [
        ("user", "2+2", None),
        ("policy", "4", 1),
    ]


def test_a_tools_answer_knows_the_call_that_it_answers() -> None:
    def call(name: str) -> dict[str, object]:
        return {"id": f"id-{name}", "function": {"name": name, "arguments": "{}"}}

    turns = turns_of(
        Rollout(
            1,
            "g",
            1.0,
            messages=[
                Message("system", "s"),
                Message("user", "u"),
                Message("assistant", "", [call("a"), call("b")]),
                Message("tool", "1"),
                Message("tool", "2"),
                Message("assistant", "done"),
            ],
        )
    )
    assert [turn.number for turn in turns] == [None, None, 1, 2, 3, 4]
    assert [turn.answers.name for turn in turns if turn.answers] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ('{"a": 9, "b": 20}', "multiply(9, 20)"),
        ({"a": 9, "b": [1]}, "multiply(9, [1])"),
        ('{"a": 9, "b":', "multiply: invalid JSON"),
        ("", "multiply()"),
        ("[1, 2]", "multiply([1, 2])"),
        (None, "multiply()"),
    ],
)
def test_a_call_in_one_line(arguments: object, line: str) -> None:
    for raw in (
        {"function": {"name": "multiply", "arguments": arguments}},
        {"name": "multiply", "arguments": arguments},
    ):
        turns = turns_of(Rollout(1, "g", 1.0, messages=[Message("assistant", "", [raw])]))
        assert turns[0].calls[0].in_one_line() == line


def test_broken_arguments_say_where_they_break() -> None:
    def problem(arguments: str) -> str:
        raw = {"function": {"name": "f", "arguments": arguments}}
        return turns_of(Rollout(1, "g", 1.0, messages=[Message("assistant", "", [raw])]))[0].calls[0].problem

    assert problem('{"a": 9, "b":') == "the arguments are not valid JSON: they end at character 13"
    assert problem('{"a": x}').endswith("at character 7")
    assert problem('{"a": 1}') == ""
    assert problem("1" * 10_000) == "the arguments are not JSON that can be read"


# ---- playing


def test_one_text_of_the_policy_is_played_by_words() -> None:
    position = playing([Turn("user", "2+2"), said("<answer>31</answer>")])
    assert not position.by_turns
    assert position.at_end
    words = []
    position = position.to_start()
    while not position.at_end:
        position = position.step(1)
        words.append(position.text[slice(*position.current)] if not position.at_end else "")
    assert words == ["<", "answer", ">", "31", "</", "answer", ""]


@given(st.text(max_size=200))
def test_words_on_and_words_back_meet_at_the_same_places(text: str) -> None:
    position = playing([said(text)]).to_start()
    places = [position.played]
    while not position.at_end:
        position = position.step(1)
        places.append(position.played)
    back = [position.played]
    while position.played > 0:
        position = position.step(-1)
        back.append(position.played)
    assert places == sorted(set(places)) or text == ""
    assert back[::-1] == places


def test_a_long_text_takes_about_a_minute_at_speed_1() -> None:
    position = playing([said("a word and another, " * 500_000)]).to_start().at_speed(1).toggled()
    ticks = 0
    while position.running:
        position = position.tick()
        ticks += 1
    assert 300 < ticks < 900


def test_several_turns_are_played_one_after_another() -> None:
    position = playing([Turn("user", "u"), said("a", 1), Turn("tool", "t", 2), said("b", 3)])
    assert position.by_turns
    position = position.to_start().at_speed(5).toggled()
    seen = []
    for _ in range(8):
        position = position.tick()
        seen.append(position.turn)
    assert seen == [0, 1, 1, 2, 2, 3, 3, 3]
    assert not position.running


def test_what_has_no_text_cannot_be_played() -> None:
    assert not playing([]).toggled().running
    assert playing([]).step(1).step(-1).tick().at_end


# ---- the time bar


@given(
    st.integers(0, 400),
    st.one_of(st.none(), st.integers(0, 10**6)),
    st.one_of(st.none(), st.integers(1, 10**6)),
    st.integers(1, 200),
    st.one_of(st.none(), st.floats(0, 1)),
)
def test_a_time_bar_is_as_wide_as_it_was_asked_for(
    played: int, tokens: int | None, budget: int | None, width: int, loop: float | None
) -> None:
    position = Playing((said("word " * 80),), 0, played, by_turns=False)
    length = Length(tokens, budget, "length", truncated=True, loops={} if loop is None else {0: loop})
    for row in time_rows(position, length, width, 2, UNICODE):
        assert width_of(row) == width


@given(st.lists(st.text(max_size=40), max_size=30), st.integers(1, 200))
def test_a_time_bar_of_turns_too(texts: list[str], width: int) -> None:
    turns = tuple(
        Turn("policy" if number % 2 else "tool", text, number + 1) for number, text in enumerate(texts)
    )
    position = Playing(turns, max(0, len(turns) - 1), 0, by_turns=True)
    for row in time_rows(position, Length(), width, 2, ASCII):
        assert width_of(row) == width


# ---- differences


def test_a_word_that_was_exchanged_differs_in_its_own_characters_alone() -> None:
    found = difference("<answer>31</answer>", "<answer>41</answer>")
    assert [piece.text for piece in found.mine if piece.differs] == ["3"]
    assert [piece.text for piece in found.theirs if piece.differs] == ["4"]
    assert found.differing == 1


def test_equal_texts_do_not_differ() -> None:
    assert difference("a b", "a b").same
    assert not difference("a b", "a b c").same


@given(st.text(max_size=120), st.text(max_size=120))
def test_pieces_make_the_texts(mine: str, theirs: str) -> None:
    found = difference(mine, theirs)
    assert "".join(piece.text for piece in found.mine) == mine
    assert "".join(piece.text for piece in found.theirs) == theirs
    assert found.same == (mine == theirs)


# ---- loops


@given(st.text("abc ", max_size=30), st.text("abcd ", min_size=1, max_size=12), st.integers(0, 12))
def test_a_loop_begins_where_its_span_begins_to_repeat(start: str, span: str, times: int) -> None:
    text = start + span * times
    loop = loop_of(text)
    assert (loop is not None) == ends_in_loop(text)
    if loop is not None:
        tail = text[loop.start :]
        assert any(tail[period:] == tail[:-period] for period in range(1, len(tail) // 3 + 1))


def test_a_single_character_loops_too() -> None:
    assert loop_of("so " + "!" * 40) == (3, 1, 43)
    assert loop_of("no loop here") is None


# ---- the subject


def test_a_subject_knows_since_when_its_sampler_runs_as_it_does(cold: Snapshot) -> None:
    subject = Subject(cold, row_of(cold, 60, "60t-0", 0))
    assert subject.since("temperature") == 51
    assert subject.since("top_p") == 1
    assert subject.since("min_p") is None


def test_a_subject_is_held_against_the_best_and_the_best_against_the_worst(cold: Snapshot) -> None:
    subject = Subject(cold, row_of(cold, 1, "1t-0", 0))
    best = subject.best()
    assert best is not None
    assert Subject(cold, best).reward == np.nanmax(subject.rewards)
    worst = Subject(cold, best).best()
    assert worst is not None
    assert Subject(cold, worst).reward == np.nanmin(subject.rewards)


def test_ranks_are_said_in_words() -> None:
    assert [ordinal(rank, 100) for rank in (1, 2, 3, 4, 11, 12, 13, 21, 100)] == [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "11th",
        "12th",
        "13th",
        "21st",
        "last",
    ]


# ---- frames and room


@given(
    st.integers(0, 60),
    st.integers(0, 12),
    st.sampled_from(Shape),
    st.booleans(),
    st.text(string.printable[:95], max_size=30),
)
def test_a_frame_is_exactly_as_large_as_it_was_asked_for(
    width: int, height: int, shape: Shape, focused: bool, title: str
) -> None:
    frame = Frame([(title, "text")], [(title, "dim")], [(title, "dim")], focused, shape)
    for glyphs in (UNICODE, ASCII):
        rows = frame.around([[("row", "text")]] * 20, width, height, glyphs)
        assert not rows or len(rows) == max(height, frame.rows)
        assert all(width_of(row) == width for row in rows)


@given(
    st.integers(20, 300),
    st.integers(4, 100),
    st.integers(0, 100),
    st.integers(3, 40),
    st.integers(0, 14),
    st.integers(0, 30),
)
def test_the_replay_shares_out_the_rows_that_there_are(
    width: int, height: int, wanted: int, siblings: int, against: int, groups: int
) -> None:
    shared = sizes(width, height, wanted, siblings, against, groups)
    assert shared.top >= 1
    assert shared.top + shared.siblings + shared.against + shared.groups + shared.strip <= height


def test_a_long_text_takes_the_rows_of_the_steps_groups_first() -> None:
    short = sizes(160, 39, 10, 11, 7, 9)
    long = sizes(160, 39, 100, 11, 7, 9)
    assert (short.top, short.siblings, short.against, short.groups) == (12, 11, 7, 9)
    assert long.groups == 0
    assert long.top > short.top


def test_sections_lose_their_blank_rows_before_their_facts() -> None:
    sections = [[[("a", "text")]], [[("b", "text")]], [[("c", "text")]]]
    assert [len(row) for row in packed(sections, 9)] == [1, 0, 1, 0, 1]
    assert len(packed(sections, 3)) == 3
    assert len(packed(sections, 2)) == 2


def test_a_call_without_a_problem_shows_its_values() -> None:
    assert Call("f", '{"x": "y"}').in_one_line() == "f(y)"
