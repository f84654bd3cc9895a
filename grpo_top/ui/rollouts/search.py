"""Looks for texts in the log, newest first, in a thread of its own: what was found so far can be seen at any time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.scan import Literal, Looked
from grpo_top.snapshot import Gone
from grpo_top.ui.rollouts.pattern_process import UNKNOWN, PatternProcess, TooSlow
from grpo_top.ui.rollouts.text_terms import folded, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from grpo_top.records import Rollout
    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.rollouts.text_terms import TextTerm

    Rows = NDArray[np.int64]

TELL_SECONDS = 0.15
"""What was found is told of so often, the first of it at once."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is."""

    looked: int = 0
    """Rollouts looked at."""
    of: int = 0
    size: int = 0
    """Bytes read."""
    seconds: float = 0.0
    hits: int = 0
    running: bool = True
    stopped: bool = False
    """Ended by who looks, before all was looked at."""
    failed: bool = False
    """Ended by what `trouble` says."""
    unread: int = 0
    """Rollouts, or files, that could not be read."""
    slow: int = 0
    """Texts on which a pattern took too long."""
    trouble: str = ""
    """Why it ended, or why something could not be read."""


class _Tally:
    """What the searching thread counts."""

    def __init__(self) -> None:
        self.begun = self._told = time.monotonic()
        self.looked = self.size = self.slow = 0
        self.reasons: Counter[str] = Counter()
        """Why something could not be read → how often."""
        self.found: list[int] = []
        self._first = True

    @property
    def is_due(self) -> bool:
        """Whether it is time to tell of it: the first that is found is told of at once."""
        return (self._first and bool(self.found)) or time.monotonic() - self._told >= TELL_SECONDS

    def taken(self) -> Rows:
        """What was found since the last call."""
        found, self.found = np.array(self.found, np.int64), []
        self._told, self._first = time.monotonic(), self._first and not len(found)
        return found


class Search:
    """One search: terms, and the rows in which they are looked for.

    Args:
        terms: what a rollout's texts must hold, all of it.
        rows: the rollouts to look at.
        snapshot: what they are of.
    """

    def __init__(self, terms: Sequence[TextTerm], rows: Rows, snapshot: Snapshot) -> None:
        self.progress = Progress(of=len(rows))
        self._terms = tuple(terms)
        self._rows = rows
        self._snapshot = snapshot
        self._stopping = threading.Event()
        self._patterns: PatternProcess | None = None

    def stop(self) -> None:
        """End it soon; what was found stays found. Safe from any thread."""
        self._stopping.set()
        if self._patterns is not None:
            self._patterns.interrupt()

    def run(self, tell: Callable[[Progress, Rows], object]) -> None:
        """Search; `tell` is called with how far it is and the rows found since it was called last. Blocks."""
        tally, trouble = _Tally(), ""
        terms = _Terms(self._terms)
        try:
            with terms:
                self._patterns = terms.patterns
                for looked in self._looks():
                    if self._stopping.is_set():
                        break
                    self._take(looked, terms, tally)
                    if tally.is_due:
                        self._tell(tell, tally)
        except TooSlow:
            trouble = "the pattern takes too long on these texts"
        except Exception as error:
            if not self._stopping.is_set():  # else it is a pattern that was interrupted
                trouble = (
                    f"the search ended: {getattr(error, 'strerror', None) or error or type(error).__name__}"
                )
        self.progress = replace(
            self.progress,
            running=False,
            stopped=tally.looked < len(self._rows) and self._stopping.is_set(),
            failed=bool(trouble),
            trouble=trouble or next(iter(tally.reasons), ""),
        )
        self._tell(tell, tally)

    def _looks(self) -> Iterator[Looked]:
        scan = self._snapshot.scan
        if scan is not None:
            return scan(self._rows, literals(self._terms))
        newest_first = np.sort(self._rows)[::-1].tolist()
        return (Looked(1, 0, [(row, self._snapshot.read(row))]) for row in newest_first)

    def _take(self, looked: Looked, terms: _Terms, tally: _Tally) -> None:
        tally.looked += looked.rows
        tally.size += looked.size
        there: list[tuple[int, Rollout]] = []
        for row, rollout in looked.found:
            if isinstance(rollout, Gone):
                tally.reasons[rollout.reason] += 1
            else:
                there.append((row, rollout))
        held = terms.hold([rollout for _, rollout in there])
        tally.found += [row for (row, _), holds in zip(there, held, strict=True) if holds]
        tally.slow = terms.slow

    def _tell(self, tell: Callable[[Progress, Rows], object], tally: _Tally) -> None:
        found = tally.taken()
        self.progress = replace(
            self.progress,
            looked=min(tally.looked, self.progress.of),
            size=tally.size,
            seconds=time.monotonic() - tally.begun,
            hits=self.progress.hits + len(found),
            unread=tally.reasons.total(),
            slow=tally.slow,
        )
        tell(self.progress, found)


class _Terms:
    """Tells whether rollouts hold all terms. A context: patterns are tried in a process of its own."""

    def __init__(self, terms: Sequence[TextTerm]) -> None:
        self._plain = [term for term in terms if not term.regex]
        self._regex = [term for term in terms if term.regex]
        self.patterns = PatternProcess([(t.text, t.any_case) for t in self._regex]) if self._regex else None

    def __enter__(self) -> _Terms:
        return self

    def __exit__(self, *_: object) -> None:
        if self.patterns is not None:
            with suppress(OSError):
                self.patterns.close()

    @property
    def slow(self) -> int:
        """Texts that took too long."""
        return 0 if self.patterns is None else self.patterns.slow

    def hold(self, rollouts: Sequence[Rollout]) -> list[bool]:
        """Which of them hold every term in one of their texts, and none of those that they must not hold."""
        texts = [list(texts_of(rollout)) for rollout in rollouts]
        held = [all(_holds(term, each) == term.wanted for term in self._plain) for each in texts]
        if self.patterns is None:
            return held
        asked = [place for place, holds in enumerate(held) if holds]
        bits = self.patterns.found([text for place in asked for text in texts[place]])
        at = 0
        for place in asked:
            of_it = bits[at : at + len(texts[place])]
            at += len(texts[place])
            held[place] = UNKNOWN not in of_it and all(
                any(found >> bit & 1 for found in of_it) == term.wanted
                for bit, term in enumerate(self._regex)
            )
        return held


def literals(terms: Sequence[TextTerm]) -> list[Literal]:
    """What a record must hold, as far as its bytes can tell."""
    return [Literal(run.encode(), term.any_case) for term in terms for run in term.certain]


def _holds(term: TextTerm, texts: Sequence[str]) -> bool:
    if not term.any_case:
        return any(term.text in text for text in texts)
    return any(term.text in folded(text) for text in texts)
