"""A rollout as a page: who speaks, what is said, what the verifier made of it; painted by how far it is played."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grpo_top import numbers
from grpo_top.records import Message
from grpo_top.text import first_line, safe
from grpo_top.ui.rollouts.document import Fixed, Passage
from grpo_top.ui.rollouts.fact_parts import error_run, parsed_part
from grpo_top.ui.rollouts.layout import joined, on
from grpo_top.ui.widgets.runs import filled, width_of

if TYPE_CHECKING:
    from grpo_top.records import Rollout
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.against import Against
    from grpo_top.ui.rollouts.playing import Playing
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.rollouts.turns import Call, Turn
    from grpo_top.ui.widgets.runs import Row

BLANK = Fixed(([],))


def page(subject: Subject, whole: Whole | None, width: int, glyphs: Glyphs) -> list[Fixed | Passage]:
    """The turns and the verifier's word, or why there are none."""
    if whole is None:
        return [Fixed(([(" reading", "dim")],))]
    if whole.gone:
        said = Passage(whole.gone, (glyphs.turn, "info"), role="info")
        return [
            Fixed(([(" the text is gone", "info bold")],)),
            said,
            BLANK,
            *_verifier(subject, None, width, glyphs),
        ]
    pieces: list[Fixed | Passage] = []
    counted = sum(turn.number is not None for turn in whole.turns) > 1
    for number, turn in enumerate(whole.turns):
        pieces += [*_turn(turn, number, glyphs, counted=counted), BLANK]
    if not whole.turns:
        pieces += [Fixed(([(" the log holds no text of it", "info")],)), BLANK]
    return pieces + _verifier(subject, whole.rollout, width, glyphs)


def unscored_page(whole: Whole, glyphs: Glyphs) -> list[Fixed | Passage]:
    """The turns without anything that the pipeline made of them."""
    if whole.gone:
        return [
            Fixed(([(" the text is gone", "info bold")],)),
            Passage(whole.gone, (glyphs.turn, "info"), role="info"),
        ]
    pieces: list[Fixed | Passage] = []
    counted = sum(turn.number is not None for turn in whole.turns) > 1
    for number, turn in enumerate(whole.turns):
        pieces += [*_turn(replace(turn, reward=None), number, glyphs, counted=counted), BLANK]
    return pieces


def record_text(rollout: Rollout) -> str:
    """The record as it was understood, as JSON; what is unknown is left out."""
    known = {key: _plain(value) for key, value in rollout._asdict().items() if value is not None}
    return json.dumps(known, indent=2, ensure_ascii=False, default=str)


def record_page(text: str, glyphs: Glyphs) -> list[Fixed | Passage]:
    """The record's text."""
    return [Passage(text, (glyphs.turn, "border"))]


class Paint:
    """How each part of a page is drawn, by how far it is played."""

    def __init__(self, playing: Playing, glyphs: Glyphs) -> None:
        self._playing = playing
        self._glyphs = glyphs

    def parts(self, turn: int | None, start: int, end: int, role: str) -> list[tuple[int, int, str]]:
        """A passage's line in parts, each with its role."""
        playing = self._playing
        if turn is None or playing.by_turns or turn != playing.turn:
            return [(start, end, role)]
        current, played = playing.current
        return [
            (start, min(end, max(start, current)), role),
            (max(start, current), min(end, max(start, played)), "accent reverse"),
            (max(start, played), end, "faint"),
        ]

    def row(self, turn: int | None, row: Row, width: int, *, heading: bool) -> Row:
        """A whole row: turns to come are faint, the one that is played lies on a ground of its own."""
        playing = self._playing
        if turn is None or not playing.by_turns:
            return row
        if turn > playing.turn:
            return [(text, "faint") for text, _ in row]
        if turn < playing.turn or playing.at_end:
            return row
        if heading:
            row = [(self._glyphs.selected, "accent bold"), *row[1:]]
        return on(filled(row, width, self._glyphs.ellipsis), "raised")


def _turn(turn: Turn, number: int, glyphs: Glyphs, *, counted: bool) -> list[Fixed | Passage]:
    bar = (
        "series1"
        if turn.policy
        else "warn"
        if turn.answers is not None and turn.answers.problem
        else "border"
    )
    head = "series1 bold" if turn.policy else "text bold" if turn.number is not None else "dim"
    name = safe(turn.who) if turn.number is None or not counted else f"{turn.number} {safe(turn.who)}"
    about: Row = []
    if turn.calls:
        about = [
            ("   ", ""),
            ("tool call" if len(turn.calls) == 1 else f"{len(turn.calls)} tool calls", "dim"),
        ]
    elif turn.answers is not None:
        about = [(f"     {first_line(turn.answers.name, 24)}   {first_line(turn.answers.id, 24)}", "dim")]
    if turn.reward is not None:
        about += [("   reward ", "dim"), (glyphs.plain(numbers.fixed(turn.reward, 3)), "text")]
    pieces: list[Fixed | Passage] = [Fixed(([(" ", ""), (name, head), *about],), number, heading=True)]
    if turn.text or not turn.calls:
        pieces.append(Passage(turn.text, (glyphs.turn, bar), number, said=True))
    for call in turn.calls:
        pieces += _call(call, number, (glyphs.turn, bar), glyphs)
    return pieces


def _call(call: Call, number: int, bar: tuple[str, str], glyphs: Glyphs) -> list[Fixed | Passage]:
    name = first_line(call.name, 40)
    if not call.problem and len(call.arguments) <= 48 and "\n" not in call.arguments:
        row: Row = [
            (" ", ""),
            bar,
            (" ", ""),
            (name, "text bold"),
            ("(", "dim"),
            (safe(call.arguments), "text"),
            (")", "dim"),
        ]
        return [Fixed((row,), number)]
    begin: Row = [(" ", ""), bar, (" ", ""), (name, "text bold"), ("(", "dim")]
    end: Row = [(" ", ""), bar, (" ", ""), (")", "dim")]
    if call.problem:
        end += [("   ", ""), (f"{glyphs.warn} {glyphs.plain(call.problem)}", "warn")]
    return [Fixed((begin,), number), Passage(call.arguments, bar, number, indent=2), Fixed((end,), number)]


def _verifier(subject: Subject, rollout: Rollout | None, width: int, glyphs: Glyphs) -> list[Fixed | Passage]:
    raw = None if rollout is None else rollout.verifier_raw
    error = None if rollout is None else rollout.verifier_error
    if raw is None and error is None and not subject.components:
        return []
    shown: Row = (
        [("not logged", "info")] if raw is None else [(f'"{first_line(raw, max(8, width // 3))}"', "text")]
    )
    if width < 60:
        said = joined([shown, parsed_part(subject), [("error ", "dim"), error_run(subject, 30)]], "  ")
    else:
        parts: list[Row] = [
            [(f"{safe(name)} ", "dim"), (glyphs.plain(numbers.fixed(value, 3)), "text")]
            for name, value in subject.components.items()
        ]
        parts.append([("reward ", "dim"), (glyphs.plain(numbers.fixed(subject.reward, 3)), "text bold")])
        said = [*shown, (f"  {glyphs.arrow}  ", "dim"), *joined(parts)]
        if error is not None:
            said += [("   error ", "dim"), error_run(subject, 40)]
    return [Fixed(([(" verifier", "dim")], [(" ", ""), (glyphs.turn, "border"), (" ", ""), *said])), BLANK]


def _plain(value: Any) -> Any:
    """A field of a record as JSON knows it."""
    if isinstance(value, list | tuple) and any(isinstance(item, Message) for item in value):
        return [{key: part for key, part in item._asdict().items() if part} for item in value]
    return value._asdict() if hasattr(value, "_asdict") else value


def against_section(against: Against, width: int, glyphs: Glyphs) -> list[Fixed | Passage]:
    """The difference as a part of the page, where it has no place of its own."""
    heading: Row = [(f" {against.title}", "dim")]
    if width >= 60:
        heading += [("  ", ""), (glyphs.box.horizontal * (width - width_of(heading) - 3), "border")]
    return [Fixed((heading, *against.rows(width, 3, glyphs), [], against.brief()))]
