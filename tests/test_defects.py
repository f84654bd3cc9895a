"""A part of grpo-top that fails is switched off and named; everything else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from runs import recorded_lines

from grpo_top.check_text import check_text
from grpo_top.config import Settings
from grpo_top.detectors.sampler import SamplerDrift
from grpo_top.formats.native import NativeReader
from grpo_top.monitor import Monitor
from grpo_top.report import check_object, inspect_text

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

pytestmark = pytest.mark.defects


def _read(folder: Path) -> Snapshot:
    monitor = Monitor([str(folder)], Settings())
    monitor.read_all()
    return monitor.snapshot(finished=True)


def test_a_detector_that_raises_is_off_and_the_others_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.jsonl").write_bytes(b"\n".join(recorded_lines("sampler_cold")) + b"\n")
    monkeypatch.setattr(SamplerDrift, "observe", lambda self, facts: 1 / 0)
    snapshot = _read(tmp_path)
    assert "LOW_DIVERSITY" in {finding.id for finding in snapshot.findings}
    assert snapshot.first_cause != "SAMPLER_DRIFT"
    (line,) = snapshot.defects
    assert line.startswith("SAMPLER_DRIFT is switched off: ZeroDivisionError at test_defects.py:")
    assert "report" in line
    assert line in check_text(snapshot)
    assert line in inspect_text(snapshot)
    assert check_object(snapshot)["defects"] == [line]


def test_a_reader_that_raises_ends_its_source_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = recorded_lines("healthy")
    (tmp_path / "good.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "zero.jsonl").write_bytes(orjson.dumps({"kind": "run", "schema": "grpo-top/1"}) + b"\n")
    honest = NativeReader.together

    def fails_on_short_files(self: NativeReader, lines: object) -> object:
        if lines.count == 1:  # type: ignore[attr-defined]
            raise KeyError("what a model wrote")
        return honest(self, lines)  # type: ignore[arg-type]

    monkeypatch.setattr(NativeReader, "together", fails_on_short_files)
    snapshot = _read(tmp_path)
    assert snapshot.run.rollouts > 0
    states = {source.where: (source.state, source.note) for source in snapshot.sources}
    state, note = states["zero.jsonl"]
    assert state == "error"
    assert "is not read any further: KeyError at test_defects.py:" in note
    assert "what a model wrote" not in note
    assert states["good.jsonl"][0] != "error"
