"""Knobs and what is declared of the run: files, --set, and errors that name what is near."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grpo_top.config import ConfigError, Settings, load
from grpo_top.detectors import BY_ID

if TYPE_CHECKING:
    from pathlib import Path


def loaded(*overrides: str, file: Path | None = None, run_directory: Path | None = None) -> Settings:
    return load(BY_ID, file, run_directory, overrides)


def test_a_knob_is_set_from_the_command_line() -> None:
    assert loaded("DEGENERATE_GROUPS.threshold=0.5").values("DEGENERATE_GROUPS") == {"threshold": 0.5}


def test_the_run_directorys_file_is_read_and_the_command_line_stands_above_it(tmp_path: Path) -> None:
    (tmp_path / "grpo-top.toml").write_text("[DEGENERATE_GROUPS]\nthreshold = 0.6\nsustain = 7\n")
    settings = loaded("DEGENERATE_GROUPS.threshold=0.5", run_directory=tmp_path)
    assert settings.values("DEGENERATE_GROUPS") == {"threshold": 0.5, "sustain": 7.0}
    assert settings.knobs["DEGENERATE_GROUPS"]["sustain"].origin == str(tmp_path / "grpo-top.toml")


def test_a_named_file_stands_above_the_run_directorys(tmp_path: Path) -> None:
    (tmp_path / "grpo-top.toml").write_text("[TRUNCATION]\nsustain = 7\n")
    named = tmp_path / "mine.toml"
    named.write_text("[TRUNCATION]\nsustain = 9\n")
    assert loaded(file=named, run_directory=tmp_path).values("TRUNCATION") == {"sustain": 9.0}


def test_a_detector_can_be_switched_off() -> None:
    assert not loaded("TRUNCATION.enabled=false").enabled("TRUNCATION")
    assert loaded().enabled("TRUNCATION")


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("DEGENERATE_GROUP.threshold=1", "did you mean DEGENERATE_GROUPS"),
        ("DEGENERATE_GROUPS.treshold=1", "did you mean threshold"),
        ("DEGENERATE_GROUPS.threshold=high", "must be a number"),
        ("DEGENERATE_GROUPS", r"ID\.knob=value"),
    ],
)
def test_what_cannot_be_set_is_an_error_that_names_the_nearest(override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        loaded(override)


def test_a_file_that_is_no_toml_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "grpo-top.toml").write_text("[broken\n")
    with pytest.raises(ConfigError, match=r"grpo-top\.toml"):
        loaded(run_directory=tmp_path)


def test_what_is_declared_of_the_run_is_kept(tmp_path: Path) -> None:
    (tmp_path / "grpo-top.toml").write_text("[run]\nversion_lag_tolerance = 8\nreward_range = [0, 1]\n")
    assert loaded(run_directory=tmp_path).run == {"version_lag_tolerance": 8, "reward_range": [0, 1]}
