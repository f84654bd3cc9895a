"""Parts of a text that are drawn in a role of their own: what was searched for, loops, tokens, differences."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from grpo_top.ui.rollouts.document import Fixed, Passage
    from grpo_top.ui.widgets.runs import Row

    Marker = Callable[[int, Fixed | Passage], "Spans | None"]
    """What to mark in a piece of a page, by its number; None: nothing."""
    Part = tuple[int, int, str]
    """First and last offset, and the role."""


class Span(NamedTuple):
    """From one offset of a text to another."""

    start: int
    end: int
    role: str


class Spans:
    """Spans of one text that do not overlap, found by where one looks."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = sorted(span for span in spans if span.end > span.start)
        self._starts = [span.start for span in self._spans]

    def within(self, start: int, end: int) -> list[Span]:
        """The spans that reach into the text from `start` to `end`."""
        at = max(0, bisect_right(self._starts, start) - 1)
        found = []
        for span in self._spans[at:]:
            if span.start >= end:
                break
            if span.end > start:
                found.append(span)
        return found

    def over(self, parts: Sequence[Part]) -> list[Part]:
        """The parts of a line, in the spans' roles where they lie."""
        drawn: list[Part] = []
        for start, end, role in parts:
            at = start
            for span in self.within(start, end):
                first, last = max(span.start, start), min(span.end, end)
                drawn += [(at, first, role), (first, last, span.role)]
                at = last
            drawn.append((at, end, role))
        return [part for part in drawn if part[1] > part[0]]

    def over_row(self, row: Row) -> Row:
        """The runs of a row, in the spans' roles where they lie; offsets count the row's characters."""
        offsets, at = [], 0
        for text, role in row:
            offsets.append((at, at + len(text), role))
            at += len(text)
        whole = "".join(text for text, _ in row)
        return [(whole[start:end], role) for start, end, role in self.over(offsets)]


def row_text(row: Row) -> str:
    """What a row says."""
    return "".join(text for text, _ in row)
