"""Colours by role: three palettes, their Textual themes, and Rich styles for the line API.

Roles that never carry a state by colour alone have a mark, a word, weight or reverse video beside them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import App


@dataclass(frozen=True, slots=True)
class Palette:
    """One colour a role: `#rrggbb`, or a Rich name of the 16-colour table."""

    background: str
    surface: str
    """Title, filter, time bar, footer."""
    raised: str
    """Selected row."""
    border: str
    text: str
    """Values."""
    dim: str
    """Labels, axes."""
    faint: str
    """Stage digits, what is not played yet, what lies after the cursor."""
    accent: str
    """Focus, keys, cursor, headings; nothing else."""
    ok: str
    """The small mark alone: an ok value is `text`."""
    warn: str
    """Warn and watch."""
    limit: str
    """Threshold lines and their labels."""
    fail: str
    fail_bg: str
    """Tint of the banner and of a failing row."""
    info: str
    """Unknown, not logged."""
    series1: str
    series1_steps: str
    series2: str
    """Second line, held-out."""
    series2_steps: str
    series3: str
    """Reference: before, another run."""
    strip: str
    """Reward above the mean of its group."""
    strip0: str
    """Reward not above it."""
    bright: str
    """The banner's sentence."""
    faildim: str
    """Sparks after the onset."""


DARK = Palette(
    background="#111316",
    surface="#1a1c20",
    raised="#2a2d33",
    border="#3d424b",
    text="#d7dae0",
    dim="#969ca6",
    faint="#666d79",
    accent="#5fb2ff",
    ok="#4aada3",
    warn="#e6b450",
    limit="#94702c",
    fail="#ff6a95",
    fail_bg="#301622",
    info="#8ea6de",
    series1="#86c5f4",
    series1_steps="#41688c",
    series2="#b798f5",
    series2_steps="#64508f",
    series3="#b9bec8",
    strip="#6aa8dd",
    strip0="#4a505b",
    bright="#ffffff",
    faildim="#8f2e5a",
)

LIGHT = Palette(
    background="#fbfbf9",
    surface="#f1f1ef",
    raised="#e5e5e1",
    border="#c4c3bd",
    text="#22262d",
    dim="#5f656e",
    faint="#908f89",
    accent="#0a62bd",
    ok="#14786a",
    warn="#8d5c00",
    limit="#947531",
    fail="#b5125a",
    fail_bg="#fbe4ec",
    info="#4660a8",
    series1="#1f77c0",
    series1_steps="#93bbdf",
    series2="#7a46c2",
    series2_steps="#c0a8e6",
    series3="#5b6470",
    strip="#2f7fc4",
    strip0="#cfcec8",
    bright="#000000",
    faildim="#d07a9f",
)

ANSI = Palette(
    background="default",
    surface="default",
    raised="reverse",
    border="bright_black",
    text="default",  # white on a light terminal could not be read
    dim="default",
    faint="bright_black",
    accent="bright_blue",
    ok="cyan",
    warn="bright_yellow",
    limit="yellow",
    fail="bright_magenta",
    fail_bg="default",
    info="bright_blue",
    series1="bright_cyan",
    series1_steps="blue",
    series2="magenta",
    series2_steps="magenta",
    series3="default",
    strip="bright_cyan",
    strip0="bright_black",
    bright="default",
    faildim="magenta",
)
"""`reverse` is no colour: a ground that the 16 colours lack is shown in reverse video."""

ROLES: tuple[str, ...] = tuple(field.name for field in dataclasses.fields(Palette))

DARK_NAME, LIGHT_NAME, ANSI_NAME = "grpo-top-dark", "grpo-top-light", "grpo-top-ansi"

_BOLD = ("fail", "warn", "accent", "bright")
_DIM = ("faint", "border", "limit", "series1_steps", "series2_steps", "strip0", "faildim")


class Styles:
    """Rich styles by role: `styles["fail"]`, `styles["bright bold on fail_bg"]`, `styles["fail reverse"]`.

    A key holds a role, then any of `bold`, `reverse`, `italic`, then `on` and the role of the ground.
    An unknown word raises KeyError.
    """

    def __init__(self, palette: Palette, *, no_color: bool = False) -> None:
        self.palette = palette
        self.no_color = no_color
        self._made: dict[str, Style] = {}

    def __getitem__(self, key: str) -> Style:
        style = self._made.get(key)
        if style is None:
            style = self._made[key] = self._make(key)
        return style

    def _make(self, key: str) -> Style:
        front, _, ground = key.partition(" on ")
        role, *attributes = front.split(" ")
        if role not in ROLES or (ground and ground not in ROLES):
            raise KeyError(key)
        wanted: dict[str, Any] = {}
        for attribute in attributes:
            if attribute not in {"bold", "reverse", "italic"}:
                raise KeyError(key)
            wanted[attribute] = True
        if self.no_color:
            if role in _BOLD:
                wanted["bold"] = True
            elif role in _DIM:
                wanted["dim"] = True
            if ground == "raised":
                wanted["reverse"] = True
            return Style(**wanted)
        wanted["color"] = getattr(self.palette, role)
        if ground:
            color = getattr(self.palette, ground)
            wanted |= {"reverse": True} if color == "reverse" else {"bgcolor": color}
        return Style(**wanted)


@lru_cache(maxsize=8)
def styles(palette: Palette, no_color: bool = False) -> Styles:
    """The styles of a palette; without colour, states are told apart by bold, reverse and dim alone."""
    return Styles(palette, no_color=no_color)


def styles_of(app: App[Any]) -> Styles:
    """The styles of the theme that an app shows now, Textual's own themes included."""
    theme = app.current_theme
    palette = ANSI if theme.ansi else DARK if theme.dark else LIGHT
    return styles(palette, bool(app.no_color))


def css_variables(palette: Palette) -> dict[str, str]:
    """`$fail`, `$fail-bg`, `$series1`, … for CSS; an app gives them as theme variable defaults.

    Roles that Textual names itself (`$background`, `$text`, `$accent`, …) come with the theme.
    """
    own = {"background", "surface", "text", "accent", "border"}
    return {
        role.replace("_", "-"): "ansi_default" if color in {"default", "reverse"} else _css(color)
        for role, color in dataclasses.asdict(palette).items()
        if role not in own
    }


def _css(color: str) -> str:
    return color if color.startswith("#") else f"ansi_{color}"


def _theme(name: str, palette: Palette, *, dark: bool) -> Theme:
    return Theme(
        name=name,
        primary=palette.accent,
        secondary=palette.info,
        warning=palette.warn,
        error=palette.fail,
        success=palette.ok,
        accent=palette.accent,
        foreground=palette.text,
        background=palette.background,
        surface=palette.surface,
        panel=palette.raised,
        dark=dark,
        text_alpha=1.0,
        variables={
            **css_variables(palette),
            "border": palette.accent,
            "border-blurred": palette.border,
            "block-cursor-background": palette.raised,
            "block-cursor-foreground": palette.text,
            "block-cursor-text-style": "none",
            "block-cursor-blurred-background": palette.raised,
            "block-cursor-blurred-foreground": palette.text,
            "input-selection-background": palette.raised,
            "footer-background": palette.surface,
            "footer-foreground": palette.dim,
            "footer-key-foreground": palette.accent,
            "footer-description-foreground": palette.dim,
            "scrollbar": palette.border,
            "scrollbar-hover": palette.faint,
            "scrollbar-active": palette.accent,
            "scrollbar-background": palette.background,
            "scrollbar-background-hover": palette.background,
            "scrollbar-background-active": palette.background,
            "scrollbar-corner-color": palette.background,
        },
    )


def _ansi_theme() -> Theme:
    base = BUILTIN_THEMES["ansi-dark"]
    variables = base.variables | css_variables(ANSI) | {"border": "ansi_bright_blue"}
    return dataclasses.replace(
        base,
        name=ANSI_NAME,
        primary="ansi_bright_blue",
        warning="ansi_bright_yellow",
        error="ansi_bright_magenta",
        success="ansi_cyan",
        accent="ansi_bright_blue",
        variables=variables | {"border-blurred": "ansi_bright_black"},
    )


THEMES: dict[str, Theme] = {
    DARK_NAME: _theme(DARK_NAME, DARK, dark=True),
    LIGHT_NAME: _theme(LIGHT_NAME, LIGHT, dark=False),
    ANSI_NAME: _ansi_theme(),
}
"""Register all with `App.register_theme`. An app that shows the ansi theme is made with `ansi_color=True`:
Textual decides at its start whether NO_COLOR strips colours (ansi) or turns them grey."""


def choose_theme(environ: Mapping[str, str]) -> str:
    """The theme for a terminal: ansi without colour or under 256 colours, else dark or light.

    Colours are counted as Rich counts them, because Rich writes them. `COLORFGBG`, where a terminal sets it,
    tells a light ground; `TEXTUAL_THEME` decides where it names a theme.
    """
    if environ.get("NO_COLOR") is not None or _few_colors(environ):
        return ANSI_NAME
    wanted = environ.get("TEXTUAL_THEME", "")
    if wanted in THEMES or wanted in BUILTIN_THEMES:
        return wanted
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT_NAME if ground in {"7", "15"} else DARK_NAME


def _few_colors(environ: Mapping[str, str]) -> bool:
    forced = environ.get("TEXTUAL_COLOR_SYSTEM", "auto")
    if forced != "auto":
        return forced not in {"256", "truecolor"}
    if environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return False
    return environ.get("TERM", "").strip().lower().rpartition("-")[2] not in {"256color", "kitty"}
