"""Ways to spoil what trainers write: bytes, lines and JSON values, as disks, crashes and models spoil them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

STRANGE_TOKENS = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1" + b"0" * 400,
    b"null",
    b"true",
    b'"\\ud800"',
    b'"\\u202e\\u0007"',
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf",
    b"\x00" * 64,
    b"\r",
    b"\r\n",
    b"\n",
    b"{",
    b"]",
    b'"',
    b"[" * 3000,
    b"{'step': np.float64(1.0)}",
    b"\x1b]0;title\x07\x1b[2J",
    b'"step": 9223372036854775808,',
    b'"reward": "nan",',
)
STRANGE_VALUES: tuple[Any, ...] = (
    None,
    True,
    "",
    "NaN",
    "١٢",
    "\u202e\x1b[31m",
    -1,
    2**53 + 1,
    1.7e308,
    -0.0,
    [],
    {},
    [[[]]],
    {"": {"": None}},
    ["a", 1, None],
    "x" * 5000,
)


def spoil(data: bytes, chance: random.Random) -> bytes:
    """The bytes after one to three accidents."""
    for _ in range(chance.randint(1, 3)):
        data = chance.choice(_WAYS)(data, chance)
    return data


def _flip(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def _drop(data: bytes, chance: random.Random) -> bytes:
    begin, end = _span(data, chance)
    return data[:begin] + data[end:]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    begin, end = _span(data, chance)
    return data[:end] + data[begin:end] + data[end:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice(STRANGE_TOKENS) + data[at:]


def _swap_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


def _change_value(data: bytes, chance: random.Random) -> bytes:
    """One JSON value in one line becomes another."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    try:
        value = orjson.loads(lines[at])
    except ValueError:
        return _insert(data, chance)
    lines[at] = orjson.dumps(_changed(value, chance))
    return b"\n".join(lines)


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.15:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: _changed(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.6:
        at = chance.randrange(len(value))
        return [*value[:at], _changed(value[at], chance), *value[at + 1 :]]
    return chance.choice(STRANGE_VALUES)


def _span(data: bytes, chance: random.Random) -> tuple[int, int]:
    begin = chance.randint(0, len(data))
    return begin, min(len(data), begin + chance.choice((1, 7, 100, 5000)))


_WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _drop,
    _repeat,
    _insert,
    _swap_lines,
    _change_value,
    _change_value,
    _change_value,
)
