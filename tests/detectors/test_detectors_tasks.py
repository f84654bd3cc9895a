"""Which earlier rollouts have a step's tasks, and which answers came before: as a plain look at all of them tells."""

from __future__ import annotations

import copy

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_top.detectors.tasks import RecentRows, count_different, first_of_equal
from grpo_top.forks import fork

STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.lists(st.integers(0, 6), max_size=12)), min_size=1, max_size=25
)
"""By how many steps each goes on, and the task of each of its rollouts."""
SIZE = 4


@given(STEPS, st.integers(0, 25))
@settings(max_examples=60)
def test_the_rows_of_tasks_that_came_lately_are_found(steps: list[tuple[int, list[int]]], at: int) -> None:
    recent, held = RecentRows(SIZE, most=10_000), []
    step = row = 0
    for place, (further, tasks) in enumerate(steps):
        step += further
        if place == at:  # what is known must not depend on whether it is a copy
            recent = fork(recent)
        rows = np.arange(row, row + len(tasks))
        row += len(tasks)
        earlier, again = recent.take(np.array(tasks, np.int32), rows, step)

        held = [(of, task, known) for of, task, known in held if step - of < SIZE]
        before = {task for _, task, _ in held}
        assert sorted(earlier.tolist()) == [known for _, task, known in held if task in set(tasks)]
        assert again.tolist() == [
            known for task, known in zip(tasks, rows.tolist(), strict=True) if task in before
        ]
        held += [(step, task, known) for task, known in zip(tasks, rows.tolist(), strict=True)]


def test_of_very_large_steps_only_the_newest_are_kept() -> None:
    recent = RecentRows(SIZE, most=100)
    for step in range(3):
        recent.take(np.full(80, step, np.int32), np.arange(80) + 80 * step, step)
    earlier, _ = recent.take(np.array([0, 1, 2], np.int32), np.arange(240, 243), 3)
    assert earlier.tolist() == list(range(160, 240))


def test_a_copy_goes_its_own_way() -> None:
    recent = RecentRows(SIZE, most=100)
    recent.take(np.array([7], np.int32), np.array([0]), 1)
    other = copy.deepcopy(recent)
    other.take(np.array([8], np.int32), np.array([1]), 2)
    assert recent.take(np.array([8], np.int32), np.array([1]), 2)[0].tolist() == []


@given(st.lists(st.integers(-3, 3), max_size=40))
def test_the_first_of_equal_keys_is_found(keys: list[int]) -> None:
    array = np.array(keys, np.int64)
    assert first_of_equal(array).tolist() == [keys.index(key) for key in keys]
    assert count_different(array) == len(set(keys))
