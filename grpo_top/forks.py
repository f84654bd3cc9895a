"""Copies of plain state, as `copy.deepcopy` makes them, in a tenth of its time: what never changes is shared."""

from __future__ import annotations

import copy
from array import array
from collections import deque
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    Memo = dict[int, Any]

State = TypeVar("State")

_SHARED: set[type] = {int, float, str, bool, bytes, type(None), range, frozenset}
"""Types whose values never change, by themselves."""


def fork(state: State) -> State:
    """A copy that shares nothing with `state` that can change: plain objects, and containers of plain values."""
    copied: State = _fork(state, {})
    return copied


def _fork(value: Any, memo: Memo) -> Any:
    kind = type(value)
    if kind in _SHARED:
        return value
    known = memo.get(id(value))
    if known is not None:
        return known
    how = _HOW.get(kind) or _learn(kind)
    copied = memo[id(value)] = how(value, memo)
    return copied


def _learn(kind: type) -> Callable[[Any, Memo], Any]:
    """How values of a type that is met for the first time are copied."""
    how: Callable[[Any, Memo], Any]
    if hasattr(kind, "__deepcopy__"):
        how = _by_itself
    elif issubclass(kind, tuple):
        how = _tuple
    elif issubclass(kind, dict):
        how = _mapping
    elif issubclass(kind, Enum | FunctionType | np.generic):
        _SHARED.add(kind)
        how = _shared
    else:
        how = _object(kind) if kind.__new__ is object.__new__ else copy.deepcopy
    _HOW[kind] = how
    return how


def _shared(value: Any, memo: Memo) -> Any:  # noqa: ARG001
    return value


def _by_itself(value: Any, memo: Memo) -> Any:
    return value.__deepcopy__(memo)


def _flat(values: Any) -> bool:
    """Whether all values are of types that never change."""
    return _SHARED.issuperset(map(type, values))


def _tuple(value: Any, memo: Memo) -> Any:
    if _flat(value):
        return value
    copied = [_fork(item, memo) for item in value]
    if all(new is old for new, old in zip(copied, value, strict=True)):
        return value
    return tuple.__new__(type(value), copied)


def _container(value: Any, memo: Memo) -> Any:
    if _flat(value):
        return value.copy()
    copied = value.copy()
    copied.clear()
    memo[id(value)] = copied
    copied.extend(_fork(item, memo) for item in value)
    return copied


def _mapping(value: Any, memo: Memo) -> Any:
    copied = value.copy()
    if not _flat(value.values()):
        memo[id(value)] = copied
        for key, item in value.items():
            copied[key] = _fork(item, memo)
    return copied


def _array(value: Any, memo: Memo) -> Any:  # noqa: ARG001
    return value[:]


def _numpy(value: Any, memo: Memo) -> Any:  # noqa: ARG001
    return value.copy() if value.flags.writeable else value


def _object(kind: type) -> Callable[[Any, Memo], Any]:
    slots = [name for of in kind.__mro__ for name in of.__dict__.get("__slots__", ())]

    def copied(value: Any, memo: Memo) -> Any:
        new: Any = object.__new__(kind)
        memo[id(value)] = new
        if kind.__dictoffset__:
            new.__dict__ = {
                name: item if type(item) in _SHARED else _fork(item, memo)
                for name, item in value.__dict__.items()
            }
        for name in slots:
            item = getattr(value, name)
            setattr(new, name, item if type(item) in _SHARED else _fork(item, memo))
        return new

    return copied


_HOW: dict[type, Callable[[Any, Memo], Any]] = {
    list: _container,
    deque: _container,
    set: lambda value, memo: value.copy() if _flat(value) else {_fork(item, memo) for item in value},
    dict: _mapping,
    bytearray: _array,
    array: _array,
    np.ndarray: _numpy,
}
