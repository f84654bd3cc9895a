"""From a compressed byte stream that may still be growing to plain bytes, a bounded piece at a time."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import PurePath

ZSTD_MISSING = "zstd logs need the extra: pip install 'grpo-top[zstd]'"
SOME_BYTES, MOST_FOLD = 16 << 20, 500
"""A stream that gives more than so many bytes, and more than so many for each stored one, is no log: it has no end."""
_ZSTD_WINDOW = 1 << 27
"""Largest window that is accepted, in bytes: the zstd tool's own default limit."""


class DecodingError(ValueError):
    """The stream is damaged, or cannot be decoded here; the message is one line for the user."""


class Decoder(Protocol):
    """Turns stored bytes into plain ones."""

    def feed(self, data: bytes) -> None:
        """Takes the next stored bytes."""

    def take(self, limit: int) -> bytes:
        """Up to `limit` plain bytes; empty where more stored bytes are needed. Raises `DecodingError`."""

    @property
    def pending(self) -> int:
        """Stored bytes that were fed and not decoded yet; at least 1 while plain ones may be held back."""

    @property
    def cut(self) -> bool:
        """Whether the stream would be incomplete if it ended here."""


def decoder_for(path: PurePath) -> Decoder | None:
    """The decoder that a file's suffix asks for; None for plain files."""
    suffix = path.suffix.lower()
    decoder: Decoder | None = (
        GzipDecoder() if suffix == ".gz" else ZstdDecoder() if suffix == ".zst" else None
    )
    return None if decoder is None else _Limited(decoder)


class _Limited:
    """A decoder that gives up where plain bytes have no end."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._fed = self._given = 0

    def feed(self, data: bytes) -> None:
        """Takes the next stored bytes."""
        self._fed += len(data)
        self._decoder.feed(data)

    def take(self, limit: int) -> bytes:
        """Up to `limit` plain bytes; empty where more stored bytes are needed."""
        data = self._decoder.take(limit)
        self._given += len(data)
        if self._given > SOME_BYTES and self._given > MOST_FOLD * (self._fed - self._decoder.pending):
            raise DecodingError(f"more than {MOST_FOLD} plain bytes for a stored one; not read any further")
        return data

    @property
    def pending(self) -> int:
        """Stored bytes not decoded yet; at least 1 while plain ones may be held back."""
        return self._decoder.pending

    @property
    def cut(self) -> bool:
        """Whether the stream would be incomplete if it ended here."""
        return self._decoder.cut


class GzipDecoder:
    """Any number of gzip members one after another (RFC 1952), with or without NUL padding behind them."""

    def __init__(self) -> None:
        self._input = b""
        self._start_member()

    def _start_member(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._begun = False
        self._more = False

    def feed(self, data: bytes) -> None:
        """Takes the next stored bytes."""
        self._input += data

    def take(self, limit: int) -> bytes:
        """Up to `limit` plain bytes; empty where more stored bytes are needed."""
        while True:
            if not self._begun:
                self._input = self._input.lstrip(b"\0")
                if not self._input:
                    return b""
            try:
                data = self._inflate.decompress(self._input, limit)
            except zlib.error as error:
                raise DecodingError(f"damaged gzip data ({error}); what was read before it stays") from error
            self._begun, self._more = True, bool(data)
            if not self._inflate.eof:
                self._input = self._inflate.unconsumed_tail
                return data
            self._input = self._inflate.unused_data
            self._start_member()
            if data:
                return data

    @property
    def pending(self) -> int:
        """Stored bytes not decoded yet; at least 1 while plain ones may be held back."""
        return max(len(self._input), self._more)

    @property
    def cut(self) -> bool:
        """Whether a member has begun and not ended."""
        return self._begun


class _Fed:
    """A source for zstandard's reader that says "not now" where it is empty: an empty read would end it."""

    def __init__(self) -> None:
        self.data = b""

    def read(self, size: int) -> bytes:
        if not self.data:
            raise BlockingIOError
        piece, self.data = self.data[:size], self.data[size:]
        return piece


class ZstdDecoder:
    """Any number of zstd frames one after another (RFC 8878); needs the extra `zstd`."""

    def __init__(self) -> None:
        try:
            import zstandard  # noqa: PLC0415  (an extra that may be missing)
        except ImportError as error:
            raise DecodingError(ZSTD_MISSING) from error
        self._error: type[Exception] = zstandard.ZstdError
        self._source = _Fed()
        self._more = False
        source: Any = self._source  # has the one method of a file that is called
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._reader = decompressor.stream_reader(source, read_across_frames=True)

    def feed(self, data: bytes) -> None:
        """Takes the next stored bytes."""
        self._source.data += data

    def take(self, limit: int) -> bytes:
        """Up to `limit` plain bytes; empty where more stored bytes are needed."""
        self._more = False
        try:
            # `read1` returns as soon as it has anything: nothing is lost when the source says "not now".
            data: bytes = self._reader.read1(limit)
        except BlockingIOError:
            return b""
        except self._error as error:
            raise DecodingError(f"damaged zstd data ({error}); what was read before it stays") from error
        self._more = bool(data)
        return data

    @property
    def pending(self) -> int:
        """Stored bytes not decoded yet; at least 1 while plain ones may be held back."""
        return max(len(self._source.data), self._more)

    @property
    def cut(self) -> bool:
        """Never said: the library does not tell whether a frame is open."""
        return False
