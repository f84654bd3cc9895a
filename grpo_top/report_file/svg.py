"""A chart as inline SVG: single steps as dots, their 20-step mean as a line, the limit, and where a finding stood."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.report_file.blocks import Chart

WIDTH, HEIGHT = 420, 150
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 20
MOST_POINTS = 600
"""Points of a line; of a longer series a column's lowest and highest are kept."""


def svg(chart: Chart) -> str:
    """The chart as one `<svg>` element; it takes its colours from the classes of the page."""
    known = np.isfinite(chart.values)
    steps, values = chart.steps[known], chart.values[known]
    first, last = int(chart.steps[0]), max(int(chart.steps[-1]), int(chart.steps[0]) + 1)
    behind_steps, behind = _behind(chart, first, last)
    low, high = _range(np.concatenate([values, behind]), chart.limit)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / (last - first)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}">'
    ]
    for begin, end in chart.spans:
        left, right = x(max(begin - 0.5, first)), x(min(end + 0.5, last))
        parts.append(
            f'<rect class="span" x="{left:.1f}" y="{TOP}" width="{max(right - left, 1):.1f}" '
            f'height="{HEIGHT - TOP - BOTTOM}"/>'
        )
    if chart.onset is not None and first <= chart.onset <= last:
        parts.append(_line("onset", x(chart.onset), TOP, x(chart.onset), HEIGHT - BOTTOM))
    if chart.limit is not None and low <= chart.limit <= high:
        parts.append(_line("limit", LEFT, y(chart.limit), WIDTH - RIGHT, y(chart.limit)))
    if len(behind):
        line = " ".join(f"{x(behind_steps[at]):.1f},{y(behind[at]):.1f}" for at in _thinned(behind))
        parts.append(f'<polyline class="reference" points="{line}"/>')
    places = _thinned(values)
    dots = " ".join(f"M{x(steps[at]):.1f} {y(values[at]):.1f}h0" for at in places)
    parts.append(f'<path class="dots" d="{dots}"/>')
    means = _running_mean(values) if chart.mean else values
    line = " ".join(f"{x(steps[at]):.1f},{y(means[at]):.1f}" for at in _thinned(means))
    parts.append(f'<polyline class="mean" points="{line}"/>')
    parts += [
        f'<text x="{LEFT - 4}" y="{y(value) + 4:.1f}" text-anchor="end">{numbers.value(value)}</text>'
        for value in (low, high)
    ]
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 6}">{first}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{last}</text>')
    if chart.onset is not None and first <= chart.onset <= last:
        parts.append(
            f'<text class="at" x="{x(chart.onset):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{chart.onset}</text>'
        )
    return "".join([*parts, "</svg>"])


def _behind(chart: Chart, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The reference's line, as smooth as the chart's own, at the steps that are shown."""
    if chart.behind is None:
        return np.empty(0, np.int64), np.empty(0)
    steps, values = chart.behind
    known = np.isfinite(values) & (steps >= first) & (steps <= last)
    steps, values = steps[known], values[known]
    return steps, _running_mean(values) if chart.mean and len(values) else values


def _range(values: NDArray[np.float64], limit: float | None) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if limit is not None and low - (high - low) <= limit <= high + (high - low):
        low, high = min(low, limit), max(high, limit)
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    if low == high:
        return (0.0, 1.0) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)
    return low, high


def _running_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each value and those up to 19 before it."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - WINDOW, 0)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins))


def _thinned(values: NDArray[np.float64]) -> list[int]:
    """Places of the points to draw, in order: all of a short series, the extremes of each column of a long one."""
    if len(values) <= MOST_POINTS:
        return list(range(len(values)))
    edges = np.linspace(0, len(values), MOST_POINTS // 2 + 1).astype(int)
    places = {0, len(values) - 1}
    for begin, end in pairwise(edges.tolist()):
        part = values[begin:end]
        places |= {int(begin + part.argmin()), int(begin + part.argmax())}
    return sorted(places)


def _line(role: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{role}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
