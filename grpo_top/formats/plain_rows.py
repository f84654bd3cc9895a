"""Objects with names of any kind as records: rollouts, steps and evaluations, by the field's usual names.

What an object says under one of several names (`plain_names`), in one of several shapes (`plain_shapes`), is brought
under grpo-top/1's name for it (`plain_fields`) and read as that.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.formats.base import Reader
from grpo_top.formats.decode import integer, number, numbers, timestamp
from grpo_top.formats.names import canonical
from grpo_top.formats.native import NativeReader
from grpo_top.formats.plain_fields import (
    STEP,
    Fields,
    as_native,
    is_rollout,
    is_whole_rollout,
    series_of,
    value_of,
)
from grpo_top.formats.plain_names import STEP_NAMES
from grpo_top.formats.plain_places import NO_PLACE, Numbering, Place
from grpo_top.formats.plain_shapes import is_flat, numbers_within, tells_group, unfolded
from grpo_top.records import Eval, Location, Rollout, Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from grpo_top.formats.base import RunContext
    from grpo_top.formats.plain_fields import Layout, Source
    from grpo_top.formats.tracked import Tracked
    from grpo_top.records import Record

_EVALUATION = ("eval/", "eval_", "validation/", "test/")
_EXPORTED = "_step"
"""What the step is called in a history that was exported from W&B."""
_SHAPES_KEPT = 256
_BY_PLACE = "the step is that in the name of the file or its folder"


def step_of(record: Mapping[str, Any], source: Source | None) -> int | None:
    """The step of a record; None where it has none."""
    step = None if source is None else integer(value_of(record, source))
    return integer(record.get(_EXPORTED)) if step is None and _EXPORTED in record else step


class FlatRow(NamedTuple):
    """How rows of numbers are read that have the same names, and no object or list among their values.

    What most logs of metrics hold: what their names tell is looked up once.
    """

    step: str
    """Its name in the row; likewise below."""
    time: str | None
    trained: tuple[str, ...]
    evaluated: Mapping[str, str]
    """Name in the evaluation → in the row."""

    def records(self, raw: Mapping[str, Any], location: Location) -> list[Record]:
        """The step and the evaluation; none where it does not say of which step they are."""
        step = integer(raw[self.step])
        if step is None:
            return []
        time = None if self.time is None else timestamp(raw[self.time])
        found: list[Record] = []
        if self.trained:
            metrics = numbers({name: raw[name] for name in self.trained})
            found.append(Step(step, metrics, time, location=location))
        if self.evaluated:
            metrics = numbers({inner: raw[name] for inner, name in self.evaluated.items()})
            found.append(Eval(step, metrics, time=time, location=location))
        return found


def _within_evaluation(told: Sequence[str]) -> dict[str, str]:
    """The names of an evaluation's numbers without what says that they are of one → the whole names."""
    return {
        name.removeprefix(prefix): name for prefix in _EVALUATION for name in told if name.startswith(prefix)
    }


class Rows:
    """Turns objects with names of any kind into records, and remembers how each name was read."""

    def __init__(self, context: RunContext, fields: Fields, place: Place = NO_PLACE) -> None:
        self.context = context
        self.fields = fields
        self._place = place
        self._numbering = Numbering()
        self._begun = False
        """Whether there was a record with a step: what comes before it are settings."""
        self.read_as: dict[str, str | None] = {}
        """The records' own names → what each is read as."""
        self.note = ""
        self._seen: set[tuple[str, ...]] = set()
        self._flat_rows: dict[tuple[str, ...], FlatRow] = {}
        self._native = NativeReader(context)

    @cached_property
    def _tracked(self) -> Tracked:
        """What reads settings and a tracker's exported rows; few files hold either."""
        from grpo_top.formats.tracked import Tracked  # noqa: PLC0415  it brings in the trainers' formats

        return Tracked(self.context)

    def fresh(self) -> Rows:
        """The same, of which nothing has been read."""
        return Rows(self.context, self.fields, self._place)

    def records(self, raw: Mapping[str, Any], location: Location) -> Iterator[Record]:
        """The rollouts that a record holds, or the steps and evaluations; ValueError where it holds neither."""
        known = self._flat_rows.get(tuple(raw))
        if known is not None and is_flat(raw) and (found := known.records(raw, location)):
            return iter(found)
        parts = self.fields.parts(raw)
        return (
            self._of_part(raw, location)
            if len(parts) == 1 and parts[0] is raw
            else self._of_parts(raw, parts, location)
        )

    def of_all(self, raws: Iterable[Mapping[str, Any]]) -> list[Record]:
        """The records of objects that are located by their number; one that is none is skipped alone."""
        found: list[Record] = []
        for place, raw in enumerate(raws):
            try:
                found += self.records(raw, Location(place, 0))
            except ValueError as error:
                found.append(Skipped(str(error), place))
        return found

    def _of_parts(
        self, raw: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], location: Location
    ) -> Iterator[Record]:
        """What several rollouts or rows in one record are, and the numbers beside a whole step's rollouts."""
        are_rollouts = is_whole_rollout(self.fields.layout(parts[0]))
        grouped = any(map(tells_group, parts))
        whole = {"group": f"at {location.offset}"} if are_rollouts and not grouped and len(parts) > 1 else {}
        given = 0
        for part in parts:
            try:
                for record in self._of_part({**whole, **part}, location._replace(part=location.part + given)):
                    yield record
                    given += isinstance(record, Rollout)
            except ValueError as error:
                yield Skipped(str(error), location.offset)
        if are_rollouts and grouped and not tells_group(raw):
            row = {
                name: value
                for name, value in raw.items()
                if isinstance(value, int | float) or name in STEP_NAMES
            }
            if any(canonical(None, name) for name in row):
                yield from self._of_part(row, location)

    def _of_part(self, raw: Mapping[str, Any], location: Location) -> Iterator[Record]:
        layout = self.fields.layout(raw)
        step = step_of(raw, layout.get(STEP))
        if step is None and self._place.step is not None:
            step, self.note = self._place.step, _BY_PLACE
        if step is None and not self._begun:
            yield from self._tracked.about(config=dict(raw))
            return
        self._begun = True
        if step is None:
            raise ValueError("record without a step")
        rollout = is_rollout(layout)
        self._note(raw, rollout)
        if rollout:
            native = as_native(raw, layout) | {"step": step}
            if native.get("index") is not None:
                native["index"] = self._numbering.index(native)
            if native.get("split") is None:
                native["split"] = self._place.split
            yield self._native.record(native, location)
            return
        if _EXPORTED in raw:
            yield from self._exported(raw, location)
            return
        apart = {layout[field].path[0] for field in (STEP, "time") if field in layout}
        named = list(series_of(raw, layout))
        apart |= {"/".join(source.path) for _, source, _ in named}
        metrics = {name: value for name, value in numbers_within(raw) if name not in apart}
        told = [name for name in metrics if name.startswith(_EVALUATION)]
        evaluated = {inner: metrics[name] for inner, name in _within_evaluation(told).items()}
        trained = {name: value for name, value in metrics.items() if name not in told} if told else metrics
        if not named:
            self._remember(raw, layout, trained, told)
        trained |= {series: value for series, _, value in named}
        time = value_of(raw, layout["time"]) if "time" in layout else None
        for kind, values in (("step", trained), ("eval", evaluated)):
            if values:
                yield self._native.record(
                    {"kind": kind, "step": step, "metrics": values, "time": time}, location
                )

    def _remember(
        self, raw: Mapping[str, Any], layout: Layout, trained: Iterable[str], told: Sequence[str]
    ) -> None:
        """How a row was read, for the next ones with its names: its numbers of the step, and of an evaluation."""
        is_whole = is_flat(raw) and unfolded(raw)[0] is raw
        if STEP not in layout or not is_whole or len(self._flat_rows) > _SHAPES_KEPT:
            return
        time = layout["time"].path[0] if "time" in layout else None
        evaluated = {inner.removeprefix("eval_"): name for inner, name in _within_evaluation(told).items()}
        if len(evaluated) == len(told):
            row = FlatRow(layout[STEP].path[0], time, tuple(trained), evaluated)
            self._flat_rows[tuple(raw)] = row

    def _exported(self, raw: Mapping[str, Any], location: Location) -> Iterator[Record]:
        """A row of W&B's history, whose own step counts calls; what was not logged with it is empty."""
        row: dict[str, float | None] = {
            name: found
            for name, value in numbers_within(raw)
            if not name.startswith("_") and (found := number(value)) is not None
        }
        yield from self._tracked.row(integer(raw[_EXPORTED]), row, timestamp(raw.get("_timestamp")), location)

    def _note(self, raw: Mapping[str, Any], rollout: bool) -> None:
        """Remember how the record's names were read; of a row of numbers, those that are no metrics."""
        names = tuple(raw)
        if names in self._seen or len(self._seen) > _SHAPES_KEPT:
            return
        self._seen.add(names)
        found = self.fields.read_as(raw)
        if not rollout:
            ours = (STEP, "time", *self.fields.by_user)
            found = {name: field for name, field in found.items() if field in ours}
        for name, field in found.items():
            if field is not None or name not in self.read_as:
                self.read_as[name] = field


class RowsReader(Reader):
    """A reader of such records, in whatever kind of file."""

    _rows: Rows

    @property
    def note(self) -> str:
        """Where the step comes from, if from no record."""
        return self._rows.note

    @property
    def fields(self) -> Mapping[str, str | None]:
        """The names in the records so far → what each is read as."""
        return self._rows.read_as
