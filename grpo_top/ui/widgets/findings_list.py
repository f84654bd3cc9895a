"""The rail's upper box: the first cause, what it explains, and what else is to be said of the checks."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from grpo_top.snapshot import Finding, Status
from grpo_top.ui.glyphs import STATUS_ROLES, Glyphs, glyphs_of
from grpo_top.ui.panels.facts import since, stood
from grpo_top.ui.panels.said import consequences, is_below, said_of, unjudged, watched_since
from grpo_top.ui.widgets.panel import boxed
from grpo_top.ui.widgets.runs import cut, ends, width_of
from grpo_top.ui.widgets.strips import fit
from grpo_top.ui.widgets.triage_strip import count_runs
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from textual import events

    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]


class FindingsList(ViewRows):
    """Grows with what there is to say, up to what the screen allows."""

    def wanted_height(self, view: View, width: int, most: int) -> int:
        """Rows that the box takes: `most` while anything stands, so that it does not grow and shrink all the time."""
        if any(view.is_active(finding) for finding in view.findings()) or _watching(view):
            return most
        return min(len(finding_rows(view, width - 4, glyphs_of(self.app), brief=False)) + 2, most)

    async def on_click(self, event: events.Click) -> None:
        """Open the finding that the row is of: a sentence is of the finding above it."""
        ids = [finding.id for finding in self.view.findings()] if self.view is not None else []
        for y in range(event.y, 0, -1):
            words = self.text_of(y).split()
            if found := next((id_ for id_ in ids if id_ in words), None):
                await self.run_action(f"app.findings({found!r})")
                return
        await self.run_action("app.findings")

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The box: in brief where not all of it fits."""
        rows = finding_rows(view, width - 4, glyphs, brief=False)
        if len(rows) > height - 2:
            rows = finding_rows(view, width - 4, glyphs, brief=True)
        title: Row = [("Findings", "text bold")]
        if view.cursor is not None:
            title.append((f"  at step {view.cursor}", "accent"))
        right = count_runs(view, glyphs, gap="  ")
        if not any(view.is_active(finding) for finding in view.findings()) and not _watching(view):
            right = [("none ", "dim"), (glyphs.ok, "ok")]
        return boxed(rows, width, height, title, right, [], "border", False, glyphs)


def finding_rows(view: View, width: int, glyphs: Glyphs, *, brief: bool) -> list[Row]:
    """The list; `brief` leaves out the sentences of all but the first cause."""
    first = view.first_cause()
    below = [] if first is None else consequences(view, first)
    watching = _watching(view)
    close = [id_ for id_ in watching if _is_close(view, first, id_)]
    rows: list[Row] = []
    if first is not None:
        rows += _first(view, first, bool(below or close), width, 1 if brief else 2, glyphs)
        for number, finding in enumerate(below, 1):
            is_last = number == len(below) and not close
            rows += _below(view, finding, is_last, width, glyphs, brief=brief)
        for id_ in close:
            branch = glyphs.last_branch if id_ == close[-1] else glyphs.branch
            rows.append(_watch(view, id_, width, glyphs, branch))
    told = {finding.id for finding in below} | ({first.id} if first is not None else set())
    beside = [f for f in view.findings() if view.is_active(f) and f.id not in told]
    for finding in beside:
        rows += _beside(view, finding, width, glyphs, brief=brief)
    rows += [_watch(view, id_, width, glyphs) for id_ in watching if id_ not in close]
    past = [f for f in view.findings() if not view.is_active(f) and view.status(f.id) is not Status.WATCH]
    rest = [_cleared(view, finding, width, glyphs) for finding in past]
    if fields := unjudged(view):
        label: Row = [(f"{glyphs.unknown} ", "info"), ("not judged  ", "dim")]
        text = ", ".join(dict.fromkeys(field.removeprefix("hand ") for field in fields.values()))
        rest.append(
            [*label, (fit(text, width - width_of(label), right=True, ellipsis=glyphs.ellipsis), "dim")]
        )
    return [*rows, *([[]] if rows and rest else []), *rest]


def _watching(view: View) -> list[str]:
    return [id_ for id_, status in view.statuses.items() if status is Status.WATCH]


def _is_close(view: View, first: Finding | None, id_: str) -> bool:
    """Whether a limit that is crossed, not for long, is downstream of the first cause."""
    track = view.snapshot.tracks[id_]
    return is_below(first, id_, track.stage, watched_since(view, track))


def _first(view: View, finding: Finding, has_below: bool, width: int, most: int, glyphs: Glyphs) -> list[Row]:
    status = view.status(finding.id)
    role = STATUS_ROLES[status]
    head = ends(
        [(f"{glyphs.mark(status)} ", role), (f"{finding.stage} ", "faint"), (finding.id, f"{role} bold")],
        [(since(view, finding), "text")],
        width,
        glyphs.ellipsis,
    )
    trunk = glyphs.trunk if has_below else "  "
    lines = wrap(said_of(view, finding), max(width - 4, 1))
    if len(lines) > most:
        lines = [*lines[: most - 1], " ".join(lines[most - 1 :])]
    return [
        head,
        *(cut([(f"{trunk}  ", "border"), (line, "text")], width, glyphs.ellipsis) for line in lines),
    ]


def _below(view: View, finding: Finding, last: bool, width: int, glyphs: Glyphs, *, brief: bool) -> list[Row]:
    status = view.status(finding.id)
    role = STATUS_ROLES[status]
    branch = glyphs.last_branch if last else glyphs.branch
    weight = f"{role} bold" if status >= Status.WARN else role
    head = ends(
        [
            (branch, "border"),
            (f"{glyphs.mark(status)} ", role),
            (f"{finding.stage} ", "faint"),
            (finding.id, weight),
        ],
        [(since(view, finding), "text")],
        width,
        glyphs.ellipsis,
    )
    if brief:
        return [head]
    trunk = "  " if last else glyphs.trunk
    return [
        head,
        ends([(f"{trunk}    ", "border"), (said_of(view, finding), "dim")], [], width, glyphs.ellipsis),
    ]


def _beside(view: View, finding: Finding, width: int, glyphs: Glyphs, *, brief: bool) -> list[Row]:
    status = view.status(finding.id)
    role = STATUS_ROLES[status]
    head = ends(
        [
            (f"{glyphs.mark(status)} ", role),
            (f"{finding.stage} ", "faint"),
            (finding.id, f"{role} bold" if status >= Status.WARN else role),
        ],
        [(since(view, finding), "text")],
        width,
        glyphs.ellipsis,
    )
    if brief:
        return [head]
    return [head, ends([("    ", ""), (said_of(view, finding), "dim")], [], width, glyphs.ellipsis)]


def _watch(view: View, id_: str, width: int, glyphs: Glyphs, branch: str = "") -> Row:
    stage = view.snapshot.tracks[id_].stage
    return ends(
        [(branch, "border"), (f"{glyphs.watch} ", "warn"), (f"{stage} ", "faint"), (id_, "warn")],
        [("watch", "dim")],
        width,
        glyphs.ellipsis,
    )


def _cleared(view: View, finding: Finding, width: int, glyphs: Glyphs) -> Row:
    return ends(
        [(f"{glyphs.mark(finding.severity)} ", "dim"), (f"{finding.stage} ", "faint"), (finding.id, "dim")],
        [(glyphs.plain(f"{stood(view, finding)}, cleared"), "dim")],
        width,
        glyphs.ellipsis,
    )
