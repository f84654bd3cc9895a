"""No input crashes or hangs it: what is too deep, too long, too large or no number is skipped with a reason."""

from __future__ import annotations

import math
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from runs import read, recorded_lines

from grpo_top.formats import parquet
from grpo_top.formats.parquet import parquet_rows

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

PACKAGE = Path(__file__).parent.parent.parent / "grpo_top"
RUN = b'{"kind":"run","schema":"grpo-top/1","run":"r","group_size":2}\n'
GOOD = b"".join(
    b'{"kind":"rollout","step":%d,"group":"a","index":%d,"reward":%d,"completion":"x"}\n'
    % (step, index, index)
    for step in (1, 2)
    for index in (0, 1)
)
DEEP = b"[" * 100_000 + b"]" * 100_000


def _of(folder: Path, **files: bytes) -> Snapshot:
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    return read(folder)


def _rollout(**values: bytes) -> bytes:
    fields = {"kind": b'"rollout"', "step": b"7", "group": b'"a"', "index": b"0", "reward": b"1"} | values
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), value) for name, value in fields.items()) + b"}\n"


def test_a_value_nested_100_000_deep_costs_its_line_alone(tmp_path: Path) -> None:
    lines = RUN + _rollout(extra=DEEP) + _rollout(group=DEEP) + b'{"a":' * 100_000 + b"\n" + GOOD
    config = b"algorithm:\n  adv_estimator: grpo\n  x: " + DEEP[:10_000] + DEEP[-10_000:]
    state = b'{"log_history": [{"step": 1, "loss": 0.1}], "global_step": 1, "x": ' + DEEP + b"}"
    snapshot = _of(tmp_path, a__jsonl=lines, config__yaml=config, trainer_state__json=state)
    assert snapshot.run.rollouts == 4
    assert snapshot.skipped_count >= 3
    assert not snapshot.defects
    assert all("defect" not in source.note for source in snapshot.sources)


NO_NUMBERS = (
    b"1e999",
    b"-1e999",
    b"1" + b"0" * 400,
    b"NaN",
    b"-Infinity",
    b"1e-999",
    b'"nan"',
    b"true",
    b"[]",
    b"{}",
)


@pytest.mark.parametrize("field", ["reward", "step", "index", "completion_tokens", "policy_version", "seed"])
def test_what_is_no_number_is_never_one(field: str, tmp_path: Path) -> None:
    lines = b"".join(_rollout(**{field: value}) for value in NO_NUMBERS)
    steps = b"".join(b'{"kind":"step","step":7,"metrics":{"kl":%s}}\n' % value for value in NO_NUMBERS)
    snapshot = _of(tmp_path, a__jsonl=RUN + lines + steps + GOOD)
    assert snapshot.run.last_step == 7
    assert snapshot.run.rollouts >= 4
    assert all(
        abs(value) <= 1e150 or not math.isfinite(value) for value in snapshot.rollouts.columns["reward"]
    )
    assert snapshot.rollouts.columns["step"].max() <= 7


def test_of_keys_that_come_twice_the_last_holds(tmp_path: Path) -> None:
    snapshot = _of(
        tmp_path, a__jsonl=RUN + GOOD + b'{"kind":"rollout","step":3,"step":4,"group":"a","reward":1}\n'
    )
    assert snapshot.run.last_step == 4


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "latin-1", "utf-8"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_an_encoding_is_read_or_said_to_be_none(encoding: str, newline: bytes, tmp_path: Path) -> None:
    text = (
        RUN + GOOD
    ).decode() + '{"kind":"rollout","step":3,"group":"ü","reward":1,"completion":"naïve \\ud800"}\n'
    data = (
        text.encode(encoding).replace(b"\n", newline)
        if "16" not in encoding and "32" not in encoding
        else b""
    )
    snapshot = _of(tmp_path, good__jsonl=RUN + GOOD, other__jsonl=data or text.encode(encoding))
    assert snapshot.run.rollouts == (5 if data else 4)
    if not data:
        assert "other.jsonl" in " ".join(snapshot.left_out) or snapshot.skipped_count


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_of_a_gigabyte_is_let_go_whether_it_ends_or_not(end: bytes, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    with log.open("wb") as file:
        file.write(RUN + GOOD + b'{"x":"')
        file.seek(80 << 20, 1)  # past the limit by far; a hole takes no room
        file.write(b"x" + end + (GOOD.replace(b'"step":2', b'"step":3') if end else b""))
    snapshot = read(tmp_path)
    (skipped,) = snapshot.skipped
    assert re.fullmatch(r"line of 83,88\d,\d{3} bytes, longer than is read", skipped.reason)
    assert snapshot.run.last_step == (3 if end else 2)


@pytest.mark.parametrize(("limit", "at_most"), [("MOST_VALUES", 20), ("LARGEST", 2000)])
def test_a_table_that_stands_for_too_much_is_not_unpacked(
    limit: str, at_most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq  # noqa: PLC0415

    monkeypatch.setattr(parquet, limit, at_most)
    path = tmp_path / "a.parquet"
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array(["x" * 50]))
    pq.write_table(pa.table({"completion": values}), path)
    assert path.stat().st_size < 1000
    with pytest.raises(ValueError, match=r"not a readable parquet file: .*(?:not read|more than)"):
        parquet_rows(path.read_bytes())


def test_a_database_that_is_cut_or_scribbled_over_stops_nobody_else(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "whole.db")) as connection:
        connection.execute("create table metrics (run_name text, step integer, metrics text, timestamp text)")
        connection.executemany(
            "insert into metrics values ('r', ?, '{}', '')", [(step,) for step in range(500)]
        )
        connection.commit()
    data = (tmp_path / "whole.db").read_bytes()
    files: dict[str, Any] = {
        f"cut{size}__db": data[:size] for size in (50, 4096, len(data) // 2, len(data) - 100)
    }
    files |= {
        f"bad{at}__db": data[:at] + b"\xff" * 300 + data[at + 300 :] for at in (20, 4100, len(data) // 2)
    }
    snapshot = _of(tmp_path, a__jsonl=RUN + GOOD, **files)
    assert snapshot.run.rollouts == 4
    assert all("defect" not in source.note for source in snapshot.sources)


def test_nothing_in_the_package_makes_code_or_objects_of_data() -> None:
    words = re.compile(
        r"\b(?:pickle|cPickle|dill|cloudpickle|joblib|marshal|shelve)\.|torch\.load|allow_pickle\s*=\s*True|"
        r"(?<![\w.])(?:eval|exec|compile)\(|yaml\.(?:unsafe_load|full_load|UnsafeLoader|FullLoader|Loader\b)"
    )
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if words.search(line)
    ]
    assert found == []


def test_a_recorded_run_is_read_whatever_stands_between_its_lines(tmp_path: Path) -> None:
    lines = recorded_lines("healthy")[:600]
    between = [b"\xef\xbb\xbf", b"\x00" * 64, b"\xff\xfe", b"[" * 3000, b"null", b'"x', b"\r", b"{}"]
    mixed = [part for number, line in enumerate(lines) for part in (line, between[number % len(between)])]
    (tmp_path / "plain").mkdir()
    (tmp_path / "mixed").mkdir()
    plain = _of(tmp_path / "plain", a__jsonl=b"\n".join(lines) + b"\n")
    found = _of(tmp_path / "mixed", a__jsonl=b"\n".join(mixed) + b"\n")
    assert found.run.rollouts == plain.run.rollouts > 0
    assert found.run.last_step == plain.run.last_step
