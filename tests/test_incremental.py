"""What is judged step by step equals what is judged at once over the steps so far, whatever came late or again."""

from __future__ import annotations

import math
from pathlib import PurePath
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_runs import shuffled_a_little, written
from runs import RECORDED, recorded_lines

from grpo_top.config import Settings
from grpo_top.formats.base import Lines, RunContext
from grpo_top.formats.native import Native
from grpo_top.ledger import Ledger
from grpo_top.records import Eval, Record, Rollout, Run, Skipped, Step
from grpo_top.snapshot import RolloutRef, SkippedRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EVERY = 40
"""Steps between two comparisons on a recorded run."""


def take(ledger: Ledger, records: Sequence[Record]) -> None:
    """Let a ledger take records in as the monitor does."""
    rollouts = [record for record in records if isinstance(record, Rollout)]
    if rollouts:
        ledger.add_rollouts(rollouts, 0, "rollouts")
    for record in records:
        match record:
            case Step():
                ledger.add_step(record, "trainer", "native")
            case Eval():
                ledger.add_eval(record)
            case Run():
                ledger.add_run(record)
            case Skipped():
                ledger.add_skipped(SkippedRecord("log", record.offset, record.line, record.reason))


def judged_at_once(events: Iterable[Sequence[Record]]) -> Ledger:
    """A ledger that judges when all records are there."""
    ledger = Ledger(Settings())
    for event in events:
        take(ledger, event)
    ledger.judge_finished(ended=True)
    return ledger


def said(ledger: Ledger) -> dict[str, Any]:
    """Every verdict at every step, and every finding with its evidence and rollouts."""
    judge = ledger.judge
    found: dict[str, Any] = {}
    for id_, track in judge.tracks().items():
        values = [None if math.isnan(value) else value for value in track.values.tolist()]
        rows = zip(track.steps.tolist(), track.status.tolist(), values, strict=True)
        found[id_] = {step: (status, value) for step, status, value in rows}
        found[f"{id_} needs"] = dict.fromkeys(track.needs)
    for finding in judge.findings(lambda row: RolloutRef("", 0, "", None, row)):
        found[f"{finding.id} found"] = {name: repr(getattr(finding, name)) for name in finding.__slots__}
    found["groups"] = {name: repr(column.view().tolist()) for name, column in judge.groups.items()}
    return found


def differences(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """The first place at which each part of what was said differs: found, expected."""
    wrong = {}
    for part in found.keys() | expected.keys():
        here, there = found.get(part, {}), expected.get(part, {})
        for place in sorted(here.keys() | there.keys(), key=str):
            if here.get(place) != there.get(place):
                wrong[part] = (place, here.get(place), there.get(place))
                break
    return wrong


def assert_judged_alike(events: Sequence[Sequence[Record]], at: Iterable[int]) -> None:
    """Take events in one by one, each judged at once so that all that comes after is late, and compare at some."""
    ledger = Ledger(Settings())
    compared = set(at)
    for number, event in enumerate(events):
        take(ledger, event)
        ledger.judge_finished(ended=True)
        if number in compared:
            wrong = differences(said(ledger), said(judged_at_once(events[: number + 1])))
            assert wrong == {}, f"after event {number}: {event[:1]}"


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40), late=st.integers(0, 5), at=st.floats(0, 1))
@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_any_run_is_judged_alike_step_by_step_and_at_once(
    seed: int, steps: int, late: int, at: float
) -> None:
    random = Random(seed)
    events = shuffled_a_little(random, written(random, steps), late)
    last = len(events) - 1
    assert_judged_alike(events, [int(at * last), last])


def by_step(lines: list[bytes]) -> list[list[Record]]:
    """A log's records, cut where the next step's first rollout comes."""
    path = PurePath("rollouts.jsonl")
    claim = Native().claim(path, b"\n".join(lines[:40]))
    assert claim is not None
    events: list[list[Record]] = [[]]
    reached = None
    for record in Native().reader(path, claim, RunContext()).feed(Lines(0, lines, 1)):
        if isinstance(record, Rollout) and record.split == "train" and record.step != reached:
            reached = record.step
            events.append([])
        events[-1].append(record)
    return events


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_run_is_judged_alike_step_by_step_and_at_once(name: str) -> None:
    events = by_step(recorded_lines(name))
    assert len(events) == 121
    assert_judged_alike(events, range(EVERY, len(events), EVERY))
