"""JSON lines, and JSON files, of loops that have no format of their own: which of them are logs, and their readers.

What the records say is read by `plain_rows`, which CSV and Parquet (`plain_csv`, `plain_parquet`) share.
"""

from __future__ import annotations

from itertools import dropwhile
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.decode import head_records, number
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.names import canonical
from grpo_top.formats.plain_documents import (
    document,
    document_records,
    is_document,
    is_lone_row,
    long_record,
    records_in,
)
from grpo_top.formats.plain_fields import STEP, Fields, is_rollout, is_whole_rollout
from grpo_top.formats.plain_names import WEAK_STEPS
from grpo_top.formats.plain_places import place_of
from grpo_top.formats.plain_rows import Rows, RowsReader, step_of
from grpo_top.formats.plain_shapes import numbers_within
from grpo_top.records import Location, Rollout, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.formats.plain_fields import Layout
    from grpo_top.records import Record

_OF_ANY_TRAINING = frozenset(("loss", "learning_rate", "grad_norm", "step_time", "success_rate", "tokens"))
"""Series that every training has: beside a name that may count anything, they do not tell of this one."""
_OURS = ("rollout", "step", "eval", "run", "sampler", "grade")
"""Kinds of grpo-top/1's records, which are read as such or not at all."""
_COLUMNS = frozenset(
    ("completions", "responses", "generations", "rollouts", "trajectories", "groups", "samples")
)
_TEXTS = ("prompt", "completion", "messages")
_HEADERS = 3
"""Records that may come before the first one with a step: what the run was started with."""
_PARTS = 8
"""Parts of one record that are looked at before a file is claimed."""
NAMED = 97
"""Confidence where the user has named the fields, above every format that only judges."""


class Plain(Format):
    """Reads JSON lines by the field's usual names, or by those that the user has set."""

    name: ClassVar[str] = "jsonl"
    rollouts_hint: ClassVar[str] = "write step, group, prompt, completion and reward, one rollout a line"

    def __init__(self, by_user: Mapping[str, str] | None = None) -> None:
        self._fields = Fields(by_user)
        self.surest = NAMED if by_user else 40

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Records that all have a step, and a reward with its text, or numbers that are known by name."""
        if is_document(path, head):
            records = document_records(head)
            claim = claim_of(path, records, self._fields, self.name)
            if claim is None or (claim.role == "metrics" and is_lone_row(head, records)):
                return None
            return claim._replace(feed="whole")
        if b"\n" not in head and (long := long_record(head)):
            return claim_of(path, [long], self._fields, self.name) or _of_columns(
                path, long, self._fields, self.name
            )
        return claim_of(path, head_records(head), self._fields, self.name)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader of such records."""
        rows = Rows(context, self._fields, place_of(path))
        return DocumentReader(rows) if claim.feed == "whole" else PlainReader(context, self._fields, rows)


def _of_columns(path: PurePath, record: Mapping[str, Any], fields: Fields, name: str) -> Claim | None:
    """A claim on lines so long that of a step's or a group's columns the first alone is seen."""
    known = STEP in fields.layout(record) and not _COLUMNS.isdisjoint(record)
    return Claim(35, "lines", "rollouts", f"{name} {path}", 3) if known else None


def claim_of(path: PurePath, records: Sequence[Mapping[str, Any]], fields: Fields, name: str) -> Claim | None:
    """What the first records of a file, a row or a line each, show it to be."""
    if not records:
        return None
    named = all(map(fields.is_set_for, records))
    if not named and any(record.get("kind") in _OURS for record in records):
        return None
    parts = [part for record in records for part in fields.parts(record)[:_PARTS]]
    layouts = [fields.layout(part) for part in parts]
    place = place_of(path)
    if place.step is not None and all(STEP not in layout and is_whole_rollout(layout) for layout in layouts):
        return Claim(35, "lines", "rollouts", f"{name} {place.split} {place.within}", 3, anew=True)
    told = list(dropwhile(lambda one: not _has_step(*one), zip(parts, layouts, strict=True)))
    if not told or len(parts) - len(told) > _HEADERS or not all(_has_step(*one) for one in told):
        return None
    writer = f"{name} {path}"
    rollouts = [is_rollout(layout) for _, layout in told]
    if all(rollouts) or (any(rollouts) and all(_is_row(*one) for one in told if not is_rollout(one[1]))):
        return Claim(NAMED if named else 40, "lines", "rollouts", writer, 3)
    if named or (not any(rollouts) and any(_tells_of_training(*one) for one in told)):
        return Claim(NAMED if named else 30, "lines", "metrics", writer, 2)
    return None


def _has_step(record: Mapping[str, Any], layout: Layout) -> bool:
    return step_of(record, layout.get(STEP)) is not None


def _is_row(record: Mapping[str, Any], layout: Layout) -> bool:
    """Whether a record is a row of numbers: one with a text is of a data set."""
    return layout.keys().isdisjoint(_TEXTS) and any(
        number(value) is not None for _, value in numbers_within(record)
    )


def _tells_of_training(record: Mapping[str, Any], layout: Layout) -> bool:
    """Whether a row has a number that is known by name; beside a mere count, one that not every training has."""
    known = {canonical(None, key) for key, value in numbers_within(record) if number(value) is not None}
    if layout[STEP].name in WEAK_STEPS:
        known -= _OF_ANY_TRAINING
    return bool(known - {None}) and _is_row(record, layout)


class PlainReader(RowsReader, JsonLinesReader):
    """Reads a line as the rollouts, step or evaluation that its fields show it to be."""

    def __init__(self, context: RunContext, fields: Fields | None = None, rows: Rows | None = None) -> None:
        self._rows = rows or Rows(context, fields or Fields())

    def fresh(self) -> PlainReader:
        """A reader that has read nothing."""
        rows = self._rows.fresh()
        return PlainReader(rows.context, rows.fields, rows)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The rollouts of the line, or a step and the evaluation that its row carries."""
        return self._rows.records(raw, location)


class DocumentReader(RowsReader):
    """Reads a JSON file that is one list or object of such records."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def fresh(self) -> DocumentReader:
        """A reader that has read nothing."""
        return DocumentReader(self._rows.fresh())

    def whole(self, data: bytes) -> list[Record]:
        """Records of the file; of one that was cut, those that are whole."""
        value, cut = document(data)
        said: list[Record] = [Skipped(f"not whole: {cut}", len(data))] if cut else []
        return said + self._rows.of_all(records_in(value))

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout of the record `location.offset`."""
        raw = records_in(document(data)[0])[location.offset :][:1]
        found = [
            record for one in raw for record in self._rows.fresh().records(one, Location(location.offset, 0))
        ]
        rollouts = [record for record in found if isinstance(record, Rollout)]
        return rollouts[location.part] if location.part < len(rollouts) else None
