"""JSON lines of loops that have no format of their own: rollouts and metrics by the field's usual names.

What a record says under one of several names is brought under grpo-top/1's name for it and read as that; see
`plain_fields`. CSV files are read in the same way (`plain_csv`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format
from grpo_top.formats.decode import head_records, integer, number
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.names import canonical
from grpo_top.formats.native import NativeReader
from grpo_top.formats.plain_fields import STEP, Fields, as_native, is_rollout, series_of, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.formats.plain_fields import Source
    from grpo_top.records import Location, Record

_EVALUATION = ("eval/", "eval_", "validation/", "test/")
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
        return claim_of(path, head_records(head), self._fields, self.name)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> PlainReader:  # noqa: ARG002
        """A reader of such lines."""
        return PlainReader(context, self._fields)


def claim_of(path: PurePath, records: Sequence[Mapping[str, Any]], fields: Fields, name: str) -> Claim | None:
    """What the first records of a file, a row or a line each, show it to be."""
    if not records:
        return None
    named = all(map(fields.is_set_for, records))
    layouts = [fields.layout(record) for record in records]
    if not named and any("kind" in record for record in records):
        return None
    steps = [step_of(record, layout.get(STEP)) for record, layout in zip(records, layouts, strict=True)]
    if None in steps:
        return None
    if all(map(is_rollout, layouts)):
        return Claim(NAMED if named else 40, "lines", "rollouts", f"{name} {path}", 3)
    known = any(canonical(None, key) and number(value) is not None for key, value in records[0].items())
    if named or known:
        return Claim(NAMED if named else 30, "lines", "metrics", f"{name} {path}", 2)
    return None


def step_of(record: Mapping[str, Any], source: Source | None) -> int | None:
    """The step of a record; None where it has none."""
    return None if source is None else integer(value_of(record, source))


class PlainReader(JsonLinesReader):
    """Reads a line as the rollout, step or evaluation that its fields show it to be."""

    def __init__(self, context: RunContext, fields: Fields | None = None) -> None:
        self._rows = Rows(context, fields or Fields())

    def fresh(self) -> PlainReader:
        """A reader that has read nothing."""
        return PlainReader(self._rows.context, self._rows.fields)

    @property
    def fields(self) -> Mapping[str, str | None]:
        """The names in the records so far → what each is read as."""
        return self._rows.read_as

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout, or a step and the evaluation that its row carries."""
        return self._rows.records(raw, location)


class Rows:
    """Turns objects with names of any kind into records, and remembers how each name was read."""

    def __init__(self, context: RunContext, fields: Fields) -> None:
        self.context = context
        self.fields = fields
        self.read_as: dict[str, str | None] = {}
        self._seen: set[tuple[str, ...]] = set()
        self._native = NativeReader(context)

    def records(self, raw: Mapping[str, Any], location: Location) -> Iterator[Record]:
        """One rollout, or a step and the evaluation that its row carries; ValueError where it is neither."""
        layout = self.fields.layout(raw)
        step = step_of(raw, layout.get(STEP))
        if step is None:
            raise ValueError("record without a step")
        rollout = is_rollout(layout)
        self._note(raw, rollout)
        if rollout:
            yield self._native.record(as_native(raw, layout) | {"step": step}, location)
            return
        apart = {layout[field].path[0] for field in (STEP, "time") if field in layout}
        named = list(series_of(raw, layout))
        apart |= {source.name for _, source, _ in named}
        metrics = {name: value for name, value in raw.items() if name not in apart}
        evaluated = {
            name.removeprefix(prefix): value
            for prefix in _EVALUATION
            for name, value in metrics.items()
            if name.startswith(prefix)
        }
        trained = {name: value for name, value in metrics.items() if not name.startswith(_EVALUATION)}
        trained |= {series: value for series, _, value in named}
        time = value_of(raw, layout["time"]) if "time" in layout else None
        for kind, values in (("step", trained), ("eval", evaluated)):
            if values:
                yield self._native.record(
                    {"kind": kind, "step": step, "metrics": values, "time": time}, location
                )

    def _note(self, raw: Mapping[str, Any], rollout: bool) -> None:
        """Remember how the record's names were read; of a row of numbers, those that are no metrics."""
        names = tuple(raw)
        if names in self._seen or len(self._seen) > 256:
            return
        self._seen.add(names)
        found = self.fields.read_as(raw)
        if not rollout:
            ours = (STEP, "time", *self.fields.by_user)
            found = {name: field for name, field in found.items() if field in ours}
        for name, field in found.items():
            if field is not None or name not in self.read_as:
                self.read_as[name] = field
