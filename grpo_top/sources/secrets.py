"""What is sent to an endpoint and shown nowhere: headers, and the user and password of a URL or of `.netrc`."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from grpo_top.sources.urls import Origin, is_url, origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VARIABLE = "GRPO_TOP_HEADERS"
"""Environment variable with one header a line, or `@FILE`."""


class Header(NamedTuple):
    """One header; its value is in no `repr`."""

    name: str
    value: str
    of: Origin | None
    """The only origin that gets it; None: every place that the user named."""

    def __repr__(self) -> str:
        return f"Header({self.name!r}, …)"


class Secrets:
    """The headers that each endpoint gets."""

    def __init__(self, headers: Sequence[Header] = (), netrc_file: Path | None = None) -> None:
        self._headers = tuple(headers)
        self._logins = _logins(netrc_file)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(header.name for header in self._headers)})"

    def headers(self, url: str, named: bool) -> dict[str, str]:
        """What goes to a URL. `named`: the user named the place; one found elsewhere gets only what names it."""
        of = origin(url)
        found: dict[str, str] = {}
        login = _login(url) or self._logins.get(of.host)
        if login is not None:
            found["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
        for header in self._headers:
            if header.of == of or (header.of is None and named):
                found[header.name] = header.value
        return found


def read_headers(lines: Iterable[str]) -> list[Header]:
    """Headers from `K: V`, `URL K: V` (for that origin alone) and `@FILE`, which holds one a line.

    ValueError in words that hold no value.
    """
    found: list[Header] = []
    for line in map(str.strip, lines):
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            try:
                text = Path(line[1:]).expanduser().read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"{line[1:]}: headers cannot be read from it") from error
            found += read_headers(each for each in text.splitlines() if not each.startswith("@"))
            continue
        found.append(_header(line))
    return found


def secrets_of(headers: Iterable[str], environ: Mapping[str, str] | None = None) -> Secrets:
    """What the environment and the command line say, the latter above the former; `.netrc` where there is one."""
    environ = os.environ if environ is None else environ
    found = read_headers([*environ.get(VARIABLE, "").splitlines(), *headers])
    named = environ.get("NETRC")
    return Secrets(found, Path(named).expanduser() if named else Path.home() / ".netrc")


def _header(line: str) -> Header:
    of: Origin | None = None
    if is_url(line):
        url, _, line = line.partition(" ")
        of = origin(url)
    name, colon, value = line.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not name.replace("-", "").isalnum() or not name.isascii():
        raise ValueError("a header is given as 'NAME: VALUE'")
    if not value.isprintable() or not value.isascii():
        raise ValueError(f"the value of header {name} holds characters that cannot be sent")
    return Header(name, value, of)


def _login(url: str) -> tuple[str, str] | None:
    parts = urlsplit(url)
    return (unquote(parts.username), unquote(parts.password or "")) if parts.username else None


def _logins(file: Path | None) -> dict[str, tuple[str, str]]:
    """Host → user and password. The entry for any host is not used: its password is meant for no one in particular."""
    if file is None or not file.is_file():
        return {}
    import netrc  # noqa: PLC0415  few have such a file

    try:
        hosts = netrc.netrc(str(file)).hosts
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return {}
    return {
        host: (login, password or "") for host, (login, _, password) in hosts.items() if host != "default"
    }
