"""A text of any length as lines of a width, wrapped only around what is looked at.

A line is a pair of offsets into the raw text. Where the lines lie depends on the text and the width alone, not on
where one began to look: paragraphs are cut into blocks at fixed places, and a block is wrapped as one piece.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from grpo_top.text import cells, safe

_BLOCK = 2048
"""Characters that are wrapped at once; a paragraph that is longer has a line break at about every so many."""
_BACK = 200
"""A block ends at the last blank among so many characters, so that no word is cut."""
_KEPT_BLOCKS = 64
_TAB = "    "
_BLANKS = " \t"
"""What a line may break at. Other white space, such as a carriage return, is shown as a symbol."""


class Line(NamedTuple):
    """From where to where a line reaches in the raw text; blanks at its end are left out, a newline always."""

    start: int
    end: int


class Wrapped:
    """A raw text, wrapped to `width` cells as it is shown: with every control and invisible character as a symbol."""

    def __init__(self, text: str, width: int) -> None:
        self.text = text
        self.width = max(1, width)
        self._blocks: OrderedDict[int, list[Line]] = OrderedDict()
        self._looked_at: deque[tuple[int, int]] = deque(maxlen=4)
        """The blocks found last: to find one, a long paragraph is searched for its ends."""

    def shown(self, start: int, end: int) -> str:
        """A part of the text, safe to show. Tabs are four blanks, so that parts of a line are as wide as the line."""
        return shown(self.text[start:end])

    def at(self, offset: int) -> Line:
        """The line that an offset lies on."""
        start, end = self._block(min(max(offset, 0), len(self.text)))
        found = Line(start, start)
        for line in self._wrapped(start, end):
            if line.start > offset:
                break
            found = line
        return found

    def after(self, line: Line) -> Line | None:
        """The next line; None after the last."""
        start, end = self._block(line.start)
        lines = self._wrapped(start, end)
        later = next((each for each in lines if each.start > line.start), None)
        if later is not None:
            return later
        if end >= len(self.text):
            return None
        return self.at(end + 1 if self.text[end] == "\n" else end)

    def before(self, line: Line) -> Line | None:
        """The line before; None before the first."""
        start, end = self._block(line.start)
        earlier = [each for each in self._wrapped(start, end) if each.start < line.start]
        if earlier:
            return earlier[-1]
        return self.at(start - 1) if start > 0 else None

    @property
    def last(self) -> Line:
        """The last line."""
        return self.at(len(self.text))

    def first_lines(self, count: int) -> list[str]:
        """At most so many lines from the beginning, safe to show."""
        found: list[str] = []
        line: Line | None = self.at(0)
        while line is not None and len(found) < count:
            found.append(self.shown(*line))
            line = self.after(line)
        return found

    def height(self, most: int) -> int:
        """How many lines it has; counted up to `most`."""
        count, line = 0, self.at(0) if most > 0 else None
        while line is not None and count < most:
            count += 1
            line = self.after(line)
        return count

    def _block(self, offset: int) -> tuple[int, int]:
        """Where the block begins and ends that holds an offset. A newline belongs to the block that it ends."""
        for start, end in self._looked_at:
            if start <= offset < end or (offset == end and (end == len(self.text) or self.text[end] == "\n")):
                return start, end
        found = self._find_block(offset)
        self._looked_at.append(found)
        return found

    def _find_block(self, offset: int) -> tuple[int, int]:
        paragraph = self.text.rfind("\n", 0, offset) + 1
        found = self.text.find("\n", offset)
        paragraph_end = len(self.text) if found < 0 else found
        number = (offset - paragraph) // _BLOCK
        start = self._cut(paragraph, paragraph_end, number)
        while start > offset:
            number -= 1
            start = self._cut(paragraph, paragraph_end, number)
        end = self._cut(paragraph, paragraph_end, number + 1)
        if end <= offset < paragraph_end:
            start, end = end, self._cut(paragraph, paragraph_end, number + 2)
        return start, end

    def _cut(self, paragraph: int, paragraph_end: int, number: int) -> int:
        """Where the block of that number of a paragraph begins."""
        at = paragraph + number * _BLOCK
        if number <= 0:
            return paragraph
        if at >= paragraph_end:
            return paragraph_end
        blank = self.text.rfind(" ", at - _BACK, at)
        return blank + 1 if blank >= 0 else at

    def _wrapped(self, start: int, end: int) -> list[Line]:
        known = self._blocks.get(start)
        if known is None:
            known = self._blocks[start] = wrap(self.text[start:end], self.width, start)
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        return known


def shown(raw: str) -> str:
    """A raw text of one line, safe to show; its tabs are four blanks each."""
    return safe(raw.replace("\t", _TAB))


def wrap(raw: str, width: int, offset: int = 0) -> list[Line]:
    """The lines of a text without newlines: broken at blanks, within a word only where it is wider than a line."""
    plain = raw.isascii() and raw.isprintable()
    lines: list[Line] = []
    start, size = 0, len(raw)
    while start < size:
        stop = min(size, start + width) if plain else _fits(raw, start, width)
        if stop < size and raw[stop] not in _BLANKS:
            blank = max(raw.rfind(" ", start, stop), raw.rfind("\t", start, stop))
            # Blanks alone before it are an indent: breaking there would leave an empty line.
            if blank >= 0 and raw[start:blank].strip(_BLANKS):
                stop = blank
        text_end = start + len(raw[start:stop].rstrip(_BLANKS))
        lines.append(Line(offset + start, offset + (text_end if text_end > start else stop)))
        while stop < size and raw[stop] in _BLANKS:
            stop += 1
        start = stop
    return lines or [Line(offset, offset)]


def _fits(raw: str, start: int, width: int) -> int:
    """How far a line can reach from `start`: at least one character, however wide it is shown."""
    room = width
    for position in range(start, len(raw)):
        room -= cells(shown(raw[position]))
        if room < 0:
            return max(position, start + 1)
    return len(raw)
