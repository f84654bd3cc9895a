"""Rows of runs put together: cut, wrapped, set in columns, in tables and in boxes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_top.ui.glyphs import UNICODE, Glyphs
from grpo_top.ui.widgets.runs import cut, ends, filled, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

GAP = 2
"""Blanks between columns of a table."""
CUT = 10
"""Cells that are left of a column of texts that is cut."""


def ruled(left: Sequence[Run], right: Sequence[Run], width: int, sign: Run, ellipsis: str) -> Row:
    """Runs at both ends of `width` cells and a line of `sign`, one cell, between them; the left is cut first."""
    last = cut(right, width, ellipsis)
    first = cut(left, max(width - width_of(last) - 1, 0), ellipsis)
    gap = width - width_of(last) - width_of(first)
    return [run for run in (*first, (sign[0] * gap, sign[1]), *last) if run[0]]


def wrapped(
    text: str, width: int, role: str = "text", *, first: str = "", rest: str | None = None
) -> list[Row]:
    """A text in lines of at most `width` cells; `first` stands before the first line, `rest` before the others.

    A word that is wider than a line is broken, a character never.
    """
    later = " " * cell_len(first) if rest is None else rest
    lines: list[str] = []
    line = ""
    for word in text.split():
        piece = word
        while piece:
            room = max(width - cell_len(later if lines else first), 1)
            joined = f"{line} {piece}" if line else piece
            if cell_len(joined) <= room:
                line, piece = joined, ""
            elif line:
                lines.append(line)
                line = ""
            else:
                fits = _fits(piece, room)
                lines.append(piece[:fits])
                piece = piece[fits:]
    if line:
        lines.append(line)
    return [
        [run for run in ((later if place else first, ""), (line, role)) if run[0]]
        for place, line in enumerate(lines)
    ]


def _fits(word: str, room: int) -> int:
    """How many characters of a word fit into `room` cells; one at least."""
    for count, character in enumerate(word):
        room -= cell_len(character)
        if room < 0:
            return max(count, 1)
    return len(word)


def on_ground(runs: Iterable[Run], ground: str) -> Row:
    """Runs laid on a ground, such as `raised`."""
    return [(text, f"{role or 'text'} on {ground}") for text, role in runs]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    title: str = ""
    right: bool = False
    """Whether its cells end at its right edge."""
    rank: int = 0
    """Columns of the highest rank leave first where there is no room; rank 0 stays."""
    least: int = 0
    """Cells that it takes at least."""
    most: int = 0
    """Cells that it takes at most, where that is not 0."""


def table(
    columns: Sequence[Column], body: Sequence[Sequence[Sequence[Run]]], width: int, glyphs: Glyphs = UNICODE
) -> list[Row]:
    """A table's header and rows, columns as wide as their widest cell; the last one is cut where it must be."""
    if not columns:
        return []
    sizes = [_size(column, [row[index] for row in body], glyphs) for index, column in enumerate(columns)]
    shown = list(range(len(columns)))
    while _least(sizes, shown, columns) > width:
        ranks = [columns[index].rank for index in shown]
        if not any(ranks):
            break
        shown.pop(len(ranks) - 1 - ranks[::-1].index(max(ranks)))
    *others, last = shown
    sizes[last] = max(min(sizes[last], width - sum(sizes[index] + GAP for index in others)), 1)
    header: Sequence[Sequence[Run]] = [[(glyphs.plain(column.title), "dim")] for column in columns]
    rows = []
    for cells in (header, *body) if any(column.title for column in columns) else body:
        row: Row = []
        for place, index in enumerate(shown):
            column, size = columns[index], sizes[index]
            cell = filled(cells[index], min(width_of(cells[index]), size), glyphs.ellipsis)
            blank = " " * (size - width_of(cell))
            row += [(" " * GAP if place else "", "")]
            row += [(blank, ""), *cell] if column.right else [*cell, (blank, "")]
        rows.append(filled([run for run in row if run[0]], width, glyphs.ellipsis))
    return rows


def _least(sizes: Sequence[int], shown: Sequence[int], columns: Sequence[Column]) -> int:
    """Cells that columns take at least: a last one of texts may be cut down to its `least`, the others may not."""
    *others, last = shown
    end = sizes[last] if columns[last].right else max(min(sizes[last], CUT), columns[last].least)
    return sum(sizes[index] + GAP for index in others) + end


def _size(column: Column, cells: Sequence[Sequence[Run]], glyphs: Glyphs) -> int:
    widest = max([cell_len(glyphs.plain(column.title)), column.least, *map(width_of, cells)])
    return min(widest, column.most) if column.most else widest


@dataclass(frozen=True, slots=True)
class Frame:
    """What a box says on its borders."""

    title: Sequence[Run]
    facts: Sequence[Run] = ()
    """At the right of the top border."""
    foot: Sequence[Run] = ()
    """At the left of the bottom border."""
    role: str = "border"
    focused: bool = False


def box(frame: Frame, rows: Sequence[Row], width: int, height: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """Rows in a box of `width` x `height` cells.

    Their first cell is the column of air inside the left border, where ▸ stands; the last one is kept blank.
    """
    if width < 6 or height < 2:
        return [filled([], width) for _ in range(height)]
    sides = glyphs.box_focused if frame.focused else glyphs.box
    role = "accent" if frame.focused and frame.role == "border" else frame.role
    lines = [filled(row, width - 2, glyphs.ellipsis) for row in rows[: height - 2]]
    lines += [[(" " * (width - 2), "")] for _ in range(height - 2 - len(lines))]
    top = _edge(frame.title, frame.facts, width - 4, sides.horizontal, role, glyphs)
    bottom = _edge(frame.foot, (), width - 4, sides.horizontal, role, glyphs)
    return [
        [(sides.top_left, role), *top, (sides.top_right, role)],
        *([(sides.vertical, role), *line, (sides.vertical, role)] for line in lines),
        [(sides.bottom_left, role), *bottom, (sides.bottom_right, role)],
    ]


def aired(rows: Iterable[Row], width: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """Rows for a box that is `width` cells wide: with the blank before them, and cut where the one after them is."""
    return [selectable(row, width, False, glyphs) for row in rows]


def selectable(
    row: Sequence[Run], width: int, chosen: bool, glyphs: Glyphs = UNICODE, mark: bool = True
) -> Row:
    """A row of a list in a box that is `width` cells wide; the chosen one is raised, with ▸ before it."""
    shown = cut(row, width - 4, glyphs.ellipsis)
    if not chosen:
        return [(" ", ""), *shown]
    lead = (glyphs.selected if mark else " ", "accent bold")
    return on_ground(filled([lead, *shown], width - 2, glyphs.ellipsis), "raised")


def _edge(left: Sequence[Run], right: Sequence[Run], inner: int, sign: str, role: str, glyphs: Glyphs) -> Row:
    """A border between its corners: `inner` + 2 cells."""

    def set_in(runs: Sequence[Run]) -> list[Run]:
        return [(" ", ""), *runs, (" ", "")] if runs else []

    middle = ruled(set_in(left), set_in(right), inner, (sign, role), glyphs.ellipsis)
    return [(sign, role), *middle, (sign, role)]


def beside(*blocks: Sequence[Row]) -> list[Row]:
    """Blocks of equal height side by side; each row of a block already has its width."""
    return [[run for row in rows if row for run in row] for rows in zip_longest(*blocks, fillvalue=None)]


def line_of(row: Iterable[Run]) -> str:
    """A row as text without the blanks at its end."""
    return "".join(text for text, _ in row).rstrip()


def scrolled(rows: Sequence[Row], top: int, height: int) -> tuple[int, list[Row], list[Run]]:
    """The first row that can be shown, the rows from there on, and how many are below them as runs for a border."""
    top = max(0, min(top, len(rows) - height))
    below = len(rows) - top - height
    return top, list(rows[top : top + max(height, 0)]), [(f"{below} more", "dim")] if below > 0 else []


def keep_seen(top: int, first: int, last: int, height: int) -> int:
    """The top of a scrolled list from which the rows `first` to `last` are seen, moved as little as can be."""
    if last >= top + height:
        top = last - height + 1
    return max(0, min(top, first))


def path_row(
    path: Sequence[str], width: int, glyphs: Glyphs, words: str = "", right: Sequence[Run] = ()
) -> Row:
    """Where one is: `Monitor › Findings › SAMPLER_DRIFT`, what it asks, if there is room, and how to leave."""
    runs: Row = []
    for place, name in enumerate(path):
        runs += [(f" {glyphs.path} " if place else " ", "faint")]
        runs += [(name, "text bold" if place == len(path) - 1 else "dim")]
    leave: Row = [("esc", "accent bold"), (" back", "dim"), *right, (" ", "")]
    asked: Run = (f"   {words}", "dim")
    if words and width_of([*runs, asked, *leave]) < width:
        runs.append(asked)
    return ends(runs, leave, width, glyphs.ellipsis)
