"""Another run, or an earlier part of this one, laid behind this run by step, and where the two part.

They part at the first step from which on the means of the next WINDOW steps differ by more than APART pooled standard
deviations of single steps, at RUNNING steps in a row. Means look forward, so that a change is named where it begins;
within the first such window it is named at the step that is itself at least half as far off as the means are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.snapshot import WINDOW, Series
from grpo_top.sources.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

APART = 3.0
"""Pooled standard deviations between the means of two runs that have parted."""
RUNNING = 10
"""Steps in a row at which they are that far apart."""
LEAST_STEPS = WINDOW + RUNNING - 1
"""Steps that both runs must have, so that it can be said whether they part."""
EQUAL = 1e-6
"""Means that differ by no larger part of themselves are equal, however little single steps vary."""
OWN = "self:"
_GLOB = "*?["
COUNTERS = frozenset(
    ("policy_version", "trainer_version", "learning_rate", "rollouts", "groups", "step_time")
)
"""Series that tell no runs apart: they count, or follow a plan."""
LEADING = (
    "reward_mean",
    "success_rate",
    "zero_variance_group_frac",
    "group_reward_std_mean",
    "duplicate_frac",
    "parse_failure_rate",
    "truncation_rate",
    "completion_tokens_mean",
    "kl",
    "entropy",
    "grad_norm",
    "clip_frac",
    "version_lag_max",
)
"""Series that are named before others that part at the same step."""


class Wanted(NamedTuple):
    """What `--reference` names."""

    where: str
    """A run directory, log, glob or URL; empty: an earlier part of the run that is read."""
    first: int = 0
    last: int = 0
    """The steps of that part."""


class Parting(NamedTuple):
    """Where two runs part in one series."""

    step: int
    here: float
    """This run's mean of the WINDOW steps from there on."""
    there: float
    """The reference's."""


class Partings:
    """Where two runs part, as they grow: what has been compared is not compared again while it stays what it was."""

    def __init__(self) -> None:
        self._compared: dict[str, tuple[int, tuple[float, ...], Parting | None]] = {}
        """Series → the step up to which it is settled, the sums of both up to there, and the parting before it."""

    def find(self, name: str, one: Series, other: Series) -> Parting | None:
        """Where two series part."""
        until, sums, found = self._compared.get(name, (0, (), None))
        if sums != _sums(one, other, until):
            until, found = 0, None
        if found is not None:
            return found
        late, other_late = _from(one, until), _from(other, until)
        found = parting(late, other_late)
        steps, _, _ = _common(late, other_late)
        if found is not None:
            after = int(np.searchsorted(steps, found.step)) + LEAST_STEPS
            settled = int(steps[after]) if after < len(steps) else until
        else:
            settled = int(steps[1 - LEAST_STEPS]) if len(steps) >= LEAST_STEPS else until
        if settled > until:
            self._compared[name] = settled, _sums(one, other, settled), found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What lies behind a run; its steps are counted as the run's own."""

    name: str
    series: Mapping[str, Series]
    of_run: Mapping[str, Series]
    """The series of the run itself."""
    where: str = ""
    """As the user gave it."""
    reading: float | None = None
    """Share that has been read while it is being read, else None."""
    problem: str = ""
    """Why there is nothing to see of it."""
    known: Partings = field(default_factory=Partings)
    """What is known of earlier pictures of the same two runs."""
    _found: dict[str, Parting | None] = field(default_factory=dict)

    def parting(self, name: str) -> Parting | None:
        """Where the runs part in a series; None where they do not, or where it cannot be said."""
        if name not in self._found:
            one, other = self.of_run.get(name), self.series.get(name)
            self._found[name] = None if one is None or other is None else self.known.find(name, one, other)
        return self._found[name]

    def comparable(self) -> list[str]:
        """Names of the series that both have for long enough."""
        return [
            name
            for name in self.of_run
            if name in self.series
            and name not in COUNTERS
            and len(_common(self.of_run[name], self.series[name])[0]) >= LEAST_STEPS
        ]

    def partings(self) -> dict[str, Parting]:
        """Series in which the runs part, the earliest first."""
        rank = {name: at for at, name in enumerate(LEADING)}
        found = {name: parted for name in self.comparable() if (parted := self.parting(name)) is not None}
        order = sorted(found, key=lambda name: (found[name].step, rank.get(name, len(rank)), name))
        return {name: found[name] for name in order}


def wanted(text: str) -> Wanted:
    """What `--reference` names. ValueError where it is no place, or a part that ends before it begins."""
    if not text.startswith(OWN):
        if not is_url(text) and not any(sign in text for sign in _GLOB) and not Path(text).exists():
            raise ValueError(f"--reference {text}: no such file, directory or URL")
        return Wanted(text)
    found = re.fullmatch(r"(\d+)-(\d+)", text.removeprefix(OWN))
    if found is None or int(found[1]) > int(found[2]):
        raise ValueError(
            f"--reference {text}: write an earlier part of this run as self:FROM-TO, for example self:1-50"
        )
    return Wanted("", int(found[1]), int(found[2]))


def part(series: Mapping[str, Series], first: int, last: int, at: int) -> dict[str, Series]:
    """The steps `first` to `last` of a run's series, `first` counted as step `at`."""
    found = {}
    for name, whole in series.items():
        inside = (whole.steps >= first) & (whole.steps <= last)
        if inside.any():
            found[name] = Series(name, whole.origin, whole.steps[inside] + (at - first), whole.values[inside])
    return found


def parting(one: Series, other: Series) -> Parting | None:
    """Where two series part; None where they do not, or have too few steps in common."""
    steps, here, there = _common(one, other)
    if len(steps) < LEAST_STEPS:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # values past what can be squared part from nothing
        means = [np.convolve(values, np.full(WINDOW, 1 / WINDOW), "valid") for values in (here, there)]
        difference = means[0] - means[1]
        noise = np.sqrt((_variance(here) + _variance(there)) / 2)
        least = EQUAL * np.maximum(np.abs(means[0]), np.abs(means[1]))
        apart = np.abs(difference) > np.maximum(APART * noise, least)
        streaks = np.convolve(apart, np.ones(RUNNING), "valid") > RUNNING - 0.5
        if not streaks.any():
            return None
        at = int(np.argmax(streaks))
        off = (here - there)[at : at + WINDOW] / difference[at] >= 0.5
        begin = at + int(np.argmax(off))
        end = begin + WINDOW
        return Parting(int(steps[begin]), float(here[begin:end].mean()), float(there[begin:end].mean()))


def _from(series: Series, step: int) -> Series:
    """The steps from one on."""
    at = int(np.searchsorted(series.steps, step))
    return Series(series.name, series.origin, series.steps[at:], series.values[at:])


def _sums(one: Series, other: Series, until: int) -> tuple[float, ...]:
    """What shows whether anything before a step has changed."""
    with np.errstate(over="ignore", invalid="ignore"):
        return tuple(
            float(np.nansum(series.values[: int(np.searchsorted(series.steps, until))]))
            for series in (one, other)
        )


def _common(one: Series, other: Series) -> tuple[NDArray[np.int64], Floats, Floats]:
    """The steps at which both are known, and the values of both."""
    known, also_known = (series.steps[np.isfinite(series.values)] for series in (one, other))
    steps = np.intersect1d(known, also_known, assume_unique=True)
    return (
        steps,
        one.values[np.searchsorted(one.steps, steps)],
        other.values[np.searchsorted(other.steps, steps)],
    )


def _variance(values: Floats) -> Floats:
    """The variance of the WINDOW values from each one on."""
    centred = values - values.mean()
    kernel = np.full(WINDOW, 1 / WINDOW)
    spread = np.convolve(centred**2, kernel, "valid") - np.convolve(centred, kernel, "valid") ** 2
    found: Floats = np.maximum(spread, 0.0) * (WINDOW / (WINDOW - 1))
    return found
