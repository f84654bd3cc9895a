"""Files that the user asked for are written whole or not at all: a full disk leaves what was there before."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, text: str) -> int:
    """Write a text to a file in place of what it holds; its size in bytes. OSError where it cannot be."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # a device or a pipe, which nothing takes the place of
        return len(text.encode())
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        size = part.stat().st_size
        part.replace(path.resolve())
    except OSError:
        part.unlink(missing_ok=True)
        raise
    return size
