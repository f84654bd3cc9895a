"""Every folder of real runs that lies beside the project: each is one run, what holds several is several."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_top.config import Settings
from grpo_top.monitor import Monitor

SHARED = Path(__file__).parents[3] / "shared"
SEVERAL = {
    "samples/atropos": 2,
    "samples/miles": 2,
    "samples/mlflow": 2,
    "samples/sglang-request-metrics": 2,
    "samples/tensorboard": 3,
    "samples/tinker-cookbook": 2,
    "samples/trackio": 3,
    "samples/trl": 3,
    "samples/verifiers": 3,
    "samples/verl": 3,
    "samples/wandb": 3,
    "cases/inputs/C54": 2,
}
"""Folders that hold several runs, one beside the other."""
FOLDERS = sorted(
    folder for kind in ("samples", "faults", "cases/inputs") for folder in (SHARED / kind).glob("*/")
)

pytestmark = pytest.mark.skipif(not FOLDERS, reason="the recordings lie beside the project")


def runs_in(folder: Path) -> int:
    monitor = Monitor([str(folder)], Settings())
    monitor.look()
    return len(monitor.selection.runs.all)


def test_each_folder_is_one_run() -> None:
    found = {str(folder.relative_to(SHARED)): runs_in(folder) for folder in FOLDERS}
    wrong = {name: count for name, count in found.items() if count > 1 or name in SEVERAL}
    assert wrong == SEVERAL


def test_what_holds_them_holds_as_many_runs() -> None:
    alone = dict.fromkeys(("samples", "faults", "cases/inputs"), 0)
    for folder in FOLDERS:
        alone[str(folder.parent.relative_to(SHARED))] += runs_in(folder)
    assert {kind: runs_in(SHARED / kind) for kind in alone} == alone
