"""A vLLM server: what it would sample with, by rendering a request that is never generated, and its weights.

Endpoints as of 0.20 to 0.33. Rendering turns a chat into the request that would be generated, with every setting
resolved: the user's, else the server's or the model's, else neutral. It costs a tokenization.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.decode import integer, text
from grpo_top.formats.engine_metrics import LONGEST_NAME, VLLM
from grpo_top.formats.engines import (
    FORBIDDEN,
    GENERATION_CONFIG,
    NEEDS_KEY,
    UNAUTHORIZED,
    EngineWatcher,
    Told,
    fields_of,
    origins_of,
    version_of,
)
from grpo_top.formats.passing import NEUTRAL
from grpo_top.formats.verifiers_traces import mapping, mappings
from grpo_top.records import normal_sampling
from grpo_top.sources.feed import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.records import Sampling
    from grpo_top.sources.client import Client

OVERRIDE = "--override-generation-config"
DEV_MODE = "VLLM_SERVER_DEV_MODE=1"
MISSING = frozenset({404, 405})
SHORT_PROMPT = 1024
"""Tokens that the rendered prompt has at most, where the server does not say."""


class VllmWatcher(EngineWatcher):
    """Looks at one vLLM server."""

    name = VLLM
    without_metrics: ClassVar[str] = "/metrics: start the server without --disable-log-stats"

    async def settings(self, client: Client) -> Told:
        """By rendering; where that is closed, by the server's own config."""
        (models, _), (info, status) = await asyncio.gather(
            fields_of(client, f"{self._root}/v1/models"),
            fields_of(client, f"{self._root}/server_info?config_format=json"),
        )
        served = _base_model(mappings(mapping(models).get("data")))
        config = mapping(mapping(mapping(info).get("vllm_config")).get("model_config"))
        model = text(served.get("id")) or text(config.get("model"))
        limit = integer(served.get("max_model_len")) or integer(config.get("max_model_len"))
        rendered, why = await self._rendered(client, text(served.get("id")))
        closed = "" if info is not None else f"/server_info ({_why(status, DEV_MODE)})"
        if rendered is not None:
            resolved = _resolved(rendered, limit)
            return Told(resolved, _origins(resolved, config), model, (closed,))
        if not config:
            return Told(None, {}, model, (why, closed))
        sampling, origins, rest = _configured(config)
        return Told(sampling, origins, model, (f"{why}; {rest}" if rest else "",))

    async def weights(self, client: Client) -> tuple[str | None, str]:
        """From /weight_info, which a server in development mode has."""
        info, status = await fields_of(client, f"{self._root}/weight_info")
        if info is None:
            return None, f"/weight_info ({_why(status, DEV_MODE)}, vLLM 0.27 or later)"
        return version_of(info.get("weight_version"))

    async def _rendered(self, client: Client, model: str | None) -> tuple[Mapping[str, Any] | None, str]:
        """The request that a chat without any setting becomes, and why it is unknown."""
        named = {"model": model} if model else {}
        asked: tuple[tuple[str, dict[str, object]], ...] = (
            ("/v1/chat/completions/render", {"messages": [{"role": "user", "content": "1"}]}),
            ("/v1/completions/render", {"prompt": "1"}),  # a base model has no chat template
        )
        status = 0
        for path, request in asked:
            try:
                answer = await client.post(f"{self._root}{path}", {**named, **request})
                found = answer.json() if answer.ok else None
            except NoAnswer:
                continue
            status = answer.status
            found = found[0] if isinstance(found, list) and found else found
            if mapping(found).get("sampling_params") is not None:
                return mapping(found), ""
            if status in {UNAUTHORIZED, FORBIDDEN}:
                break
        flag = "--enable-scale-out" if status == FORBIDDEN else "vLLM 0.20 or later"
        return None, f"sampling defaults ({_why(status, flag)})"


def _why(status: int, flag: str) -> str:
    if status == UNAUTHORIZED:
        return NEEDS_KEY
    if status in MISSING or status == FORBIDDEN:
        return f"closed: start the server with {flag}" if not flag.startswith("vLLM") else f"it needs {flag}"
    return f"answers {status}" if status else "no answer"


def _base_model(models: Any) -> Mapping[str, Any]:
    """The model itself rather than an adapter of it."""
    return next((model for model in models if not model.get("parent")), models[0] if models else {})


def _resolved(rendered: Mapping[str, Any], limit: int | None) -> Sampling:
    """Every setting; what the answer leaves out is neutral. max_tokens where it is a cap, not just what fits."""
    given = dict(mapping(rendered.get("sampling_params")))
    most = integer(given.pop("max_tokens", None))
    tokens = rendered.get("token_ids")
    prompt = len(tokens) if isinstance(tokens, list) else SHORT_PROMPT
    if most is not None and limit is not None and most + prompt < limit:
        given["max_tokens"] = most
    return {**NEUTRAL, **(normal_sampling(given) or {})}


def _origins(sampling: Sampling, config: Mapping[str, Any]) -> dict[str, str]:
    """How each setting that is not neutral got there, by the server's own config where it is open."""
    if not config:
        return origins_of(sampling, f"{GENERATION_CONFIG} or {OVERRIDE}")
    override = normal_sampling(mapping(config.get("override_generation_config"))) or {}
    found = origins_of(sampling, _from_model(config))
    if "max_tokens" in sampling:
        found["max_tokens"] = f"max_new_tokens of {_from_model(config)}"
    return found | dict.fromkeys(override.keys() & sampling.keys(), OVERRIDE)


def _from_model(config: Mapping[str, Any]) -> str:
    folder = (text(config.get("generation_config")) or "auto")[:LONGEST_NAME]
    return GENERATION_CONFIG if folder in {"auto", "vllm"} else f"{folder}/generation_config.json"


def _configured(config: Mapping[str, Any]) -> tuple[Sampling | None, dict[str, str], str]:
    """The settings that the server's config fixes, how, and what stays unknown."""
    override = normal_sampling(mapping(config.get("override_generation_config"))) or {}
    origins = dict.fromkeys(override, OVERRIDE)
    if config.get("generation_config") == VLLM:
        return {**NEUTRAL, **override}, origins, ""
    rest = f"{_from_model(config)} applies, and its values are not told; --generation-config vllm makes it neutral"
    return override or None, origins, rest
