"""SwanLab: the `.swanlab` file of a run, a LevelDB log of protocol buffers as W&B's is.

Of its records these are read: start 10 (name of the run), scalar 13 (one number), finish 11. The config is not in it
but in `files/config.yaml`. What else lies in the folder repeats the numbers, a file for each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.choice import choice_of
from grpo_top.formats.framed import FramedReader, LevelDbLog
from grpo_top.formats.tracked import Rows, tracked_of
from grpo_top.formats.wire import double, fields, messages, numbers, signed, texts
from grpo_top.formats.yaml_values import parse_yaml
from grpo_top.records import Skipped
from grpo_top.sources.database import MAGIC as SQLITE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

NAME = "swanlab"
MAGIC = b":SWL\xd6\xe1"

_START, _FINISH, _SCALAR = 10, 11, 13
_FOLDER = re.compile(r"run-(?P<day>\d{8})_(?P<time>\d{6})-(?P<id>.+)")
_CONFIG = re.compile(rb"\A[^\n]+:\n  desc: [^\n]*\n  sort: \d+\n  value:")
_OWN = re.compile(rb'\{"(?:index": -?\d+, "data|max|min)": ')


class SwanLab(Format):
    """Reads `.swanlab` files."""

    name: ClassVar[str] = NAME
    surest: int = 99
    rollouts_hint: ClassVar[str] = (
        "SwanLab holds numbers alone: give the folder where the trainer writes its rollouts as well"
    )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the header. Of the other files of a run only the config is read."""
        above = path.parents if "run-" in str(path) else ()
        folders = [(folder, found) for folder in above if (found := _FOLDER.match(folder.name))]
        if not folders:
            database = path.suffix == ".swanlab" and head.startswith(SQLITE)
            return Claim(90, "none", "tracker's own", NAME) if database else None
        folder, found = folders[0]
        run, began = folder.name, float(found["day"] + found["time"])
        if head.startswith(MAGIC):
            return Claim(99, "bytes", "metrics", f"{NAME} {run}", 1, run=run, began=began)
        if _CONFIG.match(head):
            return Claim(96, "whole", "config", f"{NAME} {run}", 0, run=run, began=began)
        # The numbers' own files look like a log of their own; the rest is for whoever knows it better.
        return Claim(90 if _OWN.match(head) else 1, "none", "tracker's own", NAME)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        folder = next(folder for folder in path.parents if folder.name == claim.run)
        choice_of(context, NAME).offer(claim.run, claim.began, folder=folder)
        return (
            ConfigReader(claim.run, context) if claim.role == "config" else SwanLabReader(claim.run, context)
        )


class ConfigReader(Reader):
    """Reads `config.yaml`, which has `desc`, `sort` and `value` under each key."""

    def __init__(self, run: str, context: RunContext) -> None:
        self._run = run
        self._context = context

    def fresh(self) -> ConfigReader:
        """A reader that has read nothing."""
        return ConfigReader(self._run, self._context)

    def whole(self, data: bytes) -> list[Record]:
        """The run."""
        try:
            found = parse_yaml(data)
        except ValueError as error:
            return [Skipped(str(error), 0)]
        entries = found.items() if isinstance(found, dict) else ()
        config = {str(key): entry.get("value") for key, entry in entries if isinstance(entry, dict)}
        return list(tracked_of(self._context, f"{NAME} {self._run}").about(config=config))


class SwanLabReader(FramedReader):
    """Puts the numbers of a step together into one row."""

    def __init__(self, run: str, context: RunContext) -> None:
        super().__init__(LevelDbLog())
        self._run = run
        self._context = context
        self._tracked = tracked_of(context, f"{NAME} {run}")
        self._rows = Rows()

    def fresh(self) -> SwanLabReader:
        """A reader that has read nothing."""
        return SwanLabReader(self._run, self._context)

    def records(self, payload: bytes, location: Location) -> Iterable[Record]:
        """The row before, where a number begins another; the run."""
        for kind, value in fields(payload):
            if type(value) is not bytes:
                continue
            if kind == _SCALAR:
                yield from self._number(value, location)
            elif kind == _START:
                yield from self._tracked.about(texts(value).get(4) or None)
            elif kind == _FINISH:
                yield from self._tracked.about(finished=True)

    def idle(self) -> list[Record]:
        """The row that is open, as far as it goes."""
        row = self._rows.take()
        return list(self._tracked.row(*row)) if row else []

    def _number(self, message: bytes, location: Location) -> Iterator[Record]:
        """Fields of a scalar: key 1, step 2, time 4 (seconds 1, nanoseconds 2), value 5 (a double 1)."""
        key = texts(message).get(1)
        step = signed(numbers(message).get(2, 0))
        times = [numbers(of) for of in messages(message, 4)]
        values = [dict(fields(of)).get(1) for of in messages(message, 5)]
        if key is None or not values:
            raise ValueError("scalar without a key or a value")
        # A zero is left out, as this version of protocol buffers does with every default.
        number = 0.0 if values[0] is None else double(values[0])
        time = times[0].get(1, 0) + times[0].get(2, 0) / 1e9 if times else None
        if whole := self._rows.add(step, key, number, time):
            yield from self._tracked.row(*whole, location)
