"""What a tail hands over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Lines(NamedTuple):
    """Whole lines of a file, in order."""

    offset: int
    """Byte offset of the first one (in the decompressed stream)."""
    lines: Sequence[bytes]
    """Without their newline; a line's offset is the one before plus its length plus 1."""
    first_number: int
    """Number of the first line, counted from 1."""
