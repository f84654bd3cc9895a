"""What a mistyped name was meant to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def meant(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most like it; None where none is as like as `cutoff` (0 to 1, as difflib's ratio)."""
    from difflib import get_close_matches  # noqa: PLC0415  most names are right

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)
