"""What is measured on completions, many at once: the numbers that `text` gives one by one, at a quarter of the cost.

The texts are laid end to end, and their bytes are looked at together. One that holds what this cannot judge (white
space beyond ASCII, control or private characters) is left to `text`.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top import text
from grpo_top.text import LONGEST_PADDING, LOOP_REPEATS, LOOP_SINGLE, NEEDLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_SPACE, _LESS, _BRACKET, _DELETE, _FIRST_LEAD = 0x20, 0x3C, 0x5B, 0x7F, 0xC2
_LEFT_TO_TEXT = np.zeros(256, np.bool_)
"""Controls that are no white space."""
_LEFT_TO_TEXT[[*range(0x09), *range(0x0E, 0x20), _DELETE]] = True
_LONGEST_PADDING = np.zeros(256, np.int64)
"""How long a padding token that begins with a character can be."""
_LONGEST_PADDING[[_LESS, _BRACKET]] = LONGEST_PADDING["<"], LONGEST_PADDING["["]

_CACHED = 3 << 15
"""Characters that are looked at together: what they take in all stays in the processor's cache, and each array of
theirs is smaller than what the allocator asks the system for anew."""
_KEPT = 1 << 19
"""Bytes that are looked at together for which memory is kept."""

_ODD = np.array(
    [
        *(0xC28000, 0xC2A100),  # C1 controls, no-break space
        *(0xE19A80, 0xE19A81),  # ogham space
        *(0xE28080, 0xE2808B),  # spaces of many widths
        *(0xE280A8, 0xE280AA),  # line and paragraph separator
        *(0xE280AF, 0xE280B0),  # narrow no-break space
        *(0xE2819F, 0xE281A0),  # mathematical space
        *(0xE38080, 0xE38081),  # ideographic space
        *(0xEDA000, 0xEFA400),  # surrogates, private
        *(0xEFBFBD, 0xEFBFBE),  # replacement character
    ],
    np.int32,
)
"""Characters that are left to `text`: half-open ranges of the first three bytes of their UTF-8 form."""


class Measures(NamedTuple):
    """One element a text."""

    keys: list[int]
    """Equal for texts that are equal once white space is folded, and for no others; never 0. Good in this process."""
    loops: list[bool]
    """See `text.ends_in_loop`."""
    gibberish: list[bool]
    """See `text.gibberish`."""


class _Arrays(NamedTuple):
    """Arrays to work in, one element a byte."""

    flags: NDArray[np.bool_]
    others: NDArray[np.bool_]
    again: NDArray[np.bool_]
    codes: NDArray[np.uint8]
    spaces: NDArray[np.uint8]
    """All of them spaces: `maximum` takes a fifth of the time with an array that it takes with a number."""


class _Room(threading.local):
    """What a thread works in: to get memory anew for each few texts takes as long as to look at them."""

    def __init__(self) -> None:
        self._kept = _arrays(0)

    def of(self, size: int) -> _Arrays:
        """Arrays of that size; what was in them is overwritten."""
        if size > _KEPT:
            return _arrays(size)
        if size > len(self._kept.codes):
            self._kept = _arrays(min(2 * size, _KEPT))
        return _Arrays._make(array[:size] for array in self._kept)


def _arrays(size: int) -> _Arrays:
    flags, others, again = (np.empty(size, np.bool_) for _ in range(3))
    return _Arrays(flags, others, again, np.empty(size, np.uint8), np.full(size, _SPACE, np.uint8))


_room = _Room()


def measure_texts(texts: Sequence[str]) -> Measures:
    """What is kept of each text."""
    found = Measures([], [], [])
    for few in _portions(texts):
        keys, loops, gibberish = _measure(few)
        found.keys.extend(keys)
        found.loops.extend(loops)
        found.gibberish.extend(gibberish)
    return found


def text_key(one: str) -> int:
    """The key of one text, see `Measures.keys`."""
    return measure_texts([one]).keys[0]


def _portions(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Neighbouring texts that together stay in the processor's cache; a long one by itself."""
    start = size = 0
    for place, one in enumerate(texts):
        size += len(one)
        if size > _CACHED:
            yield texts[start : place + 1]
            start, size = place + 1, 0
    if start < len(texts):
        yield texts[start:]


def _measure(texts: Sequence[str]) -> Measures:
    encoded = [one.encode("utf-8", "surrogatepass") for one in texts]
    codes = np.frombuffer(b"\n".join((b"", *encoded, b"")), np.uint8)
    ends = np.cumsum([len(one) + 1 for one in encoded], dtype=np.int64)
    room = _room.of(len(codes))
    places = _places(codes, room)
    found, until = codes[places], np.searchsorted(places, ends, side="right")
    folded = _folded(codes, room, ends - _so_far(room.again[places], until))
    gibberish = [False] * len(texts)
    for place in _odd(codes, ends, places, found):
        folded[place] = text.folded(texts[place])
        gibberish[place] = text.gibberish(texts[place])
    for place in _perhaps_padding(until, found, folded):
        gibberish[place] |= text.mostly_padding(texts[place])
    return Measures(
        [hash(one) or 1 for one in folded],  # of bytes: in a fraction of any digest's time
        _loops(texts, codes, ends),
        gibberish,
    )


def _places(codes: NDArray[np.uint8], room: _Arrays) -> NDArray[np.int64]:
    """Where there is something that matters; which white space follows on other white space is in `room.again`."""
    blank = np.less_equal(codes, _SPACE, out=room.flags)
    room.again[0] = False
    np.logical_and(blank[1:], blank[:-1], out=room.again[1:])
    np.subtract(codes, _SPACE, out=room.codes)  # wraps: controls, and all that is not ASCII, come to lie high
    matters = np.greater_equal(room.codes, _DELETE - _SPACE, out=room.flags)
    for character in (_LESS, _BRACKET):
        matters |= np.equal(codes, character, out=room.others)
    matters |= room.again
    return np.flatnonzero(matters)


def _folded(codes: NDArray[np.uint8], room: _Arrays, ends: NDArray[np.int64]) -> list[bytes]:
    """Each text with every run of ASCII white space (and controls) as one space, and none at its ends.

    `codes` begins with a newline and has one after each text: white space at a text's ends becomes part of the run
    there. `ends` is where these newlines come to lie.
    """
    spaced = np.maximum(codes, room.spaces, out=room.codes)
    # 255, a byte that UTF-8 does not have, marks what falls.
    spaced |= np.negative(room.again.view(np.uint8), out=room.others.view(np.uint8))
    data = spaced.tobytes().replace(b"\xff", b"")
    return [data[start + 1 : stop] for start, stop in pairwise((0, *ends.tolist()))]


def _so_far(values: NDArray[Any], until: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sums of the first so many values."""
    sums: NDArray[np.int64] = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[until]
    return sums


def _loops(texts: Sequence[str], codes: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[bool]:
    """Whether each text ends in a loop: in nearly all of them its last characters stand nowhere before."""
    again = [one[-NEEDLE:] in one[-(len(one) // LOOP_REPEATS) - NEEDLE : -1] for one in texts]
    # What these do not tell: a single character that is repeated, and digits.
    last = codes[ends - 1]
    single = (last == codes[np.maximum(ends - LOOP_SINGLE, 0)]) | (last >= _DELETE)
    digit = (last >= ord("0")) & (last <= ord("9"))
    for place in np.flatnonzero(np.array(again, np.bool_) | single | digit).tolist():
        again[place] = text.ends_in_loop(texts[place])
    return again


def _odd(
    codes: NDArray[np.uint8], ends: NDArray[np.int64], places: NDArray[np.int64], found: NDArray[np.uint8]
) -> list[int]:
    """Numbers of the texts that hold a character which is left to `text`, by what was found at which places."""
    odd = places[_LEFT_TO_TEXT[found]]
    lead = places[found >= _FIRST_LEAD]
    if len(lead):
        first, second, third = (
            codes[np.minimum(lead + i, len(codes) - 1)].astype(np.int32) for i in range(3)
        )
        inside = np.searchsorted(_ODD, (first << 16) | (second << 8) | third, side="right") % 2 == 1
        odd = np.concatenate((odd, lead[inside]))
    return np.unique(np.searchsorted(ends, odd)).tolist() if len(odd) else []


def _perhaps_padding(
    until: NDArray[np.int64], found: NDArray[np.uint8], folded: Sequence[bytes]
) -> list[int]:
    """Numbers of the texts of which padding tokens may be the half, by how many could begin in them.

    `until` is how much was found up to the end of each.
    """
    most = np.diff(_so_far(_LONGEST_PADDING[found], until), prepend=0)
    # Of what is folded and ASCII, every second character at least is no space.
    visible = (np.array(list(map(len, folded))) - np.diff(until, prepend=0)) // 2
    return np.flatnonzero((2 * most >= visible) & (most > 0)).tolist()
