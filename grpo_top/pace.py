"""Which training steps are finished."""

from __future__ import annotations

PATIENCE = 3
"""Steps that the run may be ahead before a step no longer waits for a writer that is silent."""


class StepPace:
    """Watches which writer has written how much of which step.

    A step is finished when every writer that regularly takes part in a step has gone on to a later one or has
    written as many records as it usually does, when the run is well ahead of it, or when the source has ended.
    Finishing early is harmless: what comes late is merged, and the steps since are judged again.
    """

    def __init__(self) -> None:
        self._counts: dict[int, dict[str, int]] = {}
        """Unfinished step → writer → records."""
        self._newest: dict[str, int] = {}
        self._recent: list[dict[str, int]] = []
        """What the last two finished steps held."""
        self.last: int | None = None
        """The last finished step."""

    def note(self, writer: str, step: int, records: int) -> bool:
        """Take records of a step in; whether they are late, since the step was finished before."""
        if self.last is not None and step <= self.last:
            self._newest[writer] = max(step, self._newest.get(writer, step))
            return True
        counts = self._counts.setdefault(step, {})
        counts[writer] = counts.get(writer, 0) + records
        if step > self._newest.get(writer, step - 1):
            self._newest[writer] = step
        return False

    def newest(self, writer: str) -> int:
        """The newest step that a writer has written, -1 where it has written none."""
        return self._newest.get(writer, -1)

    def take_finished(self, ended: bool = False) -> list[int]:
        """Steps that are finished now and were not before, ascending."""
        finished = []
        for step in sorted(self._counts):
            if not (ended or self._is_finished(step)):
                break
            self._recent = [*self._recent[-1:], self._counts.pop(step)]
            self.last = step
            finished.append(step)
        return finished

    def _is_finished(self, step: int) -> bool:
        if max(self._newest.values()) >= step + PATIENCE:
            return True
        counts = self._counts[step]
        regular = set(self._recent[0]).intersection(*self._recent[1:]) if self._recent else set()
        if not regular:
            return all(self._newest[writer] > step for writer in counts)
        usual = self._recent[-1]
        return all(
            self._newest.get(writer, step) > step or counts.get(writer, 0) >= usual[writer]
            for writer in regular
        )
