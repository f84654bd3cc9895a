"""What a record says under the field's usual names beside what its own format documents.

Trainers let users add columns to what they dump (a reward function's extras, an environment's info), and their versions
add fields. Where a format's reader found nothing, these words are taken for what everyone means by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import integer, number, text, written
from grpo_top.records import normal_sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grpo_top.records import Rollout

_INNER = ("extra_info", "env_extras", "metadata", "info")
"""Objects within a record that say more of it."""
_DEEPEST = 2


def _flag(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {0.0: False, 1.0: True}.get(value) if isinstance(value, int | float) else None


def _said(value: object) -> str | None:
    """A word, not a whole text: a number or a short string."""
    found = text(value)
    return found if found and len(found) <= 200 else None


def _sampling(value: object) -> object:
    return normal_sampling(value) if isinstance(value, dict) else None


_FIELDS: dict[str, tuple[Callable[[Any], object], tuple[str, ...]]] = {
    "finish_reason": (_said, ("finish_reason", "stop_reason")),
    "termination": (_said, ("termination", "termination_reason", "stop_condition", "exit_reason")),
    "truncated": (_flag, ("truncated", "is_truncated", "clipped")),
    "prompt_tokens": (integer, ("prompt_tokens", "prompt_length", "input_tokens", "num_input_tokens")),
    "completion_tokens": (
        integer,
        (
            "completion_tokens",
            "response_tokens",
            "response_length",
            "completion_length",
            "output_tokens",
            "num_output_tokens",
        ),
    ),
    "policy_version": (
        integer,
        ("policy_version", "weight_version", "model_version", "param_version", "param_version_start"),
    ),
    "policy_version_end": (integer, ("policy_version_end", "param_version_end")),
    "trainer_version": (integer, ("trainer_version",)),
    "task": (_said, ("task_id", "problem_id", "example_id", "question_id")),
    "family": (_said, ("family", "data_source", "dataset", "env_name")),
    "tier": (_said, ("tier", "difficulty", "level")),
    "seed": (integer, ("seed", "sampling_seed")),
    "sampler": (_said, ("sampler", "server", "engine")),
    "sampling": (_sampling, ("sampling", "sampling_params", "sampling_args", "generation_params")),
    "verifier_error": (written, ("verifier_error", "reward_error", "grader_error", "judge_error")),
    "verifier_raw": (written, ("verifier_raw", "verifier_output", "grader_output", "judge_output")),
    "parsed": (_flag, ("parsed", "parse_ok")),
    "advantage": (number, ("advantage",)),
    "env_version": (_said, ("env_version",)),
    "reward_version": (_said, ("reward_version",)),
}
"""Field of a rollout → how its value is read, and the names that it goes by."""
_NAMED = {name: (field, read) for field, (read, names) in _FIELDS.items() for name in names}
NAMES = frozenset(_NAMED)
"""All these names: none of them is a part of a reward."""


def names_of(field: str) -> tuple[str, ...]:
    """The names that a field of a rollout goes by, in order of preference."""
    return _FIELDS[field][1] if field in _FIELDS else ()


def filled(rollout: Rollout, raw: Mapping[str, Any]) -> Rollout:
    """The rollout with what its record says under usual names, where nothing is known yet."""
    found: dict[str, Any] = {}
    _look(raw, rollout, found, _DEEPEST)
    return rollout._replace(**found) if found else rollout


def _look(raw: Mapping[str, Any], rollout: Rollout, found: dict[str, Any], depth: int) -> None:
    for name, value in raw.items():
        known = _NAMED.get(name)
        if known is None or value is None:
            continue
        field, read = known
        if field not in found and getattr(rollout, field) is None and (said := read(value)) is not None:
            found[field] = said
    for name in _INNER if depth else ():
        inner = raw.get(name)
        if isinstance(inner, dict):
            _look(inner, rollout, found, depth - 1)
