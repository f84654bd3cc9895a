"""tinker-cookbook: `metrics.jsonl`, rollout summaries by iteration, `config.json`, printed tables.

Steps count from 0. What the summaries hold is read in `tinker_summaries`, what was said in `tinker_logtree`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import PRINTED
from grpo_top.formats.decode import bare, head_records, integer, number, numbers, parse_record
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.printed_blocks import Block, BlockReader, Heading, Numbers, block_claim, cells
from grpo_top.formats.tinker_logtree import LogtreeReader, is_logtree, texts_of
from grpo_top.formats.tinker_summaries import BUDGET, SummaryReader, is_summary
from grpo_top.formats.tracked_config import run_of
from grpo_top.records import NOWHERE, Eval, Location, Run, Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

NAME = "tinker"

_OWN_KEYS = ("env/all/", "optim/kl_sample_train", "sampling_client/", "test/env/")
_CONFIG_KEYS = (
    "groups_per_batch",
    "group_size",
    "dataset_builder",
    "lora_rank",
    "log_path",
    "kl_penalty_coef",
)
_EVALUATION = re.compile(r"(?P<suite>[^/]+)/(?:env/(?:all/)?)?(?P<name>.+)")
_TRAINING = frozenset(
    ("env", "optim", "progress", "time", "async", "sampling_client", "cost", "training_client")
)
"""What keys of a training step begin with; an evaluator's begin with its name."""
_ALL = "/env/all/"
_TITLE = re.compile(r"\s*Step (?P<step>\d{1,12})\s*")


class Tinker(Format):
    """Reads what tinker-cookbook writes."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = "leave rollout_json_export=True"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of a summary, by metrics that no one else logs, by the config's own settings."""
        records = head_records(head)
        if records and all(map(is_summary, records)):
            return Claim(90, "lines", "rollouts", f"{NAME} summaries", 3, anew=True)
        if is_logtree(head):
            return Claim(90, "whole", "texts", f"{NAME} texts", 2)
        if records and any(_is_own(record) for record in records):
            return Claim(85, "lines", "metrics", f"{NAME} metrics {path}", 2)
        if _is_config(head, records):
            return Claim(80, "whole", "config", f"{NAME} config", 0)
        if records:
            return None
        return block_claim(head, f"{NAME} console {path}", TableReader, b"tinker_cookbook")

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        match claim.role:
            case "config":
                return ConfigReader(context)
            case "rollouts":
                return SummaryReader(path, context)
            case "texts":
                return LogtreeReader(path, texts_of(context))
            case "metrics":
                return MetricsReader()
            case _:
                return TableReader()


def _is_own(record: Mapping[str, Any]) -> bool:
    return "step" in record and any(key.startswith(_OWN_KEYS) for key in record)


def _is_config(head: bytes, records: Sequence[Mapping[str, Any]]) -> bool:
    if not bare(head[:64]).startswith(b"{") or (records and "model_name" not in records[0]):
        return False
    return b'"model_name"' in head and sum(f'"{key}"'.encode() in head for key in _CONFIG_KEYS) >= 2


class ConfigReader(Reader):
    """Reads `config.json`: what was meant to be sampled."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> ConfigReader:
        """A reader that has read nothing."""
        return ConfigReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """The run."""
        try:
            config = parse_record(bare(data))
        except ValueError as error:
            return [Skipped(str(error), 0)]
        run = run_of(NAME, config)
        self._context.notes[BUDGET] = (run.sampling or {}).get("max_tokens")
        return [run]


class MetricsReader(JsonLinesReader):
    """Reads `metrics.jsonl`: steps, evaluations beside them or alone. A row without a step adds to the last one."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._run = Run()

    def fresh(self) -> MetricsReader:
        """A reader that has read nothing."""
        return MetricsReader()

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The run where something of it is new, then the step and its evaluations."""
        step = integer(raw.get("step")) if "step" in raw else self._step
        if step is None:
            raise ValueError("row without a step")
        self._step = step
        metrics = numbers({key: value for key, value in raw.items() if key != "step"})
        yield from self._announce(step, metrics.get("progress/done_frac"))
        yield from metric_rows(step, metrics, 1, location)

    def _announce(self, step: int, done: float | None) -> Iterator[Record]:
        """How many steps there are follows from the share that is done."""
        if done is None or not 0 < done <= 1:
            return
        known = Run(
            framework=NAME,
            total_steps=round((step + 1) / done),
            finished=True if done == 1 else self._going_on,
        )
        if known != self._run:
            self._run = known
            yield known

    @property
    def _going_on(self) -> bool | None:
        return None if self._run.finished is None else False


def metric_rows(step: int, metrics: Numbers, rank: int, location: Location = NOWHERE) -> Iterator[Record]:
    """A row's training numbers as a step, those of each evaluator as an evaluation under its name."""
    train: Numbers = {}
    suites: dict[str, Numbers] = {}
    for key, value in metrics.items():
        if "/" not in key or key.split("/", 1)[0] in _TRAINING:
            train[key] = value
        elif found := _EVALUATION.fullmatch(key):
            names = suites.setdefault(found["suite"], {})
            if _ALL in key or found["name"] not in names:
                names[found["name"]] = value
    if train:
        yield Step(step, train, rank=rank, location=location)
    for suite, values in suites.items():
        yield Eval(step, values, suite, rank=rank, location=location)


class TableReader(BlockReader):
    """Reads the tables that are printed for each step."""

    mark: ClassVar[bytes] = "│".encode()

    def fresh(self) -> TableReader:
        """A reader that has read nothing."""
        return TableReader()

    def heading(self, text: str) -> Heading | None:
        """The table's title, on a line of its own."""
        found = _TITLE.fullmatch(text)
        return Heading(int(found["step"])) if found else None

    def numbers(self, text: str) -> Numbers:
        """`│ env/all/correct │ 0.41 │`."""
        row = cells(text)
        value = number(row[1]) if len(row) == 2 else None
        return {} if value is None else {row[0]: value}

    def ends(self, text: str) -> bool:
        """The table's lower edge."""
        return text.lstrip().startswith("└")

    def records(self, block: Block) -> Iterator[Record]:
        """The run, the step and its evaluations."""
        yield Run(framework=NAME)
        yield from metric_rows(block.heading.step, block.numbers, PRINTED, block.location)
