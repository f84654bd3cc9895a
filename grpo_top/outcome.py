"""What a run as a whole came to: how many of its groups could be learned from, and which components were uniform."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.snapshot import WINDOW

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

BOTTLENECK = 0.5
"""Share of groups in which a component is uniform from which it is a bottleneck."""
NEAR_TOP, RISE = 0.2, 0.3
"""Shares of the range of a component's mean: how near to its top it is now, and how far it has risen, if learned."""


class Component(NamedTuple):
    """One part of the reward over the whole run."""

    name: str
    groups: int
    """Groups that could be judged by it."""
    uniform: int
    """Those in which it was the same for every rollout."""
    share_of_spread: float | None
    """Its mean within-group spread over the sum of all components'; None where no component has any."""

    learned: bool
    """It rose to the top of what was seen of it, and stays there: uniform because it is mastered."""

    @property
    def role(self) -> str:
        """`bottleneck` where it told nothing apart in most groups, `learned` where that is because it is mastered."""
        if not self.groups or self.uniform < BOTTLENECK * self.groups:
            return ""
        return "learned" if self.learned else "bottleneck"


class Outcome(NamedTuple):
    """The run's outcome for learning."""

    groups: int
    """Groups whose spread is known; 0 where the log holds no rollouts."""
    trainable: int
    ratio: float | None
    """Trainable groups over groups; without rollouts the mean of what the trainer logs. None unknown."""
    components: tuple[Component, ...]
    """The most uniform first."""


def outcome(snapshot: Snapshot) -> Outcome:
    """What the run came to so far."""
    flat = snapshot.groups.columns["flat"][: snapshot.groups.length]
    groups, trainable = int((flat >= 0).sum()), int((flat == 0).sum())
    ratio = trainable / groups if groups else None
    if ratio is None and "zero_variance_group_frac" in snapshot.series:
        flat_share = snapshot.series["zero_variance_group_frac"].values
        flat_share = flat_share[np.isfinite(flat_share)]
        ratio = 1 - float(flat_share.mean()) if len(flat_share) else None
    found = [_component(snapshot, name) for name in snapshot.run.components]
    total = sum(spread for _, spread in found)
    components = [
        component._replace(share_of_spread=spread / total if total > 0 else None)
        for component, spread in found
        if component.groups
    ]
    return Outcome(
        groups,
        trainable,
        ratio,
        tuple(sorted(components, key=lambda component: -component.uniform / component.groups)),
    )


def _component(snapshot: Snapshot, name: str) -> tuple[Component, float]:
    """A component with its mean within-group spread."""
    uniform, spread = (
        snapshot.series.get(f"{series}{{{name}}}")
        for series in ("component_zero_variance", "component_std_mean")
    )
    groups = snapshot.series.get("groups")
    if uniform is None or spread is None or groups is None:
        return Component(name, 0, 0, None, False), 0.0
    known = np.isfinite(uniform.values) & np.isfinite(groups.values) & np.isfinite(spread.values)
    of = groups.values[known]
    count = int(of.sum())
    flat = round(float((uniform.values[known] * of).sum()))
    mean = float((spread.values[known] * of).sum() / count) if count else 0.0
    return Component(name, count, flat, None, _is_learned(snapshot, name)), mean


def _is_learned(snapshot: Snapshot, name: str) -> bool:
    series = snapshot.series.get(f"component_mean{{{name}}}")
    values = series.values[np.isfinite(series.values)] if series is not None else np.empty(0)
    if len(values) < 2 * WINDOW:
        return False
    lowest, highest = float(values.min()), float(values.max())
    early, late = float(values[:WINDOW].mean()), float(values[-WINDOW:].mean())
    size = highest - lowest
    return size > 0 and highest - late <= NEAR_TOP * size and late - early >= RISE * size
