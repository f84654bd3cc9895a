"""Several runs in one place: what is listed, which one is read, and that none is mixed into another."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from runs import group, run_record, step_record, unpack_sample, write_log

from grpo_top.cli import main
from grpo_top.config import Settings
from grpo_top.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def write_run(folder: Path, steps: int = 2, reward: float = 1.0, age: float = 0.0) -> Path:
    """A grpo-top/1 log, last written `age` seconds ago."""
    records = [record for step in range(1, steps + 1) for record in group(step, f"g{step}", (0.0, reward))]
    log = write_log(folder / "rollouts.jsonl", [run_record(run=folder.name), *records])
    written = log.stat().st_mtime - age
    os.utime(log, (written, written))
    return folder


@pytest.fixture(scope="module")
def tracker_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tracker's unpacked folder, for reading only."""
    return cache(lambda tracker: unpack_sample(tracker, tmp_path_factory.mktemp(tracker)))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two runs, `second` the newer one."""
    write_run(tmp_path / "first", steps=3, age=60)
    write_run(tmp_path / "second", steps=5)
    return tmp_path


def looked(*where: Path, **how: Any) -> Monitor:
    monitor = Monitor([str(place) for place in where], Settings(), **how)
    monitor.look()
    return monitor


def names(*where: Path) -> list[str]:
    return [run.name for run in looked(*where).selection.runs.all]


def rollouts(monitor: Monitor) -> int:
    monitor.read_all()
    return monitor.snapshot(finished=True).run.rollouts


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


# which runs there are


def test_runs_have_the_names_of_their_folders_and_one_run_that_of_the_place(place: Path) -> None:
    assert names(place) == ["first", "second"]
    assert names(place / "first") == ["first"]
    assert names(place / "first" / "rollouts.jsonl") == ["first"]


def test_a_trackers_runs_are_told_apart_by_their_ids(tracker_folder: Callable[[str], Path]) -> None:
    assert names(tracker_folder("wandb")) == ["if5qjohq", "rmglbqnw", "y174iocc"]
    assert names(tracker_folder("tensorboard")) == [
        f"outputs/{name}" for name in ("healthy", "kl-explode", "truncation")
    ]
    assert names(tracker_folder("mlflow")) == ["healthy", "kl-explode"]
    assert names(tracker_folder("trackio")) == ["healthy", "kl-explode", "truncation"]


def test_a_trackers_run_below_a_plain_run_is_that_run(
    tracker_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    write_run(tmp_path / "run")
    run = tracker_folder("wandb") / "wandb"
    (tmp_path / "run" / "wandb").symlink_to(run)
    monitor = looked(tmp_path)
    assert [found.name for found in monitor.selection.runs.all] == [tmp_path.name]
    monitor.read_all()
    left_out = {source.where for source in monitor.snapshot().sources if source.state == "left out"}
    assert len({where.split("/")[2] for where in left_out}) == 2


def test_two_trackers_of_one_training_are_one_run(
    tracker_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "wandb").mkdir()
    offline = next((tracker_folder("wandb") / "wandb").glob("*rmglbqnw"))
    (tmp_path / "wandb" / offline.name).symlink_to(offline)
    (tmp_path / "tb").symlink_to(tracker_folder("tensorboard") / "outputs" / "healthy")
    assert len(names(tmp_path)) == 1


def test_several_places_are_one_run_unless_they_are_runs_of_the_same_kind(place: Path) -> None:
    metrics = place / "elsewhere" / "metrics.jsonl"
    metrics.parent.mkdir()
    metrics.write_text('{"step": 1, "reward": 0.5}\n')
    assert len(names(place / "first", metrics)) == 1
    assert names(place / "first", place / "second") == ["first", "second"]


# which one is read


def test_the_newest_run_is_read_and_the_others_are_named_with_what_reads_them(place: Path) -> None:
    monitor = looked(place)
    assert rollouts(monitor) == 10
    (line,) = monitor.left_out()
    assert line == f"first: another run, not read; read by grpo-top {place / 'first'}"


def test_the_run_that_is_wanted_is_read(place: Path) -> None:
    assert rollouts(looked(place, run="first")) == 6
    assert rollouts(looked(place, run=str(place / "first"))) == 6


def test_all_of_it_is_one_run_where_the_user_says_so(place: Path) -> None:
    write_log(place / "first" / "rollouts.jsonl", group(9, "g9", (0, 1)))
    assert rollouts(looked(place, one_run=True)) == 12


def test_a_run_that_begins_later_is_not_mixed_in_and_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "first")
    monitor = Monitor([str(tmp_path)], Settings(), clock=iter(range(10**6)).__next__)
    while monitor.poll():
        pass
    write_run(tmp_path / "second", steps=9)
    (tmp_path / "first" / "eval").mkdir()
    write_log(tmp_path / "first" / "eval" / "more.jsonl", [step_record(7, kl=0.1)])
    while monitor.poll():
        pass
    snapshot = monitor.snapshot()
    assert (snapshot.run.rollouts, snapshot.run.last_step) == (4, 7)
    assert [line.partition(":")[0] for line in snapshot.left_out] == ["second"]


def test_a_log_beside_several_runs_is_read_with_none_of_them(place: Path) -> None:
    (place / "train.log").write_text("{'loss': 0.5, 'reward': 0.25, 'reward_std': 0.1, 'epoch': 0.1}\n" * 3)
    assert "train.log: beside several runs, of none of them" in looked(place).left_out()


# the command line


@pytest.mark.parametrize("verb", ["check", "inspect"])
def test_several_runs_are_listed_and_one_is_asked_for(
    verb: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = ran(capsys, verb, str(place))
    assert (status, out) == (2, "")
    first, heading, *rows = err.splitlines()
    assert first == f"grpo-top: {place}: 2 runs; --run NAME reads one of them, --all each"
    assert heading.split() == ["name", "framework", "last", "step", "last", "written", "read", "by"]
    assert [row.split()[:3] for row in rows] == [["second", "trl", "5"], ["first", "trl", "3"]]
    assert rows[0].endswith(f"grpo-top {verb} {place / 'second'}")


def test_one_of_them_is_read_by_its_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ran(capsys, "check", "--json", "--run", "first", str(place))
    assert json.loads(out)["run"]["rollouts"] == 6
    (place / "grpo-top.toml").write_text('[run]\nname = "second"\n')
    _, out, _ = ran(capsys, "check", "--json", str(place))
    assert json.loads(out)["run"]["rollouts"] == 10


def test_a_name_that_no_run_has_is_an_error_that_names_the_nearest(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = ran(capsys, "check", "--run", "secnd", str(place))
    assert (status, err.splitlines()[0]) == (
        2,
        f"grpo-top: {place}: 2 runs; no run here is called secnd; did you mean second?",
    )
    status, _, err = ran(capsys, "check", "--run", "third", str(place / "first"))
    assert (status, err) == (2, f"grpo-top: {place / 'first'}: no run here is called third\n")


def test_all_of_them_are_one_json_object_each_and_the_status_is_the_worst(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(place / "third", steps=40, reward=0.0)
    status, out, _ = ran(capsys, "check", "--all", "--json", str(place))
    found = [json.loads(line) for line in out.splitlines()]
    assert [each["place"]["name"] for each in found] == ["first", "second", "third"]
    assert [each["run"]["rollouts"] for each in found] == [6, 10, 80]
    statuses = [ran(capsys, "check", "--json", str(place / each["place"]["name"]))[0] for each in found]
    assert statuses == [0, 0, 1]
    assert status == 1


def test_without_json_the_reports_follow_each_other(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "check", "--all", str(place))
    assert status == 0
    assert [line for line in out.splitlines() if line.startswith("run ")] == [
        "run 1 of 2: first",
        "run 2 of 2: second",
    ]
    _, out, _ = ran(capsys, "inspect", "--all", str(place))
    assert out.count("the ten things to log") == 2


def test_each_run_is_judged_by_the_settings_in_its_own_folder_else_by_those_of_the_place(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "grpo-top.toml").write_text("[run]\nreward_range = [0, 1]\n")
    (place / "second" / "grpo-top.toml").write_text("[run]\nreward_range = [0, 2]\n")
    _, out, _ = ran(capsys, "inspect", "--all", str(place))
    ranges = [line.strip() for line in out.splitlines() if "reward range" in line]
    assert ranges == ["reward range 0 to 1, declared", "reward range 0 to 2, declared"]


def test_all_of_one_run_is_what_there_is_without_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, whole, _ = ran(capsys, "check", "--json", str(place / "first"))
    _, each, _ = ran(capsys, "check", "--all", "--json", str(place / "first"))
    assert each == whole


def test_a_run_is_read_by_what_the_list_says(
    tracker_folder: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, err = ran(capsys, "check", str(tracker_folder("trackio")))
    for row in err.splitlines()[2:]:
        name, _, command = row.partition("grpo-top ")
        _, out, _ = ran(capsys, *command.split(), "--json")
        run = json.loads(out)["run"]
        assert run["name"] == name.split()[0]
        assert run["steps"]["last"] == int(name.split()[2])
