"""How a detector is shown steps: by values alone, or by a log that is read through the front door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runs import read, write_log

from grpo_top.facts import EvalPoint, RewardScale, RunState, StepFacts
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from grpo_top.detectors.base import Details, Detector, Verdict
    from grpo_top.snapshot import Finding

OK, WATCH, INFO, WARN, FAIL, UNKNOWN = (
    Status.OK,
    Status.WATCH,
    Status.INFO,
    Status.WARN,
    Status.FAIL,
    Status.UNKNOWN,
)


class Watched:
    """A detector, and what it said at each step that it was shown."""

    def __init__(
        self, detector: type[Detector], *, run: RunState | None = None, span: int = 1, **knobs: float
    ) -> None:
        self.detector = detector(knobs)
        self.run = run or RunState()
        self.span = span
        """Optimizer steps that each row stands for."""
        self.scale = RewardScale()
        self.verdicts: list[Verdict] = []
        self.details: Details | None = None
        self.step = 0

    def show(self, evals: Sequence[EvalPoint] = (), **values: float | None) -> Verdict:
        """Show one step that carries these series; a `__` in a name stands for `{…}` around what follows it."""
        self.step += self.span
        known = {name.replace("__", "{") + "}" * ("__" in name): value for name, value in values.items()}
        facts = StepFacts(
            self.step,
            self.run,
            self.scale,
            {name: value for name, value in known.items() if value is not None},
            gaps=dict.fromkeys(known, self.span) if self.span > 1 else {},
            evals=tuple(evals),
        )
        verdict = self.detector.observe(facts)
        self.verdicts.append(verdict)
        if verdict.status >= INFO:
            self.details = self.detector.describe(facts)
        return verdict

    def show_all(self, **series: Iterable[float | None]) -> list[Status]:
        """Show a step for each value of the series; the statuses."""
        columns: Mapping[str, Iterable[float | None]] = series
        return [
            self.show(**dict(zip(columns, row, strict=True))).status
            for row in zip(*columns.values(), strict=True)
        ]

    @property
    def fired(self) -> list[int]:
        """Positions, counted from 1, of the verdicts that fired."""
        return [position for position, verdict in enumerate(self.verdicts, 1) if verdict.status >= INFO]

    @property
    def summary(self) -> str:
        """What was said last when it fired."""
        assert self.details is not None
        return self.details.summary


def evaluation(step: int, value: float, suite: str = "heldout") -> EvalPoint:
    """One held-out evaluation."""
    return EvalPoint(suite, step, value)


def findings(tmp_path: Path, records: Iterable[dict[str, Any]]) -> dict[str, Finding]:
    """What is found in a log of these records, by id."""
    snapshot = read(write_log(tmp_path / "log.jsonl", records))
    return {finding.id: finding for finding in snapshot.findings}


def statuses(tmp_path: Path, records: Iterable[dict[str, Any]], id_: str) -> list[Status]:
    """A detector's status at each step of a log of these records."""
    snapshot = read(write_log(tmp_path / "log.jsonl", records))
    return [Status(value) for value in snapshot.tracks[id_].status.tolist()]
