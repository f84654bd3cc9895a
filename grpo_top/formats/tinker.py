"""tinker-cookbook: `metrics.jsonl`, rollout summaries by iteration, `config.json`, printed tables.

Steps count from 0. Summaries carry lengths, rewards and how each turn ended; texts only where the environment logs
them. (`*_logtree.json` holds texts of a few groups, but not of which trajectory, so nothing is taken from it.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import PRINTED
from grpo_top.formats.decode import bare, head_records, integer, number, numbers, parse_record, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.printed_blocks import Block, BlockReader, Heading, Numbers, block_claim, cells
from grpo_top.formats.tracked_config import intended
from grpo_top.records import (
    EVAL,
    NOWHERE,
    TRAIN,
    Eval,
    Location,
    Message,
    Rollout,
    Run,
    Skipped,
    Step,
    normal_sampling,
)

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
_ASKED = frozenset(("problem", "question", "prompt", "query", "input"))
_ANSWERED = frozenset(("response", "completion", "output", "assistant_content", "model_response"))
_CUT = frozenset(("max_tokens", "max_sampled_tokens", "context_overflow"))
"""Reasons to stop that are a token budget's."""
_COUNTS = re.compile(r"/|^num_|_count$|tokens|turns|_len$|masked")
"""Names of an environment's numbers that are no part of a reward."""
_BUDGET = "tinker max_tokens"


class Tinker(Format):
    """Reads what tinker-cookbook writes."""

    name: ClassVar[str] = NAME
    rollouts_hint: ClassVar[str] = "leave rollout_json_export=True"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of a summary, by metrics that no one else logs, by the config's own settings."""
        records = head_records(head)
        if records and all(map(_is_summary, records)):
            return Claim(90, "lines", "rollouts", f"{NAME} summaries", 3)
        if records and any(_is_own(record) for record in records):
            return Claim(85, "lines", "metrics", f"{NAME} metrics {path}", 2)
        if _is_config(head, records):
            return Claim(80, "whole", "config", f"{NAME} config", 0)
        if records:
            return None
        return block_claim(head, f"{NAME} console {path}", TableReader, b"tinker_cookbook")

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:  # noqa: ARG002
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        if claim.role == "config":
            return ConfigReader(context)
        if claim.role == "rollouts":
            return SummaryReader(context)
        return MetricsReader() if claim.role == "metrics" else TableReader()


def _is_summary(record: Mapping[str, Any]) -> bool:
    return {"iteration", "group_idx", "traj_idx"} <= record.keys()


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
        told = intended(config)
        builder = config.get("dataset_builder")
        within = builder if isinstance(builder, dict) else {}
        sampling = normal_sampling(told.get("sampling"))
        self._context.notes[_BUDGET] = (sampling or {}).get("max_tokens")
        return [
            Run(
                framework=NAME,
                group_size=told.get("group_size") or integer(within.get("group_size")),
                sampling=sampling,
                config=config,
            )
        ]


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


class SummaryReader(JsonLinesReader):
    """Reads `*_rollout_summaries.jsonl`: a trajectory a line."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> SummaryReader:
        """A reader that has read nothing."""
        return SummaryReader(self._context)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout."""
        step = integer(raw.get("iteration"))
        if step is None:
            raise ValueError("rollout without an iteration")
        steps = raw.get("steps")
        turns = [turn for turn in steps if isinstance(turn, dict)] if isinstance(steps, list) else []
        tags = raw.get("tags")
        named = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
        reason = _stop_reason(turns)
        messages = _conversation(turns)
        yield Rollout(
            step=step,
            group=text(raw.get("group_idx")),
            reward=number(raw.get("total_reward")),
            index=integer(raw.get("traj_idx")),
            rewards=_env_metrics(turns) or None,
            split=TRAIN if raw.get("split", TRAIN) == TRAIN else EVAL,
            family=" ".join(named) or None,
            prompt=next((message.content for message in messages if message.role == "user"), None),
            completion=_joined(messages),
            messages=messages or None,
            prompt_tokens=integer(turns[0].get("ob_len")) if turns else None,
            completion_tokens=_total(turns),
            truncated=self._truncated(turns, reason),
            termination=reason,
            policy_version=integer(raw.get("sampling_client_step")),
            trainer_version=step,
            location=location,
        )

    def _truncated(self, turns: Sequence[Mapping[str, Any]], reason: str | None) -> bool | None:
        """By the reason to stop; where there is none, by a turn that used the whole budget."""
        if reason is not None:
            return reason in _CUT
        budget = self._context.notes.get(_BUDGET)
        lengths = [length for turn in turns if (length := integer(turn.get("ac_len"))) is not None]
        return max(lengths) >= budget if isinstance(budget, int | float) and lengths else None


def _stop_reason(turns: Sequence[Mapping[str, Any]]) -> str | None:
    """`metrics["stop/REASON"] = 1` on the last turn; environments need not say it."""
    metrics = turns[-1].get("metrics") if turns else None
    for key, value in metrics.items() if isinstance(metrics, dict) else ():
        if key.startswith("stop/") and number(value):
            return str(key).removeprefix("stop/")
    return None


def _env_metrics(turns: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The environment's own numbers, as means over the turns that carry them."""
    carried: dict[str, list[float]] = {}
    for turn in turns:
        for key, value in numbers(turn.get("metrics")).items():
            if value is not None and not _COUNTS.search(key):
                carried.setdefault(key, []).append(value)
    return {key: sum(values) / len(values) for key, values in carried.items()}


def _total(turns: Sequence[Mapping[str, Any]]) -> int | None:
    lengths = [integer(turn.get("ac_len")) for turn in turns]
    known = [length for length in lengths if length is not None]
    return sum(known) if known and len(known) == len(lengths) else None


def _conversation(turns: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The texts that the environment logs, under the words that are usual; what was asked only where it is new."""
    found: list[Message] = []
    asked = None
    for turn in turns:
        logs = turn.get("logs")
        for key, value in logs.items() if isinstance(logs, dict) else ():
            word = str(key).lower().replace(" ", "_")
            if not isinstance(value, str):
                continue
            if word in _ASKED and value != asked:
                asked = value
                found.append(Message("user", value))
            elif word in _ANSWERED:
                found.append(Message("assistant", value, reward=number(turn.get("reward"))))
    return found


def _joined(messages: Sequence[Message]) -> str | None:
    answers = [message.content for message in messages if message.role == "assistant"]
    return "\n".join(answers) if answers else None


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
