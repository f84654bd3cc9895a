"""`grpo-top serve`: what is answered, from which log, and the thread that reads the run meanwhile.

    /         which log there is
    /end      a log of everything that is there now, read to its end as `grpo-top check` does
    /records  lines of a log from an offset; the last line says how things stand, and where to go on
    /rollout  one rollout with its texts, by the id that its line gives it

A place in a request is a number and good for one log: no path is ever asked for.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from grpo_top.server import DEFAULT, Guard, Limits, Reply, Server, error
from grpo_top.wire_records import SCHEMA, whole_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grpo_top.spool import Spool
    from grpo_top.spooled_run import SpooledRun

T = TypeVar("T")

LINES = "application/x-ndjson"
LONGEST_ANSWER = 128 << 10
"""Bytes of lines in one answer, unpacked."""
LONGEST_WAIT = 5.0
"""Seconds that an answer waits for something new: the heart's beat."""
WHOLE_KEPT = 120.0
"""Seconds for which a log that was read to its end is kept while nobody asks for it."""
TEXTS_AT_ONCE = 4
POLL_SECONDS = 0.25
_TARGET = re.compile(rb"(/[a-z]*)(?:\?((?:[a-z]+=[0-9a-f]{1,19})(?:&[a-z]+=[0-9a-f]{1,19}){0,7}))?")
_NOT_HERE = error(404, "no such place")


class LogThread(threading.Thread):
    """Reads a run into its spool until it is stopped, or to its end; rings whenever there is more."""

    def __init__(self, run: SpooledRun, ring: Callable[[], None], *, to_end: bool) -> None:
        super().__init__(name="grpo-top reading", daemon=True)
        self.of = run
        self.error: Exception | None = None
        """Why it ended before it was told to."""
        self._ring = ring
        self._to_end = to_end
        self._stopping = threading.Event()

    def run(self) -> None:
        """Read. An error (no room for the spool, or one of ours) ends the reading and is kept."""
        try:
            if self._to_end:
                self.of.read_to_end(self._stopping)
            else:
                self._follow()
        except Exception as error:
            self.error = error
        self._ring()

    def stop(self, wait: float = 2.0) -> None:
        """Stop reading; returns once the thread has ended."""
        self._stopping.set()
        self.of.tree.close()
        if self.is_alive():
            self.join(wait)
        self.of.watchlist.close()

    def _follow(self) -> None:
        run = self.of
        while not self._stopping.is_set():
            before = run.spool.size, run.standing.revision
            came = run.poll(0.05)
            if (run.spool.size, run.standing.revision) != before:
                self._ring()
            if not came:
                run.wait(POLL_SECONDS)
            elif not run.unfinished:
                self._stopping.wait(min(POLL_SECONDS, 0.02 + run.files / 1000))


class Make(Protocol):
    """Opens the run that is served, to be read from its beginning."""

    def __call__(self, *, live: bool) -> SpooledRun:
        """`live`: it is followed; else read once, to its end."""


class Service:
    """One run, served."""

    def __init__(
        self,
        make: Make,
        guard: Guard,
        limits: Limits = DEFAULT,
        wait: float = LONGEST_WAIT,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`settings`: those in force here: the run is judged by them there as well. See `config.as_table`."""
        self._make = make
        self._settings = settings or {}
        self._wait = wait
        self._server = Server(self.answer, guard, limits)
        self._texts = asyncio.Semaphore(TEXTS_AT_ONCE)
        self._more: set[asyncio.Future[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._live = LogThread(make(live=True), self._ring, to_end=False)
        self._whole: LogThread | None = None
        self._whole_of: tuple[object, ...] = ()
        """How the live log stood when the whole one was begun."""
        self._whole_asked = 0.0
        self._routes: dict[bytes, Callable[[Mapping[str, str]], Any]] = {
            b"/": self._about,
            b"/end": self._about_whole,
            b"/records": self._records,
            b"/rollout": self._rollout,
        }

    def require_there(self) -> None:
        """Raise NothingReadable where there is no such place."""
        self._live.of.require_there()

    async def start(self, host: str, port: int) -> int:
        """Begin to read and to answer; the port. OSError where the address is not to be had."""
        port = await self._server.start(host, port)
        self._live.start()
        return port

    async def failed(self) -> Exception:
        """Returns if the reading fails, and why. Until then, lets go of a whole log that nobody asks for any more."""
        while self._live.error is None:
            await self._changed(self._wait)
            if self._whole is not None and time.monotonic() - self._whole_asked > WHOLE_KEPT:
                self._whole.stop(0)
                self._whole = None
        return self._live.error

    async def close(self) -> None:
        """End all of it."""
        await self._server.close()
        for log in (self._live, self._whole):
            if log is not None:
                log.stop()

    async def answer(self, target: bytes) -> Reply:
        """What is said to a request for `target`."""
        found = _TARGET.fullmatch(target)
        route = self._routes.get(found[1]) if found else None
        if found is None or route is None:
            return _NOT_HERE
        given = [pair.split("=") for pair in (found[2] or b"").decode("ascii").split("&") if pair]
        reply: Reply = await route(dict(given))
        return reply

    async def _about(self, _: Mapping[str, str]) -> Reply:
        return self._told(self._live)

    async def _about_whole(self, _: Mapping[str, str]) -> Reply:
        run = self._live.of
        stands = run.spool.size, run.standing.revision
        whole = self._whole
        if whole is None or whole.error or (not whole.is_alive() and stands != self._whole_of):
            if whole is not None:
                whole.of.close()  # its spool goes with the last answer that is made of it
            self._whole = whole = LogThread(self._make(live=False), self._ring, to_end=True)
            self._whole_of = stands
            whole.start()
        return self._told(whole)

    def _told(self, log: LogThread) -> Reply:
        self._whole_asked = time.monotonic()
        return _json({"schema": SCHEMA, "log": log.of.spool.id, "settings": self._settings})

    async def _records(self, asked: Mapping[str, str]) -> Reply:
        log = self._log(asked)
        offset, past, since, wait = (
            _number(asked.get(name, "0")) for name in ("offset", "past", "since", "wait")
        )
        if log is None or offset is None or past is None or since is None or wait is None:
            return _another_log() if log is None else _NOT_HERE
        if log is self._whole:
            self._whole_asked = time.monotonic()
        run = log.of
        until = time.monotonic() + min(wait, self._wait)
        while True:
            if log.error is not None:
                return error(503, "the run could not be read here")
            try:
                lines, where = _lines(run.spool, offset, past)
            except ValueError:
                return error(416, "no line begins there, or it was let go")
            left = until - time.monotonic()
            if lines or left <= 0 or run.standing.revision > since or not log.is_alive():
                break
            await self._changed(left)
        beat = {"kind": "beat", **where, "size": run.spool.size, **run.beat(since)}
        return Reply(200, lines + orjson.dumps(beat) + b"\n", LINES)

    async def _rollout(self, asked: Mapping[str, str]) -> Reply:
        log, id_ = self._log(asked), _number(asked.get("id", ""))
        if log is None:
            return _another_log()
        if id_ is None:
            return _NOT_HERE
        async with self._texts:
            found = await _in_thread(lambda: log.of.text(id_))
        if found is None:
            return _NOT_HERE
        if isinstance(found, str):
            return _json({"gone": found})
        return Reply(200, whole_line(found), LINES)

    def _log(self, asked: Mapping[str, str]) -> LogThread | None:
        return next(
            (log for log in (self._live, self._whole) if log and log.of.spool.id == asked.get("log")), None
        )

    def _ring(self) -> None:
        """There is more, or something has ended. For any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for waiting in self._more:
            if not waiting.done():
                waiting.set_result(None)

    async def _changed(self, seconds: float) -> None:
        """Returns when it rings, or after so many seconds."""
        waiting = self._loop.create_future()
        self._more.add(waiting)
        try:
            await asyncio.wait((waiting,), timeout=seconds)
        finally:
            self._more.discard(waiting)


def _lines(spool: Spool, offset: int, past: int) -> tuple[bytes, dict[str, int]]:
    """The next lines of a log, and where to go on. ValueError where none begins there.

    From its beginning on, where that was let go, come first the lines that stand for it: `past` counts those.
    """
    gone = spool.past
    if offset or not gone.offset:
        lines = spool.read(offset, LONGEST_ANSWER)
        return lines, {"offset": offset + len(lines)}
    lines = spool.read_past(gone, past, LONGEST_ANSWER)
    past += len(lines)
    return lines, {"offset": gone.offset if past >= gone.size else 0, "past": past}


def _json(value: dict[str, Any]) -> Reply:
    return Reply(200, orjson.dumps(value) + b"\n")


def _another_log() -> Reply:
    return error(410, "another log by now: begin anew")


def _number(digits: str) -> int | None:
    return int(digits) if digits.isdecimal() else None


async def _in_thread(work: Callable[[], T]) -> T:
    """What `work` gives, done by a thread that does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(found: T | None, failed: BaseException | None) -> None:
        if not done.done():
            done.set_exception(failed) if failed else done.set_result(found)  # type: ignore[arg-type]

    def run() -> None:
        found, failed = None, None
        try:
            found = work()
        except Exception as error:  # it is raised where it is awaited
            failed = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, found, failed)

    threading.Thread(target=run, name="grpo-top text", daemon=True).start()
    return await done
