"""An SGLang server: what it would sample with, by its arguments, and the version of its weights.

Endpoints as of 0.5. It does not tell what the model's generation_config.json holds, which its OpenAI endpoints apply
unless it runs with `--sampling-defaults openai`; where the model lies on this machine too, the file is read here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.decode import parse_record, text
from grpo_top.formats.engine_metrics import SGLANG
from grpo_top.formats.engines import (
    GENERATION_CONFIG,
    NEEDS_KEY,
    UNAUTHORIZED,
    EngineWatcher,
    Told,
    fields_of,
    version_of,
)
from grpo_top.formats.passing import NEUTRAL
from grpo_top.formats.verifiers_traces import mapping
from grpo_top.records import normal_sampling
from grpo_top.sources.model_files import generation_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.records import Sampling
    from grpo_top.sources.client import Client

DEFAULTS = "--sampling-defaults model"
PREFERRED = "--preferred-sampling-params"
TAKEN = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""What it takes from generation_config.json."""


class SglangWatcher(EngineWatcher):
    """Looks at one SGLang server."""

    name = SGLANG
    without_metrics: ClassVar[str] = "/metrics: start the server with --enable-metrics"

    async def settings(self, client: Client) -> Told:
        """From its arguments and, where it applies, the model's generation_config.json."""
        (info, status), (model_info, _) = await asyncio.gather(
            fields_of(client, f"{self._root}/server_info"), fields_of(client, f"{self._root}/model_info")
        )
        about = mapping(model_info)
        arguments = mapping(info)
        model = text(about.get("model_path")) or text(arguments.get("model_path"))
        if info is None:
            why = NEEDS_KEY if status == UNAUTHORIZED else f"answers {status}" if status else "no answer"
            return Told(None, {}, model, (f"sampling defaults (/server_info: {why})",))
        preferred = _preferred(about) or _preferred(arguments)
        if text(arguments.get("sampling_defaults")) == "openai":
            return Told({**NEUTRAL, **preferred}, dict.fromkeys(preferred, PREFERRED), model)
        found = await asyncio.to_thread(generation_config, model or "")  # a file system may hang
        if found is None:
            rest = (
                f"sampling defaults ({DEFAULTS}: {GENERATION_CONFIG} applies, and its values are not told; "
            )
            rest += "--sampling-defaults openai makes it neutral)"
            return Told(preferred or None, dict.fromkeys(preferred, PREFERRED), model, (rest,))
        own = {name: value for name, value in (normal_sampling(found) or {}).items() if name in TAKEN}
        origins = dict.fromkeys(own, f"{GENERATION_CONFIG}, through {DEFAULTS}")
        return Told({**NEUTRAL, **own, **preferred}, origins | dict.fromkeys(preferred, PREFERRED), model)

    async def weights(self, client: Client) -> tuple[str | None, str]:
        """From /model_info."""
        info, status = await fields_of(client, f"{self._root}/model_info")
        if info is None:
            return None, NEEDS_KEY if status == UNAUTHORIZED else "/model_info: SGLang 0.5 or later"
        return version_of(info.get("weight_version"))


def _preferred(about: Mapping[str, Any]) -> Sampling:
    """What is merged into every request that leaves it out; written as an object, or as one in a string."""
    raw = about.get("preferred_sampling_params")
    if isinstance(raw, str):
        try:
            raw = parse_record(raw.encode())
        except ValueError:
            return {}
    return normal_sampling(mapping(raw)) or {}
