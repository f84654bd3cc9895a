"""What was logged once and is no more is not said to be well: a resume with other settings may log less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from runs import group, read, run_record, step_record, write_log

from grpo_top.flowchart import flow_chart
from grpo_top.snapshot import Status
from grpo_top.ui.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

LAST, LOST = 120, 60
SAMPLING = {"temperature": 1.0}


def run(folder: Path, lost: str | None, every: int = 1) -> Snapshot:
    """A run of which a field, or the KL that is logged `every` so many steps, is lost on the way."""
    records = [run_record(group_size=2, sampling=SAMPLING)]
    for step in range(1, LAST + 1):
        fields: dict[str, Any] = {"finish_reason": "stop", "parsed": True, "sampling": SAMPLING}
        numbers = {"entropy": 0.3} | ({"kl": 0.1} if step % every == 0 else {})
        if lost is not None and step > LOST:
            fields.pop(lost, None)
            numbers.pop(lost, None)
        records += [*group(step, "a", (0, 1), **fields), step_record(step, **numbers)]
    return read(write_log(folder / "log.jsonl", records))


@pytest.mark.parametrize(
    ("lost", "check", "lacks"),
    [
        ("kl", "KL_EXPLODING", ("kl",)),
        ("entropy", "ENTROPY_COLLAPSE", ("entropy",)),
        ("parsed", "PARSE_FAILURES", ("parse_failure_rate",)),
        ("sampling", "SAMPLER_DRIFT", ("sampling",)),
    ],
)
def test_a_check_whose_field_is_logged_no_more_is_unknown_from_then_on(
    lost: str, check: str, lacks: tuple[str, ...], tmp_path: Path
) -> None:
    whole, snapshot = run(tmp_path, None), run(tmp_path, lost)
    assert whole.tracks[check].status[-1] == Status.OK
    track = snapshot.tracks[check]
    assert track.status[-1] == Status.UNKNOWN
    assert track.needs == lacks
    assert dict(snapshot.unknown).get(check, ()) == lacks
    stage = snapshot.triage[track.stage]
    assert check in stage.unknown
    assert stage.status == Status.UNKNOWN
    assert flow_chart(snapshot)[track.stage].answer in ("no?", "?")
    assert View(snapshot, LOST + 5).status(check) == Status.OK
    assert View(snapshot, LAST).status(check) == Status.UNKNOWN


def test_a_number_that_is_logged_seldom_is_still_logged(tmp_path: Path) -> None:
    assert run(tmp_path, None, every=50).tracks["KL_EXPLODING"].needs == ()
    assert run(tmp_path, "kl", every=4).tracks["KL_EXPLODING"].needs == ("kl",)
