"""A Prometheus server that scrapes a fleet: range queries whose answers are as small for 500 samplers as for one.

The same query API is spoken by Thanos, Mimir, Cortex and VictoriaMetrics. One request a series and interval is made.
See https://prometheus.io/docs/prometheus/latest/querying/api/.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from grpo_top.formats.decode import parse_record, text
from grpo_top.formats.endpoint import Kind, Watcher
from grpo_top.formats.fleet_queries import COUNT, HIGHEST, LOWEST, MEDIAN, PART, READY, SAMPLER_LABELS, Query
from grpo_top.formats.prometheus import is_exposition
from grpo_top.formats.verifiers_traces import mapping, mappings
from grpo_top.records import FleetLook, FleetPoint, Skipped
from grpo_top.sources.client import status_words
from grpo_top.sources.feed import NoAnswer
from grpo_top.text import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record
    from grpo_top.sources.client import Answer, Client

NAME = "prometheus server"
PROBE = "/api/v1/query?query=1"
"""Any server of the query API answers this with a scalar."""
INTERVAL = 15.0
"""Seconds between two points, and between two looks."""
HISTORY = 3600.0
"""Seconds before the first look that are asked for."""
SHORTER = 4.0
"""How many times less is asked for after a look without an answer."""
ABSENT_LOOKS = 20
"""Looks after which a series is asked for again that the server has nothing of."""
_LONGEST_ERROR = 120
_SUFFIXES = ("/api/v1/query", "/metrics", "/graph", "/query")
_OWN_METRIC = b"\nprometheus_build_info{"


class Distribution(NamedTuple):
    """What one answer says."""

    points: list[FleetPoint]
    lowest: str
    highest: str
    unread: int
    """Values that are no numbers."""


class PrometheusServer(Kind):
    """Recognised by what it answers to a query, or by its own metrics."""

    name: ClassVar[str] = NAME
    paths: ClassVar[tuple[str, ...]] = (PROBE,)
    anywhere: ClassVar[bool] = True

    def __init__(self, queries: Sequence[Query] = ()) -> None:
        self._queries = (*READY, *queries)

    def claim(self, answer: Answer) -> int:
        """By the answer to a query, or the metric that only a Prometheus server has of itself."""
        if is_exposition(answer.body):
            return 95 if _OWN_METRIC in b"\n" + answer.body else 0
        try:
            raw = parse_record(answer.body)
        except ValueError:
            return 0
        data = mapping(raw.get("data"))
        return 95 if raw.get("status") == "success" and data.get("resultType") == "scalar" else 0

    def watcher(self, answer: Answer, context: RunContext) -> Watcher:  # noqa: ARG002
        """A watcher of the server that gave the answer."""
        return FleetSeriesWatcher(root_of(answer.url), self._queries)


def root_of(url: str) -> str:
    """A URL of a Prometheus server without the paths of its own: what the API's are added to."""
    bare = url.partition("?")[0].rstrip("/")
    for suffix in _SUFFIXES:
        bare = bare.removesuffix(suffix)
    return bare


class FleetSeriesWatcher(Watcher):
    """Asks for the distribution of each number over all samplers, from where it got to."""

    name = NAME
    role = "fleet"

    def __init__(
        self, root: str, queries: Sequence[Query], *, clock: Callable[[], float] = time.time
    ) -> None:
        self.every = INTERVAL
        self._root = root
        self._queries = queries
        self._clock = clock
        self._history = HISTORY
        """Seconds that are asked for at most; less after each look without an answer: it may be too much."""
        self._reached: dict[str, float] = {}
        """Query → the time of its last point."""
        self._absent: dict[str, int] = {}
        """Query → the look when the server had nothing of it."""
        self._looks = 0

    async def look(self, client: Client) -> list[Record]:
        """What is new of each series; NoAnswer where none could be asked."""
        now = math.floor(self._clock() / INTERVAL) * INTERVAL
        due = [query for query in self._queries if self._is_due(query, now)]
        self._looks += 1
        answers = await asyncio.gather(
            *(self._ask(client, query, now) for query in due), return_exceptions=True
        )
        records: list[Record] = []
        notes: list[str] = []
        for query, answer in zip(due, answers, strict=True):
            if isinstance(answer, NoAnswer):
                notes.append(f"{query.name}: {answer}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                distribution, warnings = answer
                notes += [f"{query.name}: {warning}" for warning in warnings]
                records += self._records(query, distribution, now)
        if due and all(isinstance(answer, NoAnswer) for answer in answers):
            self._history = max(self._history / SHORTER, INTERVAL)
            raise NoAnswer(str(answers[0]))
        if not notes and len(self._absent) == len(self._queries):
            notes.append("it knows no sampler of vLLM or SGLang; --query NAME=PROMQL asks for others")
        self.note = "; ".join(dict.fromkeys(notes))
        return records

    def _is_due(self, query: Query, now: float) -> bool:
        absent = self._absent.get(query.name)
        if absent is not None and self._looks - absent < ABSENT_LOOKS:
            return False
        return self._reached.get(query.name, -math.inf) < now

    async def _ask(self, client: Client, query: Query, now: float) -> tuple[Distribution, list[str]]:
        start = max(self._reached.get(query.name, -math.inf) + INTERVAL, now - self._history)
        asked = {
            "query": query.over_samplers(),
            "start": f"{start:.3f}",
            "end": f"{now:.3f}",
            "step": f"{INTERVAL:g}",
        }
        answer = await client.get(f"{self._root}/api/v1/query_range", params=asked)
        return distribution_of(answer)

    def _records(self, query: Query, found: Distribution, now: float) -> list[Record]:
        skipped: list[Record] = []
        if found.unread:
            skipped.append(Skipped(f"{found.unread} values of {query.name} that are no numbers", 0))
        if not found.points:
            if query.name not in self._reached:
                self._absent[query.name] = self._looks
            return skipped
        self._absent.pop(query.name, None)
        self._reached[query.name] = now
        look = FleetLook(query.name, found.points, found.lowest, found.highest, query.unit, query.worse)
        return [*skipped, look]


def distribution_of(answer: Answer) -> tuple[Distribution, list[str]]:
    """What an answer of the query API says, and what it warns of; NoAnswer with its own words where it is an error."""
    try:
        raw = parse_record(answer.body)
    except ValueError:
        raw = {}
    if raw.get("status") == "error":
        kind, why = text(raw.get("errorType")) or "error", text(raw.get("error")) or ""
        raise NoAnswer(f"{first_line(kind, 30)}: {first_line(why, _LONGEST_ERROR)}", answer.wait)
    if not answer.ok:
        raise NoAnswer(f"a query answers {status_words(answer.status)}", answer.wait)
    data = mapping(raw.get("data"))
    if raw.get("status") != "success" or data.get("resultType") != "matrix":
        raise NoAnswer("it answers a query with something else than series")
    warnings = raw.get("warnings")
    told = (
        [first_line(each, _LONGEST_ERROR) for each in warnings if isinstance(each, str)]
        if isinstance(warnings, list)
        else []
    )
    return _distribution(mappings(data.get("result"))), told


def _distribution(series: Sequence[Mapping[str, Any]]) -> Distribution:
    values: dict[str, dict[float, float]] = {part: {} for part in (MEDIAN, COUNT, HIGHEST, LOWEST)}
    ends: dict[str, tuple[float, str]] = {}
    unread = 0
    for each in series:
        labels = mapping(each.get("metric"))
        part = labels.get(PART)
        if part not in values:
            unread += 1
            continue
        pairs = each.get("values")
        for pair in pairs if isinstance(pairs, list) else []:
            at, value = _pair(pair)
            if at is None:
                unread += 1
                continue
            values[part][at] = value
            if at >= ends.get(part, (-math.inf, ""))[0]:
                ends[part] = (at, sampler_of(labels))
    times = sorted(values[COUNT])
    points = [
        FleetPoint(
            at,
            int(values[COUNT][at]) if math.isfinite(values[COUNT][at]) else 0,
            values[MEDIAN].get(at, math.nan),
            values[LOWEST].get(at, math.nan),
            values[HIGHEST].get(at, math.nan),
        )
        for at in times
    ]
    last = times[-1] if times else math.inf
    lowest, highest = (
        name if at >= last else "" for at, name in (ends.get(end, (0.0, "")) for end in (LOWEST, HIGHEST))
    )
    return Distribution(points, lowest, highest, unread)


def _pair(pair: object) -> tuple[float | None, float]:
    """The time and the value of one point: numbers are written as texts, `NaN` and `+Inf` among them."""
    if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[0], bool):
        return None, math.nan
    at, value = pair
    if not isinstance(at, int | float) or not isinstance(value, str):
        return None, math.nan
    try:
        return float(at), float(value)
    except ValueError:
        return None, math.nan


def sampler_of(labels: Mapping[str, Any]) -> str:
    """What a sampler is called: the address that is nearest to it, else all of its labels."""
    worker = text(labels.get("worker_addr"))
    if worker:
        return worker
    instance, replica = (
        text(labels.get("instance")),
        text(labels.get("ReplicaId")) or text(labels.get("WorkerId")),
    )
    if instance:
        return f"{instance} {replica}" if replica else instance
    rest = {name: value for name, value in labels.items() if name not in {PART, "__name__", *SAMPLER_LABELS}}
    return ", ".join(f"{name}={value}" for name, value in sorted(rest.items()))
