"""How the tests of the formats read files: chosen by content, fed as the monitor feeds them."""

from __future__ import annotations

import gzip
import json
import tarfile
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar

from grpo_top.formats.base import Lines, RunContext
from grpo_top.formats.registry import choose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grpo_top.formats.base import Reader
    from grpo_top.records import Record

DATA = Path(__file__).parent.parent / "data" / "formats"
HEAD = 64 << 10

T = TypeVar("T")


def lines(*records: object) -> bytes:
    """Records as JSON lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@cache
def sample(name: str) -> bytes:
    """A real file of tests/data/formats, decompressed."""
    path = DATA / name
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@cache
def packed(run: str, name: str) -> bytes:
    """One file of a real run in tests/data/samples."""
    with tarfile.open(DATA.parent / "samples" / f"{run}.tar.xz") as archive:
        file = archive.extractfile(name)
        assert file is not None, name
        return file.read()


def batches(data: bytes, cuts: Iterable[int] = ()) -> list[Lines]:
    """The whole lines of `data`, in batches that end after the lines numbered in `cuts`."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    ends = sorted({cut for cut in cuts if 0 < cut < len(lines)} | {len(lines)})
    found, start, offset = [], 0, 0
    for end in ends:
        found.append(Lines(offset, lines[start:end], start + 1))
        offset += sum(len(line) + 1 for line in lines[start:end])
        start = end
    return found


def fed(reader: Reader, data: bytes, cuts: Iterable[int] = ()) -> list[Record]:
    """Everything that a reader makes of a file of lines."""
    found: list[Record] = []
    for lines in batches(data, cuts):
        found += reader.feed(lines)
    return found + reader.end()


def opened(name: str, data: bytes, context: RunContext | None = None) -> Reader:
    """The reader that is chosen for a file of that name and content."""
    path = PurePath(name)
    chosen = choose(path, data[:HEAD])
    assert chosen is not None, f"nothing reads {name}"
    return chosen[0].reader(path, chosen[1], context or RunContext())


def read(name: str, data: bytes, context: RunContext | None = None) -> list[Record]:
    """The records of a file, by whichever format and way of feeding its content asks for."""
    chosen = choose(PurePath(name), data[:HEAD])
    assert chosen is not None, f"nothing reads {name}"
    reader = chosen[0].reader(PurePath(name), chosen[1], context or RunContext())
    return reader.whole(data) if chosen[1].feed == "whole" else fed(reader, data)


def of(kind: type[T], records: Sequence[object]) -> list[T]:
    """The records of one kind, in order."""
    return [record for record in records if isinstance(record, kind)]
