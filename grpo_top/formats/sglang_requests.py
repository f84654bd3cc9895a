"""What SGLang logs of each request, in its files of request metrics and in its log.

Its metrics files (`--export-metrics-to-file`) hold a finished request a line. The log (`--log-requests`) has two lines
a request, as it comes and as it ends, among whatever else is printed: JSON after a time, or as Python would print it.
Only the second is read: it has what was asked and what came of it. At level 0 it leaves the sampling out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from grpo_top.formats.base import Reader
from grpo_top.formats.decode import integer, literal, number, parse_record, text, timestamp
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.records import NOWHERE, REQUEST, Location, Rollout, SamplerLook, Skipped, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grpo_top.records import Record, Sampling
    from grpo_top.sources.lines import Lines

FINISHED = (b'"event": "request.finished"', b"Finish: obj=")
"""What the lines of a finished request have in them: JSON, then Python."""
RECEIVED = (b'"event": "request.received', b"Receive: obj=")

_NUMBER = re.compile(r"(?:.*\D)?(?P<number>\d{1,12})")
"""Weights are numbered, or named with a number at the end (`step_40`, `lora-v40`)."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[{}]", re.DOTALL)
_LONGEST_DICT = 10_000


class MetricsReader(JsonLinesReader):
    """Reads `sglang-request-metrics-*.log`."""

    def __init__(self, sampler: str) -> None:
        self._sampler = sampler

    def fresh(self) -> MetricsReader:
        """A reader that has read nothing."""
        return MetricsReader(self._sampler)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One request. What was asked is itself a JSON object in a string."""
        asked = raw.get("request_parameters")
        if not isinstance(asked, str):
            raise ValueError("request without its parameters")
        yield _finished(parse_record(asked.encode()), raw, self._sampler, location)


class LogReader(Reader):
    """Reads the lines of finished requests in a server's log."""

    def __init__(self, sampler: str) -> None:
        self._sampler = sampler

    def fresh(self) -> LogReader:
        """A reader that has read nothing."""
        return LogReader(self._sampler)

    def feed(self, lines: Lines) -> list[Record]:
        """One record a finished request."""
        found: list[Record] = []
        offset = lines.offset
        for line_number, line in enumerate(lines.lines, lines.first_number):
            try:
                if FINISHED[0] in line:
                    found.append(self._json(line, Location(offset, len(line))))
                elif FINISHED[1] in line:
                    found.append(self._printed(line, Location(offset, len(line))))
            except ValueError as error:
                found.append(Skipped(str(error), offset, line_number))
            offset += len(line) + 1
        return found

    def _json(self, line: bytes, location: Location) -> Record:
        raw = parse_record(line[line.find(b"{") :])
        asked, came = _mapping(raw.get("obj")), _mapping(raw.get("out"))
        record = _finished(asked, _mapping(came.get("meta_info")), self._sampler, location)
        time = timestamp(raw.get("timestamp"))
        if isinstance(record, Rollout):
            return record._replace(completion=text(came.get("text")), time=time)
        return record._replace(time=time)

    def _printed(self, line: bytes, location: Location) -> Record:
        """`Finish: obj=GenerateReqInput(…, sampling_params={…}, …), out={…, 'meta_info': {…}}`."""
        printed = line[line.find(FINISHED[1]) :].decode("utf-8", "replace")
        meta = _dict_after(printed, printed.rfind("'meta_info': {"))
        if not meta:
            raise ValueError("finished request without its meta_info")
        sampling = _dict_after(printed, printed.find("sampling_params={"))
        return _finished({"sampling_params": sampling}, meta, self._sampler, location)


def request(sampling: Sampling | None, versions: Sequence[int], location: Location = NOWHERE) -> Rollout:
    """A request that weights of these versions answered: it belongs to the step after them."""
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


def number_of(name: object) -> int | None:
    """The number that weights have, or that their name ends with; None where there is none."""
    found = _NUMBER.fullmatch(text(name) or "")
    return int(found["number"]) if found else None


def _finished(
    asked: Mapping[str, Any], meta: Mapping[str, Any], sampler: str, location: Location
) -> Rollout | SamplerLook:
    """A finished request; where its weights have no number, how the sampler sampled."""
    settings = asked.get("sampling_params")
    if isinstance(settings, list) and settings:
        settings = settings[0]  # a batch that was asked for at once
    sampling = normal_sampling(_mapping(settings))
    versions = _versions(meta)
    if not versions:
        return SamplerLook(sampler, sampling, text(meta.get("weight_version")))
    reason = meta.get("finish_reason")
    return request(sampling, versions, location)._replace(
        prompt=_prompt(asked),
        prompt_tokens=integer(meta.get("prompt_tokens")),
        completion_tokens=integer(meta.get("completion_tokens")),
        finish_reason=text(reason.get("type") if isinstance(reason, dict) else reason),
        sampler=sampler,
        seed=integer(_mapping(settings).get("sampling_seed")),
        logprobs_sampler=_logprobs(meta.get("output_token_logprobs")),
    )


def _versions(meta: Mapping[str, Any]) -> list[int]:
    """The numbers of the weights that answered, lowest first; empty where they have none."""
    spans = meta.get("weight_versions")
    names = [
        span.get("version") if isinstance(span, dict) else span
        for span in (spans if isinstance(spans, list) else ())
    ]
    numbers = [number_of(name) for name in names or [meta.get("weight_version")]]
    return sorted(version for version in numbers if version is not None)


def _prompt(asked: Mapping[str, Any]) -> str | None:
    """What was asked: the text, else the token ids."""
    written, ids = asked.get("text"), asked.get("input_ids")
    if isinstance(written, str):
        return written
    return "token ids " + " ".join(map(str, ids)) if isinstance(ids, list) else None


def _logprobs(triples: object) -> list[float] | None:
    """From `[[log-probability, token id, text], …]`; None where it was not asked for."""
    if not isinstance(triples, list) or not triples:
        return None
    found = [number(triple[0]) if isinstance(triple, list | tuple) and triple else None for triple in triples]
    return [value for value in found if value is not None] if None not in found else None


def _dict_after(printed: str, start: int) -> dict[str, Any]:
    """The Python dict whose brace is the first from `start` on; empty where there is none, or it does not end."""
    begin = printed.find("{", start) if start >= 0 else -1
    if begin < 0:
        return {}
    depth = 0
    for found in _QUOTED.finditer(printed, begin, begin + _LONGEST_DICT):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return _mapping(literal(printed[begin : found.end()]))
    return {}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
