"""What is sent to the terminal when parts of the screen have changed: those cells, and none beside them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rich.color import ColorSystem
from rich.control import Control
from textual._compositor import ChopsUpdate

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.style import Style


class Look(NamedTuple):
    """How cells look, as parameters of `SGR` (ECMA-48, 8.3.117)."""

    attributes: tuple[str, ...] = ()
    """Bold, reverse and their like."""
    color: tuple[str, ...] = ()
    ground: tuple[str, ...] = ()


_PLAIN = Look()
_SGR = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "21", "51", "52", "53")
"""The parameter of each of Rich's attributes, in the order of their bits."""


class ChangedCells(ChopsUpdate):
    """As Textual's own, in a fifth of the bytes.

    That one begins each changed span at the left edge of its widget, and says with each run all of its style.
    """

    def render_segments(self, console: Console) -> str:
        """The terminal's sequences."""
        colors = console._color_system or ColorSystem.TRUECOLOR
        parts: list[str] = []
        now = _PLAIN
        for y, start, stop in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= stop or end <= start:
                    continue
                first, last = max(x, start), min(end, stop)
                parts.append(Control.move_to(first, y).segment.text)
                for text, style, _ in strip.crop(first - x, last - x):
                    look = _PLAIN if style is None else _look(style, colors)
                    if look != now:
                        parts.append(_turn(now, look))
                        now = look
                    parts.append(text)
        return "".join([*parts, _turn(now, _PLAIN)])


def only_changed(renderable: RenderableType | None) -> RenderableType | None:
    """What Textual is about to send, without the cells that did not change."""
    if type(renderable) is ChopsUpdate:
        return ChangedCells(renderable.chops, renderable.spans, renderable.chop_ends)
    return renderable


@lru_cache(maxsize=4096)
def _look(style: Style, colors: ColorSystem) -> Look:
    on = style._attributes & style._set_attributes
    return Look(
        tuple(code for bit, code in enumerate(_SGR) if on & (1 << bit)),
        () if style.color is None else tuple(style.color.downgrade(colors).get_ansi_codes()),
        ()
        if style.bgcolor is None
        else tuple(style.bgcolor.downgrade(colors).get_ansi_codes(foreground=False)),
    )


@lru_cache(maxsize=4096)
def _turn(before: Look, after: Look) -> str:
    """What makes cells look otherwise than the ones before: of what stays nothing is said."""
    from_nothing = before.attributes != after.attributes or (before.color and not after.color)
    if from_nothing or (before.ground and not after.ground):
        return f"\x1b[{';'.join(('0', *after.attributes, *after.color, *after.ground))}m"
    color = after.color if after.color != before.color else ()
    ground = after.ground if after.ground != before.ground else ()
    return f"\x1b[{';'.join((*color, *ground))}m"
