"""Findings as lanes over a chart, on its own axis: where each began, where it ended, what still stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top.snapshot import Status
from grpo_top.ui.glyphs import STATUS_ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grpo_top.snapshot import Finding
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View


class Lane(NamedTuple):
    """One finding's times, as seen at the view's step."""

    id: str
    status: Status
    """As it stands now: WATCH or quieter where it has cleared."""
    severity: Status
    episodes: tuple[tuple[int, int], ...]
    standing: bool


def lanes(view: View, own: Sequence[str], most: int) -> list[Lane]:
    """The first cause, the panel's own findings, the others that stand, then what has cleared; at most `most`."""
    first = view.first_cause()

    def order(finding: Finding) -> tuple[bool, bool, bool, int, int]:
        return (
            first is None or finding.id != first.id,
            not view.is_active(finding) and view.status(finding.id) < Status.WATCH,
            finding.id not in own,
            -finding.severity,
            finding.stage,
        )

    return [_lane(view, finding) for finding in sorted(view.findings(), key=order)[:most]]


def _lane(view: View, finding: Finding) -> Lane:
    last = view.step or finding.last_step
    begun = [(first, min(end, last)) for first, end in finding.episodes if first <= last]
    begun[-1] = (min(view.since(finding), begun[-1][0]), begun[-1][1])
    return Lane(finding.id, view.status(finding.id), finding.severity, tuple(begun), view.is_active(finding))


def lane_row(lane: Lane, column: Callable[[int], int], now: int, width: int, glyphs: Glyphs) -> Row:
    """One lane in `width` cells: the name before its beginning where there is room, else after its end."""
    quiet = not lane.standing and lane.status < Status.WATCH
    status = lane.severity if lane.standing or quiet else lane.status
    role = "dim" if quiet else STATUS_ROLES[status]
    name = f"{glyphs.mark(status)} {lane.id}"
    words = _words(lane, quiet)
    begin = min(max(column(lane.episodes[0][0]), 0), width - 1)
    before = begin - len(name) - 1 >= 0
    after = f"{words}" if before else f"{name} {words}"
    end = min(column(now if lane.standing else lane.episodes[-1][1]), width - 1)
    if end + 2 + len(after) > width:
        end = max(begin, width - 2 - len(after))
    cells = [" "] * width
    for first, last in lane.episodes[:-1] if lane.standing else lane.episodes:
        _put(cells, min(column(first), end), min(column(last), end), glyphs)
    if lane.standing:
        at = min(max(column(lane.episodes[-1][0]), 0), end)
        cells[at : end + 1] = [glyphs.lane_begin, *(glyphs.box.horizontal * (end - at))]
    line = "".join(cells[begin : end + 1])
    loud = f"{role} bold" if status >= Status.WARN and not quiet else role
    runs: Row = []
    if before:
        runs += [(" " * (begin - len(name) - 1), ""), (f"{name} ", loud)]
    else:
        runs += [(" " * begin, "")]
    runs.append((line, role))
    if not before:
        runs.append((f" {name}", loud))
    runs.append((f" {words}", "text" if lane.standing else "dim"))
    return [run for run in runs if run[0]]


def _put(cells: list[str], first: int, last: int, glyphs: Glyphs) -> None:
    """An episode that ended."""
    first, last = max(first, 0), max(last, 0)
    if first >= last:
        cells[first] = glyphs.lane_once
        return
    inside = glyphs.box.horizontal * (last - first - 1)
    cells[first : last + 1] = [glyphs.lane_begin, *inside, glyphs.lane_end]


def _words(lane: Lane, quiet: bool) -> str:
    times = len(lane.episodes)
    if lane.standing:
        return f"since {lane.episodes[-1][0]}" + (f", {times} times" if times > 1 else "")
    often = f"{times} times, " if times > 1 else ""
    return f"{often}cleared" if quiet else f"{often}not now"
