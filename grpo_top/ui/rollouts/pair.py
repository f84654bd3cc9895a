"""Two rollouts of a group side by side, turn beside turn, with what differs between them marked."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.text import first_line, safe
from grpo_top.ui.rollouts.difference import difference
from grpo_top.ui.rollouts.document import Fixed, Passage
from grpo_top.ui.rollouts.marks import Span, Spans
from grpo_top.ui.rollouts.wrap import Wrapped
from grpo_top.ui.widgets.runs import cut, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.difference import Piece
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.rollouts.turns import Turn
    from grpo_top.ui.widgets.runs import Row

_MOST = 400
"""Rows of one turn; the rest of it is read in the replay."""


class PairPage:
    """The page of two rollouts, compared once and laid out at any width."""

    def __init__(self, sides: tuple[Subject, Subject], wholes: tuple[Whole, Whole]) -> None:
        self._subjects = sides
        turns = [[turn for turn in whole.turns if turn.number is not None] for whole in wholes]
        self._turns = list(zip_longest(*turns))
        self._marks = [
            (
                None
                if left is None or right is None
                else [_spans(pieces, role) for pieces, role in _sides(_full(left), _full(right))]
            )
            for left, right in self._turns
        ]
        self._asked = [turn for turn in wholes[0].turns if turn.number is None]

    def pieces(self, width: int, glyphs: Glyphs) -> list[Fixed | Passage]:
        """Heads, what was asked, and each turn of both beside each other."""
        half = max(8, (width - 3) // 2)
        best, worst = (
            _head(subject, word, role, half, glyphs)
            for subject, word, role in zip(
                self._subjects, ("best", "worst"), ("ok bold", "fail bold"), strict=True
            )
        )
        pieces: list[Fixed | Passage] = [Fixed((_beside(best, worst, half, glyphs),)), Fixed(([],))]
        for turn in self._asked:
            pieces += [
                Fixed(([(f" {safe(turn.who)}", "dim")],)),
                Passage(turn.text, (glyphs.turn, "border")),
                Fixed(([],)),
            ]
        for (left, right), marks in zip(self._turns, self._marks, strict=True):
            columns = [
                _column(turn, None if marks is None else marks[side], half, glyphs)
                for side, turn in enumerate((left, right))
            ]
            for one, other in zip_longest(*columns, fillvalue=[]):
                pieces.append(Fixed((_beside(one, other, half, glyphs),)))
            pieces.append(Fixed(([],)))
        return pieces


def _full(turn: Turn) -> str:
    """A turn's text and calls."""
    return "\n".join(
        part for part in (turn.text, *(f"{call.name}({call.arguments})" for call in turn.calls)) if part
    )


def _sides(left: str, right: str) -> list[tuple[Sequence[Piece], str]]:
    found = difference(left, right)
    return [(found.mine, "ok bold"), (found.theirs, "fail bold")]


def _spans(pieces: Sequence[Piece], role: str) -> Spans:
    spans, at = [], 0
    for piece in pieces:
        if piece.differs:
            spans.append(Span(at, at + len(piece.text), role))
        at += len(piece.text)
    return Spans(spans)


def _head(subject: Subject, word: str, role: str, half: int, glyphs: Glyphs) -> Row:
    reward = glyphs.plain(numbers.fixed(subject.reward, 3))
    tokens = subject.whole("completion_tokens")
    said = "" if tokens is None else f"   {numbers.count(tokens)} tokens"
    end = subject.name("finish") or subject.name("termination")
    row: Row = [
        (f" {word}", role),
        (f" #{numbers.count(subject.index)}", "text bold"),
        (f"   {reward}", "text bold"),
        (said, "dim"),
        ("" if end is None else f"   {first_line(end, 16)}", "dim"),
    ]
    return cut(row, half, glyphs.ellipsis)


def _column(turn: Turn | None, spans: Spans | None, half: int, glyphs: Glyphs) -> list[Row]:
    if turn is None:
        return [[(" no such turn", "info")]]
    bar = "series1" if turn.policy else "border"
    rows: list[Row] = [[(f" {turn.number} {safe(turn.who)}", "series1 bold" if turn.policy else "text bold")]]
    text = _full(turn)
    wrapped = Wrapped(text, max(1, half - 4))
    line = wrapped.at(0)
    while line is not None and len(rows) <= _MOST:
        parts = [(line.start, line.end, "text")]
        for start, end, role in parts if spans is None else spans.over(parts):
            last = [(wrapped.shown(start, end), role)]
            if start == line.start:
                rows.append([(" ", ""), (glyphs.turn, bar), (" ", "")])
            rows[-1] += last
        if line.start == line.end:
            rows.append([(" ", ""), (glyphs.turn, bar)])
        following = wrapped.after(line)
        if following is None:
            return rows
        line = following
    rows.append([(f" {glyphs.ellipsis} more; read it in its own replay", "faint")])
    return rows


def _beside(left: Row, right: Row, half: int, glyphs: Glyphs) -> Row:
    return [
        *filled(left, half, glyphs.ellipsis),
        (f" {glyphs.box.vertical} ", "border"),
        *cut(right, half, glyphs.ellipsis),
    ]
