"""What engines sample with where nobody says anything, and which trainers leave nothing to their servers' defaults.

Read from the frameworks' sources of 2026 (verl 0.9, ART 0.7, SkyRL, TRL 1.16, prime-rl, slime, miles). A trainer that
is not listed may leave settings out of its requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NEUTRAL: Mapping[str, float] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""What either engine samples with where neither the request, the server nor the model says anything."""
_EACH_REQUEST = "passes every setting with each request"
_NATIVE = "asks SGLang's own /generate, which does not apply the model's generation_config.json"
PASSING: dict[str, str] = {
    "trl": f"TRL {_EACH_REQUEST}",
    "verl": "verl sets the server's defaults from its own config",
    "art": "ART starts its server with generation_config vllm",
    "skyrl": "SkyRL starts its server with generation_config vllm",
    "prime-rl": "prime-rl trains through /inference/v1/generate, which applies no defaults; its evaluations may differ",
    "slime": f"slime {_NATIVE}",
    "miles": f"miles {_NATIVE}",
}


def passes_every_setting(framework: str | None) -> str | None:
    """Why a sampler's defaults do not reach the training rollouts of a framework; None where they may."""
    return PASSING.get(framework or "")
