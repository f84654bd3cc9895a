"""One row of the table: what was measured, what it should be, and what it is."""

from __future__ import annotations

import math
from typing import NamedTuple


class Figure(NamedTuple):
    """One measurement."""

    what: str
    value: float
    """A ratio or a count of the unit in `unit`, the lower the better; NaN where it could not be measured."""
    unit: str
    target: float | None
    """What it should be at most; None where it is only reported."""
    detail: str
    """What it was made of, in a few words."""
    at_least: bool = False
    """The higher the better: the target is what it should be at least."""
    unlike: str = ""
    """Why it cannot be held against the target, where it was not measured on what that is of."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or it cannot be told."""
        if self.target is None or self.unlike or math.isnan(self.value):
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def row(self) -> dict[str, object]:
        """As it is written down."""
        value = None if math.isnan(self.value) else self.value
        return {**self._asdict(), "value": value, "met": self.met}


def table(figures: list[Figure]) -> str:
    """The figures as lines of text."""
    rows = [("what", "figure", "target", "", "made of")]
    for figure in figures:
        made_of = f"{figure.detail}; {figure.unlike}" if figure.unlike else figure.detail
        rows.append((figure.what, _said(figure), _target(figure), _verdict(figure), made_of))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _said(figure: Figure) -> str:
    return "not measured" if math.isnan(figure.value) else f"{figure.value:.3g} {figure.unit}".rstrip()


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'at least ' if figure.at_least else ''}{figure.target:g} {figure.unit}".rstrip()


def _verdict(figure: Figure) -> str:
    """Whether it is met, and at what share of what may be."""
    if figure.met is None or figure.target is None:
        return ""
    said = "met" if figure.met else "MISSED"
    bounded = figure.target and not figure.at_least
    return f"{said} at {figure.value / figure.target:.0%}" if bounded else said
