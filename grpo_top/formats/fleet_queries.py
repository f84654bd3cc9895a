"""What is asked of a Prometheus server about a fleet: one number a sampler, and how all samplers' numbers become one.

Names of metrics are those of vLLM (v1/metrics/loggers.py) and SGLang (metrics_collector.py); Ray writes vLLM's with its
own prefix, and routers write SGLang's, with `_` for `:`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLER_LABELS = ("instance", "worker_addr", "WorkerId", "ReplicaId")
"""What tells samplers apart: the address that is scraped, a router's workers, Ray's replicas on one node."""
PART = "grpo_top"
"""Label that says which part of the distribution a series of an answer is."""
MEDIAN, COUNT, HIGHEST, LOWEST = "median", "count", "highest", "lowest"


class Query(NamedTuple):
    """One number of every sampler."""

    name: str
    promql: str
    """An expression with one series a sampler."""
    unit: str = ""
    """`share` for fractions of 1, `count` for whole numbers, else a word that is written after the number."""
    worse: str = ""
    """`high` or `low`: which end is the bad one; empty where either may be: then the one farther from the median."""

    def over_samplers(self) -> str:
        """The expression for its distribution: four series, however many samplers there are.

        What is not a number, such as a share of no requests, is nobody's.
        """
        known = f"(({self.promql}) >= -Inf)"
        parts = {
            MEDIAN: f"quantile(0.5, {known})",
            COUNT: f"count({known})",
            HIGHEST: f"topk(1, {known})",
            LOWEST: f"bottomk(1, {known})",
        }
        return " or ".join(f'label_replace({of}, "{PART}", "{name}", "", "")' for name, of in parts.items())


_BY = f"by ({', '.join(SAMPLER_LABELS)})"
_LENGTH = '{finished_reason="length"}'
_FAILED = '{finished_reason=~"abort|error"}'
_SYNCED = '{operation="finish"}'


def _each(*metrics: str, of: str = "sum", labels: str = "") -> str:
    """A gauge of each sampler, whichever of the names its engine has for it."""
    return " or ".join(f"{of} {_BY} ({name}{labels})" for name in _spelled(metrics))


def _rate(*metrics: str, over: str, labels: str = "") -> str:
    """How much a counter of each sampler grows in a second."""
    return " or ".join(f"sum {_BY} (rate({name}{labels}[{over}]))" for name in _spelled(metrics))


def _spelled(metrics: Sequence[str]) -> list[str]:
    """Names as engines write them, and as Ray and routers do."""
    plain = [metric.replace(":", "_") for metric in metrics]
    others = [f"ray_{name}" if name.startswith("vllm") else name for name in plain]
    return [*metrics, *others]


READY: tuple[Query, ...] = (
    Query("waiting", _each("vllm:num_requests_waiting", "sglang:num_queue_reqs"), "count", "high"),
    Query("running", _each("vllm:num_requests_running", "sglang:num_running_reqs"), "count"),
    Query("cache use", _each("vllm:kv_cache_usage_perc", "sglang:token_usage", of="max"), "share", "high"),
    Query(
        "tokens",
        _rate("vllm:generation_tokens_total", "sglang:generation_tokens_total", over="2m"),
        "/s",
        "low",
    ),
    Query(
        "cut at length",
        f"({_rate('vllm:request_success_total', over='5m', labels=_LENGTH)})"
        f" / ({_rate('vllm:request_success_total', over='5m')})",
        "share",
        "high",
    ),
    Query(
        "failed",
        f"({_rate('vllm:request_success_total', over='5m', labels=_FAILED)}"
        f" or {_rate('sglang:num_aborted_requests_total', over='5m')})"
        f" / ({_rate('vllm:request_success_total', 'sglang:num_requests_total', over='5m')})",
        "share",
        "high",
    ),
    Query(
        "mean length",
        f"({_rate('vllm:request_generation_tokens_sum', 'sglang:generation_tokens_histogram_sum', over='5m')})"
        f" / ({_rate('vllm:request_generation_tokens_count', 'sglang:generation_tokens_histogram_count', over='5m')})",
        "count",
    ),
    Query("preemptions", f"60 * ({_rate('vllm:num_preemptions_total', over='5m')})", "/min", "high"),
    Query(
        "weight syncs",
        _each("vllm:rl_weight_update_operation_duration_seconds_count", of="max", labels=_SYNCED),
        "count",
        "low",
    ),
)
"""In the order in which they are shown. What a fleet has no metric for is left out."""


class Fleets(NamedTuple):
    """What the user wants to be asked of fleets."""

    urls: tuple[str, ...] = ()
    """Prometheus servers."""
    queries: tuple[Query, ...] = ()
    """Beside those that are ready."""


NO_FLEETS = Fleets()


def own_query(text: str) -> Query:
    """The query that `NAME=PROMQL` spells; ValueError where it spells none."""
    name, sign, promql = text.partition("=")
    if not sign or not name.strip() or not promql.strip():
        raise ValueError(f"{text}: a query is NAME=PROMQL, such as 'busy=max by (instance) (my_gauge)'")
    return Query(name.strip(), promql.strip())
