"""Colours and glyphs: every role everywhere, readable without colour, and no crash under NO_COLOR."""

import dataclasses
from collections.abc import Iterator

import pytest
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from textual.app import App, ComposeResult

from grpo_top.snapshot import Status
from grpo_top.ui import theme
from grpo_top.ui.glyphs import ASCII, STATUS_ROLES, UNICODE, Box, Glyphs, glyphs_of, word
from grpo_top.ui.widgets.rows import Rows
from grpo_top.ui.widgets.strips import Run


def luminance(color: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [part / 255 for part in Color.parse(color).get_truecolor()]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("palette", [theme.DARK, theme.LIGHT])
def test_text_and_states_can_be_read_on_every_ground(palette: theme.Palette) -> None:
    for role in ("text", "dim", "accent", "warn", "fail", "info"):
        for ground in ("background", "surface", "raised", "fail_bg"):
            assert contrast(getattr(palette, role), getattr(palette, ground)) >= 4.5, (role, ground)
    for ground in ("background", "surface", "raised"):
        assert contrast(palette.ok, getattr(palette, ground)) >= 4.2
    assert contrast(palette.limit, palette.background) >= 3.9


def test_sixteen_colours_have_names_that_rich_knows() -> None:
    for role, color in dataclasses.asdict(theme.ANSI).items():
        assert color == "reverse" or Color.parse(color).number is None or Color.parse(color).number < 16, role


def test_a_style_is_a_role_with_attributes_and_a_ground() -> None:
    styles = theme.styles(theme.DARK)
    assert styles["fail"] == Style(color="#ff6a95")
    assert styles["fail reverse"] == Style(color="#ff6a95", reverse=True)
    assert styles["bright bold on fail_bg"] == Style(color="#ffffff", bold=True, bgcolor="#301622")
    assert theme.styles(theme.ANSI)["text on raised"].reverse


@pytest.mark.parametrize("key", ["", "red", "fail blink", "fail on red", "bold fail"])
def test_an_unknown_word_in_a_style_is_an_error(key: str) -> None:
    with pytest.raises(KeyError):
        theme.styles(theme.DARK)[key]


def test_without_colour_no_style_has_one_and_states_are_told_apart() -> None:
    styles = theme.styles(theme.ANSI, no_color=True)
    made = {role: styles[role] for role in theme.ROLES}
    assert all(style.color is None and style.bgcolor is None for style in made.values())
    assert styles["fail reverse"].reverse
    assert styles["text on raised"].reverse
    assert made["fail"].bold
    assert made["faint"].dim
    assert made["ok"] == made["text"]


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"COLORTERM": "truecolor", "TERM": "xterm"}, "grpo-top-dark"),
        ({"TERM": "xterm-256color"}, "grpo-top-dark"),
        ({"TERM": "screen-256color", "COLORFGBG": "0;15"}, "grpo-top-light"),
        ({"TERM": "screen-256color", "COLORFGBG": "15;default;0"}, "grpo-top-dark"),
        ({"TERM": "linux"}, "grpo-top-ansi"),
        ({"TERM": "xterm"}, "grpo-top-ansi"),
        ({}, "grpo-top-ansi"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "grpo-top-ansi"),
        ({"TERM": "xterm-256color", "NO_COLOR": "", "TEXTUAL_THEME": "nord"}, "grpo-top-ansi"),
        ({"TERM": "xterm-256color", "TEXTUAL_THEME": "nord"}, "nord"),
        ({"TERM": "xterm-256color", "TEXTUAL_THEME": "no such theme"}, "grpo-top-dark"),
        ({"TERM": "xterm", "TEXTUAL_COLOR_SYSTEM": "truecolor"}, "grpo-top-dark"),
        ({"TERM": "xterm-256color", "TEXTUAL_COLOR_SYSTEM": "standard"}, "grpo-top-ansi"),
    ],
)
def test_the_theme_follows_the_terminal(environ: dict[str, str], name: str) -> None:
    assert theme.choose_theme(environ) == name


def cells(glyphs: Glyphs) -> Iterator[tuple[str, str]]:
    for field in dataclasses.fields(glyphs):
        found = getattr(glyphs, field.name)
        if isinstance(found, Box):
            yield from ((field.name, piece) for piece in dataclasses.astuple(found))
        else:
            yield field.name, found


def test_every_unicode_glyph_is_as_wide_as_it_is_long() -> None:
    for name, text in cells(UNICODE):
        assert cell_len(text) == len(text), name
        assert not {"\u25b6", "\u23f8", "\u2588", "\ufe0f"} & set(text), name
    assert len(UNICODE.spark) == len(ASCII.spark) == 7


def test_the_ascii_set_is_ascii() -> None:
    for name, text in cells(ASCII):
        assert text.isascii(), name
    assert ASCII.ascii
    assert not UNICODE.ascii


def test_the_programs_own_texts_become_ascii() -> None:
    assert (
        ASCII.plain("Δ20 −0.01 σ 8 × 4 ≥1% 69–87 … e48ad → 12732")
        == "d20 -0.01 std 8 x 4 >=1% 69-87 . e48ad -> 12732"
    )
    assert UNICODE.plain("Δ20 −0.01") == "Δ20 −0.01"
    for _, text in cells(UNICODE):
        if not set(text) & set(UNICODE.spark[1:]):
            own = {"╭", "╮", "╰", "╯", "┏", "┓", "┗", "┛", "┃", "▁", "╸", "┤", "┼"}
            assert ASCII.plain(text).isascii() or set(text) & own


def test_every_verdict_has_a_mark_a_word_and_a_role() -> None:
    assert [UNICODE.mark(status) for status in Status] == ["?", "●", "△", "i", "▲", "✖"]
    assert [ASCII.mark(status) for status in Status] == ["?", "+", "~", "i", "!", "X"]
    assert [word(status) for status in Status] == ["?", "ok", "watch", "info", "WARN", "FAIL"]
    assert set(STATUS_ROLES) == set(Status)
    assert set(STATUS_ROLES.values()) <= set(theme.ROLES)


class Three(Rows):
    DEFAULT_CSS = "Three { height: 3; background: $raised; color: $fail; }"

    def make_rows(self, width: int, height: int) -> list[list[Run]]:
        return [[("fail", "fail reverse"), (" plain", "")], [("dim" * width, "dim")]]


class Window(App[None]):
    def __init__(self, name: str) -> None:
        super().__init__(ansi_color=True if name == theme.ANSI_NAME else None)
        for known in theme.THEMES.values():
            self.register_theme(known)
        self.theme = name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme.css_variables(theme.DARK)

    def compose(self) -> ComposeResult:
        yield Three()


@pytest.mark.parametrize("name", [*theme.THEMES, "nord", "ansi-light"])
@pytest.mark.parametrize("no_color", [False, True])
async def test_every_theme_draws_with_and_without_colour(
    name: str, no_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    app = Window(name)
    async with app.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        three = app.query_one(Three)
        lines = [three.render_line(y) for y in range(3)]
        assert [line.text for line in lines] == ["fail plain          ", "dimdimdimdimdimdimd…", " " * 20]
        assert all(segment.style is not None for line in lines for segment in line)
        assert lines[0]._segments[0].style.reverse
        assert theme.styles_of(app).no_color is no_color
        assert glyphs_of(app) is UNICODE


async def test_another_theme_recolours_what_stands() -> None:
    app = Window(theme.DARK_NAME)
    async with app.run_test(size=(20, 5)) as pilot:
        three = app.query_one(Three)
        dark = three.render_line(1)._segments[0].style
        app.theme = theme.LIGHT_NAME
        await pilot.pause()
        light = three.render_line(1)._segments[0].style
        assert (dark.color.name, light.color.name) == (theme.DARK.dim, theme.LIGHT.dim)
