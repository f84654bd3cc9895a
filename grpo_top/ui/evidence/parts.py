"""A panel's numbers by family, tier and sampler: now, and before something began."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.measures import Kind, Measure
from grpo_top.snapshot import Status
from grpo_top.text import first_line
from grpo_top.ui.evidence.layout import Column, Frame, table
from grpo_top.ui.evidence.pool import Pool, unknown_as_nan
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.panels.facts import told_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.evidence.opened import Opened
    from grpo_top.ui.evidence.windows import Windows
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Bools = NDArray[np.bool_]

NAME = 12
"""Cells of a part's name at most."""
COMPONENTS = 4
"""Components of the reward that have a column, where there is room."""
KINDS = ("family", "tier", "sampler")


class Part(NamedTuple):
    """Some of a pool's rollouts under a name."""

    name: str
    rollouts: Bools
    groups: Bools
    """Those whose first rollout is one of them."""


class Told(NamedTuple):
    """One column of the table: what it says of a part; None where it is unknown."""

    kind: Kind
    of: Callable[[Pool, Part], float | None]
    series: str = ""
    """The series of the run that it is a part of: what is past its limit stands out."""


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _yes(column: str) -> Callable[[Pool, Part], float | None]:
    """The share of ones among a column's known values."""
    return lambda pool, part: _mean(unknown_as_nan(pool.column(column)[part.rollouts]))


def _unparsed(pool: Pool, part: Part) -> float | None:
    parsed = _yes("parsed")(pool, part)
    return None if parsed is None else 1 - parsed


def _errors(pool: Pool, part: Part) -> float | None:
    known = (pool.column("verifier_known") == 1) & part.rollouts
    return float((pool.column("verifier_error")[known] >= 0).mean()) if known.any() else None


def _flat(pool: Pool, part: Part) -> float | None:
    judged = part.groups & pool.judged
    return float(pool.flat[judged].mean()) if judged.any() else None


def _all_fail(pool: Pool, part: Part) -> float | None:
    judged = part.groups & pool.judged & np.isfinite(pool.passed)
    return float((pool.flat & (pool.passed == 0))[judged].mean()) if judged.any() else None


def _success(pool: Pool, part: Part) -> float | None:
    known = part.groups & np.isfinite(pool.passed)
    return float(pool.passed[known].sum() / pool.size[known].sum()) if known.any() else None


def _identical(pool: Pool, part: Part) -> float | None:
    several = part.groups & (pool.size >= 2) & np.isfinite(pool.texts)
    return float((pool.texts[several] == 1).mean()) if several.any() else None


def _p95(pool: Pool, part: Part) -> float | None:
    lengths = pool.length[part.rollouts]
    lengths = lengths[np.isfinite(lengths)]
    return float(np.percentile(lengths, 95)) if len(lengths) else None


def _max_lag(pool: Pool, part: Part) -> float | None:
    lags = pool.lag[part.rollouts]
    lags = lags[np.isfinite(lags)]
    return float(lags.max()) if len(lags) else None


COLUMNS: dict[str, Told] = {
    "groups": Told("count", lambda _, part: float(part.groups.sum())),
    "rollouts": Told("count", lambda _, part: float(part.rollouts.sum())),
    "reward": Told("value", lambda pool, part: _mean(pool.reward[part.rollouts]), "reward_mean"),
    "group σ": Told("value", lambda pool, part: _mean(pool.std[part.groups])),
    "success": Told("share", _success),
    "errors": Told("share", _errors, "verifier_error_rate"),
    "zero-var": Told("share", _flat, "zero_variance_group_frac"),
    "all-fail": Told("share", _all_fail),
    "duplicates": Told("share", lambda pool, part: _mean(pool.duplicate[part.rollouts]), "duplicate_frac"),
    "texts": Told("value", lambda pool, part: _mean(pool.texts[part.groups])),
    "identical": Told("share", _identical),
    "unparsed": Told("share", _unparsed, "parse_failure_rate"),
    "truncated": Told("share", _yes("truncated"), "truncation_rate"),
    "length": Told("value", lambda pool, part: _mean(pool.length[part.rollouts])),
    "p95": Told("value", _p95),
    "lag": Told("value", lambda pool, part: _mean(pool.lag[part.rollouts])),
    "max lag": Told("count", _max_lag, "version_lag_max"),
}
"""By their titles."""


def told_of(view: View, opened: Opened) -> dict[str, Told]:
    """The columns of a panel's table by their titles."""
    found: dict[str, Told] = {}
    for name in opened.columns:
        if name == "*":
            for component in view.snapshot.run.components[:COMPONENTS]:
                found[first_line(component, NAME)] = Told("value", _component(component))
        else:
            found[name] = COLUMNS[name]
    return found


def _component(name: str) -> Callable[[Pool, Part], float | None]:
    return lambda pool, part: _mean(pool.component(name)[part.rollouts])


def parts_of(pool: Pool) -> list[Part]:
    """Each family, tier and sampler that is logged, then everything."""
    found = []
    for kind in KINDS:
        ids = pool.column(kind)
        numbers = [number for number in np.unique(ids).tolist() if number >= 0]
        if not numbers or (kind == "sampler" and len(numbers) < 2):
            continue
        names = pool.names(kind)
        shown = told_apart([names[number] for number in numbers], NAME)
        for number in numbers:
            of = ids == number
            lead = "" if kind == "family" else f"{kind} "
            found.append(Part(lead + first_line(shown[names[number]], NAME), of, of[pool.first]))
    everything = Part("all", np.ones(len(pool.rows), np.bool_), np.ones(pool.groups, np.bool_))
    return [*found, everything]


def part_rows(
    view: View, opened: Opened, windows: Windows, pools: tuple[Pool, Pool], width: int, glyphs: Glyphs
) -> list[Row]:
    """The table's rows, for a box `width` cells wide inside; a span without rollouts is left out."""
    now, before = pools
    told = told_of(view, opened)
    columns = [Column(""), *(Column(name, right=True, rank=place) for place, name in enumerate(told))]
    spans = [
        (windows.now.words if windows.now else "", now, True),
        (f"{windows.before.words}, {windows.what}" if windows.before else "", before, False),
    ]
    body: list[list[list[Run]]] = []
    heads: dict[int, str] = {}
    for title, pool, late in spans:
        if title and len(pool.rows):
            heads[len(body)] = title
            body += [_cells(view, opened, told, pool, part, late, glyphs) for part in parts_of(pool)]
    if not body:
        return [[(f"{glyphs.unknown} ", "info"), ("no rollouts in this log", "dim")]]
    rows = table(columns, body, width, glyphs)
    found = rows[:1]
    for index, row in enumerate(rows[1:]):
        if index in heads:
            found.append([(glyphs.plain(heads[index]), "dim")])
        found.append(row)
    return found


def _cells(
    view: View,
    opened: Opened,
    columns: Mapping[str, Told],
    pool: Pool,
    part: Part,
    late: bool,
    glyphs: Glyphs,
) -> list[list[Run]]:
    cells: list[list[Run]] = [[(f"  {part.name}", "text bold" if part.name == "all" else "text")]]
    for told in columns.values():
        value = told.of(pool, part)
        text = glyphs.plain(Measure("", told.kind).write(value))
        role = "info" if value is None else _role(view, opened, told, value) if late else "text"
        cells.append([(text, role)])
    return cells


def _role(view: View, opened: Opened, told: Told, value: float) -> str:
    """Values of the panel's own series that are at their limit stand out."""
    threshold = view.limit(opened.judge) if opened.judge else None
    if told.series not in opened.series or threshold is None:
        return "text"
    status = view.status(opened.judge)
    if value < threshold and status < Status.WATCH:
        return "text"
    role = STATUS_ROLES[max(status, Status.WATCH)]
    return f"{role} bold" if value >= threshold else role


def part_frame(view: View, glyphs: Glyphs) -> Frame:
    """The table's box: which of the parts are not logged."""
    columns = view.snapshot.rollouts.columns
    missing = [kind for kind in KINDS[:2] if not len(columns[kind]) or columns[kind].max(initial=-1) < 0]
    said: list[Run] = [(glyphs.plain(f"{' and '.join(missing)}: not logged"), "dim")] if missing else []
    return Frame([("By family", "text bold")], said)
