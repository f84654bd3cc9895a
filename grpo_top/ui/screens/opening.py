"""The first frame: what is being opened, while the rest of the program is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from grpo_top.text import safe
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from grpo_top.ui.widgets.strips import Run


class OpeningScreen(Screen[None]):
    """Names the program and what it opens."""

    DEFAULT_CSS = """
    OpeningScreen { background: $background; }
    """

    def __init__(self, where: Sequence[str]) -> None:
        super().__init__()
        self._where = where

    def compose(self) -> ComposeResult:
        """One line at the top, where the title will be."""
        yield _Opening(" ".join(self._where))


class _Opening(Rows):
    DEFAULT_CSS = """
    _Opening { height: 1fr; }
    """

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def make_rows(self, width: int, height: int) -> list[list[Run]]:  # noqa: ARG002
        ground = " on surface"
        title = [
            (" grpo-top", f"accent bold{ground}"),
            ("  opening ", f"dim{ground}"),
            (safe(self._where), f"text{ground}"),
        ]
        used = sum(len(text) for text, _ in title)
        return [[*title, (" " * max(0, width - used), f"text{ground}")]]
