"""A run in five headings: progress, stability, reward, performance, notes. Numbers alone; verdicts come after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from grpo_top.snapshot import Snapshot

COMPONENTS_SHOWN = 4


class Section(NamedTuple):
    """One heading and what stands under it, a few words each."""

    heading: str
    parts: tuple[str, ...]


def summary(snapshot: Snapshot) -> tuple[Section, ...]:
    """The five sections; one about which nothing is logged says so."""
    found = (
        ("progress", _progress(snapshot)),
        ("stability", _stability(snapshot)),
        ("reward", _reward(snapshot)),
        ("performance", _performance(snapshot)),
        ("notes", _notes(snapshot)),
    )
    return tuple(Section(heading, tuple(parts) or ("not logged",)) for heading, parts in found)


def _progress(snapshot: Snapshot) -> Iterator[str]:
    run = snapshot.run
    if run.last_step is None:
        yield "no step yet" if run.since is None else f"no step from {run.since} on, where --since begins"
        return
    if run.total_steps:
        yield f"step {numbers.part_of(run.last_step, run.total_steps)}"
    else:
        several = "s" if run.first_step != run.last_step else ""
        yield f"step{several} {numbers.span(run.first_step or 0, run.last_step)}"
    if run.since is not None:
        yield f"from step {run.since} on alone, as --since says"
    if run.rollouts:
        yield f"{_several(run.rollouts, 'rollout')} in {_several(run.groups, 'group')}"
    yield _several(run.evals, "evaluation")
    if run.step_seconds is not None:
        yield f"{numbers.pace(run.step_seconds)} a step"
        if run.total_steps and run.total_steps > run.last_step:
            yield f"ETA {numbers.seconds(run.step_seconds * (run.total_steps - run.last_step))}"


def _stability(snapshot: Snapshot) -> Iterator[str]:
    yield from _late(snapshot, "kl", "KL", numbers.value, worst=True)
    yield from _late(snapshot, "entropy", "entropy", numbers.value)
    yield from _late(snapshot, "clip_frac", "clipped", numbers.share)
    yield from _late(snapshot, "grad_norm", "gradient norm", numbers.value, worst=True)
    yield from _late(snapshot, "version_lag_max", "lag", numbers.value, worst=True)
    yield from _late(snapshot, "mismatch_kl", "sampler/trainer mismatch", numbers.value)


def _reward(snapshot: Snapshot) -> Iterator[str]:
    yield from _from_to(snapshot, "reward_mean", "mean", numbers.value)
    yield from _from_to(snapshot, "success_rate", "success", numbers.share)
    yield from _late(snapshot, "zero_variance_group_frac", "zero-variance groups", numbers.share)
    for name in snapshot.run.components[:COMPONENTS_SHOWN]:
        yield from _from_to(snapshot, f"component_mean{{{name}}}", name, numbers.value)


def _performance(snapshot: Snapshot) -> Iterator[str]:
    for name in sorted(name for name in snapshot.series if name.partition("{")[0] == "heldout"):
        values = _known(snapshot, name)
        if len(values):
            suite = name.partition("{")[2].rstrip("}") or "held-out"
            best = f", best {numbers.value(float(values.max()))}" if len(values) > 2 else ""
            now = numbers.value(float(values[-1]))
            yield (
                f"{suite} {now}"
                if len(values) == 1
                else f"{suite} {numbers.value(float(values[0]))} → {now}{best}"
            )
    yield from _from_to(snapshot, "completion_tokens_mean", "completion tokens", numbers.value)
    yield from _late(snapshot, "truncation_rate", "truncated", numbers.share)
    yield from _late(snapshot, "parse_failure_rate", "parse failures", numbers.share)
    yield from _late(snapshot, "duplicate_frac", "duplicates", numbers.share)


def _notes(snapshot: Snapshot) -> Iterator[str]:
    run = snapshot.run
    if run.success_rule and run.rollouts:
        yield f"success: {run.success_rule}"
    yield _several(len(snapshot.sources), "source")
    missing = sum(item.status == "missing" for item in snapshot.coverage)
    if missing:
        yield f"{missing} of {len(snapshot.coverage)} things to log missing"
    unknown = sum(_is_unknown(snapshot, id_) for id_ in snapshot.tracks)
    if unknown:
        yield f"{unknown} of {len(snapshot.tracks)} checks cannot be made"
    if snapshot.watches:
        yield f"past a limit, not yet for long: {', '.join(snapshot.watches)}"


def _is_unknown(snapshot: Snapshot, id_: str) -> bool:
    status = snapshot.tracks[id_].status
    return not len(status) or status[-1] == Status.UNKNOWN


def _known(snapshot: Snapshot, name: str) -> NDArray[np.float64]:
    series = snapshot.series.get(name)
    return np.empty(0) if series is None else series.values[np.isfinite(series.values)]


def _late(
    snapshot: Snapshot, name: str, label: str, write: Callable[[float | None], str], worst: bool = False
) -> Iterator[str]:
    """The mean over the last 20 steps, and the highest of all steps where that is much more."""
    values = _known(snapshot, name)
    if not len(values):
        return
    late, highest = float(values[-WINDOW:].mean()), float(values.max())
    most = f" (max {write(highest)})" if worst and highest > 2 * abs(late) else ""
    yield f"{label} {write(late)}{most}"


def _from_to(
    snapshot: Snapshot, name: str, label: str, write: Callable[[float | None], str]
) -> Iterator[str]:
    """The means over the first 20 steps and over the last."""
    values = _known(snapshot, name)
    if not len(values):
        return
    early, late = float(values[:WINDOW].mean()), float(values[-WINDOW:].mean())
    yield f"{label} {write(early)} → {write(late)}" if len(values) >= 2 * WINDOW else f"{label} {write(late)}"


def _several(count: int, what: str) -> str:
    return f"{numbers.count(count)} {what}{'' if count == 1 else 's'}"
