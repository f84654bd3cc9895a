"""A fleet as a Prometheus server tells it, built by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.snapshot import FleetSeries

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

POINTS = 240
NUMBERS: tuple[tuple[str, str, str, float, float, float], ...] = (
    ("waiting", "count", "high", 0.0, 2.5, 91.0),
    ("running", "count", "", 12.0, 32.0, 33.0),
    ("cache use", "share", "high", 0.2, 0.41, 0.98),
    ("tokens", "/s", "low", 61.2, 812.0, 840.0),
    ("cut at length", "share", "high", 0.0, 0.021, 0.31),
    ("weight syncs", "count", "low", 380.0, 412.0, 412.0),
)
"""Name, unit, bad end, then lowest, median and highest at the last time."""


def series(
    name: str, unit: str, worse: str, lowest: float, median: float, highest: float, samplers: int = 200
) -> FleetSeries:
    """One number over an hour; its ends part from the median in the second half."""
    at = np.arange(POINTS)
    apart = np.clip((at - POINTS / 2) / (POINTS / 2 - 1), 0.0, 1.0)
    return FleetSeries(
        name,
        unit,
        worse,
        "gpu17:8000",
        "gpu101:8000",
        1.7e9 + 15.0 * at,
        np.where(at < POINTS - 60, -1, 50 + at - (POINTS - 60)),
        np.full(POINTS, samplers),
        np.full(POINTS, median),
        median + (lowest - median) * apart,
        median + (highest - median) * apart,
    )


def with_fleet(picture: Snapshot, samplers: int = 200) -> Snapshot:
    """The same run with a fleet."""
    return replace(picture, fleet=tuple(series(*number, samplers) for number in NUMBERS))
