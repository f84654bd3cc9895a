"""Which field of a record of any other loop is which: by the field's usual names, and as the user has set it.

A record is brought under grpo-top/1's names and read as that. Names may have dots, one for each level of objects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.formats.decode import integer, number, parse
from grpo_top.formats.usual import NAMES as USUAL
from grpo_top.formats.usual import names_of
from grpo_top.records import EVAL, SAMPLING_ORDER, Rollout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STEP, REWARD = "step", "reward"
_TEXT = ("completion", "messages", "group")
"""Beside a reward, one of these makes a record a rollout: without any of them it is a row of numbers."""
_NAMES: dict[str, tuple[str, ...]] = {
    STEP: (
        *("step", "global_step", "training_step", "train_step", "trainer/global_step", "train/global_step"),
        *("iteration", "iter"),
    ),
    REWARD: ("reward", "score", "total_reward", "reward_total", "final_reward", "reward_score"),
    "prompt": ("prompt", "input", "question", "query", "problem", "instruction"),
    "completion": ("completion", "output", "response", "generation", "generated_text", "completion_text"),
    "messages": ("messages", "conversation", "turns"),
    "group": ("group", "group_id", "prompt_id", "group_idx", "group_index", "prompt_idx"),
    "index": ("index", "sample_idx", "sample_index", "rollout_idx", "generation_idx", "completion_idx"),
    "rewards": ("rewards", "components", "reward_components", "component_rewards"),
    "split": ("split", "phase", "mode"),
    "task": ("task",),
    "family": ("env",),
    "advantage": ("adv",),
    "verifier_raw": ("verifier.raw",),
    "verifier_error": ("verifier.error",),
    "logprobs_sampler": ("logprobs.sampler", "sampling_logprobs", "sampler_logprobs", "old_logprobs"),
    "logprobs_trainer": ("logprobs.trainer", "trainer_logprobs"),
    "time": ("time", "ts", "timestamp", "_timestamp", "created_at"),
}
_IDS = ("completion_ids", "response_ids", "output_ids")
"""Token ids, of which there are as many as tokens."""
_COMPONENT = re.compile(r"rewards?[/_.](?P<name>.+)|(?P<other>.+)[/_.]rewards?")
_NO_COMPONENT = re.compile(
    r"(?:.*[/_.])?(?:std|mean|avg|min|max|sum|total|final|raw|group|batch|baseline|range"
    r"|fn|func|model|version|error|weight|kwargs|type)s?"
)
_EVALUATION = frozenset(("eval", "evaluation", "val", "valid", "validation", "test", "heldout", "held-out"))
_INTEGERS = frozenset(
    (
        "index",
        "prompt_tokens",
        "completion_tokens",
        "policy_version",
        "policy_version_end",
        "trainer_version",
        "seed",
    )
)
_OBJECTS = frozenset(("messages", "rewards", "sampling", "logprobs_sampler", "logprobs_trainer"))
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


class Source(NamedTuple):
    """Where a field's value is."""

    name: str
    """As a user would write it."""
    path: tuple[str, ...]
    counted: bool = False
    """The value is how many there are of it."""


Layout = dict[str, Source]
"""Field of a rollout (`components.NAME` and `sampling.NAME` as well), or series → where it is."""


class Fields:
    """Finds fields in records. Records with the same names have the same layout.

    Args:
        by_user: field or series → the file's own name, from the table `[fields]`; above the usual names.
    """

    def __init__(self, by_user: Mapping[str, str] | None = None) -> None:
        self.by_user = dict(by_user or {})
        self._layouts: dict[tuple[str, ...], Layout] = {}

    def layout(self, record: Mapping[str, Any]) -> Layout:
        """Which of the record's fields is which."""
        names = tuple(record)
        known = self._layouts.get(names)
        if known is None:
            if len(self._layouts) > 256:
                self._layouts.clear()
            known = self._layouts[names] = _layout(record, self.by_user)
        return known

    def is_set_for(self, record: Mapping[str, Any]) -> bool:
        """Whether the record has every field of a rollout, or every number, that the user has named."""
        parts: dict[bool, list[str]] = {}
        for field, own in self.by_user.items():
            parts.setdefault(_is_series(field), []).append(own)
        return any(all(_source(record, own) is not None for own in part) for part in parts.values())

    def read_as(self, record: Mapping[str, Any]) -> dict[str, str | None]:
        """The record's own names → what each is read as, None for those that are not read."""
        layout = self.layout(record)
        found: dict[str, str | None] = {source.name: field for field, source in layout.items()}
        tops = {source.path[0] for source in layout.values()}
        return found | {name: None for name in record if name not in tops}


def is_rollout(layout: Layout) -> bool:
    """Whether records of that layout are rollouts."""
    counted = layout.get("completion_tokens")
    return REWARD in layout and (
        any(field in layout for field in _TEXT) or (counted is not None and counted.counted)
    )


def value_of(record: Mapping[str, Any], source: Source) -> Any:
    """The value of a field, None where there is none."""
    value: Any = record
    for part in source.path:
        value = value.get(part) if isinstance(value, dict) else None
    if source.counted:
        return len(value) if isinstance(value, list) else None
    return value


def as_native(record: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """The record as grpo-top/1 writes a rollout."""
    found = {field: _read(field, value_of(record, source)) for field, source in layout.items()}
    native: dict[str, Any] = {"kind": "rollout"}
    parts: dict[str, dict[str, Any]] = {"components": {}, "sampling": {}}
    for field, value in found.items():
        outer, _, inner = field.partition(".")
        if inner and outer in parts:
            parts[outer][inner] = value
        else:
            native[field] = value
    for field, outer in (("rewards", "components"), ("sampling", "sampling")):
        inner_value = native.get(field)
        merged = {**(inner_value if isinstance(inner_value, dict) else {}), **parts[outer]}
        native[field] = merged or None
    native["verifier"] = {
        "raw": native.pop("verifier_raw", None),
        "error": native.pop("verifier_error", None),
    }
    native["logprobs"] = {
        "sampler": native.pop("logprobs_sampler", None),
        "trainer": native.pop("logprobs_trainer", None),
    }
    if (end := native.pop("policy_version_end", None)) is not None:
        native["policy_version"] = [native.get("policy_version"), end]
    return native


def series_of(record: Mapping[str, Any], layout: Layout) -> Iterator[tuple[str, Source, Any]]:
    """The numbers of a row that the user has named: series, where it is, and its value."""
    for field, source in layout.items():
        if _is_series(field):
            yield field, source, value_of(record, source)


def _layout(record: Mapping[str, Any], by_user: Mapping[str, str]) -> Layout:
    found: Layout = {}
    for field, own in by_user.items():
        if source := _source(record, own):
            found[field] = source
    taken = {source.path for source in found.values()}
    for field, names in _CANDIDATES.items():
        if field not in found and (source := _first(record, names, taken)):
            found[field] = source
            taken.add(source.path)
    if "completion_tokens" not in found and (ids := next((name for name in _IDS if name in record), None)):
        found["completion_tokens"] = Source(f"{ids} (its length)", (ids,), counted=True)
    if is_rollout(found):
        if "sampling" not in found:
            settings = ((f"sampling.{name}", name) for name in SAMPLING_ORDER if name in record)
            found |= {field: Source(name, (name,)) for field, name in settings if field not in found}
        for name, value in record.items():
            component = _component(name)
            if (name,) not in taken and component and number(value) is not None:
                found.setdefault(f"components.{component}", Source(name, (name,)))
    return found


def _first(record: Mapping[str, Any], names: tuple[str, ...], taken: set[tuple[str, ...]]) -> Source | None:
    sources = (_source(record, name) for name in names)
    return next((source for source in sources if source is not None and source.path not in taken), None)


def _source(record: Mapping[str, Any], name: str) -> Source | None:
    """Where a name leads in the record; None where nowhere. A field that has dots in its own name comes first."""
    if name in record:
        return Source(name, (name,))
    path = tuple(name.split("."))
    value: Any = record
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return Source(name, path)


def _component(name: str) -> str | None:
    match = _COMPONENT.fullmatch(name)
    if match is None or name in USUAL or _NO_COMPONENT.fullmatch(match["name"] or match["other"]):
        return None
    return match["name"] or match["other"]


def _is_series(field: str) -> bool:
    return field not in _ROLLOUT_FIELDS and not field.startswith(("components.", "sampling."))


def _read(field: str, value: Any) -> Any:
    """A value as grpo-top/1 has it: numbers that are spelled, flags in words, objects in a string."""
    if not isinstance(value, str):
        if field == "split":
            return value
        return bool(value) if field in ("truncated", "parsed") and value in (0, 1) else value
    if field == "split":
        return EVAL if value.lower() in _EVALUATION else value
    if field in (STEP, *_INTEGERS):
        return integer(value)
    if field in (REWARD, "advantage") or field.startswith(("components.", "sampling.")):
        found = number(value)
        return value if found is None else found
    if field in ("truncated", "parsed"):
        return _FLAGS.get(value.lower())
    if field in _OBJECTS:
        try:
            return parse(value.encode())
        except ValueError:
            return None
    return value


_ROLLOUT_FIELDS = frozenset(name for name in Rollout._fields if name != "location")
_CANDIDATES: dict[str, tuple[str, ...]] = {
    field: tuple(dict.fromkeys((field, *_NAMES.get(field, ()), *names_of(field))))
    for field in sorted(_ROLLOUT_FIELDS, key=[*_NAMES, *sorted(_ROLLOUT_FIELDS)].index)
}
"""Field of a rollout → its names in order of preference; fields in the order in which they take a name."""
