"""A group's rewards as bars of several rows, one a rollout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.ui.rollouts.layout import cell
from grpo_top.ui.widgets.runs import ends

if TYPE_CHECKING:
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.widgets.runs import Row

_ROWS, _COLUMNS = 4, 6


def bar_rows(subject: Subject, span: tuple[float, float] | None, width: int, glyphs: Glyphs) -> list[Row]:
    """The bars over the range of rewards, with their values under them; those around the rollout where not all fit."""
    if len(subject.rows) < 2 or span is None or not span[1] > span[0]:
        return []
    low, high = span
    places = around(subject.place, len(subject.rows), (width - 3) // _COLUMNS)
    rewards, mean = subject.rewards, subject.group_mean
    title: Row = [(" group", "text bold")]
    rows = [ends(title, [("bright: above the mean ", "dim")], width, glyphs.ellipsis)]
    for level in range(_ROWS - 1, -1, -1):
        row: Row = [("   ", "")]
        for place in places:
            height = (float(rewards[place]) - low) / (high - low) * _ROWS - level
            above = mean is not None and rewards[place] - mean > 1e-9
            row += [(" ", ""), (block(height, glyphs) * 4, "strip" if above else "strip0"), (" ", "")]
        rows.append(row)
    labels: Row = [("   ", "")]
    for place in places:
        here = place == subject.place
        mark = (glyphs.selected, "accent bold") if here else (" ", "")
        labels += [
            mark,
            cell(glyphs.plain(numbers.fixed(float(rewards[place]), 2)), 5, "accent bold" if here else "dim"),
        ]
    return [*rows, labels]


def around(place: int, count: int, most: int) -> range:
    """At most so many places, with `place` among them."""
    start = max(0, min(place - most // 2, count - most))
    return range(start, min(count, start + max(1, most)))


def block(height: float, glyphs: Glyphs) -> str:
    """A cell of a bar that is filled to `height`, 0 to 1, of it."""
    if not math.isfinite(height) or height <= 0:
        return " "
    ramp = f"{glyphs.spark}#" if glyphs.ascii else f"{glyphs.spark}█"
    eighths = int(min(height, 1.0) * 8 + 1e-9)
    return ramp[eighths - 1] if eighths else " "
