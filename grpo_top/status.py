"""How things stand. On its own, since the first frame needs this and nothing else of a Snapshot."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """How a detector or a stage stands, quietest first."""

    UNKNOWN = 0
    """A series that it needs is not logged, or too few steps so far."""
    OK = 1
    WATCH = 2
    """A limit is crossed, but not yet for as long as the rule asks."""
    INFO = 3
    WARN = 4
    FAIL = 5

    @property
    def word(self) -> str:
        """The word of the JSON contract: `ok`, `watch`, …"""
        return self.name.lower()
