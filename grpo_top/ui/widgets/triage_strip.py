"""The triage strip: the nine stages in the order of cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.snapshot import QUIET, STAGES, Status
from grpo_top.ui.glyphs import STATUS_ROLES, glyphs_of
from grpo_top.ui.panels.catalogue import panel_of_stage
from grpo_top.ui.widgets.runs import width_of
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual import events

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

_SHORT = {"learnable": "learn", "staleness": "stale"}
_WIDE, _MIDDLE, _NARROW = 150, 110, 72


class TriageStrip(ViewRows):
    """One line: each stage's mark and name, the first cause's in reverse."""

    async def on_click(self, event: events.Click) -> None:
        """Open a stage's panel; the log itself has none, but findings."""
        stage = (
            None if self.view is None else stage_at(self.view, self.size.width, glyphs_of(self.app), event.x)
        )
        if stage is not None:
            panel = panel_of_stage(stage)
            await self.run_action("app.findings" if panel is None else f"app.panel({panel!r})")

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[list[Run]]:  # noqa: ARG002
        """The line for a width."""
        return [strip_runs(view, width, glyphs)]


def strip_runs(view: View, width: int, glyphs: Glyphs) -> list[Run]:
    """Stages with digits and names, with names alone, or with digits alone; counts at the right where they fit."""
    runs = [run for _, part in _parts(view, width, glyphs) for run in part]
    counts = count_runs(view, glyphs)
    rest = width - width_of(runs) - width_of(counts) - 1
    return [*runs, (" " * rest, ""), *counts] if width >= _WIDE and rest > 1 else runs


def stage_at(view: View, width: int, glyphs: Glyphs, x: int) -> int | None:
    """The stage that stands at a column; None between them and beside them."""
    for stage, part in _parts(view, width, glyphs):
        x -= width_of(part)
        if x < 0:
            return stage
    return None


def _parts(view: View, width: int, glyphs: Glyphs) -> Iterator[tuple[int | None, list[Run]]]:
    """The strip from left to right: each stage with its number, and what stands between them with None."""
    first = view.first_cause()
    yield None, [(" TRIAGE  ", "dim") if width >= _WIDE else (" ", "")]
    for number, (name, _) in enumerate(STAGES):
        if number:
            yield None, _between(width, glyphs)
        yield number, _stage(view, number, name, width, glyphs, first is not None and number == first.stage)


def count_runs(view: View, glyphs: Glyphs, gap: str = " ") -> list[Run]:
    """How many checks fail, warn, watch and are unknown; where none speaks, how many pass."""
    statuses = list(view.statuses.values())
    loud: list[Status] = [status for status in (Status.FAIL, Status.WARN, Status.WATCH) if status in statuses]
    shown = [*(loud or [Status.OK]), *([Status.UNKNOWN] if Status.UNKNOWN in statuses else [])]
    runs: list[Run] = []
    for status in shown:
        passing = (Status.OK, Status.INFO) if status is Status.OK else (status,)
        count = sum(each in passing for each in statuses)
        if runs:
            runs.append((gap, ""))
        runs += [(f"{glyphs.mark(status)} ", STATUS_ROLES[status]), (str(count), STATUS_ROLES[status])]
    return runs


def _between(width: int, glyphs: Glyphs) -> list[Run]:
    if width >= _WIDE:
        return [(f" {glyphs.path} ", "faint")]
    return [(" ", "")] if width >= _NARROW else []


def _stage(view: View, number: int, name: str, width: int, glyphs: Glyphs, first: bool) -> list[Run]:
    status = view.stage_status(number)
    role = STATUS_ROLES[status]
    mark = glyphs.mark(status)
    if status in QUIET:
        mark, role = glyphs.ok, STATUS_ROLES[Status.OK]
        if view.stage_is_open(number):
            mark, role = glyphs.partly, "info"
    loud = f"{role} bold reverse" if status is Status.FAIL else f"{role} bold"
    if width < _MIDDLE:
        label = _SHORT.get(name, name) if width >= _NARROW else str(number)
        if first:
            return [(f"{mark}{label}", loud)]
        return [(mark, role), (label, _name_role(status))]
    label = name if width >= _WIDE or name != "staleness" else _SHORT[name]
    if first:
        return [(f" {mark} {number} {label} ", loud)]
    digit = "faint" if status < Status.WARN else _name_role(status)
    return [(f"{mark} ", role), (f"{number} ", digit), (label, _name_role(status))]


def _name_role(status: Status) -> str:
    return f"{STATUS_ROLES[status]} bold" if status >= Status.WARN else "dim"
