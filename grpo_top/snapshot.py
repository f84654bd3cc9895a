"""What the monitor hands over: one frozen picture of a run. The screen and the reports read this and nothing deeper.

Columns are views of arrays that only grow, cut at the lengths that they had when the picture was taken, so that
reading them needs no lock while the monitor goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.status import Status as Status  # noqa: PLC0414  part of this picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.grades import Graded, HandScore
    from grpo_top.records import Rollout, Sampling, Success
    from grpo_top.reference import Reference
    from grpo_top.scan import Literal, Looked


STAGES: tuple[tuple[str, str], ...] = (
    ("data", "can the log be trusted?"),
    ("learnable", "does the base policy ever succeed?"),
    ("reward", "is the reward the one you defined?"),
    ("variance", "does each group disagree?"),
    ("rollouts", "are rollouts diverse, sampled as intended, ended for the right reason?"),
    ("format", "do answers parse and fit?"),
    ("KL", "is the policy drifting for the wrong reason?"),
    ("staleness", "do sampler and trainer hold the same policy?"),
    ("held-out", "does held-out improve too?"),
)
"""Triage stages in the order of cause: name and the question that each asks."""

QUIET = (Status.OK, Status.INFO)
"""How a stage stands that is well: a remark is no alarm."""

WINDOW = 20
"""W: the late window in steps that most rules judge and every panel shows as `20 steps`."""


class RewardRule(NamedTuple):
    """What a run counts as success."""

    of: str
    """`reward`, or the name of a component."""
    limit: float
    inclusive: bool
    """Whether the limit itself is a success."""
    span: float | None = None
    """Width of the range of rewards; None where it is unknown, or of a component."""

    def passes(self, value: float) -> bool:
        """Whether a finite value is a success."""
        return value >= self.limit if self.inclusive else value > self.limit


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of the run as a whole; None is unknown."""

    name: str = ""
    framework: str | None = None
    algorithm: str | None = None
    first_step: int | None = None
    last_step: int | None = None
    steps: int = 0
    """Training steps seen."""
    rollouts: int = 0
    """Train rollouts seen, superseded ones not counted."""
    groups: int = 0
    evals: int = 0
    """Held-out evaluations seen, by the step that they were made at."""
    group_size: int | None = None
    """As declared, else the most common size of a group."""
    groups_per_step: int | None = None
    total_steps: int | None = None
    step_seconds: float | None = None
    """Median seconds a step over the last 20 steps."""
    sampling: Sampling | None = None
    """The intended sampling config."""
    version_lag_tolerance: float | None = None
    """As declared; None leaves the detectors' default in force."""
    reward_range: tuple[float, float] | None = None
    """As declared, else what has been seen so far (`reward_range_declared` says which)."""
    reward_range_declared: bool = False
    success: Success | None = None
    success_rule: str = ""
    """Which definition of success is in force, in words."""
    reward_rule: RewardRule | None = None
    """The same, to be applied."""
    env_version: str | None = None
    reward_version: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    recording: str | None = None
    """A label for the screen where this is a recording played back."""
    components: tuple[str, ...] = ()
    """Names of the reward's components, in the order of the log."""
    families: tuple[str, ...] = ()
    since: int | None = None
    """The step from which on the run is read, where the user has set one."""


class SourceFacts(NamedTuple):
    """One file or endpoint that is being read."""

    where: str
    """Path relative to the run directory, or URL."""
    path: str
    """Absolute path or URL."""
    format: str
    role: str
    """What it holds, in a word: `rollouts`, `metrics`, `console`, `config`."""
    records: int
    bytes: int
    skipped: int
    state: str = "live"
    """`live`, `gone`, `waiting` (not complete yet), `error`, `left out`."""
    note: str = ""
    """One line about `state` where it needs one."""
    fields: Mapping[str, str | None] = MappingProxyType({})
    """Where its names were guessed or set by the user: its own names → what each is read as, None where it is not."""
    written: float | None = None
    """When the newest of what the run itself wrote there was written, as far as is known; seconds since the epoch."""


class SkippedRecord(NamedTuple):
    """A record that could not be read."""

    where: str
    offset: int
    line: int | None
    reason: str


class Series(NamedTuple):
    """One canonical series over the run's steps."""

    name: str
    origin: str
    """`rollouts` (computed here) or `trainer` (read from its log)."""
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    """Same length as `steps`; NaN is unknown, ±inf is "not finite"."""


@dataclass(frozen=True, slots=True)
class RolloutRef:
    """A rollout or group that proves a finding."""

    where: str
    step: int
    group: str
    index: int | None
    row: int
    """Row in `Snapshot.rollouts`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A detector's verdict that fired at some time; `active` says whether it stands at the last step."""

    id: str
    stage: int
    severity: Status
    """INFO, WARN or FAIL: as it stands, or the worst that it was where it has cleared."""
    active: bool
    first_step: int
    """First step of its latest episode."""
    last_step: int
    onset: int
    """First step of the streak that made it fire; `first_step` is where the rule was met."""
    episodes: tuple[tuple[int, int], ...]
    value: float | None
    threshold: float | None
    summary: str
    """One sentence with this run's numbers."""
    evidence: Mapping[str, Any]
    rollouts: tuple[RolloutRef, ...]
    try_next: tuple[str, ...]
    caused_by: str | None = None


class StageState(NamedTuple):
    """A triage stage: the worst of its detectors."""

    stage: int
    name: str
    status: Status
    """Never OK where a check that could raise an alarm was not made: it is UNKNOWN then, unless another one speaks."""
    findings: tuple[str, ...]
    """Ids of its active findings."""
    unknown: tuple[str, ...] = ()
    """Ids of its detectors that could not judge, for lack of data or of steps."""
    so_far: Status = Status.UNKNOWN
    """The worst of those that could."""

    @property
    def partly(self) -> bool:
        """Whether it is well as far as it was checked, and not all of it was."""
        return self.status == Status.UNKNOWN != self.so_far


@dataclass(frozen=True, slots=True)
class DetectorTrack:
    """One detector's verdict at every judged step: what the screen shows when it is paused in the past."""

    id: str
    stage: int
    steps: NDArray[np.int64]
    status: NDArray[np.uint8]
    """`Status` after hysteresis: a finding that has not cleared yet keeps its severity."""
    values: NDArray[np.float64]
    threshold: float | None
    needs: tuple[str, ...]
    """Series that it lacks, where it is unknown for that reason."""
    expected: bool = True
    """Whether its stage is well only where it could judge: not where it can only remark, or lacks what no log holds."""


class CoverageItem(NamedTuple):
    """One of the ten things to log."""

    item: str
    status: str
    """`present`, `derived` or `missing`."""
    origin: str
    """Where it is read or derived from; empty where it is missing."""
    blinds: tuple[str, ...]
    """Detectors that its absence blinds."""
    hints: tuple[str, ...] = ()
    """Which settings of the run's framework would log what is missing; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Columns over every rollout that was read, in order of arrival, and the names behind their ids.

    Integer columns hold -1 for unknown, float columns NaN for unknown and ±inf for "not finite".
    Id columns (`task`, `family`, …) index the tuple of the same name in `names`.
    """

    length: int
    columns: Mapping[str, NDArray[Any]]
    """See `grpo_top.encode.COLUMNS` for names, types and meaning."""
    components: Mapping[str, NDArray[np.float64]]
    names: Mapping[str, Sequence[str]]
    samplings: Sequence[Sampling]
    """Deployed sampling configs by their id in the `sampling` column."""
    first: int = 0
    """Rows before it were let go to bound memory: `live` is 0 there, and the other columns say nothing."""
    too_late: int = 0
    """Rollouts that came for a step whose rows were let go, and were not taken in."""


class Groups(NamedTuple):
    """Columns over every train group of every judged step, oldest first."""

    length: int
    columns: Mapping[str, NDArray[Any]]
    """See `grpo_top.groups.GROUP_COLUMNS`."""


class SamplerChange(NamedTuple):
    """What a sampler was found to hold, from a step on."""

    step: int
    """The newest step when it was seen."""
    time: float | None
    sampling: Sampling | None
    weight_version: str | None


class SamplerFacts(NamedTuple):
    """One inference server as its looks show it; the state of the connection is its source's."""

    name: str
    engine: str | None = None
    model: str | None = None
    asked: float | None = None
    """When it last answered, seconds since the epoch."""
    sampling: Sampling | None = None
    origins: Mapping[str, str] = MappingProxyType({})
    """Setting → how its value gets there, in words."""
    weight_version: str | None = None
    changes: tuple[SamplerChange, ...] = ()
    """The first look, then each one that found something else; the oldest between are dropped past a bound."""
    finished: Mapping[str, float] = MappingProxyType({})
    """Finish reason → requests that ended so over the last looks."""
    gauges: Mapping[str, float] = MappingProxyType({})
    unknown: tuple[str, ...] = ()
    """What could not be asked, and which flag of the server opens it."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetSeries:
    """One number over all samplers of a fleet, as a Prometheus server tells it; one element of an array a time."""

    name: str
    unit: str
    """`share` for fractions of 1, `count` for whole numbers, else what is written after the number."""
    worse: str
    """`high` or `low`: which end is the bad one; empty where either may be."""
    lowest_sampler: str
    """Who holds the lowest value of the last time; likewise below."""
    highest_sampler: str
    times: NDArray[np.float64]
    """Seconds since the epoch, ascending."""
    steps: NDArray[np.int64]
    """The newest step when it came; -1 where there was none, or where it is from before the first look."""
    samplers: NDArray[np.int64]
    """How many have a value."""
    median: NDArray[np.float64]
    """NaN is unknown, here and below."""
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One picture of a run."""

    version: int
    """Grows with every change; equal versions are equal pictures."""
    time: float
    """Seconds since the epoch when it was taken."""
    last_record_time: float | None
    """When the newest record arrived here; None before the first."""
    finished: bool
    """The source says that training ended, or it was read to its end without following."""
    reading: float | None
    """Share of the bytes present that have been read (0 to 1) while catching up, else None."""
    run: RunFacts
    sources: tuple[SourceFacts, ...]
    left_out: tuple[str, ...]
    """What discovery did not take, one line each."""
    series: Mapping[str, Series]
    triage: tuple[StageState, ...]
    first_cause: str | None
    findings: tuple[Finding, ...]
    """In triage order; the first cause first."""
    watches: tuple[str, ...]
    unknown: tuple[tuple[str, tuple[str, ...]], ...]
    """Detector id and the series that it needs and has not."""
    tracks: Mapping[str, DetectorTrack]
    coverage: tuple[CoverageItem, ...]
    skipped: tuple[SkippedRecord, ...]
    """The first 100; `skipped_count` counts all."""
    skipped_count: int
    rollouts: Rollouts
    groups: Groups
    judged_step: int | None
    """The last step that the detectors have seen."""
    batch: Callable[[int], Batch | None]
    """The train rollouts of a step with their groups; None where there are none. Cheap; safe from any thread."""
    eval_batch: Callable[[int], Batch | None]
    """The held-out rollouts that carry a step's number."""
    read: Callable[[int], Rollout | Gone]
    """The rollout of a row of `rollouts` with its text, read again from its file; safe from any thread."""
    scan: Callable[[NDArray[np.int64], Sequence[Literal]], Iterator[Looked]] | None = None
    """Many rows with their texts, see `grpo_top.scan.scan`; safe from any thread. None: each is read by itself."""
    keys: Mapping[str, str | None] = field(default_factory=dict)
    """The trainer's own metric names → the canonical series that each is read as, None where it is none."""
    own: Mapping[str, Series] = field(default_factory=dict)
    """The trainer's numbers that are read as no series, under its own names."""
    defects: tuple[str, ...] = ()
    """Detectors that failed themselves and are switched off, one line each; a source's is in its note."""
    epoch: int = 0
    """How often all was read again from its beginning: rows of another epoch are other rollouts."""
    let_go: int = 0
    """Rollouts that the grpo-top which serves the run had let go before they were asked for."""
    samplers: tuple[SamplerFacts, ...] = ()
    """Inference servers that are looked at, in the order in which they were named."""
    fleet: tuple[FleetSeries, ...] = ()
    """Numbers over all samplers that a Prometheus server scrapes; empty where none is asked."""
    reference: Reference | None = None
    """What the user wants drawn behind the run."""
    raw: Callable[[int], bytes | None] = lambda _row: None
    """The line that a row was read from; None where it is no line of a text file, or cannot be read any more."""
    graded: tuple[Graded, ...] = ()
    """Hand scores of this run's rollouts, by step."""
    prompts: Mapping[int, str] = field(default_factory=dict)
    """Row of a group's first rollout → its prompt: of the newest groups alone, and not where it is long."""
    grade: Callable[[int, HandScore], str] = lambda _row, _score: "there is nobody to keep it"
    """Takes the hand score of a row; why it could not be kept beyond this process, else empty."""


class Gone(NamedTuple):
    """Why a rollout's text cannot be read any more; its columns still stand."""

    reason: str
