"""One row of the table: what was measured, what it should be, and what it is."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """One measurement."""

    what: str
    value: float
    """A ratio or a count of the unit in `unit`, lower is better."""
    unit: str
    target: float | None
    """What it should be at most; None where it is only reported."""
    detail: str
    """What it was made of, in a few words."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.value <= self.target


def table(figures: list[Figure]) -> str:
    """The figures as lines of text."""
    rows = [("what", "figure", "target", "", "made of")]
    for figure in figures:
        target = "" if figure.target is None else f"{figure.target:g} {figure.unit}"
        rows.append((figure.what, f"{figure.value:.3g} {figure.unit}", target, _mark(figure), figure.detail))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _mark(figure: Figure) -> str:
    return {None: "", True: "met", False: "MISSED"}[figure.met]
