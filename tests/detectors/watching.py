"""How the tests put series and rollouts before a detector, and look at what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runs import read, write_log

from grpo_top.detectors import BY_ID
from grpo_top.facts import RewardScale, RunState, StepFacts
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from grpo_top.detectors.base import Details, Detector, Verdict
    from grpo_top.snapshot import Finding, Snapshot


class Watched:
    """One detector, the verdicts that it has given, and what it says of the newest."""

    def __init__(self, id_: str, run: RunState | None = None, **knobs: float) -> None:
        self.detector: Detector = BY_ID[id_](knobs)
        self.run = run or RunState()
        self.verdicts: list[Verdict] = []
        self.step = 0
        self._facts = StepFacts(0, self.run, RewardScale(), {})

    def rows(self, rows: Iterable[Mapping[str, float]], gap: int = 1) -> Watched:
        """Put one row of a trainer's log after another before it, `gap` steps apart."""
        for values in rows:
            self.step += gap
            gaps = dict.fromkeys(values, gap) if gap > 1 else {}
            self.look(
                StepFacts(self.step, self.run, RewardScale(), dict(values), trainer=dict(values), gaps=gaps)
            )
        return self

    def series(self, name: str, values: Iterable[float], **others: float) -> Watched:
        """Put one series before it, beside others that do not change."""
        return self.rows({name: value, **others} for value in values)

    def look(self, facts: StepFacts) -> Verdict:
        """Put one step before it."""
        self._facts, self.step = facts, facts.step
        self.verdicts.append(self.detector.observe(facts))
        return self.verdicts[-1]

    @property
    def status(self) -> Status:
        """The newest verdict's status."""
        return self.verdicts[-1].status

    @property
    def statuses(self) -> list[Status]:
        """The status at every step."""
        return [verdict.status for verdict in self.verdicts]

    @property
    def fired_at(self) -> int | None:
        """The first step at which it fired, counted from 1; None where it never did."""
        fired = [number for number, status in enumerate(self.statuses, 1) if status >= Status.WARN]
        return fired[0] if fired else None

    @property
    def details(self) -> Details:
        """What it says of the newest step."""
        return self.detector.describe(self._facts)


def logged(tmp_path: Path, records: Iterable[dict[str, Any]]) -> Snapshot:
    """The picture of a run whose log holds these records."""
    return read(write_log(tmp_path / "run.jsonl", records))


def finding(snapshot: Snapshot, id_: str) -> Finding | None:
    """The finding of a detector, None where it never fired."""
    return next((found for found in snapshot.findings if found.id == id_), None)
