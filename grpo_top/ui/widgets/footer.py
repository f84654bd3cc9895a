"""The bottom line: the keys of where one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.ui.glyphs import Glyphs, glyphs_of
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.keys import Key
    from grpo_top.ui.widgets.strips import Run


def key_runs(keys: Sequence[Key], width: int, glyphs: Glyphs) -> list[Run]:
    """The keys that have a word and fit, two blanks between them on narrow lines, else three."""
    gap = 2 if width < 110 else 3
    items = [(key.label(glyphs), glyphs.plain(key.word), key.rank) for key in keys if key.word]

    def room() -> int:
        return 1 + sum(len(label) + 1 + len(word) for label, word, _ in items) + gap * (len(items) - 1)

    while items and room() > width:
        last = max(range(len(items)), key=lambda index: (items[index][2], index))
        del items[last]
    runs: list[Run] = [(" ", "")]
    for index, (label, word, _) in enumerate(items):
        runs += [(" " * gap if index else "", ""), (label, "accent bold"), (f" {word}", "dim")]
    return [run for run in runs if run[0]]


class KeyLine(Rows):
    """One line of keys."""

    DEFAULT_CSS = "KeyLine { background: $surface; }"

    def __init__(self) -> None:
        super().__init__()
        self._keys: Sequence[Key] = ()

    def show(self, keys: Sequence[Key]) -> None:
        """Show other keys."""
        self._keys = keys
        self.redraw()

    def make_rows(self, width: int, height: int) -> list[list[Run]]:  # noqa: ARG002
        """The line."""
        return [key_runs(self._keys, width, glyphs_of(self.app))]
