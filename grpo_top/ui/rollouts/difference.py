"""Two texts word by word: what differs, down to the characters of a word where a word was exchanged for one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_COMPARED_WORDS = 300
_COMPARED_CHARACTERS = 20_000
"""Words and characters that are compared from the first difference on: more than is seen at once, in a moment."""
_LONGEST_WORD = 200
"""Characters that are gone back to find where a word begins; a text may have no blank at all."""


class Piece(NamedTuple):
    """A part of one of the texts."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """Both texts in pieces, and how much of them differs."""

    mine: tuple[Piece, ...]
    theirs: tuple[Piece, ...]
    differing: int
    """Characters of the first text that are not in the second; of what was compared."""
    whole: bool
    """False where the texts are so long that only their beginning was compared."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not any(piece.differs for piece in (*self.mine, *self.theirs))


def difference(mine: str, theirs: str) -> Difference:
    """The difference of two texts. Equal beginnings and ends of any length cost next to nothing."""
    start = common(mine, theirs)
    # A word that differs is compared whole: go back to where it begins.
    floor = max(0, start - _LONGEST_WORD)
    while start > floor and _inside_word(mine, theirs, start):
        start -= 1
    backwards = mine[start:][::-1], theirs[start:][::-1]
    end = common(*backwards)
    floor = max(0, end - _LONGEST_WORD)
    while end > floor and _inside_word(*backwards, end):
        end -= 1
    middle = mine[start : len(mine) - end], theirs[start : len(theirs) - end]
    words = [_WORD.findall(text[:_COMPARED_CHARACTERS]) for text in middle]
    whole = max(map(len, words)) <= _COMPARED_WORDS and max(map(len, middle)) <= _COMPARED_CHARACTERS
    kept = [part[:_COMPARED_WORDS] for part in words]
    left, right = _compare(*kept)
    if whole:
        tail = mine[len(mine) - end :] if end else ""
        left.append(Piece(tail, differs=False))
        right.append(Piece(tail, differs=False))
    head = Piece(mine[:start], differs=False)
    sides = (_merged([head, *left]), _merged([head, *right]))
    return Difference(*sides, sum(len(piece.text) for piece in sides[0] if piece.differs), whole)


def _inside_word(mine: str, theirs: str, at: int) -> bool:
    """Whether a cut at `at` falls inside a word of either text."""
    return any(
        0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at]) for text in (mine, theirs)
    )


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def common(mine: str, theirs: str) -> int:
    """Length of the common beginning."""
    low, high = 0, min(len(mine), len(theirs))
    while low < high:
        middle = (low + high + 1) // 2
        if mine[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _compare(mine: list[str], theirs: list[str]) -> tuple[list[Piece], list[Piece]]:
    left: list[Piece] = []
    right: list[Piece] = []
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        before, after = "".join(mine[start:end]), "".join(theirs[other_start:other_end])
        if tag == "equal":
            left.append(Piece(before, differs=False))
            right.append(Piece(after, differs=False))
        elif tag == "replace" and end - start == other_end - other_start == 1:
            left += _within(before, after)
            right += _within(after, before)
        else:
            left.append(Piece(before, differs=True))
            right.append(Piece(after, differs=True))
    return left, right


def _within(text: str, other: str) -> list[Piece]:
    """A word that was exchanged for another: what is at both ends of both is the same, where that is half of it."""
    start = common(text, other)
    end = min(common(text[::-1], other[::-1]), min(len(text), len(other)) - start)
    if 2 * (start + end) < max(len(text), len(other)):
        return [Piece(text, differs=True)]
    stop = len(text) - end
    return [
        Piece(text[:start], differs=False),
        Piece(text[start:stop], differs=True),
        Piece(text[stop:], differs=False),
    ]


def _merged(pieces: list[Piece]) -> tuple[Piece, ...]:
    merged: list[Piece] = []
    for piece in pieces:
        if not piece.text:
            continue
        if merged and merged[-1].differs == piece.differs:
            merged[-1] = Piece(merged[-1].text + piece.text, piece.differs)
        else:
            merged.append(piece)
    return tuple(merged)
