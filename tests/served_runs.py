"""A run that is served on loopback, as `grpo-top serve` does, and what asks it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.config import Settings, as_table
from grpo_top.server import DEFAULT, Guard, Limits
from grpo_top.service import Service
from grpo_top.sources.http import Network
from grpo_top.spool import LIMIT
from grpo_top.spooled_run import SpooledRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOPBACK = Guard(frozenset({"127.0.0.1", "localhost"}))


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]


class Served:
    """A service on a thread of its own."""

    def __init__(
        self, where: Path | str, guard: Guard, limits: Limits, port: int, settings: Settings, spool: int
    ) -> None:
        self.port = port
        self._spool = spool
        self._where, self._guard, self._limits, self._settings = where, guard, limits, settings
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, target: str, **headers: str) -> Answer:
        return exchange(self.port, request(target, **headers))

    def log(self, target: str = "/") -> str:
        found: str = self.get(target).json["log"]
        return found

    def records(self, log: str, at_least: int = 2) -> list[dict[str, Any]]:
        """The lines of a log until all that is there has come, without the last ones about how things stand."""
        found: list[dict[str, Any]] = []
        offset = since = 0
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            *lines, beat = self.get(f"/records?log={log}&offset={offset}&since={since}&wait=1").lines
            assert beat["kind"] == "beat"
            found += lines
            offset, since = beat["offset"], beat["revision"]
            if offset == beat["size"] and (beat["ended"] or (not lines and len(found) >= at_least)):
                return found
        raise AssertionError(f"only these lines came: {[line.get('kind') for line in found]}")

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)
        assert not self._thread.is_alive()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        service = Service(
            lambda live: SpooledRun([str(self._where)], network=Network, limit=self._spool),
            self._guard,
            self._limits,
            wait=0.1,
            settings=as_table(self._settings),
        )
        self.port = await service.start("127.0.0.1", self.port)
        self._ready.set()
        await self._stop.wait()
        await service.close()


@contextlib.contextmanager
def served(
    where: Path | str,
    guard: Guard = LOOPBACK,
    limits: Limits = DEFAULT,
    port: int = 0,
    settings: Settings | None = None,
    spool: int = LIMIT,
) -> Iterator[Served]:
    """A service for as long as the block lasts."""
    service = Served(where, guard, limits, port, settings or Settings(), spool)
    try:
        yield service
    finally:
        service.close()


def request(target: str, method: str = "GET", **headers: str) -> bytes:
    sent = {"host": "127.0.0.1:80", **headers}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name.replace('_', '-')}: {of}" for name, of in sent.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def exchange(port: int, sent: bytes) -> Answer:
    """Send these bytes, and read one answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        with contextlib.suppress(ConnectionError):  # it may answer, and close, before it has read all of it
            connection.sendall(sent)
        return answer_of(connection)


def answer_of(connection: socket.socket) -> Answer:
    """The next answer on a connection; status 0 where it is closed without one."""
    with connection.makefile("rb") as stream:
        try:
            first = stream.readline()
            if not first:
                return Answer(0, {}, b"")
            headers = dict(iter(lambda: _header(stream.readline()), ("", "")))
            body = stream.read(int(headers.get("content-length", 0)))
        except ConnectionError:
            return Answer(0, {}, b"")
    return Answer(int(first.split()[1]), headers, body)


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("latin-1").strip().partition(":")
    return name.lower(), value.strip()
