"""The two spans of steps that every table compares: the last 20, and the 20 before something began."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers
from grpo_top.snapshot import WINDOW

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from grpo_top.snapshot import Finding
    from grpo_top.ui.view import View


class Span(NamedTuple):
    """Judged steps from the first to the last."""

    first: int
    last: int

    @property
    def text(self) -> str:
        """`91–110`."""
        return numbers.span(self.first, self.last)

    @property
    def words(self) -> str:
        """`steps 91–110`, `step 1`."""
        return f"step{'s' if self.first != self.last else ''} {self.text}"


class Windows(NamedTuple):
    """Now, and what it is compared with; None where there are no such steps."""

    now: Span | None
    before: Span | None
    what: str
    """What `before` is: `before SAMPLER_DRIFT`, else `early in the run`."""


def windows(view: View, since: Finding | None) -> Windows:
    """The last 20 judged steps, and the 20 before `since` began; without it the first 20 of the run."""
    steps = view.steps
    if view.step is None:
        return Windows(None, None, "")
    steps = steps[steps <= view.step]
    now = steps[-WINDOW:]
    if since is None:
        before, what = steps[: max(len(steps) - WINDOW, 0)][:WINDOW], "early in the run"
    else:
        before, what = steps[steps < view.since(since)][-WINDOW:], f"before {since.id}"
    return Windows(_span(now), _span(before), what)


def _span(steps: NDArray[np.int64]) -> Span | None:
    return Span(int(steps[0]), int(steps[-1])) if len(steps) else None
