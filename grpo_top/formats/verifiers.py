"""verifiers' evaluations (`vf-eval`): results and traces of every version, and the configs beside them.

An evaluation has no training steps. Its rollouts are read as those of one training step, so that groups, variance,
endings and lengths can be judged as they would be in training; of several evaluations in one place each is a step of
its own, counted from 0. Groups are the rollouts of one example.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.decode import bare, head_records, integer, parse_record, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.verifiers_results import is_output, output_rollout
from grpo_top.formats.verifiers_traces import (
    Intended,
    Place,
    environment,
    mapping,
    note_intended,
    rollouts,
)
from grpo_top.records import Run, Skipped, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

NAME = "verifiers"
AS_ONE_STEP = "an evaluation, judged as one training step"

_METADATA = (b'"env_id"', b'"sampling_args"', b'"rollouts_per_example"')
_CONFIG = (b'"taskset"', b'"num_rollouts"', b'"sampling"')
_TOML = (b"num_rollouts", b"taskset")
_OF_TRACES = frozenset(("traces", "nodes", "env", "agent", "runtime"))


class Verifiers(Format):
    """Reads what `vf-eval` writes."""

    name: ClassVar[str] = NAME
    surest: int = 92
    rollouts_hint: ClassVar[str] = "run vf-eval with --save-results (it is the default since 0.2)"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of the first records, or by what the config declares."""
        records = head_records(head)
        for role, confidence, test in (("results", 92, is_output), ("traces", 90, is_trace)):
            if records and all(map(test, records)):
                return Claim(confidence, "lines", role, f"{NAME} {path}", 3, anew=True)
        if any(all(word in head for word in words) for words in _wanted(path, head)):
            return Claim(90, "whole", "config", f"{NAME} config", 1)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        if claim.role == "config":
            return ConfigReader(toml=path.suffix == ".toml")
        step = _evaluation_number(context, path)
        return ResultsReader(step) if claim.role == "results" else TracesReader(step)


def is_trace(record: Mapping[str, Any]) -> bool:
    """Whether an object is an episode or a trace, or as much of one as a head holds: a task, and what came of it."""
    task = record.get("task")
    typed = isinstance(task, dict) and {"type", "data"} <= task.keys()
    return "id" in record and typed and not _OF_TRACES.isdisjoint(record)


def _wanted(path: PurePath, head: bytes) -> Iterator[tuple[bytes, ...]]:
    if bare(head[:4096]).startswith(b"{"):
        yield from (_METADATA, _CONFIG)
    elif path.suffix == ".toml":
        yield _TOML


def _evaluation_number(context: RunContext, path: PurePath) -> int:
    known = context.notes.setdefault("verifiers evaluations", {})
    return known.setdefault(path, len(known)) if isinstance(known, dict) else 0


class ResultsReader(JsonLinesReader):
    """Reads `results.jsonl` of verifiers 0.1."""

    note = AS_ONE_STEP

    def __init__(self, step: int) -> None:
        self._step = step
        self._announced = False

    def fresh(self) -> ResultsReader:
        """A reader that has read nothing."""
        return ResultsReader(self._step)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout."""
        if not is_output(raw):
            raise ValueError("no result of a rollout: example_id, prompt, completion or reward are missing")
        if not self._announced:
            self._announced = True
            yield Run(framework=NAME)
        yield output_rollout(raw, Place(self._step), location)


class TracesReader(JsonLinesReader):
    """Reads `traces.jsonl` of verifiers 0.2 (a trace a line) and later (an episode a line)."""

    note = AS_ONE_STEP

    def __init__(self, step: int) -> None:
        self._step = step
        self._intended = Intended()
        self._announced = False

    def fresh(self) -> TracesReader:
        """A reader that has read nothing."""
        return TracesReader(self._step)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The rollouts of one episode; its task is their group."""
        if not is_trace(raw):
            raise ValueError("no episode: its task, nodes or traces are missing")
        if not self._announced:
            self._announced = True
            yield Run(run=text(mapping(raw.get("run")).get("name")) or environment(raw), framework=NAME)
        yield from note_intended(raw, self._intended)
        for rollout in rollouts(raw, Place(self._step), location, self._intended):
            yield rollout._replace(group=rollout.task)


class ConfigReader(Reader):
    """Reads `metadata.json` (0.1), `config.toml` (0.2) or `eval.json` (0.3 and later): what was intended."""

    def __init__(self, toml: bool = False) -> None:
        self._toml = toml

    def fresh(self) -> ConfigReader:
        """A reader that has read nothing."""
        return ConfigReader(self._toml)

    def whole(self, data: bytes) -> list[Record]:
        """The run."""
        try:
            found = tomllib.loads(data.decode("utf-8", "replace")) if self._toml else parse_record(bare(data))
        except (ValueError, RecursionError) as error:
            return [Skipped(str(error).splitlines()[0][:120], 0)]
        sampling = mapping(found.get("sampling_args")) or mapping(found.get("sampling"))
        run = mapping(found.get("run"))
        parts = (text(found.get("env_id")), text(found.get("model")))
        return [
            Run(
                run=text(run.get("name")) or " ".join(part for part in parts if part) or None,
                framework=NAME,
                group_size=integer(found.get("rollouts_per_example", found.get("num_rollouts"))),
                sampling=normal_sampling({**mapping(sampling.get("extra_body")), **sampling}),
                env_version=text(mapping(found.get("version_info")).get("env_version")),
                config={"model": found.get("model"), "env_args": found.get("env_args")},
            )
        ]
