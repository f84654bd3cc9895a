"""What all inference servers are asked: sampling defaults, the version of the weights, and metrics.

Nothing is asked that would generate or take data away. What a server does not tell is said with the flag that would
make it tell.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from grpo_top.formats.endpoint import Watcher
from grpo_top.formats.engine_metrics import LONGEST_NAME, EngineMetrics, engine_metrics
from grpo_top.formats.passing import NEUTRAL
from grpo_top.formats.verifiers_traces import mapping
from grpo_top.records import SamplerLook
from grpo_top.sources.feed import NoAnswer
from grpo_top.sources.urls import name_of, server_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.records import Record, Sampling
    from grpo_top.sources.client import Answer, Client

GENERATION_CONFIG = "the model's generation_config.json"
LOOKS_BETWEEN = 6
"""Looks at weights and metrics from one question about the settings to the next: they change with a restart only."""
UNAUTHORIZED, FORBIDDEN = 401, 403
NEEDS_KEY = "the server wants a key: pass it with GRPO_TOP_HEADERS='Authorization: Bearer …'"


class Told(NamedTuple):
    """What a server says of its settings."""

    sampling: Sampling | None = None
    origins: Mapping[str, str] = {}
    model: str | None = None
    unknown: tuple[str, ...] = ()


class EngineWatcher(Watcher):
    """Looks at one inference server again and again."""

    role = "sampler"
    every = 5.0
    without_metrics: ClassVar[str]
    """Why there are none, and which flag opens them."""

    def __init__(self, url: str) -> None:
        self._root = server_of(url)
        self._sampler = name_of(url)
        self._looks = 0
        self._told = Told()

    @abstractmethod
    async def settings(self, client: Client) -> Told:
        """What the server would sample with where a request leaves everything out."""

    @abstractmethod
    async def weights(self, client: Client) -> tuple[str | None, str]:
        """The version of its weights, and why it is unknown."""

    async def look(self, client: Client) -> list[Record]:
        """One look: settings now and then, weights and metrics each time."""
        asks = self._looks % LOOKS_BETWEEN == 0
        (version, why), answer, told = await asyncio.gather(
            self.weights(client),
            client.get(f"{self._root}/metrics"),
            self.settings(client) if asks else _same(self._told),
        )
        self._told = told
        self._looks += 1
        workers = engine_metrics(answer.body) if answer.ok else {}
        unknown = [*told.unknown, why, "" if workers else self._why_no_metrics(answer)]
        unknown = list(dict.fromkeys(filter(None, unknown)))
        self.note = "; ".join(unknown)
        own = workers.get("") or (next(iter(workers.values())) if len(workers) == 1 else EngineMetrics())
        return [
            SamplerLook(
                self._sampler,
                told.sampling,
                version,
                own.counters or None,
                answer.time,
                engine=self.name,
                model=(told.model or own.model or "")[:LONGEST_NAME] or None,
                origins=told.origins or None,
                gauges=own.gauges or None,
                unknown=tuple(unknown),
            )
        ]

    def _why_no_metrics(self, answer: Answer) -> str:
        return self.without_metrics if answer.status != UNAUTHORIZED else NEEDS_KEY


class FleetWatcher(Watcher):
    """Looks at the metrics of several engines that one endpoint tells of: a router's, or a Ray agent's."""

    role = "sampler"
    name = "engines"
    unasked: ClassVar[str] = (
        "sampling defaults and weights are not told here: name the engines with --sampler"
    )

    empty: ClassVar[str] = "it tells of no engine; of a router's, /engine_metrics at its main URL does"

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = name_of(url)

    async def look(self, client: Client) -> list[Record]:
        """A look at each engine."""
        answer = (await client.get(self._url)).required()
        workers = engine_metrics(answer.body)
        self.note = self.unasked if workers else self.empty
        return [
            SamplerLook(
                worker or self._name,
                counters=metrics.counters or None,
                time=answer.time,
                engine=metrics.engine,
                model=metrics.model,
                gauges=metrics.gauges or None,
                unknown=(self.unasked,),
            )
            for worker, metrics in workers.items()
        ]


async def _same(told: Told) -> Told:
    return told


async def asked(client: Client, where: str) -> Answer | None:
    """The answer to one of several questions; None where there is none, since the others still count."""
    try:
        return await client.get(where)
    except NoAnswer:
        return None


async def fields_of(client: Client, where: str) -> tuple[Mapping[str, Any] | None, int]:
    """The JSON object that answers one of several questions, and the status; (None, 0) where nothing answers."""
    answer = await asked(client, where)
    if answer is None:
        return None, 0
    if not answer.ok:
        return None, answer.status
    try:
        return mapping(answer.json()), answer.status
    except NoAnswer:
        return None, answer.status


def version_of(raw: object) -> tuple[str | None, str]:
    """The version of a server's weights, and why it is unknown."""
    version = str(raw)[:LONGEST_NAME] if isinstance(raw, str | int) and not isinstance(raw, bool) else ""
    if version in {"", "default"}:
        return None, "weight version: the trainer never named one when it sent weights"
    return version, ""


def origins_of(sampling: Sampling, changed: str) -> dict[str, str]:
    """How each value got there where only the result is known: what is not neutral came from `changed`."""
    return {name: changed for name, value in sampling.items() if name in NEUTRAL and value != NEUTRAL[name]}
