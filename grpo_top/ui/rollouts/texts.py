"""Texts of rollouts, read from disk only for the rows that are seen, and kept for when they are seen again."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from grpo_top.snapshot import Gone
from grpo_top.ui.rollouts.turns import Turn, turns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grpo_top.records import Rollout

T = TypeVar("T")

GLANCE_CHARACTERS = 4000
"""Of each text in a glance: more than any preview shows."""
SLICE_SECONDS = 0.03
"""Texts are handed over in slices of about so long, so that the first rows are seen before the last are read."""


class Glance(NamedTuple):
    """The beginning of a rollout's texts: what a row or a preview shows of it."""

    prompt: str = ""
    completion: str = ""
    verifier_raw: str | None = None
    verifier_error: str | None = None
    turns: int = 0
    """Turns after the prompt; 0 where it is no conversation."""
    call: str = ""
    """Its first tool call, in one line."""
    call_broken: bool = False
    """The arguments of that call are no valid JSON."""
    says: str = ""
    """What the tool answered."""
    gone: str = ""
    """Why the texts cannot be read any more."""


def glance(rollout: Rollout | Gone) -> Glance:
    """A rollout at a glance."""
    if isinstance(rollout, Gone):
        return Glance(gone=rollout.reason)
    turns = turns_of(rollout)
    own = [turn for turn in turns if turn.number is not None]
    asked = [turn.text for turn in turns if turn.number is None and turn.text]
    policy = [turn for turn in own if turn.policy]
    calls = [call for turn in policy for call in turn.calls]
    said = [turn.text for turn in own if turn.who == "tool"]
    last = next((turn.text for turn in reversed(policy) if turn.text), "")
    return Glance(
        prompt=(asked[-1] if asked else "")[:GLANCE_CHARACTERS],
        completion=last[:GLANCE_CHARACTERS],
        verifier_raw=_begin(rollout.verifier_raw),
        verifier_error=_begin(rollout.verifier_error),
        turns=len(own) if rollout.messages else 0,
        call=calls[0].in_one_line()[:GLANCE_CHARACTERS] if calls else "",
        call_broken=bool(calls and calls[0].problem),
        says=said[0][:GLANCE_CHARACTERS] if said else "",
    )


class Whole(NamedTuple):
    """A rollout with all of its texts, and its turns; or why it cannot be had."""

    rollout: Rollout | None
    turns: tuple[Turn, ...]
    gone: str = ""


def whole(rollout: Rollout | Gone) -> Whole:
    """A rollout with its turns."""
    if isinstance(rollout, Gone):
        return Whole(None, (), rollout.reason)
    return Whole(rollout, tuple(turns_of(rollout)))


class Texts(Generic[T]):
    """What has been read, by row of the Snapshot's rollouts, and what is wanted.

    Asking never reads: `get` answers None the first time and remembers the row; `read` is then called from another
    thread with what is wanted, and `keep` with what it found.
    """

    def __init__(self, make: Callable[[Rollout | Gone], T], size: int) -> None:
        self._make = make
        self._size = size
        self._kept: OrderedDict[int, T] = OrderedDict()
        self._wanted: dict[int, None] = {}

    def get(self, row: int) -> T | None:
        """What was read of a row; None until it is."""
        if row in self._kept:
            self._kept.move_to_end(row)
            return self._kept[row]
        self._wanted[row] = None
        return None

    def want_nothing(self) -> None:
        """Forget what was asked for in vain: other rows are about to be seen."""
        self._wanted = {}

    def take_wanted(self) -> list[int]:
        """The rows that were asked for in vain since the last call, in that order."""
        wanted, self._wanted = [row for row in self._wanted if row not in self._kept], {}
        return wanted[: self._size]

    def keep(self, found: Iterable[tuple[int, T]]) -> None:
        """Remember what was read; what was not seen for longest is forgotten."""
        for row, value in found:
            self._kept[row] = value
            self._kept.move_to_end(row)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def read(
        self,
        rows: Iterable[int],
        read: Callable[[int], Rollout | Gone],
        take: Callable[[list[tuple[int, T]]], object],
        seconds: float = SLICE_SECONDS,
    ) -> None:
        """Read rows and hand what is found to `take`, in slices of so long. For a thread that may wait for a disk."""
        found: list[tuple[int, T]] = []
        begun = time.monotonic()
        for row in rows:
            found.append((row, self._make(_read(read, row))))
            if time.monotonic() - begun > seconds:
                take(found)
                found, begun = [], time.monotonic()
        if found:
            take(found)


def _read(read: Callable[[int], Rollout | Gone], row: int) -> Rollout | Gone:
    try:
        return read(row)
    except Exception as error:
        return Gone(f"it cannot be read: {error or type(error).__name__}; its numbers still stand")


def _begin(text: str | None) -> str | None:
    return None if text is None else text[:GLANCE_CHARACTERS]
