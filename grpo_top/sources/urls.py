"""URLs: which server one names, and how it may be shown."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Whom a URL asks: what headers are bound to."""

    scheme: str
    host: str
    port: int


def origin(url: str) -> Origin:
    """A URL's origin; ValueError where it is none that can be asked."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("not an http:// or https:// URL")
    return Origin(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])


def is_url(where: str) -> bool:
    """Whether a place is an endpoint rather than a file."""
    return where.startswith(("http://", "https://"))


def bare(url: str) -> str:
    """A URL without its user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def shown(url: str) -> str:
    """A URL as it may be shown: without user, password, query (a token may be in it) and fragment."""
    try:
        return urlunsplit(urlsplit(bare(url))._replace(query="", fragment=""))
    except ValueError:  # where it cannot be taken apart, a password in it cannot be left out
        return f"{url.partition('://')[0]}://…"


def server_of(url: str) -> str:
    """A URL without its query, `/v1` and `/metrics`: what paths are added to."""
    found = url.partition("?")[0].rstrip("/")
    for end in ("/v1", "/metrics"):
        found = found.removesuffix(end)
    return found


def name_of(url: str) -> str:
    """What a server is called on the screen: host and port, and the path where there is one."""
    parts = urlsplit(server_of(url))
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
