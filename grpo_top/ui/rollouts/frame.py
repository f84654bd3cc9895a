"""A frame around rows: its title and values stand in the border, heavy where the focus is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from grpo_top.ui.widgets.runs import cut, filled, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.widgets.runs import Row


class Shape(Enum):
    """How a frame is drawn."""

    BOX = "box"
    """All four sides."""
    RULE = "rule"
    """A line at the top alone: for windows that have no cells to give away."""
    SIDE = "side"
    """A line at the top and one at the left, which joins it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the border says, and how it is drawn."""

    title: Row = field(default_factory=list)
    right: Row = field(default_factory=list)
    """At the right end of the top border."""
    bottom: Row = field(default_factory=list)
    """At the left end of the bottom border."""
    focused: bool = False
    shape: Shape = Shape.BOX

    @property
    def rows(self) -> int:
        """Rows that the border itself takes."""
        return 2 if self.shape is Shape.BOX else 1

    @property
    def columns(self) -> int:
        """Columns that the border itself takes."""
        return {Shape.BOX: 2, Shape.RULE: 0, Shape.SIDE: 1}[self.shape]

    def around(self, rows: Sequence[Row], width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The rows, cut or filled to the inside of `width` × `height` cells, with the border around them."""
        inner, body = width - self.columns, height - self.rows
        if inner < 1 or body < 0:
            return []
        shown = [filled(row, inner, glyphs.ellipsis) for row in rows[:body]]
        shown += [[(" " * inner, "")] for _ in range(body - len(shown))]
        if self.shape is not Shape.BOX:
            edge: Row = [(glyphs.box.vertical, "border")] if self.shape is Shape.SIDE else []
            return [self._top(width, glyphs), *([*edge, *row] for row in shown)]
        box = glyphs.box_focused if self.focused else glyphs.box
        side = (box.vertical, self._role)
        return [self._top(width, glyphs), *([side, *row, side] for row in shown), self._end(width, glyphs)]

    @property
    def _role(self) -> str:
        return "accent" if self.focused else "border"

    def _top(self, width: int, glyphs: Glyphs) -> Row:
        box = glyphs.box_focused if self.focused and self.shape is Shape.BOX else glyphs.box
        role = self._role if self.shape is Shape.BOX else "border"
        start, end = {
            Shape.BOX: (box.top_left + box.horizontal, box.horizontal + box.top_right),
            Shape.RULE: (box.horizontal, ""),
            Shape.SIDE: (("+" if glyphs.ascii else "┬") + box.horizontal, ""),
        }[self.shape]
        room = max(0, width - len(start) - len(end))
        # The name stays whole: the values at the right give way to it, and to them what follows the name.
        name = width_of(self.title[:1]) + 3 if self.title else 0
        right = cut(self.right, max(0, room - 3 - name), glyphs.ellipsis)
        after: Row = [(" ", ""), *right, (" ", "")] if right else []
        title = cut(self.title, max(0, room - width_of(after) - 3), glyphs.ellipsis)
        before: Row = [(" ", ""), *title, (" ", "")] if title else []
        gap = room - width_of(before) - width_of(after)
        line = (box.horizontal * max(0, gap), role)
        return filled([(start, role), *before, line, *after, (end, role)], width, glyphs.ellipsis)

    def _end(self, width: int, glyphs: Glyphs) -> Row:
        box = glyphs.box_focused if self.focused else glyphs.box
        said = cut(self.bottom, max(0, width - 6), glyphs.ellipsis)
        label: Row = [(" ", ""), *said, (" ", "")] if said else []
        gap = width - 3 - width_of(label)
        line = box.horizontal * max(0, gap)
        return [(box.bottom_left + box.horizontal, self._role), *label, (line + box.bottom_right, self._role)]
