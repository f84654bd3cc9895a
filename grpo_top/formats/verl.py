"""verl: the file logger's metrics, rollout and validation dumps (`{step}.jsonl`), printed step lines.

Dumps come in two shapes. Classic ones have no group id (groups are equal inputs, and the order is shuffled)
and carry the reward function's extras, numpy scalars among them as quoted strings. Those of the v1 trainer
have `uid`: `{uuid of the prompt}_{number of the rollout}_{part of its output}`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import PRINTED, is_text, progress_bar, segments
from grpo_top.formats.conversation import texts
from grpo_top.formats.decode import bare, head_records, integer, number, numbers, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.printed_config import PrintedConfig
from grpo_top.formats.tool_calls import tool_calls_parse
from grpo_top.formats.tracked_config import run_of
from grpo_top.formats.usual import NAMES, filled
from grpo_top.records import EVAL, TRAIN, Eval, Location, Rollout, Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines

NAME = "verl"

_FAMILIES = ("critic/", "response_length/", "training/", "val-core/", "val-aux/", "rollout_corr/")
"""Beginnings of keys that verl alone logs."""
_LONG_PREAMBLE = 60_000
"""Bytes of a head that is all start-up messages, so that steps may yet come."""
_VALIDATION = re.compile(
    r"(?<![a-z])(?:e?val|validation|test)(?![a-z])|(?<![a-z])e?val(?:uation|idation)", re.IGNORECASE
)
_TEST_SCORE = "val/test_score/"
"""What the validation of verl up to 0.2 is called, before the data source."""
_VALIDATED = ("val-", _TEST_SCORE)
_STEP = re.compile(r"(?<![\w/])step:(?P<step>\d{1,12}) - (?=\S+:)")
_NO_COMPONENTS = NAMES | {
    "input",
    "output",
    "gts",
    "score",
    "reward",
    "step",
    "uid",
    "request_id",
    "pred",
    "prediction",
    "answer",
    "index",
    "sample_index",
    "num_turns",
}
"""Fields of a dump that are no part of a reward, whatever they hold."""


class Verl(Format):
    """Reads what verl writes."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = "set trainer.rollout_data_dir=DIR"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of the first records, or by a printed step line."""
        records = head_records(head)
        if not records:
            return _console_claim(path, head)
        if all(_is_metrics(record) for record in records):
            known = any(key.startswith(_FAMILIES) for record in records for key in record.get("data") or ())
            return Claim(90 if known else 50, "lines", "metrics", f"{NAME} metrics {path}", 2)
        if confidence := min(map(_dump_confidence, records)):
            # A dump is written at once: one that begins anew is another attempt at its step, and takes its place.
            a_step_each = path.stem.isdecimal()
            return Claim(confidence, "lines", "rollouts", f"{NAME} dumps {path.parent}", 3, anew=a_step_each)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        if claim.role == "rollouts":
            return DumpReader(integer(path.stem), EVAL if _VALIDATION.search(path.parent.name) else TRAIN)
        context.framework = context.framework or NAME
        return MetricsReader() if claim.role == "metrics" else ConsoleReader()


def _is_metrics(record: Mapping[str, Any]) -> bool:
    return {"step", "data"} == record.keys() and isinstance(record["data"], dict | None)


def _dump_confidence(record: Mapping[str, Any]) -> int:
    if not isinstance(record.get("input"), str | list) or "output" not in record:
        return 40 if list(record) == ["input"] else 0  # a first prompt longer than the head
    if "gts" in record:
        return 90
    return 70 if {"score", "step"} <= record.keys() or list(record) == ["input", "output"] else 0


def _console_claim(path: PurePath, head: bytes) -> Claim | None:
    if not is_text(head):
        return None
    parts = (part for line in head.split(b"\n") if b"step:" in line for part in segments(line))
    steps = [part for part in parts if _STEP.search(part)]
    if any(family in part for part in steps for family in _FAMILIES):
        confidence = 85
    elif steps:
        confidence = 35
    elif len(head) > _LONG_PREAMBLE and b"TaskRunner pid=" in head:
        confidence = 30
    else:
        return None
    return Claim(confidence, "lines", "console", f"{NAME} console {path}", 4)


class MetricsReader(JsonLinesReader):
    """Reads the file logger's lines, `{"step": 12, "data": {…}}`; null is what was not finite."""

    def __init__(self) -> None:
        self._announced = False

    def fresh(self) -> MetricsReader:
        """A reader that has read nothing."""
        return MetricsReader()

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """A step, and one evaluation for each data source that was validated with it."""
        step, data = integer(raw.get("step")), raw.get("data")
        if step is None:
            raise ValueError("metrics without a step")
        if type(data) is not dict:
            raise ValueError("metrics line without data")
        if not self._announced:
            self._announced = True
            yield Run(framework=NAME)
        yield from metric_rows(step, numbers(data), 1, location)


class ConsoleReader(Reader):
    """Reads printed lines, `step:12 - critic/score/mean:0.41 - …`, wherever in a line they begin.

    Before them verl prints all its settings, resolved.
    """

    def __init__(self) -> None:
        self._run = Run()
        self._config: PrintedConfig | None = PrintedConfig(_is_config)
        """None once it was read, or a step came."""

    def fresh(self) -> ConsoleReader:
        """A reader that has read nothing."""
        return ConsoleReader()

    def feed(self, lines: Lines) -> list[Record]:
        """Steps and evaluations of these lines."""
        found: list[Record] = []
        offset = lines.offset
        for line in lines.lines:
            if self._config and (b"{'" in line or self._config.is_open):
                found.extend(self._settings(line))
            if b"step:" in line or b"Training Progress" in line:
                for part in segments(bare(line)):
                    found.extend(self._part(part, Location(offset, len(line))))
            offset += len(line) + 1
        return found

    def _settings(self, line: bytes) -> Iterator[Record]:
        for part in segments(line.rstrip()):
            if self._config and (settings := self._config.take(part)):
                self._config = None
                yield run_of(NAME, settings)

    def _part(self, part: str, location: Location) -> Iterator[Record]:
        bar = progress_bar(part)
        total = bar.total if bar and bar.what.endswith("Training Progress:") else self._run.total_steps
        starts = list(_STEP.finditer(part))
        known = Run(framework=NAME, total_steps=total)
        if known != self._run and (starts or bar):
            self._run = known
            yield known
        if starts:
            self._config = None
        for position, start in enumerate(starts):
            end = starts[position + 1].start() if position + 1 < len(starts) else len(part)
            yield from metric_rows(
                int(start["step"]), _printed_numbers(part[start.end() : end]), PRINTED, location
            )


def _is_config(settings: Mapping[str, Any]) -> bool:
    return "actor_rollout_ref" in settings


def _printed_numbers(printed: str) -> dict[str, float | None]:
    pairs = (field.partition(":") for field in printed.split(" - "))
    return numbers({key.strip(): value.strip() for key, _, value in pairs})


def metric_rows(
    step: int, metrics: dict[str, float | None], rank: int, location: Location
) -> Iterator[Record]:
    """A row's training numbers as a step, its `val-` numbers as one evaluation for each data source.

    Names are `val-core/SOURCE/VARIABLE/STATISTIC` (`val-aux/` likewise), where a source may hold slashes and so
    may a statistic (`best@8/mean`). Numbers over all sources (`val-aux/num_turns/mean`) go to each.
    """
    train = {key: value for key, value in metrics.items() if not key.startswith(_VALIDATED)}
    if train:
        yield Step(step, train, rank=rank, location=location)
    suites: dict[str, dict[str, float | None]] = {}
    shared: dict[str, float | None] = {}
    validation = [key for key in metrics if key.startswith(_VALIDATED)]
    for key in sorted(validation, key=lambda key: not key.startswith("val-core/")):
        source, name = _split_validation(key)
        (suites.setdefault(source, {}) if source else shared).setdefault(name, metrics[key])
    if shared and not suites:
        suites["heldout"] = {}
    for suite, values in suites.items():
        yield Eval(step, values | shared, suite, rank=rank, location=location)


def _split_validation(key: str) -> tuple[str, str]:
    """(data source, variable and statistic) of a validation key; no source where it is over all of them."""
    if key.startswith(_TEST_SCORE):
        return key.removeprefix(_TEST_SCORE), "score"
    parts = key.split("/")[1:]
    statistic = next((place for place, part in enumerate(parts) if "@" in part), len(parts) - 1)
    variable = max(statistic - 1, 0)
    return "/".join(parts[:variable]), "/".join(parts[variable:])


class DumpReader(JsonLinesReader):
    """Reads the lines of a rollout or validation dump."""

    def __init__(self, step: int | None, split: str) -> None:
        self._step = step
        """The step that the file is named after, for records that do not say theirs."""
        self._split = split

    def fresh(self) -> DumpReader:
        """A reader that has read nothing."""
        return DumpReader(self._step, self._split)

    def records(self, raw: dict[str, Any], location: Location) -> Iterable[Record]:
        """One rollout."""
        step = integer(raw.get("step")) if "step" in raw else self._step
        if step is None:
            raise ValueError("rollout without a step")
        group, index = _group(text(raw.get("uid")))
        score = raw.get("score", raw.get("reward"))
        reward = number(score)
        if reward is None and score is not None:
            raise ValueError(f"rollout whose score is a {type(score).__name__}")
        completion = texts(raw.get("output"))
        rollout = Rollout(
            step=step,
            group=group,
            reward=reward,
            index=index,
            rewards=_components(raw) or None,
            split=self._split,
            prompt=texts(raw.get("input")),
            completion=completion,
            parsed=tool_calls_parse(completion),
            location=location,
        )
        return (filled(rollout, raw),)


def _group(uid: str | None) -> tuple[str | None, int | None]:
    parts = uid.rsplit("_", 2) if uid else []
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return parts[0], integer(parts[1])
    return uid, None


def _components(raw: Mapping[str, Any]) -> dict[str, float | None]:
    """The reward function's extras that are numbers or flags, quoted ones (`"-1.0"`, `"True"`) as well."""
    found: dict[str, float | None] = {}
    for key, value in raw.items():
        if key not in _NO_COMPONENTS:
            flag = {"True": 1.0, "False": 0.0}.get(value) if isinstance(value, str) else None
            component = number(value) if flag is None else flag
            if component is not None:
                found[key] = component
    return found
