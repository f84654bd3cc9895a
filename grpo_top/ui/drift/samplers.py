"""Each sampler's settings at the view's step: what it holds, since when, and how it got there."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from grpo_top.records import SAMPLING_ORDER
from grpo_top.snapshot import Status
from grpo_top.text import safe
from grpo_top.ui.drift.carried import UNNAMED, Point
from grpo_top.ui.panels.sampler import is_right, same, shown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grpo_top.records import Sampling, SamplingValue
    from grpo_top.snapshot import SamplerChange, SamplerFacts
    from grpo_top.ui.drift.carried import Carried
    from grpo_top.ui.view import View

NOBODY = -2
"""Number of a sampler that no rollout is of."""
ALL_ROLLOUTS = "all rollouts"
UNNAMED_ROLLOUTS = "not named"
_TURNS = 4
"""Changes in a row from one config to another and back that tell of a router over samplers that differ."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """One sampler: an inference server that is asked, or a name that rollouts carry, or both."""

    name: str
    """Safe to show."""
    number: int
    """Its number in `Carried`; `UNNAMED`, or `NOBODY`."""
    asked: SamplerFacts | None = None
    """What its answers say."""

    def changes(self, until: int | None) -> Sequence[SamplerChange]:
        """What was found when it was asked, up to a step."""
        if self.asked is None:
            return ()
        return [change for change in self.asked.changes if until is None or change.step <= until]

    def default(self, name: str, until: int | None) -> SamplingValue | None:
        """What it would resolve where a request leaves a setting out."""
        if self.asked is None:
            return None
        changes = self.changes(until)
        found = changes[-1].sampling if changes else None if self.asked.changes else self.asked.sampling
        return None if found is None else found.get(name)

    def takes_turns(self, until: int | None) -> bool:
        """Whether it answers with one config, then another, then the first again: as a router does."""
        found = [change.sampling for change in self.changes(until)]
        turns = [now for before, now in pairwise([None, *found]) if now != before][-_TURNS:]
        return len(turns) == _TURNS and all(turns[place] == turns[place - 2] for place in range(2, _TURNS))


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting of one sampler, or of several that agree in it."""

    value: SamplingValue | None
    status: Status
    """OK as it should be, unknown where it is not known; else how the drift is judged."""
    since: int | None = None
    """First step of the value."""
    last_since: int | None = None
    """Where several samplers agree, the latest of their first steps."""
    first_look: bool = False
    """Whether it was so when the sampler was first asked: it may be older than `since`."""
    before: SamplingValue | None = None
    """The value before it."""
    origin: str = ""
    """How the server's default gets there, in words, safe to show."""
    default: SamplingValue | None = None
    """That default, where rollouts carry something else: the request said so."""
    reference: SamplingValue | None = None
    """What it is held against."""
    side: str = ""
    """What that is: `intended`, `at first`, `on the other samplers`, `neutral`."""
    beside: str = ""
    """Why it does not matter, safe to show; empty where it does, or nobody says so."""

    @property
    def differs(self) -> bool:
        """Whether it is not what it should be."""
        return self.status >= Status.WATCH


@dataclass(frozen=True, slots=True)
class Judged:
    """What the detector says at the view's step."""

    status: Status
    rollouts: frozenset[str] = frozenset()
    """Settings in which rollouts are found to differ."""
    defaults: tuple[Mapping[str, Any], ...] = ()
    """The servers' defaults that are found to differ, as its evidence has them."""
    knows_defaults: bool = False
    """Whether all others are found to be right."""

    def default(self, name: str, value: SamplingValue) -> Mapping[str, Any] | None:
        """What is said of a server's default; None where nothing is."""
        rows = (row for row in self.defaults if row.get("setting") == name)
        return next((row for row in rows if same(row.get("default"), value)), None)


def judged(view: View) -> Judged:
    """The detector's verdict on settings, as far as it is one on the view's step."""
    status = view.status("SAMPLER_DRIFT")
    finding = next((each for each in view.findings() if each.id == "SAMPLER_DRIFT"), None)
    if finding is None or status < Status.INFO:
        return Judged(status, knows_defaults=view.cursor is None and status is Status.OK)
    settings = frozenset(row.get("setting") for row in finding.evidence.get("settings", ()))
    if view.cursor is not None:
        return Judged(status, settings)
    return Judged(status, settings, tuple(finding.evidence.get("server_settings", ())), True)


@dataclass(slots=True, eq=False)
class Deployment:
    """Every sampler of a view and what it should hold. Values over time are made when they are asked for."""

    view: View
    carried: Carried
    samplers: tuple[Sampler, ...]
    names: tuple[str, ...]
    """The settings that anything is known of, in the order of `SAMPLING_ORDER`."""
    intended: Sampling
    """What the run record says."""
    reference: Sampling
    """The same, and for what it leaves out the value that was there first: differences from it are told."""
    judged: Judged
    values: dict[str, dict[int, list[Point]]] = field(default_factory=dict)

    def over_time(self, name: str) -> dict[int, list[Point]]:
        """A setting as rollouts carry it, by the sampler's number."""
        if name not in self.values:
            self.values[name] = self.carried.values(name, self.reference.get(name))
        return self.values[name]

    def story(self, sampler: Sampler, name: str, until: int | None) -> tuple[list[Point], bool]:
        """The values of a setting one after another up to a step, and whether rollouts carry it.

        What rollouts carry is what they were sampled with. The server's own default stands where they do not say.
        """
        points = self.over_time(name).get(sampler.number, [])
        if until is not None:
            points = [point for point in points if point.step <= until]
        if any(point.value is not None for point in points):
            return points, True
        found: list[Point] = []
        for change in sampler.changes(until):
            value = None if change.sampling is None else change.sampling.get(name)
            if not found or found[-1].value != value:
                found.append(Point(change.step, value))
        return found, False

    def cell(self, sampler: Sampler, name: str) -> Cell:
        """A setting of a sampler at the view's step."""
        step = self.view.step
        points, from_rollouts = self.story(sampler, name, step)
        default = sampler.default(name, step)
        known = points[-1].value if points else default
        origin = "" if sampler.asked is None else safe(sampler.asked.origins.get(name, ""))
        if known is None:
            return Cell(None, Status.UNKNOWN, origin=origin)
        since = points[-1] if points else None
        before = points[-2].value if len(points) > 1 else None
        if not from_rollouts and len(points) > 1 and sampler.takes_turns(step):
            # Of two configs in turn the one that differs is shown, whichever was answered last.
            since = points[max(len(points) - _TURNS, 0)]
            if same(known, self.reference.get(name)) and before is not None:
                known, before = before, known
        said = None if from_rollouts else self.judged.default(name, known)
        return Cell(
            known,
            self.status(name, known) if from_rollouts else self.default_status(name, known, said),
            None if since is None else since.step,
            None if since is None else since.step,
            first_look=not from_rollouts and len(points) < 2,
            before=before,
            origin=origin,
            default=None if same(known, default) else default,
            reference=self.reference.get(name) if said is None else said.get("reference"),
            side=str(said.get("reference_is", ""))
            if said
            else "intended"
            if name in self.intended
            else "at first",
            beside="" if said is None else safe(str(said.get("does_not_matter_because") or "")),
        )

    def status(self, name: str, value: SamplingValue | None) -> Status:
        """How rollouts' value stands: as the detector judges it where it names the setting, else a watch."""
        if same(value, self.reference.get(name)):
            return Status.OK
        return max(self.judged.status if name in self.judged.rollouts else Status.WATCH, Status.WATCH)

    def default_status(self, name: str, value: SamplingValue, said: Mapping[str, Any] | None) -> Status:
        """How a server's default stands: what does not matter is a note, what nobody names is a warning."""
        if said is not None:
            neutral = said.get("reference_is") == "neutral"
            if said.get("does_not_matter_because"):
                return Status.OK if neutral else Status.INFO
            return Status.WARN if neutral else Status.FAIL
        right = self.judged.knows_defaults or is_right(name, value, self.reference.get(name))
        return Status.OK if right else Status.WATCH


def deployment(view: View, known: Carried) -> Deployment:
    """All samplers: those that are asked in the order of their naming, then those that rollouts name."""
    samplers = _samplers(view, known)
    intended: Sampling = dict(view.snapshot.run.sampling or {})
    looked = [facts.sampling or {} for facts in view.snapshot.samplers]
    looked += [change.sampling or {} for facts in view.snapshot.samplers for change in facts.changes]
    found = {*intended, *known.settings(), *(name for config in looked for name in config)}
    names = tuple(name for name in SAMPLING_ORDER if name in found)
    made = Deployment(view, known, samplers, names, intended, dict(intended), judged(view))
    for name in names:
        if name not in intended and (first := _first_value(made, name)) is not None:
            made.reference[name] = first
            made.values.pop(name, None)  # it was made while there was no reference
    return made


def _samplers(view: View, known: Carried) -> tuple[Sampler, ...]:
    numbers = known.samplers
    by_address = {_address(known.names[number]): number for number in numbers if number >= 0}
    asked = view.snapshot.samplers
    found: list[Sampler] = []
    for facts in asked:
        number = by_address.pop(_address(facts.name), NOBODY)
        found.append(Sampler(safe(shown_name(facts.name)), number, facts))
    if UNNAMED in numbers:
        if len(found) == 1 and len(numbers) == 1:
            found[0] = Sampler(found[0].name, UNNAMED, found[0].asked)
        elif not found or (known.config[known.sampler == UNNAMED] >= 0).any():
            name = UNNAMED_ROLLOUTS if found or len(numbers) > 1 else ALL_ROLLOUTS
            found.append(Sampler(name, UNNAMED))
    left = sorted(by_address.values())
    return (*found, *(Sampler(safe(shown_name(known.names[number])), number) for number in left))


def _address(name: str) -> str:
    return shown_name(name).casefold()


def _first_value(made: Deployment, name: str) -> SamplingValue | None:
    """The value that most samplers had at the first step that anything is known of."""
    firsts: list[Point] = []
    for sampler in made.samplers:
        points, _ = made.story(sampler, name, None)
        firsts += [point for point in points if point.value is not None][:1]
        if not points and (default := sampler.default(name, None)) is not None:
            firsts.append(Point(made.view.step or 0, default))
    first = min((point.step for point in firsts), default=0)
    counts: dict[SamplingValue, int] = {}
    for point in firsts:
        if point.step == first and point.value is not None:
            counts[point.value] = counts.get(point.value, 0) + 1
    return max(counts, key=lambda value: counts[value], default=None)
