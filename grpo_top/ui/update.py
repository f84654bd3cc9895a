"""What is sent to the terminal when parts of the screen have changed: those cells, and none beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.control import Control
from textual._compositor import ChopsUpdate

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_STYLE_ENDS_AND_BEGINS, _STYLE_BEGINS_ANEW = "\x1b[0m\x1b[", "\x1b[0;"


class ChangedCells(ChopsUpdate):
    """As Textual's own, which begins each changed span at the left edge of its widget: three times the bytes."""

    def render_segments(self, console: Console) -> str:
        """The terminal's sequences."""
        parts: list[str] = []
        for y, start, stop in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= stop or end <= start:
                    continue
                first, last = max(x, start), min(end, stop)
                parts.append(Control.move_to(first, y).segment.text)
                drawn = strip.crop(first - x, last - x).render(console)
                parts.append(drawn.replace(_STYLE_ENDS_AND_BEGINS, _STYLE_BEGINS_ANEW))
        return "".join(parts)


def only_changed(renderable: RenderableType | None) -> RenderableType | None:
    """What Textual is about to send, without the cells that did not change."""
    if type(renderable) is ChopsUpdate:
        return ChangedCells(renderable.chops, renderable.spans, renderable.chop_ends)
    return renderable
