"""The first frame: what is being opened, while the rest of the program is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from grpo_top.text import safe
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from grpo_top.ui.widgets.strips import Run


_AGAIN_SECONDS = 0.5


class OpeningScreen(Screen[None]):
    """Names the program and what it opens."""

    DEFAULT_CSS = """
    OpeningScreen { background: $background; }
    """

    def __init__(self, where: Sequence[str], files: Callable[[], int]) -> None:
        """`files`: how many have been looked at by now."""
        super().__init__()
        self._line = _Opening(" ".join(where), files)

    def compose(self) -> ComposeResult:
        """One line at the top, where the title will be."""
        yield self._line

    def on_mount(self) -> None:
        """Say how far it is, where it takes its time."""
        self._again = self.set_interval(_AGAIN_SECONDS, self._line.redraw)

    def on_screen_suspend(self) -> None:
        """It lies under what was opened from here on, and is not seen again."""
        self._again.stop()


class _Opening(Rows):
    DEFAULT_CSS = """
    _Opening { height: 1fr; }
    """

    def __init__(self, where: str, files: Callable[[], int]) -> None:
        super().__init__()
        self._where = where
        self._files = files

    def make_rows(self, width: int, height: int) -> list[list[Run]]:  # noqa: ARG002
        ground = " on surface"
        title = [
            (" grpo-top", f"accent bold{ground}"),
            ("  opening ", f"dim{ground}"),
            (safe(self._where), f"text{ground}"),
        ]
        if files := self._files():
            title.append((f"  {files:,} files so far", f"dim{ground}"))
        used = sum(len(text) for text, _ in title)
        return [[*title, (" " * max(0, width - used), f"text{ground}")]]
