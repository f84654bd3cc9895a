"""The replay's parts and how they share the window: text, facts, siblings, difference, groups of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Grid

from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.rollouts.replay_text import WIDE, Sizes, sizes
from grpo_top.ui.widgets.framed_rows import FramedRows
from grpo_top.ui.widgets.searched_text import SearchedText
from grpo_top.ui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from grpo_top.ui.rollouts.against import Against


class ReplayGrid(Grid):
    """The widgets; what they show is the screen's business."""

    DEFAULT_CSS = "ReplayGrid { height: 1fr; grid-size: 2; }"

    def __init__(self) -> None:
        super().__init__()
        self.text, self.facts = SearchedText(), FramedRows()
        self.members, self.groups = VirtualList(name="siblings"), VirtualList(name="groups")
        self.difference, self.strip = FramedRows(), FramedRows()

    def compose(self) -> ComposeResult:
        """In the order in which they fill the grid."""
        yield self.text
        yield self.facts
        yield self.members
        yield self.difference
        yield self.groups
        yield self.strip

    def share_out(
        self,
        width: int,
        height: int,
        *,
        difference: bool,
        against: Against | None,
        members: bool,
        groups: bool,
        full: bool,
    ) -> Sizes:
        """Give each part its place.

        Args:
            width: cells of the window.
            height: rows for all parts together.
            difference: whether the difference has a place of its own, where the window is wide.
            against: what it shows; None: that there is none.
            members: whether the group's rollouts are listed; a narrow window has a line of them.
            groups: whether the step's groups are known.
            full: the text takes the facts' place as well, unless the window is wide.
        """
        wanted = self.text.height_for(max(20, width - 60), max(4, height)) if width >= WIDE else 0
        rows = 0 if not difference else 3
        if difference and against is not None:
            rows = 2 + against.dock_height(max(20, width - 62), glyphs_of(self.app))
        shared = sizes(
            width,
            height,
            wanted,
            self.members.wanted_rows if members else 0,
            rows,
            self.groups.wanted_rows if groups else 0,
        )
        full = full and not shared.beside_all
        self.facts.display = not full
        self.text.styles.column_span = 2 if full else 1
        heights = [shared.top]
        for widget, size in (
            (self.members, shared.siblings),
            (self.difference, shared.against),
            (self.groups, shared.groups),
            (self.strip, shared.strip),
        ):
            widget.display = size > 0
            widget.styles.column_span = 1 if shared.beside_all else 2
            if size > 0:
                heights.append(size)
        self.styles.grid_columns = (shared.text, width - shared.text)
        self.styles.grid_rows = tuple(heights)
        self.facts.styles.row_span = len(heights) if shared.beside_all else 1
        return shared
