"""Rows of runs put together: cells of a table, meters, parts with gaps, and the ground that a row lies on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.ui.glyphs import UNICODE, Glyphs
from grpo_top.ui.widgets.strips import fit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpo_top.ui.widgets.runs import Row
    from grpo_top.ui.widgets.strips import Run


def cell(
    text: str, width: int, role: str = "text", *, right: bool = False, glyphs: Glyphs = UNICODE
) -> tuple[str, str]:
    """A text as exactly `width` cells of a table."""
    return fit(text, width, right=right, ellipsis=glyphs.ellipsis), role


def on(runs: Iterable[Run], ground: str) -> Row:
    """The runs on a ground, such as `raised`; those that have one keep it."""
    return [(text, role if " on " in role else f"{role or 'text'} on {ground}") for text, role in runs]


def joined(parts: Iterable[Iterable[Run]], gap: str = "   ") -> Row:
    """Parts that are not empty, one after another with blanks between them."""
    row: Row = []
    for part in parts:
        runs = [run for run in part if run[0]]
        if runs and row:
            row.append((gap, ""))
        row += runs
    return row


def told(text: str, width: int, role: str) -> list[Row]:
    """A sentence of the program's own, in as many rows as it takes."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width - 2:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [[(f" {line}", role)] for line in lines]


def meter(share: float | None, width: int, glyphs: Glyphs, role: str = "strip") -> Row:
    """A bar of `width` cells filled to a share between 0 and 1; empty where the share is unknown."""
    if share is None or width <= 0:
        return []
    halves = int(min(max(share, 0.0), 1.0) * width * 2 + 1e-9)
    whole, half = divmod(halves, 2)
    shown = glyphs.meter * whole + (glyphs.meter_half if half else "")
    return [(shown, role), (glyphs.meter_rest * (width - len(shown)), "border")]
