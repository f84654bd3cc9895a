"""Bytes to plain values, as trainers write them: bare NaN, endless integers, broken characters."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

_PREFIX = b"\xef\xbb\xbf\x00"
"""A byte order mark, and the NULs that some file systems leave after a crash."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WRAPPED = re.compile(r"^(?:np|numpy|torch|jnp)?\.?\w+\((?P<inner>[^(),]*)(?:,.*)?\)$")
"""`np.float64(0.41)`, `tensor(0.5, device='cuda:0')`: how arrays' scalars print themselves."""
LARGEST = 2**63
"""Integers from here on are taken for unknown: no column could hold them."""
_LONGEST_LITERAL = 10_000
_WORDS = {"None": None, "null": None, "True": True, "true": True, "False": False, "false": False}
_BETWEEN = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")
_DIGITS_LIMIT = 4000
"""Python refuses longer integers; they are past any float as well."""


def bare(line: bytes) -> bytes:
    """The line without what is no part of it: byte order mark, NULs, white space, carriage return."""
    return line.strip().lstrip(_PREFIX).strip()


def parse(line: bytes) -> Any:
    """The JSON value on a line.

    Accepts what strict JSON refuses and trainers write: NaN, Infinity, integers of any length, lone
    surrogates and bytes that are no UTF-8 (both become replacement characters). Raises ValueError with a
    short reason.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _parse_tolerantly(line)


def _parse_tolerantly(line: bytes) -> Any:
    text = bare(line).decode("utf-8", "replace")
    if not text:
        raise ValueError("empty line")
    try:
        value = json.loads(text, parse_int=_integer_of_any_length)
        return _without_surrogates(value) if _SURROGATE.search(text) else value
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg.lower()} at character {error.pos}") from None


def _integer_of_any_length(digits: str) -> float:
    return int(digits) if len(digits) < _DIGITS_LIMIT else float(digits)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def parse_record(line: bytes) -> dict[str, Any]:
    """The JSON object on a line; ValueError where there is something else."""
    return as_record(parse(line))


def as_record(value: Any) -> dict[str, Any]:
    """A JSON value that is an object; ValueError where it is something else."""
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object but a {type(value).__name__}")
    return value


def number(value: Any) -> float | None:
    """The number that a value stands for, else None: unknown.

    Numbers, and strings that spell one (`"0.4062"`, `"np.float64(0.41)"`, `"NaN"`, `"-inf"`). True and False
    count as 1 and 0: trainers log flags among their numbers. What is not finite stays `nan` or `inf`.
    """
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return _spelled_number(value) if isinstance(value, str) else None


def _spelled_number(text: str) -> float | None:
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        wrapped = _WRAPPED.match(text.strip())
        return _spelled_number(wrapped["inner"]) if wrapped else None


def integer(value: Any) -> int | None:
    """The whole number that a value stands for; None for a flag, a fraction, or what 64 bits cannot hold."""
    if isinstance(value, bool):
        return None
    if not isinstance(value, int):
        as_number = number(value)
        if as_number is None or not as_number.is_integer():
            return None
        value = int(as_number)
    return value if -LARGEST <= value < LARGEST else None


def text(value: Any) -> str | None:
    """A string, or a number that names something (a group, an engine) as a string; else None."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def written(value: Any) -> str | None:
    """Any value as text, structures as JSON; None and what is empty as None."""
    if value is None or value is False or value in ("", [], {}):
        return None
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def literal(spelled: str) -> Any:
    """The value that a text spells as Python would (`"0.04"`, `"None"`, `"{'of': 'reward'}"`), else the text itself."""
    spelled = spelled.strip()
    if spelled in _WORDS:
        return _WORDS[spelled]
    if spelled[:1] in ("{", "[", "(") and len(spelled) <= _LONGEST_LITERAL:
        value = python_value(spelled)
        return spelled if value is None else value
    for kind in (int, float):
        try:
            return kind(spelled)
        except ValueError:
            continue
    return spelled


def python_value(written_: str) -> Any:
    """The value of a Python literal; None where there is something else, or too much of it."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes that are none
            return ast.literal_eval(written_)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def timestamp(value: Any) -> float | None:
    """Seconds since the epoch, from a number or an ISO 8601 date; a date without a zone is local time."""
    seconds = number(value)
    if seconds is not None:
        return seconds if math.isfinite(seconds) else None
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def numbers(values: Any) -> dict[str, float | None]:
    """The entries of a mapping that are numbers or null, under their own names; empty for anything else."""
    if not isinstance(values, dict):
        return {}
    found: dict[str, float | None] = {}
    for key, value in values.items():
        if type(value) is float or value is None:
            found[key] = value
        elif (as_number := number(value)) is not None:
            found[key] = as_number
    return found


@lru_cache(maxsize=8)
def head_records(head: bytes, limit: int = 5) -> tuple[dict[str, Any], ...]:
    """The first JSON objects of a file that has one a line, for sniffing.

    `head` may end in the middle of a line. A first object that is longer than `head` is given as far as the
    bytes go: a key whose value is cut has None. Kept for the last few heads, since every format asks the same.
    """
    found: list[dict[str, Any]] = []
    for raw in head.split(b"\n", 64)[:64]:
        line = bare(raw)
        if not line.startswith(b"{"):
            continue
        try:
            found.append(parse_record(line))
        except ValueError:
            if not found and (start := first_fields(line.decode("utf-8", "replace"))):
                found.append(start)
        if len(found) == limit:
            break
    return tuple(found)


def first_fields(text: str) -> dict[str, Any]:
    """The fields of a JSON object whose end may be missing; a key whose value is cut has None."""
    decoder = json.JSONDecoder()
    found: dict[str, Any] = {}
    position = 1
    while True:
        position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
        try:
            key, position = decoder.raw_decode(text, position)
            if not isinstance(key, str):
                return found
            found[key] = None
            position = _COLON.match(text, position).end()  # type: ignore[union-attr]
            found[key], position = decoder.raw_decode(text, position)
        except (ValueError, AttributeError, RecursionError):
            return found
