"""The table of groups holds each step's groups in order, however many steps wait to be written."""

from __future__ import annotations

import numpy as np
import pytest

from grpo_top.batch import Batch
from grpo_top.facts import RewardScale, RunState
from grpo_top.groups import GROUP_COLUMNS, TOGETHER, Groups
from grpo_top.history import History
from grpo_top.measure import measure
from grpo_top.records import Rollout


def batch_of(step: int, rewards: list[list[float | None]], completion: str | None = None) -> Batch:
    """A measured step of these groups."""
    history = History()
    history.add(
        [
            Rollout(step, str(group), reward, index, completion=completion)
            for group, of_group in enumerate(rewards)
            for index, reward in enumerate(of_group)
        ],
        source=0,
    )
    batch = Batch(history, step, history.rows_of(step))
    scale = RewardScale()
    scale.update(batch.reward[batch.known])
    measure(batch, RunState(reward_range=(0.0, 1.0)), scale)
    return batch


def rows(groups: Groups) -> list[dict[str, float]]:
    views = {name: groups.columns[name].view().tolist() for name in GROUP_COLUMNS}
    return [dict(zip(views, values, strict=True)) for values in zip(*views.values(), strict=True)]


@pytest.mark.parametrize("steps", [1, TOGETHER - 1, TOGETHER, 2 * TOGETHER + 3])
def test_groups_are_there_step_by_step(steps: int) -> None:
    groups = Groups()
    for step in range(steps):
        groups.add(step, batch_of(step, [[0.0, 1.0], [1.0, 1.0]], completion="a"))
    assert groups.length == 2 * steps
    assert [row["step"] for row in rows(groups)] == [step for step in range(steps) for _ in range(2)]
    assert rows(groups)[-2:] == [
        {"step": steps - 1, "group": 0, "first_row": 0, "size": 2, "mean": 0.5, "std": 0.5}
        | {"flat": 0, "texts": 1, "passed": 1},
        {"step": steps - 1, "group": 1, "first_row": 2, "size": 2, "mean": 1.0, "std": 0.0}
        | {"flat": 1, "texts": 1, "passed": 2},
    ]


def test_what_is_unknown_of_a_group_is_marked() -> None:
    groups = Groups()
    groups.add(1, batch_of(1, [[None, None], [0.0, 1.0]]))
    unknown, known = rows(groups)
    assert (unknown["flat"], unknown["texts"], unknown["passed"]) == (-1, -1, -1)
    assert np.isnan(unknown["mean"])
    assert (known["flat"], known["passed"]) == (0, 1)


def test_rows_that_fall_make_room_for_others() -> None:
    groups = Groups()
    for step in (1, 2, 3):
        groups.add(step, batch_of(step, [[0.0, 1.0]]))
    groups.cut(1)
    groups.add(9, batch_of(9, [[0.0, 1.0]]))
    assert [row["step"] for row in rows(groups)] == [1, 9]
    assert groups.length == 2
