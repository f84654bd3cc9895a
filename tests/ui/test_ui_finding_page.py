"""What a finding's page is made of: its evidence, texts, rule and layout."""

from __future__ import annotations

from dataclasses import replace

import pytest
from found_by_hand import finding, opened, sampler_cold, shown_by
from hypothesis import given
from hypothesis import strategies as st
from recorded import snapshot
from runs import group, read, run_record, step_record, write_log

from grpo_top.config import Settings
from grpo_top.detectors import ALL, BY_ID
from grpo_top.records import Message, Rollout
from grpo_top.snapshot import Gone, Status
from grpo_top.text import cells, safe
from grpo_top.ui.evidence.attached import evidence_rows
from grpo_top.ui.evidence.finding_page import finding_page, page_rows
from grpo_top.ui.evidence.layout import Column, Frame, box, line_of, scrolled, table, wrapped
from grpo_top.ui.evidence.listing import entries
from grpo_top.ui.evidence.reading import excerpt
from grpo_top.ui.evidence.rules import IN_UNITS_OF_SERIES, rule
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.screens.findings import FindingsScreen
from grpo_top.ui.view import View
from grpo_top.ui.widgets.runs import width_of

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 45)


def unread(row: int) -> None:
    """A text that is not there yet."""


# ---- what is attached


@pytest.mark.parametrize("recording", ["sampler_cold", "verifier_broken", "stale_weights", "truncation"])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_finding_of_the_recordings_has_a_page_within_its_width(recording, glyphs):
    view = View(snapshot(recording))
    for entry in entries(view):
        for width in (36, 76, 120):
            page = finding_page(view, entry, width, unread, glyphs)
            assert page.rows
            for row in page_rows(page, 0, width + 4, glyphs):
                assert width_of(row) <= width + 2
                assert not glyphs.ascii or line_of(row).isascii()


evidence = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["settings", "before", "now", "steps", "since", "reward", "x_frac"])
        | st.text(max_size=9),
        evidence,
        max_size=5,
    ),
    st.integers(10, 120),
)
def test_any_evidence_is_laid_out_and_nothing_of_it_reaches_the_terminal(attached, width):
    rows = evidence_rows(attached, snapshot("healthy"), width, UNICODE)
    for row in rows:
        assert safe(line_of(row)) == line_of(row)
        assert width_of(row) <= width


def test_numbers_before_and_now_that_are_no_series_are_a_table():
    rows = evidence_rows(
        {"before": {"steps": [1, 20], "errors": 0}, "now": {"steps": [21, 40], "errors": 7}},
        snapshot("healthy"),
        76,
        UNICODE,
    )
    assert [line_of(row) for row in rows] == ["               1–20  21–40", "errors            0      7"]


def test_a_setting_that_the_run_record_does_not_name_is_held_against_what_was_before():
    setting = {
        "setting": "top_p",
        "intended": None,
        "before": 1.0,
        "deployed": 0.9,
        "since": 7,
        "samplers": ["gpu\x1b3"],
    }
    rows = evidence_rows({"settings": [setting | {"rollouts": 3, "of": 8}]}, snapshot("healthy"), 76, UNICODE)
    assert [line_of(row) for row in rows][:2] == [
        "setting        before  deployed  since  rollouts",
        "top_p             1.0      0.9       7  3 of 8, gpu␛3",
    ]


async def test_what_a_log_says_is_shown_and_never_obeyed(tmp_path):
    nasty = "[red]\x1b]0;owned\x07\u202e"
    records = [run_record(run=nasty)]
    for step in range(1, 4):
        records += group(step, "g", [0.0, 1.0], family=nasty, prompt=nasty, completion=nasty)
        records.append(step_record(step, reward=0.5))
    write_log(tmp_path / "log.jsonl", records)
    picture = read(tmp_path)
    row = int(picture.groups.columns["first_row"][0])
    found = finding(
        "LOW_DIVERSITY",
        4,
        Status.WARN,
        ((1, 3),),
        summary=nasty,
        evidence={"by": {nasty: 1}, "name": nasty},
        rollouts=(replace(sampler_cold().findings[0].rollouts[0], step=1, row=row),),
        try_next=(nasty,),
    )
    app = shown_by(replace(picture, findings=(found,), first_cause="LOW_DIVERSITY"))
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FindingsScreen())
    assert all(line.isprintable() for line in shown)
    assert sum("[red]␛]0;owned␇⟨U+202E⟩" in line for line in shown) >= 4


# ---- texts


def rollout(**fields) -> Rollout:
    return Rollout(step=1, group="g", reward=0.0, **fields)


def test_the_answer_is_what_the_verifier_read_else_what_the_completion_marks_else_its_last_line():
    assert excerpt(rollout(verifier_raw="42", completion="x")).answer == "42"
    assert excerpt(rollout(completion="so <answer>7</answer> is it\n")).answer == "7"
    assert excerpt(rollout(completion="thus \\boxed{12} holds")).answer == "12"
    assert excerpt(rollout(completion="a\n#### 18\n")).answer == "18"
    assert excerpt(rollout(completion="first\nlast line\n\n")).answer == "last line"
    assert excerpt(rollout(completion="")).answer == ""
    assert excerpt(rollout()).answer is None


def test_a_conversation_has_the_prompt_of_its_user_and_the_answer_of_its_assistant():
    said = excerpt(rollout(messages=[Message("user", "why?"), Message("assistant", "because")]))
    assert (said.prompt, said.answer) == ("why?", "because")


async def test_texts_that_are_gone_say_so_and_the_numbers_stand(tmp_path):
    picture = replace(sampler_cold(), read=lambda row: Gone("rollouts.jsonl: no such file"))
    app = shown_by(picture)
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FindingsScreen())
    line = next(line for line in shown if "text gone" in line)
    assert "▇▇▇▇▇▇▇▇  1/8" in line


async def test_a_window_without_data_says_so(tmp_path):
    app = shown_by(read(tmp_path))
    async with app.run_test(size=MIDDLE) as pilot:
        shown = await opened(pilot, FindingsScreen())
        await pilot.press("down", "enter", "p", "x", "c", "tab", "up")
        await pilot.pause()
    assert "╭─ Findings ─" in shown[3]


# ---- rules


def test_a_rule_in_short_holds_the_numbers_of_its_knobs():
    assert rule(BY_ID["TRUNCATION"], Settings()).startswith(
        "more than 10% of a step's completions are truncated on 5 steps"
    )
    for detector in ALL:
        said = rule(detector, Settings())
        assert not any(f"`{knob.name}`" in said for knob in detector.knobs)


def test_values_are_only_written_in_the_unit_of_a_series_that_the_detector_reads_first():
    assert set(BY_ID) >= IN_UNITS_OF_SERIES
    for id_ in IN_UNITS_OF_SERIES:
        assert any(knob.name == "threshold" for knob in BY_ID[id_].knobs)


# ---- layout


@given(st.text(max_size=200), st.integers(1, 60))
def test_a_wrapped_text_keeps_every_word_and_its_width(text, width):
    rows = wrapped(safe(text), max(width, 2))
    assert "".join(line_of(row) for row in rows).replace(" ", "") == "".join(safe(text).split())
    assert all(cells(line_of(row)) <= max(width, 2) for row in rows)


def test_columns_leave_a_narrow_table_by_rank_and_the_last_one_is_cut():
    columns = [Column("step", right=True), Column("mean", right=True, rank=1), Column("answer", rank=2)]
    body = [[[("7", "text")], [("1.00", "text")], [("a long answer indeed", "text")]]]

    def shown(width: int) -> list[str]:
        return [line_of(row) for row in table(columns, body, width)]

    assert shown(40) == ["step  mean  answer", "   7  1.00  a long answer indeed"]
    assert shown(24) == ["step  mean  answer", "   7  1.00  a long answ…"]
    assert shown(20) == ["step  mean", "   7  1.00"]
    assert shown(8) == ["step", "   7"]


def test_a_box_is_exactly_as_large_as_it_is_asked_to_be():
    frame = Frame([("A title", "text")], [("facts", "dim")], [("foot", "dim")], focused=True)
    for width, height in ((40, 6), (9, 3), (3, 2), (40, 1)):
        rows = box(frame, [[("x" * 80, "text")]], width, height)
        assert [width_of(row) for row in rows] == [width] * height


def test_a_scrolled_list_says_how_much_lies_below():
    rows = [[(str(number), "text")] for number in range(10)]
    assert scrolled(rows, 99, 4) == (6, rows[6:], [])
    assert scrolled(rows, 2, 4) == (2, rows[2:6], [("4 more", "dim")])
