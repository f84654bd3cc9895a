"""Steps in which nothing happens are taken in at once: what is said, and what is known afterwards, is the same."""

from __future__ import annotations

import math
from array import array
from collections import deque
from enum import Enum
from itertools import cycle
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_top.detectors import ALL
from grpo_top.detectors.base import Detector, Verdict
from grpo_top.facts import EvalPoint, RewardScale, RunState, StepFacts, stretch_of
from grpo_top.verdicts import Judge

if TYPE_CHECKING:
    from collections.abc import Iterator


LEVELS = {
    "loss": 0.1,
    "grad_norm": 0.6,
    "learning_rate": 1e-6,
    "reward_mean": 0.5,
    "reward_std": 0.3,
    "kl": 0.03,
    "entropy": 0.8,
    "step_time": 30.0,
    "clip_frac": 0.05,
    "truncation_rate": 0.02,
    "completion_tokens_mean": 400.0,
    "completion_tokens_p50": 380.0,
    "zero_variance_group_frac": 0.2,
    "parse_failure_rate": 0.01,
    "reward_length_corr": 0.1,
    "component_mean{format}": 0.2,
    "trainable_ratio": 0.8,
    "success_rate": 0.4,
    "reward_max": 1.0,
    "reward_min": 0.0,
}
OFTEN = set(LEVELS) - {
    "parse_failure_rate",
    "reward_length_corr",
    "component_mean{format}",
    "trainable_ratio",
    "success_rate",
    "reward_max",
    "reward_min",
    "completion_tokens_p50",
}
PASSING = [detector for detector in ALL if detector.pass_over is not Detector.pass_over]


def log(seed: int, steps: int, events: float) -> Iterator[StepFacts]:
    """A trainer's numbers; `events`: how often something happens, or a step is no plain one."""
    chance, run, scale = Random(seed), RunState(group_size=8), RewardScale()
    names = [name for name in LEVELS if name in OFTEN or chance.random() < 0.2]
    names = [name for name in names if events == 0 or chance.random() < 0.9]
    levels = {name: LEVELS[name] for name in names}
    noise = chance.choice([0.0, 0.02, 0.2])
    for step in range(1, steps + 1):
        values = {name: level * (1 + noise * chance.uniform(-1, 1)) for name, level in levels.items()}
        if names and chance.random() < events:
            values[chance.choice(names)] *= chance.choice([0, 0.1, 0.5, 3, 30, 1000])
        if names and chance.random() < events / 2:
            levels[chance.choice(names)] *= chance.choice([0, 0.3, 0.7, 1.5, 4])
        if names and chance.random() < events / 2:
            values.pop(chance.choice(names), None)
        evals = (EvalPoint("heldout", step, chance.random()),) if chance.random() < events / 2 else ()
        gaps = dict.fromkeys(values, 5) if chance.random() < events / 4 else {}
        nonfinite = ("loss",) if chance.random() < events / 4 else ()
        for name in nonfinite:
            values.pop(name, None)
        yield StepFacts(step, run, scale, values, trainer=values, evals=evals, gaps=gaps, nonfinite=nonfinite)


@given(
    seed=st.integers(0, 2**32),
    events=st.sampled_from([0.0, 0.005, 0.02, 0.1]),
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=8),
)
@settings(max_examples=15, deadline=None)
def test_what_is_passed_over_leaves_everything_as_step_by_step(
    seed: int, events: float, sizes: list[int]
) -> None:
    left, size = list(log(seed, 130, events)), cycle(sizes)
    together, alone = Judge(ALL, {}), Judge(ALL, {})
    for facts in left:
        alone.observe(facts)
    while left:
        count = min(next(size), together.room(len(left)))
        together.observe_together(left[:count], len(left[count:]))
        left = left[count:]
    assert said(together) == said(alone)
    for ours, theirs in zip(together.state.detectors, alone.state.detectors, strict=True):
        assert plain(ours) == plain(theirs), ours.id


@pytest.mark.parametrize("detector", PASSING, ids=lambda detector: detector.id)
def test_each_detector_that_can_pass_over_steps_does_so_in_a_healthy_run(detector: type[Detector]) -> None:
    judge, passed = detector({}), 0
    steps = list(log(1, 200, 0.0))
    for at in range(0, len(steps), 20):
        stretch = stretch_of(steps[at : at + 20])
        assert stretch is not None
        found = judge.pass_over(stretch)
        passed += found is not None
        for facts in steps[at : at + 20] if found is None else ():
            judge.observe(facts)
    assert passed


def said(judge: Judge) -> list[str]:
    """Every verdict at every step, and every finding."""
    rows = [
        repr((track.id, track.status.tolist(), track.values.tolist())) for track in judge.tracks().values()
    ]
    return [*rows, *map(repr, judge.findings(lambda _: ()))]


def plain(value: Any) -> Any:
    """Anything that a detector holds, to be compared. Of a verdict that it keeps, what is shown of it."""
    if isinstance(value, Verdict):
        return int(value.status), repr(math.nan if value.value is None else value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != "_known"}  # worked out when asked
    if isinstance(value, list | tuple | deque | array):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if isinstance(value, Enum | bool | int | float | str | frozenset | set | type(None)):
        return repr(value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return plain({**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}})
