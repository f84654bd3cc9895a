"""A glob that is fed a path part by part, so that a walk can stop where nothing below can match."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAGIC = re.compile(r"[*?\[]")

States = frozenset[int]
"""How many of the pattern's parts may be matched so far; empty: no match here or below."""


def split_glob(path: Path) -> tuple[Path, tuple[str, ...]]:
    """The folder before the first wildcard, and the parts of the pattern from there on (none: not a glob)."""
    for index, part in enumerate(path.parts):
        if _MAGIC.search(part):
            return Path(*path.parts[:index]), path.parts[index:]
    return path, ()


class Glob:
    """Matches paths part by part. `**` is any number of folders; a match is taken with all below it."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]
        self.start: States = self._closed((0,))

    def step(self, states: States, name: str) -> States:
        """The states after one more name."""
        if self.takes(states):
            return states
        after = set()
        for state in states:
            part = self._parts[state]
            if part is None:
                after.add(state)
            elif part.match(name):
                after.add(state + 1)
        return self._closed(after)

    def takes(self, states: States) -> bool:
        """Whether a path that led to these states is matched, or lies below one that is."""
        return len(self._parts) in states

    def _closed(self, states: Iterable[int]) -> States:
        """With what is reached because `**` also matches no folder at all."""
        closed = set()
        for state in states:
            closed.add(state)
            reached = state
            while reached < len(self._parts) and self._parts[reached] is None:
                reached += 1
                closed.add(reached)
        return frozenset(closed)
