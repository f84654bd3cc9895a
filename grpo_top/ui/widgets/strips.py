"""Lines of cells: the layout that every widget uses, and the reward strip of a group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from grpo_top.ui.glyphs import UNICODE, Glyphs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grpo_top.ui.theme import Styles

Part = str | tuple[str, Style]
"""A text in the line's base style, or a text and its own style, which is laid over the base."""
Run = tuple[str, str]
"""A text and the palette's role that it is drawn in; the role `""` is the base style."""

_PLAIN = Style()


def line(width: int, *parts: Part, base: Style = _PLAIN, ellipsis: str = UNICODE.ellipsis) -> Strip:
    """Parts one after another, cut with an ellipsis or filled with `base` to exactly `width` cells."""
    segments = _cut(_segments(parts, base), width, ellipsis)
    used = sum(cell_len(segment.text) for segment in segments)
    if used < width:
        segments.append(Segment(" " * (width - used), base))
    return Strip(segments, width)


def spread(
    width: int,
    left: Sequence[Part],
    right: Sequence[Part],
    *,
    base: Style = _PLAIN,
    fill: Part = " ",
    ellipsis: str = UNICODE.ellipsis,
) -> Strip:
    """Parts at both ends of `width` cells and `fill`, one cell, between them. The left is cut first."""
    ends = _cut(_segments(right, base), width, ellipsis)
    used = sum(cell_len(segment.text) for segment in ends)
    start = _cut(_segments(left, base), width - used, ellipsis)
    gap = width - used - sum(cell_len(segment.text) for segment in start)
    (filling,) = _segments((fill,), base)
    between = [Segment(filling.text * gap, filling.style)] if gap else []
    return Strip([*start, *between, *ends], width)


def fit(text: str, width: int, *, right: bool = False, ellipsis: str = UNICODE.ellipsis) -> str:
    """A text as exactly `width` cells: cut with an ellipsis, else blanks after it, or before it."""
    size = cell_len(text)
    if size > width:
        return _cut_text(text, width, ellipsis)
    return " " * (width - size) + text if right else text + " " * (width - size)


def reward_strip(
    rewards: Iterable[float | None],
    low: float,
    high: float,
    mean: float | None,
    glyphs: Glyphs = UNICODE,
) -> list[Run]:
    """A group's rewards, one cell a rollout, over the range `low` to `high`.

    A cell is bright (`strip`) where the reward is above the group's mean, so that its advantage is positive,
    and grey (`strip0`) elsewhere: a flat group is all grey. In ASCII the cells are tenths of the range.
    """
    known: dict[float | None, Run] = {}
    cells: list[Run] = []
    for reward in rewards:
        cell = known.get(reward)
        if cell is None:
            cell = known[reward] = _reward_cell(reward, low, high, mean, glyphs)
        cells.append(cell)
    return cells


def _reward_cell(reward: float | None, low: float, high: float, mean: float | None, glyphs: Glyphs) -> Run:
    if reward is None or math.isnan(reward):
        return glyphs.no_value, "faint"
    if math.isinf(reward):
        return glyphs.not_finite, "fail"
    ramp = "0123456789" if glyphs.ascii else glyphs.spark
    reach = high - low
    at = (reward - low) / reach if reach > 0 and math.isfinite(reach) else 0.0
    # The nudge keeps 0.6 of 1.2 on its own level though its quotient is a little less than a half.
    level = min(math.floor(min(max(at, 0.0), 1.0) * len(ramp) + 1e-9), len(ramp) - 1)
    above = mean is not None and reward - mean > 1e-9 * max(abs(reward), abs(mean))
    return ramp[level], "strip" if above else "strip0"


def runs_to_parts(runs: Iterable[Run], styles: Styles) -> list[Part]:
    """Runs of (text, role) as parts of a line."""
    return [(text, styles[role]) if role else text for text, role in runs]


def _segments(parts: Iterable[Part], base: Style) -> list[Segment]:
    made = []
    for part in parts:
        text, style = (part, base) if isinstance(part, str) else (part[0], base + part[1])
        if text:
            made.append(Segment(text, style))
    return made


def _cut(segments: list[Segment], width: int, ellipsis: str) -> list[Segment]:
    """The segments that fit; the last one that is seen ends in the ellipsis where something was cut."""
    if sum(cell_len(segment.text) for segment in segments) <= width:
        return segments
    kept: list[Segment] = []
    room = width
    for index, segment in enumerate(segments):
        size = cell_len(segment.text)
        rest = any(cell_len(later.text) for later in segments[index + 1 :])
        if size < room or (size == room and not rest):
            kept.append(segment)
            room -= size
            continue
        if room > 0:
            text = segment.text if size > room else segment.text + ellipsis
            kept.append(Segment(_cut_text(text, room, ellipsis), segment.style))
        break
    return kept


def _cut_text(text: str, width: int, ellipsis: str) -> str:
    """The beginning of a text that is too long, as exactly `width` cells with the ellipsis as the last."""
    if width <= 0:
        return ""
    mark = cell_len(ellipsis)
    if width <= mark:
        return set_cell_size(ellipsis, width)
    return set_cell_size(text, width - mark) + ellipsis
