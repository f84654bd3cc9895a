"""What stands under the settings of each column: its weights, when it was asked, and how many rollouts are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grpo_top.ui.drift.columns import Column, Columns
    from grpo_top.ui.drift.samplers import Deployment, Sampler
    from grpo_top.ui.view import View

NOT_ASKED = "not asked"


def onset(columns: Columns) -> int | None:
    """The first step since which any sampler differs; None where none does, or where nobody knows since when."""
    cells = [cell for column in columns.columns for cell in column.differing.values()]
    return min((cell.since for cell in cells if cell.since is not None and not cell.first_look), default=None)


def weights(view: View, column: Column, policies: Mapping[int, int]) -> str:
    """The weight version of a column at the view's step: `v109`, or from which to which its samplers go."""
    found = {_weights(view, member, policies) for member in column.members}
    if len(found) == 1:
        return found.pop() or numbers.UNKNOWN
    versions = [int(version[1:]) for version in found if version[:1] == "v" and version[1:].isdecimal()]
    if len(versions) == len(found):
        return f"v{min(versions)}–v{max(versions)}"
    return f"{len(found)} versions"


def _weights(view: View, sampler: Sampler, policies: Mapping[int, int]) -> str:
    if sampler.number in policies:
        return f"v{policies[sampler.number]}"
    changes = sampler.changes(view.step)
    version = changes[-1].weight_version if changes else None
    if version is None and sampler.asked is not None and view.cursor is None:
        version = sampler.asked.weight_version
    if version is None:
        return ""
    return f"v{int(version)}" if version.isdecimal() else safe(version)


def policies(view: View) -> tuple[dict[int, int], int | None]:
    """The newest policy version of each sampler among the rollouts of the view's step, and the trainer's."""
    batch = None if view.step is None else view.snapshot.batch(view.step)
    if batch is None:
        return {}, None
    newest: dict[int, int] = {}
    pairs = zip(batch.column("sampler").tolist(), batch.column("policy_end").tolist(), strict=True)
    for sampler, version in pairs:
        if version >= 0:
            newest[sampler] = max(version, newest.get(sampler, version))
    trainer = int(batch.column("trainer_version").max(initial=-1))
    return newest, trainer if trainer >= 0 else None


def asked(view: View, column: Column) -> str:
    """How long ago the samplers of a column last answered."""
    times = [member.asked.asked for member in column.members if member.asked is not None]
    if not times:
        return NOT_ASKED
    known = sorted(max(view.now - time, 0.0) for time in times if time is not None)
    if not known:
        return "no answer yet"
    oldest = f"{_age(known[-1])} ago"
    silent = len(times) - len(known)
    return f"{oldest}, {silent} not yet" if silent else oldest


def _age(seconds: float) -> str:
    """Whole seconds, and tens of them past 10: a number that runs is not read."""
    return numbers.seconds(int(seconds) if seconds < 10 else seconds - seconds % 10)


def rollouts_of(members: Sequence[Sampler], counts: Mapping[int, int]) -> int:
    """Rollouts of some samplers."""
    return sum(counts.get(member.number, 0) for member in members)


def counted(deployment: Deployment, since: int | None) -> dict[int, int]:
    """Rollouts of each sampler from a step on, or of the whole run, up to the view's step."""
    step = deployment.view.step
    return {} if step is None else deployment.carried.counted(-(1 << 62) if since is None else since, step)
