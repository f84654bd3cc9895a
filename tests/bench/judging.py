"""What a finished step costs beyond parsing, and whether that grows with the run."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from grpo_top.config import Settings
from grpo_top.formats.base import RunContext
from grpo_top.formats.native import NativeReader
from grpo_top.ledger import Ledger
from grpo_top.picture import picture
from grpo_top.records import NOWHERE, Rollout, Step
from tests.bench.figures import Figure
from tests.bench.inputs import rollout_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grpo_top.facts import StepFacts
    from grpo_top.records import Record
    from grpo_top.snapshot import Snapshot

MEASURED = 60
IN_TURN = 10
"""Steps of a short and of a long run that are measured in turn."""


class Timed(Ledger):
    """A ledger that notes what statistics and detectors of each step cost."""

    def __init__(self) -> None:
        super().__init__(Settings())
        self.facts: list[float] = []
        self.detectors: list[float] = []
        make, judge = self._facts, self.judge.observe_together

        def timed_facts(step: int, previous: int | None) -> object:
            begin = time.process_time()
            found = make(step, previous)
            self.facts.append(time.process_time() - begin)
            return found

        def timed_observe(steps: Sequence[StepFacts], more: int = 0) -> None:
            begin = time.process_time()
            judge(steps, more)
            self.detectors.append((time.process_time() - begin) / len(steps))

        self._facts = timed_facts  # type: ignore[method-assign, assignment]
        self.judge.observe_together = timed_observe  # type: ignore[method-assign]


def steps(folder: Path, quick: bool) -> list[Figure]:
    """Statistics and detectors of a step of 256 rollouts, early in a run and late in it; a picture of a long run."""
    late = 600 if quick else 100_000
    short, long = Timed(), Timed()
    pattern = _steps_of_records(MEASURED)
    # Before they are measured, steps of few rollouts: what may grow grows with steps, and not with what one holds.
    few = [[*records[:16], records[-1]] for records in pattern]
    step = 0
    while step < late:
        step = _feed(long, few, step)
    picture_cost = statistics.median(_picture_cost(long) for _ in range(9))
    for start in range(0, MEASURED, IN_TURN):  # what disturbs one disturbs both
        for ledger, before in ((short, 0), (long, step)):
            _feed(ledger, pattern[start : start + IN_TURN], before + start)
    early, at_end = _cost_of(short), _cost_of(long)
    facts, detectors = early
    return [
        Figure(
            "a finished step: statistics and detectors",
            (facts + detectors) * 1e3,
            "ms",
            2.0,
            f"256 rollouts: statistics {facts * 1e3:.2f} ms, detectors {detectors * 1e3:.2f} ms CPU",
        ),
        Figure("a finished step: detectors and verdicts", detectors * 1e3, "ms", 1.0, "of the same"),
        Figure(
            f"a finished step at step {late:,} against step 60",
            sum(at_end) / sum(early),
            "x",
            1.2,
            f"{sum(at_end) * 1e3:.2f} ms against {sum(early) * 1e3:.2f} ms",
        ),
        Figure(
            f"one picture of a run of {late:,} steps", picture_cost * 1e3, "ms", None, "4 a second at most"
        ),
    ]


def _steps_of_records(count: int) -> list[list[Record]]:
    reader = NativeReader(RunContext())
    found: list[list[Record]] = [[]]
    for raw in rollout_records(count, with_texts=True):
        if raw["kind"] == "eval":
            continue
        found[-1].append(reader.record(raw, NOWHERE))
        if raw["kind"] == "step":
            found.append([])
    return found[:-1]


def _feed(ledger: Ledger, pattern: list[list[Record]], after: int) -> int:
    """Take the steps of a pattern in, numbered anew; the last number."""
    for number, records in enumerate(pattern, after + 1):
        rollouts = [record._replace(step=number) for record in records if isinstance(record, Rollout)]
        ledger.add_rollouts(rollouts, 0, "bench")
        for record in records:
            if isinstance(record, Step):
                ledger.add_step(record._replace(step=number), "bench", "grpo-top")
        ledger.judge_finished()
    return after + len(pattern)


def _cost_of(ledger: Timed) -> tuple[float, float]:
    """Median costs of the last steps: statistics, detectors."""
    half = MEASURED // 2
    return statistics.median(ledger.facts[-half:]), statistics.median(ledger.detectors[-half:])


def _picture_cost(ledger: Ledger) -> float:
    begin = time.process_time()
    _picture(ledger)
    return time.process_time() - begin


def _picture(ledger: Ledger) -> Snapshot:
    return picture(
        ledger, now=0.0, finished=False, reading=None, sources=(), left_out=(), read=lambda _: None
    )  # type: ignore[arg-type, return-value]
