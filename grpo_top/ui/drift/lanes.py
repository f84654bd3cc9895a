"""One setting over the steps, a lane for each column, all on one scale."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import Status
from grpo_top.text import safe
from grpo_top.ui.drift.facts import onset
from grpo_top.ui.evidence.layout import Frame
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.lens import window
from grpo_top.ui.panels.facts import EMPTY
from grpo_top.ui.widgets.chart import Limit, draw
from grpo_top.ui.widgets.runs import cut, filled, width_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.records import SamplingValue
    from grpo_top.ui.drift.columns import Column, Columns
    from grpo_top.ui.drift.samplers import Deployment
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]
    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_LABEL, _GAP = 22, 1
_MOST_ROWS, _WISHED_ROWS = 8, 4
"""Rows of a lane at most, and where something else has use for the room: what matters is when it jumps."""
LEAST_ROWS = 3
"""Rows of one lane with the steps under it at least."""


def lanes_frame(deployment: Deployment, name: str, hidden: int, glyphs: Glyphs) -> Frame:
    """The box's title, and how many lanes there is no room for."""
    steps = window(deployment.view) or _steps(deployment)
    facts: Row = [(glyphs.plain(f"steps {numbers.span(*steps)}"), "dim")] if steps is not None else []
    foot: Row = [(f"{hidden} more, see the table", "dim")] if hidden else []
    return Frame([(f"{name} by sampler", "text bold")], facts, foot)


def rows_wanted(deployment: Deployment, columns: Columns, name: str, glyphs: Glyphs) -> tuple[int, int]:
    """Rows of all lanes with the steps under them and what this step mixes: those that they need, and at most."""
    known = max(sum(column.cells[name].value is not None for column in columns.columns), 1)
    below = 1 + bool(_mix(deployment, name, glyphs))
    return known * _WISHED_ROWS + below, known * _MOST_ROWS + below


def lane_rows(
    deployment: Deployment, columns: Columns, name: str, chosen: int, width: int, height: int, glyphs: Glyphs
) -> tuple[list[Row], int]:
    """The lanes with the steps under them, and what this step mixes; and how many lanes there is no room for."""
    span = _steps(deployment)
    if span is None:
        return [[(f"{glyphs.unknown} ", "info"), ("no steps so far", "dim")]], 0
    mix = _mix(deployment, name, glyphs)
    room = height - 1 - (1 if mix else 0)
    shown = _shown(columns, name, chosen, max(room // 2, 1))
    if not shown:
        return [[(f"{glyphs.unknown} ", "info"), (f"{name} is not known of any sampler", "dim")]], 0
    tall = min(max(room // len(shown), 1), _MOST_ROWS)
    chosen_column = columns.columns[chosen]
    told = [_told(column, name, tall, column is chosen_column, glyphs) for column in shown]
    label = min(max(width_of(row) for rows_of in told for row in rows_of), _LABEL, width // 3)
    series = [_series(deployment, column, name, span) for column in shown]
    # All lanes hold the same values and end at the same step, so that they have the same axes.
    known = np.concatenate([values[np.isfinite(values)] for _, values in series])
    limit = _limit(deployment, columns, name)
    extremes = (
        *([float(known.min()), float(known.max())] if len(known) else []),
        *([limit.value] if limit else []),
    )
    begin, end = window(deployment.view) or (None, None)
    spec = replace(
        EMPTY,
        begin=begin,
        end=end,
        limit=limit,
        onset=onset(columns),
        cursor=deployment.view.cursor,
        total_steps=deployment.view.snapshot.run.total_steps,
        mean=False,
        labels=False,
        ticks=False,
        holds=extremes,
    )
    rows: list[Row] = []
    for place, (steps, values) in enumerate(series):
        last = place == len(shown) - 1
        lane = replace(spec, steps=steps, values=values, ticks=last)
        drawn = draw(lane, width - label - _GAP, tall + last, glyphs)
        for line in range(tall + last):
            lead = told[place][line] if line < len(told[place]) else []
            rows.append([*filled(lead, label, glyphs.ellipsis), (" " * _GAP, ""), *drawn[line]])
    if mix:
        rows.append([(" " * (label + _GAP), ""), *cut(mix, width - label - _GAP, glyphs.ellipsis)])
    known_of = sum(column.cells[name].value is not None for column in columns.columns)
    return rows, known_of - len(shown)


def _steps(deployment: Deployment) -> tuple[int, int] | None:
    """The first step that anything is known of, and the newest one."""
    last = deployment.view.snapshot.judged_step
    if last is None:
        return None
    steps = deployment.carried.step
    firsts = [int(steps.min())] if len(steps) else []
    firsts += [
        s.asked.changes[0].step for s in deployment.samplers if s.asked is not None and s.asked.changes
    ]
    return min([*firsts, last]), last


def _shown(columns: Columns, name: str, chosen: int, most: int) -> list[Column]:
    """As many columns as there is room for, in their order: the chosen one and the loudest first."""
    places = sorted(
        (place for place, column in enumerate(columns.columns) if column.cells[name].value is not None),
        key=lambda place: (place != chosen, -columns.columns[place].cells[name].status, place),
    )
    return [columns.columns[place] for place in sorted(places[:most])]


def _series(deployment: Deployment, column: Column, name: str, span: tuple[int, int]) -> tuple[Ints, Floats]:
    """The value at each step of the run; of several samplers the one that most of them had."""
    steps = np.arange(span[0], span[1] + 1)
    if len(column.members) == 1:
        return steps, _values(deployment, column, 0, name, steps)
    every = np.array(
        [_values(deployment, column, place, name, steps) for place in range(len(column.members))]
    )
    found = np.full(len(steps), np.nan)
    most = np.zeros(len(steps), np.int64)
    for value in np.unique(every[np.isfinite(every)]):
        count = (every == value).sum(axis=0)
        found = np.where(count > most, value, found)
        most = np.maximum(most, count)
    return steps, found


def _values(deployment: Deployment, column: Column, place: int, name: str, steps: Ints) -> Floats:
    """One sampler's value at each step: it holds until another is seen, or no more rollouts come."""
    member = column.members[place]
    points, from_rollouts = deployment.story(member, name, None)
    if not points:
        return np.full(len(steps), np.nan)
    begins = np.array([point.step for point in points])
    values = np.array([_number(point.value) for point in points] + [math.nan])
    found = values[np.searchsorted(begins, steps, side="right") - 1]
    if from_rollouts:
        found[steps > deployment.carried.last_step(member.number)] = math.nan
    return found


def _number(value: SamplingValue | None) -> float:
    return math.nan if value is None or isinstance(value, str) else float(value)


def _limit(deployment: Deployment, columns: Columns, name: str) -> Limit | None:
    reference = deployment.reference.get(name)
    if reference is None or isinstance(reference, str):
        return None
    worst = max((column.cells[name].status for column in columns.columns), default=Status.OK)
    return Limit(float(reference), "off", STATUS_ROLES[max(worst, Status.WATCH)])


def _told(column: Column, name: str, rows: int, chosen: bool, glyphs: Glyphs) -> list[Row]:
    """Beside a lane: whose it is, and its value, after the one before where it differs."""
    cell = column.cells[name]
    role = STATUS_ROLES[cell.status]
    named = f"{role} bold" if cell.differs else "text bold" if chosen else "dim"
    value = glyphs.plain(safe(numbers.setting(cell.value)))
    if cell.before is not None and cell.differs:
        value = f"{glyphs.plain(safe(numbers.setting(cell.before)))} to {value}"
    first: Row = [(f"{glyphs.mark(cell.status)} ", role), (column.title, named)]
    second: Row = [("  ", ""), (value, role if cell.differs else "dim")]
    if rows == 1:
        return [[*first, (" ", ""), second[1]]]
    return [first, second]


def _mix(deployment: Deployment, name: str, glyphs: Glyphs) -> Row:
    """What the view's step mixes, where it was sampled with more than one value."""
    step = deployment.view.step
    if step is None:
        return []
    found = deployment.carried.mixed(None, step, name)
    if not 1 < len(found) <= 3:
        return []
    runs: Row = [(f"step {step} mixes ", "dim")]
    for place, (value, rollouts) in enumerate(found.items()):
        status = deployment.status(name, value)
        role = f"{STATUS_ROLES[status]} bold" if status >= Status.WATCH else "text"
        text = f"{glyphs.plain(safe(numbers.setting(value)))} on {numbers.count(rollouts)}"
        runs += [(" and " if place else "", "dim"), (text + (" rollouts" if not place else ""), role)]
    if (told := _mixed_groups(deployment, name, step)) != "":
        runs.append((f": {told}", "dim"))
    return runs


def _mixed_groups(deployment: Deployment, name: str, step: int) -> str:
    """How many groups were not drawn with one value."""
    batch = deployment.view.snapshot.batch(step)
    if batch is None or not batch.groups:
        return ""
    configs = deployment.carried.configs
    values = np.array([_number(config.get(name)) for config in configs] + [math.nan])[
        batch.column("sampling")
    ]
    low, high = np.full(batch.groups, np.inf), np.full(batch.groups, -np.inf)
    np.fmin.at(low, batch.group, values)
    np.fmax.at(high, batch.group, values)
    mixed = int(np.count_nonzero(high > low))
    if mixed == batch.groups:
        return f"no group is drawn at one {name}"
    return f"{mixed:,} of {batch.groups:,} groups mix them" if mixed else "each group is drawn at one of them"
