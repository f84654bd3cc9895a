"""`[screen]` and `[keys]` of grpo-top.toml: what they take, what they refuse, and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grpo_top.config import ConfigError, load
from grpo_top.config_text import config_text
from grpo_top.detectors import ALL, BY_ID
from grpo_top.screen_settings import ACTS, key_name, shown_key

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.config import Settings


def loaded(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "grpo-top.toml"
    file.write_text(text)
    return load(BY_ID, file, None, [])


def test_what_is_set_of_the_screen_is_taken(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        """
        [screen]
        theme = "light"
        ascii = true
        redraws_per_second = 1

        [keys]
        findings = "F3"
        help = ["?", "ctrl+h"]
        fleet = "alt+f"
        """.replace("F3", "f3"),
    )
    assert settings.screen == {"theme": "light", "ascii": True, "redraws_per_second": 1.0}
    assert settings.keys == {"findings": "f3", "help": "question_mark,ctrl+h", "fleet": "alt+f"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[screen]\nteme = "dark"',
            "[screen] has no teme; it has theme, ascii, redraws_per_second; did you mean theme?",
        ),
        ('[screen]\ntheme = "solarized"', "[screen] theme is not of its form; write theme = "),
        ("[screen]\nredraws_per_second = 900", "write redraws_per_second = 4, from 0.5 to 30"),
        ("[screen]\nascii = 1", "[screen] ascii is not of its form"),
        ("screen = 1", "screen must be a table such as [screen]"),
        ('[keys]\nfinding = "x"', "help, commands, quit; did you mean findings?"),
        ('[keys]\nfindings = "hyper+q"', "[keys] findings is no key; write "),
        ("[keys]\nfindings = []", "[keys] findings is no key"),
        ('[keys]\nfindings = "s"', "[keys] s would be both findings and rollouts: give rollouts another key"),
        ('[keys]\nfindings = "f9"\npause = "f9"', "[keys] f9 would be both findings and pause"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_two_things_may_change_places(tmp_path: Path) -> None:
    assert loaded(tmp_path, '[keys]\nfindings = "s"\nrollouts = "f"').keys == {
        "findings": "s",
        "rollouts": "f",
    }


def test_what_the_user_likes_holds_beside_a_runs_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, run = tmp_path / "grpo-top", tmp_path / "run"
    own.mkdir()
    run.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (own / "grpo-top.toml").write_text(
        '[screen]\ntheme = "light"\nascii = true\n[TRUNCATION]\nthreshold = 0.9\n[keys]\nquit = "Q"'
    )
    (run / "grpo-top.toml").write_text("[screen]\nascii = false\n[TRUNCATION]\nthreshold = 0.2")

    settings = load(BY_ID, None, run, [])

    assert settings.screen == {"theme": "light", "ascii": False}
    assert settings.keys == {"quit": "Q"}
    assert settings.values("TRUNCATION") == {"threshold": 0.2}
    printed = config_text(settings, ALL).splitlines()
    assert next(line for line in printed if line.startswith("theme = ")).endswith(f"# {own}/grpo-top.toml")
    assert next(line for line in printed if line.startswith("ascii = ")).endswith(f"# {run}/grpo-top.toml")


def test_what_is_printed_means_the_same_again(tmp_path: Path) -> None:
    settings = loaded(tmp_path, '[screen]\ntheme = "ansi"\n[keys]\nzoom_in = ["ctrl+up", ">"]\nback = "\\\\"')
    again = loaded(tmp_path, config_text(settings, ALL))
    assert (again.screen, again.keys) == (settings.screen, settings.keys)
    everything = config_text(settings, ALL).replace("\n# ", "\n")
    keys = everything[everything.index("[keys]") : everything.index("---- 0 data")]
    assert all(f"\n{name} = " in keys for name in ACTS)


@pytest.mark.parametrize(
    ("written", "name", "shown"),
    [
        ("?", "question_mark", "?"),
        ("ctrl++", "ctrl+plus", "ctrl++"),
        ("question_mark", "question_mark", "?"),
        ("escape", "escape", "esc"),
        (" ", "space", "space"),
        ("shift+f12", "shift+f12", "shift+f12"),
        ("é", "é", "é"),
        ("f25", None, ""),
        ("", None, ""),
        (7, None, ""),
    ],
)
def test_keys_may_be_written_as_they_are_typed(written: object, name: str | None, shown: str) -> None:
    assert key_name(written) == name
    assert name is None or shown_key(name) == shown
