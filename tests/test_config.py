"""Knobs and what is declared of the run: files, --set, and errors that name what is near."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from runs import group, read, run_record, write_log

from grpo_top.config import RUN_KEYS, ConfigError, Settings, load
from grpo_top.detectors import BY_ID
from grpo_top.pages import page
from grpo_top.records import Success


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
        ("DEGENERATE_GROUPS.threshold=nan", "must be a number"),
        ("DEGENERATE_GROUPS", r"ID\.knob=value"),
        ("DEGENERATE_GROUPS.=1", "has no knob"),
        ("run.group_size=8", r"\[run\] in grpo-top\.toml"),
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
    assert loaded(run_directory=tmp_path).run == {"version_lag_tolerance": 8, "reward_range": (0.0, 1.0)}


def test_everything_that_can_be_declared_of_a_run_is_taken_as_the_records_hold_it(tmp_path: Path) -> None:
    (tmp_path / "grpo-top.toml").write_text(
        """[run]
name = "second"
group_size = 8
version_lag_tolerance = 0
reward_range = [-1, 1.5]
success = {of = "accuracy", at_least = 1}
sampling = {temperature = 1.0, top_k = -1, max_completion_length = 512}
"""
    )
    assert loaded(run_directory=tmp_path).run == {
        "name": "second",
        "group_size": 8,
        "version_lag_tolerance": 0,
        "reward_range": (-1.0, 1.5),
        "success": Success("accuracy", 1.0),
        "sampling": {"temperature": 1.0, "top_k": 0, "max_tokens": 512},
    }


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("grup_size = 8", "has no grup_size; .*did you mean group_size"),
        ("group_size = 7.5", r"write group_size = 8"),
        ("group_size = true", r"write group_size = 8"),
        ("version_lag_tolerance = -1", "write version_lag_tolerance = 2"),
        ('version_lag_tolerance = "two"', "write version_lag_tolerance = 2"),
        ("reward_range = [1, 0]", r"write reward_range = \[0, 1\]"),
        ("reward_range = 1", r"write reward_range = \[0, 1\]"),
        ("reward_range = [0, inf]", r"write reward_range = \[0, 1\]"),
        ("success = 1", "write success = "),
        ('success = {of = "reward"}', "write success = "),
        ('success = {of = "reward", at_least = "all"}', "write success = "),
        ("sampling = 1.0", "write sampling = "),
        ("sampling = {temprature = 1.0}", "has no temprature; .*did you mean temperature"),
        ('sampling = {temperature = "cold"}', "has no temperature"),
        ("name = 3", "write name = "),
    ],
)
def test_what_cannot_be_declared_is_an_error_that_names_the_nearest_and_the_form(
    line: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "grpo-top.toml").write_text(f"[run]\n{line}\n")
    with pytest.raises(ConfigError, match=says) as raised:
        loaded(run_directory=tmp_path)
    assert str(tmp_path / "grpo-top.toml") in str(raised.value)
    assert "\n" not in str(raised.value)


def test_run_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "grpo-top.toml").write_text("run = 3\n")
    with pytest.raises(ConfigError, match="run must be a table"):
        loaded(run_directory=tmp_path)


def test_what_the_user_declares_stands_above_what_the_log_says(tmp_path: Path) -> None:
    records = [run_record(group_size=4, reward_range=[0, 1])]
    for step in range(1, 4):
        records += group(step, "a", (0.0, 5.0))
    log = write_log(tmp_path / "log.jsonl", records)
    facts = read(log, settings=Settings(run={"group_size": 2, "reward_range": (0.0, 5.0)})).run
    assert (facts.group_size, facts.reward_range, facts.reward_range_declared) == (2, (0.0, 5.0), True)


def test_a_page_shows_the_value_in_force_and_where_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "grpo-top.toml").write_text("[TRUNCATION]\nsustain = 9\n[KL_PINNED]\nenabled = false\n")
    settings = loaded("TRUNCATION.fail=0.5", run_directory=tmp_path)
    text = " ".join(page(BY_ID["TRUNCATION"], settings, width=400).split())
    assert f"(default 5; set in {tmp_path / 'grpo-top.toml'})" in text
    assert (
        "fail 0.5 share above which it is a failure (default 0.3; set in --set TRUNCATION.fail=0.5)" in text
    )
    assert "threshold 0.1 share" in text
    assert f"switched off in {tmp_path / 'grpo-top.toml'}" in page(BY_ID["KL_PINNED"], settings)


def test_the_settings_that_the_readme_shows_can_be_set(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "grpo-top.toml").write_text("\n".join(examples))
    settings = loaded(run_directory=tmp_path)
    assert settings.run.keys() == RUN_KEYS.keys() - {"name"}
    assert settings.values("DEGENERATE_GROUPS") == {"threshold": 0.5}
    assert not settings.enabled("KL_PINNED")
    assert {"reward", "components.format"} <= settings.fields.keys()
    assert settings.names == {"my/kl_metric": "kl"}


def test_names_of_fields_and_metrics_are_kept(tmp_path: Path) -> None:
    (tmp_path / "grpo-top.toml").write_text(
        """[fields]
reward = "meta.score"
components.format = "scores.fmt"
"sampling.temperature" = "temp"
kl = "stats.kl"

[names]
"my/kl_metric" = "kl"
"rewards/brevity" = "component_mean{brevity}"
"""
    )
    settings = loaded(run_directory=tmp_path)
    assert settings.fields == {
        "reward": "meta.score",
        "components.format": "scores.fmt",
        "sampling.temperature": "temp",
        "kl": "stats.kl",
    }
    assert settings.names == {"my/kl_metric": "kl", "rewards/brevity": "component_mean{brevity}"}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('[fields]\nrewrad = "score"', "knows no rewrad; did you mean reward"),
        ('[fields]\ncompletions = "out"', "knows no completions; did you mean completion"),
        ('[fields]\nsampling.temprature = "t"', "knows no sampling.temprature"),
        ('[fields]\nlocation = "x"', "knows no location"),
        ("[fields]\nreward = 3", 'write reward = "meta.score"'),
        ('[fields]\nreward = ""', 'write reward = "meta.score"'),
        ("fields = 3", r"such as \[fields\] with"),
        ('[names]\n"my/kl" = "kll"', "knows no kll; did you mean kl"),
        ('[names]\n"my/kl" = "reward"', "knows no reward; did you mean reward_mean"),
        ('[names]\n"my/kl" = {to = "kl"}', 'write "my/kl_metric" = "kl"'),
    ],
)
def test_a_name_that_is_not_known_is_an_error_that_names_the_nearest(
    lines: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "grpo-top.toml").write_text(lines + "\n")
    with pytest.raises(ConfigError, match=says):
        loaded(run_directory=tmp_path)


def test_names_stand_in_a_file() -> None:
    with pytest.raises(ConfigError, match=r"\[fields\] in grpo-top\.toml"):
        loaded("fields.reward=score")
