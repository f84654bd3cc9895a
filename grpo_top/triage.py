"""Stage order, the cause table, the first cause, and coverage: what the findings mean together."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.hints import hints
from grpo_top.snapshot import QUIET, STAGES, CoverageItem, Finding, StageState, Status
from grpo_top.table import SAMPLERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CAUSES: dict[str, frozenset[str]] = {
    "SAMPLER_DRIFT": frozenset(
        {
            "REWARD_STREAK",
            "REWARD_INCONSISTENT",
            "DEGENERATE_GROUPS",
            "NO_TRAINABLE_GROUPS",
            "LOW_TRAINABILITY",
            "TRAINABILITY_DECLINE",
            "ADV_COLLAPSE",
            "REWARD_STD_DEATH",
            "UNIFORM_COMPONENT",
            "NO_UPDATE",
            "SPARSE_REWARD",
            "SATURATED_REWARD",
            "REWARD_COLLAPSE",
            "ENTROPY_COLLAPSE",
            "ENTROPY_EXPLOSION",
            "LOW_DIVERSITY",
            "REPETITION_LOOPS",
            "GIBBERISH",
            "TERMINATION_SHIFT",
            "TRUNCATION",
            "PARSE_FAILURES",
            "LENGTH_COLLAPSE",
            "LOGPROB_MISMATCH",
        }
    ),
    "REWARD_STREAK": frozenset({"BASE_SUCCESS_ZERO"}),
    "REWARD_INCONSISTENT": frozenset({"BASE_SUCCESS_ZERO"}),
    "STALE_ROLLOUTS": frozenset({"LOGPROB_MISMATCH", "KL_EXPLODING", "MIXED_VERSIONS", "GRAD_SPIKES"}),
    "WEIGHT_SYNC_STUCK": frozenset(
        {"STALE_ROLLOUTS", "LOGPROB_MISMATCH", "KL_EXPLODING", "MIXED_VERSIONS", "GRAD_SPIKES"}
    ),
    "LOGPROB_MISMATCH": frozenset(
        {"KL_EXPLODING", "GRAD_SPIKES", "REWARD_COLLAPSE", "ENTROPY_COLLAPSE", "ENTROPY_EXPLOSION"}
    ),
    "ENTROPY_EXPLOSION": frozenset({"REWARD_COLLAPSE", "GIBBERISH"}),
    "KL_EXPLODING": frozenset({"REWARD_COLLAPSE"}),
    "REPETITION_LOOPS": frozenset({"REWARD_COLLAPSE", "DEGENERATE_GROUPS", "NO_TRAINABLE_GROUPS"}),
    "GIBBERISH": frozenset({"REWARD_COLLAPSE", "DEGENERATE_GROUPS", "NO_TRAINABLE_GROUPS"}),
    "TRUNCATION": frozenset(
        {
            "PARSE_FAILURES",
            "BASE_SUCCESS_ZERO",
            "SPARSE_REWARD",
            "DEGENERATE_GROUPS",
            "NO_TRAINABLE_GROUPS",
            "TERMINATION_SHIFT",
        }
    ),
    "PARSE_FAILURES": frozenset(
        {
            "REWARD_STREAK",
            "REWARD_COLLAPSE",
            "DEGENERATE_GROUPS",
            "NO_TRAINABLE_GROUPS",
            "SPARSE_REWARD",
            "UNIFORM_COMPONENT",
        }
    ),
    "LOW_DIVERSITY": frozenset(
        {"DEGENERATE_GROUPS", "UNIFORM_COMPONENT", "NO_TRAINABLE_GROUPS", "LOW_TRAINABILITY"}
    ),
    "SATURATED_REWARD": frozenset(
        {
            "DEGENERATE_GROUPS",
            "NO_TRAINABLE_GROUPS",
            "LOW_TRAINABILITY",
            "TRAINABILITY_DECLINE",
            "ADV_COLLAPSE",
            "REWARD_STD_DEATH",
        }
    ),
    "DEGENERATE_GROUPS": frozenset(
        {
            "NO_TRAINABLE_GROUPS",
            "LOW_TRAINABILITY",
            "TRAINABILITY_DECLINE",
            "ADV_COLLAPSE",
            "REWARD_STD_DEATH",
        }
    ),
}
"""A finding's id → the findings of the same or earlier stages that it explains when it began no later than they did.

Consequences in later stages need no row: upstream comes first anyway.
"""

UNCAUSED = frozenset({"SAMPLER_DRIFT"})
"""How a run is set up, which follows from nothing that happens in it."""
OF_SOME_ROLLOUTS = frozenset({"PARSE_FAILURES", "TRUNCATION"})
"""As a warning it is a fault of a minority of rollouts, which leaves the failure of all of them unexplained."""


class Field(NamedTuple):
    """One part of a thing to log: how it is called, and the series or columns that carry it."""

    name: str
    series: tuple[str, ...]
    """Any of them will do."""


class Item(NamedTuple):
    """One of the ten things to log."""

    name: str
    fields: tuple[Field, ...]


TEN_THINGS: tuple[Item, ...] = (
    Item(
        "reward per family, with raw verifier output beside it",
        (
            Field("reward", ("reward_mean",)),
            Field("family", ("column:family",)),
            Field("verifier output", ("column:verifier",)),
        ),
    ),
    Item("zero-variance fraction", (Field("zero-variance groups", ("zero_variance_group_frac",)),)),
    Item("success per tier", (Field("success", ("success_rate",)), Field("tier", ("column:tier",)))),
    Item(
        "parse-failure and truncation rate",
        (Field("parse failures", ("parse_failure_rate",)), Field("truncation", ("truncation_rate",))),
    ),
    Item(
        "length distribution, and reward against length",
        (
            Field("lengths", ("completion_tokens_mean",)),
            Field("rewards beside them", ("reward_mean", "column:advantage")),
        ),
    ),
    Item("KL and entropy", (Field("kl", ("kl",)), Field("entropy", ("entropy",)))),
    Item(
        "termination reasons per family",
        (Field("termination", ("termination",)), Field("family", ("column:family",))),
    ),
    Item(
        "policy version and lag",
        (Field("policy version", ("policy_version", "version_lag_max")), Field("lag", ("version_lag_max",))),
    ),
    Item("held-out evaluation at a fixed cadence", (Field("held-out", ("heldout",)),)),
    Item(
        "environment version, reward version and sampler config",
        (
            Field("environment version", ("column:env_version",)),
            Field("reward version", ("column:reward_version",)),
            Field("sampler config", ("column:sampling",)),
        ),
    ),
)
"""What a run should log, and which series and columns show that it does."""


class Check(NamedTuple):
    """How one detector stands."""

    id: str
    stage: int
    status: Status
    expected: bool = True
    """See `DetectorTrack.expected`."""
    in_logs: bool = True
    """See `Detector.in_logs`."""


def stages(checks: Iterable[Check], findings: Iterable[Finding]) -> tuple[StageState, ...]:
    """Each stage as the worst of its checks, and OK only where none is missing that could have raised an alarm.

    Those that could not be made are named, for lack of data or of steps, but for those that no log is expected to feed.
    """
    return _stages(
        tuple(checks), tuple((finding.id, finding.stage) for finding in findings if finding.active)
    )


@lru_cache(maxsize=8)
def _stages(checks: tuple[Check, ...], active: tuple[tuple[str, int], ...]) -> tuple[StageState, ...]:
    """Kept, as `_coverage` is."""
    found = []
    for number, (name, _) in enumerate(STAGES):
        own = [check for check in checks if check.stage == number]
        so_far = max((check.status for check in own), default=Status.UNKNOWN)
        not_made = [check for check in own if check.status == Status.UNKNOWN]
        partly = so_far in QUIET and any(check.expected for check in not_made)
        found.append(
            StageState(
                stage=number,
                name=name,
                status=Status.UNKNOWN if partly else so_far,
                findings=tuple(id_ for id_, stage in active if stage == number),
                unknown=tuple(check.id for check in not_made if check.in_logs),
                so_far=so_far,
            )
        )
    return tuple(found)


def first_cause(findings: Sequence[Finding], first_step: int | None = None) -> Finding | None:
    """Where to stop first: the earliest stage that fires, save where a finding explains it that began no later.

    `first_step` is the run's: sampling that differs from the run record ever since then is no change that could
    explain another finding, since it may be the record that is wrong.
    """
    alarms = [finding for finding in findings if finding.active and finding.severity >= Status.WARN]
    if not alarms:
        return None
    first = min(alarms, key=lambda finding: (finding.stage, -finding.severity, finding.onset))
    visited = {first.id}
    while True:
        causes = [
            other for other in alarms if other.id not in visited and _explains(other, first, first_step)
        ]
        if not causes:
            return first
        first = min(causes, key=lambda finding: (finding.onset, finding.stage))
        visited.add(first.id)


def _explains(cause: Finding, effect: Finding, first_step: int | None) -> bool:
    """Whether the table says so, the cause began no later, and enough rollouts have it."""
    if effect.id not in CAUSES.get(cause.id, ()) or cause.onset > effect.onset:
        return False
    if cause.id in OF_SOME_ROLLOUTS and cause.severity < effect.severity == Status.FAIL:
        return False
    return not (cause.id == "SAMPLER_DRIFT" and first_step is not None and cause.onset <= first_step)


def explain(
    findings: Sequence[Finding], first_step: int | None = None
) -> tuple[tuple[Finding, ...], str | None]:
    """The findings in triage order with `caused_by` set, and the first cause's id.

    Active findings come first, the first cause on top; what is downstream of it and began no earlier, or what the
    cause table says it explains, is its consequence.
    """
    first = first_cause(findings, first_step)
    if first is None:
        return tuple(
            sorted(findings, key=lambda finding: (not finding.active, finding.stage, finding.onset))
        ), None
    follow = _consequences(findings, first)
    explained = tuple(
        replace(finding, caused_by=first.id) if finding.id in follow else finding for finding in findings
    )

    def order(finding: Finding) -> tuple[bool, bool, bool, int, int]:
        return (
            finding.id != first.id,
            not finding.active,
            finding.caused_by is None,
            finding.stage,
            finding.onset,
        )

    return tuple(sorted(explained, key=order)), first.id


def coverage(
    series: Mapping[str, str],
    columns: Mapping[str, str],
    needs: Mapping[str, Sequence[str]],
    framework: str | None = None,
) -> tuple[CoverageItem, ...]:
    """The ten things to log.

    Args:
        series: name of each known series (without its `{…}` part) → its origin; those in `ASKED` are enough.
        columns: name of each rollout column that carries something → where it is read from.
        needs: detector id → the series that it lacks.
        framework: whose settings the hints name.
    """
    lacks = tuple((id_, tuple(names)) for id_, names in needs.items() if names)
    return _coverage(tuple(series.items()), tuple(columns.items()), lacks, framework)


@lru_cache(maxsize=8)
def _coverage(
    series_: tuple[tuple[str, str], ...],
    columns_: tuple[tuple[str, str], ...],
    needs: tuple[tuple[str, tuple[str, ...]], ...],
    framework: str | None,
) -> tuple[CoverageItem, ...]:
    """Kept, since from one picture to the next it hardly ever changes."""
    series, columns = dict(series_), dict(columns_)
    items = []
    for item in TEN_THINGS:
        carried: dict[str, str] = {}
        missing: list[Field] = []
        for wanted in item.fields:
            origin = _origin(wanted, series, columns)
            if origin is None:
                missing.append(wanted)
            else:
                carried[wanted.name] = origin
        blinded = {name.removeprefix("column:") for wanted in missing for name in wanted.series}
        blinds = tuple(id_ for id_, lacks in needs if not blinded.isdisjoint(lacks))
        if missing:
            status = "missing"
        else:
            status = "present" if all(origin == "log" for origin in carried.values()) else "derived"
        parts = [f"{name}: {origin}" for name, origin in carried.items()]
        parts += [f"{wanted.name}: not logged" for wanted in missing]
        settings = hints(framework, [wanted.name for wanted in missing])
        items.append(CoverageItem(item.name, status, ", ".join(parts), blinds, settings))
    return tuple(items)


FROM_SAMPLERS = "the samplers that are watched"
ASKED = frozenset(name for item in TEN_THINGS for wanted in item.fields for name in wanted.series)
"""All that coverage asks for."""
_DERIVED = frozenset({"zero_variance_group_frac", "parse_failure_rate", "truncation_rate", "success_rate"})


def _origin(wanted: Field, series: Mapping[str, str], columns: Mapping[str, str]) -> str | None:
    for name in wanted.series:
        if name.startswith("column:"):
            if name.removeprefix("column:") in columns:
                return columns[name.removeprefix("column:")]
        elif name in series:
            if series[name] == SAMPLERS:
                return FROM_SAMPLERS
            return "derived from rollouts" if name in _DERIVED and series[name] == "rollouts" else "log"
    return None


def is_downstream(first: Finding, id_: str, stage: int, onset: int) -> bool:
    """Whether something follows from the first cause: it began no earlier, and lies below it or in its row."""
    if id_ == first.id or id_ in UNCAUSED or onset < first.onset:
        return False
    return stage >= first.stage or id_ in CAUSES.get(first.id, ())


def _consequences(findings: Sequence[Finding], first: Finding) -> set[str]:
    """What is downstream of the first cause.

    The table is followed from effect to effect: what takes variance away takes what hangs on variance with it.
    """
    active = [finding for finding in findings if finding.active]
    found = {
        finding.id for finding in active if is_downstream(first, finding.id, finding.stage, finding.onset)
    }
    later = {finding.id for finding in active if finding.onset >= first.onset} - UNCAUSED
    causes = [first.id, *(found & CAUSES.get(first.id, frozenset()))]
    while causes:
        new = later & CAUSES.get(causes.pop(), frozenset()) - found
        found |= new
        causes += new
    return found - {first.id}
