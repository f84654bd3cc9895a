"""The parts of a reward beside each other: does each tell rollouts apart (stage 3), do two of them part (stage 5)?"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import OK, UNKNOWN, Details, Detector, Knob, Page, Streak, Verdict, group_rows
from grpo_top.detectors.forms import COMPONENTS_KEPT, components, is_form
from grpo_top.detectors.rules import ordered_rows
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Window
from grpo_top.trends import Trend, trend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts

PENALTY = re.compile(r"penal|punish|overlong|deduct", re.IGNORECASE)
"""Names of components that only take off: of these 0 is the top."""
ROLLOUTS = 64
"""Rollouts after which a component that had one value only has no other, before there are 20 rows of it."""
SPREAD = 0.5
"""A component has spread when less than this share of its groups is flat."""
TOP = 0.9
"""Place in a component's range from which it sits at its top: one rollout in ten may still miss it."""


@dataclass(slots=True)
class Component:
    """What is known of one component of the reward."""

    flat: Window = field(default_factory=lambda: Window(WINDOW))
    """Share of groups without spread; of a trainer's rows 1 where the mean did not move."""
    mean: Window = field(default_factory=lambda: Window(WINDOW))
    flat_share: float = 0.0
    """Mean of `flat`."""
    low: float = np.inf
    high: float = -np.inf
    rows: int = 0
    rollouts: float = 0.0
    of_groups: bool = False
    """Whether `flat` is of groups, and not of rows."""
    first_step: int = 0

    def take(self, mean: float, flat: float | None, lowest: float, highest: float, facts: StepFacts) -> None:
        """Take one step in."""
        step, rollouts = facts.step, facts.get("rollouts")
        self.rollouts += ROLLOUTS if rollouts is None else rollouts
        self.of_groups = flat is not None
        if flat is None:
            flat = 0.0 if self.mean.last is not None and mean != self.mean.last else 1.0
        self.first_step = step if not self.rows else self.first_step
        self.rows += 1
        self.flat.add(flat, step)
        self.flat_share = self.flat.mean
        self.mean.add(mean, step)
        self.low, self.high = min(self.low, lowest), max(self.high, highest)

    @property
    def settled(self) -> bool:
        """Whether its share of flat groups can be believed: a rare success moves a mean once in a while."""
        if self.low == self.high:
            return self.rollouts >= ROLLOUTS
        return self.rows >= WINDOW and (self.of_groups or self.mean.minimum == self.mean.maximum)

    def at_top(self, name: str) -> bool:
        """Whether it sits at its highest value: where it came to from below, or 1, or 0 of what only takes off.

        A pattern that never matches pays nothing, so that whatever is always paid for form is paid in full.
        """
        value = self.mean.median
        if self.high - self.low > 1e-9:
            return value >= self.low + TOP * (self.high - self.low)
        return (
            value == 1.0 or (value > 0 and is_form(name)) or (value == 0 and PENALTY.search(name) is not None)
        )


class UniformComponent(Detector):
    """A component of the reward that never tells two rollouts of a group apart."""

    id = "UNIFORM_COMPONENT"
    stage = 3
    severity = Status.WARN
    series = ("component_zero_variance", "component_mean")
    needs = ("component_mean",)
    knobs = (
        Knob("threshold", 0.9, "share of groups in which it has no spread, over the last 20 rows"),
        Knob("min_steps", 10, "rows of a component before it is judged"),
    )
    page = Page(
        what=(
            "One component of the reward never tells rollouts apart. It is the same for every rollout of nearly "
            "every group, while another one differs: it adds a constant, and a constant cancels out of the "
            "advantage. Whatever its weight, the policy is not taught what it stands for."
        ),
        looks_like="A component whose curve is a ruled line, its spread within groups 0 beside others that have one.",
        decides=(
            "Fires when a component has no spread in `threshold` of the groups over the last 20 rows, "
            "`min_steps` rows and 64 rollouts or more (20 rows where it ever had another value), while "
            "another has spread in at least half of them. One that sits at its highest value, where it came "
            "to from below, is mastered: a remark; so is 0 of what is called a penalty, and whatever is always "
            "paid for form. One that is stuck "
            "anywhere else, always 0 or always a neutral 0.5, is the warning. In a log without rollouts a "
            "component counts as flat on rows on which its mean does not move at all, and must have stood "
            "still on all of them."
        ),
        try_next=(
            "Call its function by hand on an attached rollout: does it find what it looks for?",
            "If it is always 0, compare its pattern with what the chat template puts before and after a completion",
            "If it is always a neutral value, look for its fallback: a missing field, an exception that is caught",
            "If it is right but too coarse, grade it, and move weight to components that differ",
        ),
        mistaken_for="A format that was learned: it sits at its top. A penalty that nobody incurs.",
        related=("DEGENERATE_GROUPS", "FORMAT_EXPLOIT", "COMPONENT_DIVERGENCE", "LOW_TRAINABILITY"),
    )
    threshold: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._components: dict[str, Component] = {}
        self._rows: tuple[int, ...] = ()
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Take in the components that this step carries, and judge them beside each other."""
        means, flat = facts.braced("component_mean"), facts.braced("component_zero_variance")
        if not means:
            return self._verdict
        for name, mean in means.items():
            lowest, highest = _limits(facts, name, mean)
            known = self._components.get(name)
            if known is None:
                known = self._components[name] = Component()
            known.take(mean, flat.get(name), lowest, highest, facts)
        self._verdict = self._judge()
        return self._verdict

    def _judge(self) -> Verdict:
        judged = self._judged()
        if not judged:
            return UNKNOWN
        highest = max(known.flat_share for known in judged.values())
        flat = self._flat(judged)
        if not flat:
            return OK._replace(value=highest, threshold=self.threshold)
        stuck = [known for name, known in flat.items() if not known.at_top(name)]
        since = min(known.flat.first_step or 0 for known in stuck or flat.values())
        return Verdict(Status.WARN if stuck else Status.INFO, highest, self.threshold, since)

    def _judged(self) -> dict[str, Component]:
        """Components that have been logged for long enough."""
        return {name: known for name, known in self._components.items() if known.rows >= self.min_steps}

    def _flat(self, judged: dict[str, Component]) -> dict[str, Component]:
        """Components without spread while another has some, the stuck ones first."""
        if min(known.flat_share for known in judged.values()) >= SPREAD:
            return {}
        flat = {
            name: known
            for name, known in judged.items()
            if known.flat_share >= self.threshold and known.settled
        }
        return dict(sorted(flat.items(), key=lambda item: item[1].at_top(item[0])))

    def describe(self, facts: StepFacts) -> Details:
        """Which components, where each is stuck, and which one differs."""
        flat = self._flat(self._judged())
        name, first = next(iter(flat.items()))
        top = first.at_top(name)
        never_moved = "the only value it ever had" if first.low == first.high else "stuck below its highest"
        where = "at its top" if top else never_moved
        others = f"; {len(flat) - 1} more" if len(flat) > 1 else ""
        evidence: dict[str, Any] = {
            name: {
                "flat_groups": known.flat_share,
                "mean": known.mean.mean,
                "lowest_seen": known.low,
                "highest_seen": known.high,
                "mastered": known.at_top(name),
            }
            for name, known in flat.items()
        }
        if facts.batch is not None:
            self._rows = group_rows(facts.batch, np.ones(facts.batch.groups, np.bool_))
        return Details(
            summary=(
                f"{name} is {numbers.value(first.mean.mean)}, {where}, in {numbers.share(first.flat_share)} of "
                f"groups{others}"
            ),
            evidence=evidence,
            rows=self._rows,
            try_next=_MASTERED if top else None,
        )


_MASTERED = (
    "Nothing is broken: the component is earned in full, and adds a constant from now on",
    "Lower its weight, or let it gate the others, so that the reward's range is spent on what still differs",
    "Watch that it stays: a component at its top can fall again unseen while another one rises",
)


def _limits(facts: StepFacts, name: str, mean: float) -> tuple[float, float]:
    """A component's lowest and highest value of a step; without rollouts its mean stands for both."""
    values = None if facts.batch is None else facts.batch.components.get(name)
    if values is None:
        return mean, mean
    lowest, highest = float(values.min()), float(values.max())
    if math.isfinite(lowest) and math.isfinite(highest):
        return lowest, highest
    known = values[np.isfinite(values)]
    return float(known.min()), float(known.max())


class Apart(NamedTuple):
    """Two components that part, and their trends."""

    up: str
    rise: Trend
    down: str
    fall: Trend


NO_TREND = Trend(0.0, 0.0, 0.0, 1.0)


class ComponentDivergence(Detector):
    """One part of the reward rises while another falls."""

    id = "COMPONENT_DIVERGENCE"
    stage = 5
    severity = Status.WARN
    series = ("component_mean",)
    knobs = (
        Knob("steps", 30, "logged values over which the trends are taken"),
        Knob("min_rows", 12, "values that a trend needs at least"),
        Knob("ratio", 0.25, "the smaller of the two changes as a share of the larger one"),
        Knob(
            "size", 0.05, "share of its own range, and of the widest one, that a component must have moved by"
        ),
        Knob("noise", 2, "times the deviation around its own trend that each must have moved by"),
        Knob("sustain", 5, "rows running on which two components part"),
    )
    page = Page(
        what=(
            "Two parts of the reward pull against each other, and one is winning. The total may rise all the "
            "while: the policy pays for the easy part with the hard one, say for form with correctness."
        ),
        looks_like="Two component lines that part: one climbs, the other sinks by about as much.",
        decides=(
            "Fires when, over the last `steps` logged values, one component has a significant upward trend "
            "(Mann-Kendall at 1%, a Theil-Sen slope above the noise) and another a significant downward one, "
            "with `min_rows` of them at least, on `sustain` rows running. Each must have moved by `size` of "
            "the range that it has had and by `noise` times the deviation around its trend, and the smaller "
            "change must be `ratio` of the larger one, and `size` of the range of the component that has "
            "moved most."
        ),
        try_next=(
            "Read answers that earn much of the rising component and little of the falling one",
            "Ask which of the two you want; lower the weight of the other, or cap it",
            "Make the easy part a condition for the hard one instead of an addend",
            "Log every component's within-group spread: what has none teaches nothing, see UNIFORM_COMPONENT",
        ),
        mistaken_for=(
            "A penalty that is meant to move, such as a length penalty in a run whose answers grow as they "
            "get better. A component that is rescaled on schedule."
        ),
        related=("FORMAT_EXPLOIT", "UNIFORM_COMPONENT", "LENGTH_HACKING", "HELDOUT_FLAT"),
    )
    steps: float
    min_rows: float
    ratio: float
    size: float
    noise: float
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._streak = Streak()
        self._windows: dict[str, Window] = {}
        self._ranges: dict[str, tuple[float, float]] = {}
        self._apart = Apart("", NO_TREND, "", NO_TREND)
        """The two that part now, or parted last."""
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Take a step's component means in and look for two that part."""
        found = components(facts)
        for name, value in found.items():
            if name not in self._windows:
                if len(self._windows) >= COMPONENTS_KEPT:
                    continue
                self._windows[name] = Window(int(self.steps))
            self._windows[name].add(value, facts.step)
            low, high = self._ranges.get(name, (value, value))
            self._ranges[name] = (min(low, value), max(high, value))
        if found:
            self._verdict = self._judge(facts.step)
        return self._verdict

    def describe(self, facts: StepFacts) -> Details:
        """Which one rises, which one falls, and by how much."""
        up, rise, down, fall = self._apart
        window = self._windows[up]
        rows: tuple[int, ...] = ()
        if facts.batch is not None and up in facts.batch.components and down in facts.batch.components:
            order = np.argsort(facts.batch.components[down] - facts.batch.components[up], kind="stable")
            rows = ordered_rows(facts.batch, order)
        return Details(
            f"{up} rises by {numbers.value(rise.change)} while {down} falls by {numbers.value(-fall.change)}",
            {
                "rising": {"component": up, "change": rise.change, "slope": rise.slope, "p": rise.p},
                "falling": {"component": down, "change": fall.change, "slope": fall.slope, "p": fall.p},
                "steps": [window.first_step, int(window.steps[-1])],
            },
            rows,
        )

    def _judge(self, step: int) -> Verdict:
        if len(self._windows) < 2 or all(len(window) < self.min_rows for window in self._windows.values()):
            return UNKNOWN
        found = self._find()
        self._streak.update(found is not None, step)
        if found is None:
            return Verdict(Status.OK)
        self._apart = found
        status = Status.WARN if self._streak.length >= self.sustain else Status.WATCH
        return Verdict(status, -found.fall.change, None, self._windows[found.up].first_step)

    def _find(self) -> Apart | None:
        widest = max(high - low for low, high in self._ranges.values())
        moved = {
            name: half for name, window in self._windows.items() if (half := self._half_change(name, window))
        }
        if not (any(half > 0 for half in moved.values()) and any(half < 0 for half in moved.values())):
            return None
        trends = {name: trend(self._windows[name].values, self._windows[name].steps) for name in moved}
        clear = {name: of for name, of in trends.items() if abs(of.change) >= self.noise * of.noise}
        rising = [(name, of) for name, of in clear.items() if of.direction == "up"]
        falling = [(name, of) for name, of in clear.items() if of.direction == "down"]
        pairs = [
            Apart(up, rise, down, fall)
            for up, rise in rising
            for down, fall in falling
            if min(rise.change, -fall.change)
            >= max(self.ratio * max(rise.change, -fall.change), self.size * widest)
        ]
        return max(pairs, key=lambda pair: min(pair.rise.change, -pair.fall.change), default=None)

    def _half_change(self, name: str, window: Window) -> float:
        """Late half's mean minus early half's; 0 where that is too little to look at."""
        if len(window) < self.min_rows:
            return 0.0
        values = window.values
        half = len(values) // 2
        change = float(values[-half:].sum() - values[:half].sum()) / half
        low, high = self._ranges[name]
        return change if abs(change) >= self.size * (high - low) else 0.0
