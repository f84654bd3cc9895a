"""Real folders of every tracker give what the tracker's own reader gives, and nothing is written into them."""

from __future__ import annotations

import random
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest
from format_reading import HEAD
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracker_samples import SAMPLES, Sample, known, truth_of

from grpo_top.config import Settings
from grpo_top.formats.base import RunContext
from grpo_top.formats.registry import choose
from grpo_top.intake import recognise
from grpo_top.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grpo_top.records import Record
    from grpo_top.snapshot import Snapshot

STREAMS = (
    "tensorboard/outputs/truncation/runs/events.out.tfevents.1796040147.trainer-0.10663.0",
    "wandb/wandb/offline-run-20261130_120142-y174iocc/run-y174iocc.wandb",
    "swanlab/swanlog/run-20261130_120959-swlmam4z/run-swlmam4z.swanlab",
)


def read(place: Path, wanted: str | None = None) -> Snapshot:
    monitor = Monitor([str(place)], Settings(run={"name": wanted} if wanted else {}))
    monitor.read_all()
    return monitor.snapshot(finished=False)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder with its size and time."""
    found = ((path, path.stat()) for path in folder.rglob("*"))
    return {str(path): (status.st_size, status.st_mtime_ns) for path, status in found}


samples = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.tracker}-{sample.truth}")


@samples
def test_a_run_gives_the_series_that_the_trackers_own_reader_gives(
    sample: Sample, tracker_folder: Callable[[str], Path]
) -> None:
    snapshot = read(tracker_folder(sample.tracker) / sample.where, sample.wanted)
    truth = truth_of(sample)
    assert len(truth) >= 10
    for name, expected in truth.items():
        # Where tables of completions are logged, the rewards' mean of their steps is computed here.
        assert known(snapshot, name) == pytest.approx(expected, rel=1e-6, abs=1e-7), name


@samples
def test_a_run_is_known_by_name_config_and_end(sample: Sample, tracker_folder: Callable[[str], Path]) -> None:
    snapshot = read(tracker_folder(sample.tracker) / sample.where, sample.wanted)
    run = snapshot.run
    assert (run.framework, run.algorithm, run.group_size) == ("trl", "grpo", 8)
    assert run.sampling is not None
    assert {name: run.sampling[name] for name in ("temperature", "top_p", "top_k")} == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
    }
    assert run.sampling["max_tokens"] == (8 if "truncation" in sample.truth else 32)
    assert run.name == sample.truth.partition("_")[0].replace("kl", "kl-explode")
    assert (run.first_step, run.last_step, run.steps) == (1, sample.steps, sample.steps)
    assert snapshot.finished is (sample.finished or run.total_steps == sample.steps)


@samples
def test_nothing_is_written_into_the_folder(sample: Sample, tracker_folder: Callable[[str], Path]) -> None:
    folder = tracker_folder(sample.tracker)
    before = contents(folder)
    read(folder / sample.where)
    assert contents(folder) == before


@samples
def test_only_what_is_cut_short_is_skipped_and_once(
    sample: Sample, tracker_folder: Callable[[str], Path]
) -> None:
    snapshot = read(tracker_folder(sample.tracker) / sample.where, sample.wanted)
    places = [(skipped.offset, skipped.reason) for skipped in snapshot.skipped]
    assert places == {
        "truncation_cut": [(143_491, "record cut short: the file ends after 40 bytes of it")],
        "truncation_killed": [(261_521, "record cut short: the file ends after 616 bytes of it")],
    }.get(sample.truth, [])


@samples
def test_nothing_is_left_over_that_nobody_knows(
    sample: Sample, tracker_folder: Callable[[str], Path]
) -> None:
    left_out = read(tracker_folder(sample.tracker) / sample.where).left_out
    assert all(": another run, not read; " in line for line in left_out)


@pytest.mark.parametrize(
    ("tracker", "where", "wanted"),
    [("wandb", "wandb", "healthy"), ("tensorboard", "outputs", "truncation"), ("mlflow", ".", "kl-explode")],
)
def test_of_several_runs_in_one_place_the_newest_is_read_and_the_others_are_named(
    tracker: str, where: str, wanted: str, tracker_folder: Callable[[str], Path]
) -> None:
    snapshot = read(tracker_folder(tracker) / where)
    assert snapshot.run.name == wanted
    assert snapshot.left_out
    assert all(": another run, not read; read by grpo-top " in line for line in snapshot.left_out)


@pytest.mark.parametrize("where", STREAMS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 80_000), max_size=8))
def test_any_cut_of_a_stream_into_pieces_gives_the_same_records(
    where: str, cuts: list[int], tracker_folder: Callable[[str], Path]
) -> None:
    tracker, _, name = where.partition("/")
    path = tracker_folder(tracker) / name
    data = path.read_bytes()[:80_000]
    chosen = choose(path, data[:HEAD])
    assert chosen is not None

    def records(ends: list[int]) -> list[Record]:
        reader = chosen[0].reader(path, chosen[1], RunContext())
        found: list[Record] = []
        start = 0
        for end in (*sorted(ends), len(data)):
            found += reader.feed_bytes(start, data[start:end])
            start = max(start, min(end, len(data)))
        return [*found, *reader.end(), *reader.end()]

    assert list(map(repr, records(cuts))) == list(map(repr, records([])))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("where", STREAMS)
def test_a_stream_that_grows_is_read_as_it_grows(
    where: str, seed: int, tracker_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    rng = random.Random(seed)
    tracker, _, name = where.partition("/")
    source = tracker_folder(tracker) / name
    path = tmp_path / source.parent.name / source.name
    path.parent.mkdir()
    data = source.read_bytes()
    monitor = Monitor(
        [str(path.parent)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__
    )
    seen = []
    with path.open("ab", buffering=0) as file:
        start = 0
        while start < len(data):
            end = start + rng.choice((1, 900, 9_000, 32_768))
            file.write(data[start:end])
            start = end
            monitor.poll(1.0)
            seen.append(monitor.snapshot().run.steps)
    monitor.read_all()
    assert seen == sorted(seen)
    assert {steps for steps in seen if 0 < steps < max(seen)}
    whole = read(source.parent)
    found = monitor.snapshot()
    assert {name: known(found, name) for name in found.series} == {
        name: known(whole, name) for name in whole.series
    }


def test_a_number_that_no_other_follows_is_shown_once_it_has_stood_still(
    tracker_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tracker_folder("tensorboard") / STREAMS[0].partition("/")[2]
    shutil.copy(source, tmp_path / source.name)
    monitor = Monitor([str(tmp_path)], Settings())
    while monitor.poll(1.0):
        pass
    assert monitor.snapshot().run.last_step == 89
    monkeypatch.setattr("grpo_top.intake.STANDS_STILL_SECONDS", 0.0)
    while monitor.poll(1.0):
        pass
    snapshot = monitor.snapshot()
    assert snapshot.run.last_step == 90
    assert snapshot.skipped_count == 0, "the end of the file may still be written"


def test_a_tracker_is_known_by_content_and_not_by_name(
    tracker_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    for where in (*STREAMS, "trackio/trackio/grpo-add.db", "mlflow/mlflow.db"):
        tracker, _, name = where.partition("/")
        source = tracker_folder(tracker) / name
        renamed = tmp_path / ("run-20260101_000000-x" if tracker == "swanlab" else "x") / "renamed.db"
        renamed.parent.mkdir(exist_ok=True)
        shutil.copy(source, renamed)
        found = recognise(renamed, None)
        assert found is not None
        assert found[0].name == tracker


def test_any_other_database_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE metrics (a, b)")
    connection.close()
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0" + bytes(500))
    assert recognise(tmp_path / "x.db", None) is None
    assert recognise(tmp_path / "broken.db", None) is None
