"""grpo-top/1: the project's own log, one record a line; what a custom training loop writes.

The shapes are those of `grpo_top.records`; each line says what it is under `kind`. Rollout lines are read by the
hundred thousand, so they are parsed and looked at many at once.
"""

from __future__ import annotations

import math
import os
from array import array
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import orjson

from grpo_top.bundle import Places, one_by_one
from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.decode import (
    as_record,
    bare,
    head_records,
    integer,
    number,
    numbers,
    parse,
    text,
    timestamp,
)
from grpo_top.formats.native_rollouts import RolloutColumns, step_number
from grpo_top.records import (
    SCHEMA,
    Eval,
    Grade,
    Location,
    Run,
    SamplerLook,
    Skipped,
    Step,
    Success,
    normal_sampling,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.bundle import Read
    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines

_KINDS = ("rollout", "step", "eval", "run", "sampler", "grade")
_KIND = itemgetter("kind")
_MARK = int.from_bytes(os.urandom(8)) >> 4
"""Between lines that are parsed together. None of them can hold it, so that it tells whether each is one value."""
_BETWEEN = b",%d," % _MARK


class Native(Format):
    """Reads grpo-top/1 logs."""

    name: ClassVar[str] = "grpo-top"
    surest: int = 99
    rollouts_hint: ClassVar[str] = "write `rollout` records: see the README"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Lines with a `kind` that grpo-top/1 has."""
        confidence = max(map(_confidence, head_records(head)), default=0)
        return Claim(confidence, "lines", "rollouts", f"grpo-top {path}", 3) if confidence else None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> NativeReader:  # noqa: ARG002
        """A reader of grpo-top/1 lines."""
        return NativeReader(context)


def _confidence(record: Mapping[str, Any]) -> int:
    kind = record.get("kind")
    if kind not in _KINDS:
        return 0
    if str(record.get("schema", "")).startswith("grpo-top/"):
        return 99
    needed = {"rollout": {"step", "reward"}, "step": {"step", "metrics"}, "eval": {"step", "metrics"}}
    return 90 if needed.get(kind, {"schema"}) <= record.keys() else 30


class NativeReader(Reader):
    """Reads grpo-top/1 lines."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._columns = RolloutColumns()
        self._others: dict[object, Callable[[dict[str, Any], Location], Record]] = {
            "run": self._run,
            "step": _step,
            "eval": _eval,
            "sampler": _sampler,
            "grade": _grade,
        }

    def fresh(self) -> NativeReader:
        """A reader that has read nothing."""
        return NativeReader(self._context)

    def feed(self, lines: Lines) -> list[Record]:
        """One record a line; a line that is none gives a `Skipped`, an empty one nothing."""
        return list(one_by_one(self.together(lines)))

    def together(self, lines: Lines) -> list[Read]:
        """As `feed`; neighbouring rollouts are one bundle."""
        parse_them = _parsed_alone if lines.count == 1 else _parsed_at_once
        parsed = parse_them(lines) or _parsed_one_by_one(lines)
        try:
            kinds = list(map(_KIND, parsed.values))
        except (KeyError, TypeError):  # something is no record
            kinds = [raw.get("kind") if type(raw) is dict else None for raw in parsed.values]
        if kinds.count("rollout") == len(kinds):
            return self._rollouts(parsed) if kinds else []
        found: list[Read] = []
        for are_rollouts, run in groupby(range(len(kinds)), lambda at: kinds[at] == "rollout"):
            places = list(run)
            if are_rollouts:
                found += self._rollouts(parsed.cut(slice(places[0], places[-1] + 1)))
            else:
                found += (self._other(*parsed.at(place)) for place in places)
        return found

    def record(self, raw: dict[str, Any], location: Location) -> Record:
        """The record that an object stands for; ValueError with a short reason where it stands for none."""
        kind = raw.get("kind")
        if kind == "rollout":
            return self._columns.bundle([raw], Places(*([number] for number in location)))[0]
        read = self._others.get(kind) if isinstance(kind, str) else None
        if read is None:
            raise ValueError("record without a kind" if kind is None else f"unknown kind {kind!r:.40}")
        return read(raw, location)

    def _rollouts(self, parsed: Parsed) -> list[Read]:
        """A bundle; where one of them cannot be right, that one is skipped, and what lies around it is bundled."""
        size = len(parsed.values)
        try:
            return [self._columns.bundle(parsed.values, parsed.places)]
        except ValueError as error:
            if size == 1:
                return [Skipped(str(error), parsed.places.offsets[0], parsed.numbers[0])]
        first, second = parsed.cut(slice(size // 2)), parsed.cut(slice(size // 2, size))
        return [*self._rollouts(first), *self._rollouts(second)]

    def _other(self, value: Any, location: Location, number: int) -> Record:
        try:
            if isinstance(value, ValueError):
                raise value
            return self.record(as_record(value), location)
        except ValueError as error:
            return Skipped(str(error), location.offset, number)

    def _run(self, raw: dict[str, Any], _: Location) -> Run:
        schema = raw.get("schema", SCHEMA)
        if schema != SCHEMA:
            raise ValueError(f"schema {schema!r:.40} is not {SCHEMA}")
        framework = text(raw.get("framework"))
        if framework:
            self._context.framework = framework
        config, drops_flat = raw.get("config"), raw.get("drops_flat_groups")
        return Run(
            run=text(raw.get("run")),
            framework=framework,
            algorithm=text(raw.get("algorithm")),
            group_size=integer(raw.get("group_size")),
            sampling=normal_sampling(_mapping(raw.get("sampling"))),
            version_lag_tolerance=number(raw.get("version_lag_tolerance")),
            reward_range=_reward_range(raw.get("reward_range")),
            success=_success(raw.get("success")),
            env_version=text(raw.get("env_version")),
            reward_version=text(raw.get("reward_version")),
            total_steps=integer(raw.get("total_steps")),
            config=config if isinstance(config, dict) else None,
            finished=raw.get("finished") if isinstance(raw.get("finished"), bool) else None,
            drops_flat_groups=drops_flat if isinstance(drops_flat, bool) else None,
            recording=text(raw.get("recording")),
        )


class Parsed(NamedTuple):
    """What is on some lines, one element a line."""

    values: Sequence[Any]
    """The JSON value, or the ValueError that says why there is none."""
    places: Places
    numbers: Sequence[int]
    """Of the lines."""

    def cut(self, where: slice) -> Parsed:
        """Some of the lines."""
        return Parsed(self.values[where], self.places.cut(where), self.numbers[where])

    def at(self, place: int) -> tuple[Any, Location, int]:
        """What is on one line, where it lies, and its number."""
        offsets, lengths, parts = self.places
        return self.values[place], Location(offsets[place], lengths[place], parts[place]), self.numbers[place]


def _parsed_alone(lines: Lines) -> Parsed | None:
    """The only line; None where it is no plain JSON."""
    (line,) = lines.lines
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return Parsed((value,), Places((lines.offset,), (len(line),), (0,)), (lines.first_number,))


def _parsed_at_once(lines: Lines) -> Parsed | None:
    """Several lines as the elements of one array, with a mark after each; None where one of them is no plain JSON."""
    data, count = lines.data, lines.count
    try:
        found = orjson.loads(b"".join((b"[", data.replace(b"\n", _BETWEEN), b"0]")))
    except orjson.JSONDecodeError:
        return None
    if len(lines.ends) != count or len(found) != 2 * count + 1 or found[1::2].count(_MARK) != count:
        return None  # a line held no value or several, or parts of one
    return Parsed(found[:-1:2], _places(lines), range(lines.first_number, lines.first_number + count))


def _places(lines: Lines) -> Places:
    """Where each of some lines lies."""
    import numpy as np  # noqa: PLC0415  choosing a format does without

    ends = np.array(lines.ends, np.int64)
    starts = np.append(0, ends + 1)[:-1]
    offsets, lengths = (array("q", values.tobytes()) for values in (lines.offset + starts, ends - starts))
    return Places(offsets, lengths, (0,) * len(ends))


def _parsed_one_by_one(lines: Lines) -> Parsed:
    """The lines that are not empty."""
    values: list[Any] = []
    places: list[Location] = []
    numbers: list[int] = []
    offset = lines.offset
    for line_number, line in enumerate(lines.lines, lines.first_number):
        if stripped := bare(line):
            try:
                values.append(parse(stripped))
            except ValueError as error:
                values.append(error)
            places.append(Location(offset, len(line)))
            numbers.append(line_number)
        offset += len(line) + 1
    return Parsed(values, Places(*zip(*places, strict=True)) if places else Places((), (), ()), numbers)


def _step(raw: dict[str, Any], location: Location) -> Step:
    return Step(
        step_number(raw.get("step"), "step"),
        _metrics(raw, "step"),
        timestamp(raw.get("time")),
        location=location,
    )


def _eval(raw: dict[str, Any], location: Location) -> Eval:
    metrics = {key.removeprefix("eval_"): value for key, value in _metrics(raw, "eval").items()}
    suite = text(raw.get("suite")) or "heldout"
    return Eval(
        step_number(raw.get("step"), "eval"), metrics, suite, timestamp(raw.get("time")), location=location
    )


def _sampler(raw: dict[str, Any], _: Location) -> SamplerLook:
    name = text(raw.get("sampler"))
    if name is None:
        raise ValueError("sampler record without a sampler")
    return SamplerLook(
        name,
        normal_sampling(_mapping(raw.get("sampling"))),
        text(raw.get("weight_version")),
        _known_numbers(raw.get("counters")),
        timestamp(raw.get("time")),
        text(raw.get("engine")),
        text(raw.get("model")),
        {name: origin for name, origin in (_mapping(raw.get("origins")) or {}).items() if text(origin)}
        or None,
        _known_numbers(raw.get("gauges")),
        tuple(line for line in _list(raw.get("unknown")) if isinstance(line, str)),
    )


def _known_numbers(values: object) -> dict[str, float] | None:
    return {key: value for key, value in numbers(values).items() if value is not None} or None


def _grade(raw: dict[str, Any], _: Location) -> Grade:
    score = number(raw.get("score"))
    where = _mapping(raw.get("rollout")) or {}
    offset, length = integer(where.get("offset")), integer(where.get("length"))
    if score is None or not math.isfinite(score):
        raise ValueError("grade without a score")
    if offset is None or length is None:
        raise ValueError("grade without the location of its rollout")
    location = Location(offset, length, integer(where.get("part")) or 0)
    return Grade(location, score, text(raw.get("note")) or "", timestamp(raw.get("time")))


def _metrics(raw: dict[str, Any], kind: str) -> dict[str, float | None]:
    metrics = raw.get("metrics")
    if type(metrics) is not dict:
        raise ValueError(f"{kind} without metrics")
    return numbers(metrics)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _reward_range(value: object) -> tuple[float, float] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    low, high = number(value[0]), number(value[1])
    return (low, high) if low is not None and high is not None and low < high else None


def _success(value: object) -> Success | None:
    raw = _mapping(value) or {}
    of, at_least = raw.get("of"), number(raw.get("at_least"))
    return Success(of, at_least) if isinstance(of, str) and at_least is not None else None
