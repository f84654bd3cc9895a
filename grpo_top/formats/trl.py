"""TRL (GRPOTrainer and what builds on it: Unsloth, Axolotl, Open-R1): trainer state and completions.

Completions (`completions_00012.parquet`, or the same rows as JSON lines) hold no total reward, no group and
no length: groups are blocks of equal prompts, rewards the columns between the completion and the advantage. An
evaluation overwrites the file of its step, so a file's split is unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.completions import (
    RowColumns,
    blocks,
    given,
    known_rewards,
    note_rewards,
    reward_columns,
)
from grpo_top.formats.conversation import conversation, texts
from grpo_top.formats.decode import bare, head_records, integer, numbers, parse_record
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.parquet import MAGIC, parquet_table
from grpo_top.formats.trl_console import ConsoleReader, console_claim
from grpo_top.formats.trl_rows import NAME, is_grpo, row_records
from grpo_top.formats.usual import filled
from grpo_top.records import Location, Rollout, Run, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

_COMPLETIONS = re.compile(r"completions_\d+\.parquet", re.IGNORECASE)
_TOTAL = "reward"
"""Early tables have the total in it and no advantage; later it is a reward function of that name."""
_STATE_KEYS = (b'"log_history"', b'"global_step"')
_GRPO_KEYS = re.compile(
    rb'"(?:reward|reward_std|rewards/[^"]+|completions?[/_][^"]*length|frac_reward_zero_std)"\s*:'
)


class Trl(Format):
    """Reads what TRL writes."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = "set log_completions=True (TRL 0.28 or later)"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the parquet magic and the column names, the keys of the trainer state, or a printed row."""
        if head.startswith(MAGIC):
            named = _COMPLETIONS.fullmatch(path.name) is not None
            columns = all(word in head for word in (b"completion", b"advantage", b"prompt"))
            if named or columns:
                return Claim(90 if named else 60, "whole", "rollouts", f"{NAME} completions {path.parent}", 3)
            return None
        records = head_records(head)
        if _is_trainer_state(head, records):
            confidence = 90 if _GRPO_KEYS.search(head) else 15
            return Claim(confidence, "whole", "metrics", f"{NAME} trainer_state", 1)
        if records:
            rollouts = all(_is_completion(record) for record in records)
            return Claim(75, "lines", "rollouts", f"{NAME} completions {path}", 3) if rollouts else None
        return console_claim(path, head)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:  # noqa: ARG002
        """A reader for the role that was claimed."""
        if claim.role == "metrics":
            return TrainerStateReader(context)
        context.framework = context.framework or NAME
        if claim.role == "console":
            return ConsoleReader(context)
        return ParquetReader(context) if claim.feed == "whole" else CompletionLinesReader(context)


def _is_trainer_state(head: bytes, records: Sequence[Mapping[str, Any]]) -> bool:
    """One object over many lines, or on one: not a log whose last line happens to hold the state (ms-swift)."""
    one_line = not records or "log_history" in records[0]
    return one_line and bare(head[:4096]).startswith(b"{") and all(key in head for key in _STATE_KEYS)


def _is_completion(record: Mapping[str, Any]) -> bool:
    names = list(record)
    return names[:3] == ["step", "prompt", "completion"] and "advantage" in names and "reward" not in names


class TrainerStateReader(Reader):
    """Reads `trainer_state.json`, each checkpoint's copy of which holds the log so far."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> TrainerStateReader:
        """A reader that has read nothing."""
        return TrainerStateReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """The run, then its log's rows in order."""
        try:
            state = parse_record(bare(data))
        except ValueError as error:
            return [Skipped(str(error), 0)]
        log = state.get("log_history")
        rows = [row for row in log if isinstance(row, dict)] if isinstance(log, list) else []
        self._context.logging_steps = integer(state.get("logging_steps")) or self._context.logging_steps
        max_steps, done = integer(state.get("max_steps")), integer(state.get("global_step"))
        finished = bool(rows) and "train_runtime" in rows[-1] and done is not None and done == max_steps
        of_grpo = any(map(is_grpo, rows))
        if of_grpo and self._context.framework is None:
            self._context.framework = NAME
        found: list[Record] = [
            Run(
                framework=self._context.framework,
                algorithm="grpo" if of_grpo else None,
                total_steps=max_steps,
                finished=True if finished else None,
            )
        ]
        for place, row in enumerate(rows):
            step = integer(row.get("step"))
            if step is None:
                found.append(Skipped(f"row {place} of log_history without a step", 0))
            else:
                metrics = numbers(row)
                note_rewards(self._context, metrics)
                found.extend(row_records(step, metrics, rank=2))
        return found


class ParquetReader(Reader):
    """Reads one `completions_*.parquet`; a rollout's location is its row."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> ParquetReader:
        """A reader that has read nothing."""
        return ParquetReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """One rollout a row."""
        try:
            table = parquet_table(data)
        except ValueError as error:
            return [Skipped(str(error), 0)]
        if "step" not in table.columns:
            return [Skipped("parquet table without a step column", 0)]
        columns = reward_columns(table.columns, set(table.floating), known_rewards(self._context))
        return list(_rollouts(table.rows, columns))

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout of row `location.offset`, from the whole file."""
        for record in self.whole(data):
            if isinstance(record, Rollout) and record.location.offset == location.offset:
                return record
        return None


def table_rollouts(rows: Sequence[dict[str, Any]], context: RunContext) -> Iterator[Record]:
    """The rollouts of a completions table, wherever it was found; a rollout's location is its row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = {name: [row.get(name) for row in rows] for name in names}
    numeric = {name for name in names if all(isinstance(value, float | int | None) for value in values[name])}
    yield from _rollouts(rows, reward_columns(names, numeric, known_rewards(context)))


def _rollouts(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> Iterator[Record]:
    prompts = [repr(row.get("prompt")) for row in rows]
    for place, (row, (group, index)) in enumerate(zip(rows, blocks(prompts), strict=True)):
        record = _rollout(row, columns, Location(place, 0), str(group), index)
        yield record or Skipped("rollout without a step", place)


def _rollout(
    row: Mapping[str, Any], columns: Sequence[str], location: Location, group: str | None, index: int | None
) -> Rollout | None:
    step = integer(row.get("step"))
    if step is None:
        return None
    prompt, completion = row.get("prompt"), row.get("completion")
    chat = isinstance(prompt, list) or isinstance(completion, list)
    total = _TOTAL if _TOTAL in row and "advantage" not in row else None
    rollout = Rollout(
        step=step,
        group=group,
        reward=given(row[total]) if total else None,
        index=index,
        rewards={name: given(row.get(name)) for name in columns if name != total} or None,
        split=None,
        prompt=texts(prompt),
        completion=texts(completion),
        messages=conversation(prompt, completion) if chat else None,
        advantage=given(row.get("advantage")),
        location=location,
    )
    return filled(rollout, {name: value for name, value in row.items() if name not in columns})


class CompletionLinesReader(JsonLinesReader):
    """Reads the rows of a completions table that were exported as JSON lines; groups are equal prompts."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._columns = RowColumns()

    def fresh(self) -> CompletionLinesReader:
        """A reader that has read nothing."""
        return CompletionLinesReader(self._context)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout."""
        columns = self._columns.rewards(raw, known_rewards(self._context))
        rollout = _rollout(raw, columns, location, None, None)
        if rollout is None:
            raise ValueError("rollout without a step")
        yield rollout
