"""Weights & Biases: the `.wandb` file of a run, which holds all that there is of it when it is offline.

It is a LevelDB log of protocol buffers. Of the records only these are read: history 2 (one row of numbers each),
config 5, run 17, exit 18. Summaries repeat the history, and printed lines repeat its numbers rounded. TRL's tables of
completions lie beside it, each in a file of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.choice import choice_of
from grpo_top.formats.decode import bare, integer, number, parse, parse_record
from grpo_top.formats.framed import FramedReader, LevelDbLog
from grpo_top.formats.tracked import Tracked
from grpo_top.formats.trl import table_rollouts
from grpo_top.formats.wire import fields, messages, numbers, texts
from grpo_top.records import Rollout, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.formats.tracked_rows import Row
    from grpo_top.records import Location, Record

NAME = "wandb"
MAGIC = b":W&B\xe1\xbe"

_HISTORY, _CONFIG, _RUN, _EXIT = 2, 5, 17, 18
_FOLDER = re.compile(r"(?:offline-)?run-(?P<day>\d{8})_(?P<time>\d{6})-(?P<id>.+)")
_SUMMARY = re.compile(r"wandb-(?:summary|metadata)\.json")
_TABLE = re.compile(rb'\A\{"columns":\s*\[(?=[^\]]*"prompt")(?=[^\]]*"completion")[^\]]*\]')


class Wandb(Format):
    """Reads `.wandb` files."""

    name: ClassVar[str] = NAME
    surest: int = 99
    rollouts_hint: ClassVar[str] = (
        "set log_completions=True (TRL), or give the folder where the trainer writes its rollouts as well"
    )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the header. The tracker's own files beside it are known and not read."""
        if head.startswith(MAGIC):
            run, folder = path.stem.removeprefix("run-"), _FOLDER.match(path.parent.name)
            began = float(folder["day"] + folder["time"]) if folder else 0.0
            return Claim(99, "bytes", "metrics", f"{NAME} {run}", 1, run, began)
        above = path.parents if "run-" in str(path) else ()
        folders = [found for folder in above if (found := _FOLDER.match(folder.name))]
        if not folders:
            return None
        if _TABLE.match(head):
            run, began = folders[0]["id"], float(folders[0]["day"] + folders[0]["time"])
            return Claim(90, "whole", "rollouts", f"{NAME} tables {run}", 3, run, began)
        # The summary looks like a row of metrics; the rest is for whoever knows it better.
        return Claim(95 if _SUMMARY.fullmatch(path.name) else 1, "none", "tracker's own", NAME)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader of a run's records, or of a table."""
        folder = next((folder for folder in path.parents if _FOLDER.match(folder.name)), path)
        choice_of(context, NAME).offer(claim.run, claim.began, folder=folder)
        return TableReader(context) if claim.role == "rollouts" else WandbReader(context)


class TableReader(Reader):
    """Reads one table of completions, `{"columns": […], "data": [[…], …]}`; a rollout's location is its row."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> TableReader:
        """A reader that has read nothing."""
        return TableReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """One rollout a row."""
        try:
            table = parse_record(bare(data))
            rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
        except (ValueError, KeyError, TypeError) as error:
            return [Skipped(f"not a readable table: {error}", 0)]
        return list(table_rollouts(rows, self._context))

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout of row `location.offset`, from the whole file."""
        found = (record for record in self.whole(data) if isinstance(record, Rollout))
        return next((record for record in found if record.location.offset == location.offset), None)


class WandbReader(FramedReader):
    """Reads a run's records."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(LevelDbLog())
        self._context = context
        self._tracked = Tracked(context)

    def fresh(self) -> WandbReader:
        """A reader that has read nothing."""
        return WandbReader(self._context)

    def records(self, payload: bytes, location: Location) -> Iterable[Record]:
        """What one record tells; most tell nothing that is needed here."""
        for kind, value in fields(payload):
            if type(value) is not bytes:
                continue
            if kind == _HISTORY:
                yield from self._history(value, location)
            elif kind == _CONFIG:
                yield from self._tracked.about(config=_items(messages(value, 1)))
            elif kind == _RUN:
                yield from self._run(value)
            elif kind == _EXIT:
                yield from self._tracked.about(finished=True)

    def _run(self, message: bytes) -> Iterator[Record]:
        """Fields of a run: id 1, config 4, the name that people see 8."""
        config: dict[str, Any] = {}
        for section in messages(message, 4):
            config |= _items(messages(section, 1))
        yield from self._tracked.about(texts(message).get(8) or None, config)

    def _history(self, message: bytes, location: Location) -> Iterator[Record]:
        """Fields of a row: items 1, the tracker's step 2."""
        values = _items(messages(message, 1))
        row: Row = {}
        for key, value in values.items():
            if not key.startswith("_"):
                as_number = number(value) if not isinstance(value, str) else None
                if as_number is not None or value is None:
                    row[key] = as_number
        step = integer(values.get("_step"))
        if step is None:
            step = next((numbers(of).get(1, 0) for of in messages(message, 2)), None)
        if row:
            yield from self._tracked.row(step, row, number(values.get("_timestamp")), location)


def _items(items: Iterable[bytes]) -> dict[str, Any]:
    """Key and value of each item: key 1 or nested key 2 (its parts), value 16 as JSON."""
    found: dict[str, Any] = {}
    for item in items:
        parts: list[str] = []
        value: Any = None
        for kind, field in fields(item):
            if type(field) is not bytes:
                continue
            if kind in (1, 2):
                parts.append(field.decode("utf-8", "replace"))
            elif kind == 16:
                value = parse(field)
        key = "/".join(parts)
        if key and key != "_wandb":
            found[key] = value
    return found
