"""One endpoint's requests, with the manners of the network: limits, redirects, conditional requests, no secret told."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
import zlib
from collections import OrderedDict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import orjson

from grpo_top.sources.feed import Limits, NoAnswer
from grpo_top.sources.urls import bare, origin, shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    import httpx

    from grpo_top.sources.feed import Feed
    from grpo_top.sources.secrets import Secrets

AGENT = "grpo-top"
KEPT_BODY = 1 << 20
"""Bytes of an answer that are kept, so that the server need not send it again while it is the same."""
KEPT_ANSWERS = 16
UNPACKED_AT_ONCE = 1 << 20
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WAIT_ASKED = frozenset({429, 503})


class Answer(NamedTuple):
    """What a server said."""

    url: str
    """As it may be shown."""
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    """Unpacked. Where nothing changed since the last answer it is that one's."""
    time: float
    """Seconds since the epoch when it had come."""
    unchanged: bool = False
    """Whether the server says that it is the same as before."""
    wait: float = 0.0
    """Seconds that the server asks to be left alone for."""
    cut: bool = False
    """Whether there is more of the body than was asked for."""

    @property
    def ok(self) -> bool:
        """Whether it is what was asked for."""
        return 200 <= self.status < 300

    @property
    def media_type(self) -> str:
        """`text/plain`, `application/json`, …; empty where the server does not say."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def required(self) -> Answer:
        """Itself, or NoAnswer where the server refused."""
        if not self.ok:
            raise NoAnswer(f"{urlsplit(self.url).path or '/'} answers {status_words(self.status)}", self.wait)
        return self

    def json(self) -> Any:
        """The body's value; NoAnswer where it is no JSON."""
        try:
            return orjson.loads(self.body)
        except ValueError as error:
            raise NoAnswer(
                f"{urlsplit(self.url).path or '/'} answers with something that is no JSON"
            ) from error


def status_words(status: int) -> str:
    """`403 Forbidden`: the standard's own words, not the server's."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


class Turns:
    """How many requests may be under way at once, over all endpoints."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.one = asyncio.Semaphore(limits.at_once)


class Client:
    """Asks one endpoint. Every method raises NoAnswer, and nothing else, where there is no answer."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        turns: Turns,
        secrets: Secrets,
        url: str,
        named: bool,
        feed: Feed[Any],
    ) -> None:
        self.url = bare(url).partition("#")[0]
        """What was given, without user and password."""
        self._http = http
        self._turns = turns
        self._limits = turns.limits
        self._origin = origin(url)
        self._headers = secrets.headers(url, named)
        self._feed = feed
        self._kept: OrderedDict[str, Answer] = OrderedDict()

    async def get(
        self,
        where: str = "",
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        at_most: int | None = None,
    ) -> Answer:
        """Ask for a path below the endpoint's URL, the URL itself where it is empty, or another URL.

        An answer of any status is an answer, see `Answer.required`. Another origin gets no headers of the user's.
        `at_most`: bytes of the body that are wanted; what follows is left.
        """
        url = self.at(where)
        if params:
            import httpx  # noqa: PLC0415  loaded by now

            url = str(httpx.URL(url).copy_merge_params(params))
        conditional = headers is None and at_most is None
        kept = self._kept.get(url) if conditional else None
        answer = await self._ask("GET", url, {**_conditions(kept), **(headers or {})}, at_most=at_most)
        if answer.status == HTTPStatus.NOT_MODIFIED and kept is not None:
            return kept._replace(unchanged=True, time=answer.time)
        if conditional:
            self._keep(url, answer)
        return answer

    async def post(self, where: str, value: object) -> Answer:
        """Send a JSON value to a path. Only for requests that change nothing at the server."""
        return await self._ask(
            "POST", self.at(where), {"Content-Type": "application/json"}, orjson.dumps(value)
        )

    async def lines(
        self, where: str, *, params: Mapping[str, str] | None = None, idle: float | None = None
    ) -> AsyncIterator[bytes]:
        """The lines of an answer that goes on, as they come, without their newline; NoAnswer when it breaks off.

        `idle`: seconds without a byte after which it counts as broken (default: the limit for any answer).
        """
        import httpx  # noqa: PLC0415  loaded by now

        url, limits = self.at(where), self._limits
        timeout = httpx.Timeout(idle or limits.read, connect=limits.connect, pool=None)
        held = b""
        with _as_no_answer(limits, idle or limits.read):
            async with self._http.stream(
                "GET", url, params=params, headers=self._sent(url, {}), timeout=timeout
            ) as response:
                if response.status_code != HTTPStatus.OK:
                    await self._answer(response, url)
                    raise NoAnswer(
                        f"{urlsplit(url).path or '/'} answers {status_words(response.status_code)}"
                    )
                async for piece in self._pieces(response, None):
                    *whole, held = (held + piece).split(b"\n")
                    for line in whole:
                        yield line
                    if len(held) > limits.line:
                        raise NoAnswer(f"a line longer than {limits.line:,} bytes")
        if held:
            raise NoAnswer("the connection ended in the middle of a line")

    def at(self, where: str) -> str:
        """The URL of a path below the endpoint's own."""
        if where.startswith(("http://", "https://")):
            return where
        return f"{self.url.partition('?')[0].rstrip('/')}/{where.lstrip('/')}" if where else self.url

    async def _ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        at_most: int | None = None,
    ) -> Answer:
        limits = self._limits
        async with self._turns.one:
            with _as_no_answer(limits, limits.read):
                async with asyncio.timeout(limits.whole):
                    for _ in range(limits.redirects + 1):
                        async with self._http.stream(
                            method, url, headers=self._sent(url, headers), content=content
                        ) as response:
                            further = response.headers.get("location")
                            if response.status_code not in _REDIRECTS or not further:
                                return await self._answer(response, url, at_most)
                            if method != "GET":
                                raise NoAnswer("a redirect in answer to a POST, which is not followed")
                            url = _redirected(url, further)
                    raise NoAnswer(f"more than {limits.redirects} redirects")

    def _sent(self, url: str, headers: Mapping[str, str]) -> dict[str, str]:
        own = self._headers if origin(url) == self._origin else {}
        return {"User-Agent": AGENT, "Accept-Encoding": "gzip", **own, **headers}

    async def _answer(self, response: httpx.Response, url: str, at_most: int | None = None) -> Answer:
        limit = self._limits.body
        announced = response.headers.get("content-length", "")
        if at_most is None and announced.isdecimal() and int(announced) > limit:
            raise NoAnswer(f"an answer of {int(announced):,} bytes, more than the {limit:,} that are read")
        body, cut = b"", False
        if at_most is None:
            body = b"".join([piece async for piece in self._pieces(response, limit)])
        else:
            async for piece in self._pieces(response, None):
                body += piece
                if cut := len(body) > at_most:
                    break
        return Answer(
            shown(url),
            response.status_code,
            {name.lower(): value for name, value in response.headers.items()},
            body if at_most is None else body[:at_most],
            time.time(),
            wait=self._wait_asked(response),
            cut=cut,
        )

    async def _pieces(self, response: httpx.Response, limit: int | None) -> AsyncIterator[bytes]:
        """The body, unpacked piece by piece, so that a small answer cannot become a large one."""
        packed = response.headers.get("content-encoding", "identity").strip().lower()
        if packed not in {"", "identity", "gzip"}:
            raise NoAnswer("an answer that is packed in a way that was not asked for")
        unpack = zlib.decompressobj(31) if packed == "gzip" else None
        room = limit
        async for piece in response.aiter_raw():
            self._feed.bytes += len(piece)
            left = piece
            while left:
                if unpack is None:
                    data, left = left, b""
                else:
                    data, left = unpack.decompress(left, UNPACKED_AT_ONCE), unpack.unconsumed_tail
                if room is not None:
                    room -= len(data)
                    if room < 0:
                        raise NoAnswer(f"an answer of more than the {limit:,} bytes that are read")
                yield data
        if unpack is not None and not unpack.eof and limit is not None:
            raise NoAnswer("the answer ended in the middle")

    def _wait_asked(self, response: httpx.Response) -> float:
        asked = response.headers.get("retry-after", "")
        if response.status_code not in _WAIT_ASKED or not asked.isdecimal():
            return 0.0
        return min(float(asked), self._limits.longest_wait)

    def _keep(self, url: str, answer: Answer) -> None:
        self._kept.pop(url, None)
        if answer.status == HTTPStatus.OK and len(answer.body) <= KEPT_BODY and _conditions(answer):
            self._kept[url] = answer
            if len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)


def _conditions(kept: Answer | None) -> dict[str, str]:
    """The headers that ask for an answer only where it is another one."""
    names = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
    return {} if kept is None else {names[key]: kept.headers[key] for key in names if key in kept.headers}


def _redirected(url: str, further: str) -> str:
    """Where a redirect leads; a user and password in it are the server's, and not sent."""
    target = bare(urljoin(url, further))
    try:
        origin(target)
    except ValueError as error:
        raise NoAnswer("a redirect to something that is no URL") from error
    return target


class _as_no_answer:  # noqa: N801  reads as a statement
    """Turns what the HTTP library raises into NoAnswer, in words of our own: its messages may hold a URL."""

    def __init__(self, limits: Limits, read: float) -> None:
        self._limits = limits
        self._read = read

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        words = None if error is None or isinstance(error, NoAnswer) else self._words(error)
        if words is not None:
            raise NoAnswer(words) from None

    def _words(self, error: BaseException) -> str | None:
        import httpx  # noqa: PLC0415  loaded by now

        causes = list(_causes(error))
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
            return "its certificate is not trusted (see --ca-file)"
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            return "no such host"
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return "connection refused"
        match error:
            case httpx.ConnectTimeout():
                return f"no connection within {self._limits.connect:g} s"
            case httpx.TimeoutException():
                return f"no answer for {self._read:g} s"
            case TimeoutError():
                return f"no whole answer within {self._limits.whole:g} s"
            case httpx.ConnectError():
                return "no connection"
            case httpx.RemoteProtocolError():
                return "the connection ended in the middle, or it is no HTTP"
            case httpx.NetworkError():
                return "the connection broke"
            case httpx.HTTPError() | httpx.InvalidURL() | httpx.StreamError():
                return f"it cannot be asked ({type(error).__name__})"
            case zlib.error():
                return "an answer that says it is gzip and is not"
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error with all that led to it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
