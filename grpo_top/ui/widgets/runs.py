"""Rows of (text, role) runs: their width, and how they are cut, filled and put side by side."""

from __future__ import annotations

from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_top.ui.glyphs import UNICODE
from grpo_top.ui.widgets.strips import fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]


def width_of(runs: Iterable[Run]) -> int:
    """Cells that runs take."""
    return sum([_cells_of(text) for text, _ in runs])


_cells_of = lru_cache(maxsize=1 << 14)(cell_len)


def cut(runs: Sequence[Run], width: int, ellipsis: str = UNICODE.ellipsis) -> Row:
    """Runs in `width` cells at most, the last one ending in an ellipsis where something is cut."""
    if width_of(runs) <= width:
        return [run for run in runs if run[0]]
    kept: Row = []
    room = width
    for text, role in runs:
        size = _cells_of(text)
        if size < room:
            kept.append((text, role))
            room -= size
            continue
        if room > 0:
            kept.append((fit(text + ellipsis if size == room else text, room, ellipsis=ellipsis), role))
        break
    return kept


def filled(runs: Sequence[Run], width: int, ellipsis: str = UNICODE.ellipsis) -> Row:
    """Runs in exactly `width` cells."""
    room = width - width_of(runs)
    if room < 0:
        runs = cut(runs, width, ellipsis)
        room = width - width_of(runs)
    return [*runs, (" " * room, "")] if room else list(runs)


def ends(left: Sequence[Run], right: Sequence[Run], width: int, ellipsis: str = UNICODE.ellipsis) -> Row:
    """Runs at both ends of `width` cells, a blank between them at least; the left is cut first."""
    kept = cut(right, width, ellipsis)
    used = width_of(kept)
    room = width - used - (1 if used else 0)
    return [*filled(left, max(room, 0), ellipsis), *([(" ", "")] if used and room >= 0 else []), *kept]


def merged(runs: Iterable[Run]) -> Row:
    """The same cells in fewer runs: neighbours of one role together, blanks with the run before or after them."""
    row: Row = []
    for text, role in runs:
        if not text:
            continue
        if row and (row[-1][1] == role or (_is_blank(text, role) and _has_no_ground(row[-1][1]))):
            row[-1] = (row[-1][0] + text, row[-1][1])
        elif row and _is_blank(*row[-1]) and _has_no_ground(role):
            row[-1] = (row[-1][0] + text, role)
        else:
            row.append((text, role))
    return row


def changed_spans(
    before: Sequence[Run], after: Sequence[Run], width: int, near: int = 5
) -> list[tuple[int, int]]:
    """Start and length of the cells that differ between two rows; spans nearer than `near` cells are one.

    To go on in the same row takes a terminal four bytes.
    """
    most = min(len(before), len(after))
    same = 0
    while same < most and before[same] == after[same]:
        same += 1
    begin = width_of(before[:same])
    old, new = _cells(before[same:]), _cells(after[same:])
    if old is None or new is None or max(len(old[0]), len(new[0])) > width - begin:
        return [(0, width)]
    spans: list[tuple[int, int]] = []
    for at, (was, was_role, is_, role) in enumerate(zip_longest(*old, *new, fillvalue=" "), begin):
        if was == is_ and (was_role == role or (is_ == " " and _ground(was_role) == _ground(role))):
            continue
        if spans and at - sum(spans[-1]) < near:
            spans[-1] = (spans[-1][0], at + 1 - spans[-1][0])
        else:
            spans.append((at, 1))
    return spans


def part(runs: Iterable[Run], first: int, last: int) -> Row:
    """The cells of a row from `first` to the one before `last`, where characters are one cell each; blanks after it."""
    kept: Row = []
    at = 0
    for text, role in runs:
        end = at + _cells_of(text)
        if end > first:
            if at >= last:
                break
            kept.append((text[max(first - at, 0) : last - at], role))
        at = end
    if at < last:
        kept.append((" " * (last - max(at, first)), ""))
    return kept


def _is_blank(text: str, role: str) -> bool:
    return not text.strip(" ") and _has_no_ground(role)


def _has_no_ground(role: str) -> bool:
    """Whether a blank looks the same in this role as in any other such role."""
    return " on " not in role and "reverse" not in role


class _Signs(dict[str, str]):
    """A sign for each role, so that the roles of a row's cells are a text as well; a blank is the base style."""

    def __init__(self) -> None:
        super().__init__({"": " "})
        self.grounds = {" ": ""}
        """What a blank shows of the role of each sign."""

    def __missing__(self, role: str) -> str:
        sign = self[role] = chr(ord("!") + len(self))
        self.grounds[sign] = "" if _has_no_ground(role) else role
        return sign


_signs = _Signs()
_ground = _signs.grounds.__getitem__
_OFTEN = (
    "".join(map(chr, (*range(0x20, 0x7F), *range(0x2500, 0x25A0), *range(0x2800, 0x2900)))) + "●○◆△▲✖▸·×σΔ−…›"
)
_is_narrow = frozenset(sign for sign in _OFTEN if cell_len(sign) == 1).issuperset
"""Whether a text's characters are one cell each, as far as is seen at once."""


def _cells(runs: Sequence[Run]) -> tuple[str, str] | None:
    """Each cell's character and the sign of its role; None where characters are not one cell each."""
    text = "".join([part for part, _ in runs])
    if not (_is_narrow(text) or all(_cells_of(part) == len(part) for part, _ in runs)):
        return None
    return text, "".join([_signs[role] * len(part) for part, role in runs])
