"""Past a bound the oldest rollouts go: memory stays, verdicts and series are the same, and what is held no more is said."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from random_runs import written
from runs import group, run_record, step_record, write_log
from test_incremental import said, take

from grpo_top.check_text import check_text
from grpo_top.columns import Column
from grpo_top.config import Settings
from grpo_top.ledger import Ledger
from grpo_top.monitor import Monitor
from grpo_top.report import check_object, inspect_text
from grpo_top.snapshot import Gone

if TYPE_CHECKING:
    from pathlib import Path

STEPS, PER_STEP, HELD = 600, 8, 2000


def _judged(seed: int, held: int) -> Ledger:
    ledger = Ledger(Settings(rollouts_held=held))
    for event in written(Random(seed), 500):
        take(ledger, event)
        ledger.judge_finished()
    ledger.judge_finished(ended=True)
    return ledger


def _without_rows(found: dict[str, Any]) -> dict[str, Any]:
    """What is said, but for the rollouts that show it."""
    return {name: value for name, value in found.items() if name != "findings"}


@pytest.mark.parametrize("seed", [3, 4])
def test_verdicts_and_series_are_those_of_a_run_of_which_all_is_held(seed: int) -> None:
    bounded, whole = _judged(seed, 1000), _judged(seed, 1_000_000)
    assert bounded.history.first > 0
    assert whole.history.first == 0
    assert _without_rows(said(bounded)) == _without_rows(said(whole))
    for name, series in whole.table.view().items():
        np.testing.assert_array_equal(bounded.table.view()[name].values, series.values, err_msg=name)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [run_record(group_size=4)]
    for step in range(1, STEPS + 1):
        for name in "ab":
            rewards = (0, 1, 1, step % 2)
            records += group(step, name, rewards, task=f"{name}{step}", rewards={"accuracy": 1.0})
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


def test_what_comes_for_a_step_that_is_held_no_more_is_counted_and_changes_nothing(long_run: Path) -> None:
    monitor = Monitor([str(long_run)], Settings(rollouts_held=HELD))
    monitor.read_all()
    before = monitor.snapshot(finished=True)
    with long_run.open("a") as log:
        log.writelines(write_log(long_run.with_suffix(".late"), group(2, "late", (0, 0))).read_text())
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
