"""Connections: a small pool for each server, since one pool for hundreds looks through all of them at each request."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

KEPT = 4
"""Idle connections to one server that are kept."""
KEPT_SECONDS = 30.0


def pools(verified: ssl.SSLContext, insecure: Sequence[str]) -> httpx.AsyncBaseTransport:
    """What carries requests, through the environment's proxies where it names some.

    `insecure`: HOST or HOST:PORT whose certificates are not looked at.
    """
    import httpx  # noqa: PLC0415  only where a URL was given

    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    proxies = getproxies()

    class Pools(httpx.AsyncBaseTransport):
        def __init__(self) -> None:
            self._pools: dict[tuple[str, str, int | None], httpx.AsyncHTTPTransport] = {}

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            url = request.url
            key = url.scheme, url.host, url.port
            pool = self._pools.get(key)
            if pool is None:
                pool = self._pools[key] = self._pool(url)
            return await pool.handle_async_request(request)

        async def aclose(self) -> None:
            for pool in self._pools.values():
                await pool.aclose()

        def _pool(self, url: httpx.URL) -> httpx.AsyncHTTPTransport:
            trusts_any = not {url.host, f"{url.host}:{url.port or 443}"}.isdisjoint(insecure)
            proxy = None if proxy_bypass(url.host) else proxies.get(url.scheme) or proxies.get("all")
            return httpx.AsyncHTTPTransport(
                verify=unverified if trusts_any else verified,
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=KEPT, keepalive_expiry=KEPT_SECONDS
                ),
                proxy=proxy,
            )

    return Pools()
