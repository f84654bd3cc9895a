"""A small HTTP server for a few trusted readers: it answers GET, and gives up early on whoever is slow, large or odd.

The protocol itself is h11's business. What is answered is decided by `Server.answer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import resource
import socket
import struct
import time
import zlib
from typing import TYPE_CHECKING, NamedTuple

import h11

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

MOST_CONNECTIONS = 128
LONGEST_HEAD = 16 << 10
"""Bytes of a request's line and headers."""
LONGEST_TARGET = 512
PIECE = 32 << 10
"""Bytes that are handed to a connection at once: what a slow reader can make us hold."""
READ_AT_ONCE = 4 << 10
"""Of a request: h11 looks at a head's length while it is not whole yet."""
BACKLOG = 1024
"""Connections that the system holds until we take them."""
WORTH_PACKING = 512


class Limits(NamedTuple):
    """Seconds of patience, and how many connections are held."""

    head: float = 15.0
    """Until a request has come whole, from the connection or from the answer before it."""
    piece: float = 15.0
    """Until a piece of an answer is taken."""
    connections: int = MOST_CONNECTIONS


DEFAULT = Limits()


class Reply(NamedTuple):
    """What is answered."""

    status: int
    body: bytes = b""
    kind: str = "application/json"


class Guard(NamedTuple):
    """Who may ask."""

    hosts: frozenset[str]
    """Names under which the server may be asked for; empty: any. A page in a browser that found out how to
    reach it by another name (DNS rebinding) is refused."""
    token: bytes | None = None

    def refusal(self, headers: Mapping[str, str]) -> Reply | None:
        """Why a request is not answered, from its headers by lower-case name."""
        if self.hosts and host_name(headers.get("host", "")) not in self.hosts:
            return error(403, "asked for under another name than its own")
        if "origin" in headers or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return error(403, "asked by a web page")
        if self.token is not None and not hmac.compare_digest(_bearer(headers), self.token):
            return error(401, "it wants a token: Authorization: Bearer TOKEN")
        return None


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[").lower()
    return host.partition(":")[0].lower()


def error(status: int, why: str) -> Reply:
    """An answer that is none; `why` holds nothing of the request."""
    return Reply(status, b'{"error":"%s"}\n' % why.encode())


class _Connection:
    """One connection as the server keeps it in mind."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.waiting_since: float | None = time.monotonic()
        """Since when it has owed us a request; None while one is answered."""

    def drop(self) -> None:
        """End it at once: what it has not taken yet is not kept for it, here or in the system's buffers."""
        at_once = struct.pack("ii", 1, 0)
        with contextlib.suppress(OSError):  # it is closed already
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.writer.transport.abort()


class Server:
    """Answers on one address until it is closed."""

    def __init__(
        self, answer: Callable[[bytes], Awaitable[Reply]], guard: Guard, limits: Limits = DEFAULT
    ) -> None:
        """`answer`: from a request's target, as it came, to what is said."""
        self._answer = answer
        self._guard = guard
        self._limits = limits._replace(connections=min(limits.connections, _descriptors() // 4))
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, chosen by the system where 0 is given. OSError where that cannot be."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=PIECE, backlog=BACKLOG)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._connections.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        if len(self._connections) >= self._limits.connections and not self._make_room():
            connection.drop()
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a callback of start_server is one
        self._connections[connection] = task
        writer.transport.set_write_buffer_limits(high=PIECE)
        try:
            await self._converse(reader, connection)
        except (OSError, TimeoutError, asyncio.CancelledError):
            connection.drop()  # it went away, or was too slow, or we end
        else:
            writer.close()
        finally:
            del self._connections[connection]

    def _make_room(self) -> bool:
        """Close the connection that has owed us a request for longest; whether there was one."""
        waiting = [one for one in self._connections if one.waiting_since is not None]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda one: one.waiting_since or 0.0)
        oldest.waiting_since = None
        oldest.drop()
        return True

    async def _converse(self, reader: asyncio.StreamReader, connection: _Connection) -> None:
        talk = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        while True:
            connection.waiting_since = time.monotonic()
            try:
                async with asyncio.timeout(self._limits.head):
                    request = await _request(talk, reader)
                if request is None:
                    return
                talk.next_event()  # its end, where it has no body
            except h11.RemoteProtocolError as odd:
                if talk.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                    reply = error(odd.error_status_hint, "no request that is understood")
                    await self._send(talk, connection, reply, {}, last=True)
                return
            connection.waiting_since = None
            headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
            refusal = self._refusal(request, headers)
            reply = refusal or await self._answer(request.target)
            await self._send(talk, connection, reply, headers, last=refusal is not None)
            if talk.our_state is not h11.DONE or talk.their_state is not h11.DONE:
                return
            talk.start_next_cycle()

    def _refusal(self, request: h11.Request, headers: Mapping[str, str]) -> Reply | None:
        if (refusal := self._guard.refusal(headers)) is not None:
            return refusal
        if request.method != b"GET":
            return error(405, "only GET is answered")
        if len(request.target) > LONGEST_TARGET:
            return error(414, "no such place")
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return error(413, "a request has no body here")
        if request.http_version not in {b"1.0", b"1.1"}:
            return error(505, "HTTP/1.1 is spoken here")
        return None

    async def _send(
        self,
        talk: h11.Connection,
        connection: _Connection,
        reply: Reply,
        headers: Mapping[str, str],
        *,
        last: bool,
    ) -> None:
        body = reply.body
        packed = "gzip" in headers.get("accept-encoding", "") and len(body) >= WORTH_PACKING
        if packed:
            body = await asyncio.to_thread(_gzip, body)
        start = h11.Response(
            status_code=reply.status, headers=_headers(reply, len(body), packed=packed, last=last)
        )
        writer = connection.writer
        writer.write(talk.send(start) or b"")
        for at in range(0, len(body), PIECE):
            writer.write(talk.send(h11.Data(data=body[at : at + PIECE])) or b"")
            async with asyncio.timeout(self._limits.piece):
                await writer.drain()
        writer.write(talk.send(h11.EndOfMessage()) or b"")
        async with asyncio.timeout(self._limits.piece):
            await writer.drain()


async def _request(talk: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """The next request, once its headers have come whole; None where the other side has ended."""
    while True:
        event = talk.next_event()
        if event is h11.NEED_DATA:
            talk.receive_data(await reader.read(READ_AT_ONCE))
        elif isinstance(event, h11.Request):
            return event
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            return None


def _headers(reply: Reply, length: int, *, packed: bool, last: bool) -> list[tuple[str, str]]:
    return [
        ("Content-Type", reply.kind),
        ("Content-Length", str(length)),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        *([("Content-Encoding", "gzip")] if packed else []),
        *([("Connection", "close")] if last else []),
        *([("WWW-Authenticate", "Bearer")] if reply.status == 401 else []),
        *([("Allow", "GET")] if reply.status == 405 else []),
    ]


def _bearer(headers: Mapping[str, str]) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else b""


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()


def _descriptors() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
