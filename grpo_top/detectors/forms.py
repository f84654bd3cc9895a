"""Which parts of a reward pay for the form of an answer, and whether form alone still rises."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.snapshot import WINDOW
from grpo_top.streaming import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.facts import StepFacts

FORM = re.compile(r"format|tag|xml|json|syntax|structure|parse|schema|think|style", re.IGNORECASE)
"""Names of components that pay for the form of an answer and not for what it says."""
COMPONENTS_KEPT = 32
GAIN = 0.05
"""Share of a component's range by which its mean over 20 rows must be above its best for content to have gained."""
SHARE_ROWS, SHARE_EVERY = 60, 10
EXPLAINED = 0.8
"""Share of the reward's variance from which weights that explain it are believed."""
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


class FormShare:
    """How much of the mean reward the form of answers earns, in a reward that adds its components up.

    Their weights are what explains the rows so far best, by least squares over running sums of products.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._new: list[tuple[float, ...]] = []
        """1, each component and the reward, of rows that are not in `_products` yet."""
        self._products: NDArray[np.float64] = np.zeros((0, 0))
        """The same by pairs, added up over the rows."""
        self._late = Window(WINDOW)
        self._rows = 0
        self.share: float | None = None
        """Over the last 20 rows; None where it is not known. Worked out every tenth row."""

    def add(self, facts: StepFacts, late: Mapping[str, Window]) -> None:
        """Take a step in that carries components and the reward; `late` holds each component's last 20 rows."""
        found, reward = components(facts), facts.get("reward_mean")
        if reward is None or len(found) < 2 or not late.keys() >= found.keys():
            return
        if len(found) != len(self._names) or found.keys() != set(self._names):
            self._names, self._new, self._rows, self.share = tuple(found), [], 0, None
            self._products = np.zeros((len(found) + 2, len(found) + 2))
            self._late = Window(WINDOW)
        self._late.add(reward, facts.step)
        self._new.append((1.0, *map(found.__getitem__, self._names), reward))
        if len(self._new) == SHARE_EVERY:
            rows = np.array(self._new)
            self._products = self._products + rows.T @ rows
            self._rows, self._new = self._rows + len(rows), []
            self.share = self._worked_out(late) if self._rows >= SHARE_ROWS else None

    def _worked_out(self, late: Mapping[str, Window]) -> float | None:
        form = [is_form(name) for name in self._names]
        reward = self._late.mean
        if all(form) or not any(form) or reward <= 0:
            return None
        given, asked, squares = (
            self._products[:-1, :-1],
            self._products[:-1, -1],
            float(self._products[-1, -1]),
        )
        weights = np.linalg.lstsq(given, asked, rcond=1e-9)[0]
        spread = squares - float(asked[0]) ** 2 / self._rows
        if spread <= 1e-9 * squares or squares - float(weights @ asked) > (1 - EXPLAINED) * spread:
            return None
        earned = zip(self._names, weights[1:].tolist(), form, strict=True)
        of_forms = (max(weight * late[name].mean, 0.0) for name, weight, of_form in earned if of_form)
        return math.fsum(of_forms) / reward


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

    @property
    def knows_any(self) -> bool:
        """Whether any component was ever seen."""
        return bool(self._components)

    @property
    def late(self) -> Mapping[str, Window]:
        """The last 20 rows of each component."""
        return {name: of.window for name, of in self._components.items()}

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
