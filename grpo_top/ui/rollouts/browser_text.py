"""What the browser says around its lists: where one is, how much a filter leaves, and how wide the columns are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers
from grpo_top.text import first_line
from grpo_top.ui.rollouts.browse import GROUPS, ROLLOUTS, STEPS
from grpo_top.ui.rollouts.group_rows import scope_words
from grpo_top.ui.rollouts.layout import joined
from grpo_top.ui.widgets.runs import ends

if TYPE_CHECKING:
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.browse import Browse
    from grpo_top.ui.rollouts.texts import Glance
    from grpo_top.ui.widgets.runs import Row

WIDE, MIDDLE = 150, 100
_STEPS, _GROUPS, _DETAIL = 37, 59, 64


class Widths(NamedTuple):
    """Columns of the screen that each list gets; 0 is not shown."""

    steps: int
    groups: int
    detail: int


def widths(width: int, column: int) -> Widths:
    """All three lists side by side, or the two around where one is, or that one alone."""
    if width >= WIDE:
        groups = _GROUPS + max(0, width - 160) * 3 // 5
        return Widths(_STEPS, groups, width - _STEPS - groups)
    if width >= MIDDLE:
        if column == STEPS:
            return Widths(_STEPS, width - _STEPS, 0)
        detail = min(_DETAIL, width - 48)
        return Widths(0, width - detail, detail)
    return Widths(*(width if column == own else 0 for own in (STEPS, GROUPS, ROLLOUTS)))


def path_row(browse: Browse, glance: Glance | None, title: str, width: int, glyphs: Glyphs) -> Row:
    """`Monitor › Rollouts › steps 91–110 › 109 · 27+5=`, as deep as one is."""
    parts = ["Monitor", first_line(title, 40) or "Rollouts", glyphs.plain(scope_words(browse.scope))]
    key = browse.group_key
    if key is not None and browse.column > STEPS:
        prompt = "" if glance is None else first_line(glance.prompt, 24)
        words = (
            f"{numbers.count(key.step)} {glyphs.separator} {prompt}"
            if prompt
            else f"step {numbers.count(key.step)}"
        )
        parts.append(words)
    if browse.column == ROLLOUTS and len(browse.members):
        columns = browse.catalogue.snapshot.rollouts.columns
        parts.append(f"#{numbers.count(int(columns['index'][browse.members[browse.member]]))}")
    shown = [part for part in parts if part]
    left: Row = [(" ", "")]
    for number, part in enumerate(shown):
        left.append((part, "text bold" if number == len(shown) - 1 else "dim"))
        if number < len(shown) - 1:
            left.append((f" {glyphs.path} ", "faint"))
    return ends(left, [("esc", "accent bold"), (" back ", "dim")], width, glyphs.ellipsis)


def counts_row(browse: Browse) -> Row:
    """`56 of 80 groups   448 of 640 rollouts` of the steps that are looked at."""
    catalogue = browse.catalogue
    if not catalogue.narrowed:
        return []
    rows = catalogue.in_steps(browse.scope)
    size = int(catalogue.table["size"][rows].sum())
    matching = int(catalogue.matches_of_group[rows].sum())
    return joined(
        [
            [(f"{numbers.part_of(len(browse.groups), len(rows))} groups", "text")],
            [(f"{numbers.part_of(matching, size)} rollouts", "text")],
        ]
    )
