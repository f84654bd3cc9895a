"""Copies of state: equal to it, and untouched by what happens to it later."""

from __future__ import annotations

import copy
import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from grpo_top.forks import fork
from grpo_top.snapshot import Status
from grpo_top.streaming import RunningMedian, Window


class Plain:
    def __init__(self) -> None:
        self.number = 1
        self.nested = {"a": [1, 2], "b": [[3]]}
        self.window = Window(5)
        self.median = RunningMedian()
        self.counts = Counter({"stop": 3})
        self.recent = deque([(1, [2])], maxlen=2)
        self.array = np.arange(3)
        self.bytes = bytearray(b"abc")
        self.same = self.also = [1.0]
        self.status = Status.WARN


@dataclass(slots=True)
class Slotted:
    values: list[int] = field(default_factory=lambda: [1])
    state: Plain = field(default_factory=Plain)


def test_what_happens_to_the_original_does_not_reach_the_copy() -> None:
    original = Slotted()
    copied = fork(original)
    original.values.append(2)
    state = original.state
    state.nested["b"][0].append(4)
    state.window.add(1.0, 1)
    state.median.add(1.0)
    state.counts["stop"] += 1
    state.recent[0][1].append(3)
    state.array[0] = 9
    state.bytes[0] = 0
    state.same.append(2.0)
    assert copied.values == [1]
    assert copied.state.nested == {"a": [1, 2], "b": [[3]]}
    assert len(copied.state.window) == 0
    assert math.isnan(copied.state.median.value)
    assert copied.state.counts == {"stop": 3}
    assert copied.state.recent == deque([(1, [2])])
    assert copied.state.recent.maxlen == 2
    assert copied.state.array.tolist() == [0, 1, 2]
    assert copied.state.bytes == b"abc"
    assert copied.state.same == [1.0]


def test_what_was_one_object_is_one_in_the_copy() -> None:
    copied = fork(Plain())
    copied.same.append(2.0)
    assert copied.also == [1.0, 2.0]


@pytest.mark.parametrize(
    "value", [None, 1, "a", (1, "b"), (1, [2]), {1: {2: [3]}}, {1, 2}, [(1, 2), (3, [4])], Status.OK, b"x"]
)
def test_a_copy_equals_what_a_deep_copy_is(value: Any) -> None:
    assert fork(value) == copy.deepcopy(value) == value
