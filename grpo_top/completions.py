"""What is measured on completions, many at once: the numbers that `text` gives one by one, at a quarter of the cost.

The texts are laid end to end, and their bytes are looked at together. One that holds what this cannot judge (white
space beyond ASCII, control or private characters) is left to `text`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

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

_CACHED = 1 << 17
"""Characters that are looked at together: the arrays about them take some ten times that."""
_SPACES = np.full(1 << 19, _SPACE, np.uint8)
"""`maximum` takes a fifth of the time with an array that it takes with a number."""

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
    places = np.flatnonzero(
        ((codes - _SPACE) >= _DELETE - _SPACE)  # wraps: controls, and all that is not ASCII
        | (codes == _LESS)
        | (codes == _BRACKET)
    )
    found = codes[places]
    folded = _folded(codes, ends)
    gibberish = [False] * len(texts)
    for place in _odd(codes, ends, places, found):
        folded[place] = text.folded(texts[place])
        gibberish[place] = text.gibberish(texts[place])
    for place in _perhaps_padding(ends, places, found, folded):
        gibberish[place] |= text.mostly_padding(texts[place])
    return Measures(
        [hash(one) or 1 for one in folded],  # of bytes: in a fraction of any digest's time
        _loops(texts, codes, ends),
        gibberish,
    )


def _folded(codes: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[bytes]:
    """Each text with every run of ASCII white space (and controls) as one space, and none at its ends.

    `codes` begins with a newline and has one after each text, at `ends`: white space at a text's ends becomes part
    of the run there.
    """
    blank = codes <= _SPACE
    again = blank[1:] & blank[:-1]
    spaced = np.maximum(codes, _SPACES[: len(codes)] if len(codes) <= len(_SPACES) else _SPACE)
    spaced[1:] |= -again.view(np.uint8)  # 255, a byte that UTF-8 does not have
    data = spaced.tobytes().replace(b"\xff", b"")
    if len(data) < len(codes):
        ends = ends - np.searchsorted(np.flatnonzero(again), ends, side="left")
    return [data[start + 1 : stop] for start, stop in pairwise((0, *ends.tolist()))]


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
    ends: NDArray[np.int64], places: NDArray[np.int64], found: NDArray[np.uint8], folded: Sequence[bytes]
) -> list[int]:
    """Numbers of the texts of which padding tokens may be the half, by how many could begin in them."""
    until = np.searchsorted(places, ends)
    most = np.diff(np.concatenate(([0], np.cumsum(_LONGEST_PADDING[found])))[until], prepend=0)
    # Of what is folded and ASCII, every second character at least is no space.
    visible = (np.array(list(map(len, folded))) - np.diff(until, prepend=0)) // 2
    return np.flatnonzero((2 * most >= visible) & (most > 0)).tolist()
