"""What is measured on completions, many at once: the numbers that `text` gives one by one, at a quarter of the cost.

The texts are laid end to end, and their bytes are looked at together. One that holds what this cannot judge (white
space beyond ASCII, control or private characters) is left to `text`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import text
from grpo_top.text import LONGEST_PADDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_TAB, _RETURN, _SPACE, _DELETE, _FIRST_LEAD = 0x09, 0x0D, 0x20, 0x7F, 0xC2

_NEVER = np.uint8(0xFF)
"""A byte that UTF-8 does not have."""
_CACHED = 1 << 17
"""Characters that are looked at together: the arrays about them take some ten times that."""

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
    special = np.flatnonzero(
        (codes - _SPACE) >= _DELETE - _SPACE
    )  # wraps: controls, and all that is not ASCII
    folded = _folded(codes, ends)
    gibberish = [False] * len(texts)
    for place in _odd(codes, ends, special):
        folded[place] = text.folded(texts[place])
        gibberish[place] = text.gibberish(texts[place])
    for place in _perhaps_padding(codes, ends, special, folded):
        gibberish[place] |= text.mostly_padding(texts[place])
    return Measures(
        [hash(one) or 1 for one in folded],  # of bytes: in a fraction of any digest's time
        list(map(text.ends_in_loop, texts)),
        gibberish,
    )


def _folded(codes: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[bytes]:
    """Each text with every run of ASCII white space (and controls) as one space, and none at its ends.

    `codes` begins with a newline and has one after each text, at `ends`: white space at a text's ends becomes part
    of the run there.
    """
    blank = codes <= _SPACE
    again = blank[1:] & blank[:-1]
    spaced = np.maximum(codes, _SPACE)
    spaced[1:] |= again * _NEVER
    data = spaced.tobytes().replace(b"\xff", b"")
    if len(data) < len(codes):
        ends = ends - np.searchsorted(np.flatnonzero(again), ends, side="left")
    return [data[start + 1 : stop] for start, stop in pairwise((0, *ends.tolist()))]


def _odd(codes: NDArray[np.uint8], ends: NDArray[np.int64], special: NDArray[np.int64]) -> list[int]:
    """Numbers of the texts that hold a character which is left to `text`."""
    if len(special) == len(ends) + 1:  # nothing but the newlines around the texts
        return []
    found = codes[special]
    odd = special[((found < _TAB) | (found > _RETURN)) & (found <= _DELETE)]
    lead = special[found >= _FIRST_LEAD]
    if len(lead):
        first, second, third = (
            codes[np.minimum(lead + i, len(codes) - 1)].astype(np.int32) for i in range(3)
        )
        inside = np.searchsorted(_ODD, (first << 16) | (second << 8) | third, side="right") % 2 == 1
        odd = np.concatenate((odd, lead[inside]))
    return _as_list(np.unique(np.searchsorted(ends, odd)))


def _perhaps_padding(
    codes: NDArray[np.uint8], ends: NDArray[np.int64], special: NDArray[np.int64], folded: Sequence[bytes]
) -> list[int]:
    """Numbers of the texts of which padding tokens may be the half, by how many could begin in them."""
    opening = np.flatnonzero((codes == ord("<")) | (codes == ord("[")))
    if not len(opening):
        return []
    longest = np.where(codes[opening] == ord("<"), LONGEST_PADDING["<"], LONGEST_PADDING["["])
    most = np.bincount(np.searchsorted(ends, opening), longest, len(ends))
    # Of what is folded and ASCII, every second character at least is no space.
    visible = (np.array(list(map(len, folded))) - _count(special, ends)) // 2
    return _as_list(np.flatnonzero(2 * most >= visible))


def _count(positions: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the ascending positions lie in each text."""
    return np.diff(np.searchsorted(positions, ends), prepend=0)


def _as_list(values: NDArray[np.int64]) -> list[int]:
    return values.tolist()  # type: ignore[no-any-return]
