"""What `check` prints for a person: the flow chart with its answers, findings with evidence, what is unknown.

Plain lines of at most 110 cells, without colour: they are read in a terminal, in a CI log and in a chat message.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from grpo_top import numbers
from grpo_top.flowchart import flow_chart
from grpo_top.outcome import outcome
from grpo_top.reference_text import reference_lines
from grpo_top.snapshot import Status
from grpo_top.standing import standing
from grpo_top.summary import summary
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from grpo_top.flowchart import Answer
    from grpo_top.outcome import Outcome
    from grpo_top.snapshot import Finding, Snapshot

WIDTH = 110
EVIDENCE_SHOWN = 10
"""Pieces of evidence that a finding's text shows at most; the JSON holds them all."""
LONGEST_WORD = 60
COMPONENTS_SHOWN = 8
_UNBROKEN = "\0"
"""In place of a space at which a line must not break; what is printed holds none, see `safe`."""


def check_text(snapshot: Snapshot) -> str:
    """What `check` prints for a person: the run, triage in order of cause, findings with evidence, what is unknown."""
    return "\n".join(_lines(snapshot)) + "\n"


def _lines(snapshot: Snapshot) -> Iterator[str]:
    run = snapshot.run
    what = " · ".join(part for part in (run.framework, run.algorithm) if part)
    yield safe(f"{run.name or 'run'}  {what}".rstrip())
    if run.recording:
        yield f"  {safe(run.recording)}"
    yield ""
    for section in summary(snapshot):
        whole = " · ".join(safe(part).replace(" ", _UNBROKEN) for part in section.parts)
        yield from (
            line.replace(_UNBROKEN, " ") for line in _wrapped(f"{section.heading:<13}{whole}", " " * 13)
        )
    yield ""
    yield "triage, in order of cause: stop at the first yes"
    for answer in flow_chart(snapshot):
        yield from _answer_lines(answer)
    yield ""
    active = [finding for finding in snapshot.findings if finding.active and finding.severity > Status.INFO]
    notes = [finding for finding in snapshot.findings if finding.active and finding.severity == Status.INFO]
    cleared = [finding for finding in snapshot.findings if not finding.active]
    if not active:
        yield "no finding stands"
    for finding in active:
        yield from _finding_lines(finding, snapshot.first_cause)
    for finding in notes:
        yield from _wrapped(f"note: {finding.id}, since step {finding.first_step}: {safe(finding.summary)}")
    for finding in cleared:
        yield from _wrapped(f"cleared: {finding.id}, steps {_episodes(finding)}: {safe(finding.summary)}")
    yield from _outcome_lines(outcome(snapshot))
    if snapshot.reference is not None:
        yield ""
        for line in reference_lines(snapshot.reference):
            yield from _wrapped(line)
    yield from _unknown_lines(snapshot)
    yield from map(safe, snapshot.defects)
    for note in standing(snapshot).notes:
        yield from _wrapped(f"not whole: {safe(note)}", "  ")
    if snapshot.skipped_count:
        yield ""
        yield f"{snapshot.skipped_count:,} records skipped, the first of them:"
        for record in snapshot.skipped[:5]:
            at = f"line {record.line}" if record.line is not None else f"offset {record.offset}"
            yield f"  {safe(record.where)}, {at}: {safe(record.reason)}"


def _answer_lines(answer: Answer) -> Iterator[str]:
    start = f"  {answer.stage} {answer.question:<41}{answer.answer:<6}"
    yield from _wrapped(f"{start}{safe(answer.says)}".rstrip(), " " * len(start))
    if answer.then:
        yield from _wrapped(f"{' ' * len(start)}→ {safe(answer.then)}", " " * (len(start) + 2))


def _finding_lines(finding: Finding, first_cause: str | None) -> Iterator[str]:
    role = ""
    if finding.id == first_cause:
        role = "  first cause, stop here first"
    elif finding.caused_by:
        role = f"  follows from {finding.caused_by}"
    yield f"{finding.severity.name} {finding.id}  since step {finding.first_step}{role}"
    yield from _wrapped(f"     {safe(finding.summary)}")
    yield from _wrapped(f"     evidence: {', '.join(evidence_words(finding))}", "       ")
    if finding.rollouts:
        refs = ", ".join(f"step {ref.step} group {ref.group} #{ref.index}" for ref in finding.rollouts[:3])
        yield from _wrapped(f"     see {safe(refs)} in {safe(finding.rollouts[0].where)}", "       ")
    if finding.id == first_cause:
        for number, step in enumerate(finding.try_next, 1):
            yield from _wrapped(f"     {number}. {step}", "        ")


def evidence_words(finding: Finding) -> Iterator[str]:
    """A finding's evidence, a few words each, safe to print."""
    yield from map(safe, _evidence({"onset": finding.onset, **finding.evidence}))


def _evidence(evidence: Mapping[str, Any]) -> Iterator[str]:
    """Evidence as `name number`, what lies one deeper under its name, and no more than fits a few lines."""
    said = 0
    for name, value in evidence.items():
        text = _evidence_text(value)
        if text:
            yield f"{name.replace('_', ' ')} {text}"
            said += 1
        if said == EVIDENCE_SHOWN:
            return


def _evidence_text(value: Any) -> str:
    """A piece of evidence in a few words; empty where it is unknown, or too much for a line."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or value is None:
        return "yes" if value else ""
    if isinstance(value, float) and not value.is_integer():
        return numbers.value(value)
    if isinstance(value, int | float):
        return f"{value:.0f}"
    if isinstance(value, str):
        return value if len(value) <= LONGEST_WORD else ""
    if isinstance(value, dict):
        inner = [
            f"{str(key).replace('_', ' ')} {text}"
            for key, of in value.items()
            if not isinstance(of, dict) and (text := _evidence_text(of))
        ]
        return f"({', '.join(inner)})" if 0 < len(inner) <= EVIDENCE_SHOWN else ""
    if isinstance(value, list | tuple) and len(value) <= 2:
        return "–".join(filter(None, map(_evidence_text, value)))
    return ""


def _outcome_lines(came_to: Outcome) -> Iterator[str]:
    if came_to.ratio is None:
        return
    yield ""
    yield "over the whole run"
    ratio = numbers.share(came_to.ratio)
    if came_to.groups:
        yield f"  trainable groups {numbers.part_of(came_to.trainable, came_to.groups)} ({ratio})"
    else:
        yield f"  trainable groups {ratio}, as the trainer logs them"
    several = len(came_to.components) > 1
    for component in came_to.components[:COMPONENTS_SHOWN]:
        uniform = numbers.part_of(component.uniform, component.groups)
        share = numbers.share(component.uniform / component.groups)
        spread = (
            ""
            if component.share_of_spread is None
            else f", {numbers.share(component.share_of_spread)} of the spread"
        )
        mark = f"  {component.role}" if several and component.role else ""
        yield safe(f"  {component.name}: uniform in {uniform} groups ({share}){spread}{mark}")


def _unknown_lines(snapshot: Snapshot) -> Iterator[str]:
    if not snapshot.unknown:
        return
    lacks: dict[tuple[str, ...], list[str]] = {}
    for id_, needs in snapshot.unknown:
        lacks.setdefault(needs, []).append(id_)
    yield ""
    yield "cannot be judged (`grpo-top inspect` says what would log it)"
    for needs, ids in lacks.items():
        yield from _wrapped(f"  ? {', '.join(ids)}: needs {', '.join(needs)}", "    ")


def _wrapped(line: str, indent: str = "     ") -> list[str]:
    """A line in as many as it takes; what cannot be broken stays whole."""
    return wrap(
        line,
        WIDTH,
        subsequent_indent=indent,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [line]


def _episodes(finding: Finding) -> str:
    spans: Iterable[str] = (_span(first, last) for first, last in finding.episodes)
    return ", ".join(spans)


def _span(first: int | None, last: int | None) -> str:
    if first is None or last is None:
        return "none"
    return str(first) if first == last else f"{first}-{last}"
