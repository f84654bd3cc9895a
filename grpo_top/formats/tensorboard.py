"""TensorBoard's event files, by whatever library wrote them: one event for each number.

An event is a protocol buffer: wall time 1, step 2, summary 5 with values (tag 1, simple value 2, tensor 8). Nothing
says when a step is complete. Texts are string tensors under `NAME/text_summary`; trainers put their config there.
"""

from __future__ import annotations

import re
import struct
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format
from grpo_top.formats.choice import choice_of
from grpo_top.formats.decode import literal, parse
from grpo_top.formats.framed import FramedReader, TfRecords, masked_crc32c
from grpo_top.formats.tracked import Rows, Tracked
from grpo_top.formats.wire import double, fields, messages, signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

NAME = "tensorboard"

_NO_NAME = re.compile(
    r"(?:runs?|logs?|tb|tensorboard(?:_log)?s?|[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.*)", re.IGNORECASE
)
"""Folders that are called after what lies in them, or when, and not after the run."""
_FILE = re.compile(r"events\.out\.tfevents\.(?P<began>\d+)")
_CONFIG_TEXTS = ("args", "config", "hparams", "hyperparameters", "training_args")
_TRAIN, _HELDOUT = "train", frozenset(("eval", "evaluation", "val", "validation"))
"""Folders for parts of a run. Not `test`: people call runs so."""
_EVALUATION = "eval/"
_TEXT = "/text_summary"
_LAYOUTS = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
"""Kinds of tensor elements that are numbers, and how one is written."""
_CODE = re.compile(r"^\s*```(?:json)?\n(?P<inner>.*?)\n?\s*```\s*$", re.DOTALL)
_ROW = re.compile(r"\|\s*(?P<name>[^|]+?)\s*\|\s*(?P<value>[^|]*?)\s*\|")


class TensorBoard(Format):
    """Reads event files."""

    name: ClassVar[str] = NAME
    surest: int = 95
    rollouts_hint: ClassVar[str] = (
        "event files hold numbers alone: give the folder where the trainer writes its rollouts as well"
    )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the checksum of the first record's length, and its first event, which names the version."""
        size = TfRecords.HEADER.size
        if len(head) < size:
            return None
        length, checksum = TfRecords.HEADER.unpack_from(head)
        if length >> 32:  # as of any text; the checksum is dear
            return None
        if masked_crc32c(head[:8]) != checksum:
            return None
        named = _FILE.match(path.name)
        sure = 95 if named or b"brain.Event:" in head[size : size + length] else 50
        began = float(named["began"]) if named else 0.0
        return Claim(
            sure, "bytes", "metrics", f"{NAME} {path.parent}", 1, run=str(_run_of(path)), began=began
        )

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> EventReader:
        """A reader of events. A folder below a run's holds that run's hyperparameters or a part of a chart."""
        choice = choice_of(context, NAME)
        run = choice.run_of(path) or claim.run
        choice.offer(run, claim.began, folder=PurePath(run))
        return EventReader(PurePath(run), context, _EVALUATION if path.parent.name in _HELDOUT else "")


def _run_of(path: PurePath) -> PurePath:
    """The folder of the run that a file is of: some write what was trained and what was held out into two."""
    return path.parent.parent if path.parent.name in {_TRAIN, *_HELDOUT} else path.parent


class EventReader(FramedReader):
    """Puts the events of a step together into one row.

    Args:
        folder: the run's.
        context: what the run's readers share.
        before: what every name begins with, although the file does not say so.
    """

    def __init__(self, folder: PurePath, context: RunContext, before: str = "") -> None:
        super().__init__(TfRecords())
        self._folder = folder
        self._context = context
        self._before = before
        self._tracked = Tracked(context)
        self._rows = Rows()

    def fresh(self) -> EventReader:
        """A reader that has read nothing."""
        return EventReader(self._folder, self._context, self._before)

    def records(self, payload: bytes, location: Location) -> Iterable[Record]:
        """The row before, where this event begins another; the run, where it holds the config."""
        time: float | None = None
        step = 0
        found: list[Record] = []
        if not location.offset:
            found.extend(self._tracked.about(_name(self._folder)))
        for number, value in fields(payload):
            if number == 1:
                time = double(value)
            elif number == 2 and type(value) is int:
                step = signed(value)
            elif number == 5 and type(value) is bytes:
                for summary in messages(value, 1):
                    found.extend(self._summary(summary, step, time, location))
        return found

    def idle(self) -> list[Record]:
        """The row that is open, as far as it goes."""
        row = self._rows.take()
        return list(self._tracked.row(*row)) if row else []

    def _summary(self, summary: bytes, step: int, time: float | None, location: Location) -> Iterator[Record]:
        tag = ""
        value: float | str | None = None
        for number, field in fields(summary):
            if number == 1 and type(field) is bytes:
                tag = field.decode("utf-8", "replace")
            elif number == 2:
                value = double(field)
            elif number == 8 and type(field) is bytes:
                value = _tensor(field)
        if isinstance(value, float) and tag:
            whole = self._rows.add(step, self._before + tag, value, time)
            if whole:
                yield from self._tracked.row(*whole, location)
        elif isinstance(value, str) and tag.removesuffix(_TEXT) in _CONFIG_TEXTS:
            config = _config(value)
            if config:
                name = config.get("run_name")
                yield from self._tracked.about(name if isinstance(name, str) else None, config)


def _name(folder: PurePath) -> str | None:
    """The name of a run that does not say its own: that of its folder, as TensorBoard has it."""
    return next((part for part in reversed(folder.parts[1:]) if not _NO_NAME.fullmatch(part)), None)


def _tensor(tensor: bytes) -> float | str | None:
    """The one number or text in a tensor; None where there are more, or something else."""
    kind, content, value = 0, b"", None
    for number, field in fields(tensor):
        if number == 1 and type(field) is int:
            kind = field
        elif number == 4 and type(field) is bytes:
            content = field
        elif number == 8 and type(field) is bytes:
            return field.decode("utf-8", "replace")
        elif number in (5, 6, 7, 10):
            value = _element(number, field)
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return None
    if value is None and len(content) == struct.calcsize(layout):
        return float(struct.unpack(layout, content)[0])
    return value


def _element(number: int, field: int | bytes) -> float | None:
    """A list's only element: floats 5, doubles 6, integers 7 and 10; lists are packed, short ones need not be."""
    if type(field) is int:
        return float(signed(field))
    if type(field) is not bytes:
        return None
    if number in (5, 6):
        return double(field) if len(field) == (4 if number == 5 else 8) else None
    return None


def _config(text: str) -> dict[str, Any] | None:
    """The JSON object that a text holds, alone or as a block of code; or the rows of a table of names and values."""
    if text.lstrip().startswith("|"):
        rows = (_ROW.fullmatch(line.strip()) for line in text.splitlines()[2:])
        return {row["name"]: literal(row["value"]) for row in rows if row} or None
    inner = _CODE.match(text)
    try:
        found = parse((inner["inner"] if inner else text).encode())
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
