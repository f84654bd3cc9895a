"""What is measured on a completion's text, and how model text is made safe to show."""

from __future__ import annotations

import re
import unicodedata

# ---- measured


def normalised(text: str) -> str:
    """The text with every run of white space as one space, and none at its ends."""
    return " ".join(text.split())


_BLANKS = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
_AS_SPACE = bytes.maketrans(_BLANKS, b" " * len(_BLANKS))


def folded(text: str) -> bytes:
    """The normalised text in UTF-8."""
    if not text.isascii():
        return normalised(text).encode("utf-8", "surrogatepass")
    # On bytes this is three times as quick as splitting into words and joining them.
    data = text.encode("ascii").translate(_AS_SPACE).strip(b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data


def text_hash(text: str) -> int:
    """A signed 64-bit hash of the normalised text, the same in every process."""
    from hashlib import blake2b  # noqa: PLC0415  it brings in OpenSSL, and a log of numbers alone has no texts

    return int.from_bytes(blake2b(folded(text), digest_size=8).digest(), "little", signed=True)


LOOP_REPEATS = 3
_LOOP_CHARACTERS = 24
LOOP_SINGLE = 12
_LOOP_DIGITS = 128
NEEDLE = 16
"""Any loop of a longer span repeats the text's last 16 characters: one period earlier they stand again."""


def ends_in_loop(text: str) -> bool:
    """Whether the tail is 3 or more repeats of one span, together 24 characters or more.

    A single character counts from 12 repeats. The last repeat need not be whole: a tail of period p that is cut
    within a repeat is as many repeats of the span that ends there. 128 digits in a row count as well: no answer
    means them.

    Candidate periods are the distances at which the last characters stand again. A period beyond p repeats
    the last 2 (p + 1) characters at least, so after each failure the needle grows. Of two failures close to each
    other the theorem of Fine and Wilf makes a shorter period that holds, so there are O(log n) of them.
    """
    size = len(text)
    if size < LOOP_SINGLE:
        return False
    if text.endswith(text[-1] * LOOP_SINGLE):
        return True
    if size >= _LOOP_DIGITS and text[-1].isdecimal() and text[-_LOOP_DIGITS:].isdecimal():
        return True
    if size < _LOOP_CHARACTERS:
        return False
    longest = size // LOOP_REPEATS
    needle = text[-NEEDLE:]
    if (
        needle not in text[max(0, size - longest - NEEDLE) : -1]
    ):  # twice as quick as `find`, and nearly always so
        return False
    backwards = text[::-1]  # `find` is linear for long needles, `rfind` is not
    period = backwards.find(needle[::-1], 1)
    while 0 < period <= longest:
        repeats = max(LOOP_REPEATS, -(-_LOOP_CHARACTERS // period))
        whole = period * repeats
        if whole <= size and backwards.startswith(backwards[: whole - period], period):
            return True
        needle = backwards[: max(NEEDLE, 2 * (period + 1))]
        period = backwards.find(needle, period + 1, longest + len(needle))
    return False


_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09, 0x0A, 0x0B, 0x0C, 0x0D})
# As strings, which `re` compiles when they are first used: a log of numbers alone has no texts.
_JUNK = "[\ufffd\x80-\x9f\ud800-\udfff\ue000-\uf8ff]"
_PADDING = (
    r"(?i)<｜[^｜<>]{1,40}｜>|<\|?(?:pad|endoftext|end_of_text|finetune_right_pad_id|vision_pad|image_pad|eos|bos|unk|mask|s|/s|"
    r"im_end|im_start|eot_id|reserved_special_token_\d{1,6}|extra_id_\d{1,6}|unused\d{1,6})\|?>|\[(?:PAD|UNK|MASK)\]"
)
LONGEST_PADDING = {"<": 44, "[": 6}
"""How a padding token begins → the most characters that one which begins so can have."""
_PERHAPS_BLANK = _BLANKS + bytes(range(0x80, 0xC0)) + b"\xc2\xe1\xe2\xe3"
"""Bytes of UTF-8 without which one byte at most is left of a character, and none of white space."""


def gibberish(text: str) -> bool:
    """Whether half of what is not white space is replacement characters, controls or padding tokens.

    Padding counts from two tokens on: a single end token is how a completion ends.
    """
    data = text.encode("utf-8", "surrogatepass")
    junk = len(data) - len(data.translate(None, _CONTROLS))
    if not text.isascii():
        junk += len(re.findall(_JUNK, text))
    return mostly_padding(text, junk)


def mostly_padding(text: str, junk: int = 0) -> bool:
    """Whether padding tokens, with `junk` other characters, are half of what is not white space."""
    most = junk + sum(
        longest * text.count(start) for start, longest in LONGEST_PADDING.items() if start in text
    )
    # Tags and brackets are common, and looking whether they are padding is slow.
    if not most or 2 * most < len(text.encode("utf-8", "surrogatepass").translate(None, _PERHAPS_BLANK)):
        return False
    tokens = re.findall(_PADDING, text)
    if len(tokens) > 1:
        junk += sum(map(len, tokens))
    return junk > 0 and 2 * junk >= sum(map(len, text.split()))


# ---- shown

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_HIDDEN_LETTERS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
_HIDDEN_LETTER = re.compile(f"[{_HIDDEN_LETTERS}]")
"""Letters and marks by category that print nothing: fillers and variation selectors."""


class _Symbols(dict[int, str]):
    """A `str.translate` table that is made as characters are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if code < 0x20 or code == 0x7F:
            shown = chr(0x2421 if code == 0x7F else 0x2400 + code)
        elif unicodedata.category(character) in _HIDDEN_CATEGORIES or _HIDDEN_LETTER.match(character):
            shown = f"⟨U+{code:04X}⟩"
        else:
            shown = character
        if len(self) < 1 << 16:
            self[code] = shown
        return shown


_symbols_one_line = _Symbols({0x09: "\t"})
_symbols_lines = _Symbols({0x09: "\t", 0x0A: "\n"})


def safe(text: str, *, newlines: bool = False, tab: int = 4) -> str:
    """Model text with everything that a terminal could act on, or that would hide, made visible.

    C0 controls and DEL become their pictures (`␛`, `␊`). Every other control, format, private, unassigned or
    surrogate character, line separator and invisible filler becomes its number: `⟨U+202E⟩`. Tabs become spaces
    up to the next multiple of `tab` (0 shows `␉`), and newlines stay where `newlines` asks for them. Markup is
    not escaped: nothing parses it.
    """
    printable = text.replace("\n", "").isprintable() if newlines else text.isprintable()
    if printable and (text.isascii() or not _HIDDEN_LETTER.search(text)):
        return text
    shown = text.translate(_symbols_lines if newlines else _symbols_one_line)
    return shown.expandtabs(tab) if tab > 0 else shown.replace("\t", "␉")


def cells(text: str) -> int:
    """Terminal cells that a safe text takes: 2 for wide characters, 0 for combining ones."""
    return len(text) if text.isascii() else sum(map(_width, text))


def first_line(text: str, width: int) -> str:
    """The first line that is not blank, safe, in `width` cells at most; ends in `…` where anything is left out."""
    start = _NOT_BLANK.search(text)
    if start is None or width < 1:
        return ""
    # All characters but combining ones take a cell at least: a window of a few for each cell is enough.
    begin = start.start()
    line = text[begin : begin + 4 * width + 64].splitlines()[0].rstrip()
    shown = safe(line)
    if cells(shown) <= width and not _NOT_BLANK.search(text, begin + len(line)):
        return shown
    return _cut(shown, width - 1) + "…"


_NOT_BLANK = re.compile(r"\S")


def _cut(text: str, width: int) -> str:
    """The longest beginning of a safe text that takes at most `width` cells."""
    if text.isascii():
        return text[:width]
    room = width
    for index, character in enumerate(text):
        room -= _width(character)
        if room < 0:
            return text[:index]
    return text


def _width(character: str) -> int:
    if character < "\u0300":
        return 1
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    # Hangul vowels and final consonants join the consonant before them.
    joins = "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7ff"
    return 0 if joins or unicodedata.category(character) in {"Mn", "Me"} else 1
