"""Stage 0, data: are the groups what they claim to be?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Verdict, group_rows
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import ShareWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts


class GroupIntegrity(Detector):
    """Groups that are not one prompt sampled group_size times."""

    id = "GROUP_INTEGRITY"
    stage = 0
    severity = Status.WARN
    series = ("rollouts",)
    knobs = (
        Knob("threshold", 0.2, "share of the last 20 steps' groups that break a rule"),
        Knob("least", 3, "broken groups among them, at least"),
    )
    page = Page(
        what=(
            "Groups are not what an advantage takes them for: one prompt, sampled group_size times. It "
            "compares a rollout with others of the same prompt; where groups are cut wrongly it compares "
            "with other prompts, or with nobody, and the sign of the update is a matter of chance, while "
            "loss and KL look as ever."
        ),
        looks_like=(
            "Groups of one; one prompt under many group ids; two prompts in one group; strips of rewards of "
            "uneven length."
        ),
        decides=(
            "Counts three faults over the groups of the last 20 steps, each by itself: a prompt whose "
            "rollouts of one step are scattered over several groups that are each too small; a group that "
            "holds different prompts; a size that is not the declared group_size (not judged where records "
            "were unreadable). Fires when `threshold` of the groups, and at least `least`, have one of them. "
            "A prompt that is asked twice in a step, in two whole groups, is no fault."
        ),
        try_next=(
            (
                "Look at the group ids of the attached rollouts: an id made per rollout and not per prompt "
                "is the usual cause"
            ),
            "If the batch is repeated before it is sampled, make the id before repeating, not after",
            "If data workers shuffle, check that the trainer groups by id and not by position",
            "If rollouts are dropped (errors, filters, time limits), drop or refill the whole group",
        ),
        mistaken_for="A log that holds only a sample of each group; the last step of a run that was stopped.",
        related=("DEGENERATE_GROUPS", "UNREADABLE_LINES", "LEAKAGE"),
    )
    threshold: float
    least: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._faults = {name: ShareWindow(WINDOW) for name in ("scattered", "mixed", "size")}
        self._unreadable = ShareWindow(WINDOW)

    def observe(self, facts: StepFacts) -> Verdict:
        """Count the groups of this step that have each fault."""
        batch = facts.batch
        if batch is None or facts.run.some_rollouts:
            return UNKNOWN
        self._unreadable.add(facts.unreadable, facts.unreadable, facts.step)
        for name, broken in self._broken(batch, facts.run.group_size).items():
            self._faults[name].add(int(np.count_nonzero(broken)), batch.groups, facts.step)
        worst = self._worst()
        fault = self._faults[worst]
        if fault.share >= self.threshold and fault.hits >= self.least:
            return Verdict(Status.WARN, fault.share, self.threshold, fault.first_hit)
        return Verdict(Status.OK, fault.share, self.threshold)

    def describe(self, facts: StepFacts) -> Details:
        """Which fault, on how many groups, and the first rollout of each broken group of this step."""
        batch, worst = facts.batch, self._worst()
        fault = self._faults[worst]
        of = numbers.part_of(fault.hits, fault.items)
        what = {
            "scattered": f"{of} groups are pieces of one prompt that has several group ids in its step",
            "mixed": f"{of} groups hold different prompts under one group id",
            "size": f"{of} groups do not hold the {facts.run.group_size} rollouts that were declared",
        }[worst]
        return Details(
            summary=what,
            evidence={
                "fault": worst,
                "groups_of_last_20_steps": fault.items,
                **{f"{name}_groups": counted.hits for name, counted in self._faults.items()},
                "declared_group_size": facts.run.group_size,
                "sizes": {} if batch is None else _sizes(batch),
            },
            rows=() if batch is None else group_rows(batch, self._broken(batch, facts.run.group_size)[worst]),
        )

    def _worst(self) -> str:
        """The fault that most groups have."""
        return max(self._faults, key=lambda name: self._faults[name].hits)

    def _broken(self, batch: Batch, declared: int | None) -> dict[str, NDArray[np.bool_]]:
        """Per fault, which groups have it."""
        tasks, none = batch.column("task"), np.zeros(batch.groups, np.bool_)
        first = tasks[batch.group_first]
        scattered = mixed = odd = none
        other = tasks != first[batch.group]
        if np.count_nonzero(other):
            mixed = none.copy()
            mixed[batch.group[other & (tasks >= 0)]] = True
            mixed &= first >= 0
        small = batch.group_size < (declared or 2)
        if np.count_nonzero(small):
            first, scattered = first.astype(np.int64), none.copy()
            pieces = small & (first >= 0) & ~mixed
            if pieces.any():
                of_task = np.bincount(first[pieces] - first[pieces].min())
                scattered[pieces] = of_task[first[pieces] - first[pieces].min()] >= 2
        if declared is not None and not self._unreadable.hits:
            odd = (batch.group_size != declared) & ~scattered
        return {"scattered": scattered, "mixed": mixed, "size": odd}


def _sizes(batch: Batch) -> dict[str, int]:
    """How many groups of this step have which size."""
    sizes, counts = np.unique(batch.group_size, return_counts=True)
    return {str(size): int(count) for size, count in zip(sizes, counts, strict=True)}
