"""Search inside one page: every place where a text stands, and the way from one to the next."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers
from grpo_top.ui.rollouts.document import Fixed, Passage, Place
from grpo_top.ui.rollouts.marks import Span, Spans, row_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_top.ui.rollouts.document import Document
    from grpo_top.ui.rollouts.marks import Marker

MOST = 10_000
"""Hits that are kept; a text that holds more is searched no further."""
_HIT, _CURRENT = "text reverse", "accent bold reverse"


class Hit(NamedTuple):
    """Where the text stands that was searched for."""

    piece: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Inside:
    """A text that is searched for in a page, and its hits in the page's order."""

    text: str
    hits: tuple[Hit, ...] = ()
    at: int = -1
    """The hit that one is at; -1: none yet."""

    @property
    def current(self) -> Hit | None:
        """The hit that one is at."""
        return self.hits[self.at] if 0 <= self.at < len(self.hits) else None

    def words(self) -> str:
        """`3 of 17`."""
        if not self.hits:
            return "not found"
        more = "+" if len(self.hits) == MOST else ""
        return f"{numbers.count(self.at + 1)} of {numbers.count(len(self.hits))}{more}"

    def next(self, by: int) -> Inside:
        """The hit after or before, round and round."""
        return Inside(self.text, self.hits, (self.at + by) % len(self.hits)) if self.hits else self

    def from_place(self, piece: int, offset: int) -> Inside:
        """At the first hit that does not lie before a place, else at the first of all."""
        at = bisect_left(self.hits, (piece, offset, -1))
        return Inside(self.text, self.hits, at % len(self.hits)) if self.hits else self


def search(document: Document, text: str) -> Inside:
    """Every hit in a page. Capitals count where the text holds any, else they do not."""
    if not text:
        return Inside("")
    flags = re.NOFLAG if text != text.lower() else re.IGNORECASE
    pattern = re.compile(re.escape(text), flags)
    found: list[Hit] = []
    for hit in _hits(document, pattern):
        found.append(hit)
        if len(found) == MOST:
            break
    return Inside(text, tuple(found))


def hit_marker(inside: Inside) -> Marker:
    """Shows the hits, the current one above the others."""

    def marker(number: int, _: Fixed | Passage) -> Spans | None:
        first = bisect_left(inside.hits, (number, -1, -1))
        last = bisect_right(inside.hits, (number + 1, -1, -1))
        hits = inside.hits[first:last]
        if not hits:
            return None
        return Spans(Span(hit.start, hit.end, _CURRENT if hit == inside.current else _HIT) for hit in hits)

    return marker


def place_of(document: Document, hit: Hit) -> Place:
    """The row on which a hit begins."""
    if isinstance(document.pieces[hit.piece], Passage):
        return Place(hit.piece, document.wrapped(hit.piece).at(hit.start).start)
    return Place(hit.piece, 0)


def _hits(document: Document, pattern: re.Pattern[str]) -> Iterator[Hit]:
    for number, piece in enumerate(document.pieces):
        if isinstance(piece, Passage):
            text = piece.text
        elif len(piece.rows) == 1 and not piece.heading:
            text = row_text(piece.rows[0])
        else:
            continue
        for found in pattern.finditer(text):
            yield Hit(number, *found.span())
