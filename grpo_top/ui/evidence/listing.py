"""The list of findings in triage order: first cause, what it explains, the rest, and what cannot be judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.detectors import BY_ID
from grpo_top.measures import field_of
from grpo_top.snapshot import Status
from grpo_top.text import cells
from grpo_top.ui.evidence.layout import Frame, line_of, on_ground, ruled, wrapped
from grpo_top.ui.evidence.rules import now_and_limit
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.panels.said import follows, is_below, said_of, watched_since
from grpo_top.ui.widgets.runs import ends, filled
from grpo_top.ui.widgets.strips import fit
from grpo_top.ui.widgets.triage_strip import count_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.snapshot import CoverageItem, DetectorTrack, Finding
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

FIRST, EXPLAINED, OTHERS, CLEARED, UNJUDGED, TO_LOG = range(6)
SECTIONS = ("first cause", "explained by it", "others", "cleared", "cannot be judged", "ten things to log")

_SHORT = {
    "reward per family, with raw verifier output beside it": "reward by family, verifier",
    "zero-variance fraction": "zero-variance share",
    "success per tier": "success by tier",
    "parse-failure and truncation rate": "parse failures, truncation",
    "length distribution, and reward against length": "length against reward",
    "KL and entropy": "KL, entropy",
    "policy version and lag": "policy version, lag",
    "termination reasons per family": "endings by family",
    "held-out evaluation at a fixed cadence": "held-out, fixed cadence",
    "environment version, reward version and sampler config": "versions, sampler hash",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One selectable entry of the list."""

    key: str
    """A detector's id, or the thing to log."""
    section: int
    status: Status
    """As it stands at the view's step; of a finding that cleared, what it was."""
    stage: int | None = None
    when: str = ""
    detail: str = ""
    finding: Finding | None = None
    item: CoverageItem | None = None
    needs: tuple[str, ...] = ()


def entries(view: View) -> list[Entry]:
    """Everything that the list holds, in its order."""
    first = view.first_cause()
    found = [_of_finding(view, finding, first) for finding in view.findings()]
    seen = {entry.key for entry in found}
    tracks = view.snapshot.tracks.values()
    found += [
        _of_watch(view, track, first)
        for track in tracks
        if track.id not in seen and view.status(track.id) == Status.WATCH
    ]
    found += [
        Entry(id_, UNJUDGED, Status.UNKNOWN, BY_ID[id_].stage if id_ in BY_ID else None, needs=needs)
        for id_, needs in view.snapshot.unknown
        if id_ not in seen
    ]
    found += [
        Entry(item.item, TO_LOG, Status.UNKNOWN if item.status == "missing" else Status.OK, item=item)
        for item in view.snapshot.coverage
    ]
    return sorted(found, key=_order)


def _order(entry: Entry) -> tuple[int, int, int]:
    """By section, the loudest first, in the order of the stages where that is equal."""
    if entry.section in {UNJUDGED, TO_LOG}:
        return entry.section, 0, entry.stage or 0
    return entry.section, -entry.status, entry.stage or 0


def _of_finding(view: View, finding: Finding, first: Finding | None) -> Entry:
    status, since = view.status(finding.id), view.since(finding)
    detail = said_of(view, finding)
    if view.cursor is not None and finding.last_step > view.cursor and now_and_limit(view, finding.id):
        detail = watch_text(view, finding.id)  # what the finding says itself is of its newest step
    if first is not None and finding.id == first.id:
        return Entry(finding.id, FIRST, finding.severity, finding.stage, f"since {since}", detail, finding)
    if view.is_active(finding):
        section = EXPLAINED if follows(view, first, finding) else OTHERS
        severity = finding.severity if view.cursor is None else status
        when = f"info since {since}" if severity == Status.INFO else f"since {since}"
        return Entry(finding.id, section, severity, finding.stage, when, detail, finding)
    when = episodes_text(view, finding)
    if status == Status.WATCH:
        section = EXPLAINED if follows(view, first, finding) else OTHERS
        now = watch_text(view, finding.id)
        return Entry(finding.id, section, status, finding.stage, when, now, finding)
    return Entry(finding.id, CLEARED, finding.severity, finding.stage, when, detail, finding)


def _of_watch(view: View, track: DetectorTrack, first: Finding | None) -> Entry:
    since = watched_since(view, track)
    section = EXPLAINED if is_below(first, track.id, track.stage, since) else OTHERS
    return Entry(track.id, section, Status.WATCH, track.stage, "watch", watch_text(view, track.id))


def episodes_text(view: View, finding: Finding) -> str:
    """When a finding stood: `5–10`; of several times from the first to the last, and how often: `69–87 ×3`."""
    begun = [episode for episode in finding.episodes if view.cursor is None or episode[0] <= view.cursor]
    last = begun[-1][1] if view.cursor is None else min(begun[-1][1], view.cursor)
    return numbers.span(begun[0][0], last) + (f" ×{len(begun)}" if len(begun) > 1 else "")


def watch_text(view: View, id_: str) -> str:
    """What a detector reads, its value and its limit: `zero-variance 25%, limit 40%`."""
    found = now_and_limit(view, id_)
    if found is None:
        return "its limit is crossed at this step"
    label, value, most = found
    return f"{label} {value}, limit {most}"


def list_rows(
    listed: Sequence[Entry], selected: str, width: int, glyphs: Glyphs
) -> tuple[list[Row], list[str]]:
    """The list's rows for a box `width` cells wide, and of each row the key of its entry.

    A heading has the key of the entry under it.
    """
    rows: list[Row] = []
    owners: list[str] = []
    section = None
    for entry in listed:
        own = _entry_rows(entry, width, glyphs)
        if entry.key == selected:
            mark: Run = (glyphs.selected, "accent bold")
            own = [[mark if not index else (" ", ""), *row[1:]] for index, row in enumerate(own)]
            own = [on_ground(filled(row, width - 2, glyphs.ellipsis), "raised") for row in own]
        if entry.section != section:
            section = entry.section
            own = [_heading(listed, section, width, glyphs), *own]
        rows += own
        owners += [entry.key] * len(own)
    return rows, owners


def list_frame(view: View, more: Sequence[Run], glyphs: Glyphs) -> Frame:
    """The list's box, with how many rows lie below."""
    return Frame([("Findings", "text bold")], count_runs(view, glyphs, "  "), more)


def _heading(listed: Sequence[Entry], section: int, width: int, glyphs: Glyphs) -> Row:
    name = SECTIONS[section]
    if section == TO_LOG:
        name += f": {sum(entry.item is not None and entry.status == Status.OK for entry in listed)}"
    rule = (glyphs.box.horizontal, "border")
    return [(" ", ""), *ruled([(f"{name} ", "dim")], [rule], width - 4, rule, glyphs.ellipsis)]


def _entry_rows(entry: Entry, width: int, glyphs: Glyphs) -> list[Row]:
    """One entry: its mark, stage and name, and in a second row what this run's numbers are."""
    if entry.item is not None:
        missing = entry.status == Status.UNKNOWN
        name = _SHORT.get(entry.item.item, entry.item.item)
        left: list[Run] = [(glyphs.mark(entry.status), STATUS_ROLES[entry.status]), (f" {name}", "dim")]
        return [_line(left, [(entry.item.status, "info" if missing else "dim")], width, glyphs)]
    role = STATUS_ROLES[entry.status]
    quiet = entry.section >= CLEARED
    stage = "?" if entry.stage is None else str(entry.stage)
    if entry.section == UNJUDGED:
        needs = glyphs.plain(", ".join(field_of(name) for name in entry.needs))
        room = max(width - 10 - len(entry.key), 5)
        right: list[Run] = [
            (needs if cells(needs) <= room else fit(needs, room, ellipsis=glyphs.ellipsis), "dim")
        ]
        left = [(glyphs.mark(entry.status), role), (f" {stage} ", "faint"), (entry.key, "dim")]
        return [_line(left, right, width, glyphs)]
    loud = f"{role} bold" if entry.status >= Status.WARN else role
    left = [
        (glyphs.mark(entry.status), "dim" if quiet else loud),
        (f" {stage} ", "faint"),
        (entry.key, "dim" if quiet else loud),
    ]
    rows = [_line(left, [(glyphs.plain(entry.when), "dim" if quiet else "text")], width, glyphs)]
    role = "text" if entry.section == FIRST else "dim"
    detail = wrapped(glyphs.plain(entry.detail), width - 9, role)
    most = 2 if entry.section == FIRST else 1
    if len(detail) > most:
        rest = " ".join(line_of(row) for row in detail[most - 1 :])
        detail[most - 1 :] = [[(fit(rest, width - 9, ellipsis=glyphs.ellipsis), role)]]
    return [*rows, *([(" ", ""), (" " * 5, ""), *row] for row in detail)]


def _line(left: Sequence[Run], right: Sequence[Run], width: int, glyphs: Glyphs) -> Row:
    return [(" ", ""), *ends(left, right, width - 4, glyphs.ellipsis)]
