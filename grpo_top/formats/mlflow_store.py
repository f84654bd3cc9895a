"""One run of MLflow's file store: a folder with `meta.yaml`, `params/`, `tags/` and a file for each metric."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.formats.base import Reader
from grpo_top.formats.decode import integer, literal, number
from grpo_top.formats.tracked import Rows, Tracked
from grpo_top.records import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

_ENDED = ("3", "4", "5")
"""Finished, failed, killed."""
_LONGEST_PARAM = 64 << 10
_AT_ONCE = 64 << 20
"""Bytes of a metric that are read in one look: what lies behind them in the next one."""


class _Number(NamedTuple):
    step: int
    key: str
    value: float | None
    time: float


class StoreReader(Reader):
    """Reads the run's folder: all its metrics together, since a row lies across their files."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._tracked = Tracked(context)
        self._rows = Rows()
        self._read: dict[Path, int] = {}
        """Bytes read of each metric's file, up to the end of a line."""
        self._told: tuple[int, ...] = ()
        """When what is said of the run as a whole was last written."""

    def fresh(self) -> StoreReader:
        """A reader that has read nothing."""
        return StoreReader(self._context)

    def poll(self, path: Path, last: bool = False) -> list[Record]:  # noqa: ARG002
        """Rows that are whole now; the newest waits until all metrics can have it."""
        found: list[Record] = [*self._about(path)]
        came: list[_Number] = []
        for file in _files(path.parent / "metrics"):
            for read in self._new_numbers(file, file.relative_to(path.parent / "metrics").as_posix()):
                if isinstance(read, Skipped):
                    found.append(read)
                else:
                    came.append(read)
        for step, key, value, time in sorted(came, key=lambda read: (read.step, read.time)):
            if whole := self._rows.add(step, key, value, time):
                found.extend(self._tracked.row(*whole))
        return found

    def idle(self) -> list[Record]:
        """The row that is open, as far as it goes."""
        row = self._rows.take()
        return list(self._tracked.row(*row)) if row else []

    def end(self) -> list[Record]:
        """The row that is open."""
        return self.idle()

    def _about(self, path: Path) -> Iterator[Record]:
        params = path.parent / "params"
        written = tuple(place.stat().st_mtime_ns for place in (path, params) if place.exists())
        if written == self._told:
            return
        self._told = written
        fields = metadata(_content(path).encode())
        config = {file.relative_to(params).as_posix(): literal(_content(file)) for file in _files(params)}
        name = fields.get("run_name") or _content(path.parent / "tags" / "mlflow.runName")
        yield from self._tracked.about(name or None, config, True if fields.get("status") in _ENDED else None)

    def _new_numbers(self, file: Path, key: str) -> Iterator[_Number | Skipped]:
        start = self._read.get(file, 0)
        if file.stat().st_size < start:  # written anew
            start = 0
        with file.open("rb") as stream:
            stream.seek(start)
            data = stream.read(_AT_ONCE)
        end = data.rfind(b"\n") + 1
        self._read[file] = start + end
        offset = start
        for line in data[:end].split(b"\n")[:-1]:
            parts = line.decode("utf-8", "replace").split()
            values = [number(part) for part in parts]
            step = integer(parts[2]) if len(parts) == 3 else None
            if step is None or values[0] is None:
                yield Skipped(f"line of metric {key!r:.60} that is no time, value and step", offset)
            else:
                yield _Number(step, key, values[1], values[0] / 1000)
            offset += len(line) + 1


def metadata(data: bytes) -> dict[str, str]:
    """The fields of a `meta.yaml`: flat, one a line, as strings without quotes."""
    pairs = (line.partition(":") for line in data.decode("utf-8", "replace").splitlines())
    return {key.strip(): value.strip().strip("'\"") for key, colon, value in pairs if colon}


def _files(folder: Path) -> list[Path]:
    """All files below a folder, in the order of their names; none where it is not there. Pipes and devices are none."""
    found = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return sorted(file for file in found if file.is_file())


def _content(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(_LONGEST_PARAM).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
