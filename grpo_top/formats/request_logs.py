"""What inference engines log of each request: SGLang's request metrics and request log, and vLLM's request log.

They show how the fleet really samples. SGLang's (`--export-metrics-to-file`, `--log-requests`) also say how a request
ended and which weights answered it; vLLM's lines (`--enable-log-requests`) hold the settings alone. None knows groups
or rewards, nor training from evaluation. A request whose weights have a number belongs to the step after it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import is_text
from grpo_top.formats.decode import head_records, number
from grpo_top.formats.sglang_requests import (
    FINISHED,
    RECEIVED,
    LogReader,
    MetricsReader,
    number_of,
    request,
)
from grpo_top.records import Location, SamplerLook, normal_sampling

if TYPE_CHECKING:
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines

NAME = "requests"

_PARAMS = b"params: SamplingParams("
_LONGEST_PARAMS = 4096
"""Bytes of vLLM's settings that are looked at; the prompt, which some versions log too, comes before them."""
_SETTING = re.compile(r"\b(?P<name>[a-z_]{3,40})=(?P<value>[-+\w.]{1,40})(?=[,)])")
_LORA = re.compile(r"lora_name='(?P<name>[^']{1,200})'")
_ANNOUNCED = (b"--enable-log-requests", b"enable_log_requests=True", b"log_requests=True")
"""What an engine prints at its start where it is going to log requests."""


class RequestLogs(Format):
    """Reads request logs of SGLang and vLLM."""

    name: ClassVar[str] = NAME
    surest: int = 90

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of SGLang's records, or by the lines that an engine prints of a request."""
        records = head_records(head)
        if records and all("request_parameters" in record for record in records):
            return Claim(90, "lines", "requests", f"{NAME} {path.parent}", 5)
        if not is_text(head):
            return None
        if any(mark in head for mark in (*FINISHED, *RECEIVED)):
            return Claim(60, "lines", "request log", f"{NAME} {path}", 5)
        if _PARAMS in head:
            return Claim(60, "lines", "sampling", f"{NAME} {path}", 5)
        if any(mark in head for mark in _ANNOUNCED):
            role = "sampling" if b"vllm" in head.lower() else "request log"
            return Claim(20, "lines", role, f"{NAME} {path}", 5)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:  # noqa: ARG002
        """A reader for the role that was claimed."""
        match claim.role:
            case "requests":
                return MetricsReader(path.parent.name or path.stem)
            case "request log":
                return LogReader(path.stem)
            case _:
                return VllmReader(path.stem)


class VllmReader(Reader):
    """Reads vLLM's `Received request …: params: SamplingParams(…)` lines."""

    def __init__(self, sampler: str) -> None:
        self._sampler = sampler
        """Whose log it is: the lines do not say."""

    def fresh(self) -> VllmReader:
        """A reader that has read nothing."""
        return VllmReader(self._sampler)

    def feed(self, lines: Lines) -> list[Record]:
        """A look at the sampler for each request of these lines."""
        found: list[Record] = []
        offset = lines.offset
        for line in lines.lines:
            start = line.rfind(_PARAMS)
            if start >= 0:
                printed = line[start : start + _LONGEST_PARAMS].decode("utf-8", "replace")
                found.append(self._record(printed, Location(offset, len(line))))
            offset += len(line) + 1
        return found

    def _record(self, printed: str, location: Location) -> Record:
        sampling = normal_sampling(
            {match["name"]: _value(match["value"]) for match in _SETTING.finditer(printed)}
        )
        lora = _LORA.search(printed)
        weights = lora["name"] if lora else None
        version = number_of(weights)
        if version is None:
            return SamplerLook(self._sampler, sampling, weights)
        return request(sampling, [version], location)._replace(sampler=self._sampler)


def _value(printed: str) -> float | int | None:
    value = number(printed)
    return int(printed) if value is not None and printed.lstrip("-").isdecimal() else value
