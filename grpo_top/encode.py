"""A batch of rollouts turned on its side: from records to values of columns, a field at a time."""

from __future__ import annotations

import math
from array import array
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top.bundle import bundled
from grpo_top.completions import measure_texts
from grpo_top.records import EVAL, REQUEST, TRAIN
from grpo_top.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from grpo_top.bundle import Bundle
    from grpo_top.columns import Interner
    from grpo_top.records import Rollout

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
_MEASURED = {"reward": "reward", "advantage": "advantage"}
"""Column of numbers → the field that it holds."""
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
_RANGES = {
    name: (_TYPECODES[dtype], int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    for name, dtype in COLUMNS.items()
    if dtype in _TYPECODES
}
"""Integer column → its type code, its lowest and its highest value."""
_NO_TEXT = (0, -1, -1)
_PLACE = ("offset", "length", "part")
_UNKNOWN: dict[str, float] = {
    **dict.fromkeys((*_NAMED, *_COUNTED), -1),
    **dict.fromkeys(_MEASURED, math.nan),
    "verifier_raw": 0,
    "live": 1,
}
"""Column → what stands in it where a record has no such field."""


def encode(bundle: Bundle, names: dict[str, Interner]) -> dict[str, Any]:
    """Every column that a rollout gives by itself; its place among the others is the history's business.

    A column's values are as long as `bundle`, or one value that stands for all of them. Numbers past a column's
    range are cut to it.
    """
    fields = bundle.columns
    get = fields.get
    found: dict[str, Any] = {
        **_UNKNOWN,
        "step": integers(fields["step"], "step"),
        "split": _each(bundle.column("split"), _split_number, lambda splits: map(_split_number, splits)),
        "truncated": _truncated(get("truncated"), get("finish_reason")),
        "verifier_known": _either(get("verifier_raw"), get("verifier_error")),
        "logp_diff": _logp_differences(get("logprobs_sampler"), get("logprobs_trainer")),
        "task": array("i", names["task"].ids(task_names(bundle))),
    }
    for column, values in zip(_PLACE, bundle.places, strict=True):
        found[column] = values[0] if column == "part" and not any(values) else integers(values, column)
    for column, field in _MEASURED.items():
        if field in fields:
            found[column] = numbers(fields[field])
    for column, field in _COUNTED.items():
        if field in fields:
            found[column] = integers(fields[field], column)
    for column, field in _NAMED.items():
        if field in fields:
            found[column] = _each(fields[field], names[column].id, names[column].ids)
    if "verifier_raw" in fields:
        found["verifier_raw"] = _hashes(fields["verifier_raw"])
    found["policy_end"] = found["policy_start"]
    if "policy_version_end" in fields:
        ends = _filled(fields["policy_version_end"], bundle.column("policy_version"))
        found["policy_end"] = integers(ends, "policy_end")
    found["text"], found["loop"], found["gibberish"] = _texts(completions_of(bundle))
    return found


def _split_number(split: str | None) -> int:
    return _SPLITS.get(split, SPLIT_UNSURE)


def prompt_of(rollout: Rollout) -> str:
    """What was asked: the prompt, else the conversation up to the model's first turn."""
    if rollout.prompt is not None or not rollout.messages:
        return rollout.prompt or ""
    asked = takewhile(lambda message: message.role != "assistant", rollout.messages)
    return "\n".join(f"{message.role}: {message.content}" for message in asked)


def prompts_of(bundle: Bundle) -> Sequence[str]:
    """`prompt_of` each."""
    if "messages" not in bundle.columns:
        return [prompt or "" for prompt in bundle.column("prompt")]
    return list(map(prompt_of, bundle))


def completion_of(rollout: Rollout) -> str | None:
    """What the model wrote: the completion, else its turns of the conversation; None where no text is logged."""
    if rollout.completion is not None or rollout.messages is None:
        return rollout.completion
    return "\n".join(message.content for message in rollout.messages if message.role == "assistant")


def completions_of(bundle: Bundle) -> Sequence[str | None]:
    """`completion_of` each."""
    if "messages" not in bundle.columns:
        return bundle.column("completion")
    return list(map(completion_of, bundle))


def finite_or_inf(value: float) -> float:
    """A column's number: NaN is unknown there, so a NaN that was logged is kept as infinite, "not finite"."""
    return value if abs(value) <= LARGEST else math.inf


def numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Values of a float column: NaN unknown, infinite not finite."""
    numbers: NDArray[np.float64]
    try:
        numbers = np.frombuffer(array("d", values))  # type: ignore[type-var]  # in half the time that NumPy takes
    except (TypeError, OverflowError):
        numbers = np.array(values, np.float64)  # None becomes NaN, unknown
    if (np.abs(numbers) <= LARGEST).all():
        return numbers
    return np.array([math.nan if value is None else finite_or_inf(value) for value in values])


def _all_the_same(values: Sequence[Any]) -> bool:
    """Whether all values are equal: most fields of most batches hold one value, or none."""
    return values[-1] == values[0] and values.count(values[0]) == len(values)


def _each(values: Sequence[Any], of_one: Callable[[Any], int], of_all: Callable[[Sequence[Any]], Any]) -> Any:
    """What each value is encoded as; one number where all are equal."""
    return of_one(values[0]) if _all_the_same(values) else array("i", of_all(values))


def integers(values: Sequence[int | None], column: str) -> Any:
    """Values of an integer column: -1 unknown, those past its range cut to it."""
    typecode, lowest, highest = _RANGES[column]
    if isinstance(values, array):
        whole = np.frombuffer(values, np.int64)
        return whole if typecode == "q" else np.minimum(np.maximum(whole, lowest), highest)
    try:
        return array(typecode, values)  # in a third of the time that NumPy takes
    except (TypeError, OverflowError):
        return [-1 if value is None else min(max(value, lowest), highest) for value in values]


def _hashes(values: Sequence[str | None]) -> array[int]:
    """A number for each text, the same for the same; 0 unknown."""
    known = None not in values
    hashes = list(map(hash, values)) if known else [0 if value is None else hash(value) for value in values]
    return array("q", hashes)  # of a list in half the time that it takes with what gives one after the other


def _either(first: Sequence[object] | None, second: Sequence[object] | None) -> Any:
    """Whether one of both is known."""
    known = [values for values in (first, second) if values is not None]
    if not known or any(None not in values for values in known):
        return int(bool(known))
    return [any(value is not None for value in of_one) for of_one in zip(*known, strict=True)]


def _filled(values: Sequence[int | None], others: Sequence[int | None]) -> list[int | None]:
    return [other if value is None else value for value, other in zip(values, others, strict=True)]


def _truncated(said: Sequence[bool | None] | None, finish: Sequence[str | None] | None) -> Any:
    if finish is None:
        return -1 if said is None else [-1 if truncated is None else truncated for truncated in said]
    cut = {reason: -1 if reason is None else int(reason == "length") for reason in set(finish)}
    if said is None:
        return cut[finish[0]] if len(cut) == 1 else list(map(cut.__getitem__, finish))
    return [
        cut[reason] if truncated is None else truncated
        for truncated, reason in zip(said, finish, strict=True)
    ]


def task_names(rollouts: Sequence[Rollout]) -> Sequence[str | None]:
    """The source's task ids; where it gives none, one made of the prompt, with white space folded."""
    bundle = bundled(rollouts)
    tasks = bundle.column("task")
    if None not in tasks:
        return tasks
    made: dict[str, str | None] = {"": None}
    found = []
    for name, prompt in zip(tasks, prompts_of(bundle), strict=True):
        if name is None and prompt not in made:
            made[prompt] = f"prompt {text_hash(prompt) & 0xFFFFFFFFFFFFFFFF:016x}"
        found.append(made[prompt] if name is None else name)
    return found


def _texts(completions: Sequence[str | None]) -> tuple[Any, Any, Any]:
    known = [one for one in completions if one is not None]
    if not known:
        return _NO_TEXT
    of_all = measure_texts(known)
    if len(known) == len(completions):
        loops, gibberish = (flags if True in flags else 0 for flags in (of_all.loops, of_all.gibberish))
        return array("q", of_all.keys), loops, gibberish
    measured = zip(*of_all, strict=True)
    return tuple(zip(*(_NO_TEXT if one is None else next(measured) for one in completions), strict=True))  # type: ignore[return-value]


def _logp_differences(
    of_sampler: Sequence[Sequence[float] | None] | None, of_trainer: Sequence[Sequence[float] | None] | None
) -> Any:
    if of_sampler is None or of_trainer is None:
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
