"""What inference servers would sample with where a request leaves a setting out, against what is intended.

A part of SAMPLER_DRIFT. A server's default matters only where the request leaves the setting out: not where rollouts
record their own, nor where the trainer is known to pass every setting.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Verdict
from grpo_top.formats.passing import NEUTRAL, passes_every_setting
from grpo_top.records import SAMPLING_ORDER
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grpo_top.facts import StepFacts
    from grpo_top.records import Sampling, SamplingValue
    from grpo_top.samplers import Requests, Server

NAMED = 8
"""Samplers that one setting's evidence names at most."""
ENOUGH_REQUESTS = 16
RECORDED = "the rollouts record their own"
NEUTRAL_ONES = "neutral"
"""What a default is compared with where nothing is intended and all samplers agree."""


class Default(NamedTuple):
    """One setting that a server would resolve otherwise than it should."""

    setting: str
    server: str
    value: SamplingValue
    reference: SamplingValue
    why: str
    """What the reference is: `intended`, `on the other samplers`, `at first`, `neutral`."""
    origin: str
    """How the value gets there, in words; empty where it is unknown."""
    since: int
    beside: str
    """Why it does not matter; empty where it does."""

    @property
    def status(self) -> Status:
        """How bad it is."""
        if self.beside:
            return Status.OK if self.why == NEUTRAL_ONES else Status.INFO
        return Status.WARN if self.why == NEUTRAL_ONES else Status.FAIL


@dataclass(slots=True)
class ServerDefaults:
    """The servers' defaults at the newest step, and which of them are not as they should be."""

    found: tuple[Default, ...] = ()
    budget: tuple[Requests, float] | None = None
    """Requests that ask for another max_tokens than intended, and what is."""
    budget_since: int | None = None
    servers: int = 0
    """Servers whose defaults are known."""
    mixed: tuple[str, ...] = ()
    """Addresses whose answers alternate between two configs."""
    recorded: set[str] = field(default_factory=set)
    """Settings that the rollouts themselves record."""

    def update(self, facts: StepFacts, recorded: Iterable[str]) -> None:
        """Take a step in. `recorded`: settings that its rollouts record."""
        self.recorded.update(recorded)
        servers = [server for server in facts.servers.all if server.sampling is not None]
        self.servers = len(servers)
        self.mixed = tuple(server.name for server in servers if server.other is not None)
        passing = passes_every_setting(facts.run.framework) or ""
        intended = facts.run.sampling or {}
        self.found = tuple(
            found
            for name in SAMPLING_ORDER
            for found in _of_setting(
                name, intended.get(name), servers, RECORDED if name in self.recorded else passing
            )
        )
        self._update_budget(facts.servers.requests, intended.get("max_tokens"), facts.step)

    def verdict(self) -> Verdict:
        """The worst of them; unknown where no server tells its defaults."""
        worst = max((found.status for found in self.found), default=Status.OK)
        if self.budget is not None:
            worst = Status.FAIL
        if not self.servers and self.budget is None:
            return UNKNOWN
        if worst == Status.OK:
            return Verdict(Status.OK)
        of_it = [found for found in self.found if found.status == worst]
        since = min([found.since for found in of_it] or [self.budget_since or 0])
        share = len({found.server for found in of_it}) / self.servers if of_it else 1.0
        return Verdict(worst, share, None, since)

    def describe(self) -> Details:
        """What would be sampled with, on which servers, how it gets there, and what to do about it."""
        by_setting = _together([found for found in self.found if found.status > Status.OK])
        words = [_words(of, self.servers) for of in by_setting if of[0].why != NEUTRAL_ONES][:3]
        unsaid = [of for of in by_setting if of[0].why == NEUTRAL_ONES]
        if unsaid:
            words.append(_unsaid_words(unsaid, self.servers))
        if self.budget is not None:
            requests, intended = self.budget
            words.insert(0, _budget_words(requests, intended))
        return Details("; ".join(words), self.evidence(), (), tuple(self._try_next(by_setting)))

    def evidence(self) -> dict[str, object]:
        """The table of settings, and what the requests ask for."""
        found: dict[str, object] = {
            "servers": self.servers,
            "server_settings": [_row(of, self.servers) for of in _together(self.found)],
        }
        if self.mixed:
            found["mixed_behind_one_address"] = list(self.mixed)
        if self.budget is not None and self.budget[0].budget is not None:
            low, high = self.budget[0].budget
            found["requested_max_tokens"] = {"above": low, "at_most": high, "requests": self.budget[0].asked}
        return found

    def _update_budget(self, requests: Requests | None, intended: object, step: int) -> None:
        if requests is None:
            return
        self.budget = None
        if requests.budget is None or requests.asked < ENOUGH_REQUESTS or "max_tokens" in self.recorded:
            return
        low, high = requests.budget
        if isinstance(intended, int | float) and not low < intended <= high:
            self.budget = requests, float(intended)
            self.budget_since = step if self.budget_since is None else self.budget_since
        else:
            self.budget_since = None

    def _try_next(self, by_setting: Sequence[Sequence[Default]]) -> list[str]:
        steps: dict[str, None] = {}
        matters = [of[0] for of in by_setting if not of[0].beside]
        if matters:
            named = ", ".join(f"{first.setting} {numbers.setting(first.reference)}" for first in matters)
            steps[f"Pass {named} with each request"] = None
        for of in by_setting:
            origin = of[0].origin
            if of[0].beside:
                steps[f"Training rollouts are not touched: {of[0].beside}"] = None
            elif "sampling-defaults" in origin:
                steps["Start the server with --sampling-defaults openai"] = None
            elif "generation_config" in origin:
                steps["Start the server with --generation-config vllm, which makes its defaults neutral"] = (
                    None
                )
            elif origin.startswith("--"):
                steps[f"Look at {origin} of {_list(of)}"] = None
        if self.mixed:
            steps[f"Watch each server behind {', '.join(self.mixed[:3])} with --sampler: they differ"] = None
        if self.budget is not None:
            steps["Look where the requests' max_tokens is set: the run record names another"] = None
        steps["If the deployed value is meant, write it into the run record"] = None
        return list(steps)


def same(value: SamplingValue, other: SamplingValue) -> bool:
    """Whether two settings are equal, as numbers where they are numbers."""
    if isinstance(value, str) or isinstance(other, str):
        return value == other
    return math.isclose(value, other, rel_tol=1e-6, abs_tol=1e-9)


def _of_setting(
    name: str, intended: SamplingValue | None, servers: Sequence[Server], beside: str
) -> list[Default]:
    """The servers that would resolve a setting otherwise than intended, than each other, or than at first."""
    values = [(server, value) for server in servers for value in _values(server, name)]
    if not values:
        return []

    def default(server: Server, value: SamplingValue, reference: SamplingValue, why: str) -> Default:
        origin, since = server.origins.get(name, ""), server.since.get(name, 0)
        return Default(name, server.name, value, reference, why, origin, since, beside)

    if intended is not None:
        return [
            default(server, value, intended, "intended")
            for server, value in values
            if not same(value, intended) and not _is_no_cap(name, value, intended)
        ]
    counts, neutral = Counter(value for _, value in values), NEUTRAL.get(name)
    usual = max(counts, key=lambda value: (counts[value], value == neutral))
    others = [
        default(server, value, usual, "on the other samplers")
        for server, value in values
        if not same(value, usual)
    ]
    if others:
        return others
    changed = [
        default(server, value, server.first[name], "at first")
        for server, value in values
        if server.first and name in server.first and not same(value, server.first[name])
    ]
    if changed or neutral is None:
        return changed
    return [
        default(server, value, neutral, NEUTRAL_ONES) for server, value in values if not same(value, neutral)
    ]


def _values(server: Server, name: str) -> list[SamplingValue]:
    """The values of a setting that a server, or those behind its address, would take."""
    configs: list[Sampling | None] = [server.sampling, server.other]
    return list(dict.fromkeys(config[name] for config in configs if config and name in config))


def _is_no_cap(name: str, value: SamplingValue, intended: SamplingValue) -> bool:
    """A server's max_tokens caps what is asked for: a larger one changes nothing."""
    if name != "max_tokens" or isinstance(value, str) or isinstance(intended, str):
        return False
    return value > intended


def _together(found: Sequence[Default]) -> list[list[Default]]:
    """By setting and value, the worst first, then those of the most servers."""
    groups: dict[tuple[str, SamplingValue], list[Default]] = {}
    for each in found:
        groups.setdefault((each.setting, each.value), []).append(each)
    return sorted(groups.values(), key=lambda of: (-of[0].status, -len(of)))


def _words(of: Sequence[Default], servers: int) -> str:
    """`temperature 0.7 is the default on 1 of 3 samplers (gpu3:8000), 1.0 intended`."""
    first = of[0]
    told = f"{first.setting} {numbers.setting(first.value)} is the default{_where(of, servers)}"
    told += f", {numbers.setting(first.reference)} {first.why}"
    return f"{told}; from {first.origin}" if first.origin else told


def _unsaid_words(found: Sequence[Sequence[Default]], servers: int) -> str:
    """`temperature 0.7, top_p 0.8 are defaults that the run record does not name`."""
    named = ", ".join(f"{of[0].setting} {numbers.setting(of[0].value)}" for of in found)
    verb = "are defaults" if len(found) > 1 else "is a default"
    return f"{named} {verb}{_where(found[0], servers)} that the run record does not name"


def _where(of: Sequence[Default], servers: int) -> str:
    return f" on {numbers.part_of(len(of), servers)} samplers ({_list(of)})" if servers > 1 else ""


def _budget_words(requests: Requests, intended: float) -> str:
    low, high = requests.budget or (0.0, 0.0)
    asked = f"at most {numbers.count(high)}" if high < intended else f"more than {numbers.count(low)}"
    return f"all {numbers.count(requests.asked)} requests ask for {asked} tokens, {numbers.count(intended)} intended"


def _row(of: Sequence[Default], servers: int) -> dict[str, object]:
    first = of[0]
    return {
        "setting": first.setting,
        "default": first.value,
        "reference": first.reference,
        "reference_is": first.why,
        "origin": first.origin or None,
        "since": min(each.since for each in of),
        "servers": [each.server for each in of[:NAMED]],
        "of": f"{len(of)} of {servers}",
        "does_not_matter_because": first.beside or None,
    }


def _list(of: Sequence[Default]) -> str:
    names = ", ".join(each.server for each in of[:3])
    return names if len(of) <= 3 else f"{names} and {len(of) - 3} more"
