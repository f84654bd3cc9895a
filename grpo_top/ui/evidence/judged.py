"""How a panel is judged: each detector's rule in short, with this run's numbers beside its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.detectors import BY_ID
from grpo_top.measures import field_of
from grpo_top.snapshot import Status
from grpo_top.text import safe
from grpo_top.ui.evidence.layout import Frame, line_of, selectable, wrapped
from grpo_top.ui.evidence.rules import now_and_limit, rule
from grpo_top.ui.glyphs import STATUS_ROLES, word
from grpo_top.ui.panels.said import follows
from grpo_top.ui.widgets.strips import fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.config import Settings
    from grpo_top.snapshot import Finding
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run


def judging(view: View, detectors: Sequence[str]) -> list[str]:
    """A panel's detectors, the loudest first, in the order of the panel where they are equally loud."""
    known = [id_ for id_ in detectors if id_ in view.snapshot.tracks and id_ in BY_ID]
    return sorted(known, key=lambda id_: -view.status(id_) if view.status(id_) >= Status.WATCH else 0)


def judged_rows(
    view: View, ids: Sequence[str], selected: str | None, settings: Settings, width: int, glyphs: Glyphs
) -> tuple[list[Row], list[str]]:
    """The rows for a box that is `width` cells wide, and of each row whose it is."""
    rows: list[Row] = []
    owners: list[str] = []
    for id_ in ids:
        loud = view.status(id_) >= Status.WATCH
        own = _loud(view, id_, settings, width - 4, glyphs) if loud else [_quiet(view, id_, glyphs)]
        own = [selectable(row, width, id_ == selected and not index, glyphs) for index, row in enumerate(own)]
        rows += own
        owners += [id_] * len(own)
    follows = _follows(view, ids, glyphs)
    if follows:
        rows.append([(" ", ""), *follows])
        owners.append("")
    return rows, owners


def judged_frame() -> Frame:
    """The box."""
    return Frame([("How it is judged", "text bold")], [("x", "accent bold"), (" explain", "dim")])


def _finding(view: View, id_: str) -> Finding | None:
    return next((finding for finding in view.findings() if finding.id == id_), None)


def _loud(view: View, id_: str, settings: Settings, width: int, glyphs: Glyphs) -> list[Row]:
    """A detector that stands or is close to it: its rule, the value now, and what it says."""
    status, finding = view.status(id_), _finding(view, id_)
    role = STATUS_ROLES[status]
    when = "watch" if status == Status.WATCH or finding is None else f"since step {view.since(finding)}"
    name = f"{role} bold" if status >= Status.WARN else role
    rows: list[Row] = [[(f"{glyphs.mark(status)} {id_}", name), (f"  {when}", "text")]]
    rows += _short(glyphs.plain(rule(BY_ID[id_], settings)), "dim", width, 4, glyphs)
    said_now = finding is not None and status > Status.WATCH and finding.active and view.cursor is None
    numbers_now = [] if said_now else _now(view, id_, glyphs)
    if numbers_now:
        rows.append([("  ", ""), *numbers_now])
    if finding is not None and said_now:
        rows += _short(glyphs.plain(safe(finding.summary)), "text", width, 2, glyphs)
    return rows


def _short(text: str, role: str, width: int, most: int, glyphs: Glyphs) -> list[Row]:
    """A text on `most` rows at most, cut with an ellipsis."""
    rows = wrapped(text, width - 2, role)
    if len(rows) > most:
        rows[most - 1 :] = [
            [
                (
                    fit(
                        f"{line_of(rows[most - 1])} {line_of(rows[most])}",
                        width - 2,
                        ellipsis=glyphs.ellipsis,
                    ),
                    role,
                )
            ]
        ]
    return [[("  ", ""), *row] for row in rows]


def _now(view: View, id_: str, glyphs: Glyphs) -> list[Run]:
    """`zero-variance 25%   limit 40%`; nothing where value and limit have no common unit."""
    found = now_and_limit(view, id_)
    if found is None:
        return []
    label, value, most = (glyphs.plain(text) for text in found)
    role = STATUS_ROLES[view.status(id_)] if view.status(id_) >= Status.WARN else "text"
    return [(f"{label} ", "dim"), (value, f"{role} bold"), ("   limit ", "dim"), (most, "limit")]


def _quiet(view: View, id_: str, glyphs: Glyphs) -> Row:
    """A detector that says nothing: its value and its limit, or what it lacks."""
    status = view.status(id_)
    row: Row = [(glyphs.mark(status), STATUS_ROLES[status]), (f" {id_}", "dim"), ("  ", "")]
    needs = view.snapshot.tracks[id_].needs
    if status == Status.UNKNOWN and needs:
        return [*row, (glyphs.plain(f"no {', '.join(dict.fromkeys(map(field_of, needs)))}"), "info")]
    if status == Status.UNKNOWN:
        return [*row, ("too few steps so far", "info")]
    return [*row, *(_now(view, id_, glyphs) or [(word(status), "dim")])]


def _follows(view: View, ids: Sequence[str], glyphs: Glyphs) -> list[Run]:
    """What of it follows from the first cause."""
    first = view.first_cause()
    if first is None or first.id in ids:
        return []
    standing = [
        finding
        for finding in view.findings()
        if finding.id in ids and view.is_active(finding) and view.status(finding.id) >= Status.WARN
    ]
    follow = [finding for finding in standing if follows(view, first, finding)]
    if not follow or len(follow) < len(standing):
        return []
    said = "both follow" if len(follow) == 2 else "all follow" if len(follow) > 2 else "it follows"
    role = f"{STATUS_ROLES[first.severity]} bold"
    mark = f"{glyphs.mark(first.severity)} {first.id}"
    return [(f"{said} from ", "dim"), (mark, role), (f" since step {view.since(first)}", "text")]
