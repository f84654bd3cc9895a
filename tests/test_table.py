"""The step table: series aligned by step, in whatever order the steps come."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.table import ROLLOUTS, TRAINER, StepTable

numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
cells = st.dictionaries(
    st.integers(0, 600), st.dictionaries(st.sampled_from("abc"), numbers, min_size=1), max_size=40
)


@given(cells, st.randoms(use_true_random=False))
def test_the_order_in_which_steps_come_does_not_matter(
    rows: dict[int, dict[str, float]], rng: object
) -> None:
    order = list(rows)
    getattr(rng, "shuffle")(order)  # noqa: B009  hypothesis types its random as an object
    table = StepTable()
    for step in order:
        table.set(step, TRAINER, rows[step])
    assert table.steps.tolist() == sorted(rows)
    for step, values in rows.items():
        assert table.values(step) == values


def test_the_rollouts_own_number_comes_before_the_trainers_and_the_trainers_fills_what_is_missing() -> None:
    table = StepTable()
    for step in (1, 2, 3):
        table.set(step, TRAINER, {"reward_mean": 10.0 + step})
    table.set(2, ROLLOUTS, {"reward_mean": 0.5})
    table.set(3, ROLLOUTS, {"reward_mean": 0.75})
    series = table.view()["reward_mean"]
    assert series.values.tolist() == [11.0, 0.5, 0.75]
    assert series.origin == ROLLOUTS


def test_unknown_is_nan_and_not_finite_is_infinite() -> None:
    table = StepTable()
    table.set(1, TRAINER, {"kl": math.nan, "loss": 1.0})
    table.set(2, TRAINER, {"kl": 0.5})
    view = table.view()
    assert view["kl"].values.tolist() == [math.inf, 0.5]
    assert np.isnan(view["loss"].values[1])


def test_a_view_shows_what_it_showed_while_the_table_grows() -> None:
    table = StepTable()
    table.set(10, TRAINER, {"kl": 1.0})
    view = table.view()
    table.set(5, TRAINER, {"kl": 2.0})
    for step in range(11, 2000):
        table.set(step, TRAINER, {"kl": 3.0})
    assert view["kl"].steps.tolist() == [10]
    assert view["kl"].values.tolist() == [1.0]
    assert len(table.view()["kl"].values) == 1991
