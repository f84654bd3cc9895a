"""Past a bound the oldest rollouts go: memory stays, verdicts and series are the same, what is not held is said."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from random_runs import written
from runs import group, run_record, step_record, write_log
from test_incremental import said, take

from grpo_top import bound
from grpo_top.check_text import check_text
from grpo_top.columns import Column
from grpo_top.config import Settings
from grpo_top.ledger import Ledger
from grpo_top.monitor import Monitor
from grpo_top.records import Run
from grpo_top.report import check_object, inspect_text
from grpo_top.snapshot import Gone

ROOT = Path(__file__).parent.parent
STEPS, PER_STEP, HELD = 400, 8, 1500


def _judged(seed: int, held: int) -> Ledger:
    ledger = Ledger(Settings(rollouts_held=held))
    for number, event in enumerate(written(Random(seed), 150)):
        if number and isinstance(event[0], Run):
            continue  # what is declared late holds for all steps, but for those that are held no more
        take(ledger, event)
        if number % 20 == 0:
            ledger.judge_finished()
    ledger.judge_finished(ended=True)
    return ledger


def test_verdicts_and_series_are_those_of_a_run_of_which_all_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "AT_LEAST", 100)
    bounded, whole = _judged(4, 100), _judged(4, 1_000_000)
    assert bounded.history.first > 0
    assert whole.history.first == 0
    here, there = said(bounded), said(whole)
    assert here.pop("groups") != there.pop("groups")
    assert here == there
    for name, series in whole.table.view().items():
        np.testing.assert_array_equal(bounded.table.view()[name].values, series.values, err_msg=name)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [run_record(group_size=4)]
    for step in range(1, STEPS + 1):
        for name in "ab":
            rewards = (0, 1, 1, step % 2)
            records += group(step, name, rewards, task=f"{name}{step}")
        records.append(step_record(step, kl=0.01))
    return write_log(tmp_path_factory.mktemp("run") / "log.jsonl", records)


def test_what_is_held_no_more_is_said_and_nothing_is_made_up_for_it(long_run: Path) -> None:
    monitor = Monitor([str(long_run)], Settings(rollouts_held=HELD))
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    rollouts = snapshot.rollouts
    held = rollouts.length - rollouts.first
    assert 128 * PER_STEP <= held <= HELD
    assert snapshot.run.rollouts == rollouts.length == STEPS * PER_STEP
    assert not rollouts.columns["live"][: rollouts.first].any()
    assert rollouts.columns["live"][rollouts.first :].all()
    assert snapshot.series["rollouts"].values.tolist() == [PER_STEP] * STEPS
    assert snapshot.batch(1) is None
    assert isinstance(snapshot.read(0), Gone)
    assert snapshot.raw(0) is None
    last = snapshot.batch(STEPS)
    assert last is not None
    assert not isinstance(snapshot.read(int(last.rows[0])), Gone)
    first_held = int(rollouts.columns["step"][rollouts.first])
    assert snapshot.groups.columns["step"][0] == first_held
    words = f"the newest {held:,} of {rollouts.length:,} rollouts are held"
    assert words in check_text(snapshot)
    assert words in inspect_text(snapshot)
    assert check_object(snapshot)["run"]["held"] == {"rollouts": held, "first_step": first_held}


def test_what_comes_for_a_step_that_is_held_no_more_is_counted_and_changes_nothing(
    long_run: Path, tmp_path: Path
) -> None:
    own = Path(shutil.copy(long_run, tmp_path))
    monitor = Monitor([str(own)], Settings(rollouts_held=HELD))
    monitor.read_all()
    before = monitor.snapshot(finished=True)
    with own.open("a") as log:
        log.write(write_log(tmp_path / "late.jsonl", group(2, "late", (0, 0))).read_text())
    while monitor.poll(last=True):
        pass
    after = monitor.snapshot(finished=True)
    assert monitor.ledger.bound.too_late == 2
    assert after.batch(2) is None
    assert after.rollouts.length == before.rollouts.length
    assert "2 rollouts came too late" in check_text(after)


def test_a_column_gives_the_memory_of_old_rows_back_and_views_keep_what_they_show() -> None:
    column, same = Column(np.int64), Column(np.int8)
    column.extend(np.arange(5000))
    same.write(0, 5000, 1)
    view, before = column.view(), same.view()
    column.let_go(4000)
    same.let_go(4000, marked=True)
    column.extend(np.arange(5000, 90_000))
    same.write(5000, 90_000, 1)
    assert view.tolist() == list(range(5000))
    assert before.all()
    assert column.view().tolist() == [0] * 4000 + list(range(4000, 90_000))
    assert same.view().tolist() == [0] * 4000 + [1] * 86_000


def test_the_bound_is_set_in_the_settings_file_or_for_one_call(tmp_path: Path) -> None:
    from grpo_top.config import ConfigError, load  # noqa: PLC0415
    from grpo_top.config_text import config_text  # noqa: PLC0415

    file = tmp_path / "grpo-top.toml"
    file.write_text("[memory]\nrollouts = 1000000\n")
    assert load({}, file, None, []).rollouts_held == 1_000_000
    assert load({}, file, None, ["memory.rollouts=5"]).rollouts_held == 5
    assert "rollouts = 1000000" in config_text(load({}, file, None, []), [])
    assert "# rollouts = 4000000" in config_text(Settings(), [])
    for wrong in ("memory.rollouts=0", "memory.rollouts=few", "memory.texts=1"):
        with pytest.raises(ConfigError, match=r"rollouts = 4000000"):
            load({}, None, None, [wrong])


def test_a_run_whose_files_are_rotated_lost_and_broken_loses_nothing_and_leaks_nothing(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "tests.bench.soak", str(tmp_path), "6000", "300", "3000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["read"] == 6000
    assert found["accidents"] > 10
    assert found["threads"] == 0
    assert (
        found["files"] <= 2 * 2
    )  # a descriptor for each file that is there, of two logs and what they were before
