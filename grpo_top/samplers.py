"""What inference servers were found to hold, look by look, and what their counters say happened between looks.

Everything is stamped with the newest step when it was seen, so that the state at any earlier step can be had again.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.snapshot import SamplerChange, SamplerFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from grpo_top.records import SamplerLook, Sampling

CHANGES_KEPT = 256
STEPS_KEPT = 4096
"""Steps whose requests are kept, so that they can be judged again."""
LOOKS_TOGETHER = 12
"""Looks over which the shares of finish reasons are shown: a minute, as samplers are asked."""
TURNS = 4
"""Changes in a row from one config to another and back that tell of a router over servers that differ."""
MOVES = 3
"""Moves of the newest weights that must each be as many versions as steps, so that a version counts as a step."""
_NUMBER = re.compile(r"(?:.*\D)?(?P<number>\d{1,12})")
"""Weights are numbered, or named with a number at the end (`step_40`, `lora-v40`)."""


class Server(NamedTuple):
    """One server as it stood at a step."""

    name: str
    sampling: Sampling | None
    """What it resolves where a request leaves everything out."""
    since: Mapping[str, int]
    """Setting → the step since which it has its value."""
    first: Sampling | None
    """What it resolved at the first look."""
    other: Sampling | None
    """The config that its answers alternate with: somebody mixes two servers behind one address."""
    origins: Mapping[str, str]
    version: int | None
    """The number of its weights."""


class Requests(NamedTuple):
    """What all servers together finished for one step, by their counters."""

    finished: Mapping[str, float]
    """Finish reason → requests."""
    tokens: float
    """Of the completions whose lengths were counted."""
    counted: float
    budget: tuple[float, float] | None
    """Smallest and largest max_tokens that requests may have asked for: the limits of the histogram's buckets."""
    asked: float
    """Requests in that histogram."""


VERSIONS = ("policy_version", "trainer_version", "version_lag_max", "version_lag_mean", "version_lag_min")
"""Series about weights."""


class Servers(NamedTuple):
    """All servers at a step."""

    all: tuple[Server, ...] = ()
    requests: Requests | None = None
    series: Mapping[str, float] = {}
    """What they say of series: shares of finish reasons, mean length, versions and lag."""

    def beside(self, known: Set[str]) -> Servers:
        """The same with those series alone that nothing else gives; their versions are used together or not at all."""
        hidden = known | set(VERSIONS) if not known.isdisjoint(VERSIONS) else known
        return self._replace(
            series={name: value for name, value in self.series.items() if name not in hidden}
        )


NO_SERVERS = Servers()


def version_of(name: str | None) -> int | None:
    """The number of weights that are called so; None where they have none."""
    found = _NUMBER.fullmatch(name or "")
    return int(found["number"]) if found else None


class _Sampler:
    """One server's history."""

    def __init__(self, order: int, name: str, latest: SamplerLook) -> None:
        self.order = order
        self.name = name
        self.latest = latest
        self.settings: list[tuple[int, Sampling]] = []
        """Step → what it has held since; likewise below. Ascending."""
        self.versions: list[tuple[int, int]] = []
        self.changes: list[SamplerChange] = []
        self.sampling: Sampling | None = None
        self.first: Sampling | None = None
        self.turns: deque[Sampling] = deque(maxlen=TURNS)
        """The last configs, each another than the one before it."""
        self.weight_version: str | None = None
        self.origins: Mapping[str, str] = {}
        self.counters: Mapping[str, float] = {}
        self.counted_at: int | None = None
        """The newest step when they were so."""
        self.recent: deque[Mapping[str, float]] = deque(maxlen=LOOKS_TOGETHER)
        self.facts: SamplerFacts | None = None
        self.stood: tuple[tuple[int, int, int], Server] | None = None
        """How it stood when that was last asked for, and what that rests on."""

    def take(self, look: SamplerLook, step: int) -> bool:
        """Take a look in; whether it found something else than the one before."""
        self.latest, self.facts, self.stood = look, None, None
        other = look.sampling is not None and look.sampling != self.sampling
        if other and look.sampling is not None:
            self.sampling, self.origins = look.sampling, look.origins or {}
            self.first = self.first or look.sampling
            self.turns.append(look.sampling)
            _note(self.settings, step, look.sampling)
        elif look.origins:
            self.origins = look.origins
        moved = look.weight_version is not None and look.weight_version != self.weight_version
        if moved:
            self.weight_version = look.weight_version
            version = version_of(look.weight_version)
            if version is not None:
                _note(self.versions, step, version)
        if other or moved or not self.changes:
            self.changes.append(SamplerChange(step, look.time, self.sampling, self.weight_version))
            if len(self.changes) > CHANGES_KEPT:
                del self.changes[1]
        return other or moved

    def at(self, step: int) -> Server:
        """As it stood at a step."""
        places = _upto(self.settings, step), _upto(self.versions, step), len(self.changes)
        if self.stood is None or self.stood[0] != places:
            settings = self.settings[: places[0]]
            sampling = settings[-1][1] if settings else None
            version = self.versions[places[1] - 1][1] if places[1] else None
            server = Server(
                self.name, sampling, _since(settings), self.first, self._other(), self.origins, version
            )
            self.stood = places, server
        return self.stood[1]

    def _other(self) -> Sampling | None:
        turns = list(self.turns)
        alternates = len(turns) == TURNS and turns[0] == turns[2] and turns[1] == turns[3]
        return turns[2] if alternates else None

    def as_facts(self) -> SamplerFacts:
        """What a Snapshot shows of it."""
        if self.facts is None:
            look = self.latest
            finished: dict[str, float] = {}
            for part in self.recent:
                _add(finished, finish_reasons(part))
            self.facts = SamplerFacts(
                self.name,
                look.engine,
                look.model,
                look.time,
                self.sampling,
                self.origins,
                self.weight_version,
                tuple(self.changes),
                finished,
                look.gauges or {},
                tuple(look.unknown),
            )
        return self.facts


class Samplers:
    """All servers that are looked at."""

    def __init__(self) -> None:
        self._samplers: dict[str, _Sampler] = {}
        self._requests: dict[int, dict[str, float]] = {}
        """Step → differences of the counters, of all servers, while it was sampled."""
        self._moves: list[tuple[int, int]] = []
        """Step and version each time that newer weights were seen than on any server before."""

    def __len__(self) -> int:
        return len(self._samplers)

    def take(self, look: SamplerLook, newest: int | None, order: int = 0) -> int | None:
        """Take a look in that was made when `newest` was the newest step.

        Args:
            look: of one server.
            newest: None before the first step.
            order: servers are shown in ascending order of this.

        Returns:
            The first step about which it says something new, None where it says nothing new.
        """
        step = 0 if newest is None else newest
        sampler = self._samplers.get(look.sampler)
        first = sampler is None
        if sampler is None:
            sampler = self._samplers[look.sampler] = _Sampler(order, look.sampler, look)
        since = step if sampler.take(look, step) or first else None
        if look.counters is not None:
            if sampler.counters:
                difference = grown(sampler.counters, look.counters)
                sampler.recent.append(difference)
                # What ended since the last look was sampled for the step after that which was the newest then.
                sampled = 0 if sampler.counted_at is None else sampler.counted_at + 1
                if any(difference.values()):
                    self._note_requests(sampled, difference)
                    since = sampled if since is None else min(since, sampled)
            sampler.counters, sampler.counted_at = look.counters, newest
        version = version_of(look.weight_version)
        if version is not None:
            self._note_move(step, version)
        return since

    def facts(self) -> tuple[SamplerFacts, ...]:
        """What a Snapshot shows of them, in their order."""
        ordered = sorted(self._samplers.values(), key=lambda sampler: sampler.order)
        return tuple(sampler.as_facts() for sampler in ordered)

    def at(self, step: int, after: int | None = None) -> Servers:
        """As they stood at a step, with what they finished for the steps `after` another one up to it."""
        if not self._samplers:
            return NO_SERVERS
        servers = tuple(
            sampler.at(step)
            for sampler in self._samplers.values()
            if sampler.changes and sampler.changes[0].step <= step
        )
        requests = self._finished(after, step)
        return Servers(servers, requests, {**_endings(requests), **self._versions(servers, step)})

    def _finished(self, after: int | None, step: int) -> Requests | None:
        together: dict[str, float] = {}
        for at, difference in self._requests.items():
            if at <= step and (after is None or at > after):
                _add(together, difference)
        return _requests(together) if together else None

    def _note_requests(self, step: int, difference: Mapping[str, float]) -> None:
        _add(self._requests.setdefault(step, {}), difference)
        if len(self._requests) > STEPS_KEPT:
            del self._requests[next(iter(self._requests))]

    def _note_move(self, step: int, version: int) -> None:
        if (
            self._moves
            and version < self._moves[-1][1]
            and all(
                sampler.versions and sampler.versions[-1][1] <= version for sampler in self._samplers.values()
            )
        ):
            self._moves.clear()  # the trainer went back: every server holds older weights than the newest seen
        if not self._moves or version > self._moves[-1][1]:
            _note(self._moves, step, version)

    def _versions(self, servers: Sequence[Server], step: int) -> dict[str, float]:
        """Newest weights, and how far the servers are behind.

        Behind the newest weights on any server; behind the trainer's step where versions are seen to count steps.
        """
        versions = [server.version for server in servers if server.version is not None]
        if not versions:
            return {}
        newest = max(versions)
        found = {"policy_version": float(newest)}
        moves = self._moves[: _upto(self._moves, step)]
        pairs = list(pairwise(moves))
        ahead = 0
        if len(pairs) >= MOVES and all(abs((v2 - v1) - (s2 - s1)) <= 1 for (s1, v1), (s2, v2) in pairs):
            ahead = max(0, step - min(at - version for at, version in moves) - newest)
            found["trainer_version"] = float(newest + ahead)
        if ahead or len(versions) > 1:
            lags = [newest + ahead - version for version in versions]
            found |= {
                "version_lag_max": float(max(lags)),
                "version_lag_mean": sum(lags) / len(lags),
                "version_lag_min": float(min(lags)),
            }
        return found


def grown(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """How much each counter grew. Where any that must not shrink did, the server was restarted: all began at 0."""
    restarted = any(now.get(name, value) < value for name, value in before.items())
    return {name: value - (0.0 if restarted else before.get(name, 0.0)) for name, value in now.items()}


def finish_reasons(counters: Mapping[str, float]) -> dict[str, float]:
    """Finish reason → requests, of those that were counted."""
    return {
        name[len("finish{") : -1]: value
        for name, value in counters.items()
        if value > 0 and name.startswith("finish{")
    }


def _requests(difference: Mapping[str, float]) -> Requests:
    limits = sorted(
        (float(name[len("max_tokens{") : -1]), value)
        for name, value in difference.items()
        if name.startswith("max_tokens{")
    )
    lower = [0.0, *(limit for limit, _ in limits)]
    held = [(low, high, value) for low, (high, value) in zip(lower, limits, strict=False) if value > 0]
    return Requests(
        finish_reasons(difference),
        difference.get("completion_tokens_sum", 0.0),
        difference.get("completion_tokens_count", 0.0),
        (held[0][0], held[-1][1]) if held else None,
        sum(value for _, _, value in held),
    )


def _endings(requests: Requests | None) -> dict[str, float]:
    """Shares of finish reasons, truncation and mean length; what was aborted was not finished."""
    if requests is None:
        return {}
    found: dict[str, float] = {}
    finished = {reason: count for reason, count in requests.finished.items() if reason != "abort"}
    total = sum(finished.values())
    if total and finished.keys() != {"error"}:
        found["truncation_rate"] = finished.get("length", 0.0) / total
        found |= {f"termination{{{reason}}}": count / total for reason, count in finished.items()}
    if requests.counted:
        found["completion_tokens_mean"] = requests.tokens / requests.counted
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _note(held: list[tuple[int, int]] | list[tuple[int, Sampling]], step: int, value: object) -> None:
    """Add what is held from a step on; of one step only the last counts."""
    if held and held[-1][0] == step:
        held.pop()
    held.append((step, value))  # type: ignore[arg-type]  # either list holds what its caller gives
    if len(held) > CHANGES_KEPT:
        del held[0]


def _upto(held: Sequence[tuple[int, object]], step: int) -> int:
    return bisect_right(held, step, key=lambda item: item[0])


def _since(settings: Sequence[tuple[int, Sampling]]) -> dict[str, int]:
    """Setting → the step since which it has had its last value."""
    found: dict[str, int] = {}
    if settings:
        last = settings[-1][1]
        for name, value in last.items():
            for step, sampling in reversed(settings):
                if sampling.get(name) != value:
                    break
                found[name] = step
    return found


def _add(to: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        to[name] = to.get(name, 0.0) + value
