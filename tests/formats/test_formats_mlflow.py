"""MLflow's database and file store: one number at a time, of many runs."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from format_reading import of
from hypothesis import given
from hypothesis import strategies as st
from tracker_samples import known

from grpo_top.config import Settings
from grpo_top.formats.base import RunContext
from grpo_top.formats.decode import literal
from grpo_top.formats.mlflow_store import metadata
from grpo_top.formats.registry import choose
from grpo_top.intake import recognise
from grpo_top.monitor import Monitor
from grpo_top.records import Eval, Run, Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grpo_top.records import Record
    from grpo_top.snapshot import Snapshot

TRL = {"reward": 0.5, "kl": 0.1, "frac_reward_zero_std": 0.0}
INFINITY = 1.7976931348623157e308


class Database:
    """A database with the tables that are read, and a connection that writes to it as MLflow does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        self.connection.executescript(
            "CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT, status TEXT, start_time BIGINT,"
            " lifecycle_stage TEXT);"
            "CREATE TABLE metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT, is_nan BOOLEAN,"
            " PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan));"
            "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
            "CREATE TABLE latest_metrics (key TEXT);"
        )
        self._milliseconds = 1_796_040_587_000

    def begin(self, run: str, began: int, stage: str = "active") -> None:
        self.connection.execute(
            "INSERT INTO runs VALUES (?, ?, 'RUNNING', ?, ?)", (f"id-{run}", run, began, stage)
        )

    def param(self, run: str, key: str, value: str) -> None:
        self.connection.execute("INSERT INTO params VALUES (?, ?, ?)", (key, value, f"id-{run}"))

    def log(self, run: str, step: int, metrics: dict[str, float], is_nan: int = 0) -> None:
        """One commit, as one call of `log_metrics` makes it."""
        self._milliseconds += 100
        self.connection.execute("BEGIN")
        for key, value in metrics.items():
            row = (key, value, self._milliseconds, f"id-{run}", step, is_nan)
            self.connection.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", row)
        self.connection.execute("COMMIT")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(tmp_path / "mlflow.db")
    with closing(found.connection):
        yield found


def records(path: Path) -> list[Record]:
    """Everything that a reader of the store finds."""
    chosen = recognise(path, None)
    assert chosen is not None
    assert (chosen[0].name, chosen[1].feed) == ("mlflow", "database")
    reader = chosen[0].reader(path, chosen[1], RunContext())
    found = []
    while came := reader.poll(path, last=True):
        found += came
    return found + reader.end()


def snapshot(monitor: Monitor) -> Snapshot:
    while monitor.poll(1.0):
        pass
    return monitor.snapshot()


# The database


def test_numbers_of_one_step_are_one_row_and_bare_keys_are_trls(database: Database) -> None:
    database.begin("a", 1)
    database.log("a", 20, TRL | {"epoch": 0.1})
    database.log("a", 20, {"eval_reward": 0.8, "eval_completions/mean_length": 9.0, "epoch": 0.1})
    database.log("a", 21, TRL)
    found = records(database.path)
    assert [(step.step, step.metrics) for step in of(Step, found)] == [(20, TRL), (21, TRL)]
    (evaluation,) = of(Eval, found)
    assert (evaluation.step, evaluation.metrics) == (20, {"reward": 0.8, "completions/mean_length": 9.0})


def test_nan_is_a_flag_and_infinity_the_largest_number(database: Database) -> None:
    database.begin("a", 1)
    database.log("a", 1, TRL)
    database.log("a", 1, {"entropy": 0.0}, is_nan=1)
    database.log("a", 1, {"loss": INFINITY, "grad_norm": -INFINITY})
    (step,) = of(Step, records(database.path))
    assert math.isnan(step.metrics["entropy"])
    assert (step.metrics["loss"], step.metrics["grad_norm"]) == (math.inf, -math.inf)


def test_parameters_are_words_and_dots_are_sections(database: Database) -> None:
    database.begin("a", 1)
    for key, value in {
        "temperature": "0.9",
        "sampling.temperature": "0.7",
        "num_generations": "8",
        "max_completion_length": "32",
        "min_p": "None",
        "reward_range": "[0.0, 1.2]",
        "success": "{'of': 'accuracy', 'at_least': 1.0}",
    }.items():
        database.param("a", key, value)
    database.log("a", 1, TRL)
    run = of(Run, records(database.path))[0]
    assert (run.run, run.framework, run.group_size) == ("a", "trl", 8)
    assert run.sampling == {"temperature": 0.7, "max_tokens": 32}
    assert (run.reward_range, run.success) == ((0.0, 1.2), ("accuracy", 1.0))


def test_the_status_says_whether_the_run_has_ended(database: Database) -> None:
    database.begin("a", 1)
    database.log("a", 1, TRL)
    assert not any(run.finished for run in of(Run, records(database.path)))
    database.connection.execute("UPDATE runs SET status = 'KILLED'")
    assert any(run.finished for run in of(Run, records(database.path)))


def test_of_several_runs_the_newest_that_was_not_deleted_is_read(database: Database) -> None:
    for run, began, stage in (("old", 1, "active"), ("new", 3, "active"), ("gone", 9, "deleted")):
        database.begin(run, began, stage)
        database.log(run, began, TRL)
    assert [step.step for step in of(Step, records(database.path))] == [3]


def test_a_database_is_followed_commit_by_commit(database: Database, tmp_path: Path) -> None:
    database.begin("a", 1)
    monitor = Monitor([str(tmp_path)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__)
    before = sorted(path.name for path in tmp_path.iterdir())
    for step in range(1, 6):
        database.log("a", step, TRL)
        seen = snapshot(monitor)
        assert seen.run.last_step == (step - 1 or None), "a step may go on until the next one begins"
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    database.connection.execute("UPDATE runs SET status = 'FINISHED'")
    monitor.read_all()
    assert known(monitor.snapshot(), "reward_mean") == dict.fromkeys(range(1, 6), 0.5)
    assert monitor.snapshot().finished


def test_the_newest_step_is_shown_once_it_has_stood_still(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.begin("a", 1)
    database.log("a", 1, TRL)
    monitor = Monitor([str(tmp_path)], Settings())
    assert snapshot(monitor).run.last_step is None
    monkeypatch.setattr("grpo_top.intake.STANDS_STILL_SECONDS", 0.0)
    assert snapshot(monitor).run.last_step == 1


# The file store


class Store:
    """One run's folder."""

    def __init__(self, folder: Path, run: str = "ff19aa20", began: int = 5, **fields: Any) -> None:
        self.folder = folder / run
        self.meta = self.folder / "meta.yaml"
        self.folder.mkdir(parents=True)
        written = {
            "run_id": run,
            "run_name": "mine",
            "start_time": began,
            "status": 1,
            "lifecycle_stage": "active",
        }
        self.meta.write_text("".join(f"{key}: {value}\n" for key, value in (written | fields).items()))

    def put(self, name: str, content: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(content)

    def log(self, step: int, metrics: dict[str, object]) -> None:
        for key, value in metrics.items():
            self.put(f"metrics/{key}", f"17960405870{step:02} {value} {step}\n")


def test_slashes_in_a_key_are_folders_and_all_files_make_one_row(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.log(
        1, TRL | {"completions/mean_length": 9.0, "eval_completions/mean_length": 8.0, "eval_reward": 0.8}
    )
    found = records(store.meta)
    assert [step.metrics for step in of(Step, found)] == [TRL | {"completions/mean_length": 9.0}]
    assert [evaluation.metrics for evaluation in of(Eval, found)] == [
        {"completions/mean_length": 8.0, "reward": 0.8}
    ]


def test_a_value_that_comes_twice_at_a_step_is_the_last_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.log(1, TRL)
    store.log(1, {"reward": 0.9})
    assert [step.metrics["reward"] for step in of(Step, records(store.meta))] == [0.9]


def test_values_that_are_not_finite_are_words(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.log(1, TRL | {"loss": "nan", "kl": "inf", "entropy": "-inf"})
    (step,) = of(Step, records(store.meta))
    assert math.isnan(step.metrics["loss"])
    assert (step.metrics["kl"], step.metrics["entropy"]) == (math.inf, -math.inf)


def test_a_line_that_is_not_whole_yet_waits(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.log(1, TRL)
    store.put("metrics/reward", "1796040588000 0.7 ")
    chosen = recognise(store.meta, None)
    reader = chosen[0].reader(store.meta, chosen[1], RunContext())
    assert of(Step, reader.poll(store.meta)) == []
    store.put("metrics/reward", "2\n")
    assert [step.metrics["reward"] for step in of(Step, reader.poll(store.meta))] == [0.5]
    assert [step.metrics for step in of(Step, reader.end())] == [{"reward": 0.7}]


def test_a_line_that_cannot_be_read_is_skipped_and_the_next_one_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("metrics/reward", "x 0.5 1\n1796040588000 0.5\n\n1796040588000 0.7 2\n")
    found = [record for record in records(store.meta) if not isinstance(record, Run)]
    assert [type(record) for record in found] == [Skipped, Skipped, Skipped, Step]
    assert [skipped.offset for skipped in of(Skipped, found)] == [0, 8, 26]


def test_a_metric_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.log(1, TRL)
    store.log(2, TRL)
    chosen = recognise(store.meta, None)
    reader = chosen[0].reader(store.meta, chosen[1], RunContext())
    reader.poll(store.meta)
    (store.folder / "metrics" / "reward").write_text("1796040588000 0.9 3\n")
    assert [step.step for step in of(Step, reader.poll(store.meta) + reader.end())] == [2, 3]


def test_the_name_may_be_in_a_tag_and_parameters_are_files(tmp_path: Path) -> None:
    store = Store(tmp_path, run_name="", status=3)
    store.put("tags/mlflow.runName", "tagged")
    store.put("params/temperature", "0.7")
    store.put("params/sampling/top_p", "0.9")
    (run,) = of(Run, records(store.meta))
    assert (run.run, run.sampling, run.finished) == ("tagged", {"temperature": 0.7, "top_p": 0.9}, True)


def test_of_several_runs_the_newest_is_read_and_metrics_are_no_sources_of_their_own(tmp_path: Path) -> None:
    Store(tmp_path, "new", 9).log(7, TRL)
    Store(tmp_path, "old", 1).log(3, TRL)
    Store(tmp_path, "gone", 99, lifecycle_stage="deleted").log(5, TRL)
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    seen = monitor.snapshot()
    assert known(seen, "reward_mean") == {7: 0.5}
    assert [source.state for source in seen.sources] == ["live"]
    assert [line.partition(":")[0] for line in seen.left_out] == ["mine old"]


def test_a_store_is_followed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.log(1, TRL)
    monitor = Monitor([str(tmp_path)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__)
    snapshot(monitor)
    for step in range(2, 5):
        store.log(step, TRL | {f"new/{step}": 1.0})
        assert snapshot(monitor).run.last_step == step - 1
    store.meta.write_text(store.meta.read_text().replace("status: 1", "status: 3"))
    monitor.read_all()
    assert (monitor.snapshot().run.last_step, monitor.snapshot().finished) == (4, True)


def test_a_folder_that_vanishes_is_gone(tmp_path: Path, tracker_folder: Callable[[str], Path]) -> None:
    store = Store(tmp_path)
    store.log(1, TRL)
    monitor = Monitor([str(tmp_path)], Settings())
    snapshot(monitor)
    store.meta.unlink()
    assert snapshot(monitor).sources[0].state == "gone"


def test_other_yaml_files_are_left_alone() -> None:
    assert choose(Path("x/meta.yaml"), b"title: a page\n") is None
    assert choose(Path("x/metrics.yaml"), b"run_id: x\n") is None
    assert metadata(b"a: 'b'\nc\nd: e: f\n") == {"a": "b", "d": "e: f"}


@pytest.mark.parametrize(
    ("spelled", "value"),
    [
        ("0.04", 0.04),
        ("32", 32),
        ("-1", -1),
        ("None", None),
        ("True", True),
        ("['a', 1]", ["a", 1]),
        ("{'a': {'b': 2}}", {"a": {"b": 2}}),
        ("outputs/healthy", "outputs/healthy"),
        ("{broken", "{broken"),
        ("['\\d']", ["\\d"]),
        ("[" * 9_000, "[" * 9_000),
        ("{" + "1," * 9_000, "{" + "1," * 9_000),
    ],
)
def test_a_parameter_is_what_it_spells(spelled: str, value: object) -> None:
    assert literal(spelled) == value


@given(st.text(max_size=60))
def test_no_parameter_breaks_anything(spelled: str) -> None:
    literal(spelled)
    literal("{" + spelled)
    literal(f"['{spelled}']")
