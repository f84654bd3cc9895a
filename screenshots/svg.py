"""A screen as SVG, drawn cell by cell: lines, blocks and braille as shapes, so that they do not hang on a font."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.color import Color
    from rich.segment import Segment
    from rich.style import Style
    from textual.strip import Strip

WIDE, HIGH, SIZE = 9, 19, 15
"""A cell in pixels, and the size of its letters."""
MARGIN = 12
FONT = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace"
_DOTS = (
    (0, 0, 0x01),
    (0, 1, 0x02),
    (0, 2, 0x04),
    (0, 3, 0x40),
    (1, 0, 0x08),
    (1, 1, 0x10),
    (1, 2, 0x20),
    (1, 3, 0x80),
)
_ARMS = dict(
    zip(
        "─━│┃╭╮╰╯┏┓┗┛├┤┬┴┼╶╴└┌┐┘",
        [
            "1010",
            "2020",
            "0101",
            "0202",
            "0011",
            "1001",
            "0110",
            "1100",
            "0022",
            "2002",
            "0220",
            "2200",
            "0111",
            "1101",
            "1011",
            "1110",
            "1111",
            "0010",
            "1000",
            "0110",
            "0011",
            "1001",
            "1100",
        ],
        strict=True,
    )
)
"""Box drawing: arms to the left, up, right and down; 1 is light, 2 is heavy."""
_LIGHT, _HEAVY = 1, 2


@dataclass
class Palette:
    """Colours by the class that stands for them, so that a picture names each once."""

    ground: str
    text: str
    known: dict[str, str] = field(default_factory=dict)

    def name(self, color: str) -> str:
        """The class of a colour."""
        return self.known.setdefault(color, f"c{len(self.known)}")

    def css(self) -> str:
        """A rule for each: `fill` for letters and blocks, `stroke` for lines and dots."""
        return "".join(f".{name}{{fill:{color};stroke:{color}}}" for color, name in self.known.items())

    def of(self, style: Style | None) -> tuple[str, str]:
        """The colour of letters and that of their ground."""
        front = _hex(style.color if style else None, self.text)
        ground = _hex(style.bgcolor if style else None, self.ground)
        return (ground, front) if style is not None and style.reverse else (front, ground)


def picture(strips: Sequence[Strip], palette: Palette, title: str) -> str:
    """A whole screen."""
    rows = [row(strip, palette) for strip in strips]
    width, height = strips[0].cell_length * WIDE, len(rows) * HIGH
    body = "\n".join(
        f'<g transform="translate(0 {at * HIGH})">{drawn}</g>' for at, drawn in enumerate(rows) if drawn
    )
    return document(body, palette, width, height, title)


def document(body: str, palette: Palette, width: int, height: int, title: str, more_css: str = "") -> str:
    """An SVG file around what is drawn."""
    css = (
        f"text{{font:{SIZE}px {FONT};white-space:pre;stroke:none!important}}.b{{font-weight:bold}}"
        ".d{fill:none!important;stroke-width:2.3;stroke-linecap:round}"
        ".l{fill:none!important;stroke-width:1}.h{fill:none!important;stroke-width:2.6}.r{stroke:none}"
        f"{palette.css()}{more_css}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * MARGIN} {height + 2 * MARGIN}" '
        f'role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n<style>{css}</style>\n'
        f'<rect width="100%" height="100%" rx="6" fill="{palette.ground}"/>\n'
        f'<g transform="translate({MARGIN} {MARGIN})">\n{body}\n</g>\n</svg>\n'
    )


def row(segments: Iterable[Segment], palette: Palette) -> str:
    """One row of cells, at y = 0."""
    grounds: list[str] = []
    marks: dict[tuple[str, str], list[str]] = {}
    letters: list[str] = []
    x = 0
    for segment in segments:
        if segment.control:
            continue
        style = segment.style
        front, ground = palette.of(style)
        width = cell_len(segment.text) * WIDE
        if ground != palette.ground and width:
            grounds.append(
                f'<rect class="{palette.name(ground)} r" x="{x}" width="{width}" height="{HIGH}"/>'
            )
        bold = bool(style and style.bold)
        text, begin = "", x
        for sign in segment.text:
            shape = _shape(sign, x)
            if shape is not None:
                kind, path = shape
                marks.setdefault((palette.name(front), kind), []).append(path)
            if shape is not None or sign == " ":
                letters += _text(text, begin, front, bold, palette)
                text, begin = "", x + WIDE
            else:
                text += sign
            x += cell_len(sign) * WIDE
        letters += _text(text, begin, front, bold, palette)
    drawn = [f'<path class="{color} {kind}" d="{"".join(paths)}"/>' for (color, kind), paths in marks.items()]
    return "".join([*grounds, *drawn, *letters])


def _text(text: str, x: int, color: str, bold: bool, palette: Palette) -> list[str]:
    if not text:
        return []
    classes = f"{palette.name(color)} b" if bold else palette.name(color)
    place = f'x="{x}" y="{HIGH - 5}" textLength="{cell_len(text) * WIDE}" lengthAdjust="spacingAndGlyphs"'
    return [f'<text class="{classes}" {place}>{escape(text)}</text>']


def _shape(sign: str, x: int) -> tuple[str, str] | None:
    """Class and path of a sign that is drawn and not written; None for letters."""
    code = ord(sign)
    if 0x2800 <= code <= 0x28FF:
        dots = (
            f"M{x + WIDE * (0.27 + 0.46 * across):.1f} {HIGH * (0.125 + 0.25 * down):.1f}h0"
            for across, down, bit in _DOTS
            if (code - 0x2800) & bit
        )
        return "d", "".join(dots)
    if sign in _ARMS:
        return _box(_ARMS[sign], x)
    if sign == "┊":
        return "l", "".join(f"M{x + WIDE / 2:.1f} {y + 1}v3" for y in range(0, HIGH - 2, 6))
    if 0x2581 <= code <= 0x2588:
        high = round(HIGH * (code - 0x2580) / 8, 1)
        return "r", f"M{x} {HIGH}v-{high}h{WIDE - 1}v{high}z"
    if 0x2589 <= code <= 0x258F:
        return "r", f"M{x} 0h{max(round(WIDE * (0x2590 - code) / 8), 1)}v{HIGH}H{x}z"
    return None


def _box(arms: str, x: int) -> tuple[str, str]:
    middle, centre = x + WIDE / 2, HIGH / 2
    ends = ((x, centre), (middle, 0), (x + WIDE, centre), (middle, HIGH))
    lines = [f"M{middle} {centre}L{at} {to}" for (at, to), arm in zip(ends, arms, strict=True) if arm != "0"]
    return ("h" if "2" in arms else "l"), "".join(lines)


def _hex(color: Color | None, default: str) -> str:
    if color is None or color.is_default:
        return default
    red, green, blue = color.get_truecolor()
    return f"#{red:02x}{green:02x}{blue:02x}"
