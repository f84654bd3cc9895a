"""What the replay's text pane shows: one page or another, and what is marked in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from grpo_top.ui.rollouts.aligned import aligned_page
from grpo_top.ui.rollouts.document import Fixed
from grpo_top.ui.rollouts.loops import loop_marker, loop_section, loops_of
from grpo_top.ui.rollouts.tokens import By, token_marker, token_section, tokens_of
from grpo_top.ui.rollouts.turn_rows import against_section, page, record_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.against import Against
    from grpo_top.ui.rollouts.document import Passage
    from grpo_top.ui.rollouts.marks import Marker
    from grpo_top.ui.rollouts.pair import PairPage
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.rollouts.tokens import Tokens


class Page(Enum):
    """What a page is of."""

    TEXT = "text"
    """The rollout itself."""
    RECORD = "record"
    """Its record, as JSON."""
    PAIR = "pair"
    """The best and the worst of its group, side by side."""
    GROUP = "group"
    """All completions of its group, one under another."""


@dataclass(frozen=True, slots=True)
class Showing:
    """What one has chosen to see; it stays while one goes from rollout to rollout."""

    page: Page = Page.TEXT
    diff: bool = True
    """Hold the rollout against another."""
    tokens: By | None = None
    """Colour its tokens."""
    loops: bool = False
    """Mark its loops."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Makes the page that is chosen, at any width."""

    subject: Subject
    whole: Whole | None
    showing: Showing
    glyphs: Glyphs
    against: Against | None = None
    """What stands at the end of the text, where it has no place of its own."""
    record: str | None = None
    """Its record; None before it has been read, and where it is gone."""
    pair: PairPage | None = None
    said: Callable[[int], str | None] = lambda _row: None
    """What the rollouts of the group say, by their rows."""

    def pieces(self, width: int) -> list[Fixed | Passage]:
        """The page in `width` cells."""
        glyphs = self.glyphs
        match self.showing.page:
            case Page.RECORD if self.record is not None:
                return record_page(self.record, glyphs)
            case Page.RECORD if self.whole is None or not self.whole.gone:
                return [Fixed(([(" reading", "dim")],))]
            case Page.PAIR:
                if self.pair is not None:
                    return self.pair.pieces(width, glyphs)
                why = "reading" if self.subject.extremes() is not None else self.subject.no_best
                return [Fixed(([(f" {why}", "dim")],))]
            case Page.GROUP:
                return aligned_page(self.subject, self.said, width, glyphs)
        pieces = page(self.subject, self.whole, width, glyphs)
        if self.against is not None:
            pieces += against_section(self.against, width, glyphs)
        return [*self._heads(width), *pieces]

    def markers(self) -> list[Marker]:
        """What is marked in it."""
        found: list[Marker] = []
        if self.showing.page is not Page.TEXT or self.whole is None:
            return found
        if self.showing.loops:
            found.append(loop_marker(loops_of(self.whole.turns)))
        if self.showing.tokens is not None:
            tokens = tokens_of(self.whole)
            found.append(token_marker(tokens, _way(tokens, self.showing.tokens)))
        return found

    def _heads(self, width: int) -> list[Fixed | Passage]:
        """What is said of tokens and loops, at the top of the page."""
        whole = self.whole
        pieces: list[Fixed | Passage] = []
        if whole is None or whole.gone:
            return pieces
        if self.showing.tokens is not None:
            tokens = tokens_of(whole)
            pieces += token_section(tokens, _way(tokens, self.showing.tokens), width, self.glyphs)
        if self.showing.loops:
            pieces += loop_section(loops_of(whole.turns), whole.turns, width, self.glyphs)
        return pieces


def next_way(tokens: Tokens, now: By | None) -> By | None:
    """What tokens are coloured by next: one way after another, then not at all."""
    ways = tokens.ways or (By.DIFFERENCE,)
    if now is None:
        return ways[0]
    at = ways.index(now) + 1 if now in ways else len(ways)
    return ways[at] if at < len(ways) else None


def laid_out(line: bytes) -> str:
    """A line of a log with each field in a row of its own; as it is, where it is no JSON."""
    text = line.decode("utf-8", "surrogateescape")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _way(tokens: Tokens, wanted: By) -> By:
    return wanted if wanted in tokens.ways or not tokens.ways else tokens.ways[0]
