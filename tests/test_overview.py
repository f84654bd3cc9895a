"""Many runs, one read after another: each stands in the table as a monitor of its own would show it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from runs import group, run_record, write_log

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.overview import KEPT_OPEN, LIVE_SECONDS, Overview, RunState, state_of
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.runs import FoundRun


class Place:
    """A folder of runs and a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1_000_000.0
        self.opened: list[str] = []
        self.broken: set[str] = set()
        self.open: set[str] = set()

    def write(self, name: str, steps: int, age: float, reward: float = 1.0) -> None:
        records = [record for step in range(1, steps + 1) for record in group(step, f"g{step}", (0, reward))]
        log = write_log(self.folder / name / "rollouts.jsonl", [run_record(run=name), *records])
        os.utime(log, (self.now - age, self.now - age))

    def overview(self) -> Overview:
        return Overview(Monitor([str(self.folder)], Settings()), self.monitor, lambda: self.now)

    def monitor(self, found: FoundRun) -> Monitor:
        if found.name in self.broken:
            raise OSError("permission denied")
        self.opened.append(found.name)
        monitor = Monitor(found.where, Settings(), run=found.pick)
        self.open.add(found.name)
        close = monitor.close

        def closed() -> None:
            self.open.discard(found.name)
            close()

        monitor.close = closed  # type: ignore[method-assign]
        return monitor


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def states(overview: Overview) -> dict[str, RunState]:
    return {state.run.name: state for state in overview.states}


def work_on(overview: Overview) -> None:
    while overview.work():
        pass


def test_runs_are_read_one_after_another_the_newest_first(place: Place) -> None:
    for name, age in (("old", 9_000), ("new", 100), ("middle", 500)):
        place.write(name, 3, age)
    overview = place.overview()
    assert [state.run.name for state in overview.states] == ["new", "middle", "old"]
    assert not any(state.read for state in overview.states)
    work_on(overview)
    assert place.opened == ["new", "middle", "old"]
    assert all(state.read for state in overview.states)
    assert not place.open


def test_the_run_that_one_looks_at_is_read_before_the_others(place: Place) -> None:
    for name, age in (("a", 100), ("b", 200), ("c", 300)):
        place.write(name, 2, age)
    overview = place.overview()
    overview.wanted = states(overview)["c"].run.key
    work_on(overview)
    assert place.opened == ["c", "a", "b"]


def test_a_run_stands_as_its_own_monitor_would_show_it(place: Place) -> None:
    place.write("bad", 40, 9_000, reward=0.0)
    place.write("good", 5, 9_000)
    overview = place.overview()
    work_on(overview)
    found = states(overview)
    monitor = Monitor([str(place.folder / "bad")], Settings())
    monitor.read_all()
    alone = state_of(found["bad"].run, found["bad"].written, monitor.snapshot())
    assert found["bad"].first_cause == alone.first_cause
    assert (found["bad"].status, found["bad"].step, found["bad"].reward) == (Status.FAIL, 40, 0.0)
    assert (found["good"].status, found["good"].step, found["good"].reward) == (Status.OK, 5, 0.5)
    assert found["good"].framework == "trl"


def test_a_run_that_grows_is_read_on_and_only_a_few_stay_open(place: Place) -> None:
    for number in range(KEPT_OPEN + 3):
        place.write(f"run{number}", 3, age=number)
    overview = place.overview()
    work_on(overview)
    assert len(place.open) == KEPT_OPEN
    still_open, closed = min(place.open), "run6"
    for name in (still_open, closed):
        place.write(name, 7, age=-1)
    place.opened.clear()
    place.now += 3
    work_on(overview)
    assert (states(overview)[still_open].step, states(overview)[closed].step) == (7, 3)
    assert place.opened == []
    place.now += 20
    work_on(overview)
    assert states(overview)[closed].step == 7
    assert place.opened == [closed]


def test_a_run_that_begins_later_comes_first(place: Place) -> None:
    place.write("a", 2, LIVE_SECONDS + 9)
    place.write("b", 2, LIVE_SECONDS + 99)
    overview = place.overview()
    work_on(overview)
    place.write("c", 2, 0)
    place.now += 3
    work_on(overview)
    assert [state.run.name for state in overview.states] == ["c", "a", "b"]
    assert states(overview)["c"].read


def test_a_run_that_cannot_be_read_says_why_and_the_others_are_read(place: Place) -> None:
    place.write("a", 2, 100)
    place.write("b", 2, 200)
    place.broken.add("a")
    overview = place.overview()
    work_on(overview)
    assert states(overview)["a"].error == "permission denied"
    assert states(overview)["b"].step == 2


def test_what_was_seen_of_a_run_elsewhere_is_taken_over(place: Place) -> None:
    place.write("a", 2, 100)
    place.write("b", 2, 200)
    overview = place.overview()
    monitor = Monitor([str(place.folder / "a")], Settings())
    monitor.read_all()
    known = states(overview)["a"]
    overview.tell(state_of(known.run, known.written, monitor.snapshot()))
    work_on(overview)
    assert place.opened == ["b"]
    assert states(overview)["a"].step == 2


def test_of_a_long_run_few_points_of_the_reward_are_kept(place: Place) -> None:
    place.write("a", 600, 100)
    place.write("b", 2, 200)
    overview = place.overview()
    work_on(overview)
    steps, rewards = states(overview)["a"].steps, states(overview)["a"].rewards
    assert steps is not None
    assert rewards is not None
    assert len(steps) == len(rewards) <= 256
    assert (steps[0], steps[-1]) == (1, 600)
