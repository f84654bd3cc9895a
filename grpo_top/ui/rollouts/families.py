"""A group beside its family: the same numbers over the latest steps, and over those that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.view import View


@dataclass(frozen=True, slots=True)
class Means:
    """Means over some groups; None unknown."""

    name: str
    """What they are of."""
    steps: str = ""
    """`91–110`."""
    reward: float | None = None
    std: float | None = None
    texts: float | None = None
    success: float | None = None
    tokens: float | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """One group, its family now and its family as it was."""

    group: Means
    now: Means
    earlier: Means


class Families:
    """Sets groups beside their families; what a family's means are is worked out once for a view."""

    def __init__(self) -> None:
        self._of: tuple[int, int | None] | None = None
        self._means: dict[str, tuple[Means, Means]] = {}

    def beside(self, view: View, group: int, family: str) -> Beside:
        """A group of the table beside its family: over the last 20 steps up to the view's, and over those before."""
        if self._of != view.key:
            self._of, self._means = view.key, {}
        if family not in self._means:
            self._means[family] = (_late_means(view, group, family), family_means(view, group, family))
        return Beside(_means(view.snapshot, np.array([group]), "group"), *self._means[family])


def _late_means(view: View, group: int, family: str) -> Means:
    snapshot, step = view.snapshot, view.step or 0
    steps = snapshot.groups.columns["step"]
    past = np.unique(steps[: np.searchsorted(steps, step, side="right")])[-WINDOW:]
    first = int(past[0]) if len(past) else step
    return _of_family(snapshot, _family_of(snapshot, np.array([group]))[0], family, first, step)


def family_means(view: View, group: int, family: str) -> Means:
    """The family of a group over the steps that the late ones are compared with."""
    _, first, last = view.compared()
    family_id = _family_of(view.snapshot, np.array([group]))[0]
    return _of_family(view.snapshot, family_id, family, first, last)


def _of_family(snapshot: Snapshot, family_id: int, family: str, first: int, last: int) -> Means:
    steps = snapshot.groups.columns["step"]
    start, stop = np.searchsorted(steps, [first, last + 1])
    rows = np.arange(start, stop)
    rows = rows[_family_of(snapshot, rows) == family_id]
    return _means(snapshot, rows, family, numbers.span(max(first, 0), last))


def _family_of(snapshot: Snapshot, groups: NDArray[np.int64]) -> NDArray[np.int16]:
    first = snapshot.groups.columns["first_row"][groups]
    found: NDArray[np.int16] = snapshot.rollouts.columns["family"][first]
    return found


def _means(snapshot: Snapshot, groups: NDArray[np.int64], name: str, steps: str = "") -> Means:
    if not len(groups):
        return Means(name, steps)
    table, columns = snapshot.groups.columns, snapshot.rollouts.columns
    rows = []
    for step in np.unique(table["step"][groups]).tolist():
        batch = snapshot.batch(step)
        if batch is not None:
            wanted = table["group"][groups][table["step"][groups] == step]
            rows.append(batch.rows[np.isin(batch.group, wanted)])
    members = np.concatenate(rows) if rows else np.empty(0, np.int64)
    by_id = [_number(sampling.get("temperature")) for sampling in snapshot.rollouts.samplings]
    temperatures = np.array([*by_id, np.nan])[columns["sampling"][members]]
    tokens, passed = columns["completion_tokens"][members], table["passed"][groups]
    known = passed >= 0
    judged = int(table["size"][groups][known].sum())
    return Means(
        name,
        steps,
        _mean(table["mean"][groups]),
        _mean(table["std"][groups]),
        _mean(table["texts"][groups][table["texts"][groups] >= 0]),
        float(passed[known].sum() / judged) if judged else None,
        _mean(tokens[tokens >= 0]),
        _mean(temperatures),
    )


def _mean(values: NDArray[np.generic]) -> float | None:
    numbers_ = values.astype(np.float64)
    numbers_ = numbers_[np.isfinite(numbers_)]
    return float(numbers_.mean()) if len(numbers_) else None


def _number(value: float | str | None) -> float:
    return float(value) if isinstance(value, int | float) else np.nan
