"""Stage 4: how all samplers of a fleet do, each number as a distribution over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.text import first_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.snapshot import FleetSeries
    from grpo_top.ui.view import View

    Floats = NDArray[np.float64]

KEY, STAGE, TITLE = "fleet", 4, "Sampler fleet"
_LONGEST_NAME = 60


class End(NamedTuple):
    """One end of the distribution."""

    value: float
    text: str
    sampler: str
    """Who is there, safe to show; empty where it is not known at the view's step."""
    over_time: Floats


class FleetRow(NamedTuple):
    """One number over all samplers, at the view's step."""

    name: str
    samplers: int
    median: str
    worst: End
    other: End
    """The other end."""
    is_low: bool
    """Whether the worst end is the lowest."""
    times: Floats
    """Seconds since the epoch, up to the view's step."""
    medians: Floats


def lately(row: FleetRow, seconds: float | None) -> FleetRow:
    """The last so many seconds of a number; None is all."""
    if seconds is None:
        return row
    first = int(np.searchsorted(row.times, row.times[-1] - seconds))
    worst, other = (end._replace(over_time=end.over_time[first:]) for end in (row.worst, row.other))
    return row._replace(times=row.times[first:], medians=row.medians[first:], worst=worst, other=other)


def fleet_rows(view: View) -> list[FleetRow]:
    """Every number that is known at the view's step, in the order of the queries."""
    rows = (_row(series, view.cursor) for series in view.snapshot.fleet)
    return [row for row in rows if row is not None]


def samplers(rows: list[FleetRow]) -> int:
    """How many samplers the fleet has: as many as the number has that most of them have."""
    return max((row.samplers for row in rows), default=0)


def written(value: float, unit: str) -> str:
    """A value of a unit of `FleetSeries.unit`."""
    if unit == "share":
        return numbers.share(value)
    text = (
        numbers.count(value)
        if unit == "count" and (value == round(value) or abs(value) >= 10)
        else numbers.value(value)
    )
    return text if unit in {"", "count"} or not np.isfinite(value) else f"{text}{unit}"


def _row(series: FleetSeries, cursor: int | None) -> FleetRow | None:
    last = len(series.times)
    if cursor is not None:
        # Steps grow, but for those that are not known.
        known = np.flatnonzero((series.steps >= 0) & (series.steps <= cursor))
        last = int(known[-1]) + 1 if len(known) else 0
    if not last:
        return None
    newest = last == len(series.times)
    median, low, high = (float(values[last - 1]) for values in (series.median, series.lowest, series.highest))
    lowest = _end(series.lowest[:last], series.unit, series.lowest_sampler if newest else "")
    highest = _end(series.highest[:last], series.unit, series.highest_sampler if newest else "")
    is_low = series.worse == "low" or (series.worse == "" and median - low > high - median)
    worst, other = (lowest, highest) if is_low else (highest, lowest)
    return FleetRow(
        first_line(series.name, _LONGEST_NAME),
        int(series.samplers[last - 1]),
        written(median, series.unit),
        worst,
        other,
        is_low,
        series.times[:last],
        series.median[:last],
    )


def _end(values: Floats, unit: str, sampler: str) -> End:
    value = float(values[-1])
    return End(value, written(value, unit), first_line(sampler, _LONGEST_NAME), values)
