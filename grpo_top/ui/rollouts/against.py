"""A rollout held against another: the best of its siblings, any of them, or what should have come out the same."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len

from grpo_top import numbers
from grpo_top.text import first_line, safe
from grpo_top.ui.rollouts.difference import Difference, difference
from grpo_top.ui.rollouts.families import family_means
from grpo_top.ui.rollouts.layout import cell, joined
from grpo_top.ui.rollouts.turns import POLICY
from grpo_top.ui.widgets.runs import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.difference import Piece
    from grpo_top.ui.rollouts.families import Means
    from grpo_top.ui.rollouts.opponents import Opponent
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

_BEFORE = 20
"""Characters that are shown before the first difference, where the texts begin alike."""


class Against:
    """Two rollouts, compared once and drawn at any width.

    Args:
        view: the run.
        subject: the one.
        whole: its text.
        other: the other one.
        other_whole: its text.
        opponent: what the other one is.
    """

    def __init__(
        self,
        view: View,
        subject: Subject,
        whole: Whole,
        other: Subject,
        other_whole: Whole,
        opponent: Opponent,
    ) -> None:
        self.opponent = opponent
        self._view = view
        self._subject = subject
        self._other = other
        self.better = _merit(subject, other) > subject.merit
        """Whether the other is the best one; else it is the worst, and the rollout itself the best."""
        self._parts = _parts(whole, other_whole)
        """(label, difference): the completions; or the call, the tool's answer and the last words."""

    @property
    def title(self) -> str:
        """`against the best sibling, #2`."""
        return f"against {self.opponent.title}"

    @property
    def part(self) -> str:
        """Where the texts part: `they part at character 17`; empty where they are the same or say the same."""
        label, found = next(((label, one) for label, one in self._parts if not one.same), ("", None))
        if found is None:
            return ""
        at = next(iter(found.mine), None)
        shared = len(at.text) if at is not None and not at.differs else 0
        return f"they part {f'in the {label} ' if label else ''}at character {numbers.count(shared + 1)}"

    def rows(self, width: int, most: int, glyphs: Glyphs) -> list[Row]:
        """Both texts in at most `most` rows each, the part around the first difference."""
        rows: list[Row] = []
        for subject, mine in ((self._subject, True), (self._other, False)):
            role = (
                ("fail bold" if self.better else "ok bold")
                if mine
                else ("ok bold" if self.better else "fail bold")
            )
            name: Row = [
                (" ", ""),
                (f"#{numbers.count(subject.index)}", "text bold"),
                (f" {glyphs.plain(numbers.fixed(subject.reward, 3 if width > 60 else 2))}", "dim"),
            ]
            indent = sum(cell_len(text) for text, _ in name) + 2
            for number, (label, found) in enumerate(self._parts):
                lead: Row = name if not number else [(" " * (indent - 2), "")]
                room = max(8, width - indent - (7 if label else 0) - 1)
                start = _start(found, room)
                pieces = found.mine if mine else found.theirs
                for line_number, line in enumerate(
                    _lines(pieces, start, room, most if not label else 1, role, glyphs)
                ):
                    head: Row = [*(lead if not line_number else [(" " * (indent - 2), "")]), ("  ", "")]
                    if label:
                        head.append(cell(label if not line_number else "", 7, "dim"))
                    rows.append([*head, *line])
        return rows

    def dock(self, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """Both texts and the summary, in a place of their own."""
        summary = self.summary(width, glyphs)
        room = max(1, height - len(summary))
        rows = self.rows(width, max(1, room // 2), glyphs)
        return [*rows, *([[]] if len(rows) < room else []), *summary]

    def dock_height(self, width: int, glyphs: Glyphs) -> int:
        """Rows that the dock wants: at most three for a text, a blank one, and the summary."""
        return len(self.rows(width, 3, glyphs)) + 1 + len(self.summary(width, glyphs))

    def summary(self, width: int, glyphs: Glyphs) -> list[Row]:
        """How much differs, in characters and in numbers; and how alike the group's texts are."""
        return [cut(self._counts(glyphs), width), *self._variety(width, glyphs)]

    def brief(self) -> Row:
        """How much differs, in characters, and where the texts part that should be the same."""
        return [(" ", ""), *joined([self._characters(), self._parting()])]

    def _characters(self) -> Row:
        if all(found.same for _, found in self._parts):
            return [("the texts are the same", "warn")]
        of = sum(len(piece.text) for _, found in self._parts for piece in found.mine)
        differing = sum(found.differing for _, found in self._parts)
        whole = all(found.whole for _, found in self._parts)
        verb = "differs" if differing == 1 else "differ"
        if not differing:
            return [("the other says more", "text")]
        said = (
            f"{numbers.part_of(differing, of)} characters {verb}"
            if whole
            else "they differ in more than the part that is shown"
        )
        return [(said, "text")]

    def _counts(self, glyphs: Glyphs) -> Row:
        def pair(label: str, mine: str, theirs: str) -> Row:
            sign = "=" if mine == theirs else glyphs.arrow
            return [(f"{label} ", "dim"), (mine, "text"), (f" {sign} ", "dim"), (theirs, "text")]

        mine, theirs = self._subject.components, self._other.components
        parts = [
            pair(
                safe(name),
                glyphs.plain(numbers.fixed(value, 3)),
                glyphs.plain(numbers.fixed(theirs.get(name), 3)),
            )
            for name, value in mine.items()
        ]
        tokens, other_tokens = (each.whole("completion_tokens") for each in (self._subject, self._other))
        if tokens is not None and other_tokens is not None:
            parts.append(pair("tokens", numbers.count(tokens), numbers.count(other_tokens)))
        return [(" ", ""), *joined([self._characters(), self._parting(), *parts])]

    def _parting(self) -> Row:
        return [(self.part, "text")] if self.opponent.counterpart and self.part else []

    def _variety(self, width: int, glyphs: Glyphs) -> list[Row]:
        """`4 texts of 8 at temperature 0.15; carry groups held 6.2 of 8 at 1.00, steps 31–50`."""
        subject = self._subject
        if subject.texts is None or subject.batch is None or subject.evaluation:
            return []
        temperature = subject.sampling.get("temperature")
        at = f" at temperature {safe(numbers.setting(temperature))}" if temperature is not None else ""
        size = numbers.count(len(subject.rows))
        said = f" {numbers.count(subject.texts)} text{'s' if subject.texts != 1 else ''} of {size}{at}"
        held, family = self._held, first_line(subject.name("family") or "", 16)
        if held is not None and held.texts is not None:
            steps = glyphs.plain(held.steps)
            then = "" if held.temperature is None else f" at {numbers.fixed(held.temperature, 1)}"
            said += f"; {family} groups held {numbers.fixed(held.texts, 1)} of {size}{then}, steps {steps}"
        return [cut([(said, "dim")], width)]

    @cached_property
    def _held(self) -> Means | None:
        """Its family over the steps that the late ones are compared with; None where that is unknown."""
        subject = self._subject
        family = subject.name("family")
        if family is None or subject.batch is None:
            return None
        first = subject.batch.rows[subject.batch.group == subject.group][0]
        groups = np.flatnonzero(subject.snapshot.groups.columns["first_row"] == first)
        return family_means(self._view, int(groups[0]), first_line(family, 16)) if len(groups) else None


def _merit(subject: Subject, other: Subject) -> float:
    """The other's reward, or what its group is ordered by where it is a sibling."""
    rows = subject.rows
    return float(subject.merits[rows.index(other.row)]) if other.row in rows else other.reward


def _parts(mine: Whole, theirs: Whole) -> list[tuple[str, Difference]]:
    calls = [any(turn.calls for turn in whole.turns) for whole in (mine, theirs)]
    if not any(calls):
        return [("", difference(_said(mine), _said(theirs)))]
    return [
        (label, difference(read(mine), read(theirs)))
        for label, read in (("call", _called), ("tool", _answered), ("answer", _last_words))
    ]


def _said(whole: Whole) -> str:
    return "\n".join(turn.text for turn in whole.turns if turn.policy)


def _called(whole: Whole) -> str:
    calls = [call for turn in whole.turns for call in turn.calls]
    return f"{calls[0].name}({calls[0].arguments}{'' if calls[0].problem else ')'}" if calls else "no call"


def _answered(whole: Whole) -> str:
    return next((turn.text for turn in whole.turns if turn.who == "tool"), "")


def _last_words(whole: Whole) -> str:
    return next((turn.text for turn in reversed(whole.turns) if turn.who == POLICY and turn.text), "")


def _start(found: Difference, room: int) -> int:
    """Where both texts are shown from: a little before the first difference where it is far from the beginning."""
    at = 0
    for piece in found.mine:
        if piece.differs:
            break
        at += len(piece.text)
    first = min(at, sum(len(piece.text) for piece in found.theirs))
    return 0 if first < room * 2 // 3 else max(0, first - _BEFORE)


def _lines(pieces: Sequence[Piece], start: int, room: int, most: int, role: str, glyphs: Glyphs) -> list[Row]:
    """The pieces from an offset on, safe to show, in rows of `room` cells; newlines are shown as symbols."""
    lines: list[Row] = [[(glyphs.ellipsis, "faint")]] if start else [[]]
    used = 1 if start else 0
    at = 0
    for piece in pieces:
        raw = piece.text[max(0, start - at) :]
        at += len(piece.text)
        for character in raw[: room * most + 1]:
            shown = safe(character, tab=1)
            width = cell_len(shown)
            if used + width > room:
                if len(lines) == most:
                    lines[-1].append((glyphs.ellipsis, "faint"))
                    return [_joined(line) for line in lines]
                lines.append([])
                used = 0
            lines[-1].append((shown, role if piece.differs else "dim"))
            used += width
    return [_joined(line) for line in lines]


def _joined(line: Row) -> Row:
    row: Row = []
    for text, role in line:
        if row and row[-1][1] == role:
            row[-1] = (row[-1][0] + text, role)
        else:
            row.append((text, role))
    return row
