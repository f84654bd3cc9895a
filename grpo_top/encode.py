"""A batch of rollouts turned on its side: from records to values of columns, a field at a time."""

from __future__ import annotations

import math
from array import array
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top.completions import measure_texts
from grpo_top.records import EVAL, REQUEST, TRAIN, Rollout
from grpo_top.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from grpo_top.columns import Interner

SPLIT_TRAIN, SPLIT_EVAL, SPLIT_UNSURE, SPLIT_REQUEST = 0, 1, 2, 3

COLUMNS: dict[str, DTypeLike] = {
    "step": np.int64,
    "split": np.int8,  # 0 train, 1 eval, 2 the source cannot say, 3 a request in an engine's log
    "group": np.int32,  # number of the group within its step and split
    "index": np.int32,  # number of the rollout within its group
    "reward": np.float64,
    "advantage": np.float64,
    "prompt_tokens": np.int32,
    "completion_tokens": np.int32,
    "truncated": np.int8,  # 1 yes, 0 no, -1 unknown
    "parsed": np.int8,  # 1 yes, 0 no, -1 unknown
    "finish": np.int16,  # id in names["finish"]
    "termination": np.int16,
    "verifier_error": np.int16,  # id; -1 none or unknown (verifier_known says which)
    "verifier_known": np.int8,  # 1 where the record carries a verifier
    "verifier_raw": np.int64,  # hash of the raw verifier output, 0 unknown
    "policy_start": np.int32,
    "policy_end": np.int32,
    "trainer_version": np.int32,
    "sampling": np.int16,  # id in names["sampling"]
    "sampler": np.int16,
    "seed": np.int64,
    "env_version": np.int16,
    "reward_version": np.int16,
    "task": np.int32,  # id in names["task"]: the task's id, else the hash of its prompt
    "family": np.int16,
    "tier": np.int16,
    "text": np.int64,  # key of the completion with white space folded, of this process alone; 0 unknown
    "loop": np.int8,  # 1 the completion ends in a loop, -1 no text
    "gibberish": np.int8,
    "logp_diff": np.float32,  # mean |log-probability difference| sampler to trainer; inf: lengths do not match
    "source": np.int16,
    "offset": np.int64,
    "length": np.int32,
    "part": np.int16,
    "live": np.int8,  # 0 where a later record replaced it
}
"""Column name → type. Integers hold -1 for unknown, floats NaN for unknown and ±inf for "not finite"."""

LARGEST = 1e150
"""A number past it counts as not finite: its square is none that a computer can hold."""
_SPLITS: dict[str | None, int] = {TRAIN: SPLIT_TRAIN, EVAL: SPLIT_EVAL, REQUEST: SPLIT_REQUEST}
_NAMED = {
    "finish": "finish_reason",
    "termination": "termination",
    "verifier_error": "verifier_error",
    "sampler": "sampler",
    "env_version": "env_version",
    "reward_version": "reward_version",
    "family": "family",
    "tier": "tier",
}
"""Id column → the field that it numbers."""
_COUNTED = {
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "parsed": "parsed",
    "policy_start": "policy_version",
    "trainer_version": "trainer_version",
    "seed": "seed",
}
"""Integer column → the field that it holds."""
_TYPECODES: dict[DTypeLike, str] = {np.int8: "b", np.int16: "h", np.int32: "i", np.int64: "q"}
_NO_TEXT = (0, -1, -1)


def encode(rollouts: Sequence[Rollout], names: dict[str, Interner]) -> dict[str, Any]:
    """Every column that a rollout gives by itself; its place among the others is the history's business.

    A column's values are as long as `rollouts`, or one value that stands for all of them. Numbers past a column's
    range are cut to it.
    """
    fields = dict(zip(Rollout._fields, zip(*rollouts, strict=True), strict=True))
    offsets, lengths, parts = zip(*fields["location"], strict=True)
    found: dict[str, Any] = {
        "step": fields["step"],
        "split": _each(fields["split"], lambda split: _SPLITS.get(split, SPLIT_UNSURE)),
        "reward": numbers(fields["reward"]),
        "advantage": numbers(fields["advantage"]),
        "truncated": _truncated(fields["truncated"], fields["finish_reason"]),
        "verifier_known": _either(fields["verifier_raw"], fields["verifier_error"]),
        "verifier_raw": _hashes(fields["verifier_raw"]),
        "logp_diff": _logp_differences(fields["logprobs_sampler"], fields["logprobs_trainer"]),
        "offset": integers(offsets, COLUMNS["offset"]),
        "length": integers(lengths, COLUMNS["length"]),
        "part": integers(parts, COLUMNS["part"]),
        "live": 1,
    }
    for column, field in _COUNTED.items():
        found[column] = integers(fields[field], COLUMNS[column])
    for column, field in _NAMED.items():
        found[column] = _each(fields[field], names[column].id, names[column].ids)
    tasks = fields["task"] if None not in fields["task"] else task_names(rollouts)
    found["task"] = names["task"].ids(tasks)
    found["policy_end"] = found["policy_start"]
    ends = fields["policy_version_end"]
    if ends.count(None) < len(ends):
        found["policy_end"] = integers(_filled(ends, fields["policy_version"]), COLUMNS["policy_end"])
    found["text"], found["loop"], found["gibberish"] = _texts(rollouts)
    return found


def prompt_of(rollout: Rollout) -> str:
    """What was asked: the prompt, else the conversation up to the model's first turn."""
    if rollout.prompt is not None or not rollout.messages:
        return rollout.prompt or ""
    asked = takewhile(lambda message: message.role != "assistant", rollout.messages)
    return "\n".join(f"{message.role}: {message.content}" for message in asked)


def completion_of(rollout: Rollout) -> str | None:
    """What the model wrote: the completion, else its turns of the conversation; None where no text is logged."""
    if rollout.completion is not None or rollout.messages is None:
        return rollout.completion
    return "\n".join(message.content for message in rollout.messages if message.role == "assistant")


def finite_or_inf(value: float) -> float:
    """A column's number: NaN is unknown there, so a NaN that was logged is kept as infinite, "not finite"."""
    return value if abs(value) <= LARGEST else math.inf


def numbers(values: Sequence[float | None]) -> Any:
    """Values of a float column: NaN unknown, infinite not finite; one NaN where all are unknown."""
    if _all_the_same(values) and values[0] is None:
        return math.nan
    numbers: NDArray[np.float64] = np.array(values, np.float64)  # None becomes NaN, unknown
    if not (np.abs(numbers) <= LARGEST).all():
        for place, value in enumerate(values):
            if value is not None:
                numbers[place] = finite_or_inf(value)
    return numbers


def _all_the_same(values: Sequence[Any]) -> bool:
    """Whether all values are equal: most fields of most batches hold one value, or none."""
    return values[-1] == values[0] and values.count(values[0]) == len(values)


def _each(
    values: Sequence[Any], of_one: Callable[[Any], int], of_all: Callable[[Sequence[Any]], Any] | None = None
) -> Any:
    """What each value is encoded as; one number where all are equal."""
    if _all_the_same(values):
        return of_one(values[0])
    return of_all(values) if of_all else list(map(of_one, values))


def integers(values: Sequence[int | None], dtype: DTypeLike) -> Any:
    """Values of an integer column: -1 unknown, those past its range cut to it."""
    limits = np.iinfo(dtype)

    def within(value: int | None) -> int:
        return -1 if value is None else min(max(value, limits.min), limits.max)

    if _all_the_same(values):
        return within(values[0])
    try:
        return array(_TYPECODES[dtype], values)  # in a third of the time that NumPy takes
    except (TypeError, OverflowError):
        return list(map(within, values))


def _hashes(values: Sequence[str | None]) -> Any:
    if None not in values:
        return array("q", map(hash, values))
    return _each(values, lambda value: 0 if value is None else hash(value))


def _either(first: Sequence[object], second: Sequence[object]) -> Any:
    """Whether one of both is known."""
    if None not in first or None not in second:
        return 1
    if all(_all_the_same(values) for values in (first, second)):
        return first[0] is not None or second[0] is not None
    return [one is not None or other is not None for one, other in zip(first, second, strict=True)]


def _filled(values: Sequence[int | None], others: Sequence[int | None]) -> list[int | None]:
    return [other if value is None else value for value, other in zip(values, others, strict=True)]


def _truncated(said: Sequence[bool | None], finish: Sequence[str | None]) -> Any:
    if _all_the_same(said) and said[0] is None:
        cut = {reason: -1 if reason is None else int(reason == "length") for reason in set(finish)}
        return cut[finish[0]] if len(cut) == 1 else list(map(cut.__getitem__, finish))
    return [
        (-1 if reason is None else reason == "length") if truncated is None else truncated
        for truncated, reason in zip(said, finish, strict=True)
    ]


def task_names(rollouts: Sequence[Rollout]) -> list[str | None]:
    """The source's task ids; where it gives none, one made of the prompt, with white space folded."""
    made: dict[str, str | None] = {"": None}
    found = []
    for rollout in rollouts:
        name = rollout.task
        if name is None:
            prompt = prompt_of(rollout)
            if prompt not in made:
                made[prompt] = f"prompt {text_hash(prompt) & 0xFFFFFFFFFFFFFFFF:016x}"
            name = made[prompt]
        found.append(name)
    return found


def _texts(rollouts: Sequence[Rollout]) -> tuple[Any, Any, Any]:
    completions = list(map(completion_of, rollouts))
    if None not in completions:
        of_all = measure_texts(completions)  # type: ignore[arg-type]
        loops, gibberish = (flags if True in flags else 0 for flags in (of_all.loops, of_all.gibberish))
        return of_all.keys, loops, gibberish
    measured = zip(*measure_texts([one for one in completions if one is not None]), strict=True)
    return tuple(zip(*(_NO_TEXT if one is None else next(measured) for one in completions), strict=True))  # type: ignore[return-value]


def _logp_differences(
    of_sampler: Sequence[Sequence[float] | None], of_trainer: Sequence[Sequence[float] | None]
) -> Any:
    if of_sampler.count(None) == len(of_sampler) or of_trainer.count(None) == len(of_trainer):
        return math.nan
    return [
        logp_difference(sampler, trainer) for sampler, trainer in zip(of_sampler, of_trainer, strict=True)
    ]


def logp_difference(sampler: Sequence[float] | None, trainer: Sequence[float] | None) -> float:
    """Mean |difference| of a rollout's log-probabilities; NaN unknown, inf where their numbers differ."""
    if sampler is None or trainer is None:
        return math.nan
    if len(sampler) != len(trainer):
        return math.inf
    if not sampler:
        return math.nan
    difference = np.abs(np.asarray(sampler, np.float64) - np.asarray(trainer, np.float64)).mean()
    return finite_or_inf(float(difference))
