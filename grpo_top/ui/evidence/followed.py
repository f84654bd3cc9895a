"""What followed a finding: series before it began and now, with their course."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top.detectors import BY_ID
from grpo_top.measures import is_known, measure_of
from grpo_top.snapshot import Status
from grpo_top.ui.evidence.attached import series_of
from grpo_top.ui.evidence.layout import GAP, Column, table
from grpo_top.ui.evidence.windows import Windows, windows
from grpo_top.ui.widgets.runs import width_of
from grpo_top.ui.widgets.spark import columns_of, spark

if TYPE_CHECKING:
    from grpo_top.snapshot import Finding
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

HEADLINES = (
    "reward_mean",
    "success_rate",
    "zero_variance_group_frac",
    "group_reward_std_mean",
    "duplicate_frac",
    "distinct_texts_mean",
    "parse_failure_rate",
    "truncation_rate",
    "completion_tokens_mean",
    "verifier_error_rate",
    "entropy",
    "kl",
    "grad_norm",
    "version_lag_max",
    "heldout",
)
"""Series that are shown where a finding's own do not fill the table, if they have changed."""
MOST = 7
"""Rows of the table at most."""
SPARK = 110
"""Cells of a course at most."""


def followed(view: View, finding: Finding, width: int, glyphs: Glyphs) -> list[Row]:
    """The table of series before and now; empty where none is known before as well as now."""
    spans = windows(view, finding)
    if spans.now is None:
        return []
    chosen = [(name, *_means(view, name, spans)) for name in _chosen(view, finding, spans)]
    if not chosen:
        return []
    columns = [Column("what followed" if spans.before else "since then", least=17)]
    if spans.before is not None:
        columns.append(Column(spans.before.text, right=True, least=9))
    columns += [Column(spans.now.text, right=True, least=9)]
    body: list[list[list[Run]]] = []
    for name, before, now in chosen:
        measure = measure_of(name)
        cells: list[list[Run]] = [[(glyphs.plain(measure.label), "text")]]
        if spans.before is not None:
            cells.append([(glyphs.plain(measure.write(before)), "text")])
        body.append([*cells, [(glyphs.plain(measure.write(now)), "text bold")]])
    numbers_only = table(columns, body, width, glyphs)
    taken = max(map(width_of, (_trimmed(row) for row in numbers_only)))
    first, last = _ends(view)
    room = min(SPARK, width - taken - GAP - 1, last - first + 1)
    if room < 8:
        return numbers_only
    gap: Run = (" " * (GAP + 1), "")
    courses = [
        _axis(view, finding, room),
        *(_course(view, finding, name, room, glyphs) for name, _, _ in chosen),
    ]
    return [[*_trimmed(row), gap, *course] for row, course in zip(numbers_only, courses, strict=True)]


def _trimmed(row: Row) -> Row:
    """A row without the blanks that fill it at its end."""
    return row[:-1] if row and not row[-1][0].strip() else row


def _chosen(view: View, finding: Finding, spans: Windows) -> list[str]:
    """The finding's own series first, then headlines that have changed."""
    detector = BY_ID.get(finding.id)
    own = [*series_of(finding.evidence), *(detector.series if detector is not None else ())]
    found: list[str] = []
    for name in dict.fromkeys((*own, *HEADLINES)):
        if not is_known(name) or view.series(name) is None or len(found) == MOST:
            continue
        before, now = _means(view, name, spans)
        write = measure_of(name).write
        changed = spans.before is None or write(before) != write(now)
        if now is not None and (changed or name in own[:2]):
            found.append(name)
    return found


def _means(view: View, name: str, spans: Windows) -> tuple[float | None, float | None]:
    before = None if spans.before is None else view.mean_between(name, *spans.before)
    return before, None if spans.now is None else view.mean_between(name, *spans.now)


def _course(view: View, finding: Finding, name: str, width: int, glyphs: Glyphs) -> list[Run]:
    """A series as a spark; what lies after the finding's onset in the colour of a failure."""
    series = view.series(name)
    first, last = _ends(view)
    if series is None:
        return []
    known = np.isfinite(series.values) & (series.steps <= last)
    measure = measure_of(name)
    drawn = spark(
        series.steps[known],
        series.values[known],
        width,
        first=first,
        last=last,
        share=measure.kind == "share",
        glyphs=glyphs,
    )
    at = _onset_cell(view, finding, width)
    after = "faildim" if finding.severity >= Status.WARN else "strip"
    return [run for run in ((drawn.text[:at], "strip"), (drawn.text[at:], after)) if run[0]]


def _axis(view: View, finding: Finding, width: int) -> list[Run]:
    """The first step, the onset and the last step over the sparks."""
    first, last = _ends(view)
    since = view.since(finding)
    left, right, middle = str(first), str(last), str(since)
    at = _onset_cell(view, finding, width)
    if width - len(left) - len(right) < 2:
        return []
    if not len(left) < at <= width - len(right) - len(middle) - 1:
        return [(left, "dim"), (" " * (width - len(left) - len(right)), ""), (right, "dim")]
    return [
        (left, "dim"),
        (" " * (at - len(left)), ""),
        (middle, "fail bold"),
        (" " * (width - at - len(middle) - len(right)), ""),
        (right, "dim"),
    ]


def _onset_cell(view: View, finding: Finding, width: int) -> int:
    first, last = _ends(view)
    cell = int(columns_of(np.array([view.since(finding)]), first, last, width)[0])
    return max(cell, 0)


def _ends(view: View) -> tuple[int, int]:
    """The first judged step and the view's."""
    steps = view.steps
    last = view.step or 0
    return (int(steps[0]) if len(steps) else last), last
