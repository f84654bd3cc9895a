"""Inference servers as a loopback server plays them: the recorded metrics, and the JSON shapes of each engine."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopback import Says

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.sources.feed import Limits
from grpo_top.sources.http import Network

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from loopback import Answering, Loopback

    from grpo_top.snapshot import Snapshot

DATA = Path(__file__).parent / "data" / "endpoints"
QUICK = Limits(connect=0.5, read=0.3, whole=1.0, first_wait=0.02, longest_wait=0.05, a_second=1e6)
TEXT = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
NEUTRAL = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


def recorded(name: str) -> bytes:
    """A recorded answer of /metrics."""
    return gzip.decompress((DATA / f"{name}.prom.gz").read_bytes())


def vllm_metrics(**finished: int) -> str:
    """A short answer of vLLM's /metrics: how many requests ended how, and 100 tokens of each."""
    lines = [
        f'vllm:request_success_total{{engine="0",finished_reason="{reason}",model_name="m"}} {count}.0'
        for reason, count in finished.items()
    ]
    total = sum(finished.values())
    lines += [
        f'vllm:request_generation_tokens_sum{{engine="0",model_name="m"}} {100 * total}.0',
        f'vllm:request_generation_tokens_count{{engine="0",model_name="m"}} {total}.0',
        'vllm:num_requests_running{engine="0",model_name="m"} 3.0',
    ]
    return "\n".join(lines) + "\n"


def max_tokens_histogram(upto: Mapping[str, int]) -> str:
    """vLLM's histogram of what requests ask for: limit → requests at or below it."""
    return "".join(
        f'vllm:request_params_max_tokens_bucket{{engine="0",le="{limit}",model_name="m"}} {count}.0\n'
        for limit, count in upto.items()
    )


def vllm(
    server: Loopback,
    sampling: Mapping[str, Any] | None = None,
    *,
    at: str = "",
    version: str | None = "1",
    config: Mapping[str, Any] | None = None,
    metrics: str | bytes = "",
    **replaced: Answering,
) -> str:
    """A vLLM server that would sample so (what is left out is neutral); its URL. `replaced`: route by its last part."""
    routes: dict[str, Answering] = {
        "/metrics": Says(metrics or vllm_metrics(stop=0), headers=TEXT),
        "/v1/models": Says({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]}),
        "/v1/chat/completions/render": Says({"token_ids": [1, 2], "sampling_params": dict(sampling or {})}),
        "/server_info": Says(
            {"vllm_config": {"model_config": dict(config)}} if config else "", 200 if config else 404
        ),
        "/weight_info": Says({"weight_version": version} if version else "", 200 if version else 404),
    }
    for name, answering in replaced.items():
        route = next(route for route in routes if route.endswith(name))
        routes[route] = answering
    server.routes |= {f"{at}{route}": answering for route, answering in routes.items()}
    return f"{server.url}{at}"


def sglang(
    server: Loopback,
    *,
    at: str = "",
    version: str = "default",
    defaults: str = "model",
    preferred: Mapping[str, Any] | str | None = None,
    model: str = "/models/m",
    metrics: bytes | None = None,
) -> str:
    """An SGLang server; its URL. Without `metrics` it runs without --enable-metrics."""
    server.routes |= {
        f"{at}/model_info": Says(
            {"model_path": model, "weight_version": version, "preferred_sampling_params": preferred}
        ),
        f"{at}/server_info": Says({"sampling_defaults": defaults, "model_path": model, "version": "0.5.23"}),
        f"{at}/metrics": Says("", 404) if metrics is None else Says(metrics, headers=TEXT),
    }
    return f"{server.url}{at}"


def watched(*samplers: str, where: Sequence[Path] = ()) -> Snapshot:
    """What is found of a run and its samplers, each looked at once."""
    monitor = Monitor(
        [str(place) for place in where], Settings(), network=Network(limits=QUICK), samplers=samplers
    )
    try:
        monitor.read_all()
        return monitor.snapshot(finished=True)
    finally:
        monitor.close()
