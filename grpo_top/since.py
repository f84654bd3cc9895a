"""A run as if it had begun at a later step: what lies before is read, and falls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.bundle import one_by_one
from grpo_top.records import Eval, Rollout, Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpo_top.bundle import Read
    from grpo_top.records import Record


class Since:
    """Lets through what lies at or after a step, source by source.

    What a record says of the run as a whole holds whenever it was said. A record that cannot be read lies where the
    last one lay that its source has a step for.
    """

    def __init__(self, step: int) -> None:
        self.step = step
        self._before: set[int] = set()
        """Sources whose last record with a step lay before."""

    def kept(self, source: int, read: Iterable[Read]) -> list[Record]:
        """What is left of a source's next records."""
        found: list[Record] = []
        before = source in self._before
        for record in one_by_one(read):
            if isinstance(record, Rollout | Step | Eval):
                before = record.step < self.step
            if not (before and isinstance(record, Rollout | Step | Eval | Skipped)):
                found.append(record)
        if before:
            self._before.add(source)
        else:
            self._before.discard(source)
        return found

    def begin_again(self, source: int) -> None:
        """A source is read from its beginning."""
        self._before.discard(source)
