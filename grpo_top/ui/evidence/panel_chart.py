"""The upper half of an opened panel: lanes of findings, the chart, and its companion on the same axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors import BY_ID
from grpo_top.measures import measure_of
from grpo_top.snapshot import Status
from grpo_top.ui.evidence.lanes import lane_row, lanes
from grpo_top.ui.evidence.layout import Frame, aired, box
from grpo_top.ui.evidence.opened import companion_plot, main_plot
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.widgets.chart import draw, shown_steps, step_columns
from grpo_top.ui.widgets.runs import width_of

if TYPE_CHECKING:
    from grpo_top.config import Settings
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.evidence.opened import Opened, Plot
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.panels.catalogue import Panel
    from grpo_top.ui.panels.facts import PanelFacts
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.chart import ChartSpec
    from grpo_top.ui.widgets.strips import Run

_LABELS = 6
"""Cells of the column of values, the same for both charts."""
_LEAST, _COMPANION = 5, 5
"""Rows of the main chart at least; rows of its companion with the steps under it, its title apart."""


def chart_box(
    view: View,
    panel: Panel,
    opened: Opened,
    facts: PanelFacts,
    width: int,
    height: int,
    settings: Settings,
    glyphs: Glyphs,
) -> list[Row]:
    """The box of `width` x `height` cells."""
    plot = main_plot(view, opened, facts)
    inner = width - 4
    role = STATUS_ROLES[facts.border] if facts.border >= Status.WARN else "border"
    if plot is None:
        said: Row = [(f"{glyphs.unknown} ", "info"), (facts.missing or "nothing to draw yet", "dim")]
        under = companion_plot(view, opened, "")
        rows = [
            said,
            *([] if under is None else [[], *_companion(under, under.spec, inner, height - 4, glyphs)]),
        ]
        frame = Frame([(panel.title, "text bold")], role=role)
        return box(frame, aired(rows, width, glyphs), width, height, glyphs)
    facts_runs = _header(view, opened, plot, facts, settings, inner - len(plot.title) - 8, glyphs)
    foot: Row = [(glyphs.plain(text), each) for text, each in plot.spec.said]
    frame = Frame([(glyphs.plain(plot.title), "text bold")], facts_runs, foot=foot, role=role)
    rows = _rows(view, panel, opened, plot, inner, height - 2, glyphs)
    return box(frame, aired(rows, width, glyphs), width, height, glyphs)


def _rows(
    view: View, panel: Panel, opened: Opened, plot: Plot, width: int, height: int, glyphs: Glyphs
) -> list[Row]:
    most = 4 if height >= 17 else 3 if height >= 13 else 2 if height >= 9 else 1
    over = lanes(view, panel.detectors, most)
    under = (
        companion_plot(view, opened, plot.series) if height - len(over) >= _LEAST + _COMPANION + 1 else None
    )
    rest = height - len(over) - (0 if under is None else _COMPANION + 1)
    spec = replace(plot.spec, label_width=_LABELS, ticks=under is None)
    begin, end = shown_steps(plot.spec)
    lower = None if under is None else replace(under.spec, label_width=_LABELS, begin=begin, end=end)
    if lower is not None:
        # Both charts get the margin of the wider labels, so that a step stands in one column of both.
        margin = max(step_columns(spec, width, rest)(0), step_columns(lower, width, _COMPANION)(0))
        spec, lower = replace(spec, label_width=margin - 1), replace(lower, label_width=margin - 1)
    column = step_columns(spec, width, rest, glyphs)
    rows = [lane_row(lane, column, view.step or 0, width, glyphs) for lane in over]
    rows += draw(spec, width, rest, glyphs)
    if under is not None and lower is not None:
        rows += _companion(under, lower, width, _COMPANION + 1, glyphs)
    return rows


def _companion(under: Plot, spec: ChartSpec, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The companion's chart, under its title."""
    words = f"  {under.words}" if under.words else ""
    title: Row = [(" " * (spec.label_width + 1), ""), (glyphs.plain(under.title), "series2 bold")]
    return [[*title, (glyphs.plain(words), "dim")], *draw(spec, width, height - 1, glyphs)]


def _header(
    view: View, opened: Opened, plot: Plot, facts: PanelFacts, settings: Settings, room: int, glyphs: Glyphs
) -> list[Run]:
    """The mean of the last 20 steps, this step, the limit, how long it was crossed: what there is room for."""
    parts: list[list[Run]] = []
    status = facts.headline.status
    mark: Run = (f" {glyphs.mark(status)}", STATUS_ROLES[status])
    write = measure_of(plot.series).write
    value_role = f"{STATUS_ROLES[status]} bold" if status is Status.FAIL else "text bold"
    if plot.series:
        parts += [
            [("20 steps ", "dim"), (glyphs.plain(write(view.mean(plot.series))), value_role), mark],
            [("this step ", "dim"), (glyphs.plain(write(view.at(plot.series))), "text")],
        ]
    else:
        parts.append([(glyphs.plain(facts.headline.text), value_role), mark])
    if plot.spec.limit is not None:
        value = plot.spec.limit.value
        said = numbers.share(value) if plot.spec.share else numbers.setting(value)
        said = said.removesuffix(".0") if plot.series else said
        parts.append([(f"{opened.limit_word} ", "dim"), (glyphs.plain(said), "limit")])
        sustain = _knob(opened.judge, "sustain", settings)
        if sustain is not None and plot.series:
            longest = longest_run(view, plot.series, value)
            parts.append([("longest run above it ", "dim"), (f"{longest} of {sustain:g}", "text")])
    runs: list[Run] = []
    for part in parts:
        more = [*([("   ", "")] if runs else []), *part]
        if width_of([*runs, *more]) > room:
            break
        runs += more
    return runs


def longest_run(view: View, name: str, limit: float) -> int:
    """Most steps running above a limit, up to the view's step; a step without the series does not end a run."""
    above = view.values(name) > limit
    edges = np.flatnonzero(np.diff(np.concatenate(([False], above, [False])).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0


def _knob(id_: str, name: str, settings: Settings) -> float | None:
    if id_ not in BY_ID:
        return None
    default = next((knob.default for knob in BY_ID[id_].knobs if knob.name == name), None)
    return None if default is None else settings.values(id_).get(name, default)
