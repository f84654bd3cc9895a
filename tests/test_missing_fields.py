"""What is not logged is never taken for good: without a field no stage is ok that was not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from runs import read, recorded_lines

from grpo_top.report import check_object
from grpo_top.snapshot import QUIET, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

Record = dict[str, Any]
STEPS = {
    "verifier_broken": (52, 59),
    "sampler_cold": (50, 53),
    "stale_weights": (63, 65),
    "truncation": (1, 5),
}
"""Of each labelled run, steps that are enough for its fault."""
WHERE_IT_IS_SEEN = {
    "verifier_broken": {"learnable", "reward", "variance"},
    "sampler_cold": {"rollouts"},
    "stale_weights": {"staleness"},
    "truncation": {"format"},
}


def _read(folder: Path, records: Iterable[Record]) -> Snapshot:
    log = folder / "rollouts.jsonl"
    log.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return read(log)


def _fields(records: Iterable[Record]) -> set[tuple[str, ...]]:
    """Every field by the kind of its record and its path, those of the objects in it as well."""
    found: set[tuple[str, ...]] = set()
    for record in records:
        for name, value in record.items():
            found.add((record["kind"], name))
            found |= {(record["kind"], name, inner) for inner in (value if isinstance(value, dict) else ())}
    return {field for field in found if field[1] not in ("kind", "schema")}


def _without(records: Iterable[Record], field: tuple[str, ...]) -> Iterator[Record]:
    kind, name, *inner = field
    for record in records:
        if record["kind"] != kind or name not in record:
            yield record
        elif not inner:
            yield {key: value for key, value in record.items() if key != name}
        elif isinstance(record[name], dict):
            yield {**record, name: {key: value for key, value in record[name].items() if key != inner[0]}}


def _ok(snapshot: Snapshot) -> set[str]:
    return {stage["name"] for stage in check_object(snapshot)["triage"] if stage["status"] == "ok"}


def _loud(snapshot: Snapshot) -> set[str]:
    """Checks that do not take the run for good."""
    return {id_ for id_, track in snapshot.tracks.items() if track.status[-1] not in (*QUIET, Status.UNKNOWN)}


@pytest.mark.parametrize("name", STEPS)
def test_without_any_one_field_no_stage_is_ok_that_was_not(name: str, tmp_path: Path) -> None:
    first, last = STEPS[name]
    records: list[Record] = [orjson.loads(line) for line in recorded_lines(name)]
    records = [record for record in records if first <= record.get("step", first) <= last]
    whole = _read(tmp_path, records)
    assert {stage.name for stage in whole.triage if stage.status >= Status.WARN} == WHERE_IT_IS_SEEN[name]
    fields = _fields(records)
    assert len(fields) > 60
    if name != "truncation":  # which of the trainer's numbers lacks is asked once: it is the same for all
        fields = {field for field in fields if field[1:2] != ("metrics",) or len(field) == 2}
    for field in sorted(fields):
        found = _read(tmp_path, _without(records, field))
        assert _ok(found) <= _ok(whole), field
        if found.judged_step is None or found.triage[0].status >= Status.WARN:
            continue  # the log cannot be trusted, which is said before all else
        taken_for_good = {id_ for id_ in _loud(whole) - _loud(found) if found.tracks[id_].status[-1] in QUIET}
        assert not taken_for_good, field
