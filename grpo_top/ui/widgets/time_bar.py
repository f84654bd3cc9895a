"""Where a replay stands in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.rollouts.timeline import Length, time_rows
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from grpo_top.ui.rollouts.playing import Playing
    from grpo_top.ui.widgets.runs import Row


class TimeBar(Rows):
    """One row: state, speed, position, bar; a second one, where there is room for it, with labels."""

    DEFAULT_CSS = "TimeBar { background: $surface; height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._playing: Playing | None = None
        self._length = Length()

    def show(self, playing: Playing, length: Length) -> None:
        """Draw another position."""
        self._playing, self._length = playing, length
        self.redraw()

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The bar and its labels."""
        if self._playing is None:
            return []
        return time_rows(self._playing, self._length, width, height, glyphs_of(self.app))
