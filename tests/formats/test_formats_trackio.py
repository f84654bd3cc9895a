"""trackio's databases and inboxes: what the real ones hold, and what they do while a run goes on."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pytest
from format_reading import fed, of
from hypothesis import given
from hypothesis import strategies as st
from runs import unpack_sample
from tracker_samples import known

from grpo_top.config import Settings
from grpo_top.formats.base import RunContext
from grpo_top.formats.registry import choose
from grpo_top.intake import recognise
from grpo_top.monitor import Monitor
from grpo_top.records import Eval, Rollout, Run, Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_top.records import Record
    from grpo_top.snapshot import Snapshot

TRL = {"train/reward": 0.5, "train/kl": 0.1, "train/frac_reward_zero_std": 0.0}
TABLE = [
    {"step": 10, "prompt": "2+2?", "completion": answer, "accuracy": reward, "advantage": advantage}
    for answer, reward, advantage in (("4", 1.0, 0.7), ("5", 0.0, -0.7))
]


class Project:
    """A database as trackio makes it, and a connection that writes to it as trackio does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.executescript(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp TEXT NOT NULL,"
            " run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL, log_id TEXT, space_id TEXT);"
            "CREATE TABLE configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, run_name TEXT NOT NULL,"
            " config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id));"
            "CREATE TABLE system_metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, metrics TEXT);"
        )

    def begin(self, run: str, minute: int, **config: Any) -> None:
        created = f"2026-11-30T12:{minute:02}:00+00:00"
        self.connection.execute(
            "INSERT INTO configs (run_id, run_name, config, created_at) VALUES (?, ?, ?, ?)",
            (f"id-{run}", run, json.dumps(config).encode(), created),
        )

    def log(self, run: str, step: int, metrics: dict[str, Any] | bytes) -> None:
        stored = metrics if isinstance(metrics, bytes) else json.dumps(metrics).encode()
        self.connection.execute(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)",
            (f"id-{run}", "2026-11-30T12:09:49+00:00", run, step, stored),
        )


@pytest.fixture(autouse=True)
def _no_rest_between_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_top.sources.database._REST", 0)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    found = Project(tmp_path / "grpo.db")
    with closing(found.connection):
        yield found


def records(path: Path, wanted: str | None = None) -> list[Record]:
    """Everything that a reader of the database finds."""
    chosen = recognise(path, None)
    assert chosen is not None
    assert (chosen[0].name, chosen[1].feed) == ("trackio", "database")
    reader = chosen[0].reader(path, chosen[1], RunContext(wanted=wanted))
    found = []
    while came := reader.poll(path, last=True):
        found += came
    return found + reader.end()


def snapshot(monitor: Monitor) -> Snapshot:
    while monitor.poll(1.0):
        pass
    return monitor.snapshot()


# The database


def test_step_counts_log_calls_and_the_trainers_step_is_inside(project: Project) -> None:
    project.log("a", 21, TRL | {"train/global_step": 20, "train/epoch": 0.1})
    project.log("a", 22, {"eval/reward": 0.8, "train/global_step": 20, "train/epoch": 0.1})
    project.log("a", 23, TRL | {"train/global_step": 21, "train/epoch": 0.1})
    project.log("a", 24, {"train/global_step": 21, "train/epoch": 0.1})
    found = records(project.path)
    assert [step.step for step in of(Step, found)] == [20, 21]
    assert [(evaluation.step, evaluation.metrics) for evaluation in of(Eval, found)] == [
        (20, {"reward": 0.8})
    ]


def test_train_and_evaluation_with_one_step_are_two_rows(project: Project) -> None:
    project.log("a", 20, TRL | {"train/epoch": 0.1})
    project.log("a", 20, {"eval/reward": 0.8, "train/epoch": 0.1})
    assert [record.step for record in records(project.path) if isinstance(record, Step | Eval)] == [20, 20]


def test_numbers_that_are_not_finite_are_words(project: Project) -> None:
    project.log("a", 1, TRL | {"train/kl": "NaN", "train/loss": "-Infinity", "train/entropy": None})
    (step,) = of(Step, records(project.path))
    assert math.isnan(step.metrics["kl"])
    assert (step.metrics["loss"], step.metrics["entropy"]) == (-math.inf, None)


def test_json_is_read_as_a_blob_and_as_a_text(project: Project) -> None:
    project.log("a", 1, TRL)
    project.connection.execute("UPDATE metrics SET metrics = CAST(metrics AS TEXT)")
    assert len(of(Step, records(project.path))) == 1


def test_of_several_runs_the_newest_is_read_or_the_one_that_is_named(project: Project) -> None:
    for minute, run in ((5, "new"), (1, "old")):
        project.begin(run, minute, temperature=float(minute))
        project.log(run, minute, TRL)
    run = of(Run, records(project.path))[0]
    assert (run.run, run.sampling) == ("new", {"temperature": 5.0})
    assert [step.step for step in of(Step, records(project.path, "old"))] == [1]
    assert [step.step for step in of(Step, records(project.path, "id-old"))] == [1]


def test_the_runs_that_are_not_read_are_named(project: Project, tmp_path: Path) -> None:
    project.begin("old", 1)
    project.begin("new", 2)
    project.log("new", 1, TRL)
    (source,) = snapshot(Monitor([str(tmp_path)], Settings())).sources
    assert source.note == "new is read, not old; --run NAME reads another"


def test_a_project_of_an_early_version_knows_runs_by_their_name(tmp_path: Path) -> None:
    path = tmp_path / "early.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT);"
            "CREATE TABLE configs (id INTEGER PRIMARY KEY, run_name TEXT, config TEXT, created_at TEXT);"
            "CREATE TABLE system_metrics (id INTEGER PRIMARY KEY);"
        )
        connection.execute("INSERT INTO metrics VALUES (1, '2026-11-30', 'a', 7, ?)", (json.dumps(TRL),))
    assert [step.step for step in of(Step, records(path))] == [7]


def test_a_row_that_cannot_be_read_is_skipped_and_the_next_one_read(project: Project) -> None:
    for step, metrics in enumerate((TRL, b"{", b"[]", b"\xff", b"{}", TRL)):
        project.log("a", step, metrics)
    found = [type(record) for record in records(project.path) if not isinstance(record, Run)]
    assert found == [Step, Skipped, Skipped, Skipped, Step]


# While the run goes on


def test_a_database_is_followed_row_by_row(project: Project, tmp_path: Path) -> None:
    project.begin("a", 1, temperature=1.0)
    monitor = Monitor([str(tmp_path)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__)
    before = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    for step in range(1, 6):
        project.log("a", step - 1, TRL | {"train/global_step": step})
        seen = snapshot(monitor)
        assert seen.run.last_step == step
        assert {path.name: path.stat().st_ino for path in tmp_path.iterdir()} == before
    assert known(seen, "reward_mean") == dict.fromkeys(range(1, 6), 0.5)
    assert seen.skipped_count == 0


def test_a_run_that_begins_later_is_not_mixed_in(project: Project, tmp_path: Path) -> None:
    project.begin("a", 1)
    project.log("a", 1, TRL)
    monitor = Monitor([str(tmp_path)], Settings())
    assert snapshot(monitor).run.last_step == 1
    project.begin("b", 2)
    project.log("b", 50, TRL)
    project.log("a", 2, TRL)
    seen = snapshot(monitor)
    assert seen.run.last_step == 2
    assert seen.sources[0].note.startswith("a is read, not b;")


def test_a_database_that_begins_empty_is_recognised_when_it_has_tables(tmp_path: Path) -> None:
    path = tmp_path / "grpo.db"
    path.touch()
    monitor = Monitor([str(tmp_path)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__)
    snapshot(monitor)
    project = Project(path)
    project.log("a", 1, TRL)
    project.connection.close()
    assert snapshot(monitor).run.last_step == 1


def test_a_database_that_was_deleted_and_made_anew_begins_again(tmp_path: Path) -> None:
    first = Project(tmp_path / "grpo.db")
    for step in (1, 2, 3):
        first.log("a", step, TRL)
    first.connection.close()
    monitor = Monitor([str(tmp_path)], Settings())
    assert snapshot(monitor).run.last_step == 3
    first.path.unlink()
    snapshot(monitor)
    again = Project(tmp_path / "grpo.db")
    again.log("a", 1, TRL | {"train/reward": 0.9})
    again.connection.close()
    seen = snapshot(monitor)
    assert known(seen, "reward_mean")[1] == 0.9


def test_a_database_that_turns_into_something_else_is_an_error_in_words(
    project: Project, tmp_path: Path
) -> None:
    project.log("a", 1, TRL)
    monitor = Monitor([str(tmp_path)], Settings())
    snapshot(monitor)
    project.connection.execute("DROP TABLE metrics")
    (source,) = snapshot(monitor).sources
    assert source.state == "error"
    assert "no such table: metrics" in source.note


# Tables of completions


def test_a_table_among_the_numbers_is_rollouts_and_each_is_found_again(
    project: Project, tmp_path: Path
) -> None:
    project.log("a", 9, TRL | {"train/global_step": 10, "train/rewards/accuracy/mean": 0.5})
    project.log("a", 10, {"completions": {"_type": "trackio.table", "_value": TABLE}})
    seen = snapshot(Monitor([str(tmp_path)], Settings()))
    batch = seen.batch(10)
    assert batch is not None
    found = [seen.read(int(row)) for row in batch.rows]
    assert [(rollout.completion, rollout.rewards, rollout.advantage) for rollout in found] == [
        ("4", {"accuracy": 1.0}, 0.7),
        ("5", {"accuracy": 0.0}, -0.7),
    ]


def test_other_tables_are_let_pass(project: Project) -> None:
    project.log(
        "a",
        9,
        {"scores": {"_type": "trackio.table", "_value": [{"name": "x"}]}, "t": {"_type": "trackio.table"}},
    )
    assert of(Rollout, records(project.path)) == []


# Traces of TRL's asynchronous trainer: written by hand after its source


def trace(number: int, group: int, reward: float, version: int) -> dict[str, Any]:
    call = {"type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
    return {
        "_type": "trackio.trace",
        "messages": [
            {"role": "system", "content": "Use the tool."},
            {"role": "user", "content": f"2+{group}?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "4"},
            {"role": "assistant", "content": f"It is {number}."},
        ],
        "metadata": {
            "reward": reward,
            "reward_std": 0.5,
            "rewards/accuracy": reward,
            "tools/call_frequency": 1.0,
            "advantage": 2 * reward - 1,
            "group_id": group,
            "model_version": version,
            "prompt_tokens": 12,
            "completion_tokens": 30 + number,
        },
        "spans": [],
    }


def traced(project: Project, step: int, *traces: dict[str, Any], key: str = "rollouts") -> None:
    project.connection.execute(
        "CREATE TABLE IF NOT EXISTS traces (id TEXT PRIMARY KEY, run_id TEXT NOT NULL, timestamp TEXT NOT NULL,"
        " run_name TEXT NOT NULL, step INTEGER NOT NULL, key TEXT NOT NULL, trace_index INTEGER,"
        " messages TEXT NOT NULL, metadata TEXT NOT NULL, search_text TEXT, log_id TEXT, space_id TEXT, spans TEXT)"
    )
    for index, one in enumerate(traces):
        stored = [json.dumps(one[name]).encode() for name in ("messages", "metadata")]
        project.connection.execute(
            "INSERT INTO traces VALUES (?, 'id-a', '2026-11-30T12:09:49', 'a', ?, ?, ?, ?, ?, '', NULL, NULL, '[]')",
            (f"a:{step}:{key}:{index}", step, key, index, *stored),
        )
    project.log("a", step, {})


def seen_in_traces(rollouts: list[Rollout]) -> None:
    assert [(found.step, found.group, found.reward, found.rewards) for found in rollouts] == [
        (9, "3", 1.0, {"accuracy": 1.0}),
        (9, "3", 0.0, {"accuracy": 0.0}),
    ]
    first = rollouts[0]
    assert (first.policy_version, first.trainer_version, first.advantage) == (7, 8, 1.0)
    assert (first.prompt_tokens, first.completion_tokens) == (12, 30)
    assert first.prompt == "Use the tool.\n2+3?"
    assert first.completion == 'add({"a": 2, "b": 2})\nIt is 0.'
    assert [turn.role for turn in first.messages or ()] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_traces_of_the_asynchronous_trainer_are_rollouts_and_each_is_found_again(
    project: Project, tmp_path: Path
) -> None:
    project.log("a", 9, {"train/reward": 0.5, "train/sample/staleness_mean": 1.0, "train/global_step": 9})
    traced(project, 8, trace(0, 3, 1.0, 7), trace(1, 3, 0.0, 7))
    monitor = Monitor([str(tmp_path)], Settings())
    seen = snapshot(monitor)
    batch = seen.batch(9)
    assert batch is not None
    seen_in_traces([seen.read(int(row)) for row in batch.rows])
    traced(project, 16, trace(2, 4, 1.0, 16), key="later")
    assert snapshot(monitor).rollouts.length == 3


def test_traces_that_trackio_itself_wrote_are_read_and_their_copies_are_not(tmp_path: Path) -> None:
    """Written by trackio 0.43 as TRL's asynchronous trainer calls it; what is in them is made up."""
    unpack_sample("trackio-traces", tmp_path)
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    seen = monitor.snapshot(finished=True)
    assert seen.left_out == ()
    assert [source.where for source in seen.sources] == ["async.db"]
    assert (seen.run.steps, seen.run.rollouts, seen.run.version_lag_tolerance) == (3, 16, 3.0)
    found = seen.read(9)
    assert isinstance(found, Rollout)
    assert (found.step, found.group, found.reward, found.policy_version) == (3, "0", 1.0, 2)
    assert (found.prompt, found.completion, found.completion_tokens) == ("2+0?", "4", 7)


def test_traces_are_a_few_of_each_steps_rollouts_so_the_trainers_numbers_stand(
    project: Project, tmp_path: Path
) -> None:
    project.begin("a", 1, num_generations=16, max_completion_length=64)
    for step in range(1, 12):
        logged = {"train/reward": 0.25, "train/sample/staleness_mean": 1.0, "train/global_step": step}
        project.log("a", step, logged)
        traced(project, step - 1, trace(0, step, 1.0, step - 1), trace(1, step, 1.0, step - 1))
    seen = snapshot(Monitor([str(tmp_path)], Settings()))
    assert set(known(seen, "reward_mean").values()) == {0.25}
    assert seen.rollouts.length == 22
    alarms = {"GROUP_INTEGRITY", "LOGGED_REWARD_MISMATCH"}
    assert not alarms & {finding.id for finding in seen.findings}


def test_traces_without_a_reward_are_other_conversations(project: Project) -> None:
    chat = trace(0, 3, 1.0, 7)
    del chat["metadata"]["reward"]
    traced(project, 8, chat)
    assert of(Rollout, records(project.path)) == []


def test_traces_among_the_numbers_are_read_as_those_of_a_table_of_their_own(project: Project) -> None:
    project.log("a", 8, {"rollouts": [trace(0, 3, 1.0, 7), trace(1, 3, 0.0, 7)], "other": 1.0})
    found = of(Rollout, records(project.path))
    seen_in_traces(found)
    assert [rollout.location.part for rollout in found] == [0, 1]


def test_traces_in_the_inbox_are_rollouts(project: Project) -> None:
    logged = {"rollouts": [trace(0, 3, 1.0, 7), trace(1, 3, 0.0, 7)]}
    seen_in_traces(of(Rollout, read_fragments(fragment(metrics=logged, step=8))))


# The inbox


def fragment(**fields: Any) -> bytes:
    record = {
        "v": 1,
        "kind": "metric",
        "project": "p",
        "run": "a",
        "run_id": "id-a",
        "metrics": TRL | {"train/global_step": 9},
        "step": 8,
        "timestamp": "2026-11-30T12:02:29+00:00",
        "config": None,
    }
    return json.dumps(record | fields).encode() + b"\n"


def read_fragments(*contents: bytes, context: RunContext | None = None) -> list[Record]:
    context = context or RunContext()
    readers = []
    for number, data in enumerate(contents):
        path = PurePath(f"inbox/082ef8b6/{number:08}.jsonl")
        format_, claim = choose(path, data)
        assert (format_.name, claim.feed) == ("trackio", "lines")
        readers.append((format_.reader(path, claim, context), data))
    return [record for reader, data in readers for record in fed(reader, data)]


def test_only_the_first_record_carries_the_config_and_all_fragments_are_one_run() -> None:
    found = read_fragments(
        fragment(config={"temperature": 0.7}), fragment(step=9, metrics=TRL | {"train/global_step": 10})
    )
    assert [run.sampling for run in of(Run, found)] == [{"temperature": 0.7}] * 2
    assert [run.framework for run in of(Run, found)] == [None, "trl"]
    assert [step.step for step in of(Step, found)] == [9, 10]


def test_the_machines_numbers_and_other_runs_in_the_inbox_are_let_pass() -> None:
    found = read_fragments(
        fragment(kind="system_metric"),
        fragment(run_id="id-b", run="b", timestamp="2026-11-30T11:00:00+00:00"),
        fragment(),
    )
    assert [step.step for step in of(Step, found)] == [9]


def test_a_table_in_the_inbox_is_rollouts_and_each_is_found_again(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox" / "082ef8b6"
    inbox.mkdir(parents=True)
    table = {"completions": {"_type": "trackio.table", "_value": TABLE}}
    (inbox / "00000000.jsonl").write_bytes(fragment() + fragment(metrics=table, step=9))
    seen = snapshot(Monitor([str(tmp_path)], Settings()))
    assert [seen.read(row).completion for row in range(2)] == ["4", "5"]


def test_fragments_that_were_imported_and_deleted_do_not_count_twice(
    project: Project, tmp_path: Path
) -> None:
    inbox = tmp_path / "inbox" / "082ef8b6"
    inbox.mkdir(parents=True)
    (inbox / "00000000.jsonl").write_bytes(fragment())
    monitor = Monitor([str(tmp_path)], Settings(), clock=iter(float(tick) for tick in range(10**9)).__next__)
    snapshot(monitor)
    project.log("a", 8, TRL | {"train/global_step": 9})
    (inbox / "00000000.jsonl").unlink()
    seen = snapshot(monitor)
    assert known(seen, "reward_mean") == {9: 0.5}


@given(
    st.dictionaries(
        st.sampled_from(["metrics", "step", "config", "run_id", "timestamp"]),
        st.none() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_fields_of_any_kind_break_nothing(fields: dict[str, Any]) -> None:
    read_fragments(fragment(**fields))


def test_the_time_is_the_batchs_that_it_was_written_with_and_is_no_steps(project: Project) -> None:
    for step in (1, 2):
        project.log("a", step, TRL | {"train/global_step": step})
    assert [step.time for step in of(Step, records(project.path))] == [None, None]


def test_a_record_that_is_in_the_inbox_twice_counts_once(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox" / "082ef8b6"
    inbox.mkdir(parents=True)
    (inbox / "00000000.jsonl").write_bytes(fragment(log_id="x") * 2)
    seen = snapshot(Monitor([str(tmp_path)], Settings()))
    assert known(seen, "reward_mean") == {9: 0.5}
    assert "STEP_RESTART" not in {finding.id for finding in seen.findings}
