"""What is sent to the terminal when parts of the screen have changed: those cells, and none beside them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

from rich.color import ColorSystem
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate
from textual.geometry import Region

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console, RenderableType
    from rich.segment import Segment
    from rich.style import Style
    from textual.widget import Widget

    Span = tuple[int, int, int]
    """Row, first cell, and the cell after the last."""


class Look(NamedTuple):
    """How cells look, as parameters of `SGR` (ECMA-48, 8.3.117)."""

    attributes: tuple[str, ...] = ()
    """Bold, reverse and their like."""
    color: tuple[str, ...] = ()
    ground: tuple[str, ...] = ()


_PLAIN = Look()
_SGR = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "21", "51", "52", "53")
"""The parameter of each of Rich's attributes, in the order of their bits."""
_ON_BLANKS = frozenset(_SGR).difference(("1", "2", "3"))
"""Attributes that are seen where there is no letter."""
_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""What ends an attribute, where every terminal knows it; the others end with all that there is."""


class Piece(NamedTuple):
    """Cells of one row that have changed."""

    y: int
    x: int
    length: int
    segments: Iterable[Segment]


class ChangedCells(CompositorUpdate):
    """As Textual's own update, in a fifth of the bytes.

    That one begins each changed span at the left edge of its widget, and says with each run all of its style.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = sorted(pieces, key=lambda piece: (piece.y, piece.x))

    def render_segments(self, console: Console) -> str:
        """The terminal's sequences."""
        colors = console._color_system or ColorSystem.TRUECOLOR
        parts: list[str] = []
        now = _PLAIN
        row = end = -1
        for y, x, length, segments in self.pieces:
            parts.append(f"\x1b[{x - end}C" if y == row and x > end else f"\x1b[{y + 1};{x + 1}H")
            row, end = y, x + length
            for text, style, _ in segments:
                look = _PLAIN if style is None else _look(style, colors)
                if look != now and (text.strip(" ") or not _blanks_are_equal(look, now)):
                    parts.append(_turn(now, look))
                    now = look
                parts.append(text)
        return "".join([*parts, _turn(now, _PLAIN)])


class CellCompositor(Compositor):
    """As Textual's own, which asks every widget for all of its rows where one cell has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._known: tuple[object, dict[Widget, Region | None]] = None, {}
        """Where widgets are that nothing lies over, and the arrangement of which that holds."""

    def in_full_view(self, widget: Widget) -> Region | None:
        """Where a widget is, if all of it is seen; None where something lies over it, or cuts it off."""
        arrangement, regions = self._known
        if arrangement is not self.visible_widgets:
            arrangement, regions = self._known = self.visible_widgets, {}
        if widget not in regions:
            regions[widget] = self._in_full_view(widget)
        return regions[widget]

    def _in_full_view(self, widget: Widget) -> Region | None:
        region, clip = self.visible_widgets.get(widget, (Region(), Region()))
        if not region or region.intersection(clip) != region:
            return None
        for other, (place, cut) in self.visible_widgets.items():  # those on top come first
            if other is widget:
                break
            if region.overlaps(place.intersection(cut)):
                return None
        return region if self.size.region.contains_region(region) else None

    def render_partial_update(self) -> ChangedCells | None:  # type: ignore[override]
        """What has changed since the last update."""
        screen = self.size.region
        dirty = [region.intersection(screen) for region in self._dirty_regions]
        self._dirty_regions.clear()
        spans = list(self._regions_to_spans(dirty))
        return ChangedCells(self._pieces(spans)) if spans else None

    def _pieces(self, spans: Iterable[Span]) -> Iterator[Piece]:
        """The cells of some spans: of each, those of the widget that is on top there."""
        missing: dict[int, list[tuple[int, int]]] = {}
        for y, start, stop in spans:
            missing.setdefault(y, []).append((start, stop))
        for widget, (region, clip) in self.visible_widgets.items():  # those on top come first
            left, top, width, height = region.intersection(clip)
            for y in [y for y in missing if top <= y < top + height]:
                rest: list[tuple[int, int]] = []
                for start, stop in missing[y]:
                    first, last = max(start, left), min(stop, left + width)
                    if first >= last:
                        rest.append((start, stop))
                        continue
                    rest += [span for span in ((start, first), (last, stop)) if span[0] < span[1]]
                    (strip,) = widget.render_lines(Region(first - region.x, y - region.y, last - first, 1))
                    yield Piece(y, first, last - first, strip)
                if rest:
                    missing[y] = rest
                else:
                    del missing[y]


def only_changed(renderable: RenderableType | None) -> RenderableType | None:
    """What Textual is about to send, without the cells that did not change."""
    if type(renderable) is not ChopsUpdate:
        return renderable
    return cast("RenderableType", ChangedCells(_cells_of(renderable)))  # Textual takes it as one


def _cells_of(update: ChopsUpdate) -> Iterator[Piece]:
    for y, start, stop in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x < stop and end > start:
                first, last = max(x, start), min(end, stop)
                yield Piece(y, first, last - first, strip.crop(first - x, last - x))


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


def _blanks_are_equal(one: Look, other: Look) -> bool:
    """Whether a blank is the same in both."""
    return one.ground == other.ground and _ON_BLANKS.isdisjoint(one.attributes + other.attributes)


@lru_cache(maxsize=4096)
def _turn(before: Look, after: Look) -> str:
    """What makes cells look otherwise than the ones before: of what stays nothing is said."""
    if before == after:
        return ""
    ends = {_ENDS.get(code, "0") for code in before.attributes if code not in after.attributes}
    # What ends bold ends dim as well: what stays of them is said again.
    goes_on = [code for code in before.attributes if code in after.attributes and _ENDS.get(code) not in ends]
    changes = [*sorted(ends), *(code for code in after.attributes if code not in goes_on)]
    changes += (after.color or ("39",)) if after.color != before.color else ()
    changes += (after.ground or ("49",)) if after.ground != before.ground else ()
    anew = "0", *after.attributes, *after.color, *after.ground
    short, long = (f"\x1b[{';'.join(codes)}m" for codes in (changes, anew))
    return long if "0" in ends or len(long) < len(short) else short
