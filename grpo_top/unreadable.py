"""Records that could not be read: which, how many, and before which step of the run, source by source."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_top.snapshot import SkippedRecord

KEPT = 100


class Unreadable:
    """Counts them, and keeps the first of them."""

    def __init__(self) -> None:
        self.first: list[SkippedRecord] = []
        self.count = 0
        self.by_step: dict[int, int] = defaultdict(int)
        """How many came when a step was the newest; 0 before the first one."""
        self._by_source: dict[str, Counter[int]] = defaultdict(Counter)
        self._since: dict[str, int] = {}
        """Sources that were rewritten → where their first one had been."""

    def add(self, record: SkippedRecord, newest: int) -> int:
        """Take one in; the step before which it counts. In a file that was rewritten it is no new one."""
        at = self._since.get(record.where, newest)
        self.count += 1
        self.by_step[at] += 1
        self._by_source[record.where][at] += 1
        if len(self.first) < KEPT:
            self.first.append(record)
        return at

    def forget(self, where: str) -> int | None:
        """Let those of a source fall, since its file was rewritten; the first step at which that changes anything."""
        fallen = self._by_source.pop(where, None)
        if fallen is None:
            return None
        self._since[where] = min(fallen)
        self.count -= fallen.total()
        self.first = [record for record in self.first if record.where != where]
        for step, count in fallen.items():
            self.by_step[step] -= count
        return min(fallen)
