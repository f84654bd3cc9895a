"""Where a replay stands: played by words, or turn by turn where there are several turns."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.rollouts.turns import Turn

TICKS_PER_SECOND = 10
FASTEST = 9
_LONGEST_SECONDS = 60
"""A long text is played in bigger strides, so that at speed 1 it takes about so long at most."""
_CHARACTERS_PER_WORD = 4
_WORD = re.compile(r"\s*(?:\w{1,16}|[^\w\s]{1,16}|$)")
_LOOK_BACK = 256


@dataclass(frozen=True, slots=True)
class Playing:
    """A position in a rollout. By words: a place in the policy's only text; else one of its turns."""

    turns: tuple[Turn, ...]
    turn: int
    """Index of the turn that is played."""
    played: int
    """By words: characters of its text that have been played."""
    by_turns: bool
    speed: int = 4
    running: bool = False
    _ticks: int = 0

    @property
    def text(self) -> str:
        """The text that is played by words."""
        return self.turns[self.turn].text if self.turns else ""

    @property
    def current(self) -> tuple[int, int]:
        """The word that was played last: its first and last offset. Empty at both ends of the text."""
        if self.by_turns or self.played >= len(self.text):
            return (self.played, self.played)
        return (_word_start(self.text, self.played), self.played)

    @property
    def at_end(self) -> bool:
        """Whether everything has been played."""
        return self.turn >= len(self.turns) - 1 and (self.by_turns or self.played >= len(self.text))

    @property
    def share(self) -> float:
        """By words: how much of the text has been played."""
        return self.played / len(self.text) if self.text else 1.0

    def step(self, by: int) -> Playing:
        """One word or one turn on (1) or back (-1)."""
        if self.by_turns:
            return replace(self, turn=max(0, min(self.turn + by, len(self.turns) - 1)))
        if by > 0:
            return replace(self, played=_word_end(self.text, self.played))
        return replace(self, played=_word_start(self.text, self.played))

    def to_start(self) -> Playing:
        """Before the first word, or at the first turn."""
        return replace(self, turn=0) if self.by_turns else replace(self, played=0)

    def to_end(self) -> Playing:
        """After the last word, or at the last turn."""
        if self.by_turns:
            return replace(self, turn=len(self.turns) - 1, running=False)
        return replace(self, played=len(self.text), running=False)

    def stopped(self) -> Playing:
        """The same position, not played any more."""
        return replace(self, running=False)

    def at_speed(self, speed: int) -> Playing:
        """The same position at another speed."""
        return replace(self, speed=max(1, min(speed, FASTEST)))

    def toggled(self) -> Playing:
        """Go on, from the start where it was at its end; or stop."""
        if self.running or not self.turns:
            return replace(self, running=False)
        start = self.to_start() if self.at_end else self
        return replace(start, running=not start.at_end, _ticks=0)

    def tick(self) -> Playing:
        """A tenth of a second on: `speed` words, or a turn in `1 / speed` seconds."""
        if not self.running:
            return self
        now = self
        if self.by_turns:
            due = self._ticks + self.speed
            now = replace(self, _ticks=due % TICKS_PER_SECOND)
            for _ in range(due // TICKS_PER_SECOND):
                now = now.step(1)
        else:
            words = self.speed * max(
                1, len(self.text) // (_CHARACTERS_PER_WORD * TICKS_PER_SECOND * _LONGEST_SECONDS)
            )
            now = replace(self, played=_words_on(self.text, self.played, words))
        return replace(now, running=not now.at_end)


def playing(turns: Sequence[Turn]) -> Playing:
    """A rollout at its end, where all of it can be read. By words where the policy speaks once."""
    own = [index for index, turn in enumerate(turns) if turn.number is not None]
    by_turns = len(own) > 1 or not own or bool(turns[own[0]].calls)
    if by_turns:
        return Playing(tuple(turns), max(0, len(turns) - 1), 0, by_turns=True, speed=1)
    return Playing(tuple(turns), own[0], len(turns[own[0]].text), by_turns=False)


def _word_end(text: str, offset: int) -> int:
    found = _WORD.match(text, offset)
    return len(text) if found is None or found.end() == offset else found.end()


def _words_on(text: str, offset: int, words: int) -> int:
    if words > 64:
        # So big a stride that where its words end cannot be seen: only that it ends with one.
        offset = min(len(text), offset + (words - 1) * _CHARACTERS_PER_WORD)
        words = 1
    for _ in range(words):
        offset = _word_end(text, offset)
    return offset


def _word_start(text: str, offset: int) -> int:
    """Where the word begins that ends at `offset`, the blanks before it included."""
    start = max(0, offset - _LOOK_BACK)
    begin = start
    for found in _WORD.finditer(text, start, offset):
        if found.end() > found.start():
            begin = found.start()
    return begin
