"""prime-rl's `metrics.jsonl` and the configs of a run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from grpo_top.formats.base import Reader
from grpo_top.formats.decode import bare, integer, number, numbers, parse_record, text, timestamp
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.prime_rl_arrivals import arrivals_of
from grpo_top.formats.verifiers_traces import mapping, mappings
from grpo_top.records import Eval, Run, Skipped, Step, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

NAME = "prime-rl"

_EVALUATION = re.compile(
    r"eval/(?P<suite>.+?)/(?P<key>(?:all|effective)/.*|policy_version)|eval/(?P<old>[^/]+)/(?P<rest>.+)"
)
_ORCHESTRATOR = ("train/", "progress/", "off_policy/", "batch/")
_FAMILIES = (
    "train/agg/",
    "optim/",
    "off_policy/",
    "perf/throughput",
    "entropy/all/",
    "mismatch_kl/",
    "system/ckpt_",
)
_CONFIGS = ((b'"max_off_policy_steps"', b'"group_size"'), (b'"orchestrator"', b'"trainer"', b'"inference"'))


def is_metrics(record: Mapping[str, Any]) -> bool:
    """Whether an object is a row of the file monitor: step and time, then keys that it alone has."""
    if list(record)[:2] != ["step", "time"]:
        return False
    return any(key.startswith(_FAMILIES) or _is_evaluation(key) for key in record)


def _is_evaluation(key: str) -> bool:
    found = _EVALUATION.fullmatch(key)
    return found is not None and found["suite"] is not None


class MetricsReader(JsonLinesReader):
    """Reads rows, several a step: the trainer and the orchestrator append to one file, each at its own pace."""

    def __init__(self) -> None:
        self._announced = False

    def fresh(self) -> MetricsReader:
        """A reader that has read nothing."""
        return MetricsReader()

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The row's numbers for its step, and one evaluation for each environment that it has."""
        step = integer(raw.get("step"))
        if step is None:
            raise ValueError("metrics without a step")
        if not self._announced:
            self._announced = True
            yield Run(framework=NAME)
        time = timestamp(raw.get("time"))
        metrics = {key: value for key, value in numbers(raw).items() if key not in {"step", "time"}}
        trained = {key: value for key, value in metrics.items() if not key.startswith("eval/")}
        if trained:
            by_orchestrator = any(key.startswith(_ORCHESTRATOR) for key in trained)
            writer = " orchestrator" if by_orchestrator else " trainer"
            yield Step(step, trained, time, writer=writer, location=location)
        for suite, values in _evaluations(metrics).items():
            yield Eval(step, values, suite, time, location=location)


def _evaluations(metrics: Mapping[str, float | None]) -> dict[str, dict[str, float | None]]:
    """Suite → its numbers, those of the episodes without errors first."""
    found: dict[str, dict[str, float | None]] = {}
    for key in sorted(metrics, key=lambda key: "/effective/" not in key):
        match = _EVALUATION.fullmatch(key)
        if match:
            suite, name = match["suite"] or match["old"], match["key"] or match["rest"]
            found.setdefault(suite, {})[name] = metrics[key]
    return found


def is_config(head: bytes) -> bool:
    """Whether a file begins as the launcher's config of a run, or its orchestrator's."""
    return bare(head[:4096]).startswith(b"{") and any(
        all(word in head for word in words) for words in _CONFIGS
    )


class ConfigReader(Reader):
    """Reads `configs/orchestrator.json` or `configs/rl.json`: what was intended."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> ConfigReader:
        """A reader that has read nothing."""
        return ConfigReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """The run; `top_p` is always sent as 1."""
        try:
            found = parse_record(bare(data))
        except ValueError as error:
            return [Skipped(str(error), 0)]
        orchestrator = mapping(found.get("orchestrator")) or found
        train = mapping(orchestrator.get("train"))
        sources = mappings(train.get("source")) or [train]
        sampling = {**mapping(train.get("sampling")), **mapping(sources[0].get("sampling"))}
        if "temperature" not in sampling:
            sampling = mapping(orchestrator.get("sampling"))
        if sampling:
            sampling = {**mapping(sampling.get("extra_body")), "top_p": 1.0, **sampling}
        intended = normal_sampling(sampling)
        arrivals_of(self._context).intended.declare(intended)
        return [
            Run(
                run=text(mapping(found.get("run")).get("name")),
                framework=NAME,
                algorithm=text(mapping(orchestrator.get("algo")).get("type")),
                group_size=integer(sources[0].get("group_size", orchestrator.get("group_size"))),
                sampling=intended,
                version_lag_tolerance=number(orchestrator.get("max_off_policy_steps")),
                total_steps=integer(orchestrator.get("max_steps", found.get("max_steps"))),
                config={"model": mapping(orchestrator.get("model")).get("name"), **_samplers(orchestrator)},
            )
        ]


def _samplers(orchestrator: Mapping[str, Any]) -> dict[str, Any]:
    """Where the inference servers listen, if that is said."""
    urls = mapping(orchestrator.get("client")).get("base_url")
    return {"client": {"base_url": urls}} if urls else {}
