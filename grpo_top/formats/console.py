"""What trainers print: what all printed logs share, and a reader for trainers without a format of their own.

Prefixes (time, rank, Ray's coloured worker name, logger) are not stripped: what is looked for is found
anywhere in a line, so that a line welded to the end of another one is read too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.decode import bare, head_records, number, numbers
from grpo_top.formats.miles_metrics import evaluations, with_flat_share
from grpo_top.formats.printed_rows import printed_row
from grpo_top.formats.telltales import framework_of_keys
from grpo_top.records import Eval, Location, Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines

_GROUPS = re.compile(rb"\brollout_batch_size \.{3,400} (?P<groups>\d{1,9})\b")
_FEWEST = 2
"""Lines of no known shape that must tell of a step before a file is taken for a log of steps."""
_MOST = 200
"""Lines that are looked at for it."""
PRINTED = 0
"""The `rank` of printed numbers: they are rounded."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Repetitions are bounded: a line may be megabytes of model text.
_DICT = re.compile(r"\{(?=['\"])[^{}]*\}")
_PAIR = re.compile(
    r"(?P<quote>['\"])(?P<key>(?:(?!(?P=quote)).)+)(?P=quote):\s*"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[\w.]+\([^()]*\)|[^,{}\[\]'\"]+)"
)
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,400}\|\s{0,9}(?P<done>\d{1,12})/(?P<total>\d{1,12}) \[")


def is_text(head: bytes) -> bool:
    """Whether a file's first bytes can be a printed log; binary ones hold NULs past those of a crash."""
    return b"\x00" not in bare(head[:8192])


def strip_ansi(text: str) -> str:
    """The text without terminal colours and cursor movements."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def segments(line: bytes) -> list[str]:
    """What a line showed one after another: it is rewritten at each carriage return (progress bars do)."""
    return [part for part in strip_ansi(line.decode("utf-8", "replace")).split("\r") if part.strip()]


class Bar(NamedTuple):
    """A progress bar at one moment."""

    what: str
    """Its description; empty for a trainer's own."""
    done: int
    total: int


def progress_bar(text: str) -> Bar | None:
    """The progress bar (tqdm's) that a segment shows, None where it shows none."""
    if "%|" not in text:
        return None
    found = _BAR.search(text)
    if not found:
        return None
    what = text[: found.start()].rpartition("|")[2].strip()
    return Bar(what, int(found["done"]), int(found["total"]))


def printed_dicts(text: str) -> list[dict[str, str | None]]:
    """The Python dicts printed on a line, values as they are spelled without quotes; None is null.

    Values that are lists or dicts are left out.
    """
    return [printed_pairs(found) for found in _DICT.findall(text)] if "{" in text else []


def printed_pairs(printed: str) -> dict[str, str | None]:
    """The entries of a printed dict, or of that part of one that is on a line."""
    found: dict[str, str | None] = {}
    for pair in _PAIR.finditer(printed):
        value = pair["value"].strip()
        found[pair["key"]] = None if value == "None" else value.strip("'\"")
    return found


class ConsoleRow(NamedTuple):
    """Numbers printed for one step."""

    step: int
    metrics: dict[str, float | None]
    is_eval: bool


_LABELLED = re.compile(
    r"\b(?P<label>global step|step|rollout|perf|eval|iteration|iter)\s{0,3}[:=]?\s{0,3}"
    r"(?P<step>\d{1,12})\s{0,3}:\s{0,3}(?P<dict>\{['\"][^{}]*\})",
    re.IGNORECASE,
)
_PIPED = re.compile(
    r"\b(?:step|iteration|iter)\s{0,3}[:=]?\s{0,3}(?P<step>\d{1,12})(?:/\d{1,12})?\s{0,3}\|(?P<fields>.*)",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r"^\s{0,9}(?P<key>[A-Za-z][\w .@/()-]{0,80}?)\s{0,9}[:=]\s{0,9}"
    r"(?P<value>[-+]?(?:\d[\d.]{0,40}(?:e[-+]?\d{1,4})?|nan|inf))",
    re.IGNORECASE,
)


def console_rows(text: str) -> Iterator[ConsoleRow]:
    """The steps on a line of the two shapes that trainers print without a format of their own.

    `step 12: {'loss': 0.1, …}` with any of several labels, and `Step 12 | Reward: 0.93 | Time: 8.4s`.
    """
    for found in _LABELLED.finditer(text):
        for printed in printed_dicts(found["dict"])[:1]:
            yield ConsoleRow(int(found["step"]), numbers(printed), found["label"].lower() == "eval")
    for found in _PIPED.finditer(text):
        fields = [match for field in found["fields"].split("|") if (match := _FIELD.match(field))]
        if len(fields) > 1:
            yield ConsoleRow(
                int(found["step"]), {field["key"]: number(field["value"]) for field in fields}, False
            )


def _rows(text: str) -> list[ConsoleRow]:
    """The steps on a line, of a known shape or of any."""
    known = [row for row in console_rows(text) if row.metrics]
    if known:
        return known
    found = printed_row(text)
    return [ConsoleRow(*found)] if found else []


_MAY_NAME_A_STEP = re.compile(rb"\{['\"]| \| |step|iter|update", re.IGNORECASE)
"""A look at the bytes, before a line is taken apart."""


class Console(Format):
    """Reads printed logs that name their steps, of trainers without a format of their own."""

    name: ClassVar[str] = "console"
    surest: int = 25

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Text with at least one line that names a step and its numbers."""
        if head_records(head) or not is_text(head):
            return None
        parts = [
            part for line in head.split(b"\n") if _MAY_NAME_A_STEP.search(line) for part in segments(line)
        ]
        rows = sum(1 for part in parts for row in console_rows(part) if row.metrics)
        if not rows and sum(1 for part in parts[:_MOST] if printed_row(part)) < _FEWEST:
            return None
        return Claim(20 + min(rows, 5), "lines", "console", f"console {path}", 4)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> ConsoleReader:  # noqa: ARG002
        """A reader of such lines."""
        return ConsoleReader()


class ConsoleReader(Reader):
    """Reads lines that name a step and its numbers; all others are what else a console shows."""

    def __init__(self) -> None:
        self._framework: str | None = None
        """Whose words they are, once a line has told."""
        self._groups: int | None = None
        """Groups of a step, where the arguments that slime prints first have said it."""

    def fresh(self) -> ConsoleReader:
        """A reader that has read nothing."""
        return ConsoleReader()

    def feed(self, lines: Lines) -> list[Record]:
        """Steps and evaluations of these lines."""
        found: list[Record] = []
        offset = lines.offset
        for line in lines.lines:
            location = Location(offset, len(line))
            offset += len(line) + 1
            if argument := _GROUPS.search(line):
                self._groups = int(argument["groups"])
            for part in segments(bare(line)) if _MAY_NAME_A_STEP.search(line) else ():
                for row in _rows(part):
                    found.extend(self._records(row, location))
        return found

    def _records(self, row: ConsoleRow, location: Location) -> Iterator[Record]:
        if self._framework is None and (framework := framework_of_keys(row.metrics)):
            self._framework = framework
            yield Run(framework=framework)
        if not row.is_eval:
            metrics = with_flat_share(row.metrics, self._groups)
            yield Step(row.step, metrics, rank=PRINTED, location=location)
            return
        suites = evaluations(row.metrics) or {"heldout": row.metrics}
        for suite, metrics in suites.items():
            yield Eval(row.step, metrics, suite, rank=PRINTED, location=location)
