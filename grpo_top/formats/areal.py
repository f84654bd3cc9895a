"""AReaL: dumped trajectories, `rollout/{version}/{task}.jsonl`, and the tables that it prints for each step.

A file holds the rollouts of one prompt: a group. Its folder is the newest policy version that wrote in it, not the
step that trained on it, which nothing says. `head_version` is -1, since prompts carry that version.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.areal_texts import BEGIN, TextReader
from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import PRINTED
from grpo_top.formats.decode import head_records, integer, number, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.printed_blocks import Block, BlockReader, Heading, Numbers, block_claim, cells
from grpo_top.formats.usual import filled
from grpo_top.records import EVAL, TRAIN, Eval, Rollout, Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

NAME = "areal"

_HEADING = re.compile(r"\bTrain step (?P<step>\d{1,12})/(?P<total>\d{1,12}) done")
_EVAL_FOLDER = "eval-rollout"
_EVALUATION = "eval-rollout/"
_ENOUGH_VERSIONS = 3
"""Folders of versions from which on their regularity tells how many groups a step takes."""


class Areal(Format):
    """Reads what AReaL writes."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = "set rollout.dump_to_file=true and rollout.tokenizer_path"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the versions of a trajectory, or by a printed table."""
        if BEGIN.match(head):
            return Claim(90, "whole", "rollouts", f"{NAME} {_folder(path)} {path.parents[1]}", 3)
        records = head_records(head)
        if not records:
            return block_claim(head, f"{NAME} console {path}", TableReader, b"areal")
        if all(map(_is_trajectory, records)):
            return Claim(90, "lines", "rollouts", f"{NAME} {_folder(path)} {path.parents[1]}", 3)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        if claim.role == "console":
            return TableReader()
        if claim.feed == "whole":
            return TextReader(path)
        split = EVAL if _folder(path) == _EVAL_FOLDER else TRAIN
        schedule = Schedule() if split == EVAL else _schedule(context)
        schedule.expect(integer(path.stem), integer(path.parent.name))
        return TrajectoryReader(split, schedule)


def _folder(path: PurePath) -> str:
    """`rollout` or `eval-rollout`."""
    return path.parent.parent.name


def _is_trajectory(record: Mapping[str, Any]) -> bool:
    return {"task_id", "sample_idx", "tail_version"} <= record.keys()


def _schedule(context: RunContext) -> Schedule:
    known = context.notes.setdefault("areal schedule", Schedule())
    return known if isinstance(known, Schedule) else Schedule()


@dataclass(slots=True)
class Schedule:
    """Which step a task belongs to.

    A step takes the oldest tasks, as many groups as make a batch. Where the tasks that are there when reading
    begins are whole and every version but the first and last holds the same number of them, that number is the
    batch. Else a task belongs to the first step that could take it, the one after its version.
    """

    _versions: dict[int, int] = field(default_factory=dict)
    """Task → version."""
    _batch: int | None = None
    _settled: bool = False

    def expect(self, task: int | None, version: int | None) -> None:
        """Take note of a file by its name."""
        if not self._settled and task is not None and version is not None:
            self._versions[task] = version

    def step(self, task: int | None, version: int) -> int:
        """The step, from 1, of a task that ended under a policy version."""
        if not self._settled:
            self._settled, self._batch = True, self._regular()
        if self._batch and task is not None and version <= task // self._batch:
            return task // self._batch + 1
        return version + 1

    def _regular(self) -> int | None:
        tasks = sorted(self._versions)
        counts = Counter(self._versions.values())
        inner = {counts[version] for version in sorted(counts)[1:-1]}
        if len(counts) < _ENOUGH_VERSIONS or len(inner) != 1 or tasks != list(range(len(tasks))):
            return None
        (batch,) = inner
        fits = all(version <= task // batch for task, version in self._versions.items())
        return batch if fits else None


class TrajectoryReader(JsonLinesReader):
    """Reads the rollouts of one task."""

    def __init__(self, split: str, schedule: Schedule) -> None:
        self._split = split
        self._schedule = schedule

    def fresh(self) -> TrajectoryReader:
        """A reader that has read nothing."""
        return TrajectoryReader(self._split, self._schedule)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout."""
        task, version = integer(raw.get("task_id")), integer(raw.get("tail_version"))
        if version is None:
            raise ValueError("rollout without a policy version")
        first = integer(raw.get("head_version"))
        length, prompt = integer(raw.get("seqlen")), integer(raw.get("prompt_len"))
        rollout = Rollout(
            step=self._schedule.step(task, version),
            group=text(raw.get("task_id")),
            reward=number(raw.get("reward")),
            index=integer(raw.get("sample_idx")),
            split=self._split,
            prompt=text(raw.get("prompt")),
            completion=text(raw.get("completion")),
            prompt_tokens=prompt,
            completion_tokens=None if length is None or prompt is None else length - prompt,
            policy_version=None if first is None or first < 0 else first,
            policy_version_end=version,
            location=location,
        )
        yield filled(rollout, {name: value for name, value in raw.items() if name != "task_id"})


class TableReader(BlockReader):
    """Reads the tables that are printed for each step, several names and values a row."""

    mark: ClassVar[bytes] = "│".encode()

    def fresh(self) -> TableReader:
        """A reader that has read nothing."""
        return TableReader()

    def heading(self, text: str) -> Heading | None:
        """`Epoch 1/1 Step 3/150 Train step 3/150 done.`."""
        found = _HEADING.search(text)
        return Heading(int(found["step"]), int(found["total"])) if found else None

    def numbers(self, text: str) -> Numbers:
        """`│ ppo_actor/task_reward/avg │ 9.3750e-01 │ … │`."""
        row = cells(text)
        pairs = zip(row[::2], row[1::2], strict=False)
        return {name: value for name, cell in pairs if name and (value := number(cell)) is not None}

    def records(self, block: Block) -> Iterator[Record]:
        """The run, the step and its evaluation."""
        step, numbers = block.heading.step, block.numbers
        yield Run(framework=NAME, total_steps=block.heading.total_steps)
        heldout = {
            name.removeprefix(_EVALUATION): value
            for name, value in numbers.items()
            if name.startswith(_EVALUATION)
        }
        trained = {name: value for name, value in numbers.items() if not name.startswith(_EVALUATION)}
        if trained:
            yield Step(step, trained, rank=PRINTED, location=block.location)
        if heldout:
            yield Eval(step, heldout, rank=PRINTED, location=block.location)
