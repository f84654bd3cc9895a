"""All completions of a group as one list: what they share at the beginning is folded, what follows stands aligned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.text import first_line, safe
from grpo_top.ui.rollouts.difference import common
from grpo_top.ui.rollouts.document import Fixed, Passage
from grpo_top.ui.rollouts.layout import cell
from grpo_top.ui.rollouts.turns import POLICY
from grpo_top.ui.rollouts.wrap import Wrapped
from grpo_top.ui.widgets.virtual_list import cursor_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.turns import Turn
    from grpo_top.ui.widgets.runs import Row

LONGEST = 20_000
"""Characters of a completion that are kept for the list: some screens full."""
_LINES = 6
"""Rows that one completion takes at most."""
_BEFORE = 24
"""Characters of what is shared that are shown again before what differs."""


def spoken(turns: Sequence[Turn]) -> str:
    """What the policy said and called, and what its tools answered, as one text."""
    lines = []
    for turn in turns:
        if turn.number is None:
            continue
        if turn.text:
            lines.append(turn.text if turn.who == POLICY else f"{turn.who}: {turn.text}")
        lines += [f"{call.name}({call.arguments})" for call in turn.calls]
    return "\n".join(lines)[:LONGEST]


def aligned_page(
    subject: Subject, said: Callable[[int], str | None], width: int, glyphs: Glyphs
) -> list[Fixed | Passage]:
    """The list.

    Args:
        subject: the rollout that one came from; its group is listed.
        said: a rollout's text (see `spoken`) by its row; None: not read yet.
        width: cells of the page.
        glyphs: the marks to draw with.
    """
    texts = {row: said(row) for row in subject.rows}
    known = [text for text in texts.values() if text is not None]
    if len(known) < len(texts):
        return [Fixed(([(f" reading {numbers.part_of(len(known), len(texts))}", "dim")],))]
    shared = _shared(known)
    pieces: list[Fixed | Passage] = [Fixed((_shared_row(shared, len(known), width, glyphs),)), Fixed(([],))]
    lead = _Lead(subject, width, glyphs)
    pieces.append(Fixed((lead.header(),)))
    first: dict[str, int] = {}
    for place, (row, text) in enumerate(texts.items()):
        number = int(subject.snapshot.rollouts.columns["index"][row])
        alike = first.setdefault(text or "", number)
        rest = (text or "")[len(shared) :]
        body: list[Row] = (
            [[(f"the same as #{numbers.count(alike)}", "dim")]]
            if alike != number
            else _lines(rest, lead.room, glyphs)
            if rest
            else [[("ends here" if shared else "says nothing", "info")]]
        )
        for at, line in enumerate(body):
            pieces.append(Fixed(([*(lead.of(place) if not at else lead.blank()), *line],)))
    return pieces


class _Lead:
    """What stands before each text: as wide for each, so that the texts are aligned."""

    def __init__(self, subject: Subject, width: int, glyphs: Glyphs) -> None:
        self._subject = subject
        self._glyphs = glyphs
        self._wide = width >= 60
        self._cells = 35 if self._wide else 14
        self.room = max(8, width - self._cells - 2)

    def header(self) -> Row:
        words = f"{'#':>5}{'reward':>8}"
        if self._wide:
            words += f"{'adv':>7}{'tok':>6}  {'end':<6}"
        return [(f"{words}  what follows", "dim")]

    def of(self, place: int) -> Row:
        subject, glyphs = self._subject, self._glyphs
        columns, row = subject.snapshot.rollouts.columns, subject.rows[place]
        here = place == subject.place
        reward, advantage = float(subject.rewards[place]), float(subject.advantages[place])
        lead: Row = [
            cursor_mark(here, glyphs),
            cell(numbers.count(int(columns["index"][row])), 4, "text bold" if here else "dim", right=True),
            cell(glyphs.plain(numbers.fixed(reward, 3)), 8, "text bold" if here else "text", right=True),
        ]
        if self._wide:
            tokens, finish = int(columns["completion_tokens"][row]), int(columns["finish"][row])
            end = "" if finish < 0 else subject.snapshot.rollouts.names["finish"][finish]
            lead += [
                cell(
                    glyphs.plain(numbers.change(advantage, decimals=2)),
                    7,
                    "strip" if advantage > 1e-9 else "text",
                    right=True,
                ),
                cell(numbers.UNKNOWN if tokens < 0 else numbers.count(tokens), 6, "dim", right=True),
                ("  ", ""),
                cell(first_line(end, 6), 6, "warn" if int(columns["truncated"][row]) == 1 else "dim"),
            ]
        return [*lead, (" ", ""), (glyphs.turn, "series1" if here else "border")]

    def blank(self) -> Row:
        return [(" " * self._cells, ""), (self._glyphs.turn, "border")]


def _shared(texts: Sequence[str]) -> str:
    """What all texts begin with, up to the end of a word; nothing where one text stands alone."""
    if len(texts) < 2:
        return ""
    first = min(texts)
    shared = first[: common(first, max(texts))]
    while shared and any(_goes_on(text, len(shared)) for text in texts):
        shared = shared[:-1]
    return shared


def _goes_on(text: str, at: int) -> bool:
    """Whether a cut would fall inside a word."""
    return at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


def _shared_row(shared: str, count: int, width: int, glyphs: Glyphs) -> Row:
    if not shared:
        return [(f" the {numbers.count(count)} completions share no beginning", "dim")]
    size = f"{numbers.count(len(shared))} character{'s' if len(shared) != 1 else ''}"
    head: Row = [(f" all {numbers.count(count)} begin with the same {size}", "dim"), ("  ", "")]
    room = max(8, width - sum(len(text) for text, _ in head) - 2)
    shown = safe(shared, tab=1)
    if len(shown) > room:
        shown = f"{shown[: room - _BEFORE - 3]} {glyphs.ellipsis} {shown[-_BEFORE:]}"
    return [*head, (shown[:room], "text")]


def _lines(text: str, room: int, glyphs: Glyphs) -> list[Row]:
    lines = Wrapped(text, room).first_lines(_LINES + 1)
    rows: list[Row] = [[(line, "text")] for line in lines[:_LINES]]
    if len(lines) > _LINES:
        used = sum(len(line) for line in lines[:_LINES])
        more = f" {glyphs.ellipsis} {numbers.count(max(1, len(text) - used))} more"
        rows[-1] = [(lines[_LINES - 1][: max(1, room - len(more))], "text"), (more, "faint")]
    return rows
