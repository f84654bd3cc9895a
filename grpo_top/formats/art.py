"""OpenPipe ART: trajectories by step (parquet; before 0.5 a group a line, at first YAML) and `history.jsonl`.

A trajectory file is named after its step and lies in the folder of its split; `discarded` holds groups of the
training step that had no variance. The parquet drops finish reasons and log-probabilities; lengths and truncation
are known where the environment counts them among its metrics.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.conversation import as_message, spoken, task_name
from grpo_top.formats.decode import (
    bare,
    head_records,
    integer,
    number,
    numbers,
    parse_record,
    text,
    timestamp,
)
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.parquet import MAGIC, parquet_rows
from grpo_top.formats.usual import filled
from grpo_top.formats.yaml_values import parse_yaml
from grpo_top.records import EVAL, NOWHERE, TRAIN, Eval, Location, Rollout, Run, Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Message, Record

NAME = "art"
DISCARDED = "discarded"

_SPLITS = {"train": TRAIN, DISCARDED: TRAIN, "val": EVAL, "test": EVAL}
_SECTIONS = (
    "train/",
    "val/",
    "test/",
    "discarded/",
    "loss/",
    "data/",
    "time/",
    "throughput/",
    "costs/",
    "checkpoint/",
)
_YAML_GROUPS = re.compile(rb"\s*- (?:&\S+\s+)?trajectories:\s")
_COUNTS = re.compile(
    r"(?:.*_)?(?:tokens|truncated|turns|steps|duration|time|cost|num_.*)(?:_.*)?", re.IGNORECASE
)
"""Metrics of a trajectory that count what happened: no part of its reward."""


class Art(Format):
    """Reads what ART writes."""

    name: ClassVar[str] = NAME
    surest: int = 92
    rollouts_hint: ClassVar[str] = "call model.log(groups, split='train') with each step's trajectory groups"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the folders and columns of a table, or the fields of the first records."""
        writer, split = f"{NAME} {path.parent.parent}", _SPLITS.get(path.parent.name)
        if head.startswith(MAGIC):
            placed = split is not None and path.parent.parent.name == "trajectories" and path.stem.isdecimal()
            columns = all(word in head for word in (b"group_index", b"group_metadata", b"trainable"))
            return Claim(92 if placed else 80, "whole", "rollouts", writer, 3) if placed or columns else None
        if _YAML_GROUPS.match(head) and b"messages_and_choices:" in head:
            return Claim(90, "whole", "groups", writer, 3)
        records = head_records(head)
        if records and all(map(_is_history, records)):
            return Claim(90, "lines", "metrics", f"{NAME} history {path}", 2)
        if records and all(map(_is_group, records)):
            return Claim(90, "lines", "rollouts", writer, 3, anew=True)
        if path.name == "state.json" and b'"_metrics_builder_state"' in head:
            return Claim(90, "none", "state", writer, 1)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        if claim.role == "metrics":
            return HistoryReader(path.parent.name or None)
        place = Place(integer(path.stem), path.parent.name)
        if claim.role == "groups":
            return YamlReader(place)
        return TableReader(place) if claim.feed == "whole" else GroupsReader(place)


def _is_history(record: Mapping[str, Any]) -> bool:
    dated = "recorded_at" in record and ("step" in record or "training_step" in record)
    return dated and any(key.startswith(_SECTIONS) for key in record)


def _is_group(record: Mapping[str, Any]) -> bool:
    trajectories = record.get("trajectories")
    if not isinstance(trajectories, list):
        return list(record) == ["trajectories"]  # cut, since the line is longer than the head
    return all(isinstance(found, dict) and "messages_and_choices" in found for found in trajectories)


class HistoryReader(JsonLinesReader):
    """Reads `history.jsonl`: a row for each split that was logged, so evaluations share the step of training rows."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._announced = False

    def fresh(self) -> HistoryReader:
        """A reader that has read nothing."""
        return HistoryReader(self._model)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """An evaluation where the row is one of a held-out split; its counts mix both and are left out. Else a step."""
        step = integer(raw.get("training_step", raw.get("step")))
        if step is None:
            raise ValueError("history without a step")
        if not self._announced:
            self._announced = True
            yield Run(run=self._model, framework=NAME)
        time = timestamp(raw.get("recorded_at"))
        metrics = {key: value for key, value in numbers(raw).items() if key not in {"step", "training_step"}}
        suites = [name for name in ("val", "test") if any(key.startswith(f"{name}/") for key in metrics)]
        for suite in suites:
            prefix = f"{suite}/"
            values = {
                key.removeprefix(prefix): value for key, value in metrics.items() if key.startswith(prefix)
            }
            yield Eval(step, values, suite, time, location=location)
        if not suites:
            yield Step(step, metrics, time, location=location)


class Place(NamedTuple):
    """What the name and folder of a trajectory file say."""

    step: int | None
    folder: str

    @property
    def split(self) -> str:
        """`train` or `eval`."""
        return _SPLITS.get(self.folder, TRAIN)

    def group(self, number_: object) -> str:
        """A group's name; discarded ones are counted apart from those that were trained on."""
        return f"{DISCARDED} {number_}" if self.folder == DISCARDED else str(number_)


class TableReader(Reader):
    """Reads one `0012.parquet`; a rollout's location is its row."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def fresh(self) -> TableReader:
        """A reader that has read nothing."""
        return TableReader(self._place)

    def whole(self, data: bytes) -> list[Record]:
        """One rollout a row."""
        try:
            rows = parquet_rows(data)
            return [_rollout(_of_row(row), self._place, Location(place, 0)) for place, row in enumerate(rows)]
        except ValueError as error:
            return [Skipped(str(error), 0)]

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout of row `location.offset`, from the whole file."""
        found = self.whole(data)
        record = found[location.offset] if location.offset < len(found) else None
        return record if isinstance(record, Rollout) else None


class GroupsReader(JsonLinesReader):
    """Reads a trajectory file of ART before 0.5: one group a line."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._groups = 0

    def fresh(self) -> GroupsReader:
        """A reader that has read nothing."""
        return GroupsReader(self._place)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The rollouts of one group; `location.part` counts them."""
        found = _of_group(raw, self._groups, self._place)
        self._groups += 1
        for part, rollout in enumerate(found):
            yield rollout._replace(location=location._replace(part=part))


class YamlReader(Reader):
    """Reads a trajectory file of the first versions: a list of groups; a rollout's location is its number."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def fresh(self) -> YamlReader:
        """A reader that has read nothing."""
        return YamlReader(self._place)

    def whole(self, data: bytes) -> list[Record]:
        """The rollouts of all groups; a group that is none is skipped alone."""
        found: list[Record] = []
        try:
            groups = parse_yaml(data)
        except ValueError as error:
            return [Skipped(str(error), 0)]
        count = 0
        for number_, group in enumerate(groups if isinstance(groups, list) else [groups]):
            try:
                for rollout in _of_group(group, number_, self._place):
                    found.append(rollout._replace(location=Location(count, 0)))
                    count += 1
            except ValueError as error:
                found.append(Skipped(str(error), 0))
        return found

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout of that number, from the whole file."""
        found = [record for record in self.whole(data) if isinstance(record, Rollout)]
        return found[location.offset] if location.offset < len(found) else None


def _of_group(raw: object, number_: int, place: Place) -> list[Rollout]:
    """The rollouts of a group before 0.5; what it says of itself holds for each of them."""
    trajectories = raw.get("trajectories") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(trajectories, list):
        raise ValueError("group without trajectories")
    of_group = {"group_index": number_, "group_metadata": raw.get("metadata")}
    return [
        _rollout({**one, **of_group, "messages": one.get("messages_and_choices")}, place, NOWHERE)
        for one in trajectories
        if isinstance(one, dict)
    ]


def _of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the columns opened that hold JSON in strings."""
    opened = dict(row)
    for name in ("group_metadata", "metrics", "metadata"):
        quoted = row.get(name)
        try:
            opened[name] = parse_record(bare(quoted.encode())) if isinstance(quoted, str) else {}
        except ValueError:
            opened[name] = {}
    return opened


class _Turn(NamedTuple):
    message: Message
    trainable: bool
    finish_reason: str | None


def _turns(messages: object) -> Iterator[_Turn]:
    """The turns of a trajectory: messages with a flag (parquet), or messages and the API's choices (before 0.5)."""
    for turn in messages if isinstance(messages, list) else ():
        choice = turn.get("message") if isinstance(turn, dict) else None
        message = as_message(choice if isinstance(choice, dict) else turn)
        if message is not None:
            trainable = isinstance(choice, dict) or turn.get("trainable") is True
            yield _Turn(message, trainable, text(turn.get("finish_reason")))


def _rollout(raw: Mapping[str, Any], place: Place, location: Location) -> Rollout:
    if place.step is None:
        raise ValueError("trajectories in a file that is not named after a step")
    metrics, turns = numbers(raw.get("metrics")), list(_turns(raw.get("messages")))
    said = {**_mapping(raw.get("group_metadata")), **_mapping(raw.get("metadata"))}
    sampled = [turn for turn in turns if turn.trainable] or [
        turn for turn in turns if turn.message.role == "assistant"
    ]
    first = turns.index(sampled[0]) if sampled else len(turns)
    finish = text(said.get("finish_reason")) or next(
        (t.finish_reason for t in reversed(turns) if t.finish_reason), None
    )
    truncated = metrics.get("truncated")
    prompt = "\n".join(turn.message.content for turn in turns[:first]) if turns else None
    rollout = Rollout(
        step=place.step,
        group=place.group(raw.get("group_index")),
        reward=number(raw.get("reward")),
        rewards={name: value for name, value in metrics.items() if not _COUNTS.fullmatch(name)} or None,
        split=place.split,
        task=task_name(text(said.get("scenario_id")), prompt),
        family=text(said.get("family")),
        tier=text(said.get("tier")) or text(said.get("difficulty")),
        prompt=prompt,
        completion="\n".join(spoken(turn.message) for turn in sampled) if turns else None,
        messages=[turn.message for turn in turns] or None,
        prompt_tokens=integer(metrics.get("prompt_tokens")),
        completion_tokens=integer(metrics.get("completion_tokens")),
        finish_reason=finish,
        truncated=None if truncated is None else truncated > 0,
        location=location,
    )
    return filled(rollout, said)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
