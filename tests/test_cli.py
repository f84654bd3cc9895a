"""The command line as a user types it: output, exit statuses, and one line for what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from runs import group, recorded_lines, rollout, run_record, step_record, write_log

from grpo_top.cli import main

if TYPE_CHECKING:
    from pathlib import Path

TOP_LEVEL = [
    "schema",
    "run",
    "sources",
    "coverage",
    "triage",
    "first_cause",
    "findings",
    "unknown",
    "standing",
    "skipped",
]
FINDING = {
    "id",
    "stage",
    "severity",
    "active",
    "first_step",
    "last_step",
    "episodes",
    "value",
    "threshold",
    "summary",
    "evidence",
    "rollouts",
    "try",
    "caused_by",
}


def recorded(name: str, directory: Path) -> str:
    (directory / "rollouts.jsonl").write_bytes(b"\n".join(recorded_lines(name)) + b"\n")
    return str(directory)


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = main(["check", "--json", *arguments])
    return status, json.loads(capsys.readouterr().out)


def test_check_json_has_the_shape_of_the_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = checked(capsys, recorded("sampler_cold", tmp_path))
    assert status == 1
    assert list(found) == TOP_LEVEL
    assert found["schema"] == "grpo-top/check/1"
    assert found["run"]["steps"] == {"first": 1, "last": 120, "count": 120}
    assert found["run"]["rollouts"] == 3840
    assert [stage["stage"] for stage in found["triage"]] == list(range(9))
    assert {stage["status"] for stage in found["triage"]} <= {"ok", "watch", "warn", "fail", "unknown"}
    assert found["first_cause"] == "SAMPLER_DRIFT"
    for finding in found["findings"]:
        assert set(finding) == FINDING
    assert found["findings"][0]["rollouts"][0].keys() == {"where", "step", "group", "index"}


def test_series_are_printed_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = checked(capsys, "--series", recorded("healthy", tmp_path))
    series = found["series"]["reward_mean"]
    assert series["origin"] == "rollouts"
    assert len(series["steps"]) == len(series["values"]) == 120


def test_a_number_that_is_not_finite_is_null_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"kind": "step", "step": 1, "metrics": {"kl": NaN, "loss": 0.5}}\n')
    _, found = checked(capsys, "--series", str(log))
    assert found["series"]["kl"]["values"] == [None]


def test_the_exit_status_is_0_where_nothing_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", recorded("healthy", tmp_path)]) == 0
    assert "no finding stands" in capsys.readouterr().out


@pytest.mark.parametrize(("fail_on", "status"), [("never", 0), ("fail", 1), ("warn", 1)])
def test_fail_on_decides_the_exit_status(
    fail_on: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--fail-on", fail_on, recorded("sampler_cold", tmp_path)]) == status
    assert "first cause, stop here first" in capsys.readouterr().out


def test_nothing_readable_is_one_line_on_standard_error_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert str(tmp_path) in printed.err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("check --set NO_SUCH.knob=1 .", "there is no detector NO_SUCH"),
        ("check --set DEGENERATE_GROUPS.treshold=1 .", "did you mean threshold?"),
        ("check --config unknown.toml .", "unknown.toml: there is no detector RUN; did you mean run?"),
        ("check --config broken.toml .", "broken.toml: "),
        ("check --format nonsense .", "no format is called 'nonsense'; there are: "),
        ("check --nonsense", "there is no option --nonsense"),
        ("check --jsn", "did you mean --json?"),
        ("check --fail-on always", "choose from 'warn', 'fail', 'never'"),
        ("check --follow --for long", "long is no number above 0"),
        ("check --for 5 .", "--for goes with --follow"),
        ("check --on-finding true .", "--on-finding goes with --follow"),
        ("check --series .", "--series goes with --json"),
        ("check --since yesterday .", "yesterday is no step"),
        ("check log.jsnl", "log.jsnl: no such file, directory or URL; did you mean log.jsonl?"),
        ("check . log.jsnl", "log.jsnl: no such file, directory or URL; did you mean log.jsonl?"),
        ("chekc .", "did you mean `grpo-top check`?"),
        ("check http://[1", "http://…: Invalid IPv6 URL"),
        ("check http://127.0.0.1:1/x", "connection refused; look whether the server runs"),
        ("explain DEGENERATE_GROUP", "did you mean DEGENERATE_GROUPS?"),
        ("explain 0it", "it is spoken of in NO_TRAINABLE_GROUPS"),
        ("demo --fault helthy", "the recordings are healthy"),
        ("demo --speed 0", "0 is no number above 0"),
        ("serve --port 99999 .", "99999 is no port"),
        ("serve --token-file nothing .", "--token-file nothing: No such file or directory"),
        ("completion tcsh", "choose from 'bash', 'zsh', 'fish'"),
        ("report .", "required: --out"),
        ("report . --out report.pdf", "must end in .html or .md"),
        ("report . --out nowhere/report.html", "No such file or directory"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_one_line_that_helps_and_status_2(
    arguments: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_log(tmp_path / "log.jsonl", [run_record()])
    (tmp_path / "unknown.toml").write_text("[RUN]\ngroup_size = 8\n")
    (tmp_path / "broken.toml").write_text("[run]\nsuccess = {\n")
    monkeypatch.chdir(tmp_path)
    try:
        status = main(arguments.split())
    except SystemExit as error:
        status = error.code
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("grpo-top")
    assert hint in printed.err


def test_explain_lists_every_detector_and_shows_a_page_with_the_value_in_force(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain"]) == 0
    listing = capsys.readouterr().out
    assert (
        listing.index("BASE_SUCCESS_ZERO")
        < listing.index("DEGENERATE_GROUPS")
        < listing.index("HELDOUT_FLAT")
    )
    assert main(["explain", "degenerate_groups", "--set", "DEGENERATE_GROUPS.threshold=0.55"]) == 0
    page = capsys.readouterr().out
    assert "What to try, in order" in page
    assert "0.55" in page
    assert "set in --set DEGENERATE_GROUPS.threshold=0.55" in " ".join(page.split())


def test_inspect_says_what_was_read_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1)), step_record(1, kl=0.1)])
    (tmp_path / "notes.txt").write_text("nothing\n")
    assert main(["inspect", str(log.parent)]) == 0
    text = capsys.readouterr().out
    assert "log.jsonl" in text
    assert "the ten things to log" in text
    assert "entropy: not logged" in text
    assert "notes.txt" in text


def test_without_a_terminal_the_monitor_behaves_as_check(tmp_path: Path) -> None:
    found = run("-m", "grpo_top", recorded("sampler_cold", tmp_path))
    assert found.returncode == 1
    assert "SAMPLER_DRIFT" in found.stdout


def test_without_a_terminal_the_demo_runs_to_its_end_and_prints_what_check_prints() -> None:
    found = run("-m", "grpo_top", "demo")
    assert found.returncode == 0
    assert "step 120 of 120" in found.stdout
    assert "recording" in found.stdout


def test_the_demo_lists_its_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--list"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} >= {"healthy", "sampler_cold"}


def test_version_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("grpo-top 0.")


def test_what_a_log_says_reaches_the_terminal_only_in_visible_signs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "a\x1b]52;c;QUJD\x07\x9b31m\u202e[/x]"
    records = [
        run_record(run=hostile),
        *[rollout(1, hostile, i, 0.0, task="t", completion="same") for i in range(2)],
    ]
    write_log(tmp_path / "log.jsonl", records)
    for verb in ("check", "inspect"):
        main([verb, str(tmp_path)])
        printed = capsys.readouterr().out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
