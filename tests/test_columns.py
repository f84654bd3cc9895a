"""Growing arrays, and small numbers for names."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.columns import Column, Interner, Matrix

WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("one"), st.sampled_from([-1, 0, 7]), st.integers(1, 400)),
        st.tuples(st.just("each"), st.integers(-100, 100), st.integers(1, 400)),
        st.tuples(st.just("pad"), st.just(0), st.integers(1, 400)),
        st.tuples(st.just("cut"), st.just(0), st.integers(1, 400)),
        st.tuples(st.just("put"), st.integers(-100, 100), st.integers(0, 50)),
    ),
    max_size=20,
)


@given(WRITES, st.sampled_from([-1, 0]))
def test_a_column_holds_what_was_written_whether_its_rows_are_equal_or_not(
    writes: list[tuple[str, int, int]], fill: int
) -> None:
    column, expected = Column(np.int32, fill), []
    for what, value, count in writes:
        match what:
            case "one":
                column.write(len(expected), len(expected) + count, value)
                expected += [value] * count
            case "each":
                values = [value + place % 3 for place in range(count)]
                column.extend(values)
                expected += values
            case "pad":
                column.pad(len(expected) + count)
                expected += [fill] * count
            case "cut":
                column.cut(count)
                del expected[count:]
            case _ if count < len(expected):
                column.put([count], value)
                expected[count] = value
        assert column.view().tolist() == expected


def test_a_view_stays_as_it_is_while_the_column_grows() -> None:
    column = Column(np.float64, fill=math.nan)
    column.pad(5)
    unknown = column.view()
    column.extend([1.0] * 100_000)
    early = column.view()
    column.extend([2.0] * 1_000_000)
    assert np.isnan(unknown).all()
    assert len(early) == 100_005
    assert early[-1] == 1.0


def test_a_column_of_equal_values_takes_no_memory() -> None:
    column = Column(np.int64)
    column.write(0, 10_000_000, -1)
    assert column.view().strides == (0,)
    assert int(column.view().sum()) == -10_000_000


def test_a_matrix_holds_its_rows() -> None:
    matrix = Matrix(3, np.float64)
    for number in range(0, 3_000, 2):
        matrix.extend(np.array([[number, -number, math.nan], [number + 1, -number - 1, math.nan]]))
    early = matrix.view()
    matrix.cut(2_000)
    matrix.extend(np.array([[1, 2, 3]]))
    assert early[1_999, 0] == 1_999
    assert matrix.view().shape == (2_001, 3)
    assert matrix.view()[-1].tolist() == [1, 2, 3]


def test_names_past_the_limit_share_the_last_number() -> None:
    interner = Interner(3)
    assert interner.ids(["a", None, "b", "a", "c", "d"]) == [0, -1, 1, 0, 2, 2]
    assert interner.names == ["a", "b", "(others)"]
