"""What is measured on completions, many at once: the numbers that `text` gives one by one, at a fraction of the cost.

The texts are laid end to end, and their bytes are looked at together. One that holds what this cannot judge (white
space beyond ASCII, control or private characters) is left to `text`, and so is one that may be a loop or padding.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import text
from grpo_top.text import LONGEST_PADDING, LOOP_REPEATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_SPACE, _FIRST_LEAD = 0x20, 0xC2
_MARK, _FALLS = b"\xfe", b"\xff"
"""Bytes that UTF-8 does not have: between texts, and in place of what is taken out."""
_BETWEEN = b"\n" + _MARK + b"\n"
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")
_LEADS_ODD = np.zeros(256, np.bool_)
"""First bytes of characters some of which are odd."""
_LEADS_ODD[[0xC2, 0xE1, 0xE2, 0xE3, 0xED, 0xEE, 0xEF]] = True
_LESS, _BRACKET, _SLASH = ord("<"), ord("["), ord("/")
"""What padding tokens begin with."""
_IN_PADDING = np.zeros(256, np.bool_)
"""What can follow on that in one, or on a slash after it: letters in any case, some cases of which are beyond ASCII."""
_IN_PADDING[[*b"|bBeEfFiImMpPrRsSuUvV", *range(0x80, 0x100)]] = True

_CACHED = 3 << 16
"""Characters that are looked at together: what they take in all stays in the processor's cache, and what each call
costs is shared by a hundred texts."""
_KEPT = 1 << 20
"""Bytes that are looked at together for which memory is kept."""
_TAIL = 11
"""Any loop repeats its last bytes within itself: so many of a single character, which is 12 times there."""

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
    np.uint32,
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
    codes: NDArray[np.uint8]
    others: NDArray[np.uint8]
    spaces: NDArray[np.uint8]
    """All of them spaces: `maximum` takes a tenth of the time with an array that it takes with a number."""


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
    codes, others = np.empty(size, np.uint8), np.empty(size, np.uint8)
    return _Arrays(np.empty(size, np.bool_), codes, others, np.full(size, _SPACE, np.uint8))


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
    """Neighbouring texts that together stay in the processor's cache, in portions of about the same size."""
    total = sum(map(len, texts))
    most = total / max(round(total / _CACHED), 1)
    start = size = 0
    for place, one in enumerate(texts):
        size += len(one)
        if size >= most:
            yield texts[start : place + 1]
            start, size = place + 1, 0
    if start < len(texts):
        yield texts[start:]


def _measure(texts: Sequence[str]) -> Measures:
    encoded = _encoded(texts)
    # Each text lies between newlines: white space at its ends becomes part of a run there.
    data = _BETWEEN.join((b"", *encoded, b""))
    room = _room.of(len(data))
    folded = _folded(data, room, len(texts))
    with_odd, padding = _rare(data, room, encoded)
    odd = {*_with_controls(data, room, encoded), *with_odd}
    for place in odd:
        folded[place] = text.folded(texts[place])
    gibberish = [False] * len(texts)
    for place in odd.union(_perhaps_padding(texts, encoded, folded) if padding else ()):
        gibberish[place] = text.gibberish(texts[place])
    return Measures(
        [hash(one) or 1 for one in folded],  # of bytes: in a fraction of any digest's time
        _loops(texts, encoded),
        gibberish,
    )


def _encoded(texts: Sequence[str]) -> list[bytes]:
    """Each text in UTF-8; lone surrogates as if they were characters."""
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return [one.encode("utf-8", "surrogatepass") for one in texts]


def _folded(data: bytes, room: _Arrays, texts: int) -> list[bytes]:
    """Each text with every run of ASCII white space (and controls) as one space, and none at its ends."""
    spaced = np.maximum(np.frombuffer(data, np.uint8), room.spaces, out=room.codes)
    both = np.bitwise_or(spaced[1:], spaced[:-1], out=room.others[1:])
    again = np.equal(both, _SPACE, out=room.flags[1:])
    spaced[1:] |= np.negative(again.view(np.uint8), out=both)  # 255 where there was a space before
    left = spaced.tobytes().replace(_FALLS, b"")
    found = []
    start = len(_BETWEEN)
    for _ in range(texts):
        mark = left.find(_MARK, start)
        found.append(left[start : mark - 1])
        start = mark + 2
    return found


def _with_controls(data: bytes, room: _Arrays, encoded: Sequence[bytes]) -> list[int]:
    """Numbers of the texts that hold a control which is no white space."""
    codes = np.frombuffer(data, np.uint8)
    # White space is 9 to 13. What is below a number that is taken off becomes the highest there is.
    below = np.minimum.reduce(codes) < 9
    above = np.minimum.reduce(np.subtract(codes, 14, out=room.others)) < _SPACE - 14
    if not below and not above and b"\x7f" not in data:
        return []
    return [place for place, one in enumerate(encoded) if _CONTROL.search(one)]


def _rare(data: bytes, room: _Arrays, encoded: Sequence[bytes]) -> tuple[Sequence[int], bool]:
    """Numbers of the texts that hold a character beyond ASCII which is left to `text`; whether one may be padding.

    What neither can be without is rare: all of it is found in one go, and the rest is done on that alone.
    """
    codes = np.frombuffer(data, np.uint8)
    rare = np.greater_equal(codes, _FIRST_LEAD, out=room.flags)
    for begin in (_LESS, _BRACKET):
        rare |= np.equal(codes, begin, out=room.others.view(np.bool_))
    places = np.flatnonzero(rare)
    those = codes[places]
    begins = places[those < _FIRST_LEAD] + 1
    begins += codes[begins] == _SLASH
    odd = _odd(data, places[_LEADS_ODD[those]])
    texts: Sequence[int] = ()
    if len(odd):
        ends = np.cumsum([len(one) + len(_BETWEEN) for one in encoded])
        texts = np.unique(np.searchsorted(ends, odd, side="right")).tolist()
    return texts, int(np.count_nonzero(_IN_PADDING[codes[begins]])) > 1


def _odd(data: bytes, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of some places where an odd character begins. Any character has two more bytes to look at."""
    characters = np.ndarray((len(data) - 3,), ">u4", data, strides=(1,))[places] >> 8
    are_odd: NDArray[np.bool_] = np.searchsorted(_ODD, characters, side="right") % 2 == 1
    return places[are_odd]


def _perhaps_padding(
    texts: Sequence[str], encoded: Sequence[bytes], folded: Sequence[bytes]
) -> Iterator[int]:
    """Numbers of the texts of which padding tokens may be the half, by how many could begin in them."""
    of_less, of_bracket = LONGEST_PADDING["<"], LONGEST_PADDING["["]
    for place, (one, data, short) in enumerate(zip(texts, encoded, folded, strict=True)):
        size = len(data)
        # To take a character out is the quickest way to count it.
        most = of_less * (size - len(data.replace(b"<", b"")))
        most += of_bracket * (size - len(data.replace(b"[", b"")))
        # Of what is folded every second character at least is no space.
        if most and 4 * most >= len(one) - size + len(short):
            yield place


def _loops(texts: Sequence[str], encoded: Sequence[bytes]) -> list[bool]:
    """Whether each text ends in a loop: in nearly all of them the last bytes stand nowhere before."""
    perhaps = [
        data.find(tail, -(len(data) // LOOP_REPEATS) - _TAIL, -1) >= 0 or tail.isdigit() or not tail.isascii()
        for data in encoded
        for tail in (data[-_TAIL:],)
    ]
    if True in perhaps:
        return [may and text.ends_in_loop(one) for may, one in zip(perhaps, texts, strict=True)]
    return perhaps
