"""What a report is made of, whatever it is written as. Texts are as they were logged: whoever writes them
down makes them safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Heading(NamedTuple):
    """A heading; `anchor` is what links name it by."""

    level: int
    text: str
    anchor: str = ""


class Paragraph(NamedTuple):
    """A paragraph; `role` is `ok`, `watch`, `warn`, `fail`, `info` or empty."""

    text: str
    role: str = ""


class Table(NamedTuple):
    """A table."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Code(NamedTuple):
    """A word of code in a sentence."""

    text: str


class Link(NamedTuple):
    """A word that leads to an anchor of the same document."""

    text: str
    anchor: str


Words = Sequence[str | Code | Link]
"""A sentence in pieces."""


class Prose(NamedTuple):
    """A paragraph whose words are not all alike."""

    words: Words


class Listing(NamedTuple):
    """Lines of a list."""

    items: Sequence[str | Prose]
    ordered: bool = False


class Chart(NamedTuple):
    """One series over steps."""

    title: str
    newest: str
    """Its newest value, as it is written."""
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    limit: float | None
    spans: Sequence[tuple[int, int]]
    """Steps at which a finding about it stood."""
    onset: int | None
    """First step of the first cause."""
    mean: bool
    """Whether the line is the 20-step mean; else it joins the points."""
    behind: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
    """Steps and values of the reference, drawn behind it."""


class Charts(NamedTuple):
    """Charts beside each other, on one axis of steps."""

    charts: Sequence[Chart]


class Verbatim(NamedTuple):
    """Text as it is, its lines kept."""

    text: str


class Fold(NamedTuple):
    """Blocks that are shown when asked for."""

    summary: str
    blocks: Sequence[Block]


Block = Heading | Paragraph | Prose | Table | Listing | Charts | Verbatim | Fold


class Marks(NamedTuple):
    """How words are written down: each makes what it is given safe."""

    text: Callable[[str], str]
    code: Callable[[str], str]
    link: Callable[[str, str], str]
    """Text and anchor → a link."""

    def words(self, words: Words) -> str:
        """A sentence."""
        return "".join(map(self._word, words))

    def item(self, item: str | Prose) -> str:
        """A line of a list."""
        return self.words(item.words) if isinstance(item, Prose) else self.text(item)

    def _word(self, word: str | Code | Link) -> str:
        match word:
            case Code(text):
                return self.code(text)
            case Link(text, anchor):
                return self.link(text, anchor)
            case text:
                return self.text(text)
