"""Runs with named samplers, and servers that are asked, for the drift screen: built by hand on small logs."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs import group, read, run_record, step_record, write_log

from grpo_top.snapshot import SamplerChange, SamplerFacts, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.records import Sampling

INTENDED: Sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 32}
NEUTRAL: Sampling = {**INTENDED, "min_p": 0.0, "repetition_penalty": 1.0}
COLD: Sampling = {**NEUTRAL, "temperature": 0.15, "repetition_penalty": 1.05}
MODEL = "the model's generation_config.json"


def run_with(
    sampled: Callable[[int, int], tuple[str | None, Sampling | None]],
    *,
    steps: int = 60,
    groups: int = 4,
    size: int = 6,
    intended: Sampling | None = None,
) -> Snapshot:
    """A run in which `sampled(step, index)` says which sampler a rollout is of, and how it was sampled."""
    records = [run_record(sampling=INTENDED if intended is None else intended, total_steps=2 * steps)]
    for step in range(1, steps + 1):
        for number in range(groups):
            members = group(step, f"{step}-{number}", [float(index % 2) for index in range(size)])
            for index, member in enumerate(members):
                sampler, sampling = sampled(step, index)
                cold = sampling is not None and sampling.get("temperature", 1.0) < 0.5
                given = {"sampler": sampler, "sampling": sampling}
                member.update({name: value for name, value in given.items() if value is not None})
                member.update(policy_version=step - 1, trainer_version=step - 1)
                member["completion"] = "the same" if cold else f"{step} {number} {index}"
            records += members
        records.append(step_record(step, loss=0.1))
    directory = Path(tempfile.mkdtemp(prefix="grpo-top-test-"))
    write_log(directory / "rollouts.jsonl", records)
    return read(directory)


def asked(picture: Snapshot, *servers: SamplerFacts) -> Snapshot:
    """The same run with servers that are looked at."""
    return replace(picture, samplers=servers, last_record_time=picture.time)


def server(
    name: str, *found: tuple[int, Sampling | None, str | None], time: float = 0.0, **fields: Any
) -> SamplerFacts:
    """A server that was found to hold something from a step on: step, sampling, weight version."""
    changes = tuple(SamplerChange(step, time, sampling, weights) for step, sampling, weights in found)
    newest = changes[-1] if changes else None
    given: dict[str, Any] = {
        "engine": "vllm",
        "asked": time,
        "sampling": None if newest is None else newest.sampling,
        "weight_version": None if newest is None else newest.weight_version,
        "changes": changes,
    }
    return SamplerFacts(name, **(given | fields))


def names(count: int) -> list[str]:
    """Addresses of samplers."""
    return [f"gpu{number}:8000" for number in range(1, count + 1)]


@lru_cache(maxsize=1)
def all_equal() -> Snapshot:
    """Three samplers that hold what is intended, and are asked."""
    picture = run_with(lambda step, index: (names(3)[index % 3], NEUTRAL))
    return asked(
        picture, *(server(f"http://{name}", (1, NEUTRAL, "0"), time=picture.time) for name in names(3))
    )


@lru_cache(maxsize=1)
def one_cold() -> Snapshot:
    """The third of three samplers turns cold at step 31, when its weights are synced."""
    picture = run_with(
        lambda step, index: (names(3)[index % 3], COLD if index % 3 == 2 and step > 30 else NEUTRAL)
    )
    origins = {"temperature": MODEL, "repetition_penalty": MODEL}
    servers = [server(f"http://{name}", (1, NEUTRAL, "0"), time=picture.time) for name in names(2)]
    cold = server("http://gpu3:8000", (1, NEUTRAL, "0"), (31, COLD, "30"), time=picture.time, origins=origins)
    return asked(picture, *servers, cold)


@lru_cache(maxsize=1)
def from_the_model() -> Snapshot:
    """Rollouts that do not say how they were sampled; the servers fill in the model's generation_config."""
    picture = run_with(lambda step, index: (None, None))
    filled = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.0}
    origins = dict.fromkeys(("temperature", "top_p", "top_k"), MODEL)
    sglang = {"engine": "sglang", "origins": dict.fromkeys(origins, "SGLang's --sampling-defaults model")}
    return asked(
        picture,
        server("http://gpu1:8000", (60, filled, "59"), time=picture.time, origins=origins),
        server("http://gpu2:30000", (60, filled, "59"), time=picture.time, **sglang),
    )


@lru_cache(maxsize=1)
def gated() -> Snapshot:
    """Servers that do not say what they resolve, and name the flag that opens it."""
    picture = run_with(lambda step, index: (None, None))
    unknown = (
        "sampling defaults are gated: start vLLM with --enable-scale-out",
        "server_info needs VLLM_SERVER_DEV_MODE=1",
    )
    return asked(
        picture,
        *(
            server(f"http://{name}", (60, None, None), time=picture.time, unknown=unknown)
            for name in names(2)
        ),
        server("http://gpu3:8000", asked=None),
    )


@lru_cache(maxsize=1)
def five_hundred() -> Snapshot:
    """500 samplers, of which two differ."""
    every = names(500)

    def sampled(step: int, index: int) -> tuple[str, Sampling]:
        return every[index], COLD if index in {77, 300} and step > 4 else NEUTRAL

    picture = run_with(sampled, steps=8, groups=1, size=500)
    return asked(
        picture,
        *(
            server(f"http://{name}", (1, NEUTRAL, str(index % 2)), time=picture.time)
            for index, name in enumerate(every)
        ),
    )


@lru_cache(maxsize=1)
def behind_a_router() -> Snapshot:
    """One name, behind which are samplers of two configs."""
    picture = run_with(lambda step, index: ("router:8000", COLD if index % 3 == 2 and step > 30 else NEUTRAL))
    turns = [(step, COLD if step % 2 else NEUTRAL, None) for step in range(31, 61)]
    return asked(picture, server("http://router:8000", *turns, time=picture.time))


@lru_cache(maxsize=1)
def not_asked() -> Snapshot:
    """Rollouts without the names of their samplers, and nobody is asked."""
    return run_with(lambda step, index: (None, {**INTENDED, "temperature": 0.15} if step > 30 else INTENDED))


@lru_cache(maxsize=1)
def silent() -> Snapshot:
    """Nothing says how rollouts are sampled."""
    return run_with(lambda step, index: (None, None), intended={})
