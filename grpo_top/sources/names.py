"""Which files are worth reading, judged by their names alone, and the order that people expect of names."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "site-packages"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints"}
)

_READABLE = re.compile(
    r"\.(jsonl|json|ndjson|log|txt|csv|tsv|out|err|stdout|stderr|parquet|db|sqlite3?|wandb|swanlab|toml|yaml|yml)(\.(gz|zst))?$"
    r"|^events\.out\.tfevents\."
    r"|^(stdout|stderr|log|output|console)$",
    re.IGNORECASE,
)
_RUBBISH = re.compile(
    r"^(tokenizer|tokenizer_config|vocab|added_tokens|special_tokens_map|preprocessor_config|processor_config)\.json$"
    r"|^(vocab|merges|requirements)\.txt$"
    r"|\.index\.json$"
    r"|\.(safetensors|bin|pth|ckpt|npz|npy|onnx|gguf)$"
    r"|^(model|optim|scheduler|scaler|extra_state|rng_state|pytorch_model|adapter_model|consolidated|zero_pp_"
    r"|bf16_zero_|mp_rank_|distrib_optim).*\.(pt|pkl)$",
    re.IGNORECASE,
)
_PICKLE = re.compile(r"\.(pt|pkl|pickle)$", re.IGNORECASE)
_OLD_COPY = re.compile(
    r"\.(jsonl|json|ndjson|log|txt|csv|out|err)([.-]\d+|\.pre_resume_\d+|\.bak|\.old)(\.(gz|zst))?$",
    re.IGNORECASE,
)


class Kind(Enum):
    """What a file's name says of it."""

    READABLE = "readable"
    PICKLE = "pickle"
    OLD_COPY = "old copy"
    """What a rotation or a resume set aside: its lines were in the file whose name it carries."""
    RUBBISH = "rubbish"
    """Model weights, tokenizers and their like."""
    OTHER = "other"


@lru_cache(maxsize=1 << 16)
def kind_of(name: str) -> Kind:
    """The kind of the file called `name` (its last part, without folders)."""
    if _RUBBISH.search(name):
        return Kind.RUBBISH
    if _READABLE.search(name):
        return Kind.READABLE
    if _PICKLE.search(name):
        return Kind.PICKLE
    return Kind.OLD_COPY if _OLD_COPY.search(name) else Kind.OTHER


_DIGITS = re.compile("([0-9]+)")


@lru_cache(maxsize=1 << 16)
def natural_key(name: str) -> tuple[tuple[str | int, ...], str]:
    """A sort key under which `step_2` comes before `step_10`."""
    parts: list[str | int] = list(_DIGITS.split(name))
    parts[1::2] = [int(digits) for digits in parts[1::2]]
    return tuple(parts), name  # "01" and "1" are equal numbers, and still need one order
