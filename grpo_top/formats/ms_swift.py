"""ms-swift: `logging.jsonl`, `completions.jsonl`, `args.json`, printed rows. Most words are TRL's, on which it builds.

The step is a string, `12/500`. A line of completions is a whole table, one list a column. Evaluations append theirs
under the step of the training table before, without a mark, and the end of training appends the last one again.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.completions import blocks, given, known_rewards, note_rewards, reward_columns
from grpo_top.formats.console import is_text, printed_dicts, segments
from grpo_top.formats.conversation import texts
from grpo_top.formats.decode import bare, head_records, integer, number, numbers, parse_record, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.tracked_config import intended
from grpo_top.formats.trl_console import ConsoleReader
from grpo_top.formats.trl_rows import is_grpo, row_records
from grpo_top.formats.usual import filled
from grpo_top.records import EVAL, TRAIN, Location, Rollout, Run, Skipped, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

NAME = "ms-swift"

_PROGRESS = ("global_step/max_steps", "iteration")
"""Where a row says its step; the second is Megatron's."""
_OF = re.compile(r"(?P<step>\d{1,12})/(?P<total>\d{1,12})")
_ARGS = "ms-swift args"


class Progress(NamedTuple):
    """`12/500`."""

    step: int
    total: int


class Args(NamedTuple):
    """What `args.json` tells the reader of completions."""

    group_size: int | None
    reward_weights: Sequence[float] | None
    """As many as there are reward functions; None where all weigh 1."""
    reward_is_sum: bool
    """Whether the total reward is the weighted sum and nothing else is in it."""


class MsSwift(Format):
    """Reads what ms-swift writes."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = "pass --log_completions true"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the step's own spelling, by a table in one line, or by the arguments that only ms-swift has."""
        records = head_records(head)
        if records:
            if any(_progress(record) for record in records):
                confidence = 90 if any(map(is_grpo, records)) else 15
                return Claim(confidence, "lines", "metrics", f"{NAME} logging {path}", 2)
            if all(map(_is_completions, records)):
                return Claim(90, "lines", "rollouts", f"{NAME} completions {path}", 3)
            return None
        if _is_args(path, head):
            return Claim(90, "whole", "config", f"{NAME} args", 0)
        return _console_claim(path, head)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:  # noqa: ARG002
        """A reader for the role that was claimed."""
        context.framework = NAME if context.framework in (None, "trl") else context.framework
        if claim.role == "config":
            return ArgsReader(context)
        if claim.role == "metrics":
            return LoggingReader(context)
        return ConsoleReader(context) if claim.role == "console" else CompletionsReader(context)


def _progress(row: Mapping[str, Any]) -> Progress | None:
    for name in _PROGRESS:
        value = row.get(name)
        if isinstance(value, str) and (found := _OF.fullmatch(value)):
            return Progress(int(found["step"]), int(found["total"]))
    return None


def _is_completions(record: Mapping[str, Any]) -> bool:
    return {"prompt"} < record.keys() and ("gen_step" in record or isinstance(record.get("step"), list))


def _is_args(path: PurePath, head: bytes) -> bool:
    said = b'"rlhf_type"' in head or b'"swift_version"' in head
    return bare(head[:64]).startswith(b"{") and said and (path.name == "args.json" or b'"output_dir"' in head)


def _console_claim(path: PurePath, head: bytes) -> Claim | None:
    if not is_text(head):
        return None
    for line in head.split(b"\n"):
        if b"global_step/max_steps" in line:
            rows = [row for part in segments(line) for row in printed_dicts(part) if _progress(row)]
            if any(map(is_grpo, rows)):
                return Claim(90, "lines", "console", f"{NAME} console {path}", 4)
    return None


class ArgsReader(Reader):
    """Reads `args.json`, every argument of the run."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> ArgsReader:
        """A reader that has read nothing."""
        return ArgsReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """The run, with its intended sampling."""
        try:
            args = parse_record(bare(data))
        except ValueError as error:
            return [Skipped(str(error), 0)]
        weights = args.get("reward_weights")
        known = [number(weight) for weight in weights] if isinstance(weights, list) else None
        self._context.notes[_ARGS] = Args(
            integer(args.get("num_generations")),
            None if known is None else [math.nan if weight is None else weight for weight in known],
            reward_is_sum=args.get("kl_in_reward") is not True,
        )
        self._context.logging_steps = integer(args.get("logging_steps")) or self._context.logging_steps
        told = intended(args)
        return [
            Run(
                framework=NAME,
                algorithm=text(args.get("rlhf_type")) or told.get("algorithm"),
                group_size=told.get("group_size"),
                sampling=normal_sampling(told.get("sampling")),
                total_steps=told.get("total_steps"),
                config={name: value for name, value in args.items() if value is not None},
            )
        ]


class LoggingReader(JsonLinesReader):
    """Reads `logging.jsonl`. Its last line is the trainer's whole state, whose log repeats the lines before."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._run = Run()

    def fresh(self) -> LoggingReader:
        """A reader that has read nothing."""
        return LoggingReader(self._context)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The run where something of it is new, and a step or an evaluation."""
        if "log_history" in raw or "last_model_checkpoint" in raw:
            yield from self._announce(finished=True)
            return
        progress = _progress(raw)
        if progress is None:
            raise ValueError("row without a step")
        yield from self._announce(progress.total, finished="train_runtime" in raw)
        if "train_runtime" not in raw:
            metrics = numbers(raw)
            note_rewards(self._context, metrics)
            yield from row_records(progress.step, metrics, 1, location)

    def _announce(self, total_steps: int | None = None, *, finished: bool) -> Iterator[Record]:
        known = Run(
            framework=NAME,
            total_steps=total_steps or self._run.total_steps,
            finished=True if finished else (None if self._run.finished is None else False),
        )
        if known != self._run:
            self._run = known
            yield known


class CompletionsReader(JsonLinesReader):
    """Reads `completions.jsonl`: a table a line, or (from Ray) a rollout a line."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._step: int | None = None
        self._tables: set[int] = set()
        """Tables of that step so far, by their texts."""

    def fresh(self) -> CompletionsReader:
        """A reader that has read nothing."""
        return CompletionsReader(self._context)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The rollouts of a line; none for a table that comes again."""
        counted_from_0 = "gen_step" in raw
        steps, prompts = raw.get("gen_step" if counted_from_0 else "step"), raw.get("prompt")
        if not isinstance(prompts, list) or not isinstance(steps, list):
            yield self._rollout(raw, _step(steps, counted_from_0), location, TRAIN)
            return
        lists = {name: column for name, column in raw.items() if isinstance(column, list)}
        split = self._split(_step(steps[0] if steps else None, counted_from_0), lists)
        if split == _AGAIN:
            return
        args = self._args
        spelled = [repr(prompt) for prompt in prompts]
        for part, (group, index) in enumerate(blocks(spelled, args.group_size if args else None)):
            row = {name: column[part] for name, column in lists.items() if part < len(column)}
            step = _step(steps[part] if part < len(steps) else None, counted_from_0)
            rollout = self._rollout(row, step, location._replace(part=part), split)
            yield rollout._replace(group=str(group), index=index)

    @property
    def _args(self) -> Args | None:
        args = self._context.notes.get(_ARGS)
        return args if isinstance(args, Args) else None

    def _split(self, step: int, table: Mapping[str, Sequence[object]]) -> str | None:
        """Of a step's tables the first is its training's, or its evaluation's where nothing was logged: unknown."""
        print_ = hash((str(table.get("prompt")), str(table.get("completion"))))
        if step != self._step:
            self._step, self._tables = step, {print_}
            return EVAL if step == 0 else None
        if print_ in self._tables:
            return _AGAIN
        self._tables.add(print_)
        return EVAL

    def _rollout(self, row: Mapping[str, Any], step: int, location: Location, split: str | None) -> Rollout:
        numeric = {name for name, value in row.items() if isinstance(value, float | int) or value is None}
        columns = reward_columns(list(row), numeric - {"reward"}, known_rewards(self._context))
        rewards = {name: given(row.get(name)) for name in columns}
        rollout = Rollout(
            step=step,
            group=None,
            reward=number(row["reward"]) if "reward" in row else self._total(rewards),
            rewards=rewards or None,
            split=split,
            prompt=texts(row.get("prompt")),
            completion=texts(row.get("completion")),
            advantage=number(row.get("advantages")),
            location=location,
        )
        return filled(rollout, {name: value for name, value in row.items() if name not in columns})

    def _total(self, rewards: Mapping[str, float | None]) -> float | None:
        """The weighted sum, as ms-swift makes it; None where the weights are not known."""
        args = self._args
        if args is None or not args.reward_is_sum or not rewards:
            return None
        weights = args.reward_weights or [1.0] * len(rewards)
        if len(weights) != len(rewards):
            return None
        known = [
            weight * value
            for weight, value in zip(weights, rewards.values(), strict=True)
            if value is not None
        ]
        return sum(known) if known else None


_AGAIN = "again"
"""In place of a split: a table that was there before."""


def _step(value: object, counted_from_0: bool) -> int:
    """A rollout's step; Megatron's generation steps count from 0, one less than its log."""
    step = integer(value)
    if step is None:
        raise ValueError("rollout without a step")
    return step + 1 if counted_from_0 else step
