"""Which parts of a reward pay for the form of an answer, and whether form alone still rises."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.snapshot import WINDOW
from grpo_top.streaming import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts

FORM = re.compile(r"format|tag|xml|json|syntax|structure|parse|schema|think|style", re.IGNORECASE)
"""Names of components that pay for the form of an answer and not for what it says."""
COMPONENTS_KEPT = 32
GAIN = 0.05
"""Share of a component's range by which its mean over 20 rows must be above its best for content to have gained."""
HAD_RISEN = 0.3
"""Share of its range by which content must have risen before it can be said to have stalled."""


def components(facts: StepFacts) -> Mapping[str, float]:
    """The mean of each reward component at this step."""
    return facts.braced("component_mean")


def content_components(facts: StepFacts) -> dict[str, float]:
    """Means of the components that pay for what an answer says, as far as their names tell."""
    return {name: value for name, value in components(facts).items() if not is_form(name)}


@cache
def is_form(name: str) -> bool:
    """Whether a component pays for the form of an answer, as far as its name tells."""
    return FORM.search(name) is not None


class Rise(NamedTuple):
    """A form component that rose while content stood still."""

    name: str
    before: float
    """Its mean over 20 rows when content was last at a new best."""
    now: float
    since: int
    """The step of that best."""


class _Followed:
    """One component: its mean over the last 20 rows, its range, and its first and best such mean."""

    def __init__(self) -> None:
        self.window = Window(WINDOW)
        self.low, self.high = math.inf, -math.inf
        self.first = self.best = math.nan

    def add(self, value: float, step: int) -> bool:
        """Take a row in; whether the mean is at a new best, by more than noise."""
        self.window.add(value, step)
        self.low, self.high = min(self.low, value), max(self.high, value)
        if not self.window.full:
            return True
        mean = self.window.mean
        if math.isnan(self.first):
            self.first = self.best = mean
            return True
        if mean - self.best > GAIN * self.size:
            self.best = mean
            return True
        return False

    @property
    def size(self) -> float:
        """The width of its range."""
        return self.high - self.low


class FormAlone:
    """Whether a form component goes on rising for many rows on which no content component gains anything."""

    def __init__(self) -> None:
        self._components: dict[str, _Followed] = {}
        self._rows = 0
        """Rows since content was last at a new best."""
        self._since = 0
        self._form_then: dict[str, float] = {}

    def add(self, facts: StepFacts) -> None:
        """Take a step in that carries components."""
        found = components(facts)
        gained = False
        for name, value in found.items():
            if name not in self._components and len(self._components) >= COMPONENTS_KEPT:
                continue
            followed = self._components.get(name)
            if followed is None:
                followed = self._components[name] = _Followed()
            new_best = followed.add(value, facts.step)
            gained = gained or (new_best and not is_form(name))
        if not found:
            return
        self._rows += 1
        if gained or not self._form_then:
            self._rows, self._since = 0, facts.step
            self._form_then = {name: of.window.mean for name, of in self._components.items() if is_form(name)}

    def risen(self, rows: float, share: float, least: float) -> Rise | None:
        """The form component that rose by `share` of its range and by `least` while content stood for `rows` rows."""
        if self._rows < rows or not any(
            not is_form(name) and of.best - of.first >= HAD_RISEN * of.size > 0
            for name, of in self._components.items()
        ):
            return None
        for name, before in self._form_then.items():
            of = self._components[name]
            now = of.window.mean
            if now - before >= max(share * of.size, least):
                return Rise(name, before, now, self._since)
        return None
