"""`grpo-top config`: every setting, its value, where it comes from; what is printed can be used as a settings file."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from grpo_top.cli import main
from grpo_top.config import Settings, load
from grpo_top.config_text import config_text
from grpo_top.detectors import ALL, BY_ID

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GIVEN = """
[run]
sampling = {temperature = 0.7, max_tokens = 512}
reward_range = [-1, 1]
success = {of = "accuracy", at_least = 1}

[names]
"my/kl metric" = "kl"

[DEGENERATE_GROUPS]
threshold = 0.5
enabled = false
"""


def test_each_value_says_where_it_comes_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "grpo-top.toml"
    file.write_text(GIVEN)
    assert main(["config", str(tmp_path), "--set", "TRUNCATION.threshold=0.3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"# Settings in force, from {file}"
    assert f'success = {{of = "accuracy", at_least = 1.0}} # {file}' in lines
    at = lines.index("[DEGENERATE_GROUPS]")
    assert lines[at + 1].startswith("threshold = 0.5")
    assert f"# {file}; " in lines[at + 1]
    at = lines.index("[TRUNCATION]")
    assert any("# --set TRUNCATION.threshold=0.3; " in line for line in lines[at : at + 3])
    assert any(line.startswith("# enabled = true") and "# default; " in line for line in lines)


def test_what_is_printed_is_a_settings_file_with_the_same_meaning(tmp_path: Path) -> None:
    file = tmp_path / "grpo-top.toml"
    file.write_text(GIVEN)
    settings = load(BY_ID, file, None, [])
    printed = config_text(settings, ALL)
    file.write_text(printed)
    again = load(BY_ID, file, None, [])
    assert (again.run, again.names, again.fields) == (settings.run, settings.names, settings.fields)
    assert {id_: again.values(id_) for id_ in BY_ID} == {id_: settings.values(id_) for id_ in BY_ID}


def test_defaults_are_shown_and_not_fixed() -> None:
    printed = config_text(Settings(), ALL)
    assert all(not of for of in tomllib.loads(printed).values())
    for detector in ALL:
        assert f"[{detector.id}]" in printed
        assert all(f"# {knob.name} = " in printed for knob in detector.knobs)
