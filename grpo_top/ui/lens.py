"""How charts are looked at: how many steps they show, on which scale, and how smooth their line is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grpo_top.snapshot import WINDOW

if TYPE_CHECKING:
    from grpo_top.ui.view import View

MEANS = (WINDOW, 50, 1, 5)
"""Windows of the running mean in the order in which they follow each other; 1 draws the single steps as the line."""
LEAST_STEPS = 10
_SPANS = (1, 2, 5)
_PARTS = 5
"""A window of steps moves on by this part of itself, so that most frames change few cells."""


@dataclass(frozen=True, slots=True)
class Lens:
    """What the user has set; a new one shows all steps on a linear scale."""

    steps: int | None = None
    """How many steps charts show; None is all."""
    log: bool = False
    mean: int = WINDOW
    """Steps that the line is the mean of."""

    def zoomed(self, by: int, shown: int) -> Lens:
        """Closer (`by` 1) or wider (-1), where the run has `shown` steps."""
        spans = [span for span in _spans(shown) if LEAST_STEPS <= span < shown]
        now = shown if self.steps is None else self.steps
        if by > 0:
            closer = [span for span in spans if span < now]
            return replace(self, steps=closer[-1]) if closer else self
        return replace(self, steps=next((span for span in spans if span > now), None))

    def smoothed(self) -> Lens:
        """The next window of the running mean."""
        at = MEANS.index(self.mean)
        return replace(self, mean=MEANS[(at + 1) % len(MEANS)])


def window(view: View) -> tuple[int, int] | None:
    """First and last step that charts show; None where they show all.

    It lies around the cursor where the view is paused, else at the run's end.
    """
    wide, run, at = view.lens.steps, view.snapshot.run, view.step
    if wide is None or at is None or run.first_step is None:
        return None
    move = max(wide // _PARTS, 1)
    end = at + (wide // 2 if view.cursor is not None else 0)
    last = -(-end // move) * move
    newest = view.snapshot.judged_step or at
    last = max(min(last, -(-newest // move) * move), run.first_step + wide)
    return last - wide, last


def words(view: View) -> str:
    """What is set beyond the usual, for the title: `steps 60–110, log, 50-step mean`."""
    shown, lens = window(view), view.lens
    parts = [] if shown is None else [f"steps {shown[0]}–{shown[1]}"]
    if lens.log:
        parts.append("log")
    if lens.mean != WINDOW:
        parts.append("single steps" if lens.mean == 1 else f"{lens.mean}-step mean")
    return ", ".join(parts)


def _spans(most: int) -> list[int]:
    """Round numbers of steps: 10, 20, 50, 100, …, up to `most`."""
    found, power = [], 1
    while power <= most:
        found += [power * mantissa for mantissa in _SPANS]
        power *= 10
    return [span for span in found if span <= most]
