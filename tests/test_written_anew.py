"""A run whose files are written anew is what lies there now: nothing of what was there stays, or counts twice."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import group, read, run_record, step_record, values, write_log

from grpo_top.alarms import FOUND, Changes
from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.report import check_object

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

RUN = run_record(group_size=2)


def steps(first: int, last: int, tag: str = "", kl: float = 0.1) -> list[dict[str, Any]]:
    return [
        record
        for step in range(first, last + 1)
        for record in (
            *group(step, f"{step}", (0, 1), prompt=f"{tag}{step}"),
            step_record(step, kl=kl * step, reward=0.5),
        )
    ]


def add(log: Path, records: list[dict[str, Any]]) -> None:
    with log.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def poll(monitor: Monitor) -> None:
    while monitor.poll():
        pass


def end(monitor: Monitor) -> Snapshot:
    while monitor.poll(last=True):
        pass
    monitor.ledger.judge_finished(ended=True)
    return monitor.snapshot(finished=True)


def said(snapshot: Snapshot) -> dict[str, Any]:
    """All that is said of the run, but for what says that it was written anew, and when it was heard of."""
    found = check_object(snapshot, series=True)
    found["findings"] = [finding for finding in found["findings"] if finding["id"] != "STEP_RESTART"]
    for stage in found["triage"]:
        stage["findings"] = [id_ for id_ in stage["findings"] if id_ != "STEP_RESTART"]
    del found["standing"]["last_record_time"]
    return found


def restarts(snapshot: Snapshot) -> list[int]:
    return [finding.onset for finding in snapshot.findings if finding.id == "STEP_RESTART"]


def _cut_back_and_shorter(log: Path, look: Callable[[], None]) -> None:
    write_log(log, [RUN, *steps(1, 6), *steps(7, 8, "new", kl=9)])


def _cut_back_by_truncation(log: Path, look: Callable[[], None]) -> None:
    os.truncate(log, sum(len(json.dumps(record)) + 1 for record in (RUN, *steps(1, 6))))
    add(log, steps(7, 12, "new", kl=9))


def _seen_empty_in_between(log: Path, look: Callable[[], None]) -> None:
    os.truncate(log, 0)
    look()
    add(log, [RUN, *steps(1, 6), *steps(7, 8, "new", kl=9)])


def _replaced_by_a_shorter_one(log: Path, look: Callable[[], None]) -> None:
    write_log(log.with_suffix(".new"), [RUN, *steps(1, 6), *steps(7, 7, "new", kl=9)]).replace(log)


def _another_run(log: Path, look: Callable[[], None]) -> None:
    write_log(log, [run_record(run="another", reward_range=[0, 5]), *steps(1, 3, "other", kl=7)])


WAYS = {
    _cut_back_and_shorter: [7],
    _cut_back_by_truncation: [7],
    _seen_empty_in_between: [7],
    _replaced_by_a_shorter_one: [7],
    _another_run: [1],
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_what_was_there_before_falls_and_the_restart_is_said(
    way: Callable[[Path, Callable[[], None]], None], tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log.jsonl", [RUN, *steps(1, 10)])
    monitor = Monitor([str(tmp_path)], Settings())
    poll(monitor)
    assert monitor.snapshot().run.last_step == 10
    way(log, lambda: poll(monitor))
    poll(monitor)
    now = end(monitor)
    assert said(now) == said(read(tmp_path))
    assert restarts(now) == WAYS[way]


def test_until_all_is_read_again_the_picture_says_so_and_nothing_is_told_twice(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [RUN, *steps(1, 30)])
    monitor, changes = Monitor([str(tmp_path)], Settings()), Changes()
    poll(monitor)
    stands = {change.finding.id for change in changes.of(monitor.snapshot())}
    assert stands
    write_log(log, [RUN, *steps(1, 25), *steps(26, 28, "new", kl=0.2)])
    pictures = []
    while monitor.poll(0.0):
        pictures.append(monitor.snapshot())
    pictures.append(monitor.snapshot())
    assert pictures[0].reading == 0.0
    assert pictures[-1].reading is None
    told = [change for one in pictures if one.reading is None for change in changes.of(one)]
    assert not stands & {change.finding.id for change in told if change.event == FOUND}


def test_what_comes_back_as_it_was_is_no_restart_and_counts_once(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [RUN, *steps(1, 10)])
    beside = write_log(tmp_path / "beside.jsonl", [step_record(step, entropy=0.2) for step in range(1, 11)])
    monitor = Monitor([str(tmp_path)], Settings())
    poll(monitor)
    kept = beside.read_bytes()
    beside.unlink()
    poll(monitor)
    beside.write_bytes(kept)
    os.utime(log, (4e9, 4e9))  # a clock that is years ahead
    poll(monitor)
    now = end(monitor)
    assert said(now) == said(read(tmp_path))
    assert restarts(now) == []
    assert now.last_record_time is not None
    assert now.last_record_time <= time.time()


def test_ranks_that_are_cut_back_one_after_another_end_as_they_lie_there(tmp_path: Path) -> None:
    logs = [tmp_path / f"rank_{rank}" / "log.jsonl" for rank in range(3)]
    for rank, log in enumerate(logs):
        write_log(log, [RUN, *(row for step in range(1, 9) for row in group(step, f"{step}-{rank}", (0, 1)))])
    monitor = Monitor([str(tmp_path)], Settings())
    poll(monitor)
    for rank, log in enumerate(logs):
        write_log(log, [RUN, *(row for step in range(1, 6) for row in group(step, f"{step}-{rank}", (1, 1)))])
        poll(monitor)
    assert said(end(monitor)) == said(read(tmp_path))


def test_what_was_rotated_away_is_never_given_up_for_a_file_that_is_written_anew(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [RUN, *steps(1, 10)])
    beside = write_log(tmp_path / "beside.jsonl", [step_record(step, entropy=0.2) for step in range(1, 11)])
    monitor = Monitor([str(tmp_path)], Settings())
    poll(monitor)
    log.rename(tmp_path / "log.jsonl.1")
    write_log(log, steps(11, 13))
    poll(monitor)
    write_log(beside, [step_record(step, entropy=0.3) for step in range(1, 7)])
    poll(monitor)
    now = end(monitor)
    assert (now.run.steps, now.run.rollouts) == (13, 26)
    assert list(values(now, "entropy").values())[:10] == [0.3] * 6 + [0.2] * 4


def _state(reached: int) -> str:
    rows = [{"step": step, "loss": 0.1, "reward": 0.5, "kl": 0.01 * step} for step in range(1, reached + 1)]
    return json.dumps({"log_history": [{"step": "bad"}, *rows], "global_step": reached, "max_steps": 100})


def test_a_file_that_is_read_whole_counts_as_it_is_now(tmp_path: Path) -> None:
    state, dump = tmp_path / "trainer_state.json", tmp_path / "rollouts" / "5.jsonl"
    dump.parent.mkdir()
    rows = [{"input": f"q{i // 2}", "output": f"a{i}", "score": float(i % 2), "step": 5} for i in range(8)]
    monitor = Monitor([str(tmp_path)], Settings())
    for reached in (10, 12, 14, 11):  # it grows, and is resumed from a checkpoint
        state.write_text(_state(reached))
        dump.write_text("".join(json.dumps({**row, "score": reached}) + "\n" for row in rows) + "{bad\n")
        os.utime(state, (reached, reached))  # long settled
        poll(monitor)
        assert monitor.snapshot().skipped_count == 2
        assert monitor.snapshot().run.last_step == reached
    assert said(end(monitor)) == said(read(tmp_path))


@settings(max_examples=12)
@given(data=st.data())
def test_whatever_is_done_to_its_files_the_picture_is_that_of_what_lies_there(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    log, beside = folder / "log.jsonl", folder / "beside.jsonl"
    write_log(log, [RUN, *steps(1, 6)])
    write_log(beside, [step_record(step, entropy=0.2) for step in range(1, 7)])
    monitor = Monitor([str(folder)], Settings())
    poll(monitor)
    for turn in range(data.draw(st.integers(1, 5))):
        lines = log.read_bytes().splitlines(keepends=True)
        last = json.loads(lines[-1])["step"]
        what = data.draw(
            st.sampled_from(("append", "partly", "cut", "empty", "replace", "beside", "touch", "again"))
        )
        if what == "append":
            add(log, steps(last + 1, last + 2, f"{turn}"))
        elif what == "partly":
            whole = b"".join(json.dumps(record).encode() + b"\n" for record in steps(last + 1, last + 1))
            with log.open("ab", buffering=0) as file:
                file.write(whole[:50])
                poll(monitor)
                file.write(whole[50:])
        elif what == "cut":
            kept = 1 + 3 * data.draw(st.integers(2, last))
            write_log(log, [*map(json.loads, lines[:kept]), *steps(kept // 3 + 1, kept // 3 + 1, f"{turn}")])
        elif what == "empty":
            log.write_bytes(b"")
            poll(monitor)
            write_log(log, [RUN, *steps(1, data.draw(st.integers(2, 9)), f"{turn}", kl=turn)])
        elif what == "replace":
            new = [RUN, *steps(1, data.draw(st.integers(2, 9)), f"{turn}", kl=turn)]
            write_log(log.with_suffix(".new"), new).replace(log)
        elif what == "beside":
            reached = data.draw(st.integers(2, 9))
            write_log(beside, [step_record(step, entropy=turn / 8) for step in range(1, reached + 1)])
        elif what == "touch":
            os.utime(log, (turn, turn))
        else:
            kept_bytes = log.read_bytes()
            log.unlink()
            poll(monitor)
            log.write_bytes(kept_bytes)
        poll(monitor)
    assert said(end(monitor)) == said(read(folder))
