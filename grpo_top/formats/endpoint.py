"""What an endpoint is: a kind that is recognised by an answer, and a watcher that asks and turns answers into records.

It is for URLs what `grpo_top.formats.base` is for files. Both run on the network's thread. Only requests that change
nothing at the server, generate nothing and take nothing away are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol
from urllib.parse import urlsplit

from grpo_top.sources.client import status_words
from grpo_top.sources.feed import NoAnswer
from grpo_top.sources.urls import server_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record, Rollout
    from grpo_top.sources.client import Answer, Client

HEAD_BYTES = 64 << 10
_ROOTS = frozenset({"", "/", "/v1", "/v1/"})
"""Paths of a URL that say no more than which server is meant."""


class Give(Protocol):
    """How a turn hands over what it finds."""

    async def __call__(self, records: list[Record], anew: bool = False) -> None:
        """Hand records over; waits while the monitor is behind.

        `anew`: the source began anew; what it held before falls as it comes again.
        """

    def caught_up(self) -> None:
        """Say that all that was there has been handed over, of a turn that goes on: `check` waits for this."""


class Watcher(ABC):
    """Asks one endpoint of a known kind, turn by turn. One instance an endpoint; it may keep what it needs."""

    name: str
    """As `SourceFacts.format`: it also names the table of metric names, see `grpo_top.formats.names`."""
    role: str = "metrics"
    every: float = 5.0
    """Seconds between two turns."""
    note: str = ""
    """One line for the user while it answers: what could not be asked, and why."""

    async def look(self, client: Client) -> list[Record]:
        """The records of one look; NoAnswer where it says nothing that can be read."""
        raise NotImplementedError

    async def turn(self, client: Client, give: Give) -> None:
        """One look; or, overridden, as long as a stream lasts. It need not return before that ends."""
        await give(await self.look(client))

    def end(self) -> list[Record]:
        """Records that were waiting for what will not come: nothing more is asked."""
        return []

    async def find(self, client: Client, location: Location) -> Rollout | None:  # noqa: ARG002
        """The rollout at `location`, with its text; None where there is none."""
        return None

    def text_key(self, completion: str) -> int | None:  # noqa: ARG002
        """The value of the column `text` for a rollout with that completion; None: the same as for a file's."""
        return None


class Kind(ABC):
    """One thing that answers HTTP."""

    name: ClassVar[str]
    paths: ClassVar[tuple[str, ...]] = ()
    """Where it can be known, below a URL that names a server alone; `/` first."""
    anywhere: ClassVar[bool] = False
    """Whether they are asked below any URL: servers of its kind stand below a path of their own at times."""

    @abstractmethod
    def claim(self, answer: Answer) -> int:
        """How sure it is, 0 to 100, that this answer, cut after 64 kB, is of its kind. The highest wins."""

    @abstractmethod
    def watcher(self, answer: Answer, context: RunContext) -> Watcher:
        """A watcher for the endpoint that gave this answer."""


async def recognise(client: Client, kinds: Sequence[Kind], context: RunContext) -> Watcher:
    """Who is there, by its answers; NoAnswer where it is nobody known."""
    first = await client.get(headers={"Range": f"bytes=0-{HEAD_BYTES - 1}"}, at_most=HEAD_BYTES)
    asked = [first]
    if (found := _best(kinds, first)) is not None:
        return found.watcher(first, context)
    root, alone = server_of(client.url), urlsplit(client.url).path in _ROOTS
    for path in dict.fromkeys(path for kind in kinds if alone or kind.anywhere for path in kind.paths):
        answer = await client.get(root + path, at_most=HEAD_BYTES)
        asked.append(answer)
        if (found := _best(kinds, answer)) is not None:
            return found.watcher(answer, context)
    raise NoAnswer(_unknown(asked))


def _best(kinds: Sequence[Kind], answer: Answer) -> Kind | None:
    if not answer.ok:
        return None
    claims = [(kind.claim(answer), -place) for place, kind in enumerate(kinds)]
    sure, place = max(claims, default=(0, 0))
    return kinds[-place] if sure > 0 else None


def _unknown(asked: Sequence[Answer]) -> str:
    first = asked[0]
    if not any(answer.ok for answer in asked):
        return f"{urlsplit(first.url).path or '/'} answers {status_words(first.status)}"
    return f"it answers nothing that is known here ({first.media_type or 'no type'})"
