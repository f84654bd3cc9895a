"""An inference engine's own metrics as counters and gauges under one set of names, whoever the engine is.

Counters only grow until the server restarts; what happened is their differences, see `grpo_top.samplers`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.formats.prometheus import samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grpo_top.formats.prometheus import Sample

VLLM, SGLANG = "vllm", "sglang"
MOST_WORKERS, MOST_PARTS, LONGEST_NAME = 1024, 256, 200
"""An endpoint is not trusted to be an engine: how much of what it says is kept."""
_PART = re.compile(r"[\w.+-]{1,32}")


class _Meaning(NamedTuple):
    name: str
    label: str = ""
    """Label whose value names a part of it: `finish{stop}`."""


_COUNTERS = {
    "vllm_request_success_total": _Meaning("finish", "finished_reason"),
    "vllm_generation_tokens_total": _Meaning("generation_tokens"),
    "vllm_prompt_tokens_total": _Meaning("prompt_tokens"),
    "vllm_num_preemptions_total": _Meaning("preemptions"),
    "vllm_request_generation_tokens_sum": _Meaning("completion_tokens_sum"),
    "vllm_request_generation_tokens_count": _Meaning("completion_tokens_count"),
    "vllm_request_generation_tokens_bucket": _Meaning("completion_tokens", "le"),
    "vllm_request_params_max_tokens_bucket": _Meaning("max_tokens", "le"),
    "vllm_rl_weight_update_operation_duration_seconds_count": _Meaning("weight_updates", "operation"),
    "sglang_num_requests_total": _Meaning("requests"),
    "sglang_num_aborted_requests_total": _Meaning("finish{abort}"),
    "sglang_generation_tokens_total": _Meaning("generation_tokens"),
    "sglang_prompt_tokens_total": _Meaning("prompt_tokens"),
    "sglang_generation_tokens_histogram_sum": _Meaning("completion_tokens_sum"),
    "sglang_generation_tokens_histogram_count": _Meaning("completion_tokens_count"),
    "sglang_generation_tokens_histogram_bucket": _Meaning("completion_tokens", "le"),
}
_GAUGES = {
    "vllm_num_requests_running": _Meaning("running"),
    "vllm_num_requests_waiting": _Meaning("waiting"),
    "vllm_kv_cache_usage_perc": _Meaning("cache_use"),
    "vllm_engine_sleep_state": _Meaning("sleep", "sleep_state"),
    "vllm_rl_weight_update_operations_in_flight": _Meaning("weight_updates_running"),
    "sglang_num_running_reqs": _Meaning("running"),
    "sglang_num_queue_reqs": _Meaning("waiting"),
    "sglang_token_usage": _Meaning("cache_use"),
    "sglang_gen_throughput": _Meaning("tokens_per_second"),
    "sglang_num_paused_reqs": _Meaning("paused"),
}
_SHARES = frozenset({"cache_use"})
"""Of several engines behind one endpoint the fullest counts; all else is added up."""
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Parts of one engine, each of which may tell the same."""
_WORKERS = ("worker_addr", "WorkerId", "ReplicaId")
"""Labels that name the engine where one endpoint tells of several."""


@dataclass(slots=True)
class EngineMetrics:
    """What one engine's metrics say."""

    engine: str = ""
    model: str | None = None
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)


def is_wanted(name: str) -> bool:
    """Whether a metric's plain name is one of those that mean something here."""
    return name in _COUNTERS or name in _GAUGES


def engine_metrics(body: bytes) -> dict[str, EngineMetrics]:
    """Engine's address (empty where the endpoint is the engine's own) → its metrics."""
    found, _ = samples(body, is_wanted)
    by_worker: dict[str, list[Sample]] = {}
    for sample in found:
        worker = _worker(sample.labels)[:LONGEST_NAME]
        if worker in by_worker or len(by_worker) < MOST_WORKERS:
            by_worker.setdefault(worker, []).append(sample)
    return {worker: _metrics(of) for worker, of in by_worker.items()}


def _worker(labels: Mapping[str, str]) -> str:
    return next((labels[label] for label in _WORKERS if labels.get(label)), "")


def _metrics(found: Iterable[Sample]) -> EngineMetrics:
    metrics = EngineMetrics()
    parts: dict[tuple[str, bool], dict[tuple[tuple[str, str], ...], float]] = {}
    for sample in found:
        metrics.engine = sample.name.partition("_")[0]
        metrics.model = sample.labels.get("model_name", "")[:LONGEST_NAME] or metrics.model
        counts = sample.name in _COUNTERS
        meaning = (_COUNTERS if counts else _GAUGES)[sample.name]
        if not math.isfinite(sample.value):
            continue
        part = sample.labels.get(meaning.label, "")
        name = f"{meaning.name}{{{part}}}" if meaning.label else meaning.name
        if (meaning.label and not _PART.fullmatch(part)) or (
            len(parts) >= MOST_PARTS and (name, counts) not in parts
        ):
            continue
        of = parts.setdefault((name, counts), {})
        key = tuple(sorted((k, v) for k, v in sample.labels.items() if k not in _RANKS))
        of[key] = max(sample.value, of.get(key, -math.inf))
    for (name, counts), values in parts.items():
        together = max(values.values()) if name in _SHARES else sum(values.values())
        (metrics.counters if counts else metrics.gauges)[name] = together
    _single_buckets(metrics.counters)
    finished = [value for name, value in metrics.counters.items() if name.startswith("finish{")]
    if finished and "requests" not in metrics.counters:
        metrics.counters["requests"] = sum(finished)
    return metrics


def _single_buckets(counters: dict[str, float]) -> None:
    """Prometheus' buckets hold all below their limit; here each holds its own alone."""
    for of in ("completion_tokens", "max_tokens"):
        limits = sorted(
            (float(name[len(of) + 1 : -1]), name) for name in counters if name.startswith(f"{of}{{")
        )
        below = 0.0
        for limit, name in limits:
            upto = counters.pop(name)
            key = f"{of}{{{'inf' if math.isinf(limit) else f'{limit:g}'}}}"
            counters[key] = max(0.0, upto - below)
            below = upto
