"""Which kinds of endpoints there are. A new kind is one row here."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from grpo_top.formats.decode import parse_record
from grpo_top.formats.endpoint import Kind, Watcher
from grpo_top.formats.engine_metrics import SGLANG, VLLM
from grpo_top.formats.engines import FleetWatcher
from grpo_top.formats.prometheus import Exposition, is_exposition
from grpo_top.formats.served import ServedJson, ServedLog
from grpo_top.formats.sglang_server import SglangWatcher
from grpo_top.formats.verifiers_traces import mappings
from grpo_top.formats.vllm_server import VllmWatcher
from grpo_top.sources.urls import server_of

if TYPE_CHECKING:
    from grpo_top.formats.base import RunContext
    from grpo_top.sources.client import Answer


class Fleet(Kind):
    """Several engines' metrics: a Ray agent's, or those that an SGLang router gathers from its workers."""

    name: ClassVar[str] = "engines"
    paths: ClassVar[tuple[str, ...]] = ("/engine_metrics",)
    anywhere: ClassVar[bool] = True

    def claim(self, answer: Answer) -> int:
        """By names with Ray's prefix, or by the label that a router adds."""
        if not is_exposition(answer.body):
            return 0
        body = b"\n" + answer.body
        of_ray = b"\nray_vllm_" in body or b"\nray_sglang_" in body
        if of_ray or (b"worker_addr=" in body and b"\nsglang" in body):
            return 95
        return 60 if b"\nsmg_" in body else 0

    def watcher(self, answer: Answer, context: RunContext) -> Watcher:  # noqa: ARG002
        """A watcher of the URL that gave it."""
        return FleetWatcher(answer.url)


class Engines(Kind):
    """A vLLM or SGLang server, by its metrics, its models, or what SGLang says of its own."""

    name: ClassVar[str] = "engine"
    paths: ClassVar[tuple[str, ...]] = ("/metrics", "/model_info", "/v1/models")
    anywhere: ClassVar[bool] = True

    def claim(self, answer: Answer) -> int:
        """By the names of its metrics, or the fields of its JSON."""
        return 90 if engine_of(answer) is not None else 0

    def watcher(self, answer: Answer, context: RunContext) -> Watcher:  # noqa: ARG002
        """A watcher of the server, whichever of its paths was asked."""
        url = answer.url
        for path in self.paths:
            url = url.removesuffix(path)
        url = server_of(url)
        return SglangWatcher(url) if engine_of(answer) == SGLANG else VllmWatcher(url)


def engine_of(answer: Answer) -> str | None:
    """`vllm` or `sglang`, by an answer to one of the paths of `Engines`; None where it is neither's."""
    if is_exposition(answer.body):
        body = b"\n" + answer.body
        for engine, mark in ((VLLM, b"\nvllm:"), (SGLANG, b"\nsglang:")):
            if mark in body:
                return engine
        return None
    try:
        raw = parse_record(answer.body)
    except ValueError:
        return None
    if "model_path" in raw and "weight_version" in raw:
        return SGLANG
    owners = {str(model.get("owned_by")) for model in mappings(raw.get("data"))}
    return next((engine for engine in (VLLM, SGLANG) if engine in owners), None)


KINDS: tuple[Kind, ...] = (Engines(), Fleet(), Exposition(), ServedJson(), ServedLog())
"""In the order in which equal claims are settled and paths are asked."""
SAMPLERS: tuple[Kind, ...] = (Engines(), Fleet())
"""What a `--sampler` may be."""
