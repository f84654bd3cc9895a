"""Files that are damaged, packed to expand without end, or something else by the time they are read again."""

from __future__ import annotations

import gzip
import io
import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from runs import DATA, group, read, run_record, step_record, unpack_sample, write_log

from grpo_top.config import Settings
from grpo_top.formats import parquet
from grpo_top.formats.parquet import parquet_table
from grpo_top.monitor import Monitor
from grpo_top.records import Rollout
from grpo_top.snapshot import Gone
from grpo_top.sources.access import read_head, read_range, read_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def lines() -> bytes:
    records = [run_record(group_size=2)]
    for step in range(1, 41):
        records += [*group(step, f"{step}", (0, 1), prompt=os.urandom(40).hex()), step_record(step, kl=0.1)]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    ".GZ": gzip.compress,
}


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_packed_log_that_is_damaged_is_read_up_to_there_and_ends_nothing(
    suffix: str, tmp_path: Path
) -> None:
    write_log(tmp_path / "beside.jsonl", [step_record(step, entropy=0.2) for step in range(1, 4)])
    plain, frame = lines(), PACKERS[suffix](lines())
    second = bytearray(frame)
    second[len(second) // 2 : len(second) // 2 + 60] = os.urandom(60)
    for damaged, at_least in ((PACKERS[suffix](plain) + bytes(second), 80), (bytes(second), 0)):
        (tmp_path / f"log.jsonl{suffix}").write_bytes(damaged)
        snapshot = read(tmp_path)
        assert snapshot.run.last_step is not None
        assert snapshot.run.rollouts >= at_least
        packed = [source for source in snapshot.sources if source.where != "beside.jsonl"]
        assert all(source.state == "error" and "damaged" in source.note for source in packed)
        assert all(isinstance(snapshot.read(row), Rollout | Gone) for row in range(snapshot.rollouts.length))


@pytest.mark.parametrize("suffix", PACKERS)
def test_any_part_of_a_packed_file_is_that_of_the_plain_one(suffix: str, tmp_path: Path) -> None:
    plain = lines()
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes(PACKERS[suffix](plain[:5000]) + PACKERS[suffix](plain[5000:]))
    assert read_whole(path) == plain
    assert read_head(path, 6000) == plain[:6000]
    for offset, length in ((0, 10), (4990, 20), (6000, 7000), (len(plain) - 5, 50), (len(plain) + 5, 5)):
        assert read_range(path, offset, length) == plain[offset : offset + length]


def test_what_is_something_else_by_the_time_it_is_read_again_is_gone(tmp_path: Path) -> None:
    unpack_sample("trl-normal", tmp_path)
    snapshot = read(tmp_path)
    assert isinstance(snapshot.read(0), Rollout)
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(b"PAR1" + os.urandom(400) + b"PAR1")
    found = snapshot.read(0)
    assert isinstance(found, Gone)
    assert "its numbers still stand" in found.reason


def test_a_parquet_file_whose_index_is_damaged_is_refused_and_does_not_end_the_process() -> None:
    """The fuzzer's find: what pyarrow tells of a column's parts ends the process here, and is not to be asked for."""
    with pytest.raises(ValueError, match="not a readable parquet file"):
        parquet_table(gzip.decompress((DATA / "damaged.parquet.gz").read_bytes()))


def _parquet(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="zstd", dictionary_pagesize_limit=64 << 20)
    return stream.getvalue()


def test_a_few_bytes_of_parquet_never_become_more_than_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    large, rows = "x" * (1 << 20), 40
    texts = _parquet(pa.table({"step": [1] * rows, "prompt": [large] * rows}))
    nested = _parquet(pa.table({"messages": [[{"role": "user", "content": large}]] * rows}))
    monkeypatch.setattr(parquet, "LARGEST", 4 << 20)
    for data in (texts, nested):
        assert len(data) < 100_000
        pool = pa.system_memory_pool()
        pa.set_memory_pool(pool)
        before = pool.max_memory()
        with pytest.raises(ValueError, match="values of more than"):
            parquet_table(data)
        assert pool.max_memory() - before < 24 << 20


@pytest.mark.parametrize(
    "how", [{}, {"row_group_size": 1}, {"row_group_size": 500}, {"use_dictionary": False}]
)
def test_texts_of_many_rows_come_out_as_they_went_in(how: dict[str, Any]) -> None:
    rows = range(1500)
    table = pa.table(
        {
            "prompt": [os.urandom(500).hex() for _ in rows],
            "messages": [[{"content": os.urandom(500).hex()}, {"content": "same"}] for _ in rows],
        }
    )
    stream = io.BytesIO()
    pq.write_table(table, stream, **how)
    assert parquet_table(stream.getvalue()).rows == table.to_pylist()


def test_texts_that_rows_share_come_out_as_they_went_in() -> None:
    table = pa.table(
        {
            "prompt": ["a", "b", "a", None],
            "messages": [[{"role": "user", "content": "x"}]] * 3 + [None],
            "tags": pa.array([["p"], ["p", "q"], [], None]),
            "kind": pa.array(["k", "k", None, "l"]).dictionary_encode(),
            "level": pa.array([1, 1, 2, None], pa.int8()).dictionary_encode(),
            "reward": [0.5, 1.0, None, 0.0],
        }
    )
    found = parquet_table(_parquet(table))
    assert found.rows == table.to_pylist()
    assert found.floating == {"reward"}


def test_a_pipe_among_a_trackers_metrics_is_not_opened(tmp_path: Path) -> None:
    run = tmp_path / "mlruns" / "0" / "abc"
    (run / "metrics").mkdir(parents=True)
    (run / "meta.yaml").write_text(
        "run_id: abc\nrun_name: r\nexperiment_id: '0'\nlifecycle_stage: active\nstatus: 1\n"
    )
    (run / "metrics" / "loss").write_text("1700000000000 0.5 1\n1700000001000 0.4 2\n")
    os.mkfifo(run / "metrics" / "pipe")
    (run / "metrics" / "endless").symlink_to("/dev/zero")
    assert read(tmp_path).run.last_step == 2


@pytest.mark.defects
def test_a_file_at_which_a_format_fails_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path, *_: object) -> None:
        if path.name == "odd.jsonl":
            raise RuntimeError("what a model wrote")
        return recognised(path, *_)

    from grpo_top import reading  # noqa: PLC0415

    recognised = reading.recognise
    monkeypatch.setattr(reading, "recognise", fails)
    write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    (tmp_path / "odd.jsonl").write_text("{}\n")
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    (named,) = monitor.snapshot().left_out
    assert named.startswith("odd.jsonl is not read: RuntimeError at ")
    assert "what a model wrote" not in named
    assert monitor.snapshot().run.rollouts == 2
