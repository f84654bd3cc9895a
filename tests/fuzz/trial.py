"""One trial: a run whose files met with accidents, read from end to end."""

from __future__ import annotations

import random
import traceback
from typing import TYPE_CHECKING

import numpy as np
import orjson

from grpo_top import defects
from grpo_top.check_text import check_text
from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.report import check_object, inspect_text
from tests.fuzz.mutations import spoil

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot
    from tests.fuzz.corpus import Run

TEXTS = 20
"""Rollouts whose text is read again after the run."""


class Trial:
    """The accident with this seed; the files as they are where it is no `accident`."""

    def __init__(self, name: str, run: Run, seed: int, *, accident: bool = True) -> None:
        self.name = name
        self._chance = chance = random.Random(seed)
        hit = set(chance.sample(sorted(run), k=chance.randint(1, len(run)))) if accident else set()
        self._files = {file: spoil(data, chance) if file in hit else data for file, data in run.items()}
        self.records = sum(max(1, data.count(b"\n")) for data in self._files.values())
        """Lines of all its files; a binary file counts as one."""

    def write(self, folder: Path) -> None:
        """Put its files into a folder."""
        for name, data in self._files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def run(self, folder: Path) -> str | None:
        """Read it, judge it and print it; what was raised, None where nothing was."""
        self.write(folder)
        defects.defect = _raised
        try:
            monitor = Monitor([str(folder)], Settings())
            monitor.read_all()
            snapshot = monitor.snapshot(finished=True)
            orjson.loads(orjson.dumps(check_object(snapshot, series=True)))
            printed = check_text(snapshot) + inspect_text(snapshot)
            self._read_again(snapshot)
            self._spoil_again(folder)
            self._read_again(snapshot)
        except Exception:
            return traceback.format_exc(limit=-6)
        strange = {
            c for c in printed if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or ord(c) in BIDI
        }
        return f"printed {strange!r}" if strange else None

    def _read_again(self, snapshot: Snapshot) -> None:
        rows = range(min(snapshot.rollouts.length, TEXTS))
        for row in rows:
            snapshot.read(row)
            snapshot.raw(row)
        if snapshot.scan is not None:
            list(snapshot.scan(np.array(rows, np.int64), ()))

    def _spoil_again(self, folder: Path) -> None:
        """What was read a moment ago is something else by now, or gone."""
        for name, data in self._files.items():
            if self._chance.random() < 0.1:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(spoil(data, self._chance))


def _raised(part: str, error: Exception, now: str) -> str:
    """In place of switching a part that fails off, which would hide it."""
    raise error


BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
"""Marks that turn the order of what follows."""
