"""Runs made by other tools' generators: their healthy ones raise nothing at any step, their faults are found.

The generators come with `pip install rlprobe rldoctor`; without them this is skipped. By hand, with every length and
ten seeds: `python tests/evaluations/test_evaluation_peers.py`.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from grpo_top.snapshot import Snapshot

LENGTHS, SEEDS = (400, 1000, 2000), range(10)
PROBE_NAMES = {
    "kl_mean": "kl",
    "entropy_mean": "entropy",
    "clip_fraction": "clip_frac",
    "completion_len_mean": "completion_tokens_mean",
    "completion_len_max": "completion_tokens_max",
    "repetition_rate": "repetition_frac",
    "step_time_s": "step_time",
    **{
        name: name
        for name in (
            "reward_mean",
            "reward_std",
            "adv_std",
            "group_reward_std_mean",
            "zero_variance_group_frac",
            "loss",
            "grad_norm",
            "truncation_rate",
        )
    },
}
PROBE_COMPONENT = "reward_component."
PROBE_FAULTS: dict[str, tuple[str, ...]] = {
    "kl_blowup": ("KL_EXPLODING",),
    "entropy_collapse": ("ENTROPY_COLLAPSE",),
    "reward_hack_length": ("LENGTH_HACKING",),
    "format_gaming": ("FORMAT_EXPLOIT", "COMPONENT_DIVERGENCE", "UNIFORM_COMPONENT"),
    "clip_saturation": ("CLIP_SATURATION",),
    "degenerate_groups": ("DEGENERATE_GROUPS",),
    "adv_collapse": ("ADV_COLLAPSE",),
    "grad_pathology": ("GRAD_SPIKES", "NONFINITE_METRIC"),
    "truncation_starve": ("TRUNCATION",),
    "repetition_spiral": ("REPETITION_LOOPS",),
    "reward_std_death": ("REWARD_STD_DEATH", "DEGENERATE_GROUPS"),
    "throughput_rot": ("STEP_TIME_ROT",),
}
"""What rlprobe injects → what should be found. Left out: a critic's faults and KL by position, which GRPO has not."""
DOCTOR_FAULTS: dict[str, tuple[str, ...]] = {
    "entropy_collapse": ("ENTROPY_COLLAPSE",),
    "saturated_groups": ("DEGENERATE_GROUPS", "TRAINABILITY_DECLINE", "SATURATED_REWARD"),
    "too_hard": ("DEGENERATE_GROUPS", "LOW_TRAINABILITY"),
    "reward_hacking": ("HELDOUT_FLAT",),
    "length_hacking": ("LENGTH_HACKING", "HELDOUT_FLAT"),
    "truncation": ("TRUNCATION",),
    "kl_blowup": ("KL_EXPLODING",),
    "clip_saturation": ("CLIP_SATURATION",),
    "grad_spikes": ("GRAD_SPIKES",),
    "plateau": ("REWARD_PLATEAU",),
    "format_domination": ("FORMAT_EXPLOIT", "UNIFORM_COMPONENT"),
}


class Judged(NamedTuple):
    """What one made run was found to have."""

    alarms: dict[str, int]
    """Detectors that warned or failed at any step → the first such step."""
    remarks: dict[str, int]
    """Those that only remarked."""


def probe_rows(fault: str | None, steps: int, seed: int) -> Iterator[dict[str, Any]]:
    """A run of rlprobe's generator as grpo-top/1 records, numbers only: its texts are filler."""
    synth = pytest.importorskip("rlprobe.testing.synth")
    parquet = pytest.importorskip("pyarrow.parquet")
    yield {"kind": "run", "schema": "grpo-top/1", "group_size": 8, "algorithm": "grpo"}
    with tempfile.TemporaryDirectory() as directory:
        synth.generate_run(directory, fault, n_steps=steps, seed=seed, sample_every=10**9)
        files = [*Path(directory).glob("steps*.parquet"), *Path(directory).glob("steps/*.parquet")]
        rows = [row for file in sorted(files) for row in parquet.read_table(file).to_pylist()]
    for row in rows:
        metrics = {ours: row[theirs] for theirs, ours in PROBE_NAMES.items() if row.get(theirs) is not None}
        if row.get("nan_count"):
            metrics["grad_norm"] = math.nan
        metrics |= {
            f"rewards/{key.removeprefix(PROBE_COMPONENT)}/mean": value
            for key, value in row.items()
            if key.startswith(PROBE_COMPONENT) and value is not None
        }
        yield {"kind": "step", "step": row["step"], "metrics": metrics}


def doctor_rows(fault: str | None, steps: int, seed: int) -> Iterator[dict[str, Any]]:
    """A run of rl-doctor's simulator as grpo-top/1 records."""
    simulate = pytest.importorskip("rl_doctor.simulate").simulate
    rows, config = simulate(fault or "healthy", n_steps=steps, seed=seed)
    yield {"kind": "run", "schema": "grpo-top/1", "framework": "trl", "group_size": config["num_generations"]}
    for row in rows:
        score = row.pop("eval/accuracy", None)
        step = row.pop("step")
        yield {"kind": "step", "step": step, "metrics": row}
        if score is not None:
            yield {"kind": "eval", "step": step, "metrics": {"accuracy": score}}


def judged(rows: Iterable[dict[str, Any]]) -> Judged:
    """Read a run; a track holds the verdict at every step, as it was when that step was the last."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log.jsonl"
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        monitor = Monitor([str(log)], Settings())
        monitor.read_all()
        snapshot = monitor.snapshot(finished=True)
    return Judged(_first(snapshot, Status.WARN), _first(snapshot, Status.INFO))


def _first(snapshot: Snapshot, least: Status) -> dict[str, int]:
    found = {}
    for id_, track in snapshot.tracks.items():
        fired = track.steps[track.status >= least]
        if len(fired):
            found[id_] = int(fired[0])
    return found


GENERATORS: dict[str, tuple[Callable[..., Iterator[dict[str, Any]]], dict[str, tuple[str, ...]]]] = {
    "rlprobe": (probe_rows, PROBE_FAULTS),
    "rl-doctor": (doctor_rows, DOCTOR_FAULTS),
}


@pytest.mark.parametrize("peer", GENERATORS)
def test_a_peers_healthy_run_raises_nothing_at_any_step(peer: str) -> None:
    rows, _ = GENERATORS[peer]
    assert {seed: judged(rows(None, 400, seed)).alarms for seed in range(2)} == {0: {}, 1: {}}


@pytest.mark.parametrize(
    ("peer", "fault"),
    [(peer, fault) for peer, (_, faults) in GENERATORS.items() for fault in faults],
)
def test_a_peers_fault_is_found(peer: str, fault: str) -> None:
    rows, faults = GENERATORS[peer]
    found = [judged(rows(fault, 400, seed)).remarks.keys() for seed in range(2)]
    assert any(of_seed & set(faults[fault]) for of_seed in found)


def table(lengths: Iterable[int] = LENGTHS, seeds: Iterable[int] = SEEDS) -> Iterator[str]:
    """A line a peer, fault and length: in how many seeds it was found, and what else was said."""
    lengths, seeds = tuple(lengths), tuple(seeds)
    yield f"{'peer':<10} {'run':<20} {'steps':>6} {'found':>7} {'median first step':>18}  said besides, in seeds"
    for peer, (rows, faults) in GENERATORS.items():
        for fault, expected in {None: (), **faults}.items():
            for steps in lengths:
                of_seeds = [judged(rows(fault, steps, seed)) for seed in seeds]
                hits = [
                    min(said.remarks[id_] for id_ in expected if id_ in said.remarks)
                    for said in of_seeds
                    if said.remarks.keys() & set(expected)
                ]
                besides: dict[str, int] = {}
                for said in of_seeds:
                    for id_ in said.alarms.keys() - set(expected):
                        besides[id_] = besides.get(id_, 0) + 1
                first = str(sorted(hits)[len(hits) // 2]) if hits else "-"
                share = f"{len(hits)}/{len(seeds)}" if expected else "-"
                others = ", ".join(f"{id_} {count}" for id_, count in sorted(besides.items())) or "-"
                yield f"{peer:<10} {fault or 'healthy':<20} {steps:>6} {share:>7} {first:>18}  {others}"


if __name__ == "__main__":
    for line in table(
        map(int, sys.argv[1].split(",")) if len(sys.argv) > 1 else LENGTHS,
        range(int(sys.argv[2])) if len(sys.argv) > 2 else SEEDS,
    ):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
