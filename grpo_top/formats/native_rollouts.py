"""grpo-top/1's rollout lines, many at once: a field of all of them is looked at together.

Nearly always all values of a field are of the type that they should be of, which is seen at once; only where they are
not is each of them looked at by itself.
"""

from __future__ import annotations

import math
from array import array
from types import NoneType
from typing import TYPE_CHECKING, Any

from grpo_top.bundle import Bundle, Components, Unmade, transposed
from grpo_top.formats.conversation import conversation, texts
from grpo_top.formats.decode import LARGEST, integer, number, numbers, text, timestamp, written
from grpo_top.records import EVAL, TRAIN, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grpo_top.bundle import Places
    from grpo_top.records import Message, Sampling

    Values = Sequence[Any]

_SAMPLINGS_KEPT = 256
_TEXT_OR_NONE = {str, NoneType}
_FLAG_OR_NONE = {bool, NoneType}
_SCALARS = {str, int, float, bool, NoneType}
_REWARDS = (float, int, NoneType)
FEW = 8
"""Rollouts whose columns are made later, together with those of other files: each file brings so few of them where many
grow at once.
"""


class RolloutColumns:
    """Makes bundles of rollout objects. It remembers sampling configs: a run's lines repeat a handful of them."""

    def __init__(self) -> None:
        self._samplings: dict[tuple[tuple[str, Any], ...], Sampling | None] = {}
        self._last: tuple[dict[str, Any], Sampling | None] = ({}, None)

    def bundle(self, raws: Sequence[dict[str, Any]], places: Places) -> Bundle:
        """The rollouts that objects stand for; ValueError with a short reason where one of them stands for none."""
        if len(raws) <= FEW and all(map(_is_plain, raws)):
            return Bundle.later([raw["step"] for raw in raws], Unmade(raws, self), places)
        return Bundle(self.columns(raws), places)

    def columns(self, raws: Sequence[dict[str, Any]]) -> dict[str, Values]:
        """The columns of such a bundle. It raises as `bundle` does, but nothing where all of them are plain."""
        unsaid = (None,) * len(raws)
        raw = {"step": unsaid, "split": unsaid, **transposed(raws, FIELDS)}
        found: dict[str, Values] = {}
        for field, values in raw.items():
            if field in _ALIKE:
                found[field] = _ALIKE[field](values)
            elif field in _OF_PARTS:
                found |= _OF_PARTS[field](values)
        if "sampling" in raw:
            found["sampling"] = self._sampling(raw["sampling"])
        found |= _texts(*(raw.get(field, unsaid) for field in _TEXTS))
        return {field: values for field, values in found.items() if _any_known(values)}

    def _sampling(self, values: Values) -> list[Sampling | None]:
        if type(values[0]) is dict and values.count(values[0]) == len(values):
            return [self._normal(values[0])] * len(values)
        return [self._normal(value) if type(value) is dict else None for value in values]

    def _normal(self, raw: dict[str, Any]) -> Sampling | None:
        """`normal_sampling`, remembered, and mostly the last one."""
        if raw != self._last[0]:
            self._last = raw, self._remembered(raw)
        return self._last[1]

    def _remembered(self, raw: dict[str, Any]) -> Sampling | None:
        key = tuple(raw.items())
        try:
            return self._samplings[key]
        except TypeError:
            return normal_sampling(raw)
        except KeyError:
            if len(self._samplings) >= _SAMPLINGS_KEPT:
                self._samplings.clear()
            self._samplings[key] = found = normal_sampling(raw)
            return found


def step_number(value: object, kind: str) -> int:
    """The step that a record of some kind says; ValueError where it says none."""
    found = None if isinstance(value, str) else integer(value)
    if found is None:
        raise ValueError(f"{kind} without a step" if value is None else f"{kind} whose step is no integer")
    return found


def _is_plain(raw: dict[str, Any]) -> bool:
    """Whether it certainly stands for a rollout: its step and reward are what they should be, nothing in it is a list,
    and what is looked at as a whole is not nested.
    """
    return (
        type(step := raw.get("step")) is int
        and -LARGEST <= step < LARGEST
        and type(raw.get("reward")) in _REWARDS
        and "logprobs" not in raw
        and list not in map(type, raw.values())
        and _is_flat(raw.get("verifier"))
        and _is_flat(raw.get("sampling"))
    )


def _is_flat(value: object) -> bool:
    return type(value) is not dict or _SCALARS.issuperset(map(type, value.values()))


def _any_known(values: Values) -> bool:
    return values[0] is not None or values.count(None) < len(values)


def _steps(values: Values) -> Values:
    return _whole(values) or [step_number(value, "rollout") for value in values]


def _integers(values: Values) -> Values:
    return _whole(values) or list(map(integer, values))


def _whole(values: Values) -> array[int] | None:
    """Values that are integers, all of them; else None."""
    if set(map(type, values)) != {int}:
        return None
    try:
        return array("q", values)
    except OverflowError:
        return None


def _rewards(values: Values) -> Values:
    return _fractions(values) or list(map(_reward, values))


def _reward(value: object) -> float | None:
    found = None if isinstance(value, str) else number(value)
    if found is None and value is not None:
        raise ValueError(f"rollout whose reward is a {type(value).__name__}")
    return found


def _numbers(values: Values) -> Values:
    return _fractions(values) or list(map(number, values))


def _fractions(values: Values) -> array[float] | None:
    """Values that are floats, all of them; else None."""
    return array("d", values) if set(map(type, values)) == {float} else None


def _components(values: Values) -> Values:
    if set(map(type, values)) == {dict}:
        of_each = [(name, _fractions(of_one)) for name, of_one in transposed(values).items()]
        columns = {name: of_one for name, of_one in of_each if of_one is not None}
        if len(columns) == len(of_each):
            return Components(columns, len(values))
    return [numbers(value) if type(value) is dict else None for value in values]


def _names(values: Values) -> Values:
    try:
        all_are = set(map(type, set(values))) <= _TEXT_OR_NONE  # quicker than the types of all
    except TypeError:  # of lists and objects, which cannot be in a set
        all_are = False
    return values if all_are else list(map(text, values))


def _flags(values: Values) -> Values:
    if set(map(type, values)) <= _FLAG_OR_NONE:
        return values
    return [value if type(value) is bool else None for value in values]


def _splits(values: Values) -> Values:
    if values.count(TRAIN) == len(values):
        return values
    return [EVAL if value == EVAL else TRAIN for value in values]


def _times(values: Values) -> Values:
    return list(map(timestamp, values))


def _versions(values: Values) -> dict[str, Values]:
    """The first policy version that sampled each, and the last one where there are several."""
    if list not in set(map(type, values)):
        return {"policy_version": _integers(values)}
    spans = [(value or [None]) if type(value) is list else None for value in values]
    firsts = [value if span is None else span[0] for span, value in zip(spans, values, strict=True)]
    return {
        "policy_version": _integers(firsts),
        "policy_version_end": _integers([None if span is None else span[-1] for span in spans]),
    }


def _verifiers(values: Values) -> dict[str, Values]:
    if set(map(type, values)) != {dict}:
        values = [value if type(value) is dict else {} for value in values]
    parts = transposed(values, ("raw", "error"))
    found: dict[str, Values] = {}
    if "raw" in parts:
        raws = parts["raw"]
        found["verifier_raw"] = (
            raws
            if set(map(type, raws)) <= _TEXT_OR_NONE
            else [raw if type(raw) is str else written(raw) for raw in raws]
        )
    if "error" in parts:
        errors = parts["error"]
        found["verifier_error"] = list(map(written, errors)) if _any_known(errors) else errors
    return found


def _logprobs(values: Values) -> dict[str, Values]:
    said: list[Mapping[str, Any]] = [value if type(value) is dict else {} for value in values]
    return {
        "logprobs_sampler": [_floats(one.get("sampler")) for one in said],
        "logprobs_trainer": [_floats(one.get("trainer")) for one in said],
        "tokens": [_tokens(one.get("tokens")) for one in said],
    }


def _tokens(values: object) -> list[str] | None:
    """Texts of tokens; None unless every one is a text."""
    if type(values) is not list or any(type(value) is not str for value in values):
        return None
    return values


def _floats(values: object) -> list[float] | None:
    """Log-probabilities as they are; null inside (a masked token) becomes NaN, so that the length stays."""
    if type(values) is not list:
        return None
    try:
        sum(values)
    except TypeError:
        found = [math.nan if value is None else number(value) for value in values]
        return None if None in found else [value for value in found if value is not None]
    return values


def _texts(prompts: Values, completions: Values, messages: Values) -> dict[str, Values]:
    """What was asked and answered, as text, and turn by turn where it is said so."""
    kinds = set(map(type, prompts)).union(map(type, completions), map(type, messages))
    if kinds <= _TEXT_OR_NONE:
        return {"prompt": prompts, "completion": completions}
    if list not in kinds:
        return {"prompt": list(map(text, prompts)), "completion": list(map(text, completions))}
    said = [_said(*of_one) for of_one in zip(prompts, completions, messages, strict=True)]
    return dict(zip(_TEXTS, zip(*said, strict=True), strict=True))


def _said(
    prompt: object, completion: object, messages: object
) -> tuple[str | None, str | None, Sequence[Message] | None]:
    if list not in (type(prompt), type(completion), type(messages)):
        return text(prompt), text(completion), None
    turns = conversation(messages) if type(messages) is list else conversation(prompt, completion)
    return text(texts(prompt)), text(texts(completion)), turns


_ALIKE: Mapping[str, Callable[[Values], Values]] = {
    "step": _steps,
    "split": _splits,
    "reward": _rewards,
    "rewards": _components,
    "advantage": _numbers,
    "time": _times,
    **dict.fromkeys(("group", "task", "family", "tier", "finish_reason", "termination", "sampler"), _names),
    **dict.fromkeys(("env_version", "reward_version"), _names),
    **dict.fromkeys(("index", "prompt_tokens", "completion_tokens", "trainer_version", "seed"), _integers),
    **dict.fromkeys(("parsed", "truncated"), _flags),
}
"""Fields that a rollout has under the same name, and what is made of their values."""
_OF_PARTS: Mapping[str, Callable[[Values], dict[str, Values]]] = {
    "policy_version": _versions,
    "verifier": _verifiers,
    "logprobs": _logprobs,
}
"""Fields of which several of a rollout's are made."""
_TEXTS = ("prompt", "completion", "messages")
FIELDS = (*_ALIKE, *_OF_PARTS, "sampling", *_TEXTS)
"""All that is read of a rollout object."""
