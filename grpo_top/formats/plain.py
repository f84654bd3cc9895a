"""JSON lines of loops that have no format of their own: rollouts and metrics by the field's usual names.

What a record says under one of several names is brought under grpo-top/1's name for it and read as that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format
from grpo_top.formats.decode import head_records, integer, number
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.names import canonical
from grpo_top.formats.native import NativeReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

_STEPS = (
    "step",
    "global_step",
    "training_step",
    "train_step",
    "trainer/global_step",
    "train/global_step",
    "iteration",
)
_TIMES = ("time", "ts", "timestamp", "_timestamp")
_FIELDS = {
    "score": "reward",
    "total_reward": "reward",
    "input": "prompt",
    "question": "prompt",
    "output": "completion",
    "response": "completion",
    "group_id": "group",
    "prompt_id": "group",
    "task_id": "task",
    "response_length": "completion_tokens",
    "completion_length": "completion_tokens",
    "prompt_length": "prompt_tokens",
    "stop_reason": "finish_reason",
}
_EVALUATION = ("eval/", "eval_", "validation/", "test/")


class Plain(Format):
    """Reads JSON lines by the field's usual names."""

    name: ClassVar[str] = "jsonl"
    rollouts_hint: ClassVar[str] = "write step, group, prompt, completion and reward, one rollout a line"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Records that all have a step, and a reward with its text, or numbers that are known by name."""
        records = head_records(head)
        if not records or any("kind" in record or _step(record) is None for record in records):
            return None
        if all(map(_is_rollout, records)):
            return Claim(40, "lines", "rollouts", f"jsonl {path}", 3)
        known = any(canonical(None, key) and number(value) is not None for key, value in records[0].items())
        return Claim(30, "lines", "metrics", f"jsonl {path}", 2) if known else None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> PlainReader:  # noqa: ARG002
        """A reader of such lines."""
        return PlainReader(context)


def _step(record: Mapping[str, Any]) -> int | None:
    return next((integer(record[name]) for name in _STEPS if name in record), None)


def _is_rollout(record: Mapping[str, Any]) -> bool:
    names = {_FIELDS.get(name, name) for name in record}
    return "reward" in names and not names.isdisjoint(("completion", "messages", "completion_ids", "group"))


class PlainReader(JsonLinesReader):
    """Reads a line as the rollout, step or evaluation that its fields show it to be."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._native = NativeReader(context)

    def fresh(self) -> PlainReader:
        """A reader that has read nothing."""
        return PlainReader(self._context)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout, or a step and the evaluation that its row carries."""
        step = _step(raw)
        if step is None:
            raise ValueError("record without a step")
        time = next((raw[name] for name in _TIMES if name in raw), None)
        if _is_rollout(raw):
            yield self._native.record(_as_rollout(raw) | {"step": step, "time": time}, location)
            return
        metrics = {name: value for name, value in raw.items() if name not in _STEPS and name not in _TIMES}
        evaluated = {
            name.removeprefix(prefix): value
            for prefix in _EVALUATION
            for name, value in metrics.items()
            if name.startswith(prefix)
        }
        trained = {name: value for name, value in metrics.items() if not name.startswith(_EVALUATION)}
        for kind, values in (("step", trained), ("eval", evaluated)):
            if values:
                yield self._native.record(
                    {"kind": kind, "step": step, "metrics": values, "time": time}, location
                )


def _as_rollout(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The record under grpo-top/1's names; a name that is there already is not replaced."""
    native = dict(raw) | {"kind": "rollout"}
    for name, own in _FIELDS.items():
        if name in raw:
            native.setdefault(own, raw[name])
    if isinstance(raw.get("completion_ids"), list):
        native.setdefault("completion_tokens", len(raw["completion_ids"]))
    sampled, trained = raw.get("sampling_logprobs", raw.get("sampler_logprobs")), raw.get("trainer_logprobs")
    if "logprobs" not in raw and (sampled is not None or trained is not None):
        native["logprobs"] = {"sampler": sampled, "trainer": trained}
    return native
