"""A real HTTP server on loopback whose answers, and faults, a test decides; and how to wait for what it does."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


@dataclass
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    """With its query."""
    headers: dict[str, str]
    body: bytes

    @property
    def route(self) -> str:
        return self.path.partition("?")[0]


@dataclass
class Says:
    """One answer. `declared`: the length that is announced, where it is not the body's own."""

    body: bytes | str | dict | list = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    declared: int | None = None
    pieces: Iterator[bytes] | None = None
    """In place of a body: what is sent piece by piece, until the connection is closed."""

    @property
    def bytes(self) -> bytes:
        if isinstance(self.body, dict | list):
            return json.dumps(self.body).encode()
        return self.body.encode() if isinstance(self.body, str) else self.body


Answering = Says | Callable[[Asked], Says]


class Loopback:
    """Routes → answers; `asked` holds what came. Change `routes` at any time."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.routes: dict[str, Answering] = {}
        self.asked: list[Asked] = []
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._scheme = "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def hang(self, asked: Asked) -> Says:
        """An answer that does not come."""
        self.closing.wait(20)
        return Says()

    def drip(self, asked: Asked) -> Says:
        """An answer that comes a byte at a time and does not end."""

        def pieces() -> Iterator[bytes]:
            while not self.closing.wait(0.01):
                yield b"x"

        return Says(pieces=pieces())

    def paths(self) -> list[str]:
        return [asked.route for asked in self.asked]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(2)


@contextlib.contextmanager
def loopback(**routes: Answering) -> Iterator[Loopback]:
    """A server for as long as the block lasts."""
    server = Loopback()
    server.routes.update(routes)
    try:
        yield server
    finally:
        server.close()


def until(holds: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait for something to hold."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.005)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what some tests are about."""


def _handler(server: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20
        disable_nagle_algorithm = True  # else a small answer waits 40 ms for the one before it

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *args: object) -> None:
            pass

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(
                self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, body
            )
            server.asked.append(asked)
            answering = server.routes.get(asked.route, Says("not here", 404))
            says = answering(asked) if callable(answering) else answering
            with contextlib.suppress(ConnectionError, OSError):
                self._send(says)

        def _send(self, says: Says) -> None:
            body = says.bytes
            self.send_response(says.status)
            for name, value in says.headers.items():
                self.send_header(name, value)
            if says.pieces is not None or says.declared is not None:
                self.send_header("Connection", "close")
                self.close_connection = True
            if says.pieces is None:
                self.send_header("Content-Length", str(len(body) if says.declared is None else says.declared))
            self.end_headers()
            for piece in says.pieces if says.pieces is not None else [body]:
                self.wfile.write(piece)

    return Handler
