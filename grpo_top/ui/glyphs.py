"""Marks and lines of one cell each, in two sets: Unicode, and plain ASCII for `--ascii`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_top.status import Status

if TYPE_CHECKING:
    from textual.app import App


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Box:
    """The eight pieces of a frame."""

    top_left: str
    top_right: str
    bottom_left: str
    bottom_right: str
    horizontal: str
    vertical: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Glyphs:
    """One set of glyphs. Every field is one cell, but the ramps and the tree's branches."""

    ok: str
    partly: str
    """A stage that is well as far as it was checked, and not all of it was."""
    watch: str
    """A limit is crossed, not sustained."""
    warn: str
    fail: str
    unknown: str
    heldout: str
    selected: str
    onset: str
    """The first cause's first step, through every chart."""
    cursor: str
    """Where time stands when it is paused."""
    not_finite: str
    """On a chart's bottom row: a value there is no number."""
    spark: str
    """Seven heights, lowest first; never a full cell, so that rows do not touch."""
    no_value: str
    """A spark's cell without a value."""
    box: Box
    box_focused: Box
    bar: str
    """The banner's left edge."""
    turn: str
    """The left edge of a turn's text."""
    branch: str
    last_branch: str
    trunk: str
    path: str
    meter: str
    meter_half: str
    meter_rest: str
    bullet: str
    """The playing position."""
    lane_begin: str
    lane_end: str
    lane_once: str
    arrow: str
    delta: str
    sigma: str
    times: str
    minus: str
    dash: str
    """Between the ends of a range."""
    ellipsis: str
    at_least: str
    separator: str
    up_down: str
    left_right: str
    all_ways: str

    @property
    def ascii(self) -> bool:
        """Whether only ASCII may be drawn."""
        return self.ok == "+"

    def plain(self, text: str) -> str:
        """A text of the program's own in this set: unchanged, or with every sign turned into ASCII.

        Not for what a model wrote: that is data.
        """
        return text.translate(_TO_ASCII) if self.ascii else text

    def mark(self, status: Status) -> str:
        """The mark of a verdict."""
        return {
            Status.UNKNOWN: self.unknown,
            Status.OK: self.ok,
            Status.WATCH: self.watch,
            Status.INFO: "i",
            Status.WARN: self.warn,
            Status.FAIL: self.fail,
        }[status]


UNICODE = Glyphs(
    ok="●",
    partly="○",
    watch="△",
    warn="▲",
    fail="✖",
    unknown="?",
    heldout="◆",
    selected="▸",
    onset="┊",
    cursor="│",
    not_finite="×",
    spark="▁▂▃▄▅▆▇",
    no_value="·",
    box=Box("╭", "╮", "╰", "╯", "─", "│"),
    box_focused=Box("┏", "┓", "┗", "┛", "━", "┃"),
    bar="▌",
    turn="▏",
    branch="├─",
    last_branch="└─",
    trunk="│ ",
    path="›",
    meter="━",
    meter_half="╸",
    meter_rest="─",
    bullet="●",
    lane_begin="├",
    lane_end="┤",
    lane_once="┼",
    arrow="→",
    delta="Δ",
    sigma="σ",
    times="×",
    minus="−",
    dash="–",
    ellipsis="…",
    at_least="≥",
    separator="·",
    up_down="↑↓",
    left_right="←→",
    all_ways="↑↓←→",
)

ASCII = Glyphs(
    ok="+",
    partly="o",
    watch="~",
    warn="!",
    fail="X",
    unknown="?",
    heldout="o",
    selected=">",
    onset=":",
    cursor="|",
    not_finite="x",
    spark="_.-=+*#",
    no_value=".",
    box=Box("+", "+", "+", "+", "-", "|"),
    box_focused=Box("+", "+", "+", "+", "=", "|"),
    bar="|",
    turn="|",
    branch="|-",
    last_branch="`-",
    trunk="| ",
    path=">",
    meter="=",
    meter_half="=",
    meter_rest="-",
    bullet="o",
    lane_begin="|",
    lane_end="|",
    lane_once="+",
    arrow="->",
    delta="d",
    sigma="std",
    times="x",
    minus="-",
    dash="-",
    ellipsis=".",
    at_least=">=",
    separator="-",
    up_down="j/k",
    left_right="h/l",
    all_ways="hjkl",
)

_TO_ASCII = str.maketrans(
    {
        "Δ": "d",
        "σ": "std",
        "×": "x",
        "−": "-",
        "–": "-",
        "…": ".",
        "≥": ">=",
        "≤": "<=",
        "→": "->",
        "›": ">",
        "·": "-",
        "●": "+",
        "○": "o",
        "△": "~",
        "▲": "!",
        "✖": "X",
        "◆": "o",
        "▸": ">",
        "┊": ":",
        "│": "|",
        "─": "-",
        "━": "=",
        "▌": "|",
        "▏": "|",
        "├": "|",
        "└": "`",
        "↑": "^",
        "↓": "v",
        "←": "<",
    }
)

STATUS_ROLES: dict[Status, str] = {
    Status.UNKNOWN: "info",
    Status.OK: "ok",
    Status.WATCH: "warn",
    Status.INFO: "info",
    Status.WARN: "warn",
    Status.FAIL: "fail",
}
"""The palette's role of each verdict."""


def word(status: Status) -> str:
    """The word that ends a row: `ok`, `watch`, `info`, `WARN`, `FAIL`, `?`. Louder ones are in capitals."""
    if status is Status.UNKNOWN:
        return "?"
    return status.word.upper() if status >= Status.WARN else status.word


def glyphs_of(app: App[Any]) -> Glyphs:
    """The set that an app draws with: its attribute `glyphs`, else Unicode."""
    glyphs = getattr(app, "glyphs", UNICODE)
    return glyphs if isinstance(glyphs, Glyphs) else UNICODE
