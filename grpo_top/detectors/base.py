"""What a detector is: a rule over finished steps, its knobs, its page, and the evidence that it attaches."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch


class Verdict(NamedTuple):
    """What a detector says of the run at one step."""

    status: Status
    """INFO, WARN or FAIL where the rule is met at this step; WATCH where its limit is crossed but not for long
    enough; OK on the good side; UNKNOWN where it cannot judge yet."""
    value: float | None = None
    threshold: float | None = None
    onset: int | None = None
    """First step of the streak or window that makes it fire."""


ROLLOUTS, EVALS = "(rollouts)", "(evaluations)"
"""What `Detector.sees` calls the rollouts, held-out or not, and the evaluations that come with a step."""


class Passed(NamedTuple):
    """What a detector says of a stretch of steps in which nothing happens."""

    status: Status
    """Of each of them, below INFO."""
    values: Sequence[float]
    """Of each of them its number; NaN is none."""


UNKNOWN = Verdict(Status.UNKNOWN)
OK = Verdict(Status.OK)


class Knob(NamedTuple):
    """A number of a rule that a user may set."""

    name: str
    default: float
    meaning: str


class Page(NamedTuple):
    """A detector's page, in the parts that every page has."""

    what: str
    """What is happening."""
    looks_like: str
    """What it looks like on the screen and in the log."""
    decides: str
    """How the detector decides; the knobs' table is added to it."""
    try_next: tuple[str, ...]
    """What to try, in order."""
    mistaken_for: str
    """What it is often mistaken for."""
    related: tuple[str, ...]
    """Ids of related detectors."""


@dataclass(frozen=True, slots=True)
class Details:
    """What a firing detector says in words and attaches as proof."""

    summary: str
    """One sentence without a full stop, with this run's numbers: `temperature 0.15 deployed, 1.0 intended`."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """JSON-serialisable numbers and names."""
    rows: tuple[int, ...] = ()
    """Rows of the history's rollouts that prove it, at most 50, the best first."""
    try_next: tuple[str, ...] | None = None
    """What to try in this run, where the evidence picks; None takes the page's list."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Details:
        """Details never change, so a copied state shares them."""
        return self


class Detector(ABC):
    """A rule that sees each finished step once, keeps bounded state, and costs O(1) a step.

    At every step its verdict is the one that a batch evaluation over all steps up to it would give. It is copied
    (see `grpo_top.forks`) to take a late record in, so its state must be plain data.
    """

    id: ClassVar[str]
    stage: ClassVar[int]
    severity: ClassVar[Status]
    """The highest that it can reach; what `explain` shows."""
    series: ClassVar[tuple[str, ...]]
    """Canonical series that it reads; it is unknown while none of its needs has ever been seen."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The series without which it cannot judge; what `unknown` lists. Empty: all of `series`."""
    sees: ClassVar[frozenset[str] | None] = None
    """Series, ROLLOUTS or EVALS: a step that carries none of them changes neither its state nor its verdict, and is not
    shown to it. None: it is shown every step."""
    knobs: ClassVar[tuple[Knob, ...]]
    page: ClassVar[Page]
    clear: ClassVar[int] = 5
    """Steps on the good side until a finding clears, where no `clear` knob is set."""
    judges_once: ClassVar[bool] = False
    """What it says of the run's start holds whatever is logged later."""
    in_logs: ClassVar[bool] = True
    """Whether a log can be expected to hold what it needs."""

    def __init__(self, settings: Mapping[str, float]) -> None:
        """Take the knobs in force from `settings`, each knob's default where it is not set."""
        for knob in self.knobs:
            setattr(self, knob.name, settings.get(knob.name, knob.default))

    @property
    def expected(self) -> bool:
        """Whether its stage is well only where it could judge: what can only remark decides nothing."""
        return self.in_logs and self.severity > Status.INFO

    @abstractmethod
    def observe(self, facts: StepFacts) -> Verdict:
        """Take the next finished step in and judge the run as it stands after it."""

    def pass_over(self, stretch: Stretch) -> Passed | None:  # noqa: ARG002
        """Take several steps in at once, where a glance at their columns tells that nothing happens in them.

        Afterwards it stands as after `observe` of each. None, and none of them taken in, where that is not so sure.
        """
        return None

    @abstractmethod
    def describe(self, facts: StepFacts) -> Details:
        """What to show for the verdict just given; only called right after `observe` on a firing verdict.

        Not for every such verdict: of steps without rollouts that are judged together, for the last one alone.
        """

    def idle(self, seconds: float, finished: bool) -> Verdict | None:  # noqa: ARG002
        """Judge between steps, live only: `seconds` since the newest record, and whether the source has ended.

        None from every detector that does not watch the clock.
        """
        return None


def repeated(verdict: Verdict, stretch: Stretch) -> Passed:
    """What is said of a stretch that changes nothing of a verdict."""
    return Passed(verdict.status, [math.nan if verdict.value is None else verdict.value] * len(stretch))


@dataclass(slots=True)
class Streak:
    """How many steps running a condition has held, and since when."""

    length: int = 0
    since: int | None = None

    def update(self, holds: bool, step: int, steps: int = 1) -> int:
        """Take one step in that stands for `steps` optimizer steps; the streak's length after it."""
        if holds:
            if self.length == 0:
                self.since = step
            self.length += steps
        else:
            self.length, self.since = 0, None
        return self.length


def group_rows(batch: Batch, wanted: NDArray[np.bool_], limit: int = 50) -> tuple[int, ...]:
    """The history's row of the first rollout of each wanted group, at most `limit` of them."""
    first = np.zeros(batch.groups, np.int64)
    first[batch.group[::-1]] = np.arange(batch.size)[::-1]
    return tuple(batch.rows[first[wanted][:limit]].tolist())


def some_rows(batch: Batch, wanted: NDArray[np.bool_], limit: int = 50) -> tuple[int, ...]:
    """The history's rows of the wanted rollouts, at most `limit` of them."""
    return tuple(batch.rows[wanted][:limit].tolist())
