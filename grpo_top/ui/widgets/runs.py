"""Rows of (text, role) runs: their width, and how they are cut, filled and put side by side."""

from __future__ import annotations

from functools import lru_cache
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
    before: Sequence[Run], after: Sequence[Run], width: int, near: int = 8
) -> list[tuple[int, int]]:
    """Start and length of the cells that differ between two rows; spans nearer than `near` cells are one."""
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    begin = width_of(before[:same])
    old, new = _cells(before[same:], width - begin), _cells(after[same:], width - begin)
    if old is None or new is None:
        return [(0, width)]
    spans: list[tuple[int, int]] = []
    for at, (was, is_, was_role, role) in enumerate(zip(old[0], new[0], old[1], new[1], strict=True), begin):
        if was == is_ and (was_role == role or (is_ == " " and _ground(was_role) == _ground(role))):
            continue
        if spans and at - sum(spans[-1]) < near:
            spans[-1] = (spans[-1][0], at + 1 - spans[-1][0])
        else:
            spans.append((at, 1))
    return spans


def _is_blank(text: str, role: str) -> bool:
    return not text.strip(" ") and _has_no_ground(role)


def _has_no_ground(role: str) -> bool:
    """Whether a blank looks the same in this role as in any other such role."""
    return " on " not in role and "reverse" not in role


def _ground(role: str) -> str:
    """What a blank shows of a role."""
    return "" if _has_no_ground(role) else role


def _cells(runs: Sequence[Run], width: int) -> tuple[str, list[str]] | None:
    """Each cell's character and role; None where characters are not one cell each, or are too many."""
    text, roles = "", []
    for part, role in runs:
        if _cells_of(part) != len(part):
            return None
        text += part
        roles += [role] * len(part)
    if len(text) > width:
        return None
    blank = width - len(text)
    return text + " " * blank, roles + [""] * blank
