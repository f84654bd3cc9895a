"""Real trackers' folders for the tests, and what the tracker's own reader found in them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from runs import truth

from grpo_top.formats.names import canonical

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot


class Sample(NamedTuple):
    """One run of a tracker's folder."""

    tracker: str
    where: str
    """What is given to the monitor."""
    truth: str
    wanted: str | None = None
    """The name by which the run is asked for, where it is not the newest."""
    steps: int = 120
    finished: bool = True


OFFLINE = "wandb/offline-run-20261130_"
SAMPLES = (
    Sample("tensorboard", "outputs/healthy", "healthy"),
    Sample("tensorboard", "outputs/kl-explode", "kl_explode"),
    Sample("tensorboard", "outputs/truncation", "truncation_cut", steps=90, finished=False),
    Sample("wandb", f"{OFFLINE}120948-rmglbqnw", "healthy"),
    Sample("wandb", f"{OFFLINE}120202-if5qjohq", "kl_explode"),
    Sample("wandb", f"{OFFLINE}120142-y174iocc", "truncation_killed", steps=80, finished=False),
    Sample("trackio", "trackio", "healthy", wanted="healthy", finished=False),
    Sample("trackio", "trackio", "kl_explode", steps=60, finished=False),
    Sample("trackio", "trackio-nfs", "truncation_inbox", finished=False),
    Sample("mlflow", "mlruns", "healthy_file", steps=60),
    Sample("mlflow", "mlflow.db", "kl_explode_sqlite", steps=20),
    Sample("swanlab", "swanlog", "truncation", steps=25),
)


def expected(sample: Sample, series: dict[str, Any]) -> dict[str, dict[int, float | None]]:
    """Canonical series → trainer's step → value, of what a tracker's own reader gives by its own step."""
    counted = sample.tracker in {"wandb", "trackio"} and "train/global_step" in series
    steps = series.get("train/global_step") if counted else None
    step_of = dict(zip(steps["steps"], steps["values"], strict=True)) if steps else None
    found = {}
    for key, points in series.items():
        name = "heldout" if key in {"eval/reward", "eval_reward"} else canonical("trl", key)
        if name is not None and (name == "heldout" or not key.startswith("eval")):
            found[name] = {
                int(step_of[step] if step_of else step): None if value is None else float(value)
                for step, value in zip(points["steps"], points["values"], strict=True)
            }
    return found


def truth_of(sample: Sample) -> dict[str, dict[int, float | None]]:
    """What the monitor must find of a sample."""
    return expected(sample, truth("samples", sample.tracker)[sample.truth]["series"])


def known(snapshot: Snapshot, name: str) -> dict[int, float]:
    """A series as step → value, without what is unknown."""
    series = snapshot.series[name]
    pairs = zip(series.steps.tolist(), series.values.tolist(), strict=True)
    return {step: value for step, value in pairs if not math.isnan(value)}
