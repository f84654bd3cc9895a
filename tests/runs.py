"""Recorded runs and small logs for the tests, and how they are read."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_top.config import Settings
from grpo_top.demo.recordings import find
from grpo_top.monitor import Monitor
from grpo_top.report import check_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpo_top.snapshot import Snapshot

DATA = Path(__file__).parent / "data"
RECORDED = ("healthy", "sampler_cold", "verifier_broken", "stale_weights", "truncation")
SAMPLES = (
    *("trl-normal", "trl-lowtemp", "verl-healthy", "verl-length_runaway", "verl-v1"),
    *("prime-rl-healthy-short", "prime-rl-sampler_cold", "prime-rl-stale_weights", "prime-rl-evaluated"),
    *("verifiers-v0.1.14_single", "verifiers-v0.1.14_tool", "verifiers-v0.4.0_single", "openpipe-art-run"),
    *("rllm-sampler_cold", "miles-sampler_cold", "miles-stale_weights"),
    *(
        "ms-swift",
        "tinker-multiturn",
        "nemo-rl-truncation",
        "skyrl",
        "areal",
        "openrlhf",
        "sglang-sampler_cold",
    ),
)


def recorded_lines(name: str) -> list[bytes]:
    """The lines of a recorded real run, without their newlines."""
    return list(find(name).lines())


def unpack_sample(name: str, directory: Path) -> Path:
    """A real framework's run directory."""
    with tarfile.open(DATA / "samples" / f"{name}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory


def truth(folder: str, name: str) -> Any:
    """What was computed apart from the raw records of a run."""
    suffix = ".json.gz" if folder == "faults" else ".truth.json.gz"
    return json.loads(gzip.decompress((DATA / folder / f"{name}{suffix}").read_bytes()))


def write_log(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    """A grpo-top/1 log of these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(*where: Path, settings: Settings | None = None) -> Snapshot:
    """Everything that is there, read to its end."""
    monitor = Monitor([str(place) for place in where], settings or Settings())
    monitor.read_all()
    return monitor.snapshot(finished=True)


def values(snapshot: Snapshot, name: str) -> dict[int, float]:
    """A series as step → value; not a number is unknown."""
    series = snapshot.series[name]
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def comparable(snapshot: Snapshot) -> dict[str, Any]:
    """What must be equal between two ways of reading the same run."""
    found = check_object(snapshot, series=True)
    for name in ("sources", "skipped", "standing"):
        del found[name]
    return found


def run_record(**fields: Any) -> dict[str, Any]:
    """The first record of a log."""
    return {
        "kind": "run",
        "schema": "grpo-top/1",
        "run": "test",
        "framework": "trl",
        "algorithm": "grpo",
        **fields,
    }


def rollout(step: int, group: str, index: int, reward: float | None, **fields: Any) -> dict[str, Any]:
    """A train rollout."""
    return {"kind": "rollout", "step": step, "group": group, "index": index, "reward": reward, **fields}


def group(step: int, name: str, rewards: Iterable[float | None], **fields: Any) -> list[dict[str, Any]]:
    """A group of train rollouts, each with a text of its own."""
    return [
        rollout(step, name, index, reward, **{"completion": f"{name} {index}", **fields})
        for index, reward in enumerate(rewards)
    ]


def step_record(step: int, **metrics: float | None) -> dict[str, Any]:
    """The trainer's own numbers of a step."""
    return {"kind": "step", "step": step, "metrics": metrics}
