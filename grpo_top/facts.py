"""One finished step as the detectors see it, and the statistics that make its row of the step table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top.samplers import NO_SERVERS
from grpo_top.snapshot import RewardRule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.records import Sampling, Success
    from grpo_top.samplers import Servers

_NOTHING: Mapping[str, float] = {}


class EvalPoint(NamedTuple):
    """One held-out evaluation of one suite."""

    suite: str
    step: int
    value: float


class RunChange(NamedTuple):
    """Something in the run record that changed inside one run."""

    what: str
    before: str
    after: str


@dataclass(slots=True)
class RunState:
    """What is declared of the run; None is unknown. The monitor keeps it up to date with the run records."""

    name: str | None = None
    framework: str | None = None
    algorithm: str | None = None
    group_size: int | None = None
    sampling: Sampling | None = None
    version_lag_tolerance: float | None = None
    reward_range: tuple[float, float] | None = None
    success: Success | None = None
    env_version: str | None = None
    reward_version: str | None = None
    total_steps: int | None = None
    finished: bool = False
    drops_flat_groups: bool = False
    some_rollouts: bool = False
    recording: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RewardScale:
    """The range of rewards seen up to a step, and the definition of success that follows from it.

    Success where the run does not define it: of two values the higher; with a declared range its upper half;
    else a reward above the lowest possible or seen (0 for rewards that are never negative).
    """

    low: float = math.inf
    high: float = -math.inf
    values: tuple[float, ...] = ()
    """The distinct rewards seen, at most 3 of them."""
    count: int = 0

    def update(self, rewards: NDArray[np.float64]) -> None:
        """Take the finite rewards of a step in."""
        if not len(rewards):
            return
        self.count += len(rewards)
        self.low = min(self.low, float(rewards.min()))
        self.high = max(self.high, float(rewards.max()))
        if len(self.values) < 3:
            self.values = tuple(sorted({*self.values, *np.unique(rewards).tolist()}))[:3]

    def range(self, run: RunState) -> tuple[float, float] | None:
        """The declared range, else what has been seen."""
        if run.reward_range is not None:
            return run.reward_range
        return (self.low, self.high) if self.count else None

    def threshold(self, run: RunState) -> tuple[float, bool, str] | None:
        """(limit, whether the limit itself is a success, the rule in words) for the total reward."""
        if run.success is not None and run.success.of == "reward":
            return run.success.at_least, True, f"reward at least {run.success.at_least:g}, as declared"
        if len(self.values) == 2:
            return self.values[1], True, f"the higher of two rewards, {self.values[1]:g}"
        if run.reward_range is not None:
            low, high = run.reward_range
            return (low + high) / 2, True, f"the upper half of the declared range, from {(low + high) / 2:g}"
        if not self.count:
            return None
        lowest = min(self.low, 0.0) if self.low >= 0 else self.low
        return lowest, False, f"a reward above the lowest, {lowest:g}"

    def reward_rule(self, run: RunState) -> RewardRule | None:
        """What counts as success, to be applied to a value; None before the first reward."""
        if run.success is not None and run.success.of != "reward":
            return RewardRule(run.success.of, run.success.at_least, inclusive=True)
        known, limits = self.threshold(run), self.range(run)
        if known is None:
            return None
        return RewardRule("reward", known[0], known[1], limits[1] - limits[0] if limits else None)

    def rule(self, run: RunState) -> str:
        """Which definition of success is in force, in words."""
        if run.success is not None and run.success.of != "reward":
            return f"{run.success.of} at least {run.success.at_least:g}, as declared"
        known = self.threshold(run)
        return known[2] if known else "unknown, since no rollout has a total reward"


@dataclass(slots=True)
class StepFacts:
    """One finished step as the detectors see it."""

    step: int
    run: RunState
    scale: RewardScale
    """Rewards seen up to and including this step."""
    values: Mapping[str, float]
    """Canonical series at this step, finite numbers only: from rollouts where they exist, else the trainer's."""
    nonfinite: tuple[str, ...] = ()
    """Series that were logged at this step and are not finite."""
    trainer: Mapping[str, float] = field(default_factory=dict)
    """The trainer's own numbers under canonical names, for comparison with those recomputed."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """Optimizer steps that a series' value stands for, where it is more than 1 (a trainer that logs every n steps)."""
    batch: Batch | None = None
    """The step's train rollouts, else its requests; None where there are none."""
    eval_batch: Batch | None = None
    """Held-out rollouts that came with this step."""
    requests: Batch | None = None
    """What inference engines logged for this step; held-out requests are among them."""
    evals: tuple[EvalPoint, ...] = ()
    """Evaluations made since the step before."""
    changes: tuple[RunChange, ...] = ()
    """What changed in the run record since the step before."""
    restarted_from: int | None = None
    """The step that had been reached before the writer went back to this one (a resume), else None."""
    unreadable: int = 0
    """Records skipped since the step before."""
    servers: Servers = NO_SERVERS
    """Inference servers as they stood; `series` holds those of their series that nothing else gives."""
    disagreements: tuple[int, ...] = ()
    """Rows up to this step of which a person's score is another one than the pipeline's."""
    get: Callable[[str], float | None] = field(init=False, repr=False, compare=False)
    """A series' finite value at this step; None where it is unknown or not finite."""
    _braced: dict[str, dict[str, float]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        # The mapping's own method: detectors ask a hundred times a step.
        self.get = self.values.get

    def braced(self, series: str) -> Mapping[str, float]:
        """The values of `series{…}` at this step, by what the braces hold."""
        found = self._braced
        if found is None:
            found = self._braced = {}
            for name, value in self.values.items() if "}" in "".join(self.values) else ():
                if name[-1] == "}":
                    series_, _, held = name.partition("{")
                    found.setdefault(series_, {})[held[:-1]] = value
        return found.get(series, _NOTHING)

    def stands_for(self, name: str) -> int:
        """Optimizer steps that the series' value at this step averages over, at least 1."""
        return self.gaps.get(name, 1)

    @property
    def is_plain(self) -> bool:
        """Whether it is numbers of the trainer's alone, each for this step itself."""
        return not (
            self.gaps
            or self.nonfinite
            or self.evals
            or self.changes
            or self.unreadable
            or self.disagreements
            or self.restarted_from is not None
            or self.batch is not None
            or self.eval_batch is not None
            or self.requests is not None
            or self.servers is not NO_SERVERS
        )


class Stretch:
    """Several plain steps in a row with the same series, to be seen by columns."""

    def __init__(self, facts: Sequence[StepFacts]) -> None:
        self.facts = facts
        self.run, self.scale = facts[0].run, facts[0].scale
        self.names = facts[0].values.keys()
        """Their series."""
        self.steps = [one.step for one in facts]
        self._columns: dict[str, list[float]] = {}
        self._extents: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self.facts)

    def column(self, name: str) -> list[float]:
        """The values of one of their series."""
        known = self._columns.get(name)
        if known is None:
            known = self._columns[name] = [one.values[name] for one in self.facts]
        return known

    def extent(self, name: str) -> tuple[float, float]:
        """The lowest and the highest value of one of their series."""
        known = self._extents.get(name)
        if known is None:
            values = self.column(name)
            known = self._extents[name] = min(values), max(values)
        return known

    def has_parts(self, series: str) -> bool:
        """Whether they carry `series{…}`."""
        return bool(self.facts[0].braced(series))


def stretch_of(facts: Sequence[StepFacts]) -> Stretch | None:
    """Some steps as a stretch, where they are one."""
    first = facts[0]
    names = first.values.keys()
    alike = (one.is_plain and one.values.keys() == names and one.run is first.run for one in facts)
    return Stretch(facts) if all(alike) else None
