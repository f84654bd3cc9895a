"""The search that belongs to a browser's filter: it begins, ends, and goes on with what is written meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.text import first_line
from grpo_top.ui.rollouts.layout import joined
from grpo_top.ui.rollouts.search import Progress, Search

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from grpo_top.ui.rollouts.browse import Browse
    from grpo_top.ui.widgets.runs import Row


class Searching:
    """What is searched for in the rollouts that a browser lists.

    Args:
        start: runs a search in a thread; what it tells is to be handed to `told`.
    """

    def __init__(self, start: Callable[[Search], object]) -> None:
        self._start = start
        self._search: Search | None = None
        self._progress: Progress | None = None
        self._looked = np.empty(0, np.bool_)
        """Rows that have been looked at, or are about to be."""
        self._found: list[NDArray[np.int64]] = []

    @property
    def running(self) -> bool:
        """Whether it is looking now."""
        return self._progress is not None and self._progress.running

    def begin(self, browse: Browse) -> None:
        """Look for what the browser's filter asks of texts; after a stop, from the beginning."""
        if not browse.filter.texts or self.running:
            return
        if self._progress is not None and (self._progress.stopped or self._progress.failed):
            self.drop()
        self._look(browse)
        browse.find(self._hits)

    def follow(self, browse: Browse) -> None:
        """Look at rollouts that have come since; not after a stop."""
        progress = self._progress
        if progress is not None and not (progress.running or progress.stopped or progress.failed):
            self._look(browse)

    def told(self, search: Search, progress: Progress, rows: NDArray[np.int64], browse: Browse) -> None:
        """Take over what a search has found, unless another one has taken its place."""
        if search is self._search:
            self._progress = progress
            if len(rows):
                self._found.append(rows)
                browse.find(self._hits)

    def stop(self) -> None:
        """Look no further; what was found stays."""
        if self._search is not None:
            self._search.stop()
        if self._progress is not None and self._progress.running:
            self._progress = replace(self._progress, running=False, stopped=True)

    def drop(self) -> None:
        """Look no further, and forget what was found: it was looked for under another filter."""
        self.stop()
        self._search = self._progress = None
        self._looked, self._found = np.empty(0, np.bool_), []

    def words(self, browse: Browse) -> Row:
        """How far it is."""
        progress = self._progress
        if not browse.filter.texts:
            return []
        if progress is None:
            count = numbers.count(len(browse.catalogue.searchable()))
            return joined([[("enter", "accent bold"), (f" searches {count} texts", "dim")]])
        found: Row = [(f"{numbers.count(len(self._hits))} found", "text bold")]
        done = numbers.share(progress.looked / progress.of if progress.of else 1.0)
        if progress.running:
            return joined(
                [[(f"searching {done}", "text")], found, [("esc", "accent bold"), (" stops", "dim")]]
            )
        return joined([[(f"stopped at {done}", "warn")] if progress.stopped else [], found])

    @property
    def trouble(self) -> str:
        """What stands in the way, or what was left out."""
        progress = self._progress
        if progress is None:
            return ""
        parts = [first_line(progress.trouble, 100)] if progress.trouble else []
        if progress.unread:
            parts.insert(0, f"{numbers.count(progress.unread)} could not be read")
        if progress.slow and not progress.failed:
            texts = "1 text" if progress.slow == 1 else f"{numbers.count(progress.slow)} texts"
            parts.append(f"the pattern takes too long on {texts}")
        return "; ".join(parts)

    @property
    def _hits(self) -> NDArray[np.int64]:
        if len(self._found) > 1:
            self._found = [np.concatenate(self._found)]
        return self._found[0] if self._found else np.empty(0, np.int64)

    def _look(self, browse: Browse) -> None:
        """Look at what is listed and was not looked at yet."""
        length = browse.catalogue.snapshot.rollouts.length
        self._looked = np.concatenate([self._looked, np.zeros(max(0, length - len(self._looked)), np.bool_)])
        rows = browse.catalogue.searchable()
        rows = rows[~self._looked[rows]]
        if not len(rows) and self._progress is not None:
            return
        self._looked[rows] = True
        self._search = Search(browse.filter.texts, rows, browse.catalogue.snapshot)
        self._progress = self._search.progress
        self._start(self._search)
