"""prime-rl's token exports: what the trainer computed for each token, a packed sequence a line, a file each rank.

They name no group and no episode, so they are no rollouts. What they give are a step's means over the tokens that are
trained on: what the trainer logs, for runs whose log is elsewhere, and the plain difference of log-probabilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import integer
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.records import Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

RANK = 0
"""The trainer's own log of these numbers stands above them."""
_FIELDS = {"token_ids", "loss_mask", "inference_logprobs", "trainer_logprobs"}
_LISTS = {
    "difference": "token_export/logp_abs_diff",
    "mismatch_kl": "mismatch_kl/all",
    "entropy": "entropy/all",
    "is_masked": "is_masked",
    "importance_ratio": "token_export/importance_ratio",
}
"""List of a sequence → the name of its means."""
_KEPT_STEPS = 32
"""Steps to which another rank's file may still add."""


@dataclass(slots=True)
class Sum:
    """One list's sum over the tokens of a file."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    highest: float = -math.inf

    def add(self, value: float) -> None:
        """Take a token's value in."""
        self.count += 1
        self.total += value
        self.squares += value * value
        self.highest = max(self.highest, value)


Sums = dict[str, Sum]
"""List → its sum; `difference` is that of the log-probabilities."""
Exports = dict[int, "dict[PurePath, Sums]"]
"""Step → the sums of each of its files."""


def exports_of(context: RunContext) -> Exports:
    """The one that a run's readers share."""
    known = context.notes.setdefault("prime-rl exports", {})
    return known if isinstance(known, dict) else {}


def is_export(record: Mapping[str, Any]) -> bool:
    """Whether an object is a sequence of an export; a line may be longer than the head."""
    return record.keys() >= _FIELDS or list(record)[:4] == ["schema_version", "step", "rank", "micro_step"]


class ExportReader(JsonLinesReader):
    """Reads one rank's sequences of a step; each gives the step's means so far."""

    note = "gives a step's means over its tokens; names no groups"

    def __init__(self, path: PurePath, exports: Exports) -> None:
        self._path = path
        self._exports = exports
        self._sums: Sums = {}

    def fresh(self) -> ExportReader:
        """A reader that has read nothing."""
        return ExportReader(self._path, {})

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """The step, with the means over all that was exported of it."""
        step = integer(raw.get("step"))
        if step is None:
            raise ValueError("token export without a step")
        lists = [raw.get(name) for name in ("loss_mask", "inference_logprobs", "trainer_logprobs")]
        if (
            not all(isinstance(values, list) for values in lists)
            or len({len(values or ()) for values in lists}) > 1
        ):
            raise ValueError("token export whose lists are not as long as each other")
        _add(self._sums, raw)
        of_step = self._exports.setdefault(step, {})
        of_step[self._path] = self._sums
        while len(self._exports) > _KEPT_STEPS:
            del self._exports[min(self._exports)]
        metrics = _means(list(of_step.values()))
        if metrics:
            yield Step(step, metrics, rank=RANK, writer=" token export", location=location)


def _add(sums: Sums, raw: Mapping[str, Any]) -> None:
    mask, sampled, own = (raw[name] for name in ("loss_mask", "inference_logprobs", "trainer_logprobs"))
    differences = [
        abs(ours - theirs) if isinstance(ours, int | float) and isinstance(theirs, int | float) else None
        for ours, theirs in zip(own, sampled, strict=True)
    ]
    for name, values in (("difference", differences), *((name, raw.get(name)) for name in [*_LISTS][1:])):
        if isinstance(values, list):
            of_list = sums.setdefault(name, Sum())
            for value, trained in zip(values, mask, strict=False):
                if trained and isinstance(value, int | float):
                    of_list.add(float(value))


def _means(parts: list[Sums]) -> dict[str, float | None]:
    """The names are those of the trainer's log, where it logs the number."""
    found: dict[str, float | None] = {}
    for name, key in _LISTS.items():
        of_files = [part[name] for part in parts if name in part]
        count = sum(part.count for part in of_files)
        if not count:
            continue
        total = sum(part.total for part in of_files)
        found[f"{key}/mean"] = total / count
        if name == "mismatch_kl":
            found[f"{key}/max"] = max(part.highest for part in of_files)
        if name == "importance_ratio":
            squares = sum(part.squares for part in of_files)
            found["token_export/effective_sample_size"] = (
                total * total / (count * squares) if squares else None
            )
    return found
