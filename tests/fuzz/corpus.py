"""What the fuzzer begins with: small parts of real logs of every framework, of recorded runs, and of engines."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.demo.recordings import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent.parent / "data"
FILE_BYTES = 24 << 10
"""Of a longer log only the first lines are taken; a binary file is taken up to ten times that, or cut."""
MOST_FILES = 6
"""Of a run, its first files: those of one kind are alike."""

Run = dict[str, bytes]
"""Name of a file → what is in it."""


def runs() -> Iterator[tuple[str, Run]]:
    """Every run of the corpus, by name."""
    for archive in sorted((DATA / "samples").glob("*.tar.xz")):
        found = _unpacked(archive.read_bytes())
        if found:
            yield archive.name.removesuffix(".tar.xz"), found
    for folder in sorted(path for path in (DATA / "formats").iterdir() if path.is_dir()):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for file in files:
            raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            yield f"{folder.name}-{file.name}", {file.name.removesuffix(".gz"): _head(raw)}
    for recording in RECORDINGS:
        yield recording.name, {"rollouts.jsonl": _head(b"\n".join(recording.lines()) + b"\n")}


def _unpacked(packed: bytes) -> Run:
    found: Run = {}
    kinds: dict[tuple[str, int], int] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is None:
                continue
            kind = (Path(member.name).suffix, member.name.count("/"))
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] <= MOST_FILES:
                found[member.name.removeprefix("./")] = _head(file.read())
    return found


def _head(data: bytes) -> bytes:
    if len(data) <= FILE_BYTES:
        return data
    if b"\x00" in data[:4096] or data.startswith(b"PAR1"):
        return data[: 10 * FILE_BYTES]
    end = data.find(b"\n", FILE_BYTES)
    return data if end < 0 else data[: end + 1]
