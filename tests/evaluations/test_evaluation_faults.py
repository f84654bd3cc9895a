"""Every labelled run, healthy or with one fault: what is found, how soon, and what is said falsely at any step."""

from __future__ import annotations

import gzip
import importlib.util
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


SAME_CAUSE: dict[str, tuple[str, ...]] = {
    "advantage_collapse": ("DEGENERATE_GROUPS", "SATURATED_REWARD", "BASE_SUCCESS_ZERO", "SPARSE_REWARD"),
    "entropy_collapse": ("ENTROPY_COLLAPSE",),
    "reward_hacking": ("HELDOUT_FLAT", "LEAKAGE"),
    "length_pathology": ("TRUNCATION", "LENGTH_HACKING"),
    "clip_saturation": ("CLIP_SATURATION",),
    "kl_drift": ("KL_EXPLODING", "KL_PINNED"),
    "gradient_pathology": ("GRAD_SPIKES", "NO_UPDATE"),
    "reward_composition": ("UNIFORM_COMPONENT", "FORMAT_EXPLOIT"),
    "plateau": ("REWARD_PLATEAU",),
}
"""What rl-doctor calls a cause → what it is called here."""


def of_rl_doctor() -> str:
    """The same runs read from their trainer's metrics by rl-doctor, where it is installed: one row beside ours."""
    from rl_doctor import Severity, __version__, diagnose, run_from_records  # noqa: PLC0415 not a dependency

    false = right = 0
    for name, label in LABELS.items():
        rows: dict[int, dict[str, Any]] = {}
        (log,) = (FAULTS / name).glob("*.jsonl.gz")
        with gzip.open(log) as lines:
            for line in lines:
                record = json.loads(line)
                if record["kind"] in ("step", "eval"):
                    prefix = "eval/" if record["kind"] == "eval" else ""
                    row = rows.setdefault(record["step"], {"step": record["step"]})
                    row |= {f"{prefix}{key}": value for key, value in record["metrics"].items()}
        config = {"algorithm": "grpo", "num_generations": label.get("group_size", 8)}
        diagnosis = diagnose(run_from_records(list(rows.values()), config=config))
        warned = {finding.detector for finding in diagnosis.findings if finding.severity >= Severity.WARNING}
        if label.get("healthy"):
            false += bool(warned)
        else:
            causes = label["first_cause_any"]
            wanted = {*label["expect"], *(causes if isinstance(causes, list) else ())}
            right += any(set(SAME_CAUSE.get(name_, ())) & wanted for name_ in warned)
    healthy = sum(bool(label.get("healthy")) for label in LABELS.values())
    return (
        f"rl-doctor {__version__}, from the trainer's metrics: warns on {false} of {healthy} healthy runs, names the "
        f"right cause in {right} of {len(LABELS) - healthy}"
    )


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
    if importlib.util.find_spec("rl_doctor"):
        table.append(of_rl_doctor())
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(table) + "\n")
    assert {name: outcome.missing for name, outcome in outcomes.items() if outcome.missing} == {}
    assert {name: o.first_cause for name, o in outcomes.items() if not o.first_cause_fits} == {}


def test_nothing_is_said_falsely_at_any_step(outcomes: dict[str, Outcome]) -> None:
    assert {name: outcome.false for name, outcome in outcomes.items() if outcome.false} == {}
