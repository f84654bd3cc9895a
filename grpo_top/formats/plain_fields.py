"""Which field of a record of any other loop is which: by the field's usual names, and as the user has set it.

A record is brought under grpo-top/1's names and read as that. Names may have dots, one for each level of objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.formats.decode import integer, number, parse
from grpo_top.formats.plain_names import (
    CANDIDATES,
    FIELDS,
    IDS,
    LAST_COMPLETIONS,
    LAST_REWARDS,
    REWARD,
    STEP,
    component,
    spelled_plainly,
    within,
)
from grpo_top.formats.plain_shapes import unfolded
from grpo_top.records import EVAL, SAMPLING_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "REWARD",
    "STEP",
    "Fields",
    "Source",
    "as_native",
    "is_rollout",
    "is_whole_rollout",
    "series_of",
    "value_of",
]

_TEXT = ("completion", "messages", "group")
"""Beside a reward, one of these makes a record a rollout: without any of them it is a row of numbers."""
_ONE_VALUE = frozenset(
    (STEP, REWARD, "group", "prompt_tokens", "completion_tokens", "truncated", "finish_reason")
)
"""Fields whose value is never an object or a list."""
_NESTED = frozenset((dict, list))
_CUT = frozenset(
    ("max_tokens", "max_length", "max_new_tokens", "max_completion_tokens", "token_limit", "truncated")
)
"""What else than `length` a completion that was cut is said to have ended with."""
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
    summed: tuple[str, ...] = ()
    """The value is the sum of these, below `path`."""


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
        names = shape(record)
        known = self._layouts.get(names)
        if known is None:
            if len(self._layouts) > 256:
                self._layouts.clear()
            known = self._layouts[names] = _layout(record, self.by_user)
        return known

    def parts(self, record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The rollouts or rows that a record holds; itself where the user has said how it is read."""
        return [record] if self.by_user and self.is_set_for(record) else unfolded(record)

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
        tops = {name for source in layout.values() for name in source.path[:1] or source.summed}
        return found | {name: None for name in record if name not in tops}


def shape(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What records of one layout have in common: their names, and those of the objects in them."""
    if _NESTED.isdisjoint(map(type, record.values())):
        return tuple(record)
    inner = (name for value in record.values() if type(value) is dict for name in ("{", *value, "}"))
    lists = (name for name, value in record.items() if type(value) is list)
    return (*record, *inner, "[", *lists)


def is_rollout(layout: Layout) -> bool:
    """Whether records of that layout are rollouts."""
    counted = layout.get("completion_tokens")
    return REWARD in layout and (
        any(field in layout for field in _TEXT) or (counted is not None and counted.counted)
    )


def is_whole_rollout(layout: Layout) -> bool:
    """Whether a layout has all that makes a rollout, so that it is one wherever it lies."""
    return is_rollout(layout) and not layout.keys().isdisjoint(("completion", "messages"))


def value_of(record: Mapping[str, Any], source: Source) -> Any:
    """The value of a field, None where there is none."""
    value: Any = record
    for part in source.path:
        value = value.get(part) if isinstance(value, dict) else None
    if source.counted:
        return len(value) if isinstance(value, list) else None
    if source.summed:
        found = [number(value.get(name)) for name in source.summed] if isinstance(value, dict) else []
        return sum(given) if (given := [part for part in found if part is not None]) else None
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
    seen = _Seen(record, {source.path for source in found.values()})
    for field, names in CANDIDATES.items():
        if field not in found and (source := seen.first(field, names)):
            found[field] = source
    for field in CANDIDATES:
        if field not in found and (source := seen.first(field, within(field))):
            found[field] = source
    if "completion_tokens" not in found and (ids := next((name for name in IDS if name in record), None)):
        found["completion_tokens"] = Source(f"{ids} (its length)", (ids,), counted=True)
    if STEP in found:
        _fill(found, seen)
    return found


def _fill(found: Layout, seen: _Seen) -> None:
    """Add what is taken for a field only where nothing better is there, to the layout of what may be a rollout."""
    if (
        "completion" not in found
        and "messages" not in found
        and (source := seen.first("completion", LAST_COMPLETIONS))
    ):
        found["completion"] = source
    has_text = any(field in found for field in ("completion", "messages"))
    if (
        REWARD not in found
        and has_text
        and (source := seen.first(REWARD, LAST_REWARDS) or seen.sum_of_parts(found))
    ):
        found[REWARD] = source
    if "task" in found and found.keys().isdisjoint(("group", "prompt", "messages")):
        found["group"] = found["task"]
    if not is_rollout(found):
        return
    if "sampling" not in found:
        settings = ((f"sampling.{name}", name) for name in SAMPLING_ORDER if name in seen.record)
        found |= {field: Source(name, (name,)) for field, name in settings if field not in found}
    for name, part in seen.components():
        found.setdefault(f"components.{part}", Source(name, (name,)))


class _Seen:
    """A record that is searched for fields; what was found once is not found again."""

    def __init__(self, record: Mapping[str, Any], taken: set[tuple[str, ...]]) -> None:
        self.record = record
        self._taken = taken
        self._plainly = {spelled_plainly(name): name for name in reversed(list(record))}

    def first(self, field: str, names: tuple[str, ...]) -> Source | None:
        """Where the first of these names leads that is there, and can be such a field."""
        for name in names:
            source = _source(self.record, name)
            if source is None and (own := self._plainly.get(name)) is not None:
                source = Source(own, (own,))
            if source is None or source.path in self._taken:
                continue
            value = value_of(self.record, source)
            if isinstance(value, dict) and (field not in _OBJECTS or self._is_used(source.path)):
                continue
            if isinstance(value, list) and field in _ONE_VALUE:
                continue
            self._taken.add(source.path)
            return source
        return None

    def _is_used(self, path: tuple[str, ...]) -> bool:
        """Whether something within that object stands for a field already."""
        return any(taken[: len(path)] == path for taken in self._taken)

    def components(self) -> Iterator[tuple[str, str]]:
        """The columns that are parts of the reward, and which parts."""
        for name, value in self.record.items():
            part = component(name)
            if part and (name,) not in self._taken and number(value) is not None:
                yield name, part

    def sum_of_parts(self, found: Layout) -> Source | None:
        """The reward as the sum of its parts, where those are all that is said of it."""
        if (parts := found.get("rewards")) is not None:
            value = value_of(self.record, parts)
            names = (
                [name for name, part in value.items() if number(part) is not None]
                if isinstance(value, dict)
                else []
            )
            return Source(f"{parts.name} (their sum)", parts.path, summed=tuple(names)) if names else None
        names = [name for name, _ in self.components()]
        return Source(f"{' + '.join(names)}", (), summed=tuple(names)) if names else None


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


def _is_series(field: str) -> bool:
    return field not in FIELDS and not field.startswith(("components.", "sampling."))


def _read(field: str, value: Any) -> Any:
    """A value as grpo-top/1 has it: numbers that are spelled, flags in words, objects in a string."""
    if field == "finish_reason" and isinstance(value, str):
        return "length" if value.lower() in _CUT else value
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
