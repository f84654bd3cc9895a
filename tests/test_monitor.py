"""The engine on real files: tailing equals reading, and the order in which records come does not matter."""

from __future__ import annotations

import json
import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runs import (
    comparable,
    group,
    read,
    recorded_lines,
    run_record,
    step_record,
    unpack_sample,
    values,
    write_log,
)

from grpo_top.config import Settings
from grpo_top.monitor import LiveMonitor, Monitor, NothingReadable
from grpo_top.reading import FILES_AT_ONCE, QUIET_LOOKS
from grpo_top.standing import standing

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot


def short(name: str, steps: int) -> list[bytes]:
    """The first steps of a recorded run."""
    marks = tuple(f'"step": {step},'.encode() for step in range(1, steps + 1))
    return [
        line
        for line in recorded_lines(name)
        if b'"kind": "run"' in line or any(mark in line for mark in marks)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_tailing_equals_reading(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = b"\n".join(short("sampler_cold", 70)) + b"\n"
    log = tmp_path / "live" / "rollouts.jsonl"
    log.parent.mkdir()
    monitor = Monitor(
        [str(log.parent)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__
    )
    position = 0
    with log.open("ab", buffering=0) as file:
        while position < len(data):
            size = rng.choice((1, 7, 300, 5_000, 60_000))
            file.write(data[position : position + size])
            position += size
            while rng.random() < 0.5 and monitor.poll(0.001):
                pass
    monitor.read_all()
    whole = tmp_path / "whole" / "rollouts.jsonl"
    whole.parent.mkdir()
    whole.write_bytes(data)
    assert comparable(monitor.snapshot(finished=True)) == comparable(read(whole.parent))


def test_a_directory_that_grows_file_by_file_equals_the_finished_one(tmp_path: Path) -> None:
    source = unpack_sample("verl-healthy", tmp_path / "source")
    live = tmp_path / "live"
    (live / "rollout_data").mkdir(parents=True)
    (live / "grpo-demo").mkdir()
    monitor = Monitor([str(live)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__)
    metrics = (source / "grpo-demo" / "tiny_healthy.jsonl").read_bytes().splitlines(keepends=True)
    with (live / "grpo-demo" / "tiny_healthy.jsonl").open("ab", buffering=0) as file:
        for step, line in enumerate(metrics, 1):
            (live / "rollout_data" / f"{step}.jsonl").write_bytes(
                (source / "rollout_data" / f"{step}.jsonl").read_bytes()
            )
            monitor.poll()
            file.write(line)
            monitor.poll()
    monitor.read_all()
    (source / "console.log").unlink()
    assert comparable(monitor.snapshot(finished=True)) == comparable(read(source))


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_verdicts_are_the_same_in_whatever_order_the_records_of_later_steps_come(
    tmp_path_factory: pytest.TempPathFactory, rng: random.Random
) -> None:
    lines = short("sampler_cold", 40)
    moved = lines.copy()
    for _ in range(20):
        place = rng.randrange(1, len(moved))
        line = moved.pop(place)
        moved.insert(min(len(moved), place + rng.randrange(1, 300)), line)
    snapshots = []
    for order in (lines, moved):
        directory = tmp_path_factory.mktemp("run")
        monitor = Monitor(
            [str(directory)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__
        )
        with (directory / "log.jsonl").open("ab", buffering=0) as file:
            for start in range(0, len(order), 100):
                file.write(b"".join(line + b"\n" for line in order[start : start + 100]))
                monitor.poll()
        monitor.read_all()
        snapshots.append(comparable(monitor.snapshot(finished=True)))
    ordered, shuffled = snapshots
    assert ordered["series"].keys() == shuffled["series"].keys()
    for name, series in ordered["series"].items():
        assert series["steps"] == shuffled["series"][name]["steps"]
        # Sums of the same numbers in another order differ in their last digit.
        assert series["values"] == pytest.approx(shuffled["series"][name]["values"], rel=1e-9, abs=1e-12)
    assert ordered["triage"] == shuffled["triage"]
    assert [finding["id"] for finding in ordered["findings"]] == [
        finding["id"] for finding in shuffled["findings"]
    ]


def test_the_newest_step_is_judged_once_it_holds_what_the_step_before_held(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    first = [*group(1, "a", (0, 1)), step_record(1, kl=0.1), *group(2, "b", (0, 1)), step_record(2, kl=0.1)]
    write_log(log, [run_record(), *first])
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.poll()
    assert monitor.snapshot().judged_step == 2


def test_a_step_that_is_still_being_written_is_not_judged(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write_log(log, [run_record(), *group(1, "a", (0, 1)), *group(1, "b", (0, 1)), *group(2, "c", (1, 1))])
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.poll()
    assert monitor.snapshot().judged_step == 1
    assert (
        2 not in values(monitor.snapshot(), "zero_variance_group_frac") or monitor.snapshot().judged_step == 1
    )


def test_a_late_record_changes_the_step_that_it_belongs_to(tmp_path: Path) -> None:
    records = [
        run_record(),
        *[record for step in range(1, 8) for record in group(step, f"g{step}", (1.0, 1.0))],
    ]
    log = write_log(tmp_path / "log.jsonl", records)
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.poll()
    assert values(monitor.snapshot(), "zero_variance_group_frac")[3] == 1.0
    with log.open("ab") as file:
        file.write(b'{"kind": "rollout", "step": 3, "group": "g3", "index": 2, "reward": 0.0}\n')
    monitor.poll()
    assert values(monitor.snapshot(), "zero_variance_group_frac")[3] == 0.0


def test_a_rollout_that_is_written_twice_counts_once_and_the_later_record_wins(tmp_path: Path) -> None:
    snapshot = read(write_log(tmp_path / "log.jsonl", [*group(1, "a", (0, 0)), *group(1, "a", (1, 0))]))
    assert snapshot.run.rollouts == 2
    assert values(snapshot, "reward_mean")[1] == 0.5


def test_a_bad_line_is_skipped_counted_and_shown_and_the_next_is_read(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    with log.open("ab") as file:
        file.write(b'{"kind": "rollout", "step": oops\n')
        file.write(b'{"kind": "step", "step": 1, "metrics": {"kl": 0.25}}\n')
    snapshot = read(log)
    assert snapshot.skipped_count == 1
    assert snapshot.skipped[0].where == "log.jsonl"
    assert snapshot.skipped[0].line == 4
    assert values(snapshot, "kl")[1] == 0.25


def test_a_last_line_that_is_not_whole_yet_is_no_bad_record(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    with log.open("ab") as file:
        file.write(b'{"kind": "rollout", "step": 2, "gro')
    snapshot = read(log)
    assert snapshot.skipped_count == 0
    assert snapshot.sources[0].note == "its last line is not whole yet"


def test_a_last_line_that_is_whole_counts_although_its_newline_is_missing(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    log.write_bytes(log.read_bytes().rstrip())
    assert read(log).run.rollouts == 2


def test_nothing_readable_says_what_was_looked_for_and_where(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of a trainer\n")
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    with pytest.raises(NothingReadable, match=r"no log of a known trainer or tracker among 1 file; "):
        monitor.require_readable()


def test_a_record_that_cannot_be_read_counts_for_the_step_that_it_stands_in(tmp_path: Path) -> None:
    lines = [json.dumps(run_record(group_size=4))]
    for step in range(1, 61):
        lines += [json.dumps(record) for record in group(step, "a", (0, 1, 0, 1))]
        lines += ['{"kind":"rollout","step":'] * 2
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    assert snapshot.skipped_count == 120
    assert snapshot.tracks["UNREADABLE_LINES"].values.tolist() == [2.0] * 60


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    monitor = Monitor([str(tmp_path / "nowhere")], Settings())
    monitor.read_all()
    with pytest.raises(NothingReadable, match="nowhere"):
        monitor.require_readable()


def test_the_live_monitor_hands_over_what_is_appended_and_stops_when_told(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1)), *group(2, "b", (0, 1))])
    seen: list[Snapshot] = []
    live = LiveMonitor(Monitor([str(tmp_path)], Settings()), seen.append, poll_seconds=0.02)
    live.start()
    wait_until(lambda: bool(seen) and seen[-1].judged_step == 2)
    with log.open("a") as file:
        file.write('{"kind": "rollout", "step": 3, "group": "c", "index": 0, "reward": 1.0}\n')
        file.write('{"kind": "rollout", "step": 3, "group": "c", "index": 1, "reward": 1.0}\n')
    wait_until(lambda: seen[-1].judged_step == 3)
    live.stop()
    assert not live.is_alive()
    assert live.error is None


def test_reading_that_is_held_for_a_keys_answer_goes_on_by_itself(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1)), *group(2, "b", (0, 1))])
    seen: list[Snapshot] = []
    live = LiveMonitor(Monitor([str(tmp_path)], Settings()), seen.append, poll_seconds=0.02)
    live.start()
    wait_until(lambda: bool(seen) and seen[-1].judged_step == 2)
    live.hold()
    with log.open("a") as file:
        file.write('{"kind": "rollout", "step": 3, "group": "c", "index": 0, "reward": 1.0}\n')
        file.write('{"kind": "rollout", "step": 3, "group": "c", "index": 1, "reward": 1.0}\n')
    wait_until(lambda: seen[-1].judged_step == 3)
    live.hold()
    live.stop()
    assert not live.is_alive()


class Scripted:
    """Stands for a monitor: each poll does what is next, and then there is nothing more to read."""

    def __init__(self, *polls: tuple[bool, bool]) -> None:
        """`polls`: whether something came, and whether there is more to read at once."""
        self._left = list(polls)
        self.ledger = self.tree = self
        self.version = self.files = 0
        self.unfinished = self.in_the_way = False

    def poll(self, _seconds: float) -> bool:
        came, self.unfinished = self._left.pop(0) if self._left else (False, False)
        self.version += came
        return came

    def snapshot(self) -> int:
        return self.version

    def wait(self, _seconds: float) -> None:
        time.sleep(0.001)

    def watch_silence(self) -> None: ...
    def ring(self) -> None: ...
    def close(self) -> None: ...


def test_what_is_read_in_several_slices_is_handed_over_once_it_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grpo_top.monitor.PICTURE_SECONDS", 60.0)
    seen: list[int] = []
    live = LiveMonitor(Scripted(*[(True, True)] * 5, (True, False)), seen.append)  # type: ignore[arg-type]
    live._published_at = live._reads_since = time.monotonic()
    live.start()
    wait_until(lambda: bool(seen) and seen[-1] == 6)
    live.stop()
    assert seen == [0, 6]


def test_events_that_bring_nothing_to_read_make_polls_no_more_frequent(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record()])
    monitor = Monitor([str(tmp_path)], Settings())
    while monitor.poll():
        pass
    monitor.tree.wait = lambda _seconds: set()  # type: ignore[method-assign]  somebody writes beside the log
    begun = time.monotonic()
    for _ in range(6):
        monitor.wait(0.01)
        assert not monitor.poll()
    assert time.monotonic() - begun >= 0.05
    write_log(log, [run_record(), *group(1, "a", (0, 1))])
    assert monitor.poll()
    assert monitor._told_in_vain == 0


def test_a_run_that_falls_silent_is_said_to_have_stalled_and_is_well_again_when_it_goes_on(
    tmp_path: Path,
) -> None:
    now = 1_000.0
    steps = timed_steps(29)
    log = write_log(tmp_path / "log.jsonl", [run_record(), *steps])
    monitor = Monitor([str(tmp_path)], Settings(), clock=lambda: now)
    monitor.poll()
    now += 59
    monitor.watch_silence()
    assert not active(monitor.snapshot())
    now += 2
    monitor.watch_silence()
    assert active(monitor.snapshot()) == ["LOG_STALLED"]
    with log.open("a") as file:
        file.write('{"kind": "step", "step": 30, "metrics": {"step_time": 2.0}}\n')
    monitor.poll()
    monitor.watch_silence()
    assert not active(monitor.snapshot())


def test_a_run_that_has_reached_its_last_step_is_finished_and_not_stalled(tmp_path: Path) -> None:
    now = 1_000.0
    steps = timed_steps(30)
    write_log(tmp_path / "log.jsonl", [run_record(total_steps=30), *steps])
    monitor = Monitor([str(tmp_path)], Settings(), clock=lambda: now)
    monitor.poll(seconds=10.0)
    now += 10_000
    monitor.watch_silence()
    assert monitor.snapshot().finished
    assert not active(monitor.snapshot())


def timed_steps(count: int) -> list[dict[str, Any]]:
    of_step = [
        [*group(step, f"g{step}", (0, 1)), step_record(step, step_time=2.0)] for step in range(1, count + 1)
    ]
    return [record for records in of_step for record in records]


def active(snapshot: Snapshot) -> list[str]:
    return [finding.id for finding in snapshot.findings if finding.active]


def test_reading_a_run_writes_nothing_into_its_directory(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    read(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def wait_until(holds: object, seconds: float = 10.0) -> None:
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_of_very_many_files_all_that_changed_during_a_rest_are_read_at_once(tmp_path: Path) -> None:
    logs = [
        write_log(tmp_path / f"{rank}.jsonl", group(1, str(rank), (0, 1)))
        for rank in range(3 * FILES_AT_ONCE)
    ]
    monitor = Monitor([str(tmp_path)], Settings())
    while monitor.poll(5.0):
        pass
    monitor.wait(0)  # it watches from here on
    for _ in range(QUIET_LOOKS):
        monitor.poll(5.0)
    for rank, log in enumerate(logs):
        with log.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in group(2, str(rank), (0, 1)))
    monitor.wait(0)
    monitor.poll(5.0)
    assert monitor.snapshot().run.rollouts == 4 * len(logs)


def test_the_framework_is_told_by_its_files_where_no_record_says_it(tmp_path: Path) -> None:
    unpack_sample("nemo-rl-truncation", tmp_path)
    assert read(tmp_path).run.framework == "nemo-rl"


def test_a_step_that_is_printed_over_several_lines_is_shown_in_the_pause_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heading = "========================= Step {}/9 =========================\n"
    log = tmp_path / "train.log"
    log.write_text(
        heading.format(1) + "  • Loss: 0.5\n  • Avg Reward: 0.25\n" + heading.format(2) + "  • Loss: 0.4\n"
    )
    monkeypatch.setattr("grpo_top.intake.STANDS_STILL_SECONDS", 0.0)
    monitor = Monitor([str(tmp_path)], Settings())
    while monitor.poll():
        pass
    assert values(monitor.snapshot(), "loss") == {1: 0.5, 2: 0.4}
    with log.open("a") as file:
        file.write("  • Avg Reward: 0.75\n")
    while monitor.poll():
        pass
    assert values(monitor.snapshot(), "reward_mean") == {1: 0.25, 2: 0.75}


def test_a_log_that_was_old_when_it_was_opened_is_quiet_and_not_stalled(tmp_path: Path) -> None:
    now = time.time()
    log = write_log(tmp_path / "log.jsonl", [run_record(), *timed_steps(29)])
    os.utime(log, (now - 3600, now - 3600))
    monitor = Monitor([str(tmp_path)], Settings(), clock=lambda: now)
    while monitor.poll():
        pass
    assert monitor.snapshot().last_record_time == pytest.approx(now - 3600, abs=1)
    assert standing(monitor.snapshot()).state == "quiet"
    now += 600
    monitor.watch_silence()
    assert not active(monitor.snapshot())
    with log.open("a") as file:  # it goes on after all
        file.write('{"kind": "step", "step": 30, "metrics": {"step_time": 2.0}}\n')
    while monitor.poll():
        pass
    assert monitor.snapshot().last_record_time == now
    now += 600
    monitor.watch_silence()
    assert active(monitor.snapshot()) == ["LOG_STALLED"]


def test_the_last_step_of_a_log_that_has_been_silent_for_long_is_judged_and_again_when_it_goes_on(
    tmp_path: Path,
) -> None:
    def rollout(step: int, index: int = 0) -> str:
        return json.dumps(
            {"kind": "rollout", "step": step, "group": "a", "index": index, "reward": 1.0, "completion": "4"}
        )

    now = time.time()
    log = tmp_path / "rollouts.jsonl"
    log.write_text(f"{rollout(1)}\n{rollout(1, 1)}\n{rollout(2)}\n")
    monitor = Monitor([str(tmp_path)], Settings(), clock=lambda: now)
    while monitor.poll():
        pass
    assert monitor.snapshot().judged_step == 1
    os.utime(log, (now - 3600, now - 3600))
    monitor = Monitor([str(tmp_path)], Settings(), clock=lambda: now)
    while monitor.poll():
        pass
    assert monitor.snapshot().judged_step == 2, "an evaluation has no other step"
    with log.open("a") as file:
        file.write(f"{rollout(2, 1)}\n{rollout(3)}\n")
    while monitor.poll():
        pass
    batch = monitor.snapshot().batch(2)
    assert batch is not None
    assert len(batch.rows) == 2
