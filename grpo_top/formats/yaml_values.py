"""YAML to plain values, as trainers write their settings down: nothing in it is ever made an object or run."""

from __future__ import annotations

from functools import cache
from typing import Any

LONGEST = 4 << 20
"""Bytes of a file; a longer one is not parsed."""
_MOST_VALUES = 5_000_000
"""A few lines of YAML can stand for more values than there is memory: one may be named and used again and again."""
_DEEPEST = 200
_CANNOT_BE_DEEP = 8 << 10
"""Bytes up to which no nesting takes all of the stack."""


def parse_yaml(data: bytes) -> Any:
    """The value that a YAML document spells; ValueError with a short reason where it spells none."""
    if len(data) > LONGEST:
        raise ValueError(f"YAML of {len(data):,} bytes, longer than is read")
    import yaml  # noqa: PLC0415  most runs have none, and it takes its time

    try:
        text = data.decode("utf-8", "replace")
        if len(data) > _CANNOT_BE_DEEP:
            _require_flat(text)
        found = yaml.load(text, Loader=_loader())  # noqa: S506  a safe loader
        values = _values(found, {})
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or type(error).__name__
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise ValueError(f"not YAML: {problem:.80}{where}") from None
    except (RecursionError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"not YAML: {error!s:.80}") from None
    if values > _MOST_VALUES:
        raise ValueError(f"YAML that stands for more than {_MOST_VALUES:,} values")
    return found


@cache
def _loader() -> type[Any]:
    """A safe loader that takes a value with a tag of somebody's own (a Python enum, a path) for the plain value."""
    import yaml  # noqa: PLC0415

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Reads what is written and nothing else."""

    def plain(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    Loader.add_multi_constructor("", plain)
    return Loader


def _require_flat(text: str) -> None:
    """Raise ValueError where it is nested past _DEEPEST: to load it, most versions of libyaml call themselves for
    each level, and end the process where the stack does.
    """
    import yaml  # noqa: PLC0415

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} deep")


def _values(value: Any, counted: dict[int, int]) -> int:
    """How many values there are where one that is used twice counts twice; each is looked at once."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counted:
        counted[id(value)] = _MOST_VALUES  # one that holds itself has no end
        inner = value.values() if isinstance(value, dict) else value
        counted[id(value)] = 1 + sum(_values(item, counted) for item in inner)
    return counted[id(value)]
