"""What a report of a run holds: what is wrong first, its proof, the charts, and the pages of what was found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import __version__, numbers
from grpo_top.detectors import BY_ID, IN_UNITS_OF_SERIES
from grpo_top.evidence_text import evidence_words
from grpo_top.flowchart import flow_chart
from grpo_top.outcome import outcome
from grpo_top.reference_text import reference_lines
from grpo_top.report_file.blocks import (
    Block,
    Chart,
    Charts,
    Fold,
    Heading,
    Listing,
    Paragraph,
    Table,
    Verbatim,
)
from grpo_top.report_file.pages import pages, prose
from grpo_top.snapshot import Gone, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from grpo_top.config import Settings
    from grpo_top.records import Rollout
    from grpo_top.snapshot import Finding, RolloutRef, Snapshot

ROLLOUTS_SHOWN = 3
"""Proving rollouts of each finding that are shown whole."""
TEXT_SHOWN = 6_000
"""Characters of a prompt or a completion that are shown: the first of the prompt, the last of the completion."""
SHARES = "share"
CHARTED: tuple[tuple[str, str, str], ...] = (
    ("reward_mean", "reward", ""),
    ("heldout", "held-out", ""),
    ("success_rate", "success", SHARES),
    ("zero_variance_group_frac", "zero-variance groups", SHARES),
    ("group_reward_std_mean", "spread within groups", ""),
    ("duplicate_frac", "duplicates", SHARES),
    ("parse_failure_rate", "parse failures", SHARES),
    ("truncation_rate", "truncated", SHARES),
    ("completion_tokens_mean", "completion tokens", ""),
    ("kl", "KL to reference", ""),
    ("entropy", "entropy", ""),
    ("grad_norm", "gradient norm", ""),
    ("clip_frac", "clipped", SHARES),
    ("version_lag_max", "version lag", ""),
    ("mismatch_kl", "sampler/trainer mismatch KL", ""),
)
"""Series, what it is called, and how it is written."""


def content(snapshot: Snapshot, settings: Settings, *, all_pages: bool = False) -> list[Block]:
    """The blocks of the report; with the pages of what was found, or of all checks."""
    return list(_blocks(snapshot, settings, all_pages))


def _blocks(snapshot: Snapshot, settings: Settings, all_pages: bool) -> Iterator[Block]:
    run = snapshot.run
    yield Heading(1, f"grpo-top report: {run.name or 'run'}")
    yield Paragraph(_what(snapshot))
    if run.recording:
        yield Paragraph(run.recording, "info")
    yield _verdict(snapshot)
    yield Heading(2, "Triage, in order of cause", "triage")
    answers = flow_chart(snapshot)
    rows = [(str(one.stage), one.question, one.answer, one.says, one.then) for one in answers]
    yield Table(("", "question", "answer", "this run", "do"), rows)
    yield Heading(2, "Charts", "charts")
    if snapshot.reference is not None:
        what, *lines = reference_lines(snapshot.reference)
        yield Paragraph(f"Grey lines: {what}.")
        yield Listing([line.strip() for line in lines])
    yield Charts(tuple(_charts(snapshot)))
    yield Heading(2, "Findings", "findings")
    if not snapshot.findings:
        yield Paragraph("Nothing was found.", "ok")
    for finding in snapshot.findings:
        yield from _finding(finding, snapshot)
    yield from _outcome(snapshot)
    yield from _limits(snapshot)
    yield from pages([finding.id for finding in snapshot.findings], settings, others=all_pages)
    yield Paragraph(
        f"Written by grpo-top {__version__}, {time.strftime('%Y-%m-%d %H:%M', time.localtime(snapshot.time))}."
    )


def _what(snapshot: Snapshot) -> str:
    run = snapshot.run
    parts = [part for part in (run.framework, run.algorithm) if part]
    if run.first_step is not None and run.last_step is not None:
        parts.append(f"steps {numbers.span(run.first_step, run.last_step)}")
    parts += [
        f"{numbers.count(run.rollouts)} rollouts",
        f"{numbers.count(run.groups)} groups",
        f"{numbers.count(run.evals)} evaluations",
    ]
    return " · ".join(parts)


def _verdict(snapshot: Snapshot) -> Block:
    first = next((finding for finding in snapshot.findings if finding.id == snapshot.first_cause), None)
    if first is not None:
        return Paragraph(
            f"{first.id} since step {first.onset}: {first.summary}. Stop here first.",
            _role(first.severity),
        )
    if any(finding.active and finding.severity >= Status.WARN for finding in snapshot.findings):
        return Paragraph("Findings stand, and none of them is the cause of the others.", "warn")
    judged = sum(
        len(track.status) > 0 and track.status[-1] != Status.UNKNOWN for track in snapshot.tracks.values()
    )
    return Paragraph(
        f"No finding stands; {judged} of {len(snapshot.tracks)} checks could be made.",
        "ok" if judged else "info",
    )


def _role(severity: Status) -> str:
    return severity.word


def _charts(snapshot: Snapshot) -> Iterator[Chart]:
    first = next((finding for finding in snapshot.findings if finding.id == snapshot.first_cause), None)
    for name, title, kind in CHARTED:
        series = snapshot.series.get(name)
        if series is None or not np.isfinite(series.values).any():
            continue
        known = series.values[np.isfinite(series.values)]
        write = numbers.share if kind == SHARES else numbers.value
        spans = [
            episode
            for finding in snapshot.findings
            if finding.severity >= Status.WARN and BY_ID[finding.id].series[:1] == (name,)
            for episode in finding.episodes
        ]
        yield Chart(
            title,
            write(float(known[-1])),
            series.steps,
            series.values,
            _limit(snapshot, name),
            spans,
            None if first is None else first.onset,
            name != "heldout",
            _behind(snapshot, name),
        )


def _behind(snapshot: Snapshot, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    series = None if snapshot.reference is None else snapshot.reference.series.get(name)
    return None if series is None else (series.steps, series.values)


def _limit(snapshot: Snapshot, series: str) -> float | None:
    """The limit of the first finding that judges a series in its own units."""
    for finding in snapshot.findings:
        if finding.id in IN_UNITS_OF_SERIES and BY_ID[finding.id].series[:1] == (series,):
            return finding.threshold
    return None


def _finding(finding: Finding, snapshot: Snapshot) -> Iterator[Block]:
    state = "" if finding.active else ", cleared"
    yield Heading(3, f"{finding.severity.word}: {finding.id}{state}", finding.id)
    role = ""
    if finding.id == snapshot.first_cause:
        role = " First cause: stop here first."
    elif finding.caused_by:
        role = f" It follows from {finding.caused_by}."
    spans = ", ".join(numbers.span(first, last) for first, last in finding.episodes[-6:])
    yield Paragraph(f"{finding.summary}.{role}", _role(finding.severity) if finding.active else "")
    yield Paragraph(f"Steps {spans}; onset {finding.onset}.")
    yield prose(f"What it means, and how it is judged: {finding.id}", {finding.id})
    told = list(evidence_words(finding))
    if told:
        yield Listing(told)
    if finding.try_next and finding.active:
        yield Paragraph("What to try, in order:")
        yield Listing(finding.try_next, ordered=True)
    for ref in finding.rollouts[:ROLLOUTS_SHOWN]:
        yield _rollout(ref, snapshot)


def _rollout(ref: RolloutRef, snapshot: Snapshot) -> Block:
    name = f"step {ref.step}, group {ref.group}, rollout {ref.index} in {ref.where}"
    rollout = snapshot.read(ref.row)
    if isinstance(rollout, Gone):
        return Fold(name, (Paragraph(f"Its text cannot be read any more: {rollout.reason}"),))
    return Fold(name, tuple(_rollout_blocks(rollout)))


def _rollout_blocks(rollout: Rollout) -> Iterator[Block]:
    facts = [("reward", numbers.value(rollout.reward))]
    facts += [(name, numbers.value(part)) for name, part in (rollout.rewards or {}).items()]
    facts += [
        ("tokens", numbers.count(rollout.completion_tokens)),
        ("finish", rollout.finish_reason or numbers.UNKNOWN),
        ("policy version", numbers.count(rollout.policy_version)),
    ]
    yield Table(tuple(name for name, _ in facts), (tuple(text for _, text in facts),))
    if rollout.verifier_raw is not None:
        yield Paragraph("verifier")
        yield Verbatim(_beginning(rollout.verifier_raw))
    if rollout.messages:
        for message in rollout.messages:
            yield Paragraph(message.role)
            yield Verbatim(_end(message.content))
        return
    if rollout.prompt is not None:
        yield Paragraph("prompt")
        yield Verbatim(_beginning(rollout.prompt))
    if rollout.completion is not None:
        yield Paragraph("completion")
        yield Verbatim(_end(rollout.completion))


def _beginning(text: str) -> str:
    more = len(text) - TEXT_SHOWN
    return text[:TEXT_SHOWN] + (f"\n… {more:,} more characters" if more > 0 else "")


def _end(text: str) -> str:
    """How a completion ends tells more than how it begins."""
    more = len(text) - TEXT_SHOWN
    return (f"{more:,} characters before this …\n" if more > 0 else "") + text[-TEXT_SHOWN:]


def _outcome(snapshot: Snapshot) -> Iterator[Block]:
    came_to = outcome(snapshot)
    if came_to.ratio is None:
        return
    yield Heading(2, "Over the whole run", "outcome")
    of = f" ({numbers.part_of(came_to.trainable, came_to.groups)} groups)" if came_to.groups else ""
    yield Paragraph(f"Trainable groups: {numbers.share(came_to.ratio)}{of}.")
    if came_to.components:
        rows = [
            (
                part.name,
                numbers.share(part.uniform / part.groups),
                numbers.share(part.share_of_spread),
                part.role,
            )
            for part in came_to.components
        ]
        yield Table(("component", "uniform in groups", "share of the spread", ""), rows)


def _limits(snapshot: Snapshot) -> Iterator[Block]:
    yield Heading(2, "What was read, and what cannot be judged", "limits")
    rows = [
        (
            one.where,
            one.format,
            one.role,
            numbers.count(one.records),
            numbers.count(one.skipped),
            one.state,
        )
        for one in snapshot.sources[:40]
    ]
    yield Table(("source", "format", "holds", "records", "skipped", "state"), rows)
    if len(snapshot.sources) > len(rows):
        yield Paragraph(f"and {len(snapshot.sources) - len(rows):,} sources more")
    lacks: dict[tuple[str, ...], list[str]] = {}
    for id_, needs in snapshot.unknown:
        lacks.setdefault(needs, []).append(id_)
    if lacks:
        yield Listing([f"{', '.join(ids)}: needs {', '.join(needs)}" for needs, ids in lacks.items()])
    yield Table(
        ("to log", "status", "from", "what would log it"),
        [(item.item, item.status, item.origin, "; ".join(item.hints)) for item in snapshot.coverage],
    )
    lines = [
        f"{one.where}, {'line ' + str(one.line) if one.line else f'offset {one.offset}'}: {one.reason}"
        for one in snapshot.skipped[:10]
    ]
    if lines:
        yield Paragraph(f"{snapshot.skipped_count:,} records skipped, the first of them:")
        yield Listing(lines)
    if snapshot.defects:
        yield Listing(snapshot.defects)
