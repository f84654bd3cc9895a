"""What prime-rl's orchestrator and trainer print: one line a step, its fields between bars."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grpo_top.formats.base import Claim, Reader
from grpo_top.formats.console import PRINTED, is_text, segments
from grpo_top.formats.decode import bare, number
from grpo_top.records import Eval, Location, Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import PurePath

    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines

NAME = "prime-rl"

_LINE = re.compile(
    r"(?<!Micro )(?:\bStep (?P<step>\d{1,12})|Evaluated (?P<suite>\S.{0,200}?) \(Step (?P<evaluated>\d{1,12})\)) +\|"
    r"(?P<fields>.*)"
)
_FIELD = re.compile(
    r"\s*(?P<key>[A-Z][A-Za-z. -]{0,40}?):?\s+v?(?P<value>[-+]?(?:\d[\d.]{0,30}(?:e[-+]?\d{1,3})?|nan|inf))"
    r"(?P<of>/\d{1,12})?(?P<unit>%|(?:ms|[smhd])\b)?"
)
_TIME = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>ms|[dhms])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DETECTED = re.compile(
    r"Detected \d{1,12}/(?P<of>\d{1,12}) rollouts \([^)]{0,200}?\bzero_advantage=(?P<flat>\d{1,12})"
)
_TELLING = re.compile(rb"Step \d+ \|.*(?:\| Reward:? |Off-Policy|\| Mismatch KL )")
_ZERO_ADVANTAGE = "Zero Advantage"
_TOTAL = re.compile(r"Starting orchestrator loop \(max_steps=(\d{1,12})\)")
_FINISHED = "Orchestrator finished."
_WORDS = (b"Step", b"Detected", b"rchestrator")


def console_claim(path: PurePath, head: bytes) -> Claim | None:
    """By a step line of the orchestrator or the trainer; faintly by what the orchestrator says at its start."""
    if not is_text(head):
        return None
    confidence = 85 if _TELLING.search(head) else 30 if b"Starting orchestrator loop" in head else 0
    return Claim(confidence, "lines", "console", f"{NAME} console {path}", 4) if confidence else None


class ConsoleReader(Reader):
    """Reads step and evaluation lines, wherever in a line they begin (a progress bar may stand before them)."""

    def __init__(self) -> None:
        self._announced = False
        self._zero_advantage: float | None = None
        """Share of rollouts without advantage, which is printed before the step that it belongs to."""

    def fresh(self) -> ConsoleReader:
        """A reader that has read nothing."""
        return ConsoleReader()

    def feed(self, lines: Lines) -> list[Record]:
        """Steps and evaluations of these lines."""
        found: list[Record] = []
        offset = lines.offset
        for line in lines.lines:
            if any(word in line for word in _WORDS):
                for part in segments(bare(line)):
                    found.extend(self._part(part, Location(offset, len(line))))
            offset += len(line) + 1
        return found

    def _part(self, part: str, location: Location) -> Iterator[Record]:
        if "rchestrator" in part:
            total = _TOTAL.search(part)
            if total:
                yield Run(total_steps=int(total[1]))
            if _FINISHED in part:
                yield Run(finished=True)
        detected = _DETECTED.search(part)
        if detected and int(detected["of"]):
            self._zero_advantage = int(detected["flat"]) / int(detected["of"])
        line = _LINE.search(part)
        metrics = _fields(line["fields"]) if line else {}
        if line is None or not metrics:
            return
        if not self._announced:
            self._announced = True
            yield Run(framework=NAME)
        if line["step"] is None:
            named = {key.lower(): value for key, value in metrics.items()}
            yield Eval(int(line["evaluated"]), named, line["suite"], rank=PRINTED, location=location)
            return
        if self._zero_advantage is not None and "Reward" in metrics:
            metrics[_ZERO_ADVANTAGE], self._zero_advantage = self._zero_advantage, None
        yield Step(int(line["step"]), metrics, rank=PRINTED, location=location)


def _fields(printed: str) -> dict[str, float | None]:
    """`17.9s | Reward 0.6469 | Trainable 15/16 (93.8%) | …` by name; shares from 0 to 1, times in seconds."""
    found: dict[str, float | None] = {}
    for place, field in enumerate(printed.split("|")):
        match = _FIELD.match(field)
        if match is None:
            if place == 0 and (spans := _TIME.findall(field)):
                found["Time"] = sum(float(value) * _SECONDS[unit] for value, unit in spans)
            continue
        value, unit = number(match["value"]), match["unit"]
        if value is None:
            continue
        if match["of"]:
            value = value / int(match["of"][1:]) if int(match["of"][1:]) else None
        elif unit:
            value *= 0.01 if unit == "%" else _SECONDS[unit]
        found[match["key"]] = value
    return found
