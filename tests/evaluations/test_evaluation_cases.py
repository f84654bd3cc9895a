"""Small logs made from public bug reports: what is found in each, and that nothing is found that must not be."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.snapshot import Status

SHARED = Path(__file__).parents[3] / "shared"
INDEX = SHARED / "cases" / "index.json"
CASES: list[dict[str, Any]] = json.loads(INDEX.read_text()) if INDEX.is_file() else []
SEPARATE = {"C15", "C65"}
"""Cases whose files are runs of their own."""

pytestmark = pytest.mark.skipif(not CASES, reason="the cases lie beside the project")


def runs_of(case: dict[str, Any]) -> list[Path]:
    """The runs of a case, as what is to be read at once; without those that are played into a directory."""
    files = [INDEX.parent / name for name in case["input_files"] if not name.endswith((".ops.jsonl", ".py"))]
    files = [file for file in files if file.name != "huge.jsonl.zst"]
    if case["id"] in SEPARATE:
        return files
    folders = {file.parent if file.is_file() else file for file in files}
    top = INDEX.parent / "inputs" / case["id"]
    return sorted(folders) if top not in folders and case["id"] == "C54" else [top] if files else []


def found_in(run: Path) -> dict[str, Status]:
    monitor = Monitor([str(run)], Settings())
    monitor.read_all()
    return {finding.id: finding.severity for finding in monitor.snapshot(finished=True).findings}


@pytest.fixture(scope="module")
def findings() -> dict[str, dict[Path, dict[str, Status]]]:
    return {case["id"]: {run: found_in(run) for run in runs_of(case)} for case in CASES}


def test_what_must_not_be_found_is_not(findings: dict[str, dict[Path, dict[str, Status]]]) -> None:
    wrong = {}
    for case in CASES:
        for run, found in findings[case["id"]].items():
            alarms = {id_ for id_, severity in found.items() if severity >= Status.WARN}
            never = alarms if case["healthy"] else set(case["must_not_ids"]) & found.keys()
            if str(run.relative_to(INDEX.parent)) in case.get("control_files_no_finding", ()):
                never |= alarms
            if never:
                wrong[f"{case['id']} {run.name}"] = sorted(never)
    assert wrong == {}


def test_what_is_found(
    findings: dict[str, dict[Path, dict[str, Status]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Some cases are a single step, or a format that is not read: the table is for people, the bar a floor."""
    wanted = found = 0
    rows = []
    for case in CASES:
        ids = {id_ for run in findings[case["id"]].values() for id_ in run}
        missing = [" or ".join(any_of) for any_of in case["expected_ids"] if not ids & set(any_of)]
        wanted += len(case["expected_ids"])
        found += len(case["expected_ids"]) - len(missing)
        rows.append(f"{case['id']} {case['framework'][:30]:<30} {', '.join(sorted(ids)) or '-'}")
        rows += [f"{'':<8}missing {name}" for name in missing]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(rows) + f"\nfound {found} of {wanted}\n")
    assert found >= 0.7 * wanted
