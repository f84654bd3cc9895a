"""A page of headings and texts of any length, of which only the rows that are seen are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from grpo_top.ui.rollouts.wrap import Line, Wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.rollouts.marks import Marker, Spans
    from grpo_top.ui.widgets.runs import Row
    from grpo_top.ui.widgets.strips import Run


class Paint(Protocol):
    """How the parts of a document are drawn."""

    def parts(self, turn: int | None, start: int, end: int, role: str) -> list[tuple[int, int, str]]:
        """A passage's line from offset to offset in parts, each with its role."""
        ...

    def row(self, turn: int | None, row: Row, width: int, *, heading: bool) -> Row:
        """A whole row of a turn."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Rows that are there as they are."""

    rows: tuple[Row, ...]
    turn: int | None = None
    """The turn that they belong to."""
    heading: bool = False
    """They are the turn's heading: its first cell is kept for a mark."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A raw text to be wrapped, with a bar at its left."""

    text: str
    bar: Run
    turn: int | None = None
    role: str = "text"
    indent: int = 0
    """Cells between the bar's blank and the text."""
    said: bool = False
    """It is what its turn says, and not the arguments of a call."""


class Place(NamedTuple):
    """A row of a document."""

    piece: int
    at: int
    """Index of the row of a `Fixed`; offset of the line of a `Passage`."""


class Document:
    """Pieces one under another, wrapped to a width."""

    def __init__(self, pieces: Sequence[Fixed | Passage], width: int, markers: Sequence[Marker] = ()) -> None:
        self._markers = markers
        self._marks: dict[int, list[Spans]] = {}
        self.pieces = [piece for piece in pieces if not isinstance(piece, Fixed) or piece.rows]
        self.width = width
        self._wrapped: dict[int, Wrapped] = {}

    @property
    def size(self) -> int:
        """Characters of its passages."""
        return sum(len(piece.text) for piece in self.pieces if isinstance(piece, Passage))

    @property
    def first(self) -> Place:
        """The first row."""
        return Place(0, 0)

    @property
    def last(self) -> Place:
        """The last row."""
        return self._end_of(len(self.pieces) - 1) if self.pieces else self.first

    def after(self, place: Place) -> Place | None:
        """The next row; None after the last."""
        if place.piece >= len(self.pieces):
            return None
        piece = self.pieces[place.piece]
        if isinstance(piece, Fixed):
            if place.at + 1 < len(piece.rows):
                return Place(place.piece, place.at + 1)
        else:
            wrapped = self.wrapped(place.piece)
            following = wrapped.after(wrapped.at(place.at))
            if following is not None:
                return Place(place.piece, following.start)
        return Place(place.piece + 1, 0) if place.piece + 1 < len(self.pieces) else None

    def before(self, place: Place) -> Place | None:
        """The row before; None before the first."""
        if place.piece >= len(self.pieces):
            return None
        piece = self.pieces[place.piece]
        if isinstance(piece, Fixed):
            if place.at > 0:
                return Place(place.piece, place.at - 1)
        else:
            wrapped = self.wrapped(place.piece)
            earlier = wrapped.before(wrapped.at(place.at))
            if earlier is not None:
                return Place(place.piece, earlier.start)
        return self._end_of(place.piece - 1) if place.piece > 0 else None

    def moved(self, place: Place, by: int) -> Place:
        """So many rows further down (or up), as far as there are any."""
        for _ in range(abs(by)):
            further = self.after(place) if by > 0 else self.before(place)
            if further is None:
                break
            place = further
        return place

    def places(self, top: Place, count: int) -> list[Place]:
        """At most so many rows from `top` on."""
        found: list[Place] = []
        place: Place | None = top if self.pieces else None
        while place is not None and len(found) < count:
            found.append(place)
            place = self.after(place)
        return found

    def height(self, most: int) -> int:
        """How many rows it has; counted up to `most`."""
        return len(self.places(self.first, most))

    def find(self, turn: int, offset: int = 0) -> Place | None:
        """The row on which an offset of a turn's text lies; its heading where it has no text."""
        heading: Place | None = None
        for number, piece in enumerate(self.pieces):
            if piece.turn != turn:
                continue
            if isinstance(piece, Passage):
                return Place(number, self.wrapped(number).at(offset).start)
            heading = heading or Place(number, 0)
        return heading

    def line(self, place: Place) -> Line:
        """The line of a passage's row."""
        return self.wrapped(place.piece).at(place.at)

    def marks(self, number: int) -> list[Spans]:
        """What is marked in a piece: in a passage's text, or in a row that stands alone."""
        known = self._marks.get(number)
        if known is None:
            found = (marker(number, self.pieces[number]) for marker in self._markers)
            known = self._marks[number] = [spans for spans in found if spans is not None]
        return known

    def mark(self, markers: Sequence[Marker]) -> None:
        """Mark other parts."""
        self._markers, self._marks = markers, {}

    def wrapped(self, number: int) -> Wrapped:
        """The wrapped text of a passage."""
        known = self._wrapped.get(number)
        if known is None:
            piece = self.pieces[number]
            text, indent = (piece.text, piece.indent) if isinstance(piece, Passage) else ("", 0)
            known = self._wrapped[number] = Wrapped(text, max(1, self.width - 3 - indent))
        return known

    def row(self, place: Place, paint: Paint | None = None) -> Row:
        """A row, as `paint` has it."""
        piece = self.pieces[place.piece]
        if isinstance(piece, Fixed):
            row = piece.rows[place.at]
            for spans in self.marks(place.piece):
                row = spans.over_row(row) if len(piece.rows) == 1 else row
        else:
            wrapped, line = self.wrapped(place.piece), self.line(place)
            parts = [(*line, piece.role)] if paint is None else paint.parts(piece.turn, *line, piece.role)
            for spans in self.marks(place.piece):
                parts = spans.over(parts)
            texts = [(wrapped.shown(start, end), role) for start, end, role in parts if end > start]
            row = [(" ", ""), piece.bar, (" " * (1 + piece.indent), ""), *texts]
        if paint is None:
            return row
        return paint.row(piece.turn, row, self.width, heading=isinstance(piece, Fixed) and piece.heading)

    def _end_of(self, number: int) -> Place:
        piece = self.pieces[number]
        if isinstance(piece, Fixed):
            return Place(number, len(piece.rows) - 1)
        return Place(number, self.wrapped(number).last.start)
