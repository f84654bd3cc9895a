"""What inference engines log of each request: SGLang's request metrics and vLLM's request log.

They show how the fleet really samples. SGLang's files (`--export-metrics-to-file`) also say how a request ended and
which weights answered it; vLLM's lines (`--enable-log-requests`) hold the settings alone. Neither knows groups or
rewards, nor training from evaluation. A request whose weights have a number belongs to the step after it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import is_text
from grpo_top.formats.decode import head_records, integer, number, parse_record, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.records import NOWHERE, REQUEST, Location, Rollout, SamplerLook, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record, Sampling
    from grpo_top.sources.lines import Lines

NAME = "requests"

_PARAMS = b"params: SamplingParams("
_LONGEST_PARAMS = 4096
"""Bytes of vLLM's settings that are looked at; the prompt, which some versions log too, comes before them."""
_SETTING = re.compile(r"\b(?P<name>[a-z_]{3,40})=(?P<value>[-+\w.]{1,40})(?=[,)])")
_LORA = re.compile(r"lora_name='(?P<name>[^']{1,200})'")
_NUMBER = re.compile(r"(?:.*\D)?(?P<number>\d{1,12})")
"""Weights are numbered, or named with a number at the end (`step_40`, `lora-v40`)."""


class RequestLogs(Format):
    """Reads request logs of SGLang and vLLM."""

    name: ClassVar[str] = NAME

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of SGLang's records, or by vLLM's lines."""
        records = head_records(head)
        if records:
            mine = all("request_parameters" in record for record in records)
            return Claim(90, "lines", "requests", f"{NAME} {path.parent}", 5) if mine else None
        if not is_text(head):
            return None
        if _PARAMS in head:
            return Claim(60, "lines", "sampling", f"{NAME} {path}", 5)
        return (
            Claim(20, "lines", "sampling", f"{NAME} {path}", 5) if b"--enable-log-requests" in head else None
        )

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:  # noqa: ARG002
        """A reader for the role that was claimed."""
        if claim.role == "requests":
            return SglangReader(path.parent.name or path.stem)
        return VllmReader(path.stem)


class SglangReader(JsonLinesReader):
    """Reads `sglang-request-metrics-*.log`: a finished request a line."""

    def __init__(self, sampler: str) -> None:
        self._sampler = sampler

    def fresh(self) -> SglangReader:
        """A reader that has read nothing."""
        return SglangReader(self._sampler)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One request. What was asked is itself a JSON object in a string."""
        asked = raw.get("request_parameters")
        if not isinstance(asked, str):
            raise ValueError("request without its parameters")
        parameters = parse_record(asked.encode())
        settings = parameters.get("sampling_params")
        sampling = normal_sampling(settings if isinstance(settings, dict) else None)
        versions = _versions(raw)
        if not versions:
            yield SamplerLook(self._sampler, sampling, text(raw.get("weight_version")))
            return
        reason = raw.get("finish_reason")
        yield _request(sampling, versions, location)._replace(
            prompt=_prompt(parameters),
            prompt_tokens=integer(raw.get("prompt_tokens")),
            completion_tokens=integer(raw.get("completion_tokens")),
            finish_reason=text(reason.get("type") if isinstance(reason, dict) else reason),
            seed=integer(settings.get("sampling_seed")) if isinstance(settings, dict) else None,
            logprobs_sampler=_logprobs(raw.get("output_token_logprobs")),
        )


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
        version = _number_of(weights)
        if version is None:
            return SamplerLook(self._sampler, sampling, weights)
        return _request(sampling, [version], location)._replace(sampler=self._sampler)


def _request(sampling: Sampling | None, versions: Sequence[int], location: Location = NOWHERE) -> Rollout:
    return Rollout(
        step=versions[-1] + 1,
        group=None,
        reward=None,
        split=REQUEST,
        policy_version=versions[0],
        policy_version_end=versions[-1],
        sampling=sampling,
        location=location,
    )


def _versions(raw: Mapping[str, Any]) -> list[int]:
    """The numbers of the weights that answered, lowest first; empty where they have none."""
    spans = raw.get("weight_versions")
    names = (
        [span.get("version") for span in spans if isinstance(span, dict)] if isinstance(spans, list) else []
    )
    numbers = [_number_of(name) for name in names or [raw.get("weight_version")]]
    return sorted(version for version in numbers if version is not None)


def _number_of(name: object) -> int | None:
    found = _NUMBER.fullmatch(text(name) or "")
    return int(found["number"]) if found else None


def _prompt(parameters: Mapping[str, Any]) -> str | None:
    """What was asked: the text, else the token ids."""
    written, ids = parameters.get("text"), parameters.get("input_ids")
    if isinstance(written, str):
        return written
    return "token ids " + " ".join(map(str, ids)) if isinstance(ids, list) else None


def _logprobs(triples: object) -> list[float] | None:
    """From `[[log-probability, token id, text], …]`; None where it was not asked for."""
    if not isinstance(triples, list) or not triples:
        return None
    found = [number(triple[0]) if isinstance(triple, list) and triple else None for triple in triples]
    return [value for value in found if value is not None] if None not in found else None


def _value(printed: str) -> float | int | None:
    value = number(printed)
    return int(printed) if value is not None and printed.lstrip("-").isdecimal() else value
