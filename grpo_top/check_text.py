"""What `check` prints for a person: what is wrong first, the run in five headings, the flow chart with its answers,
findings with evidence, what is unknown.

Plain lines without colour: they are read in a terminal, in a CI log and in a chat message.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.evidence_text import evidence_words
from grpo_top.flowchart import flow_chart
from grpo_top.measures import field_of
from grpo_top.outcome import outcome
from grpo_top.reference_text import reference_lines
from grpo_top.snapshot import Status
from grpo_top.standing import standing
from grpo_top.summary import summary
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grpo_top.flowchart import Answer
    from grpo_top.outcome import Outcome
    from grpo_top.snapshot import Finding, RolloutRef, Snapshot

WIDTH = 110
"""Cells of a line, where no terminal says how many there are."""
NARROW = 100
"""Cells of a line under which an answer of the chart begins on a line of its own."""
COMPONENTS_SHOWN = 8
PROOFS_SHOWN = 3
CONSEQUENCE_SHOWN = 4
"""Pieces of evidence of what only follows from the first cause."""
_UNBROKEN = "\0"
"""In place of a space at which a line must not break; what is printed holds none, see `safe`."""


def check_text(snapshot: Snapshot, place: str = "", width: int = WIDTH) -> str:
    """What `check` prints for a person, in lines of `width` cells.

    place: where the run lies, which is its name where the log gives it none.
    """
    return "\n".join(Text(snapshot, width).lines(place)) + "\n"


class Text:
    """The lines of one picture."""

    def __init__(self, snapshot: Snapshot, width: int) -> None:
        self._snapshot = snapshot
        self._width = width
        self._first = next((one for one in snapshot.findings if one.id == snapshot.first_cause), None)

    def lines(self, place: str) -> Iterator[str]:
        """All of them."""
        run = self._snapshot.run
        what = " · ".join(part for part in (run.framework, run.algorithm) if part)
        yield safe(f"{run.name or place or 'run'}  {what}".rstrip())
        if run.recording:
            yield from self._wrapped(f"  {safe(run.recording)}", "  ")
        yield from self._verdict()
        yield ""
        for section in summary(self._snapshot):
            whole = f"{_UNBROKEN}· ".join(safe(part).replace(" ", _UNBROKEN) for part in section.parts)
            yield from (line.replace(_UNBROKEN, " ") for line in self._labelled(section.heading, whole))
        yield ""
        yield "triage, in order of cause: stop at the first yes"
        for answer in flow_chart(self._snapshot):
            yield from self._answer(answer)
        yield ""
        yield from self._findings()
        yield from _outcome_lines(outcome(self._snapshot))
        yield from self._beside()

    def _verdict(self) -> Iterator[str]:
        first = self._first
        if first is None:
            tracks = self._snapshot.tracks.values()
            judged = sum(len(track.status) > 0 and track.status[-1] != Status.UNKNOWN for track in tracks)
            if judged:
                yield f"no finding stands; {judged} of {len(tracks)} checks could be made"
            else:
                yield "nothing can be judged yet: none of the checks could be made"
            return
        said = f"{first.severity.name} {first.id}, since step {first.onset}: {safe(first.summary)}"
        yield from self._labelled("first cause", said)
        if first.try_next:
            yield from self._labelled("do first", first.try_next[0])
        if explains := [
            one.id for one in self._snapshot.findings if one.active and one.caused_by == first.id
        ]:
            yield from self._labelled("explains", ", ".join(explains))

    def _answer(self, answer: Answer) -> Iterator[str]:
        start = f"  {answer.stage} {answer.question:<41}{answer.answer:<6}"
        indent = " " * len(start)
        if self._width < NARROW:
            yield start.rstrip()
            start = indent = " " * 6
        if answer.says:
            yield from self._wrapped(f"{start}{safe(answer.says)}", indent)
        elif start.strip():
            yield start.rstrip()
        is_first = self._first is not None and self._first.stage == answer.stage
        then = "stop here first" if is_first else answer.then
        if then:
            yield from self._wrapped(f"{indent}→ {safe(then)}", f"{indent}  ")

    def _findings(self) -> Iterator[str]:
        active = [one for one in self._snapshot.findings if one.active]
        alarms = [one for one in active if one.severity > Status.INFO]
        if not alarms:
            yield "no finding stands"
        for finding in alarms:
            yield from self._finding(finding)
        for finding in active:
            if finding.severity == Status.INFO:
                yield from self._wrapped(
                    f"note: {finding.id}, since step {finding.onset}: {safe(finding.summary)}"
                )
        for finding in self._snapshot.findings:
            if not finding.active:
                episodes = ", ".join(numbers.span(*episode) for episode in finding.episodes)
                yield from self._wrapped(f"cleared: {finding.id}, steps {episodes}: {safe(finding.summary)}")

    def _finding(self, finding: Finding) -> Iterator[str]:
        is_first = finding is self._first
        role = "  first cause, stop here first" if is_first else ""
        if finding.caused_by:
            role = f"  follows from {finding.caused_by}"
        yield f"{finding.severity.name} {finding.id}  since step {finding.onset}{role}"
        yield from self._wrapped(f"     {safe(finding.summary)}")
        words = list(evidence_words(finding))
        if evidence := ", ".join(words[:CONSEQUENCE_SHOWN] if finding.caused_by else words):
            yield from self._wrapped(f"     evidence: {evidence}", "       ")
        if finding.rollouts:
            where = finding.rollouts[0].where
            yield from self._wrapped(
                f"     see {safe(_proofs(finding.rollouts))} in {safe(where)}", "       "
            )
        steps = finding.try_next if is_first else () if finding.caused_by else finding.try_next[:1]
        for number, step in enumerate(steps, 1):
            yield from self._wrapped(f"     {f'{number}.' if is_first else 'try:'} {step}", "        ")

    def _beside(self) -> Iterator[str]:
        """What the reference says, what cannot be judged, and how far the picture is whole."""
        snapshot = self._snapshot
        if snapshot.reference is not None:
            yield ""
            for line in reference_lines(snapshot.reference):
                yield from self._wrapped(line)
        if lacks := _lacks(snapshot):
            yield ""
            yield "cannot be judged (`grpo-top inspect` says what would log it)"
            for needs, ids in lacks.items():
                yield from self._wrapped(f"  ? {', '.join(ids)}: {needs}", "    ")
        yield from map(safe, snapshot.defects)
        for note in standing(snapshot).notes:
            yield from self._wrapped(f"not whole: {safe(note)}", "  ")
        if snapshot.skipped_count:
            yield ""
            yield f"{snapshot.skipped_count:,} records skipped, the first of them:"
            for record in snapshot.skipped[:5]:
                at = f"line {record.line}" if record.line is not None else f"offset {record.offset}"
                yield from self._wrapped(f"  {safe(record.where)}, {at}: {safe(record.reason)}", "    ")

    def _labelled(self, label: str, text: str) -> list[str]:
        return self._wrapped(f"{label:<13}{text}", " " * 13)

    def _wrapped(self, line: str, indent: str = "     ") -> list[str]:
        """A line in as many as it takes; what cannot be broken stays whole."""
        return wrap(
            line,
            self._width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [line]


def _proofs(refs: Sequence[RolloutRef]) -> str:
    """The first rollouts that prove a finding, those of one group together: `step 51 group a #0 #1`."""
    by_group: dict[str, list[str]] = {}
    for ref in refs[:PROOFS_SHOWN]:
        by_group.setdefault(f"step {ref.step} group {ref.group}", []).append(f"#{ref.index}")
    return ", ".join(f"{group} {' '.join(indexes)}" for group, indexes in by_group.items())


def _lacks(snapshot: Snapshot) -> dict[str, list[str]]:
    """What is not logged, in words → the checks that it blinds."""
    found: dict[str, list[str]] = {}
    for id_, needs in snapshot.unknown:
        words = "needs " + ", ".join(dict.fromkeys(map(field_of, needs))) if needs else "needs more steps"
        found.setdefault(words, []).append(id_)
    return found


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
