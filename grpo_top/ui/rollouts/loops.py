"""Where the loop begins in which a completion ends, and what stands there again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers
from grpo_top.text import ends_in_loop, first_line
from grpo_top.ui.rollouts.document import Fixed, Passage
from grpo_top.ui.rollouts.layout import told
from grpo_top.ui.rollouts.marks import Span, Spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.marks import Marker
    from grpo_top.ui.rollouts.turns import Turn
    from grpo_top.ui.widgets.runs import Row

_TAIL = 20_000
"""Characters at the end among which a loop's span is looked for."""
_NEEDLE = 16
_MARKED = 2_000
"""Repeats that are told apart; what follows them is one more."""
_ROLES = ("warn", "limit")
"""In turn, so that each repeat is seen."""


class Loop(NamedTuple):
    """A span that stands again and again at a text's end."""

    start: int
    period: int
    """Characters of the span."""
    end: int
    """The text's length."""

    @property
    def repeats(self) -> int:
        """How often the span stands there, whole."""
        return (self.end - self.start) // self.period


def loop_of(text: str) -> Loop | None:
    """The loop that a text ends in; None where it ends in none, by `ends_in_loop`."""
    if not ends_in_loop(text):
        return None
    period = 1 if text.endswith(text[-1] * 12) else _period(text[-_TAIL:])
    if period is None:
        return None
    start = len(text) - period
    low, high = 0, start
    while low < high:
        more = (low + high + 1) // 2
        if text[start - more : start] == text[start - more + period : start + period]:
            low = more
        else:
            high = more - 1
    return Loop(start - low, period, len(text))


def loops_of(turns: Sequence[Turn]) -> dict[int, Loop]:
    """The loops that the policy's turns end in, by the turn's index."""
    found = {number: loop_of(turn.text) for number, turn in enumerate(turns) if turn.policy}
    return {number: loop for number, loop in found.items() if loop is not None}


def loop_marker(loops: Mapping[int, Loop]) -> Marker:
    """Marks each repeat of each loop."""

    def marker(_: int, piece: Fixed | Passage) -> Spans | None:
        loop = (
            loops.get(piece.turn)
            if isinstance(piece, Passage) and piece.said and piece.turn is not None
            else None
        )
        if loop is None:
            return None
        starts = [loop.start + number * loop.period for number in range(min(loop.repeats, _MARKED))]
        ends = [*starts[1:], loop.end]
        return Spans(
            Span(start, end, _ROLES[number % 2])
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        )

    return marker


def loop_section(
    loops: Mapping[int, Loop], turns: Sequence[Turn], width: int, glyphs: Glyphs
) -> list[Fixed | Passage]:
    """What the loops are, for the top of a page."""
    if not loops:
        return [Fixed((*told("loops   no turn of the policy ends in one", width, "text"), []))]
    rows: list[Row] = []
    for number, loop in loops.items():
        turn = turns[number]
        where = "" if turn.number is None or len(turns) < 3 else f"turn {turn.number}, "
        span = first_line(turn.text[loop.start : loop.start + loop.period], 32) or "blanks"
        begins = f"from character {numbers.count(loop.start + 1)} of {numbers.count(loop.end)} on"
        rows.append(
            [
                (" loop", "dim"),
                (f"   {numbers.count(loop.repeats)} {glyphs.times} ", "warn bold"),
                (f'"{span}"', "text"),
            ]
        )
        rows += told(f"{where}{begins}", width, "dim")
    return [Fixed((*rows, []))]


def _period(tail: str) -> int | None:
    """The length of the shortest span that stands three times at the end."""
    needle = tail[-_NEEDLE:]
    end = len(tail) - 1
    while (found := tail.rfind(needle, 0, end)) >= 0:
        period = len(tail) - len(needle) - found
        if period * 3 > len(tail):
            return None
        if tail[-3 * period : -period] == tail[-2 * period :]:
            return period
        end = found + len(needle) - 1
    return None
