"""Formats whose modules are loaded once a file may be theirs: there are 28, and a run is of one or two."""

from __future__ import annotations

from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.decode import bare, head_records

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext


class Late(Format):
    """A format, known by what a file of JSON lines has in it if the format is to be asked about that.

    About all other files it is always asked. Where a sign is there, the format itself looks closer; so a sign too many
    costs a little time, and one that is missing costs a file.

    Args:
        name: as its own.
        surest: as its own.
        where: its module and class.
        keys: its first records have one of these keys,
        families: or else one that begins so,
        words: or else one of these is among the first bytes,
        places: or else one of these in the path.
    """

    def __init__(
        self,
        name: str,
        surest: int,
        where: str,
        *,
        keys: Collection[str] = (),
        families: tuple[str, ...] = (),
        words: Collection[bytes] = (),
        places: Collection[str] = (),
    ) -> None:
        self.name = name  # type: ignore[misc]  # one class for all of them
        self.surest = surest
        self._where = where
        self._keys = frozenset(keys)
        self._families = families
        self._words = words
        self._places = places

    @cached_property
    def itself(self) -> Format:
        """The format, loaded."""
        module, _, name = self._where.partition(":")
        made: Format = getattr(import_module(f"grpo_top.formats.{module}"), name)()
        return made

    def may_be(self, path: PurePath, head: bytes) -> bool:
        """Whether there is a sign of it; True for all that is no file of JSON lines."""
        keys = _keys_of_lines(head)
        return (
            keys is None
            or not self._keys.isdisjoint(keys)
            or (bool(self._families) and any(key.startswith(self._families) for key in keys))
            or any(place in str(path) for place in self._places)
            or any(word in head for word in self._words)
        )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """As the format itself."""
        if "itself" in vars(self) or self.may_be(path, head):
            return self.itself.claim(path, head)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """As the format itself."""
        return self.itself.reader(path, claim, context)


@lru_cache(maxsize=8)
def _keys_of_lines(head: bytes) -> frozenset[str] | None:
    """The keys of a file's first JSON objects; None where its first line is none, nor the beginning of a long one.

    Kept for the last few heads, as `head_records` are.
    """
    end = head.find(b"\n")
    line = bare(head if end < 0 else head[:end])
    if not line.startswith(b"{") or not (line.endswith(b"}") or end < 0):
        return None
    return frozenset(key for record in head_records(head) for key in record) or None
