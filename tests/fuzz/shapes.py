"""Files that are whole, and not what their readers are used to: tables, stores and streams of odd shapes."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import sqlite3
import struct
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from grpo_top.formats.framed import masked_crc32c
from tests.fuzz.mutations import STRANGE_VALUES

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.fuzz.corpus import Run

FIELDS = (
    *("step", "global_step", "prompt", "completion", "reward", "rewards", "advantage", "group", "index"),
    *("task", "family", "parsed", "finish_reason", "policy_version", "trainer_version", "sampling", "seed"),
    *("messages", "trajectory", "metrics", "kind", "split", "score", "output", "input", "gts", "metadata"),
    *("completion_tokens", "verifier", "accuracy_reward", "loss", "kl", "entropy", "time", ""),
)
"""Names that some reader looks for."""


def made(seed: int) -> tuple[str, Run]:
    """The run of odd shape with this number, and what it is."""
    chance = random.Random(seed)
    kind = chance.choice(tuple(KINDS))
    return kind, KINDS[kind](chance)


def value_of(chance: Random, depth: int = 0) -> Any:
    """A JSON value of any kind, now and then a likely one."""
    kind = chance.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return chance.choice(STRANGE_VALUES)
    if kind < 3:
        return chance.choice((0, 1, 2, 0.5, -3, 1e300, 10**30, 2**63, 2**64, -(2**63), 1e-320))
    if kind < 5:
        return chance.choice(
            ("1", "a", "<answer>4</answer>", "stop", "\ud83d\ude00", "ß" * 70, "\x00", "\u2028")
        )
    if kind == 5:
        return [value_of(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(FIELDS): value_of(chance, depth + 1) for _ in range(chance.randrange(5))}


def row_of(chance: Random) -> dict[str, Any]:
    """A record with likely names."""
    row = {name: value_of(chance) for name in chance.sample(FIELDS, chance.randint(1, 12))}
    if chance.random() < 0.7:
        row |= {"step": chance.randrange(5), "reward": chance.random(), "completion": "a"}
    if chance.random() < 0.5:
        row["kind"] = chance.choice(("run", "rollout", "step", "eval", "grade", "no"))
    return row


def _json_lines(chance: Random) -> Run:
    lines = [
        json.dumps(row_of(chance)).encode("utf-8", "surrogatepass") for _ in range(chance.randint(1, 60))
    ]
    ways: tuple[Callable[[bytes], bytes], ...] = (
        lambda line: line,
        lambda line: b'{"step": 1, "step": 2, "reward": 0, ' + line[1:],  # names that come twice
        lambda line: line.replace(b"0.5", b"NaN").replace(b"1", b"1e999"),
        lambda line: line.decode("utf-8", "replace").encode("utf-16"),
        lambda line: b"\xef\xbb\xbf" + line + b"\r",
        lambda line: b'{"a":' * 100_000,
        lambda line: line[: len(line) // 2] + line,
    )
    weights = (20, 3, 3, 1, 2, 0.2, 1)
    lines = [chance.choices(ways, weights)[0](line) for line in lines]
    return {chance.choice(("log.jsonl", "rollouts.jsonl", "metrics.jsonl", "a/b/5.jsonl")): b"\n".join(lines)}


def _json_whole(chance: Random) -> Run:
    rows = [row_of(chance) for _ in range(chance.randint(0, 20))]
    value = chance.choice(
        (rows, {"log_history": rows}, {"data": rows}, {"metrics": rows, "step": 3}, row_of(chance))
    )
    name = chance.choice(("trainer_state.json", "config.json", "data.json", "metrics.json", "args.json"))
    return {name: json.dumps(value).encode("utf-8", "surrogatepass")}


def _parquet(chance: Random) -> Run:
    size = chance.choice((0, 1, 3, 40))
    types: tuple[tuple[Any, Callable[[], Any]], ...] = (
        (pa.int64(), lambda: chance.choice((0, 1, 2, None, 2**62))),
        (pa.float32(), lambda: chance.choice((0.5, float("nan"), float("inf"), None))),
        (pa.string(), lambda: chance.choice(("a", "", None, "x" * 300, "\x1b[2J"))),
        (pa.binary(), lambda: chance.choice((b"\xff", b"", None))),
        (pa.bool_(), lambda: chance.choice((True, False, None))),
        (pa.null(), lambda: None),
        (pa.decimal128(20, 4), lambda: chance.choice((Decimal("1.5"), None))),
        (pa.timestamp("us", "UTC"), lambda: chance.choice((0, 2**40, None))),
        (pa.date32(), lambda: chance.choice((0, 20_000, None))),
        (pa.list_(pa.float64()), lambda: chance.choice(([], [1.0, None], None))),
        (pa.list_(pa.list_(pa.string())), lambda: chance.choice(([["a"], None, []], None))),
        (pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])), lambda: [{"role": "user"}]),
        (pa.struct([("a", pa.int8()), ("b", pa.list_(pa.int8()))]), lambda: chance.choice(({"a": 1}, None))),
        (pa.map_(pa.string(), pa.float64()), lambda: chance.choice(([("accuracy", 0.5)], [], None))),
        (pa.dictionary(pa.int8(), pa.string()), lambda: chance.choice(("a", "b", None))),
        (pa.large_string(), lambda: "a"),
    )
    names = chance.sample(FIELDS[:-1], chance.randint(0, 8))
    names += chance.sample(names, min(len(names), chance.randrange(2)))  # one name of two columns
    arrays = []
    for _ in names:
        kind, value = chance.choice(types)
        arrays.append(pa.array([value() for _ in range(size)], kind))
    stream = io.BytesIO()
    packed = chance.choice(("none", "snappy", "zstd", "gzip"))
    with contextlib.suppress(pa.ArrowException):
        table = pa.Table.from_arrays(arrays, names=names)
        pq.write_table(table, stream, compression=packed, row_group_size=chance.choice((1, 7, 1000)))
    folder = chance.choice(("", "completions/", "trajectories/train/"))
    return {f"{folder}{chance.choice(('completions_00001', '0001', 'data'))}.parquet": stream.getvalue()}


_TABLES = (
    *(
        "metrics",
        "configs",
        "traces",
        "system_metrics",
        "runs",
        "experiments",
        "params",
        "tags",
        "latest_metrics",
    ),
    *("experiment_tags", "logged_models", "projects", "artifacts", "alembic_version"),
)
_COLUMNS = (
    *(
        "run_uuid",
        "run_id",
        "run_name",
        "key",
        "value",
        "timestamp",
        "step",
        "metrics",
        "config",
        "is_nan",
        "name",
    ),
    *(
        "status",
        "start_time",
        "end_time",
        "created_at",
        "experiment_id",
        "data",
        "id",
        "project",
        "lifecycle_stage",
    ),
)


def _database(chance: Random) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute(f"pragma journal_mode={chance.choice(('delete', 'wal', 'off'))}")
            for table in chance.sample(_TABLES, chance.randint(1, len(_TABLES))):
                columns = chance.sample(_COLUMNS, chance.randint(1, len(_COLUMNS)))
                if chance.random() < 0.1:  # a view where a table should be, that never ends or fails
                    query = chance.choice(("select 1 as step", "select abs(-9223372036854775808) as step"))
                    database.execute(f"create view {table} as {query}")
                    continue
                database.execute(f"create table {table} ({', '.join(columns)})")
                for _ in range(chance.randrange(6)):
                    values = [_cell(chance) for _ in columns]
                    database.execute(f"insert into {table} values ({', '.join('?' * len(columns))})", values)
            database.commit()
            files = {one.name: one.read_bytes() for one in Path(folder).iterdir()}
    name = chance.choice(("mlflow.db", "trackio/p.db", "mlruns.db", "x.sqlite"))
    found = {one.replace("a.db", name): data for one, data in files.items() if chance.random() < 0.9}
    return found or {name: b""}


def _cell(chance: Random) -> Any:
    value = value_of(chance)
    if isinstance(value, dict | list) or (isinstance(value, int) and abs(value) >= 2**63):
        return json.dumps(value)
    if not isinstance(value, str):
        return value
    raw = value.encode("utf-8", "surrogatepass")
    return raw if chance.random() < 0.5 else raw.decode("utf-8", "replace")


def _events(chance: Random) -> Run:
    """Records of TensorBoard's framing, whose bodies and sums are anything."""
    stream = b""
    for _ in range(chance.randint(1, 30)):
        body = _message(chance)
        length = struct.pack("<Q", chance.choice((len(body), len(body), len(body), 2**63, 0, len(body) + 1)))
        sums = [masked_crc32c(length), masked_crc32c(body)]
        if chance.random() < 0.2:
            sums[chance.randrange(2)] ^= 1
        stream += length + struct.pack("<I", sums[0]) + body + struct.pack("<I", sums[1])
    return {"events.out.tfevents.1700000000.host": stream}


def _wandb(chance: Random) -> Run:
    """Records of W&B's framing, cut into blocks, with sums and kinds that are anything."""
    stream = b":W&B\xe1\xbe\x00"
    for _ in range(chance.randint(1, 30)):
        body = _message(chance) * chance.choice((1, 1, 40))
        size = chance.choice((len(body), len(body), len(body), 65_535, 0))
        stream += (
            struct.pack(
                "<IHB", chance.getrandbits(32), size % 65_536, chance.choice((1, 1, 1, 2, 3, 4, 0, 9))
            )
            + body
        )
        if chance.random() < 0.2:
            stream += b"\0" * chance.randrange(40)
    return {"wandb/offline-run-20261130_120000-abcdefgh/run-abcdefgh.wandb": stream}


def _message(chance: Random) -> bytes:
    """Fields of a protocol buffer that has no schema, nested now and then."""
    found = b""
    for _ in range(chance.randrange(6)):
        number, kind = chance.randint(1, 20), chance.choice((0, 1, 2, 2, 2, 5, 3, 7))
        found += bytes([(number << 3 | kind) & 0x7F])
        if kind == 0:
            found += bytes(chance.choice(((1,), (0x80,) * 9 + (1,), (0xFF,) * 12)))
        elif kind == 1:
            found += struct.pack("<d", chance.choice((0.5, float("nan"), 1e300)))
        elif kind == 5:
            found += struct.pack("<f", 0.5)
        elif kind == 2:
            inner = chance.choice((b"train/reward", b"brain.Event:2", json.dumps(value_of(chance)).encode()))
            inner = _message(chance)[:100] if chance.random() < 0.3 else inner[:100]
            found += bytes([len(inner)]) + inner
    return found


def _packed(chance: Random) -> Run:
    """A log in several frames or members, with what else their formats allow between them."""
    plain = b"".join(json.dumps(row_of(chance)).encode() + b"\n" for _ in range(40))
    cuts = sorted(chance.sample(range(len(plain)), 3))
    parts = [plain[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(plain)], strict=True)]
    if chance.random() < 0.5:
        between = chance.choice((b"", struct.pack("<II", 0x184D2A50, 5) + b"12345", b"\0\0\0", b"no frame"))
        packer = zstandard.ZstdCompressor(write_checksum=True, write_content_size=chance.random() < 0.5)
        return {
            "log.jsonl.zst": between.join(packer.compress(part) for part in parts)[
                : chance.choice((None, -5))
            ]
        }
    between = chance.choice((b"", b"\0" * 9, b"\x1f\x8b", b"no member"))
    return {"log.jsonl.gz": between.join(map(gzip.compress, parts))[: chance.choice((None, -5))]}


def _table(chance: Random) -> Run:
    """CSV whose rows are longer and shorter than its head, with quotes that are not closed."""
    names = chance.sample(FIELDS, chance.randint(1, 10))
    separator = chance.choice((",", "\t", ";"))
    rows = [separator.join(names)]
    for _ in range(chance.randint(0, 40)):
        cells = [str(value_of(chance)) for _ in range(chance.randint(0, len(names) + 2))]
        rows.append(separator.join(f'"{cell}"' if chance.random() < 0.2 else cell for cell in cells))
    text = chance.choice(("\n", "\r\n", "\r")).join(rows)
    return {chance.choice(("log.csv", "metrics.tsv", "results.csv")): text.encode("utf-8", "surrogatepass")}


def _settings(chance: Random) -> Run:
    """YAML of many levels, of itself, and of names that come twice."""
    texts = (
        "a: &a [*a]\n",
        "- " * chance.choice((3, 900)) + "1\n",
        "[" * chance.choice((3, 30_000)) + "1\n",
        "<<: {temperature: 1}\nsampling: {<<: [1], temperature: !!float x}\n",
        "actor_rollout_ref:\n  rollout: {temperature: .nan, n: 0x10, top_p: 1_000, top_k: 1:30}\n",
        "? {a: 1}\n: b\n? [x]\n: c\n",
        json.dumps(row_of(chance)) + "\n",
    )
    name = chance.choice(("config.yaml", ".hydra/config.yaml", "params.yml", "meta.yaml"))
    return {name: "".join(chance.choices(texts, k=3)).encode("utf-8", "surrogatepass")}


KINDS: dict[str, Callable[[Random], Run]] = {
    "JSON lines": _json_lines,
    "JSON": _json_whole,
    "parquet": _parquet,
    "database": _database,
    "events": _events,
    "W&B": _wandb,
    "packed": _packed,
    "table": _table,
    "settings": _settings,
}
