"""One endpoint as a source: asked on the network's thread, read by the monitor as a file is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top.completions import text_key
from grpo_top.formats.base import Claim
from grpo_top.formats.endpoint import recognise
from grpo_top.records import Skipped
from grpo_top.snapshot import SkippedRecord, SourceFacts
from grpo_top.sources.feed import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.formats.base import RunContext
    from grpo_top.formats.endpoint import Kind, Watcher
    from grpo_top.records import Location, Record, Rollout
    from grpo_top.sources.client import Client
    from grpo_top.sources.feed import Feed
    from grpo_top.sources.http import Network

LAST = 90
"""`Claim.order`: a look at a server is of the newest step, so all files are read first."""


class Batch(NamedTuple):
    """What one turn gave."""

    records: list[Record]
    anew: bool


class Unknown(NamedTuple):
    """In place of a watcher while nobody has answered."""

    name: str = "endpoint"
    role: str = "endpoint"
    note: str = ""
    every: float = 1.0


class Handed:
    """Puts what a turn finds into the feed."""

    def __init__(self, feed: Feed[Batch]) -> None:
        self._feed = feed

    async def __call__(self, records: list[Record], anew: bool = False) -> None:
        """As `grpo_top.formats.endpoint.Give`."""
        if records or anew:
            await self._feed.put(Batch(records, anew))

    def caught_up(self) -> None:
        """The turn goes on, but all that was there has been handed over."""
        self._feed.answered()


class Endpoint:
    """Turns one endpoint's answers into records as they come. The same door as `grpo_top.intake.Intake`."""

    def __init__(
        self,
        number: int,
        url: str,
        network: Network,
        kinds: Sequence[Kind],
        context: RunContext,
        *,
        named: bool = True,
        is_sampler: bool = False,
        after: Sequence[Endpoint] = (),
    ) -> None:
        """`named`: the user named the URL himself. `after`: endpoints whose first look is read before this one's.

        ValueError where the URL is none.
        """
        self.number = number
        self.is_sampler = is_sampler
        self.records = 0
        self.skipped = 0
        self.quiet_looks = 0
        """Always 0: it costs nothing to see that nothing came."""
        self.rewritten = False
        self.new_epoch = False
        """Set when the source began anew; its earlier records stand until they come again."""
        self.behind = 0
        self.written: float | None = None
        """See `SourceFacts.written`."""
        self._url = url
        self._named = named
        self._network = network
        self._kinds = kinds
        self._context = context
        self._watcher: Watcher | None = None
        self._after = after
        self._batches: list[Batch] = []
        """Taken from the feed and not handed over yet."""
        self._ended = False
        self._feed: Feed[Batch] = network.follow(self._turn, self._every, url, named=named)
        self.where = self._feed.url
        """The URL as it may be shown."""
        self._said = ("", "")

    @property
    def claim(self) -> Claim:
        """What it holds, as far as it is known by now."""
        return Claim(100, "none", self.format.role, self.where, LAST)

    @property
    def format(self) -> Watcher | Unknown:
        """Who answers."""
        return self._watcher or Unknown()

    @property
    def size(self) -> int:
        """Bytes that came."""
        return self._feed.bytes

    @property
    def looked(self) -> bool:
        """Whether the first look is over and all that it gave was read."""
        return self._feed.looked and not self._batches

    @property
    def answers(self) -> bool:
        """Whether it is known who answers."""
        return self._watcher is not None

    def changed(self) -> bool:
        """Whether its state is another than at the last call."""
        before, self._said = self._said, (self._feed.state, self._note())
        return before != self._said

    def hear(self, now: float, last: bool = False) -> None:  # noqa: ARG002
        """Note that something of the run itself has just come."""
        self.written = now

    def read(self, last: bool = False) -> list[Record] | None:
        """The records that came, None where there are none. `last`: nothing more will be read."""
        self.new_epoch = False
        if not all(endpoint.looked for endpoint in self._after):
            return None
        self._batches += self._feed.take()
        if self._batches:
            batch = self._batches.pop(0)
            self.new_epoch = batch.anew and self.records > 0
            return self._count(batch.records)
        if last and not self._ended:
            self._ended = True
            if self._watcher is not None and (records := self._end(self._watcher)):
                return self._count(records)
        return None

    def find(self, location: Location) -> Rollout | None:
        """The rollout that lies there, with its text; OSError where it cannot be had."""
        watcher = self._watcher
        if watcher is None:
            return None
        try:
            return self._network.ask(
                lambda client: watcher.find(client, location), self._url, named=self._named
            )
        except NoAnswer as error:
            raise OSError(str(error)) from error

    def text_key(self, completion: str) -> int:
        """The value of the column `text` for a rollout of this source with that completion."""
        own = None if self._watcher is None else self._watcher.text_key(completion)
        return text_key(completion) if own is None else own

    def facts(self) -> SourceFacts:
        """What the screen and `inspect` show of this source."""
        return SourceFacts(
            where=self.where,
            path=self.where,
            format=self.format.name,
            role=self.format.role,
            records=self.records,
            bytes=self._feed.bytes,
            skipped=self.skipped,
            state=self._feed.state,
            note=self._note(),
            written=self.written,
        )

    def named(self, skipped: Skipped) -> SkippedRecord:
        """A skipped record with the endpoint that it came from."""
        return SkippedRecord(self.where, skipped.offset, skipped.line, skipped.reason)

    def _note(self) -> str:
        return self._feed.note or self.format.note

    def _every(self) -> float:
        return self.format.every

    async def _turn(self, client: Client, feed: Feed[Batch]) -> None:
        """One turn, on the network's thread; before the first, see who is there."""
        if self._watcher is None:
            self._watcher = await recognise(client, self._kinds, self._context)
        await self._watcher.turn(client, Handed(feed))

    def _end(self, watcher: Watcher) -> list[Record]:
        """What the watcher still holds, asked for on its own thread."""

        async def end(_: Client) -> list[Record]:
            return watcher.end()

        try:
            return self._network.ask(end, self._url, named=self._named)
        except NoAnswer:
            return []  # the network was closed, and with it what was held

    def _count(self, records: list[Record]) -> list[Record]:
        skipped = list(map(type, records)).count(Skipped)
        self.skipped += skipped
        self.records += len(records) - skipped
        return records
