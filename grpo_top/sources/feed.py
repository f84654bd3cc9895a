"""What came from one endpoint, between the thread that asks and the one that takes; and how long to wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from grpo_top.defects import info
from grpo_top.sources.urls import shown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the network's patience and memory go. Seconds and bytes."""

    connect: float = 3.0
    read: float = 10.0
    """Without a byte of the answer."""
    whole: float = 30.0
    """For one request with its redirects."""
    body: int = 32 << 20
    """Of an answer, unpacked."""
    line: int = 16 << 20
    """Of a line of a stream."""
    redirects: int = 4
    at_once: int = 64
    """Requests under way."""
    a_second: float = 50.0
    """Looks: with more endpoints than that allows, each is looked at less often."""
    first_wait: float = 1.0
    """After the first failure; doubled with each further one."""
    longest_wait: float = 60.0
    untaken: int = 256
    """Items that wait in one feed; the endpoint is asked no further until they are taken."""


DEFAULT = Limits()
CHANCE = random.Random()  # noqa: S311  spreads load, guards nothing
"""Our own: what other threads draw from `random` stays theirs."""


class NoAnswer(Exception):
    """Why nothing came that can be used, in words for the user that hold no secret."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait
        """Seconds that the server asks for, at most `Limits.longest_wait`."""


def back_off(failures: int, limits: Limits) -> float:
    """Seconds until the next try: doubled with each failure up to a maximum, and by chance up to half of it less."""
    longest = min(limits.longest_wait, limits.first_wait * 2.0 ** min(failures - 1, 30))
    return longest * CHANCE.uniform(0.5, 1.0)


class Feed(Generic[T]):
    """Filled by the network's thread, taken by the monitor's."""

    def __init__(self, url: str, name: str = "", untaken: int = DEFAULT.untaken) -> None:
        self.url = shown(url)
        """As it may be shown."""
        self.name = name or self.url
        self.bytes = 0
        """Of all answers so far, as they came."""
        self.looked = False
        """Whether the first look is over, with or without an answer."""
        self.failures = 0
        """Looks in a row without an answer."""
        self.last_answer: float | None = None
        """Seconds since the epoch."""
        self._error = ""
        self._next_try = 0.0
        self._items: deque[T] = deque()
        self._untaken = untaken
        self._room: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self) -> list[T]:
        """What came since the last call. Never waits."""
        taken = [self._items.popleft() for _ in range(len(self._items))]
        if taken and self._loop is not None and self._room is not None:
            with contextlib.suppress(RuntimeError):  # the network was closed
                self._loop.call_soon_threadsafe(self._room.set)
        return taken

    @property
    def state(self) -> str:
        """As `SourceFacts.state`: `live`, `waiting` before the first answer, `error`."""
        if self._error:
            return "error"
        return "waiting" if self.last_answer is None else "live"

    @property
    def note(self) -> str:
        """The last error with the time of the next try; empty where it answers."""
        if not self._error:
            return "" if self.looked else "asked, no answer yet"
        if not self._next_try:
            return self._error
        return f"{self._error}; next try at {time.strftime('%H:%M:%S', time.localtime(self._next_try))}"

    async def put(self, item: T) -> None:
        """Hand an item over, once there is room. Network's thread only."""
        if self._room is None:
            self._room, self._loop = asyncio.Event(), asyncio.get_running_loop()
        while len(self._items) >= self._untaken:
            self._room.clear()
            if len(self._items) >= self._untaken:
                await self._room.wait()
        self._items.append(item)

    def answered(self) -> None:
        """Note that the endpoint answers."""
        if self._error or self.last_answer is None:
            info("%s answers", self.url)
        self._error, self.failures, self.last_answer = "", 0, time.time()
        self.looked = True

    def failed(self, why: str, next_try: float) -> None:
        """Note that it does not, why, and when it is asked again; 0 never."""
        if why != self._error:
            info("%s does not answer: %s", self.url, why)
        self._error, self._next_try, self.failures = why, next_try, self.failures + 1
        self.looked = True
