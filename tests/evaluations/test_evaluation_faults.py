"""Every labelled run, healthy or with one fault: what is found, how soon, and what is said falsely at any step."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

SHARED = Path(__file__).parents[3] / "shared"
FAULTS = SHARED / "faults"
LABELS: dict[str, dict[str, Any]] = (
    json.loads((FAULTS / "labels.json").read_text()) if (FAULTS / "labels.json").is_file() else {}
)
EARLY = 40
ROUGH_START = ("PARSE_FAILURES", "TRUNCATION")
"""The small base model parses badly and runs long at first: tolerated before step 40, if it has cleared at the end."""

pytestmark = pytest.mark.skipif(not LABELS, reason="the labelled runs lie beside the project")


@dataclass
class Outcome:
    """What one run's label asks for, and what came of it."""

    missing: list[str] = field(default_factory=list)
    delays: dict[str, int] = field(default_factory=dict)
    """Expected finding → steps from the fault's onset to its first verdict."""
    first_cause: str | None = None
    first_cause_fits: bool = True
    false: dict[str, str] = field(default_factory=dict)
    """Finding that should not be → the steps on which it stood."""


def look(name: str) -> Snapshot:
    monitor = Monitor([str(FAULTS / name)], Settings())
    monitor.read_all()
    return monitor.snapshot(finished=True)


def judge(name: str, snapshot: Snapshot) -> Outcome:
    """Compare with the label. A track holds the verdict at every step, as it was when that step was the last."""
    label = LABELS[name]
    outcome = Outcome(first_cause=snapshot.first_cause)
    fits = label["first_cause_any"]
    outcome.first_cause_fits = fits == "any" or snapshot.first_cause in fits
    tolerated, onset = label["tolerated"], label.get("onset", 1)
    for id_, track in snapshot.tracks.items():
        fired = track.steps[track.status >= Status.WARN]
        if id_ in label["expect"]:
            late = fired[fired >= onset]
            if len(late):
                outcome.delays[id_] = int(late[0]) - onset
            else:
                outcome.missing.append(id_)
        if id_ in ROUGH_START and (not label.get("healthy") or track.status[-1] < Status.WARN):
            fired = fired[fired >= EARLY]
        dragged_along = tolerated == "any" or id_ in tolerated
        if not label.get("healthy") and (id_ in label["expect"] or dragged_along):
            # It is false all the same before the fault has begun.
            fired = fired[fired < onset] if onset > EARLY else fired[:0]
        if len(fired):
            outcome.false[id_] = f"{fired[0]}-{fired[-1]}" if len(fired) > 1 else str(fired[0])
    return outcome


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {name: judge(name, look(name)) for name in LABELS}


def test_the_labelled_runs(outcomes: dict[str, Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        (
            f"{name:<18} {outcome.first_cause or '-':<20} {'' if outcome.first_cause_fits else 'NO':<3}"
            f" {', '.join(f'{id_} +{delay}' for id_, delay in outcome.delays.items()):<62}"
            f" {', '.join(outcome.missing) or '-':<20}"
            f" {', '.join(f'{id_} {steps}' for id_, steps in outcome.false.items()) or '-'}"
        )
        for name, outcome in outcomes.items()
    ]
    delays = [delay for outcome in outcomes.values() for delay in outcome.delays.values()]
    expected = sum(len(label["expect"]) for label in LABELS.values())
    table = [
        f"{'run':<18} {'first cause':<24} {'found, steps after onset':<62} {'missing':<20} false at any step",
        *rows,
        (
            f"found {len(delays)} of {expected} expected, median delay {np.median(delays):.0f} steps; first cause fits"
            f" in {sum(outcome.first_cause_fits for outcome in outcomes.values())} of {len(LABELS)} runs"
        ),
    ]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(table) + "\n")
    assert {name: outcome.missing for name, outcome in outcomes.items() if outcome.missing} == {}
    assert {name: o.first_cause for name, o in outcomes.items() if not o.first_cause_fits} == {}


def test_nothing_is_said_falsely_at_any_step(outcomes: dict[str, Outcome]) -> None:
    assert {name: outcome.false for name, outcome in outcomes.items() if outcome.false} == {}
