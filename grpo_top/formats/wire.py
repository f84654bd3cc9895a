"""The wire format of protocol buffers: numbered fields, without the names that a schema would give them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_double, _float = struct.Struct("<d").unpack, struct.Struct("<f").unpack


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field in order: an integer, else the bytes of a text, a message or a float.

    A field may come several times. Raises ValueError where the bytes are no message.
    """
    position, end = 0, len(message)
    while position < end:
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if kind == _BYTES:
            length, position = _varint(message, position)
        elif kind == _FIXED32:
            length = 4
        elif kind == _FIXED64:
            length = 8
        else:
            raise ValueError(f"message with a field of unknown kind {kind}")
        if position + length > end:
            raise ValueError("message with a field that is cut short")
        yield number, message[position : position + length]
        position += length


def texts(message: bytes) -> dict[int, str]:
    """The fields that are bytes, read as text, by number; the last one of each."""
    return {
        number: value.decode("utf-8", "replace") for number, value in fields(message) if type(value) is bytes
    }


def numbers(message: bytes) -> dict[int, int]:
    """The fields that are integers by number; the last one of each."""
    return {number: value for number, value in fields(message) if type(value) is int}


def messages(message: bytes, wanted: int) -> Iterator[bytes]:
    """The messages in the field of that number, in order."""
    return (value for number, value in fields(message) if number == wanted and type(value) is bytes)


def signed(value: int) -> int:
    """The integer of a field that may be negative (int32, int64)."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: int | bytes) -> float:
    """The number of a field of kind double or float; ValueError for any other."""
    if type(value) is bytes and len(value) in (4, 8):
        return float((_double if len(value) == 8 else _float)(value)[0])
    raise ValueError("message with a number that is none")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """The integer at a position, and the position behind it."""
    try:
        byte = message[position]
        if byte < 0x80:
            return byte, position + 1
        value, shift = byte & 0x7F, 7
        while True:
            position += 1
            byte = message[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position + 1
            shift += 7
            if shift > 63:
                raise ValueError("message with an endless integer")
    except IndexError:
        raise ValueError("message with an integer that is cut short") from None
