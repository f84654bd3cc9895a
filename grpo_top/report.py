"""A Snapshot as JSON (a contract, see `check_object`) and as text."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from grpo_top.formats.registry import named
from grpo_top.records import SAMPLING_ORDER
from grpo_top.snapshot import STAGES, Status
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grpo_top.records import Sampling
    from grpo_top.snapshot import Finding, Series, Snapshot, SourceFacts


_NUMBERS = re.compile(r"(\d+)")
_SAMPLINGS_LISTED = 5
CHECK_SCHEMA = "grpo-top/check/1"
MARKS = {
    Status.OK: "ok",
    Status.WATCH: "watch",
    Status.INFO: "ok",
    Status.WARN: "WARN",
    Status.FAIL: "FAIL",
    Status.UNKNOWN: "?",
}


def check_object(snapshot: Snapshot, *, series: bool = False) -> dict[str, Any]:
    """What `check --json` prints. Its shape is a contract: fields are added, never renamed or taken away."""
    run = snapshot.run
    found: dict[str, Any] = {
        "schema": CHECK_SCHEMA,
        "run": {
            "name": run.name or None,
            "framework": run.framework,
            "algorithm": run.algorithm,
            "steps": {"first": run.first_step, "last": run.last_step, "count": run.steps},
            "rollouts": run.rollouts,
            "groups": run.groups,
            "evals": run.evals,
        },
        "sources": [
            {
                "where": source.where,
                "format": source.format,
                "records": source.records,
                "bytes": source.bytes,
                "skipped": source.skipped,
            }
            for source in snapshot.sources
        ],
        "coverage": [
            {"item": item.item, "status": item.status, "from": item.origin, "blinds": list(item.blinds)}
            for item in snapshot.coverage
        ],
        "triage": [
            {
                "stage": stage.stage,
                "name": stage.name,
                "status": stage.status.word if stage.status != Status.INFO else "ok",
                "findings": list(stage.findings),
            }
            for stage in snapshot.triage
        ],
        "first_cause": snapshot.first_cause,
        "findings": [_finding(finding) for finding in snapshot.findings],
        "unknown": [{"id": id_, "needs": list(needs)} for id_, needs in snapshot.unknown],
    }
    if series:
        found["series"] = {name: _series(snapshot.series[name]) for name in snapshot.series}
    found["skipped"] = [
        {
            "where": record.where,
            **(
                {"offset": record.offset}
                if record.line is None
                else {"line": record.line, "offset": record.offset}
            ),
            "reason": record.reason,
        }
        for record in snapshot.skipped
    ]
    return found


def check_text(snapshot: Snapshot) -> str:
    """What `check` prints for a person: the run, triage in order of cause, findings with evidence, what is unknown."""
    return "\n".join(_lines(snapshot)) + "\n"


def worst(snapshot: Snapshot) -> Status:
    """The worst active finding's severity; OK where none is active."""
    return max((finding.severity for finding in snapshot.findings if finding.active), default=Status.OK)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "stage": finding.stage,
        "severity": finding.severity.word,
        "active": finding.active,
        "first_step": finding.first_step,
        "last_step": finding.last_step,
        "episodes": [list(episode) for episode in finding.episodes],
        "value": _number(finding.value),
        "threshold": _number(finding.threshold),
        "summary": finding.summary,
        "evidence": _plain({"onset": finding.onset, **finding.evidence}),
        "rollouts": [
            {"where": ref.where, "step": ref.step, "group": ref.group, "index": ref.index}
            for ref in finding.rollouts
        ],
        "try": list(finding.try_next),
        "caused_by": finding.caused_by,
    }


def _series(series: Series) -> dict[str, Any]:
    known = ~_isnan(series.values)
    return {
        "origin": series.origin,
        "steps": series.steps[known].tolist(),
        "values": [value if math.isfinite(value) else None for value in series.values[known].tolist()],
    }


def _isnan(values: Any) -> Any:
    return values != values  # noqa: PLR0124  NaN, without importing numpy here


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _plain(value: Any) -> Any:
    """Evidence as JSON can carry it: numpy scalars become Python's, numbers that are not finite become null."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _lines(snapshot: Snapshot) -> Iterator[str]:
    run = snapshot.run
    what = " · ".join(part for part in (run.framework, run.algorithm) if part)
    yield safe(
        f"{run.name or 'run'}  {what}  steps {_span(run.first_step, run.last_step)}, {run.rollouts:,} rollouts, "
        f"{run.groups:,} groups, {run.evals:,} evaluations"
    )
    if run.recording:
        yield f"  {safe(run.recording)}"
    yield ""
    yield "triage, in order of cause"
    for stage in snapshot.triage:
        question = STAGES[stage.stage][1]
        ids = ", ".join(stage.findings)
        yield f"  {stage.stage} {stage.name:<11} {MARKS[stage.status]:<6} {ids or question}"
    yield ""
    active = [finding for finding in snapshot.findings if finding.active and finding.severity > Status.INFO]
    notes = [finding for finding in snapshot.findings if finding.active and finding.severity == Status.INFO]
    cleared = [finding for finding in snapshot.findings if not finding.active]
    if not active:
        yield "no finding stands"
    for finding in active:
        yield from _finding_lines(finding, snapshot.first_cause)
    for finding in notes:
        yield f"note: {finding.id}, since step {finding.first_step}: {safe(finding.summary)}"
    for finding in cleared:
        yield f"cleared: {finding.id}, steps {_episodes(finding)}: {safe(finding.summary)}"
    if snapshot.unknown:
        yield ""
        yield "cannot be judged"
        for id_, needs in snapshot.unknown:
            yield f"  ? {id_}: needs {', '.join(needs)}"
    if snapshot.skipped_count:
        yield ""
        yield f"{snapshot.skipped_count:,} records skipped, the first of them:"
        for record in snapshot.skipped[:5]:
            at = f"line {record.line}" if record.line is not None else f"offset {record.offset}"
            yield f"  {safe(record.where)}, {at}: {safe(record.reason)}"


def _finding_lines(finding: Finding, first_cause: str | None) -> Iterator[str]:
    role = ""
    if finding.id == first_cause:
        role = "  first cause, stop here first"
    elif finding.caused_by:
        role = f"  follows from {finding.caused_by}"
    yield f"{MARKS[finding.severity]} {finding.id}  since step {finding.first_step}{role}"
    yield f"     {safe(finding.summary)}"
    if finding.rollouts:
        refs = ", ".join(f"step {ref.step} group {ref.group} #{ref.index}" for ref in finding.rollouts[:3])
        yield f"     see {safe(refs)} in {safe(finding.rollouts[0].where)}"
    if finding.id == first_cause:
        for number, step in enumerate(finding.try_next, 1):
            yield f"     {number}. {step}"


def _episodes(finding: Finding) -> str:
    spans: Iterable[str] = (_span(first, last) for first, last in finding.episodes)
    return ", ".join(spans)


def _span(first: int | None, last: int | None) -> str:
    if first is None or last is None:
        return "none"
    return str(first) if first == last else f"{first}-{last}"


def inspect_text(snapshot: Snapshot) -> str:
    """What was found where: sources, formats, records, what is there to judge by and what is missing."""
    lines = ["sources"]
    lines += [safe(f"  {line}") for line in _source_lines(snapshot.sources)]
    lines += [safe(f"  left out: {line}") for line in snapshot.left_out]
    if not snapshot.run.rollouts:
        hints = dict.fromkeys(named(source.format).rollouts_hint for source in snapshot.sources)
        lines += [f"  no training rollouts: {hint}" for hint in hints if hint]
    lines += ["", "run"]
    lines += [safe(f"  {line}") for line in _run_lines(snapshot)]
    lines += ["", "the ten things to log"]
    for item in snapshot.coverage:
        lines.append(f"  {item.status:<8} {item.item}")
        lines.append(f"           {item.origin}")
        if item.blinds:
            lines.append(f"           blinds {', '.join(item.blinds)}")
    lines += ["", "series"]
    for name in sorted(snapshot.series):
        series = snapshot.series[name]
        known = int((~_isnan(series.values)).sum())
        lines.append(safe(f"  {name:<44} {series.origin:<9} {known:>9,} values"))
    return "\n".join(lines) + "\n"


def _source_lines(sources: Sequence[SourceFacts]) -> Iterator[str]:
    """A line for each source; those that differ in a number alone, as a file for each step does, share one."""
    alike: dict[tuple[str, str, str, str, str], list[SourceFacts]] = {}
    for source in sources:
        shape = _NUMBERS.sub("*", source.where)
        key = (shape, source.format, source.role, source.state, source.note)
        alike.setdefault(key, []).append(source)
    names = [_common_name([source.where for source in same]) for same in alike.values()]
    width = min(max(map(len, names), default=0), 72)
    for name, ((_, format_, role, state, note), same) in zip(names, alike.items(), strict=True):
        skipped = sum(source.skipped for source in same)
        yield (
            f"{name:<{width}} {format_:<11} {role:<9} "
            f"{sum(source.records for source in same):>9,} records"
            + (f" in {len(same):,} files" if len(same) > 1 else "")
            + (f", {skipped:,} skipped" if skipped else "")
            + (f"  {state}: {note}" if note else "")
        )


def _common_name(names: Sequence[str]) -> str:
    """One name for names of one shape: numbers that differ become `*`."""
    parts = zip(*(_NUMBERS.split(name) for name in names), strict=True)
    return "".join(same[0] if len(set(same)) == 1 else "*" for same in parts)


def _run_lines(snapshot: Snapshot) -> Iterator[str]:
    run = snapshot.run
    yield f"success is {run.success_rule}"
    if run.reward_range is not None:
        said = "declared" if run.reward_range_declared else "seen so far"
        yield f"reward range {run.reward_range[0]:g} to {run.reward_range[1]:g}, {said}"
    if run.sampling:
        yield f"intended sampling {_settings(run.sampling)}"
    rollouts = snapshot.rollouts
    for number, sampling in enumerate(rollouts.samplings[:_SAMPLINGS_LISTED]):
        count = int(((rollouts.columns["sampling"] == number) & (rollouts.columns["live"] == 1)).sum())
        yield f"deployed sampling {_settings(sampling)}: {count:,} rollouts"
    if len(rollouts.samplings) > _SAMPLINGS_LISTED:
        yield f"deployed sampling: {len(rollouts.samplings) - _SAMPLINGS_LISTED:,} more"


def _settings(sampling: Sampling) -> str:
    return " ".join(f"{name} {sampling[name]}" for name in SAMPLING_ORDER if name in sampling)
