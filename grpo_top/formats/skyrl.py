"""SkyRL: evaluation dumps, their summary, metric lines of a tracker's export, and printed steps.

There is no readable file of training rollouts: `dump_data_batch` writes pickles, which are never loaded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import PRINTED, printed_pairs
from grpo_top.formats.conversation import conversation, task_name, texts
from grpo_top.formats.decode import head_records, integer, number, numbers, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.printed_blocks import Block, BlockReader, Heading, Numbers, block_claim
from grpo_top.formats.usual import filled
from grpo_top.records import EVAL, NOWHERE, Eval, Rollout, Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

NAME = "skyrl"

_FOLDER = re.compile(r"global_step_(?P<step>\d{1,12})_evals")
_STEP = "trainer/global_step"
_FAMILIES = ("reward/", "policy/", "generate/", "loss/", "async/", "timing/", "eval/")
_HEADING = re.compile(r"\bStep (?P<step>\d{1,12}):\s*$")
_COUNTERS = frozenset((_STEP, "trainer/epoch"))


class SkyRl(Format):
    """Reads what SkyRL writes."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = (
        "trainer.dump_eval_results=true (the default) writes those of evaluations; those of training are only dumped "
        "as pickles, which are never loaded"
    )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of a dump, by its folder and keys, by the step's key, or by a printed step."""
        records = head_records(head)
        if not records:
            return block_claim(head, f"{NAME} console {path}", StepReader, b"skyrl")
        if all(map(_is_sample, records)):
            return Claim(90, "lines", "rollouts", f"{NAME} evaluations", 3, anew=True)
        if path.name == "aggregated_results.jsonl" and all(key.startswith("eval/") for key in records[0]):
            return Claim(85, "lines", "metrics", f"{NAME} evaluations", 2)
        if all(_STEP in record and any(map(_is_own, record)) for record in records):
            return Claim(85, "lines", "metrics", f"{NAME} metrics {path}", 2)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        folder = _FOLDER.fullmatch(path.parent.name)
        step = int(folder["step"]) if folder else 0
        if claim.role == "console":
            return StepReader()
        return SampleReader(step) if claim.role == "rollouts" else MetricsReader(step)


def _is_sample(record: Mapping[str, Any]) -> bool:
    return {"input_prompt", "output_response"} <= record.keys() or list(record) == ["input_prompt"]


def _is_own(key: str) -> bool:
    return key.startswith(_FAMILIES)


class SampleReader(JsonLinesReader):
    """Reads the samples of an evaluation; one without training (`eval_only`) is step 0."""

    def __init__(self, step: int) -> None:
        self._step = step

    def fresh(self) -> SampleReader:
        """A reader that has read nothing."""
        return SampleReader(self._step)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout."""
        if "output_response" not in raw:
            raise ValueError("sample without a response")
        asked, answer = raw.get("input_prompt"), raw.get("output_response")
        prompt, source = texts(asked), text(raw.get("data_source"))
        chat = isinstance(asked, list) or isinstance(answer, list)
        rollout = Rollout(
            step=self._step,
            group=None,
            reward=_score(raw.get("score")),
            split=EVAL,
            task=task_name(_number_in_data(raw, source), prompt),
            family=source,
            prompt=prompt,
            completion=texts(answer),
            messages=conversation(asked, answer) if chat else None,
            finish_reason=text(raw.get("stop_reason")),
            location=location,
        )
        yield filled(rollout, raw)


def _number_in_data(raw: Mapping[str, Any], source: str | None) -> str | None:
    """The task by its number in its data set."""
    extras = raw.get("env_extras")
    info = extras.get("extra_info") if isinstance(extras, dict) else None
    number_ = text(info.get("index")) if isinstance(info, dict) else None
    return None if number_ is None else f"{source or 'task'} {number_}"


def _score(score: object) -> float | None:
    """A number, or one for each token, which add up."""
    if not isinstance(score, list):
        return number(score)
    known = [value for item in score if (value := number(item)) is not None]
    return sum(known) if known and len(known) == len(score) else None


class MetricsReader(JsonLinesReader):
    """Reads lines of metrics: those that say their step, and an evaluation's summary, whose folder says it."""

    def __init__(self, step: int) -> None:
        self._step = step

    def fresh(self) -> MetricsReader:
        """A reader that has read nothing."""
        return MetricsReader(self._step)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """A step and its evaluations."""
        step = integer(raw.get(_STEP)) if _STEP in raw else self._step
        if step is None:
            raise ValueError("row without a step")
        yield from metric_rows(step, numbers(raw), 1, location)


def metric_rows(step: int, metrics: Numbers, rank: int, location: Location = NOWHERE) -> Iterator[Record]:
    """Training numbers as a step; `eval/SOURCE/NAME` as an evaluation of its source, that of all as the default one."""
    train: Numbers = {}
    suites: dict[str, Numbers] = {}
    for key, value in metrics.items():
        source, _, name = key.removeprefix("eval/").rpartition("/")
        if key.startswith("eval/") and source:
            suites.setdefault("heldout" if source == "all" else source, {})[name] = value
        elif key not in _COUNTERS:
            train[key] = value
    if train:
        yield Step(step, train, rank=rank, location=location)
    for suite, values in suites.items():
        yield Eval(step, values, suite, rank=rank, location=location)


class StepReader(BlockReader):
    """Reads the dict that is printed for each step, one entry a line."""

    mark: ClassVar[bytes] = b"{'"

    def fresh(self) -> StepReader:
        """A reader that has read nothing."""
        return StepReader()

    def heading(self, text: str) -> Heading | None:
        """`… - Step 12: ` at the end of a line."""
        found = _HEADING.search(text)
        return Heading(int(found["step"])) if found else None

    def numbers(self, text: str) -> Numbers:
        """`'reward/avg_raw_reward': '0.9375',`."""
        return {name: value for name, value in numbers(printed_pairs(text)).items() if "/" in name}

    def ends(self, text: str) -> bool:
        """The dict's closing brace, after an entry."""
        return text.rstrip().endswith("}") and bool(self.numbers(text))

    def records(self, block: Block) -> Iterator[Record]:
        """The run, the step and its evaluations."""
        if any(map(_is_own, block.numbers)):
            yield Run(framework=NAME)
            yield from metric_rows(block.heading.step, block.numbers, PRINTED, block.location)
