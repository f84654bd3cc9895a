"""torchforge: the block that each of its processes prints for a step. It writes no files, and no rollouts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import PRINTED
from grpo_top.formats.decode import head_records, number
from grpo_top.formats.printed_blocks import Block, BlockReader, Heading, Numbers, block_claim
from grpo_top.records import Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

NAME = "torchforge"

_HEADING = re.compile(r"=== \[(?P<process>[^\]]{0,80})\] - METRICS STEP (?P<step>\d{1,12}) ===")
_NUMBER = re.compile(
    r"(?:^|\s)(?P<name>[\w.-]{1,80}/[\w./-]{1,120}): (?P<value>-?(?:\d[\d.e+-]{0,30}|nan|inf))\s*$"
)
_END = re.compile(r"(?:^|\s)={10,}\s*$")


class TorchForge(Format):
    """Reads what torchforge prints."""

    name: ClassVar[str] = NAME
    surest: int = 85
    rollouts_hint: ClassVar[str] = "torchforge writes none; log them as JSON lines where episodes are scored"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By a printed block."""
        return (
            None
            if head_records(head)
            else block_claim(head, f"{NAME} console {path}", ConsoleReader, b"forge.")
        )

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:  # noqa: ARG002
        """A reader of printed blocks."""
        context.framework = context.framework or NAME
        return ConsoleReader()


class ConsoleReader(BlockReader):
    """Reads the blocks, several a step: one of each process."""

    mark: ClassVar[bytes] = b"METRICS STEP"

    def fresh(self) -> ConsoleReader:
        """A reader that has read nothing."""
        return ConsoleReader()

    def heading(self, text: str) -> Heading | None:
        """`=== [controller] - METRICS STEP 12 ===`."""
        found = _HEADING.search(text)
        return Heading(int(found["step"])) if found else None

    def numbers(self, text: str) -> Numbers:
        """`  reward/evaluate_response/avg_total_reward: 0.41`."""
        found = _NUMBER.search(text)
        return {found["name"]: number(found["value"])} if found else {}

    def ends(self, text: str) -> bool:
        """A line of equals signs."""
        return _END.search(text) is not None

    def records(self, block: Block) -> Iterator[Record]:
        """The run and the step."""
        yield Run(framework=NAME)
        yield Step(block.heading.step, block.numbers, rank=PRINTED, location=block.location)
