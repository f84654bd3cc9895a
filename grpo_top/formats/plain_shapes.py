"""Records of custom loops brought into one shape: a rollout, or a row of numbers, each.

A line may hold a group (`{"prompt": …, "completions": […], "rewards": […]}`), a whole step in columns or as a list of
objects, an event around what it tells (`{"event": "rollout", "data": {…}}`), or one number of many
(`{"step": 3, "name": "kl", "value": 0.1}`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Flat = dict[str, Any]

GROUP = "group"
_WRAPPERS = (
    "data",
    "payload",
    "record",
    "rollout",
    "sample",
    "trajectory",
    "fields",
    "body",
    "metrics",
    "scalars",
)
"""Objects that hold what a record tells, beside what is said of it outside."""
_LISTS = (
    *("groups", "rollouts", "samples", "trajectories", "completions", "responses", "generations", "episodes"),
    *("candidates", "outputs", "records", "rows", "results", "examples", "data", "batch"),
)
"""Lists of objects that are rollouts, or groups of them."""
_REWARDS = ("rewards", "scores", "reward", "score", "total_rewards", "returns", "correct", "is_correct")
_SCORED = frozenset((*_REWARDS, *_LISTS, "final_reward", "total_reward", "R", "r", "success", "metrics"))
_NESTED_REWARDS = (*_REWARDS, "group_rewards", "rewards_per_group", "grouped_rewards")
_ONE = {
    "completions": "completion",
    "responses": "response",
    "outputs": "output",
    "generations": "generation",
    "texts": "text",
    "answers": "answer",
    "samples": "completion",
    "prompts": "prompt",
    "inputs": "input",
    "questions": "question",
    "rewards": "reward",
    "scores": "score",
    "total_rewards": "reward",
    "advantages": "advantage",
    "lengths": "completion_tokens",
    "completion_lengths": "completion_tokens",
    "response_lengths": "completion_tokens",
    "num_tokens": "completion_tokens",
    "token_counts": "completion_tokens",
    "finish_reasons": "finish_reason",
    "stop_reasons": "stop_reason",
    "group_ids": "group_id",
    "prompt_ids": "prompt_id",
    "group_indices": "group_idx",
    "prompt_indices": "prompt_idx",
    "messages_list": "messages",
    "conversations": "messages",
    "steps": "step",
    "reward": "reward",
}
"""What one entry is of a list with such a name; `Xs` is of `X` where nothing is said here."""
_NAME = ("name", "metric", "key", "tag", "metric_name")
_VALUE = ("value", "val", "metric_value")
_VALUES = frozenset(_VALUE)
_NESTED = frozenset((dict, list))
_STEPS = ("step", "global_step", "iteration", "iter", "epoch", "training_step")
_GROUPS = frozenset(
    (
        *(
            GROUP,
            "group_id",
            "group_idx",
            "prompt_id",
            "prompt_idx",
            "prompt",
            "question",
            "problem",
            "query",
        ),
        *("input", "messages", "instruction", "task_id", "question_id", "problem_id"),
    )
)
_TOLD = frozenset(("completion", "response", "output", "messages", "reward", "score"))
"""What makes a record a rollout's by itself, whatever objects are in it."""
_OF_GROUPS = frozenset(("group_ids", "prompt_ids", "groups", "group_indices", "prompt_indices"))
"""Columns that number the groups."""
_TEXTS = frozenset((str, list, dict))
"""What a completion, a prompt or the name of a group is, and no number is."""
_DEEPEST = 3


def unfolded(raw: Mapping[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
    """The rollouts or rows that a record holds, each for itself; the record alone where it holds but one."""
    if _NESTED.isdisjoint(map(type, raw.values())):
        return [raw] if _VALUES.isdisjoint(raw) else [_named(raw)]
    if depth < _DEEPEST:
        if (listed := _listed(raw)) is not None:
            name, items = listed
            return _of_list(raw, name, items, depth)
        if (groups := _groups(raw)) is not None:
            return _of_list({}, "groups", groups, depth)
        if (size := _columns(raw)) is not None:
            return [_row(raw, size, place) for place in range(size)]
        if (wrapper := _wrapper(raw)) is not None:
            outside = {name: value for name, value in raw.items() if name != wrapper}
            return unfolded({**raw[wrapper], **outside}, depth + 1)
    return [raw]


def has_parts(raw: Mapping[str, Any]) -> bool:
    """Whether a record holds several rollouts or rows."""
    return _listed(raw) is not None or _groups(raw) is not None or _columns(raw) is not None


def is_flat(row: Mapping[str, Any]) -> bool:
    """Whether none of a row's values is an object or a list."""
    return _NESTED.isdisjoint(map(type, row.values()))


def numbers_within(row: Mapping[str, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """A row's values by name, those of objects in it by their path: `reward/mean`. What is too deep is left out."""
    for name, value in row.items():
        if type(value) is dict:
            if depth < _DEEPEST:
                yield from numbers_within(value, f"{before}{name}/", depth + 1)
        elif type(value) is not list:
            yield f"{before}{name}", value


def _named(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of one number with its name in it as a row with a number of that name."""
    name = next((key for key in _NAME if type(raw.get(key)) is str), None)
    value = next((key for key in _VALUE if number(raw.get(key)) is not None), None)
    if name is None or value is None:
        return raw
    return {key: other for key, other in raw.items() if key not in (name, value)} | {raw[name]: raw[value]}


def _listed(raw: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]] | None:
    """The list of objects that a record is about."""
    for name in _LISTS:
        value = raw.get(name)
        if type(value) is list and value and all(map(_is_scored, value)):
            return name, value
    return None


def _is_scored(item: object) -> bool:
    """Whether an object of a list is a rollout, or has rollouts in it: samples that are only shown are none."""
    return type(item) is dict and "role" not in item and not _SCORED.isdisjoint(item)


def _of_list(
    raw: Mapping[str, Any], name: str, items: list[Mapping[str, Any]], depth: int
) -> list[Mapping[str, Any]]:
    """The objects of a list, with what is said of all of them outside."""
    outside = {key: value for key, value in raw.items() if key != name}
    found: list[Mapping[str, Any]] = []
    for place, item in enumerate(items):
        counted = {GROUP: place} if name == "groups" and not tells_group(item) else {}
        found += unfolded({**outside, **counted, **item}, depth + 1)
    return found


def tells_group(record: Mapping[str, Any]) -> bool:
    """Whether a record says of which group it is, or what was asked."""
    return not _GROUPS.isdisjoint(record)


def _groups(raw: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The groups of a step whose rewards are lists in a list, with what else is told of each; None where none are."""
    name = next((name for name in _NESTED_REWARDS if _is_nested(raw.get(name))), None)
    if name is None:
        return None
    size = len(raw[name])
    return [
        {
            **{key: value for key, value in raw.items() if type(value) is not list},
            **{
                _ONE.get(key) or _singular(key) if type(value[place]) is not list else key: value[place]
                for key, value in raw.items()
                if type(value) is list and len(value) == size and key != name
            },
            "rewards": raw[name][place],
            GROUP: place,
        }
        for place in range(size)
    ]


def _columns(raw: Mapping[str, Any]) -> int | None:
    """How many rollouts or rows the lists of a record hold side by side; None where it holds none."""
    rewards = next((raw[name] for name in _REWARDS if _is_numbers(raw.get(name))), None)
    if rewards is not None:
        beside = (value for value in raw.values() if type(value) is list and len(value) == len(rewards))
        if (
            tells_group(raw)
            or not _OF_GROUPS.isdisjoint(raw)
            or any(type(value[0]) in _TEXTS for value in beside)
        ):
            return len(rewards)
    steps = next((raw[name] for name in _STEPS if _is_numbers(raw.get(name))), None)
    if (
        steps is not None
        and sum(type(value) is list and len(value) == len(steps) for value in raw.values()) > 1
    ):
        return len(steps)
    return None


def _row(raw: Mapping[str, Any], size: int, place: int) -> Flat:
    found: Flat = {}
    for name, value in raw.items():
        if type(value) is list and len(value) == size and not _is_conversation(value):
            found[_ONE.get(name) or _singular(name)] = value[place]
        elif type(value) is dict and any(type(inner) is list for inner in value.values()):
            found[name] = {
                key: inner[place] if type(inner) is list and len(inner) == size else inner
                for key, inner in value.items()
            }
        else:
            found[name] = value
    return found


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _wrapper(raw: Mapping[str, Any]) -> str | None:
    """The object in which everything is that a record tells."""
    if not _TOLD.isdisjoint(raw):
        return None
    return next((name for name in _WRAPPERS if type(raw.get(name)) is dict and raw[name]), None)


def _is_numbers(value: object) -> bool:
    return (
        type(value) is list
        and bool(value)
        and all(number(item) is not None or item is None for item in value)
    )


def _is_nested(value: object) -> bool:
    return type(value) is list and bool(value) and all(map(_is_numbers, value))


def _is_conversation(value: list[Any]) -> bool:
    return bool(value) and all(type(item) is dict and "role" in item for item in value)
