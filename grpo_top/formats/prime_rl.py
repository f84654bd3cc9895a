"""prime-rl: the run directory of its file monitor, in every layout since April 2026.

`rollouts/step_N/{train,eval}/all/traces.jsonl` grows by a line whenever an episode completes, under the batch that is
collecting just then; `effective/traces.jsonl` gets the shipped ones once more, with their advantage. Statistics are
those of `all`: what ships leaves out rollouts without advantage, single ones of healthy groups among them. Before
15 August 2026 a line was one trace, before 9 July a flat rollout in `rollouts/step_N/train_rollouts.jsonl`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.decode import bare, head_records, integer, parse_record, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.prime_rl_arrivals import Arrivals, arrivals_of
from grpo_top.formats.prime_rl_console import ConsoleReader, console_claim
from grpo_top.formats.prime_rl_exports import ExportReader, exports_of, is_export
from grpo_top.formats.prime_rl_metrics import ConfigReader, MetricsReader, is_config, is_metrics
from grpo_top.formats.verifiers import is_trace
from grpo_top.formats.verifiers_results import is_output, output_rollout
from grpo_top.formats.verifiers_traces import (
    Intended,
    Place,
    mapping,
    note_intended,
    policy_span,
    rollouts,
    traces_of,
)
from grpo_top.records import EVAL, TRAIN, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record, Rollout

NAME = "prime-rl"
ALL, EFFECTIVE = "all", "effective"

_STEP = re.compile(r"step_(\d+)")
_OF_PRIME = frozenset(("group_id", "policy_version", "eval_step", "off_policy_steps"))


class PrimeRl(Format):
    """Reads what prime-rl writes."""

    name: ClassVar[str] = NAME
    surest: int = 95
    rollouts_hint: ClassVar[str] = "leave monitors.file on (it is by default since July 2026)"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of the first records, the keys of a config, or a printed step line."""
        records = head_records(head)
        if records and all(map(_is_rollout, records)):
            folder = Folder.of(path)
            placed = folder.step is not None and "rollouts" in path.parts
            return _rollouts_claim(folder) if placed or any(map(_is_of_training, records)) else None
        if records and any(map(is_metrics, records)):
            return Claim(90, "lines", "metrics", f"{NAME} metrics {path}", 2)
        if records and all(map(is_export, records)):
            writer = f"{NAME} token exports {path.parent.parent}"
            return Claim(92, "lines", "token exports", writer, 3, anew=True)
        if is_config(head):
            return Claim(90, "whole", "config", f"{NAME} config", 1)
        return None if records else console_claim(path, head)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        if claim.role == "config":
            return ConfigReader(context)
        if claim.role == "console":
            return ConsoleReader()
        if claim.role == "metrics":
            return MetricsReader()
        if claim.role == "token exports":
            return ExportReader(path, exports_of(context))
        folder = Folder.of(path)
        arrivals = arrivals_of(context)
        if folder.subset == ALL:
            arrivals.logged.add((folder.run, folder.split))
        elif folder.subset == EFFECTIVE:
            return ShippedReader(folder, arrivals)
        return RolloutsReader(folder, arrivals)


class Folder(NamedTuple):
    """What the place of a rollout file says of its rollouts."""

    step: int | None
    split: str
    subset: str
    run: str
    """The run's own folder."""

    @classmethod
    def of(cls, path: PurePath) -> Folder:
        """By the names of the folders above it."""
        parts = path.parts
        steps = [int(found[1]) for part in parts if (found := _STEP.fullmatch(part))]
        subset = next((part for part in parts if part in {ALL, EFFECTIVE}), "")
        evaluated = EVAL in parts or path.name.startswith("eval_rollouts")
        above = parts.index(subset) if subset else len(parts) - 1
        run = next((at for at in range(above, -1, -1) if parts[at] in {"rollouts", "traces"}), above)
        return cls(
            steps[-1] if steps else None,
            EVAL if evaluated else TRAIN,
            subset,
            "/".join(parts[:run]),
        )


def _rollouts_claim(folder: Folder) -> Claim:
    writer = f"{NAME} {folder.split} rollouts {folder.run}"
    copies = folder.subset == EFFECTIVE
    if copies and folder.split == EVAL:
        return Claim(95, "none", "copies", writer, 3)
    return Claim(95, "lines", "shipped" if copies else "rollouts", writer, 3, anew=folder.step is not None)


def _is_rollout(record: Mapping[str, Any]) -> bool:
    return is_trace(record) or is_output(record)


def _is_of_training(record: Mapping[str, Any]) -> bool:
    """Whether a trainer ran the episode, by what it stamps on it."""
    if mapping(record.get("run")).get("type") == TRAIN or not _OF_PRIME.isdisjoint(record):
        return True
    return not _OF_PRIME.isdisjoint(mapping(record.get("info")))


class RolloutsReader(JsonLinesReader):
    """Reads every episode that completed: the traces of the policy, one rollout each."""

    def __init__(self, folder: Folder, arrivals: Arrivals) -> None:
        self._folder = folder
        self._arrivals = arrivals

    def fresh(self) -> RolloutsReader:
        """A reader that has read nothing, of a run of which nothing is known."""
        return type(self)(self._folder, Arrivals())

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The run where it is new, then the episode's rollouts, each in the place where it first arrived."""
        if not _is_rollout(raw):
            raise ValueError("no episode: its task, nodes or traces are missing")
        name = text(mapping(raw.get("run")).get("name"))
        if self._arrivals.announce(name):
            yield Run(run=name, framework=NAME)
        if self._folder.split == TRAIN:
            yield from note_intended(raw, self._arrivals.intended)
        ids = _trace_ids(raw, location)
        for rollout in self._plain(raw, location, self._arrivals.intended):
            known = self._put(rollout, ids[rollout.location.part])
            if known is not None:
                yield known

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout at `location`; where it arrived does not matter."""
        try:
            found = list(self._plain(parse_record(bare(data)), location, Intended()))
        except ValueError:
            return None
        return found[location.part] if location.part < len(found) else None

    def _put(self, rollout: Rollout, trace: str) -> Rollout | None:
        """The rollout in its place among those that arrived."""
        return self._arrivals.placed(rollout, trace)

    def _plain(self, raw: dict[str, Any], location: Location, intended: Intended) -> Iterator[Rollout]:
        """The rollouts of a line under the step of its folder."""
        place = _place(raw, self._folder)
        if is_output(raw):
            yield output_rollout(raw, place, location)
        else:
            yield from rollouts(raw, place, location, intended)


class ShippedReader(RolloutsReader):
    """Reads the shipped copies: each takes the place of its rollout, adding the advantage and the step it trains.

    One whose rollout has not arrived yet waits in the arrivals until it does; where no file holds all rollouts, the
    copies are all there is.
    """

    def _put(self, rollout: Rollout, trace: str) -> Rollout | None:
        alone = (self._folder.run, self._folder.split) not in self._arrivals.logged
        return self._arrivals.shipped(rollout, trace, alone)


def _trace_ids(raw: Mapping[str, Any], location: Location) -> list[str]:
    """The ids that the rollouts of a line have in both files; a copy may hold some of an episode's traces alone."""
    line = text(raw.get("rollout_id")) or text(raw.get("id")) or f"at {location.offset}"
    if is_output(raw):
        return [line]
    return [text(trace.get("id")) or f"{line} {place}" for place, trace in enumerate(traces_of(raw))]


def _place(raw: Mapping[str, Any], folder: Folder) -> Place:
    """Step, split and group; ValueError where nothing says which step it is.

    A line that lies in no step's folder says its step, or the policy that sampled it: batch N is collected from
    policy N - 1.
    """
    run, info = mapping(raw.get("run")), mapping(raw.get("info"))
    work = mapping(run.get("work"))
    kind = text(work.get("type")) or text(raw.get("kind"))
    policy = policy_span(raw)[0]
    said = (folder.step, raw.get("eval_step"), work.get("step"), run.get("step"))
    step = next((found for value in said if (found := integer(value)) is not None), None)
    if step is None:
        if policy is None:
            raise ValueError("rollout without a step")
        step = policy + 1
    group = text(mapping(raw.get("group")).get("id")) or text(raw.get("group_id") or info.get("group_id"))
    split = EVAL if EVAL in {folder.split, kind} else TRAIN
    return Place(step, split, group, step - 1)
