"""NeMo-RL: `train_data_step12.jsonl` and `val_data_step12.jsonl`, and the results that it prints for each step.

Every value is a list of one. A row names no step and no group: the step is the file's, groups are blocks of equal
prompts. Token lists are padded; what the policy wrote is where `token_loss_mask` is 1. Training rows give their
messages without roles, which the mask tells.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import PRINTED
from grpo_top.formats.conversation import conversation
from grpo_top.formats.decode import head_records, integer, number
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.printed_blocks import Block, BlockReader, Heading, Numbers, block_claim
from grpo_top.formats.usual import filled
from grpo_top.records import EVAL, TRAIN, Eval, Message, Rollout, Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

NAME = "nemo-rl"

_FILE = re.compile(r"(?P<split>train|val)_data_step(?P<step>\d{1,12})")
_HEADING = re.compile(r"={5} Step (?P<step>\d{1,12})/(?P<total>\d{1,12}) ={5}")
_BULLET = re.compile(r"• (?P<name>[A-Z][\w ]{1,60}): (?P<value>-?(?:\d[\d.e+-]*|nan|inf))(?: ?\w+)?\s*$")
_HELDOUT = {"Accuracy": "accuracy", "Average response length": "avg_length"}
"""What is printed of a validation → the word under which NeMo-RL logs it."""
_NO_METRIC = frozenset(("Samples processed", "Total validation time"))


class NemoRl(Format):
    """Reads what NeMo-RL writes."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = "leave env.should_log_nemo_gym_responses at false"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By fields that are lists of one, or by a printed step."""
        records = head_records(head)
        if not records:
            return block_claim(head, f"{NAME} console {path}", ResultsReader, b"nemo_rl")
        if _FILE.match(path.name) and all(map(_is_sample, records)):
            return Claim(90, "lines", "rollouts", f"{NAME} {_split(path)} {path.parent}", 3, anew=True)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        if claim.role == "console":
            return ResultsReader()
        found = _FILE.match(path.name)
        return SampleReader(int(found["step"]) if found else 0, _split(path))


def _split(path: PurePath) -> str:
    return EVAL if path.name.startswith("val") else TRAIN


def _is_sample(record: Mapping[str, Any]) -> bool:
    """`rewards` is not there where a first row longer than the head was cut before it."""
    first = "content" if "content" in record else next(iter(record), "")
    return first in ("content", "agent_ref") and isinstance(record.get("rewards", []), list | None)


class SampleReader(JsonLinesReader):
    """Reads the samples of one step."""

    def __init__(self, step: int, split: str) -> None:
        self._step = step
        self._split = split

    def fresh(self) -> SampleReader:
        """A reader that has read nothing."""
        return SampleReader(self._step, self._split)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout."""
        content, reward = _only(raw.get("content")), _only(raw.get("rewards"))
        if not isinstance(content, list) or not content:
            raise ValueError("sample without content")
        wrote = _mask(raw)
        messages = conversation(_with_roles(content, wrote)) or []
        answers = [message.content for message in messages if message.role == "assistant"]
        rollout = Rollout(
            step=self._step,
            group=None,
            reward=number(reward),
            split=self._split,
            prompt=_asked(messages),
            completion="\n".join(answers) if answers else None,
            messages=messages or None,
            advantage=_first(_written(raw, "advantages", wrote)),
            prompt_tokens=wrote.index(True) if wrote and True in wrote else None,
            completion_tokens=sum(wrote) if wrote is not None else None,
            logprobs_sampler=_written(raw, "generation_logprobs", wrote),
            logprobs_trainer=_written(raw, "prev_logprobs", wrote),
            location=location,
        )
        agent = _only(raw.get("agent_ref"))
        said = {name: _only(value) for name, value in raw.items() if name != "advantages"}
        yield filled(rollout, {**said, "env_name": agent.get("name") if isinstance(agent, dict) else agent})


def _only(value: object) -> object:
    """What is in a list of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else None


def _mask(raw: Mapping[str, Any]) -> list[bool] | None:
    """Which tokens the policy wrote, without the padding; None where the row does not say (validation)."""
    mask = _only(raw.get("token_loss_mask"))
    if not isinstance(mask, list):
        return None
    length = integer(_only(raw.get("input_lengths")))
    return [value == 1 for value in (mask if length is None else mask[:length])]


def _written(raw: Mapping[str, Any], name: str, wrote: Sequence[bool] | None) -> list[float] | None:
    """The values of a token list where the policy wrote; None where there are none, or not for each token."""
    values = _only(raw.get(name))
    if not isinstance(values, list) or wrote is None or len(values) < len(wrote):
        return None
    found = [number(value) for value, own in zip(values, wrote, strict=False) if own]
    return [value for value in found if value is not None] if None not in found else None


def _first(values: Sequence[float] | None) -> float | None:
    """The advantage of a sample is repeated for each of its tokens."""
    return values[0] if values else None


def _with_roles(content: Sequence[object], wrote: Sequence[bool] | None) -> list[object]:
    """The messages, each with its role.

    Where only texts are there: the policy and its environment take turns after the prompt, and the mask shows how
    often the policy wrote and whether it had the last word.
    """
    if not all(isinstance(message, str) for message in content):
        return list(content)
    asked = 1
    if wrote is not None and True in wrote:
        turns = sum(now and not before for before, now in zip([False, *wrote], wrote, strict=False))
        asked = len(content) - 2 * turns + (1 if wrote[-1] else 0)
        asked = asked if 1 <= asked < len(content) else 1
    roles = ["system"] * (asked == 2) + ["user"] * (asked - (asked == 2))
    roles += ["assistant" if place % 2 == 0 else "user" for place in range(len(content) - asked)]
    return [{"role": role, "content": text} for role, text in zip(roles, content, strict=True)]


def _asked(messages: Sequence[Message]) -> str | None:
    """What was there before the policy wrote: what makes a group."""
    before: list[str] = []
    for message in messages:
        if message.role == "assistant":
            break
        before.append(message.content)
    return "\n".join(before) if before else None


class ResultsReader(BlockReader):
    """Reads what is printed between one step's heading and the next, all of a step's output among it."""

    mark: ClassVar[bytes] = b"===== Step "
    patience: ClassVar[int | None] = None

    def __init__(self) -> None:
        super().__init__()
        self._heldout = False
        """Whether the lines are those of a validation."""

    def fresh(self) -> ResultsReader:
        """A reader that has read nothing."""
        return ResultsReader()

    def heading(self, text: str) -> Heading | None:
        """`===== Step 3/100 =====`."""
        found = _HEADING.search(text)
        if not found:
            return None
        self._heldout = False
        return Heading(int(found["step"]), int(found["total"]))

    def numbers(self, text: str) -> Numbers:
        """`• Avg Reward: 0.4127`."""
        if " Results:" in text:
            self._heldout = "Validation Results:" in text
        found = _BULLET.search(text)
        if not found or found["name"] in _NO_METRIC:
            return {}
        name = f"validation/{_HELDOUT.get(found['name'], found['name'])}" if self._heldout else found["name"]
        return {name: number(found["value"])}

    def records(self, block: Block) -> Iterator[Record]:
        """The run, the step and its validation."""
        step, numbers = block.heading.step, block.numbers
        yield Run(framework=NAME, total_steps=block.heading.total_steps)
        heldout = {
            name.removeprefix("validation/"): value
            for name, value in numbers.items()
            if name.startswith("validation/")
        }
        trained = {name: value for name, value in numbers.items() if not name.startswith("validation/")}
        if trained:
            yield Step(step, trained, rank=PRINTED, location=block.location)
        if heldout:
            yield Eval(step, heldout, rank=PRINTED, location=block.location)
