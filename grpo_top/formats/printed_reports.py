"""Steps that loops of their own print over several lines: a heading with the step, then a number a line.

`=== Step 5/100 ===`, then `  reward: 0.5`, `  KL = 0.01`, …
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from grpo_top.formats.base import Claim, Format
from grpo_top.formats.console import PRINTED
from grpo_top.formats.decode import head_records, number
from grpo_top.formats.names import canonical
from grpo_top.formats.printed_blocks import Block, BlockReader, Heading, Numbers, block_claim
from grpo_top.records import Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

_HEADING = re.compile(
    r"\b(?:step|iteration|iter|update)\s{0,3}[:#=]?\s{0,3}(?P<step>\d{1,12})"
    r"(?:\s{0,3}(?:/|of)\s{0,3}(?P<total>\d{1,12}))?[^0-9A-Za-z]{0,80}$",
    re.IGNORECASE,
)
_A_HEADING = re.compile(
    rb"(?:step|iter|iteration|update)\W{0,6}\d[^A-Za-z\n]{0,90}$", re.IGNORECASE | re.MULTILINE
)
"""A look at the bytes, before they are taken apart."""
_NUMBER = re.compile(
    r"[^0-9A-Za-z]{0,12}(?P<key>[A-Za-z][\w ./()-]{0,60}?)\s{0,20}[:=]\s{0,20}"
    r"(?P<value>[-+]?(?:\d[\d.]{0,30}(?:e[-+]?\d{1,4})?|\.\d{1,30}|nan|inf))(?:\s{0,3}[a-z/]{0,8})?\s{0,9}",
    re.IGNORECASE,
)
_SURE = 18
"""Below every shape that is more certain."""
_NO_SIGN = b"\x00"
"""Nothing in a long preamble tells that such steps will come."""


class Reports(Format):
    """Reads printed logs of such steps, of trainers without a format of their own."""

    name: ClassVar[str] = "report"
    surest: int = _SURE

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Text that holds such a step with at least one number that is known by name."""
        if head_records(head) or not _A_HEADING.search(head):
            return None
        claim = block_claim(head, f"report {path}", ReportReader, _NO_SIGN)
        return claim and claim._replace(confidence=_SURE)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> ReportReader:  # noqa: ARG002
        """A reader of such steps."""
        return ReportReader()


class ReportReader(BlockReader):
    """Reads steps of several lines, whoever prints them."""

    mark: ClassVar[bytes] = b"e"  # of `step`, `iteration`, `update`
    patience: ClassVar[int | None] = 12

    def fresh(self) -> ReportReader:
        """A reader that has read nothing."""
        return ReportReader()

    def heading(self, text: str) -> Heading | None:
        """A line that names a step, and nothing after it."""
        found = _HEADING.search(text) if len(text) < 200 else None
        return found and Heading(int(found["step"]), int(found["total"]) if found["total"] else None)

    def numbers(self, text: str) -> Numbers:
        """The number on a line that has one and no more."""
        found = _NUMBER.fullmatch(text) if len(text) < 200 else None
        return {found["key"].strip(): number(found["value"])} if found else {}

    def records(self, block: Block) -> Iterator[Record]:
        """The step, where something in it is known by name."""
        if len(block.numbers) > 1 and any(canonical(None, key) for key in block.numbers):
            yield Step(block.heading.step, dict(block.numbers), rank=PRINTED, location=block.location)
