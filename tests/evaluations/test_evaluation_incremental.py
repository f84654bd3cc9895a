"""Every labelled run, judged step by step and at once: the same verdicts, findings, evidence and rollouts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from test_incremental import assert_judged_alike, by_step

FAULTS = Path(__file__).parents[3] / "shared" / "faults"
RUNS = sorted(path.name for path in FAULTS.iterdir() if path.is_dir()) if FAULTS.is_dir() else []


@pytest.mark.parametrize("name", [name for name in RUNS if name != "truth"])
def test_a_labelled_run_is_judged_alike_step_by_step_and_at_once(name: str) -> None:
    (log,) = (FAULTS / name).glob("*.jsonl.gz")
    events = by_step(gzip.decompress(log.read_bytes()).splitlines())
    assert_judged_alike(events, (len(events) // 2, len(events) - 1))
