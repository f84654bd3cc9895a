"""Reads parts of a file at once, whatever it is packed with: its head to sniff it, a record to show it again."""

from __future__ import annotations

import gzip
import importlib
import os
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from pathlib import Path


def read_head(path: Path, size: int) -> bytes:
    """The first `size` bytes, decompressed; empty where the file is empty, unreadable, or cut too early."""
    try:
        if not is_packed(path):
            return read_range(path, 0, size)
        with opened(path) as stream:
            return stream.read(size)
    except (OSError, EOFError, ValueError):
        return b""


def read_range(path: Path, offset: int, length: int) -> bytes:
    """`length` bytes from `offset` of the decompressed stream. OSError where the file cannot be read so far."""
    if not is_packed(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)
    with opened(path) as stream:
        stream.seek(offset)
        return stream.read(length)


def read_whole(path: Path) -> bytes:
    """The whole file, decompressed."""
    with opened(path) as stream:
        return stream.read()


def is_packed(path: Path) -> bool:
    """Whether a file can only be read from its beginning on."""
    return path.suffix in (".gz", ".zst")


def opened(path: Path) -> BinaryIO:
    """The decompressed stream of a file."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".zst":
        try:
            zstandard = importlib.import_module("zstandard")
        except ImportError as error:
            raise OSError("zstd logs need the extra: pip install 'grpo-top[zstd]'") from error
        return cast(BinaryIO, zstandard.open(path, "rb"))
    return path.open("rb")
