"""The inside of the sampler panel: settings as a table, and the series of the one that drifted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.snapshot import Status
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.widgets.chart import draw
from grpo_top.ui.widgets.runs import cut, filled
from grpo_top.ui.widgets.strips import fit

if TYPE_CHECKING:
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.panels.sampler import SamplerFacts, Setting
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_NAME, _VALUE, _SINCE = 11, 8, 5
_GAP = 3
_LEAST_CHART = 8
_MOST_NAME = 18
"""Room for the longest setting's name, where the panel is wide."""


def sampler_rows(facts: SamplerFacts, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The table with its chart above as many lines of summary as fit: first the samplers, then the rollouts."""
    name_width = min(max(_NAME, _NAME + width - 56), _MOST_NAME)
    table_width = 2 + name_width + _VALUE + 1 + _VALUE + 1 + _SINCE
    summary = _summary(facts, glyphs)
    fits = [lines for lines in (2, 1) if height - 1 - lines >= len(facts.settings) + 1]
    lines = summary[len(summary) - (fits[0] if fits else 0) :] if summary and fits else []
    table_height = height - len(lines)
    chart_width = width - table_width - _GAP
    table = [_header(name_width), *(_setting(row, name_width, glyphs) for row in facts.settings)][
        :table_height
    ]
    table += [[] for _ in range(table_height - len(table))]
    if facts.chart is None or chart_width < _LEAST_CHART or table_height < 3:
        return [*table, *lines]
    chart = [
        [(fit(facts.charted, chart_width, ellipsis=glyphs.ellipsis), "dim")],
        *draw(facts.chart, chart_width, table_height - 1, glyphs),
    ]
    joined = [
        [*filled(row, table_width), (" " * _GAP, ""), *line] for row, line in zip(table, chart, strict=True)
    ]
    return [*joined, *lines]


def _header(name_width: int) -> Row:
    titles = f"{'intended':>{_VALUE}} {'deployed':>{_VALUE}} {'since':>{_SINCE}}"
    return [(" " * (2 + name_width) + titles, "dim")]


def _setting(row: Setting, name_width: int, glyphs: Glyphs) -> Row:
    drifted = row.status >= Status.WATCH
    role = STATUS_ROLES[row.status]
    name = fit(row.name, name_width, ellipsis=glyphs.ellipsis)
    deployed = fit(glyphs.plain(row.deployed), _VALUE, right=True, ellipsis=glyphs.ellipsis)
    runs: Row = [
        (f"{glyphs.mark(row.status)} ", role),
        (name, "text bold" if drifted else "dim"),
        (fit(glyphs.plain(row.intended), _VALUE, right=True, ellipsis=glyphs.ellipsis), "text"),
    ]
    since = f"{row.since:>{_SINCE}}"
    if not drifted:
        return [*runs, (f" {deployed}", "text"), (f" {since}", "dim")]
    blank = len(deployed) - len(deployed.lstrip())
    loud = f"{role} bold reverse" if row.status is Status.FAIL else f"{role} bold"
    return [
        *runs,
        (" " * blank, ""),
        (f" {deployed.lstrip()} ", loud),
        (since, f"{role} bold"),
    ]


def _summary(facts: SamplerFacts, glyphs: Glyphs) -> list[Row]:
    count, words = facts.hit
    role = STATUS_ROLES[facts.headline.status] if facts.headline.status >= Status.WATCH else "text"
    lines: list[Row] = []
    if count:
        lines.append([(count, f"{role} bold" if role != "text" else role), (f" {words}", "dim")])
    runs: Row = [(facts.samplers, "dim")] if facts.samplers else []
    if facts.hashes:
        runs.append((f"{'   ' if runs else ''}config hash ", "dim"))
        for index, each in enumerate(facts.hashes):
            last = index == len(facts.hashes) - 1
            runs.append((each, role if last and len(facts.hashes) > 1 else "text"))
            if not last:
                runs.append((f" {glyphs.arrow} ", "dim"))
    if runs:
        lines.append(cut(runs, 200))
    return lines
