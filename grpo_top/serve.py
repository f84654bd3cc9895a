"""The verb `serve`: on which address, with which token, and until when."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import tempfile
from typing import TYPE_CHECKING, Any

from grpo_top.leaving import told
from grpo_top.server import Guard
from grpo_top.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from grpo_top.service import Make

TOKEN_VARIABLE = "GRPO_TOP_TOKEN"  # noqa: S105  the variable's name
SHORTEST_TOKEN = 16
LOOPBACK = "127.0.0.1"
PORT = 8722


class CannotServe(Exception):
    """Why, in one line that holds no token."""


def token_from(file: Path | None, environ: Mapping[str, str]) -> bytes | None:
    """The token that is asked for: of the file, else of the environment; None where there is neither."""
    if file is not None:
        try:
            token = file.expanduser().read_bytes().strip()
        except OSError as error:
            raise CannotServe(f"--token-file {file}: {error.strerror or error}") from error
        where = str(file)
    elif TOKEN_VARIABLE in environ:
        token, where = environ[TOKEN_VARIABLE].strip().encode(), TOKEN_VARIABLE
    else:
        return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or any(byte <= 0x20 for byte in token):
        raise CannotServe(
            f"{where}: a token is {SHORTEST_TOKEN} or more ASCII characters without spaces, "
            "such as `openssl rand -hex 32` gives"
        )
    return token


def guard_for(host: str, token: bytes | None) -> Guard:
    """Who may ask a server on that address. CannotServe where others could reach it and no token is set."""
    if is_loopback(host):
        return Guard(frozenset({LOOPBACK, "::1", "localhost", host.lower()}), token)
    if token is None:
        raise CannotServe(
            f"{host} is not loopback: others could read this run. Set a token (--token-file FILE or "
            f"{TOKEN_VARIABLE}), or stay on {LOOPBACK} and come through an SSH tunnel"
        )
    return Guard(frozenset(), token)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address, whatever name it is given by."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotServe(f"{host}: no such host") from error
    return all(ipaddress.ip_address(address[4][0]).is_loopback for address in found)


def url_of(host: str, port: int) -> str:
    """Where a server on that address is asked for."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    make: Make,
    say: Callable[[str], None],
    *,
    host: str = LOOPBACK,
    port: int = PORT,
    token_file: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> bool:
    """Serve a run until SIGINT or SIGTERM; whether it was the former. `say` gets the URL. Raises CannotServe.

    `settings`: those in force, see `config.as_table`.
    """
    guard = guard_for(host, token_from(token_file, os.environ))
    return asyncio.run(_serve(lambda: Service(make, guard, settings=settings), say, host, port))


async def _serve(
    open_service: Callable[[], Service], say: Callable[[str], None], host: str, port: int
) -> bool:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[bool] = loop.create_future()

    def end(interrupted: bool) -> None:
        if not ended.done():
            ended.set_result(interrupted)

    with told(lambda number: loop.call_soon_threadsafe(end, number == signal.SIGINT)):
        return await _served(open_service(), say, host, port, ended)


async def _served(
    service: Service, say: Callable[[str], None], host: str, port: int, ended: asyncio.Future[bool]
) -> bool:
    service.require_there()
    failure = asyncio.ensure_future(service.failed())
    try:
        try:
            port = await service.start(host, port)
        except OSError as error:
            raise CannotServe(_cannot_listen(error, host, port)) from error
        say(url_of(host, port))
        await asyncio.wait((ended, failure), return_when=asyncio.FIRST_COMPLETED)
        if failure.done():
            why = failure.result()
            if not isinstance(why, OSError):
                raise why
            raise CannotServe(f"its records cannot be kept in {tempfile.gettempdir()}: {why.strerror or why}")
        return ended.result()
    finally:
        failure.cancel()
        await service.close()


def _cannot_listen(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use: give another with --port, or 0 for any that is free"
    return f"{url_of(host, port)} cannot be listened on: {os.strerror(error.errno) if error.errno else error}"
