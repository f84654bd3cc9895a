"""Writes what trackers write, byte by byte, for tests of what their real files do not happen to hold."""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

from grpo_top.formats.framed import masked_crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Value = str | bytes | int | float


def field(number: int, value: Value) -> bytes:
    """One field of a protocol buffer: a text, a message, an integer or a double."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def single(number: int, value: float) -> bytes:
    """A field of four bytes."""
    return varint(number << 3 | 5) + struct.pack("<f", value)


def varint(value: int) -> bytes:
    """An integer of a protocol buffer."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def tf_record(data: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    checksums = (struct.pack("<I", masked_crc32c(part)) for part in (length, data))
    return length + next(checksums) + data + next(checksums)


def event(step: int, *values: bytes, time: float = 1.5) -> bytes:
    """A framed TensorBoard event that holds these values."""
    return tf_record(
        field(1, time) + field(2, step) + field(5, b"".join(field(1, value) for value in values))
    )


def scalar(tag: str, value: float) -> bytes:
    """A value as `add_scalar` writes it."""
    return field(1, tag) + single(2, value)


def text(tag: str, content: str) -> bytes:
    """A value as `add_text` writes it."""
    return field(1, f"{tag}/text_summary") + field(8, field(1, 7) + field(8, content))


VERSION = tf_record(field(1, 1.0) + field(3, "brain.Event:2"))
"""The first event of every file."""


def leveldb_log(header: bytes, records: Iterable[bytes], block: int = 32 << 10) -> bytes:
    """A LevelDB log of these records behind a header of seven bytes."""
    found = bytearray(header)
    for record in records:
        begun = False
        rest = record
        while rest or not begun:
            left = block - len(found) % block
            if left < 7:
                found += bytes(left)
                continue
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = (4 if not rest else 3) if begun else (1 if not rest else 2)
            begun = True
            checksum = zlib.crc32(part, zlib.crc32(bytes([kind])))
            found += struct.pack("<IHB", checksum, len(part), kind) + part
    return bytes(found)


WANDB_HEADER = b":W&B\xe1\xbe\x00"


def items(values: Mapping[str, Any], nested: bool = True) -> bytes:
    """Items of a W&B history or config; values as JSON, where NaN is bare."""
    return b"".join(
        field(1, field(2 if nested else 1, key) + field(16, json.dumps(value)))
        for key, value in values.items()
    )


def wandb_run(id_: str = "abc", name: str = "", config: Mapping[str, Any] | None = None) -> bytes:
    """A W&B run record."""
    return field(17, field(1, id_) + field(4, items(config or {}, nested=False)) + field(8, name))


def wandb_row(step: int, values: Mapping[str, Any]) -> bytes:
    """A W&B history record."""
    return field(2, items({**values, "_step": step}) + field(2, field(1, step)))


WANDB_EXIT = field(18, field(1, 0))
