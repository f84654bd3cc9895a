"""From the command line and the settings to the app that runs."""

from __future__ import annotations

import pytest

from grpo_top.commands.showing import _on_a_terminal
from grpo_top.config import Settings
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.launch import LOCALES, run


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch):
    apps: list[GrpoTop] = []
    monkeypatch.setattr(GrpoTop, "run", lambda self: apps.append(self))  # noqa: PLW0108  it is bound as a method
    for name in ("NO_COLOR", "SSH_CONNECTION", "SSH_TTY", "TEXTUAL_THEME", "COLORFGBG", *LOCALES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")

    def launch(settings: Settings, *, ascii_only: bool = False, theme: str | None = None) -> GrpoTop:
        run(["."], settings, format_name=None, ascii_only=ascii_only, theme=theme)
        return apps[-1]

    return launch


def test_the_settings_file_says_how_the_screen_looks_and_the_command_line_stands_above_it(launched) -> None:
    settings = Settings(screen={"theme": "light", "ascii": True, "redraws_per_second": 8.0})
    app = launched(settings)
    assert (app.theme, app.glyphs, app._period) == ("grpo-top-light", ASCII, 1 / 8)
    assert launched(settings, theme="dark").theme == "grpo-top-dark"
    app = launched(Settings())
    assert (app.theme, app.glyphs, app._period) == ("grpo-top-dark", UNICODE, 1 / 4)
    assert launched(Settings(), ascii_only=True).glyphs is ASCII


def test_the_linux_console_gets_ascii_and_sixteen_colours(launched, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "linux")
    monkeypatch.delenv("COLORTERM")
    app = launched(Settings())
    assert (app.theme, app.glyphs) == ("grpo-top-ansi", ASCII)
    assert launched(Settings(screen={"ascii": False})).glyphs is UNICODE


def test_a_locale_of_ascii_letters_gets_ascii_and_one_that_is_not_set_says_nothing(
    launched, monkeypatch
) -> None:
    assert launched(Settings()).glyphs is UNICODE
    for name, value, glyphs in (
        ("LANG", "C", ASCII),
        ("LC_CTYPE", "de_DE.UTF-8", UNICODE),
        ("LC_ALL", "POSIX", ASCII),
        ("LC_ALL", "C.utf8", UNICODE),
    ):
        monkeypatch.setenv(name, value)
        assert launched(Settings()).glyphs is glyphs, (name, value)


def test_a_dumb_terminal_has_no_screen(monkeypatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert _on_a_terminal()
    monkeypatch.setenv("TERM", "dumb")
    assert not _on_a_terminal()
