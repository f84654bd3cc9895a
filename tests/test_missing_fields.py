"""What is not logged is never taken for good: without a field no stage is quiet that was not, unless it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from runs import read, recorded_lines

from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

FIRST, LAST = 52, 72
"""Steps of the recording that are enough for its fault."""
QUIET = (Status.OK, Status.INFO)


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    """Steps of a run whose verifier broke, and whose groups lost their variance by it."""
    records = [orjson.loads(line) for line in recorded_lines("verifier_broken")]
    return [record for record in records if record["kind"] == "run" or FIRST <= record["step"] <= LAST]


def _read(folder: Path, records: list[dict[str, Any]]) -> Snapshot:
    log = folder / "rollouts.jsonl"
    log.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return read(log)


def _without(records: list[dict[str, Any]], kind: str, field: str) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in record.items() if name != field} if record["kind"] == kind else record
        for record in records
    ]


def _loud(snapshot: Snapshot) -> set[str]:
    """Detectors that do not take the run for good."""
    loud = (Status.WATCH, Status.WARN, Status.FAIL)
    return {id_ for id_, track in snapshot.tracks.items() if len(track.status) and track.status[-1] in loud}


def test_without_a_field_no_stage_that_was_not_quiet_is_quiet_but_those_that_say_what_they_lack(
    recorded: list[dict[str, Any]], tmp_path: Path
) -> None:
    whole = _read(tmp_path, recorded)
    alarms = {stage.name for stage in whole.triage if stage.status not in QUIET}
    assert len(alarms) >= 2
    fields = sorted(
        {name for record in recorded if record["kind"] == "rollout" for name in record} - {"kind"}
    )
    assert len(fields) > 15
    assert _read(tmp_path, _without(recorded, "rollout", "step")).triage[0].status >= Status.WARN
    for kind, field in [*(("rollout", field) for field in fields), ("step", "metrics"), ("run", "sampling")]:
        found = _read(tmp_path, _without(recorded, kind, field))
        if found.triage[0].status >= Status.WARN:
            continue  # the log cannot be trusted, which is said before all else
        for stage in found.triage:
            quiet = stage.name in alarms and stage.status in QUIET
            assert not quiet or stage.unknown, (field, stage)
        # And no single check takes what is missing for good.
        taken = {id_ for id_ in _loud(whole) - _loud(found) if found.tracks[id_].status[-1] in QUIET}
        assert not taken, (field, taken)
