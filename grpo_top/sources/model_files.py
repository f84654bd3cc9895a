"""A model's generation_config.json, where the model that a server names lies on this machine too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "generation_config.json"
LARGEST = 1 << 20


def generation_config(model: str) -> Mapping[str, object] | None:
    """The values in it, of a model's folder or of one in the Hugging Face cache; None where it is not here."""
    for path in _places(model):
        try:
            if path.is_file() and path.stat().st_size <= LARGEST:
                found = orjson.loads(path.read_bytes())
                return found if isinstance(found, dict) else None
        except (OSError, ValueError):
            continue
    return None


def _places(model: str) -> list[Path]:
    if not model or "\0" in model:
        return []
    given = Path(model)
    if given.is_absolute():
        return [given / FILE]
    parts = model.split("/")
    if len(parts) != 2 or not all(part and part.strip(".") for part in parts):
        return []
    cache = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME", "~/.cache/huggingface"), "hub")
    folder = Path(cache).expanduser() / f"models--{parts[0]}--{parts[1]}"
    try:
        revision = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return []
    return [folder / "snapshots" / revision / FILE] if revision.isalnum() else []
