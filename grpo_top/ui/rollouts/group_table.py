"""Every group that can be listed: those that were trained on, and beside them held-out ones and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top.encode import SPLIT_EVAL, SPLIT_REQUEST, SPLIT_TRAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.snapshot import RewardRule, Snapshot

TRAIN, HELDOUT, REQUEST = SPLIT_TRAIN, SPLIT_EVAL, SPLIT_REQUEST
"""What a group is of. An engine's requests belong to no group: where a trainer runs, each is one of its own."""


class GroupTable(NamedTuple):
    """Groups by step, and which rollout belongs to which."""

    columns: Mapping[str, NDArray[Any]]
    """As `grpo_top.groups.GROUP_COLUMNS`, with `kind` and `place`: the row of the Snapshot's table, -1 where none."""
    group_of: NDArray[np.int64]
    """Row of this table of each rollout, -1 where it is not listed."""


def trained_on(snapshot: Snapshot) -> dict[str, NDArray[Any]]:
    """The groups that the verdicts are of: the trainer's, or the requests of a run that has no trainer."""
    table = snapshot.groups.columns
    split = snapshot.rollouts.columns["split"]
    size = len(table["step"])
    requests = split[table["first_row"]] == REQUEST if size else np.empty(0, np.bool_)
    kind = np.where(requests, np.int8(REQUEST), np.int8(TRAIN))
    return {**table, "kind": kind, "place": np.arange(size)}


def with_others(
    snapshot: Snapshot,
    trained: Mapping[str, NDArray[Any]],
    group_of: NDArray[np.int64],
    rows: NDArray[np.int64] | None = None,
) -> GroupTable:
    """The same with the groups of held-out rollouts and requests: of these rows, or of all that are there."""
    own = GroupTable(trained, group_of)
    history = snapshot.rollouts.columns
    others = np.flatnonzero((group_of < 0) & (history["live"] == 1) & (history["split"] != TRAIN))
    if rows is not None:
        others = np.intersect1d(others, rows)
    if not len(others):
        return own
    found = _Others(len(trained["step"]))
    requests = history["split"][others] == REQUEST
    for step in np.unique(history["step"][others[~requests]]).tolist():
        batch = snapshot.eval_batch(step)
        if batch is not None:
            found.add_batch(step, batch, snapshot.run.reward_rule)
    found.add_requests(history["step"], others[requests])
    return found.joined_to(own)


class _Others:
    """Groups past those of the Snapshot's own table."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._members: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        """Rows of rollouts, and the group of each."""

    def add_batch(self, step: int, batch: Batch, rule: RewardRule | None) -> None:
        """The groups of an evaluation."""
        texts = batch.distinct_texts
        self._add(
            {
                "step": np.full(batch.groups, step),
                "group": np.arange(batch.groups),
                "first_row": batch.rows[batch.group_first],
                "size": batch.group_size,
                "mean": batch.group_mean,
                "std": batch.group_std,
                "flat": np.where(batch.judged, batch.flat, -1),
                "texts": np.full(batch.groups, -1) if texts is None else texts,
                "passed": _passed(batch, rule),
                "kind": np.full(batch.groups, HELDOUT),
            }
        )
        self._members.append((batch.rows, batch.group + self._next - batch.groups))

    def add_requests(self, steps: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Each request as a group of its own."""
        size = len(rows)
        unknown = np.full(size, np.nan)
        self._add(
            {
                "step": steps[rows],
                "group": rows,
                "first_row": rows,
                "size": np.ones(size, np.int64),
                "mean": unknown,
                "std": unknown,
                **{name: np.full(size, -1) for name in ("flat", "texts", "passed")},
                "kind": np.full(size, REQUEST),
            }
        )
        self._members.append((rows, np.arange(self._next - size, self._next)))

    def joined_to(self, own: GroupTable) -> GroupTable:
        """One table in order of the steps."""
        columns = {
            name: np.concatenate([own.columns[name], *(part[name] for part in self._parts)])
            for name in self._parts[0]
        }
        columns["place"] = np.concatenate(
            [own.columns["place"], np.full(self._next - len(own.columns["step"]), -1)]
        )
        order = np.lexsort((columns["kind"], columns["step"]))
        of = own.group_of.copy()
        for rows, groups in self._members:
            of[rows] = groups
        moved = np.empty(len(order) + 1, np.int64)
        moved[order] = np.arange(len(order))
        moved[-1] = -1  # what -1, no group, points at
        return GroupTable({name: values[order] for name, values in columns.items()}, moved[of])

    def _add(self, columns: dict[str, NDArray[Any]]) -> None:
        self._parts.append(columns)
        self._next += len(columns["step"])


def _passed(batch: Batch, rule: RewardRule | None) -> NDArray[np.int64]:
    """Successful rollouts of each group; -1 where what counts as success, or a reward, is unknown."""
    unknown = np.full(batch.groups, -1)
    values = None if rule is None else batch.reward if rule.of == "reward" else batch.components.get(rule.of)
    if rule is None or values is None:
        return unknown
    with np.errstate(invalid="ignore"):
        good = values >= rule.limit if rule.inclusive else values > rule.limit
    passed = np.bincount(batch.group[good & np.isfinite(values)], minlength=batch.groups)
    known = np.bincount(batch.group[np.isfinite(values)], minlength=batch.groups)
    return np.where(known == batch.group_size, passed, unknown)
