"""What a Prometheus server says of a fleet, look by look: one number over all samplers, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top.columns import Column
from grpo_top.snapshot import FleetSeries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.records import FleetLook

_COLUMNS = {
    "times": np.float64,
    "steps": np.int64,
    "samplers": np.int64,
    "median": np.float64,
    "lowest": np.float64,
    "highest": np.float64,
}


class _Series:
    """One number's history."""

    def __init__(self, latest: FleetLook) -> None:
        self.latest = latest
        self.columns = {name: Column(type_) for name, type_ in _COLUMNS.items()}
        self.reached = float("-inf")
        self.facts: FleetSeries | None = None


class Fleet:
    """All numbers that are asked for, in the order in which they first came."""

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}

    def take(self, look: FleetLook, newest: int | None) -> bool:
        """Take a look in that came while `newest` was the newest step; whether it brought a point."""
        series = self._series.setdefault(look.name, _Series(look))
        points = [point for point in look.points if point.time > series.reached]
        if not points:
            return False
        # What came before there was a step, and what the server remembered, belongs to none.
        first = series.facts is None and not len(series.columns["times"].view())
        steps = [-1] * len(points)
        if newest is not None:
            steps = [*steps[:-1], newest] if first else [newest] * len(points)
        rows: dict[str, Sequence[float]] = {
            "times": [point.time for point in points],
            "steps": steps,
            "samplers": [point.samplers for point in points],
            "median": [point.median for point in points],
            "lowest": [point.lowest for point in points],
            "highest": [point.highest for point in points],
        }
        for name, values in rows.items():
            series.columns[name].extend(values)
        series.latest, series.reached, series.facts = look, points[-1].time, None
        return True

    def facts(self) -> tuple[FleetSeries, ...]:
        """What a Snapshot shows of it."""
        return tuple(_facts(series) for series in self._series.values())


def _facts(series: _Series) -> FleetSeries:
    if series.facts is None:
        look = series.latest
        columns = {name: column.view() for name, column in series.columns.items()}
        series.facts = FleetSeries(look.name, look.unit, look.worse, look.lowest, look.highest, **columns)
    return series.facts
