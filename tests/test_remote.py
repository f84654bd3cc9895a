"""A run that another grpo-top serves is read here as it is there: the same verdicts, sources and texts."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from loopback import until
from runs import comparable, group, read, recorded_lines, run_record, step_record, unpack_sample, write_log
from served_runs import served

from grpo_top.config import Settings, from_table, load, over
from grpo_top.detectors import BY_ID
from grpo_top.monitor import Monitor
from grpo_top.records import Rollout, Success
from grpo_top.report import check_object
from grpo_top.snapshot import Gone
from grpo_top.sources.feed import DEFAULT
from grpo_top.sources.http import Network

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

QUICK = replace(DEFAULT, first_wait=0.05, longest_wait=0.1)


@contextmanager
def watching(*where: str) -> Iterator[Monitor]:
    """A monitor of URLs, not polled yet."""
    network = Network(limits=QUICK)
    try:
        yield Monitor(where, Settings(), network=network)
    finally:
        network.close()


@contextmanager
def read_there(url: str) -> Iterator[Snapshot]:
    """What `check` sees of a URL."""
    with watching(url) as monitor:
        monitor.read_all()
        yield monitor.snapshot(finished=True)


def poll_until(monitor: Monitor, holds: Any) -> None:
    def look() -> object:
        monitor.poll()
        return holds()

    until(look)


def turns(rollout: Rollout) -> list[tuple[Any, ...]]:
    return [(*said[:2], list(said.tool_calls), said.reward) for said in rollout.messages or ()]


RUNS = ("trl-normal", "miles-sampler_cold", "sampler_cold")


@pytest.mark.parametrize("name", RUNS)
def test_check_of_the_url_is_check_of_the_directory(name: str, tmp_path: Path) -> None:
    if name == "sampler_cold":
        (tmp_path / "log.jsonl").write_bytes(b"\n".join(recorded_lines(name)[:2500]))
    else:
        unpack_sample(name, tmp_path)
    here = read(tmp_path)
    with served(tmp_path) as service, read_there(service.url) as there:
        assert check_object(there, series=True) == check_object(here, series=True)
        assert [source.state for source in there.sources] == [source.state for source in here.sources]
        assert there.run == here.run
        assert there.rollouts.length == here.rollouts.length
        for column in ("reward", "step", "group", "index", "task", "loop", "gibberish", "live", "source"):
            np.testing.assert_array_equal(there.rollouts.columns[column], here.rollouts.columns[column])
        for row in range(0, here.rollouts.length, here.rollouts.length // 9 + 1):
            ours, theirs = here.read(row), there.read(row)
            assert isinstance(theirs, Rollout)
            assert theirs._replace(location=ours.location, messages=None) == ours._replace(messages=None)
            assert turns(theirs) == turns(ours)


def test_the_settings_of_the_run_hold_here_too_and_ones_own_above_them(tmp_path: Path) -> None:
    steps = [row for step in range(1, 30) for row in group(step, f"{step}", (0.2, 0.2, 0.7), accuracy=1)]
    write_log(tmp_path / "log.jsonl", [run_record(), *steps])
    file = tmp_path / "grpo-top.toml"
    file.write_text(
        "[run]\nreward_range = [0, 1]\nsuccess = {of = 'reward', at_least = 0.6}\n"
        "[LOW_TRAINABILITY]\nthreshold = 0.99\n[names]\n'my/loss' = 'loss'\n"
    )
    settings = load(BY_ID, None, tmp_path, [])
    with served(tmp_path, settings=settings) as service, watching(service.url) as monitor:
        monitor.read_all()
        here = read(tmp_path, settings=settings)
        there = monitor.snapshot(finished=True)
        assert check_object(there, series=True) == check_object(here, series=True)
        assert there.run.reward_range_declared
        assert there.run.success_rule == "reward at least 0.6, as declared"
    own = over(settings, Settings(run={"success": Success("reward", 0.1)}))
    assert own.run["success"].at_least == 0.1
    assert own.run["reward_range"] == (0.0, 1.0)
    strange = {"run": {"success": 3, "group_size": 4}, "NO_SUCH": {"a": 1}, "names": "none", "x": {"y": []}}
    assert from_table(strange, BY_ID, "there") == Settings(run={"group_size": 4}, file="there")


def a_step(step: int) -> list[dict[str, Any]]:
    return [*group(step, f"{step}", (0, 1, 1), prompt=f"task {step}"), step_record(step, kl=step / 10)]


def test_a_growing_run_is_followed_and_a_restart_of_the_server_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    run, spare, beside = tmp_path / "run", tmp_path / "spare", tmp_path / "beside"
    write_log(beside / "log.jsonl", [step_record(step, entropy=step / 7) for step in range(1, 8)])
    log = write_log(run / "log.jsonl", [run_record(), *(row for step in range(1, 5) for row in a_step(step))])

    def add(step: int) -> None:
        with log.open("a") as file:
            file.write(write_log(spare / "more", a_step(step)).read_text())

    with served(run) as service:
        port = service.port
        with watching(service.url, str(beside)) as monitor:
            poll_until(monitor, lambda: monitor.snapshot().run.rollouts == 12)
            before = monitor.snapshot()
            add(5)
            poll_until(monitor, lambda: monitor.snapshot().run.rollouts == 15)
            service.close()
            add(6)
            poll_until(monitor, lambda: monitor.snapshot().sources[1].state == "error")
            assert "next try at" in monitor.snapshot().sources[1].note
            assert monitor.snapshot().run.rollouts == 15
            with served(run, port=port):
                poll_until(monitor, lambda: monitor.snapshot().run.rollouts == 18)
                add(7)
                poll_until(monitor, lambda: monitor.snapshot().run.last_step == 7)
                poll_until(monitor, lambda: monitor.snapshot().sources[1].bytes == log.stat().st_size)
                now = monitor.snapshot()
                monitor.ledger.judge_finished(ended=True)
                local = Monitor([str(run), str(beside)], Settings(), one_run=True)
                local.read_all()
                assert comparable(monitor.snapshot()) == comparable(local.snapshot(finished=True))
                assert now.rollouts.length == 21
                assert now.version > before.version
                text = now.read(20)
                assert isinstance(text, Rollout)
                assert (text.step, text.completion) == (7, "7 2")
                assert [source.state for source in now.sources] == ["live"] * 2


def test_a_rotated_file_is_read_as_it_is_there(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write_log(log, [run_record(), *(row for step in range(1, 4) for row in a_step(step))])
    with served(tmp_path) as service, watching(service.url) as monitor:
        poll_until(monitor, lambda: monitor.snapshot().run.rollouts == 9)
        write_log(log, [*group(3, "3", (0, 0, 0), prompt="task 3"), *a_step(4)])
        poll_until(monitor, lambda: monitor.ledger.history.length == 15)
        assert monitor.ledger.history.replaced == 3
        gone = monitor.snapshot().read(8)
        assert isinstance(gone, Gone)
        assert gone.reason.startswith("log.jsonl: ")
        assert gone.reason.endswith("its numbers still stand")


def test_a_run_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write_log(log, [run_record(), *(row for step in range(1, 6) for row in a_step(step))])
    with served(tmp_path) as service, watching(service.url) as monitor:
        poll_until(monitor, lambda: monitor.snapshot().run.rollouts == 15)
        write_log(log, [run_record(), *a_step(1), *group(2, "2", (0, 0, 0), prompt="task 2"), *a_step(3)])
        poll_until(monitor, lambda: monitor.snapshot().run.rollouts == 9)
        poll_until(monitor, lambda: monitor.snapshot().sources[0].records == 12)
        assert monitor.snapshot().run.last_step == 3


def test_what_is_skipped_there_is_named_here(tmp_path: Path) -> None:
    write_log(
        tmp_path / "a" / "log.jsonl", [run_record(), *a_step(1), {"kind": "rollout"}, {"kind": "nothing"}]
    )
    here = read(tmp_path)
    with served(tmp_path) as service, read_there(service.url) as there:
        assert there.skipped == here.skipped
        assert there.skipped_count == 2


def test_a_text_whose_server_is_gone_is_gone_and_its_numbers_stay(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *a_step(1)])
    with served(tmp_path) as service, watching(service.url) as monitor:
        poll_until(monitor, lambda: monitor.ledger.history.length == 3)
        service.close()
        found = monitor.snapshot().read(0)
        assert isinstance(found, Gone)
        assert monitor.snapshot().rollouts.columns["reward"][1] == 1


def test_a_run_that_is_served_on_is_the_same_run(tmp_path: Path) -> None:
    """Two machines on the way."""
    write_log(tmp_path / "log.jsonl", [run_record(), *a_step(1), *a_step(2)])
    with served(tmp_path) as service, served(service.url) as relay, read_there(relay.url) as there:
        assert comparable(there) == comparable(read(tmp_path))
        text = there.read(4)
        assert isinstance(text, Rollout)
        assert text.completion == "2 1"
