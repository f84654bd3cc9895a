"""A Snapshot as JSON (a contract, see `check_object`) and as text."""

from __future__ import annotations

import math
import re
from textwrap import wrap as wrap_text
from typing import TYPE_CHECKING, Any

from grpo_top.formats.registry import named
from grpo_top.numbers import share
from grpo_top.records import SAMPLING_ORDER
from grpo_top.reference_text import reference_object
from grpo_top.snapshot import Status
from grpo_top.standing import held, standing
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grpo_top.records import Sampling
    from grpo_top.runs import FoundRun
    from grpo_top.snapshot import Finding, Series, Snapshot, SourceFacts


_NUMBERS = re.compile(r"([0-9a-f]{8}[0-9a-f-]*|\d+)")
"""Numbers in a file's name, and the ids that are written like them."""
_SAMPLINGS_LISTED = 5
CHECK_SCHEMA = "grpo-top/check/1"


def check_object(
    snapshot: Snapshot, place: FoundRun | None = None, *, series: bool = False
) -> dict[str, Any]:
    """What `check --json` prints. Its shape is a contract: fields are added, never renamed or taken away.

    place: which of several runs in one place this is; then there is a `place` in it.
    """
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
                "role": source.role,
                "state": source.state,
                "note": source.note or None,
            }
            for source in snapshot.sources
        ],
        "coverage": [
            {
                "item": item.item,
                "status": item.status,
                "from": item.origin,
                "blinds": list(item.blinds),
                "hints": list(item.hints),
            }
            for item in snapshot.coverage
        ],
        "triage": [
            {
                "stage": stage.stage,
                "name": stage.name,
                "status": _word(stage.status),
                "so_far": _word(stage.so_far),
                "findings": list(stage.findings),
                "unknown": list(stage.unknown),
            }
            for stage in snapshot.triage
        ],
        "first_cause": snapshot.first_cause,
        "findings": [finding_object(finding) for finding in snapshot.findings],
        "unknown": [{"id": id_, "needs": list(needs)} for id_, needs in snapshot.unknown],
    }
    stands = standing(snapshot)
    found["standing"] = {
        "state": stands.state,
        "read": 1.0 if snapshot.reading is None else snapshot.reading,
        "last_record_time": snapshot.last_record_time,
        "notes": list(stands.notes),
    }
    if (kept := held(snapshot)) is not None:
        found["run"]["held"] = {"rollouts": kept[0], "first_step": kept[1]}
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
    if place is not None:
        found["place"] = {"name": place.name, "where": list(place.where), "run": place.pick}
    if run.since is not None:
        found["run"]["since"] = run.since
    if snapshot.reference is not None:
        found["reference"] = reference_object(snapshot.reference)
    if snapshot.defects:
        found["defects"] = list(snapshot.defects)
    return found


def worst(snapshot: Snapshot) -> Status:
    """The worst active finding's severity; OK where none is active."""
    return max((finding.severity for finding in snapshot.findings if finding.active), default=Status.OK)


def finding_object(finding: Finding) -> dict[str, Any]:
    """A finding as the JSON contract has it."""
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


def wrap(text: str, width: int, subsequent_indent: str) -> list[str]:
    """Lines of `width` cells; an option keeps its hyphens."""
    return wrap_text(
        text, width, subsequent_indent=subsequent_indent, break_on_hyphens=False, break_long_words=False
    )


def inspect_text(snapshot: Snapshot) -> str:
    """What was found where: sources, formats, records, what is there to judge by and what is missing."""
    lines = ["sources"]
    lines += [safe(f"  {line}") for line in _source_lines(snapshot.sources)]
    lines += [safe(f"  left out: {line}") for line in snapshot.left_out]
    lines += [safe(f"  {line}") for line in snapshot.defects]
    lines += [safe(f"  not whole: {line}") for line in standing(snapshot).notes]
    if not snapshot.run.rollouts:
        formats = dict.fromkeys(source.format for source in snapshot.sources)
        own = [snapshot.run.framework] if snapshot.run.framework in formats else formats
        hints = dict.fromkeys(named(name).rollouts_hint for name in own if name)
        for hint in filter(None, hints):
            lines += wrap(f"  no training rollouts: {hint}", 110, subsequent_indent="    ")
    lines += ["", "run"]
    lines += [safe(f"  {line}") for line in _run_lines(snapshot)]
    lines += ["", "the ten things to log"]
    for item in snapshot.coverage:
        lines.append(f"  {item.status:<8} {item.item}")
        lines.append(f"           {item.origin}")
        if item.blinds:
            lines.append(f"           blinds {', '.join(item.blinds)}")
        for hint in item.hints:
            lines += wrap(f"           to log {hint}", 110, subsequent_indent=" " * 13)
    lines += ["", "rollout fields"]
    lines += [f"  {line}" for line in _field_lines(snapshot)]
    lines += ["", "series"]
    lines += [safe(f"  {line}") for line in _series_lines(snapshot)]
    return "\n".join(lines) + "\n"


def _word(status: Status) -> str:
    """A stage's word: a remark leaves it well."""
    return "ok" if status == Status.INFO else status.word


_FIELDS = {
    "reward": "reward",
    "advantage": "advantage",
    "completion": "text",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "finish_reason": "finish",
    "truncated": "truncated",
    "termination": "termination",
    "parsed": "parsed",
    "verifier": "verifier_known",
    "task or prompt": "task",
    "family": "family",
    "tier": "tier",
    "seed": "seed",
    "policy_version": "policy_end",
    "trainer_version": "trainer_version",
    "sampling": "sampling",
    "sampler": "sampler",
    "logprobs": "logp_diff",
    "env_version": "env_version",
    "reward_version": "reward_version",
}
"""What a rollout record may carry → the column that shows whether it did."""
_ZERO_IS_UNKNOWN = frozenset(("text", "verifier_known"))


def _field_lines(snapshot: Snapshot) -> Iterator[str]:
    """Which share of the rollouts carries which field, and the fields that none does."""
    rollouts = snapshot.rollouts
    live = rollouts.columns["live"] == 1
    count = int(live.sum())
    if not count:
        yield "none: there are no rollouts"
        return
    known = {}
    for field, column in _FIELDS.items():
        values = rollouts.columns[column][live]
        if values.dtype.kind == "f":
            carried = ~_isnan(values)
        else:
            carried = values != 0 if column in _ZERO_IS_UNKNOWN else values != -1
        known[field] = int(carried.sum())
    known |= {
        f"rewards.{name}": int((~_isnan(values[live])).sum()) for name, values in rollouts.components.items()
    }
    read = [f"{field} {share(found / count)}" for field, found in known.items() if found]
    yield from wrap(safe(f"read: {', '.join(read)}"), 108, subsequent_indent="  ")
    lacking = [field for field, found in known.items() if not found]
    if lacking:
        yield from wrap(f"on no rollout: {', '.join(lacking)}", 108, subsequent_indent="  ")


def _series_lines(snapshot: Snapshot) -> Iterator[str]:
    """Each series with its origin, its values and the trainer's names for it; then the names that are read as none."""
    own: dict[str, list[str]] = {}
    for key, name in snapshot.keys.items():
        if name is not None:
            own.setdefault(name, []).append(key)
    for name in sorted(snapshot.series):
        series = snapshot.series[name]
        known = int((~_isnan(series.values)).sum())
        said = f"  from {', '.join(own[name])}" if name in own else ""
        yield f"{name:<44} {series.origin:<9} {known:>9,} values{said}"
    unused = [key for key, name in snapshot.keys.items() if name is None]
    if unused:
        yield from wrap(f"read as no series: {', '.join(unused)}", 108, subsequent_indent="  ")
        yield "they are kept under these names; [names] in grpo-top.toml says which series one is"


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
        read_as: dict[str, str | None] = {}
        for source in same:
            read_as |= source.fields
        yield from _read_as(read_as)


def _read_as(fields: Mapping[str, str | None]) -> Iterator[str]:
    """How names were read that were guessed or set, so that a wrong guess is seen."""
    parts = {
        "": [
            f"{field}\N{NO-BREAK SPACE}←\N{NO-BREAK SPACE}{name}"
            for name, field in fields.items()
            if field not in (None, name)
        ],
        "under their own names: ": [name for name, field in fields.items() if field == name],
        "not read: ": [name for name, field in fields.items() if field is None],
    }
    for what, names in parts.items():
        if names:
            lines = wrap(f"  {what}{', '.join(names)}", 106, subsequent_indent="    ")
            yield from (line.replace("\N{NO-BREAK SPACE}", " ") for line in lines)


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
