"""The shape of a panel's facts, and what all panels say in the same way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW, Status
from grpo_top.text import safe
from grpo_top.ui.lens import window
from grpo_top.ui.widgets.chart import ChartSpec, Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from grpo_top.reference import Parting, Reference
    from grpo_top.snapshot import Finding, Series
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

FLAT = 1e-8
"""A spread at most this large is none, as `facts.FLAT_STD` has it."""


class Number(NamedTuple):
    """One row of a panel's numbers."""

    label: str
    text: str
    role: str = "text"


class Headline(NamedTuple):
    """What the top border says: a word, a value, and how that value stands."""

    label: str
    text: str
    status: Status


class Note(NamedTuple):
    """A finding in a few words: its id, how it stands, and since when."""

    id: str
    status: Status
    when: str


@dataclass(frozen=True, slots=True, eq=False)
class PanelFacts:
    """Everything that a panel says."""

    key: str
    stage: int
    title: str
    headline: Headline
    numbers: tuple[Number, ...] = ()
    """The most telling first: the end is cut where rows are few."""
    chart: ChartSpec | None = None
    note: Note | None = None
    """The finding that makes the panel what it is."""
    border: Status = Status.OK
    """WARN or FAIL where a finding of that severity stands."""
    missing: str = ""
    """Which field the log lacks, where the panel has nothing to show."""


def number(label: str, text: str, role: str = "text") -> Number:
    """A row of numbers; what is unknown is in the role of the unknown."""
    return Number(safe(label), text, "info" if text == numbers.UNKNOWN else role)


def told_apart(names: Sequence[str], room: int = 11) -> dict[str, str]:
    """Names by how they are written in so many cells: without the words that all begin with, where they are long."""
    longest = max(map(len, names), default=0)
    if len(names) < 2 or longest <= room:
        return {name: name for name in names}
    first, last = min(names), max(names)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), 0)
    words = [at + 1 for at, sign in enumerate(first[:same]) if sign in "/_.-: "]
    if not words:
        return {name: name for name in names}
    begin = next((at for at in words if longest - at < room), words[-1])
    return {name: f"…{name[begin:]}" for name in names}


def late_share(view: View, label: str, name: str, role: str = "text") -> Number:
    """The 20-step mean of a share."""
    return number(label, numbers.share(view.mean(name)), role)


def late_value(view: View, label: str, name: str, role: str = "text") -> Number:
    """The 20-step mean of a value."""
    return number(label, numbers.value(view.mean(name)), role)


def changed(view: View, name: str, *, share: bool = False, decimals: int | None = None) -> Number:
    """Δ20 of a series."""
    return number("Δ20", numbers.change(view.change(name), share, decimals))


def compared_share(view: View, name: str) -> Number:
    """The mean of a share over the steps that the late ones are compared with."""
    word, first, last = view.compared()
    return number(word, numbers.share(view.mean_between(name, first, last)))


def compared_value(view: View, name: str) -> Number:
    """The same for a value."""
    word, first, last = view.compared()
    return number(word, numbers.value(view.mean_between(name, first, last)))


def early_share(view: View, name: str) -> Number:
    """The mean of a share over the run's first 20 steps."""
    first = view.snapshot.run.first_step or 0
    return number("early", numbers.share(view.mean_between(name, first, first + WINDOW - 1)))


def spread(value: float | None) -> str:
    """A standard deviation, where the dust of binary fractions is none."""
    return numbers.value(0.0 if value is not None and abs(value) <= FLAT else value)


def worst(view: View, ids: Iterable[str]) -> Status:
    """The worst of some detectors at the view's step; unknown where none of them could judge."""
    return max((view.status(id_) for id_ in ids), default=Status.UNKNOWN)


def limit(value: float | None, status: Status = Status.WARN) -> Limit | None:
    """A threshold from above, past it in the role of a status."""
    if value is None:
        return None
    return Limit(value, role="fail" if status is Status.FAIL else "warn")


def chart(view: View, name: str, spec: ChartSpec | None = None) -> ChartSpec | None:
    """A chart of a series, with the first cause and the cursor; None where the series was never seen.

    `spec` carries what is particular to it; its steps and values are those of the series.
    """
    series = view.series(name)
    if series is None:
        return None
    return seen(view, replace(spec or EMPTY, steps=series.steps, values=series.values), name)


def seen(view: View, spec: ChartSpec, name: str = "") -> ChartSpec:
    """A chart as the view has it: its steps, its scale, the reference's series of that name behind it."""
    lens, run, reference = view.lens, view.snapshot.run, view.snapshot.reference
    begin, end = window(view) or (run.since, None)
    behind = None if reference is None else reference.series.get(name)
    parted = None if reference is None or behind is None else reference.parting(name)
    positive = lens.log and _all_positive(spec.values)
    return replace(
        spec,
        onset=view.onset,
        cursor=view.cursor,
        total_steps=run.total_steps,
        begin=begin,
        end=end,
        log=positive,
        window=lens.mean,
        reference=None if behind is None else (behind.steps, behind.values),
        parted=None if parted is None else parted.step,
        said=(*_scale(lens.log, positive), *_behind(reference, behind, parted)),
    )


def _all_positive(values: NDArray[np.float64]) -> bool:
    finite = values[np.isfinite(values)]
    return len(finite) > 0 and float(finite.min()) > 0


def _scale(wanted: bool, positive: bool) -> tuple[Run, ...]:
    if not wanted:
        return ()
    return (("log ", "dim"),) if positive else (("not log: 0 or less ", "info"),)


def _behind(reference: Reference | None, series: Series | None, parted: Parting | None) -> tuple[Run, ...]:
    """What lies behind a chart, and where the runs part."""
    if reference is None:
        return ()
    name = safe(reference.name)
    if reference.problem:
        return ((f"{name}: {safe(reference.problem)}", "info"),)
    if reference.reading is not None:
        return ((f"reading {name} {numbers.share(reference.reading)}", "dim"),)
    if series is None:
        return ()
    if parted is not None:
        return ((f"parts at {parted.step}: {name}", "series3 bold"),)
    return ((f"behind: {name}", "series3"),)


EMPTY = ChartSpec(np.empty(0, np.int64), np.empty(0))
"""A chart's settings without data."""


def since(view: View, finding: Finding) -> str:
    """Since when a finding stands."""
    return f"since {view.since(finding)}"


def stood(view: View, finding: Finding) -> str:
    """From when to when a finding stood that has cleared, and how often."""
    begun = [episode for episode in finding.episodes if view.cursor is None or episode[0] <= view.cursor]
    last = begun[-1][1] if view.cursor is None else min(begun[-1][1], view.cursor)
    often = len(begun)
    return numbers.span(begun[0][0], last) + (f", {often} times" if often > 1 else "")


def note(view: View, ids: Iterable[str]) -> Note | None:
    """The worst of some detectors that stands or is close to it; None where all are quiet."""
    noted = [Note(id_, status, "") for id_ in ids if (status := view.status(id_)) >= Status.WATCH]
    if not noted:
        return None
    worst = max(noted, key=lambda each: each.status)
    finding = next((f for f in view.findings() if f.id == worst.id), None)
    if finding is None:
        return worst._replace(when="watch")
    return worst._replace(when=(since if worst.status >= Status.INFO else stood)(view, finding))


def border(note: Note | None) -> Status:
    """The colour of a panel's border."""
    return note.status if note is not None and note.status >= Status.WARN else Status.OK
