"""`check --follow`: a line for each change of a finding while a log grows, and a command that is told of it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from runs import recorded_lines

from grpo_top import alarms
from grpo_top.alarms import Command
from grpo_top.config import Settings
from grpo_top.follow import follow
from grpo_top.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_comes_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_top.follow.AFTER_THE_END", 0.0)


def _follow_while_it_grows(folder: Path, **options: Any) -> tuple[list[str], list[str]]:
    """Follow a recording of which half is there and half comes while it is followed, until it ends."""
    lines = [*recorded_lines("sampler_cold"), b'{"kind": "run", "schema": "grpo-top/1", "finished": true}']
    log = folder / "rollouts.jsonl"
    log.write_bytes(b"\n".join(lines[:1500]) + b"\n")

    def grow() -> None:
        time.sleep(0.05)
        with log.open("ab") as file:
            file.write(b"\n".join(lines[1500:]) + b"\n")

    grower = threading.Thread(target=grow)
    grower.start()
    said: list[str] = []
    complaints: list[str] = []
    follow(Monitor([str(folder)], Settings()), said.append, complaints.append, seconds=60, **options)
    grower.join()
    return said, complaints


def test_a_line_for_each_change_of_a_finding(tmp_path: Path) -> None:
    said, complaints = _follow_while_it_grows(tmp_path)
    drift = [line for line in said if "SAMPLER_DRIFT" in line and "FAIL" in line]
    assert len(drift) == 1
    assert "temperature 0.15 deployed, 1.0 intended; first cause" in drift[0]
    assert any("LOW_DIVERSITY" in line and "follows from SAMPLER_DRIFT" in line for line in said)
    assert len(said) == len({line.split(None, 1)[1] for line in said})
    assert not complaints


def test_a_command_gets_each_new_finding_as_json(tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.mkdir()
    (tmp_path / "run").mkdir()
    said, complaints = _follow_while_it_grows(
        tmp_path / "run", as_json=True, command=f"cat > {told}/$$.json; exit 3"
    )
    events = [json.loads(line) for line in said]
    assert {event["schema"] for event in events} == {"grpo-top/change/1"}
    given = [json.loads(path.read_text()) for path in told.iterdir()]
    ids = {one["finding"]["id"] for one in given}
    assert {"SAMPLER_DRIFT", "LOW_DIVERSITY"} <= ids
    assert all(one["finding"]["severity"] in ("warn", "fail") for one in given)
    assert all(one["event"] in ("found", "worse") for one in given)
    assert complaints
    assert all(line.startswith("on-finding: exit status 3: cat > ") for line in complaints)


def test_a_command_that_hangs_is_ended_with_all_that_it_began() -> None:
    complaints: list[str] = []
    command = Command("sleep 60 & sleep 60", complaints.append, limit=0.1)
    begin = time.perf_counter()
    command.tell(b"{}")
    assert time.perf_counter() - begin < 5
    command.close()
    assert complaints == ["on-finding: ended after 0.1 s: sleep 60 & sleep 60"]


def test_findings_that_wait_too_long_are_dropped_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "WAITING", 1)
    complaints: list[str] = []
    command = Command("sleep 0.2", complaints.append, limit=1)
    for _ in range(5):
        command.tell(b"{}")
    assert any("this one is not told" in line for line in complaints)
    command.close()


def test_it_ends_by_itself_at_the_time_that_was_given_and_says_how_it_stands(tmp_path: Path) -> None:
    (tmp_path / "rollouts.jsonl").write_bytes(b"\n".join(recorded_lines("sampler_cold")) + b"\n")
    ran = subprocess.run(
        [sys.executable, "-m", "grpo_top", "check", str(tmp_path), "--follow", "--for", "0.3"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 1
    assert "SAMPLER_DRIFT" in ran.stdout
    assert ran.stderr == ""
