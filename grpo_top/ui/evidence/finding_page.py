"""The page of one entry of the findings list: what is wrong, the evidence, what followed, what to try, the proof."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.detectors import BY_ID
from grpo_top.measures import field_of, measure_of
from grpo_top.snapshot import STAGES, Status
from grpo_top.text import safe
from grpo_top.ui.evidence.attached import evidence_rows, flow
from grpo_top.ui.evidence.followed import followed
from grpo_top.ui.evidence.groups import (
    answers_cell,
    mean_cell,
    prompt_cell,
    proving,
    strip_cells,
    texts_cell,
)
from grpo_top.ui.evidence.layout import Column, Frame, line_of, selectable, table, wrapped
from grpo_top.ui.evidence.listing import CLEARED, FIRST, Entry, episodes_text, watch_text
from grpo_top.ui.evidence.rules import judged_numbers, now_and_limit, sentences
from grpo_top.ui.glyphs import STATUS_ROLES, word
from grpo_top.ui.panels.said import ended
from grpo_top.ui.widgets.runs import ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.snapshot import Finding
    from grpo_top.ui.evidence.attached import Pair
    from grpo_top.ui.evidence.groups import GroupOf, Reading
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

LINE = 100
"""Cells of a line of prose at most."""
_SHORT = {"temperature": "temp", "max_tokens": "budget", "repetition_penalty": "rep_pen"}
"""Settings as the title of a narrow column."""
COPY_WIDTH = 100
"""Cells of the page when it is copied as text."""


@dataclass(frozen=True, slots=True)
class FindingPage:
    """The rows of a page, without the column of air, and where its list of groups begins."""

    frame: Frame
    rows: list[Row]
    groups: list[GroupOf] = field(default_factory=list)
    proof_at: int = 0
    """The row of the first group."""


def finding_page(view: View, entry: Entry, width: int, read: Reading, glyphs: Glyphs) -> FindingPage:
    """The page of an entry, in lines of `width` cells."""
    frame = Frame(*_borders(view, entry, glyphs), role=_border_role(entry))
    rows = _lead(view, entry, width, glyphs)
    finding = entry.finding
    if finding is None:
        return FindingPage(frame, rows)
    rows += _section("Evidence", _evidence(view, finding, width, glyphs))
    rows += _section("", followed(view, finding, width, glyphs))
    rows += _section("Try, in order", _steps_to_try(finding.try_next, width, glyphs))
    groups = proving(view.snapshot, finding.rollouts)
    if not groups:
        return FindingPage(frame, rows)
    title: list[Run] = [("Rollouts that prove it", "accent bold")]
    rows += [[], ends(title, [(_how_many(finding, groups), "dim")], width, glyphs.ellipsis)]
    proof = _proof(view, finding, groups, width, read, glyphs)
    return FindingPage(frame, [*rows, *proof], groups, len(rows) + 1)


def page_rows(page: FindingPage, chosen: int | None, width: int, glyphs: Glyphs) -> list[Row]:
    """The rows for a box that is `width` cells wide, with one group raised."""
    at = None if chosen is None or not page.groups else page.proof_at + chosen
    return [selectable(row, width, index == at, glyphs) for index, row in enumerate(page.rows)]


def page_text(page: FindingPage, glyphs: Glyphs) -> str:
    """The page as plain text, to be copied."""
    head = ends(page.frame.title, page.frame.facts, COPY_WIDTH, glyphs.ellipsis)
    return "\n".join(line_of(row) for row in (head, [], *page.rows)) + "\n"


def _borders(view: View, entry: Entry, glyphs: Glyphs) -> tuple[list[Run], list[Run]]:
    if entry.item is not None:
        role = "info" if entry.status == Status.UNKNOWN else "ok"
        return [(f"{glyphs.mark(entry.status)} ", role), ("to log", "text bold")], [
            (entry.item.status, "dim")
        ]
    role = "dim" if entry.section == CLEARED else STATUS_ROLES[entry.status]
    title: list[Run] = [(f"{glyphs.mark(entry.status)} {entry.key}", f"{role} bold")]
    said = "cleared" if entry.section == CLEARED else word(entry.status).lower()
    facts: list[Run] = [("cannot be judged" if said == "?" else said, f"{role} bold")]
    if entry.stage is not None:
        facts.append((f"   stage {entry.stage} {STAGES[entry.stage][0]}", "dim"))
    if entry.finding is not None:
        when = entry.when if entry.section != CLEARED else episodes_text(view, entry.finding)
        when = when.replace("since ", "since step ").removeprefix("info ")
        facts.append((f"   {glyphs.plain(when if 'since' in when else f'steps {when}')}", "text"))
    return title, facts


def _border_role(entry: Entry) -> str:
    loud = entry.status >= Status.WATCH and entry.section < CLEARED and entry.status != Status.INFO
    return STATUS_ROLES[entry.status] if loud else "border"


def _section(title: str, rows: Sequence[Row]) -> list[Row]:
    """A section after a blank row, with its title where it has one; nothing where it has no rows."""
    if not rows:
        return []
    return [[], *([[(title, "accent bold")]] if title else []), *rows]


def _lead(view: View, entry: Entry, width: int, glyphs: Glyphs) -> list[Row]:
    """What is wrong, in this run's words, then in general."""
    line = min(width, LINE)
    detector = BY_ID.get(entry.key)
    if entry.item is not None:
        return _to_log(entry, line, glyphs)
    rows: list[Row] = []
    if entry.finding is not None:
        rows += wrapped(
            glyphs.plain(safe(entry.finding.summary)),
            line,
            "bright bold" if entry.section == FIRST else "text bold",
        )
    elif entry.needs:
        names = ", ".join(dict.fromkeys(field_of(name) for name in entry.needs))
        rows += wrapped(glyphs.plain(f"it needs what this log does not hold: {names}"), line, "text bold")
    elif view.status(entry.key) == Status.WATCH:
        said = f"{watch_text(view, entry.key)}; not for long enough to be a finding"
        rows += wrapped(glyphs.plain(said), line, "text bold")
    if detector is None:
        return rows
    if entry.finding is not None:
        return rows + wrapped(glyphs.plain(sentences(detector.page.what, 2)), line)
    rows += [[], *wrapped(glyphs.plain(detector.page.what), line)]
    rows += _section("How it is judged", wrapped(glyphs.plain(detector.page.decides), line))
    return rows + _section("Try, in order", _steps_to_try(detector.page.try_next, width, glyphs))


def _to_log(entry: Entry, width: int, glyphs: Glyphs) -> list[Row]:
    if entry.item is None:
        return []
    item = entry.item
    rows = wrapped(glyphs.plain(item.item), width, "text bold")
    rows.append([])
    for part in item.origin.split(", "):
        rows += wrapped(glyphs.plain(part), width)
    if item.blinds:
        rows += _section("Without it these cannot be judged", [[(id_, "text")] for id_ in item.blinds])
    return rows


def _evidence(view: View, finding: Finding, width: int, glyphs: Glyphs) -> list[Row]:
    """The attached numbers, the rule's own value beside its limit, and when it stood."""
    detector = BY_ID.get(finding.id)
    shares = detector is not None and bool(detector.series) and measure_of(detector.series[0]).kind == "share"
    rows = evidence_rows(finding.evidence, view.snapshot, width, glyphs, shares=shares)
    rows += flow(_judged(view, finding, glyphs), width, glyphs)
    if len(finding.episodes) > 1:
        shown = (
            finding.episodes if view.cursor is None else [e for e in finding.episodes if e[0] <= view.cursor]
        )
        spans = "  ".join(numbers.span(*episode) for episode in shown[-8:])
        more = f"  and {len(shown) - 8} before" if len(shown) > 8 else ""
        rows += flow([("stood in steps", [(glyphs.plain(f"{spans}{more}"), "text")])], width, glyphs)
    if view.cursor is not None and finding.last_step > view.cursor:
        rows += wrapped(f"The attached numbers are those of step {finding.last_step}.", width, "dim")
    return rows


def _judged(view: View, finding: Finding, glyphs: Glyphs) -> list[Pair]:
    """The value beside its limit, where the evidence is no table that says more."""
    if "settings" in finding.evidence:
        return []
    at_cursor = None if view.cursor is None else now_and_limit(view, finding.id)
    judged = at_cursor[1:] if at_cursor is not None else judged_numbers(finding)
    if judged is None:
        return []
    value, most = judged
    return [
        ("judged", [(glyphs.plain(value), "text bold")]),
        ("limit", [(glyphs.plain(most), "limit")]),
    ]


def _steps_to_try(steps: Sequence[str], width: int, glyphs: Glyphs) -> list[Row]:
    rows: list[Row] = []
    for number, step in enumerate(steps, 1):
        lead = f"{number} "
        told = wrapped(ended(glyphs.plain(safe(step))), min(width, LINE), first=lead)
        rows += [[(lead, "accent bold"), *told[0][1:]], *told[1:]]
    return rows


def _how_many(finding: Finding, groups: Sequence[GroupOf]) -> str:
    named, of = len(finding.rollouts), len(groups)
    return f"{numbers.count(named)} rollout{'s' * (named != 1)} of {numbers.count(of)} group{'s' * (of != 1)}"


def _proof(
    view: View, finding: Finding, groups: Sequence[GroupOf], width: int, read: Reading, glyphs: Glyphs
) -> list[Row]:
    """The table of groups; the setting that differs has a column of its own."""
    setting = next(iter(_settings_of(finding)), None)
    columns = [
        Column("step", right=True),
        Column("prompt", most=max(width // 4, 12)),
        *([Column(_SHORT.get(setting, setting[:8]), right=True, rank=3)] if setting else []),
        Column("rewards"),
        *([] if setting else [Column("mean", right=True, rank=2)]),
        Column("texts", rank=4),
        Column("answers", rank=5),
    ]
    body: list[list[list[Run]]] = []
    for group in groups:
        cells = [
            [(str(group.step), "text")],
            prompt_cell(group, read, max(width // 4, 12), glyphs),
            *([_deployed(view, group, setting, glyphs)] if setting else []),
            strip_cells(view, group, glyphs),
            *([] if setting else [mean_cell(group, glyphs)]),
            texts_cell(group),
            answers_cell(group, read, 24, glyphs),
        ]
        body.append(cells)
    return table(columns, body, width, glyphs)


def _settings_of(finding: Finding) -> list[str]:
    settings = finding.evidence.get("settings")
    return [str(setting.get("setting")) for setting in settings] if isinstance(settings, list) else []


def _deployed(view: View, group: GroupOf, setting: str, glyphs: Glyphs) -> list[Run]:
    """What a group's first named rollout was sampled with."""
    rows = group.proof or group.rows
    number = int(view.snapshot.rollouts.columns["sampling"][rows[0]])
    if number < 0:
        return [(numbers.UNKNOWN, "info")]
    deployed = view.snapshot.rollouts.samplings[number].get(setting)
    wrong = deployed != (view.snapshot.run.sampling or {}).get(setting)
    return [(glyphs.plain(numbers.setting(deployed)), "fail" if wrong else "text")]
