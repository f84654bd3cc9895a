"""The triage flow chart: eight questions in the order of cause, and what this run answers to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.measures import field_of
from grpo_top.snapshot import WINDOW, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.snapshot import Finding, Snapshot, StageState

QUESTIONS = (
    "log not to be trusted?",
    "base policy never succeeds?",
    "reward not the one you defined?",
    "groups without variance?",
    "rollouts degenerate, or not as intended?",
    "answers that do not parse or fit?",
    "policy drifts for the wrong reason?",
    "sampler and trainer apart?",
    "train improves, held-out does not?",
)
"""By stage, asked so that yes is the bad answer. Stage 0 comes before the chart: it asks whether to read on at all."""


class Answer(NamedTuple):
    """One question and its answer."""

    stage: int
    question: str
    answer: str
    """`no`, `YES`, `watch`, `?`, or `no?` where it is no as far as could be checked."""
    says: str
    """The answer in a few words with this run's numbers."""
    then: str
    """What to do where it is yes; empty where there is nothing to do."""


def flow_chart(snapshot: Snapshot) -> tuple[Answer, ...]:
    """The answers by stage; the first is the one before the chart."""
    return tuple(_answer(snapshot, stage) for stage in snapshot.triage)


def _answer(snapshot: Snapshot, stage: StageState) -> Answer:
    alarms = [
        finding
        for finding in snapshot.findings
        if finding.active and finding.stage == stage.stage and finding.severity >= Status.WARN
    ]
    question = QUESTIONS[stage.stage]
    if alarms:
        worst = max(alarms, key=lambda finding: (finding.id == snapshot.first_cause, finding.severity))
        return Answer(stage.stage, question, "YES", f"{worst.id}: {worst.summary}", _then(worst, snapshot))
    if stage.so_far == Status.UNKNOWN:
        return Answer(stage.stage, question, "?", _unknown(snapshot, stage.stage), "")
    watched = [id_ for id_ in snapshot.watches if snapshot.tracks[id_].stage == stage.stage]
    says = ", ".join(filter(None, (_quiet(snapshot, stage.stage), _not_asked(snapshot, stage))))
    if not watched:
        return Answer(stage.stage, question, "no?" if stage.partly else "no", says, "")
    crossed = f"{', '.join(watched)} past a limit, not yet for long"
    return Answer(stage.stage, question, "watch", f"{crossed}; {says}" if says else crossed, "")


def _then(finding: Finding, snapshot: Snapshot) -> str:
    if finding.caused_by:
        return f"follows from {finding.caused_by}"
    first = "stop here first. " if finding.id == snapshot.first_cause else ""
    return first + (finding.try_next[0] if finding.try_next else "")


def _not_asked(snapshot: Snapshot, stage: StageState) -> str:
    """How much of the question the answer leaves open."""
    checks = sum(track.stage == stage.stage for track in snapshot.tracks.values())
    return f"{len(stage.unknown)} of {checks} checks not made" if stage.unknown else ""


def _unknown(snapshot: Snapshot, stage: int) -> str:
    needs = dict.fromkeys(
        need for id_, lacks in snapshot.unknown if snapshot.tracks[id_].stage == stage for need in lacks
    )
    fields = ", ".join(dict.fromkeys(map(field_of, needs)))
    if fields:
        return f"not logged: {fields}"
    if stage == 1 and (earned := _judged(snapshot, "BASE_SUCCESS_ZERO")) is not None:
        rule = snapshot.run.success_rule
        return f"what a success is, nothing says: {numbers.share(earned)} of the first rollouts earned {rule}"
    return "too few steps so far"


def _quiet(snapshot: Snapshot, stage: int) -> str:
    """The numbers on which a stage is quiet, those that are known."""
    if stage == 0:
        skipped = snapshot.skipped_count
        return f"{numbers.count(snapshot.run.steps)} steps, {numbers.count(skipped)} records skipped"
    if stage == 1:
        started = _judged(snapshot, "BASE_SUCCESS_ZERO")
        return "" if started is None else f"{numbers.share(started)} of the first rollouts succeeded"
    if stage == 8:
        return _held_out(snapshot)
    said = [
        f"{label} {write(value)}"
        for label, name, write in _NUMBERS[stage]
        if (value := late_mean(snapshot, name)) is not None
    ]
    drift = snapshot.tracks.get("SAMPLER_DRIFT")
    if stage == 4 and drift is not None and len(drift.status) and drift.status[-1] == Status.OK:
        said.insert(0, "sampled as intended")
    return ", ".join(said)


_NUMBERS: dict[int, tuple[tuple[str, str, Callable[[float], str]], ...]] = {
    2: (
        ("mean reward", "reward_mean", numbers.value),
        ("verifier errors", "verifier_error_rate", numbers.share),
    ),
    3: (
        ("zero-variance", "zero_variance_group_frac", numbers.share),
        ("all fail", "all_fail_group_frac", numbers.share),
        ("all pass", "all_pass_group_frac", numbers.share),
    ),
    4: (
        ("duplicates", "duplicate_frac", numbers.share),
        ("loops", "repetition_frac", numbers.share),
        ("entropy", "entropy", numbers.value),
    ),
    5: (
        ("parse failures", "parse_failure_rate", numbers.share),
        ("truncated", "truncation_rate", numbers.share),
    ),
    6: (("KL", "kl", numbers.value), ("clipped", "clip_frac", numbers.share)),
    7: (("lag", "version_lag_max", "{:.3g}".format), ("mismatch KL", "mismatch_kl", numbers.value)),
}
"""By stage: what is said of the last 20 steps, as label, series and how the number is written."""


def late_mean(snapshot: Snapshot, name: str) -> float | None:
    """A series' mean over the last 20 steps, None where none of them carries it."""
    if name not in snapshot.series:
        return None
    values = snapshot.series[name].values[-WINDOW:]
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None


def _judged(snapshot: Snapshot, id_: str) -> float | None:
    """What a detector judged last, None where it has not."""
    track = snapshot.tracks.get(id_)
    if track is None:
        return None
    values = track.values[np.isfinite(track.values)]
    return float(values[-1]) if len(values) else None


def _held_out(snapshot: Snapshot) -> str:
    names = [name for name in snapshot.series if name.partition("{")[0] == "heldout"]
    if not names:
        return ""
    values = snapshot.series[names[0]].values
    values = values[np.isfinite(values)]
    if not len(values):
        return ""
    suite = names[0].partition("{")[2].rstrip("}") or "held-out"
    return f"{suite} {numbers.value(float(values[0]))} → {numbers.value(float(values[-1]))}, {len(values)} evaluations"
