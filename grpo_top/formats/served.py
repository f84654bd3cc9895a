"""A run's log behind a URL: a file that is followed with Range requests, or a JSON value that is asked for anew."""

from __future__ import annotations

import re
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from grpo_top.formats.decode import number, parse
from grpo_top.formats.endpoint import Kind, Watcher
from grpo_top.formats.plain import PlainReader
from grpo_top.formats.registry import choose
from grpo_top.records import NOWHERE, Skipped
from grpo_top.sources.feed import NoAnswer
from grpo_top.sources.splitter import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.formats.base import Claim, Format, Reader, RunContext
    from grpo_top.formats.endpoint import Give
    from grpo_top.records import Location, Record, Rollout
    from grpo_top.sources.client import Answer, Client

PIECE_BYTES = 1 << 18
OVERLAP = 64
"""Bytes before the place that was reached that are asked for again: they show whether it is the same file still."""
LONGEST_LINE = 16 << 20
STANDS_STILL_SECONDS = 5.0
WITHOUT_RANGES_SECONDS = 5.0
"""Between two looks at a log of which all is sent each time."""
JSON = "application/json"
_FED = frozenset({"lines", "bytes", "whole"})
_CONTENT_RANGE = re.compile(r"bytes (?:\d+-\d+|\*)/(?P<total>\d+)")
PARTIAL, NOT_MODIFIED, PAST_THE_END = 206, 304, 416
_AS_IT_IS = {"Accept-Encoding": "identity"}


class ServedLog(Kind):
    """A file of any format that the registry knows."""

    name: ClassVar[str] = "log"

    def __init__(self, only: str | None = None) -> None:
        self._only = only

    def claim(self, answer: Answer) -> int:
        """As sure as the file's own format."""
        found = self._chosen(answer)
        return 0 if found is None else min(80, found[1].confidence)

    def watcher(self, answer: Answer, context: RunContext) -> Watcher:
        """One that follows the file."""
        found = self._chosen(answer)
        if found is None:
            raise NoAnswer("it answers something else by now")
        return LogWatcher(_path(answer.url), *found, context)

    def _chosen(self, answer: Answer) -> tuple[Format, Claim] | None:
        found = choose(_path(answer.url), answer.body, self._only) if answer.body else None
        return found if found is not None and found[1].feed in _FED else None


class LogWatcher(Watcher):
    """Follows a file that grows, by Range requests where the server has them, else by asking for all of it."""

    every = 1.0

    def __init__(self, path: PurePosixPath, format_: Format, claim: Claim, context: RunContext) -> None:
        self.name = format_.name
        self.role = claim.role
        self._path, self._format, self._claim, self._context = path, format_, claim, context
        self._conditions: dict[str, str] = {}
        self._anew = False
        """Whether what comes next is from the beginning of another file."""
        self._quiet_since = 0.0
        """Since when nothing came; 0 where nothing has come since the reader was told of it."""
        self._begin()

    async def turn(self, client: Client, give: Give) -> None:
        """Read on to the end that the file has now."""
        if self._claim.feed == "whole":
            return await self._whole(client, give)
        while (data := await self._next(client)) is not None:
            anew = self._anew
            self._anew = False
            if not data and not anew:
                break
            await give(self._read(data), anew)
        if self._quiet_since and time.monotonic() - self._quiet_since > STANDS_STILL_SECONDS:
            self._quiet_since = 0.0
            await give(self._reader.idle())
        return None

    def end(self) -> list[Record]:
        """The last line, which no newline ends, and what the reader still holds."""
        last = self._splitter.finish()
        return [*(self._reader.feed(last) if last is not None else []), *self._reader.end()]

    async def find(self, client: Client, location: Location) -> Rollout | None:
        """Ask for the bytes of its line alone."""
        offset, length = location.offset, location.length
        if not length:
            return self._reader.replay((await client.get(headers=_AS_IT_IS)).required().body, location)
        asked = {"Range": f"bytes={offset}-{offset + length - 1}", **_AS_IT_IS}
        answer = (await client.get(headers=asked)).required()
        data = answer.body if answer.status == PARTIAL else answer.body[offset : offset + length]
        return self._reader.replay(data, location)

    def _begin(self) -> None:
        self._reader: Reader = self._format.reader(self._path, self._claim, self._context)
        self._splitter = LineSplitter(LONGEST_LINE)
        self._offset = 0
        self._tail = b""
        """The last bytes before the offset; of a file that is read whole, all of it."""

    async def _next(self, client: Client) -> bytes | None:
        """The bytes after those that were read; None where there is nothing new."""
        start = self._offset - len(self._tail)
        asked = {"Range": f"bytes={start}-{start + PIECE_BYTES - 1}", **_AS_IT_IS, **self._conditions}
        answer = await client.get(headers=asked)
        if answer.status == NOT_MODIFIED:
            return None
        if answer.status == PAST_THE_END:
            return self._again() if _total(answer) != start else None
        answer.required()
        if answer.status == PARTIAL:
            data = answer.body
        else:
            self.note = "the server has no Range requests: all of it is sent each time"
            self.every = WITHOUT_RANGES_SECONDS
            self._conditions = _validators(answer)
            data = answer.body[start:]
        if data[: len(self._tail)] != self._tail:
            return self._again()
        return data[len(self._tail) :] or None

    def _again(self) -> bytes:
        self._begin()
        self._anew = True
        self._conditions = {}
        return b""

    def _read(self, data: bytes) -> list[Record]:
        offset = self._offset
        self._offset += len(data)
        self._tail = (self._tail + data)[-OVERLAP:]
        if data:
            self._quiet_since = time.monotonic()
        if self._claim.feed == "bytes":
            return self._reader.feed_bytes(offset, data)
        self._splitter.feed(data)
        records: list[Record] = []
        while (lines := self._splitter.take()) is not None:
            records += self._reader.feed(lines)
        records += [
            Skipped(f"line of {long.length:,} bytes, longer than is read", long.offset, long.number)
            for long in self._splitter.take_long()
        ]
        return records

    async def _whole(self, client: Client, give: Give) -> None:
        answer = (await client.get()).required()
        if answer.unchanged or answer.body == self._tail:
            return
        again, self._tail = bool(self._tail), answer.body
        self._reader = self._format.reader(self._path, self._claim, self._context)
        await give(self._reader.whole(answer.body), again)


class ServedJson(Kind):
    """A JSON object of metrics, or a list of them."""

    name: ClassVar[str] = "json"

    def claim(self, answer: Answer) -> int:
        """By what a row of metrics must have: a number."""
        if answer.cut:
            return 0
        try:
            found = rows_of(parse(answer.body))
        except ValueError:
            return 0
        if not found or not any(number(value) is not None for value in found[0].values()):
            return 0
        # A log that holds one line so far ends with a newline, as a value that is made for each request seldom does.
        is_value = answer.media_type == JSON or not answer.body.endswith(b"\n")
        return 45 if is_value else 25

    def watcher(self, answer: Answer, context: RunContext) -> Watcher:  # noqa: ARG002
        """One that asks for it again and again."""
        return JsonWatcher(context)


class JsonWatcher(Watcher):
    """Reads the rows that are new or others than before."""

    name = "jsonl"
    every = 2.0

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._reader = PlainReader(context)
        self._seen: set[int] = set()
        self._counted = 0

    async def look(self, client: Client) -> list[Record]:
        """The rows of one answer that were not there before."""
        answer = (await client.get()).required()
        if answer.unchanged:
            return []
        try:
            rows = rows_of(parse(answer.body))
        except ValueError as error:
            raise NoAnswer(f"an answer that is {error}") from error
        records: list[Record] = []
        for row in rows:
            key = hash(repr(sorted(row.items(), key=lambda item: item[0])))
            if key not in self._seen:
                self._seen.add(key)
                records += self._records(row)
        return records

    def _records(self, row: Mapping[str, Any]) -> list[Record]:
        try:
            return list(self._reader.records(dict(row), NOWHERE))
        except ValueError as error:
            if self._context.framework is not None:
                return [Skipped(str(error), 0)]
        self.note = "nothing says the step: its rows are counted"
        self._counted += 1
        try:
            return list(self._reader.records({**row, "step": self._counted}, NOWHERE))
        except ValueError as error:
            return [Skipped(str(error), 0)]


def rows_of(value: object) -> list[dict[str, Any]]:
    """A JSON value as rows of metrics: an object, a list of them, or a list of `{"name": …, "value": …}`."""
    if isinstance(value, dict):
        inner = value.get("metrics")
        if isinstance(inner, dict):
            return [{**{key: of for key, of in value.items() if key != "metrics"}, **inner}]
        return rows_of(inner) if isinstance(inner, list) else [value]
    if not isinstance(value, list):
        return []
    rows = [row for item in value if isinstance(item, dict) for row in rows_of(item)]
    if rows and all("name" in row and "value" in row for row in rows):
        return [{str(row["name"]): row["value"] for row in rows}]
    return rows


def _path(url: str) -> PurePosixPath:
    return PurePosixPath(unquote(urlsplit(url).path).lstrip("/") or "log")


def _total(answer: Answer) -> int | None:
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
    return int(found["total"]) if found else None


def _validators(answer: Answer) -> dict[str, str]:
    names = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
    return {asked: answer.headers[name] for name, asked in names.items() if name in answer.headers}
