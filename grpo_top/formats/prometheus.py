"""Prometheus and OpenMetrics text: what it holds, and a trainer's gauges as rows of its log.

Parsing is `prometheus_client`'s; only the lines that are wanted are given to it, since an engine says thousands.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from grpo_top.formats.endpoint import Kind, Watcher
from grpo_top.formats.name_tables import CANONICAL, TABLES
from grpo_top.formats.names import canonical
from grpo_top.records import Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record
    from grpo_top.sources.client import Answer, Client

NAME = "prometheus"
MEDIA_TYPES = frozenset({"text/plain", "application/openmetrics-text"})

_LINE = re.compile(
    rb"(?:# (?:HELP|TYPE|UNIT) [a-zA-Z_:][\w:]* .*|# EOF|[a-zA-Z_:][\w:]*(?:\{.*\})?[ \t]+[-+]?[\w.+-]+(?: .*)?)\r?"
)
_SAMPLE_NAME = re.compile(rb"[a-zA-Z_:][\w:]*")
_SURE_LINES = 20
_EXEMPLAR = b" # {"
_OF_THE_PROCESS = ("python_", "process_", "go_", "promhttp_", "scrape_", "http_")
_STEP_GAUGES = (
    "trainer_step",
    "train_global_step",
    "training_global_step",
    "global_step",
    "train_step",
    "training_step",
    "rollout_step",
    "step",
)
"""In order of preference."""
_PREFIXES = ("miles_metric_", "slime_metric_", "verl_", "trainer_", "training_", "train_")
"""What exporters put before a trainer's own key."""


class Sample(NamedTuple):
    """One line of the text."""

    name: str
    """Without Ray's prefix, and `_` for `:`, as Ray and routers write it."""
    labels: Mapping[str, str]
    value: float


def is_exposition(body: bytes) -> bool:
    """Whether a text is one of metrics: every line of its beginning is a sample or one of the format's comments."""
    lines = [line for line in body[:65536].split(b"\n")[:-1] or [body] if line.strip()][:_SURE_LINES]
    matching = sum(_LINE.fullmatch(line) is not None for line in lines)
    return bool(lines) and matching == len(lines) and any(line[:1] != b"#" for line in body.split(b"\n"))


def plain(name: str) -> str:
    """A metric's name as every exporter of it could write it."""
    return name.replace(":", "_").removeprefix("ray_")


def samples(body: bytes, wanted: Callable[[str], bool]) -> tuple[list[Sample], list[str]]:
    """The samples whose plain names are wanted, and one reason for each wanted line that cannot be read."""
    chosen = []
    for line in body.split(b"\n"):
        match = _SAMPLE_NAME.match(line)
        if match is not None and wanted(plain(match[0].decode("ascii"))):
            chosen.append(line.partition(_EXEMPLAR)[0].decode("utf-8", "replace"))
    try:
        return _parsed(chosen), []
    except ValueError:  # one line in thousands spoils the parser's whole text
        return _parsed_singly(chosen)


def _parsed(lines: Sequence[str]) -> list[Sample]:
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415  only for endpoints

    return [
        Sample(plain(sample.name), sample.labels, float(sample.value))
        for family in text_string_to_metric_families("\n".join(lines) + "\n")
        for sample in family.samples
    ]


def _parsed_singly(lines: Sequence[str]) -> tuple[list[Sample], list[str]]:
    found: list[Sample] = []
    bad: list[str] = []
    for line in lines:
        try:
            found += _parsed([line])
        except ValueError:
            bad.append("a line that is no sample")
    return found, bad


class Exposition(Kind):
    """A trainer's metrics endpoint (prime-rl, miles, verl's rl_insight, anything with gauges of known names)."""

    name: ClassVar[str] = NAME
    paths: ClassVar[tuple[str, ...]] = ("/metrics",)

    def claim(self, answer: Answer) -> int:
        """By the text's form."""
        return 40 if is_exposition(answer.body) else 0

    def watcher(self, answer: Answer, context: RunContext) -> Watcher:
        """A watcher of the URL that gave it."""
        return TrainerWatcher(answer.url, context)


class TrainerWatcher(Watcher):
    """Reads a trainer's gauges; a row each time that they are others."""

    name = NAME
    every = 2.0

    def __init__(self, where: str, context: RunContext) -> None:
        self._where = where
        self._context = context
        self._last: tuple[int, dict[str, float]] | None = None
        self._rows = 0

    async def look(self, client: Client) -> list[Record]:
        """A row of the step that the step's gauge names, where anything in it is new."""
        answer = (await client.get(self._where if self._where != client.url else "")).required()
        if answer.unchanged:
            return []
        found, bad = samples(answer.body, _is_of_a_trainer)
        step, metrics = row_of(found)
        skipped: list[Record] = [Skipped(reason, 0) for reason in bad]
        if not metrics:
            self.note = "no metric of a known name"
            return skipped
        if step is None:
            if self._context.framework is not None:
                self.note = "no gauge says the step, so its numbers are not read beside the run's own log"
                return skipped
            self.note = "no gauge says the step: its rows are counted"
            step = self._rows if self._last is not None and self._last[1] == metrics else self._rows + 1
            self._rows = step
        if self._last == (step, metrics):
            return skipped
        self._last = (step, metrics)
        return [*skipped, Step(step, metrics, time=answer.time)]


def row_of(found: Sequence[Sample]) -> tuple[int | None, dict[str, float]]:
    """The step and the trainer's numbers under the trainer's own names; of several with other labels, their mean."""
    values: dict[str, list[float]] = {}
    for sample in found:
        values.setdefault(sample.name, []).append(sample.value)
    step = next(
        (max(values[name]) for gauge in _STEP_GAUGES for name in values if _bare(name) == gauge), None
    )
    metrics = {
        own_name(name): sum(of) / len(of) for name, of in values.items() if _bare(name) not in _STEP_GAUGES
    }
    return (int(step) if step is not None and math.isfinite(step) else None), metrics


def own_name(name: str) -> str:
    """The trainer's own key behind an exported name: `train_loss` is `train/loss`; itself where none is known."""
    known = _own_names()
    for candidate in (name, *(name.removeprefix(prefix) for prefix in _PREFIXES)):
        if candidate in known:
            return known[candidate]
        if candidate in CANONICAL:
            return candidate
    return name


def _bare(name: str) -> str:
    for prefix in _PREFIXES[:3]:
        name = name.removeprefix(prefix)
    return name


def _is_of_a_trainer(name: str) -> bool:
    if name.startswith(_OF_THE_PROCESS) or name.endswith(("_created", "_bucket")):
        return False
    return _bare(name) in _STEP_GAUGES or name.startswith("trainer_") or _is_known(name)


@cache
def _is_known(name: str) -> bool:
    return canonical(None, own_name(name)) is not None


@cache
def _own_names() -> dict[str, str]:
    """Keys of all trainers as an exporter must write them → as they are."""
    keys = (key for table in TABLES.values() for keys in table.values() for key in keys)
    found: dict[str, str] = {}
    for key in keys:
        if "*" not in key and "{" not in key:
            found.setdefault(re.sub(r"[^a-zA-Z0-9_]", "_", key), key)
    return found
