"""Asks endpoints again and again: one thread, one event loop and one HTTP client for all of them.

The monitor's thread calls `Network.watch` once for each endpoint and then takes what came from its `Feed`, without
ever waiting. What an answer means is decided in `grpo_top.formats`, by the `look` that is handed in.

    network = Network(secrets_of(options.header))
    feed = network.watch(look, every=5.0, url="http://gpu1:8000")   # async def look(client) -> list[T]
    feed.take(), feed.state, feed.note, feed.looked
    network.close()
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ssl
import threading
import time
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, TypeVar

from grpo_top.defects import defect
from grpo_top.sources.client import Client, Turns
from grpo_top.sources.feed import CHANCE, DEFAULT, Feed, Limits, NoAnswer, back_off
from grpo_top.sources.secrets import Secrets
from grpo_top.sources.urls import origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
    from pathlib import Path

    import httpx

T = TypeVar("T")
CLOSING_SECONDS = 2.0


class Network:
    """All endpoints of this process. Its methods are for any thread; nothing is started before the first `watch`."""

    def __init__(
        self,
        secrets: Secrets | None = None,
        *,
        ca_file: Path | None = None,
        insecure: Sequence[str] = (),
        limits: Limits = DEFAULT,
    ) -> None:
        """`ca_file`: certificates that are trusted besides the usual; ValueError where it holds none.

        `insecure`: hosts whose certificates are not looked at.
        """
        if ca_file is not None:
            _check_certificates(ca_file)
        self.limits = limits
        self._secrets = secrets or Secrets()
        self._ca_file = ca_file
        self._insecure = tuple(insecure)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._closed = False
        self._why_not = "nothing is asked any more"
        """Why nothing can be asked, where that is so."""
        self._endpoints = 0

    def watch(
        self,
        look: Callable[[Client], Awaitable[Sequence[T]]],
        every: float,
        url: str,
        *,
        name: str = "",
        named: bool = True,
    ) -> Feed[T]:
        """Look at an endpoint every so many seconds, later where it does not answer.

        `look` says that there was no answer, or nonsense, by raising NoAnswer. `named`: the user named this URL
        himself, so that his headers go there. ValueError where the URL is none.
        """

        async def turn(client: Client, feed: Feed[T]) -> None:
            for item in await look(client):
                await feed.put(item)

        return self.follow(turn, every, url, name=name, named=named)

    def follow(
        self,
        turn: Callable[[Client, Feed[T]], Awaitable[None]],
        every: float | Callable[[], float],
        url: str,
        *,
        name: str = "",
        named: bool = True,
    ) -> Feed[T]:
        """As `watch`, for a turn that puts items into the feed itself, and may take as long as a stream lasts."""
        origin(url)
        feed: Feed[T] = Feed(url, name, self.limits.untaken)
        self._endpoints += 1
        loop = self._begun()
        if loop is None:
            feed.failed(self._why_not, 0.0)
        else:
            loop.call_soon_threadsafe(self._begin, self._keep, turn, every, url, named, feed)
        return feed

    def ask(self, question: Callable[[Client], Awaitable[T]], url: str, *, named: bool = True) -> T:
        """Ask once and wait for it: for a thread that may. NoAnswer where there is none."""
        feed: Feed[T] = Feed(url)

        async def answered() -> T:
            return await question(Client(self._http, self._turns, self._secrets, url, named, feed))

        loop = self._begun()
        if loop is None:
            raise NoAnswer(self._why_not)
        future = asyncio.run_coroutine_threadsafe(answered(), loop)
        try:
            return future.result(self.limits.whole)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise NoAnswer(f"no whole answer within {self.limits.whole:g} s") from None
        except concurrent.futures.CancelledError:
            raise NoAnswer(self._why_not) from None

    def close(self) -> None:
        """End all looks and the thread."""
        self._closed = True
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(self._stop.set)
            thread.join(CLOSING_SECONDS)

    def _begun(self) -> asyncio.AbstractEventLoop | None:
        """The loop, whose thread is started where it is not yet; None once all is closed."""
        if self._closed:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="grpo-top network", daemon=True)
            self._thread.start()
        self._started.wait()
        return self._loop

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:
            self._why_not = defect("the network", error, "is off")
        finally:
            self._loop = None
            self._started.set()

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        async with self._http_client() as self._http:
            self._turns = Turns(self.limits)
            self._loop = asyncio.get_running_loop()
            self._started.set()
            await self._stop.wait()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, keep: Callable[..., Coroutine[Any, Any, None]], *of: Any) -> None:
        task = asyncio.ensure_future(keep(*of))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(
        self,
        turn: Callable[[Client, Feed[T]], Awaitable[None]],
        every: float | Callable[[], float],
        url: str,
        named: bool,
        feed: Feed[T],
    ) -> None:
        """Take turn after turn, whatever comes of each."""
        client = Client(self._http, self._turns, self._secrets, url, named, feed)
        while True:
            wait = 0.0
            try:
                await turn(client, feed)
            except NoAnswer as error:
                wait = max(back_off(feed.failures + 1, self.limits), error.wait)
                feed.failed(str(error), time.time() + wait)
            except Exception as error:  # one endpoint that fails must not take the others with it
                wait = self.limits.longest_wait
                feed.failed(defect(feed.name, error, "is asked again later"), time.time() + wait)
            else:
                feed.answered()
                wait = every() if callable(every) else every
                wait = max(wait, self._endpoints / self.limits.a_second) * CHANCE.uniform(0.9, 1.1)
            await asyncio.sleep(wait)

    @contextlib.asynccontextmanager
    async def _http_client(self) -> AsyncIterator[httpx.AsyncClient]:
        import httpx  # noqa: PLC0415  only where a URL was given

        from grpo_top.sources.pools import pools  # noqa: PLC0415

        limits = self.limits
        async with httpx.AsyncClient(
            transport=pools(_verified(self._ca_file), self._insecure),
            timeout=httpx.Timeout(limits.read, connect=limits.connect, pool=None),
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # none is kept, so none is sent
        ) as client:
            yield client


@cache
def _verified(ca_file: Path | None) -> ssl.SSLContext:
    """The usual certificates and those of a file; kept, since reading them takes a tenth of a second."""
    import httpx  # noqa: PLC0415  loaded by now

    context = httpx.create_ssl_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


def _check_certificates(ca_file: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca_file)
    except OSError as error:
        raise ValueError(f"{ca_file}: no certificates can be read from it") from error
