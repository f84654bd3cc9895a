"""OpenRLHF: the dict that is printed for each step and evaluation. It writes no rollouts and no metrics file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import PRINTED, is_text, printed_dicts, segments
from grpo_top.formats.decode import bare, head_records, numbers
from grpo_top.records import Eval, Location, Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.formats.printed_blocks import Numbers
    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines

NAME = "openrlhf"

_STEP = re.compile(r"\bGlobal step (?P<step>\d{1,12}): (?=\{['\"])")
_EVAL = re.compile(r"\b(?:global_step|Eval at step) (?P<step>\d{1,12})(?:, eval_metrics)?: (?=\{['\"])")
_OWN = frozenset(("policy_loss", "actor_lr", "ppo_clip_ratio", "policy_clip_ratio", "actor_grad_norm"))
_SUITE = re.compile(
    r"eval_(?:(?P<suite>.+)_)?(?P<name>pass\d+|response_length_mean|truncated_rate|num_samples)"
)
_LONG_PREAMBLE = 60_000
"""Bytes of a head that is all start-up messages, so that steps may yet come."""


class OpenRlhf(Format):
    """Reads what OpenRLHF prints."""

    name: ClassVar[str] = NAME
    surest: int = 85
    rollouts_hint: ClassVar[str] = (
        "OpenRLHF writes none; log the samples in the agent function or a reward function"
    )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Text with a printed step of the trainer's own words."""
        if head_records(head) or not is_text(head):
            return None
        parts = (part for line in head.split(b"\n") if b"lobal step" in line for part in segments(line))
        if any(not _OWN.isdisjoint(row) for part in parts for _, row in _printed(_STEP, part)):
            confidence = 85
        elif len(head) > _LONG_PREAMBLE and b"openrlhf" in head:
            confidence = 25
        else:
            return None
        return Claim(confidence, "lines", "console", f"{NAME} console {path}", 4)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:  # noqa: ARG002
        """A reader of printed steps."""
        context.framework = context.framework or NAME
        return ConsoleReader()


class ConsoleReader(Reader):
    """Reads `✨ Global step 12: {…}` and evaluations, wherever in a line they begin."""

    def __init__(self) -> None:
        self._known = False

    def fresh(self) -> ConsoleReader:
        """A reader that has read nothing."""
        return ConsoleReader()

    def feed(self, lines: Lines) -> list[Record]:
        """Steps and evaluations of these lines."""
        found: list[Record] = []
        offset = lines.offset
        for line in lines.lines:
            if b"lobal step" in line or b"eval" in line or b"Eval" in line:
                for part in segments(bare(line)):
                    found.extend(self._part(part, Location(offset, len(line))))
            offset += len(line) + 1
        return found

    def _part(self, part: str, location: Location) -> Iterator[Record]:
        for step, metrics in _printed(_STEP, part):
            if not self._known:
                self._known = True
                yield Run(framework=NAME)
            yield Step(step, metrics, rank=PRINTED, location=location)
        for step, metrics in _printed(_EVAL, part):
            yield from evaluations(step, metrics, PRINTED, location)


def _printed(label: re.Pattern[str], part: str) -> Iterator[tuple[int, Numbers]]:
    """(step, numbers) of each dict that a label precedes."""
    for found in label.finditer(part):
        printed = printed_dicts(part[found.end() :])
        if printed:
            yield int(found["step"]), numbers(printed[0])


def evaluations(step: int, metrics: Numbers, rank: int, location: Location) -> Iterator[Eval]:
    """One evaluation a data set (`eval_SET_pass1`); numbers over all sets go to a single set's, else stand alone."""
    suites: dict[str, Numbers] = {}
    for key, value in metrics.items():
        if found := _SUITE.fullmatch(key):
            suites.setdefault(found["suite"] or "heldout", {})[found["name"]] = value
    overall = suites.pop("heldout", {})
    if len(suites) == 1:
        (only,) = suites.values()
        only |= {name: value for name, value in overall.items() if name not in only}
    elif overall:
        suites["heldout"] = overall
    for suite, values in suites.items():
        yield Eval(step, values, suite, rank=rank, location=location)
