"""Keeps an eye on a store that a format looks into itself: a database, or a folder known by one of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from grpo_top.sources.follow import FileState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


class Store:
    """How a store stands; who reads it keeps its own place in it."""

    epoch = 0
    """A store that was replaced by another is seen by who reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """Bytes on disk when last looked at."""
        self.state = FileState.WAITING
        self.note = ""
        """One line: what is wrong and where. Empty where nothing is."""

    def look(self, read: Callable[[], T]) -> T | None:
        """What `read` finds; None where the store is gone, or cannot be read now: it is tried again."""
        try:
            self.size = self.path.stat().st_size
            found = read()
        except (FileNotFoundError, NotADirectoryError):
            self.state = FileState.WAITING if self.state is FileState.WAITING else FileState.GONE
            self.note = ""
            return None
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            self.state, self.note = FileState.ERROR, f"{self.path}: {reason}; tried again at every look"
            return None
        self.state, self.note = FileState.LIVE, ""
        return found
