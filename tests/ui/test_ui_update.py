"""What goes to the terminal when cells change: those cells alone, and of their looks what is new."""

from __future__ import annotations

import re

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from grpo_top.ui.update import ChangedCells, only_changed

RED, GREEN = Style(color="red", bgcolor="black"), Style(color="green", bgcolor="black")
BOLD = Style(color="green", bgcolor="black", bold=True)
CONSOLE = Console(force_terminal=True, color_system="standard", width=20)


def update(spans: list[tuple[int, int, int]], *rows: list[Segment]) -> ChopsUpdate:
    """Rows of one widget that lies at the left and is 10 cells wide."""
    return ChopsUpdate([{0: Strip(row)} for row in rows], spans, [[10] for _ in rows])


def sent(renderable: object) -> str:
    """What the terminal is sent."""
    assert isinstance(renderable, ChangedCells)
    return renderable.render_segments(CONSOLE)


def places(sequences: str) -> list[tuple[str, str]]:
    """Where the cursor is moved, and the text that is written from there, without looks."""
    moves = re.split(r"\x1b\[(\d+;\d+)H", sequences)[1:]
    return [
        (place, re.sub(r"\x1b\[[\d;]*m", "", text))
        for place, text in zip(moves[::2], moves[1::2], strict=True)
    ]


def test_only_the_cells_that_changed_are_sent() -> None:
    row = [Segment("abcde", RED), Segment("fghij", GREEN)]
    found = sent(only_changed(update([(0, 2, 4), (0, 7, 10)], row)))
    assert places(found) == [("1;3", "cd"), ("1;8", "hij")]


def test_a_look_is_said_once_while_it_goes_on_from_row_to_row() -> None:
    rows = [[Segment("abcde", RED), Segment("fghij", GREEN)]] * 2
    found = sent(only_changed(update([(0, 6, 8), (1, 6, 8)], *rows)))
    assert places(found) == [("1;7", "gh"), ("2;7", "gh")]
    assert found.count("32") == 1
    assert found.endswith("\x1b[0m")


def test_of_a_look_only_what_differs_is_said() -> None:
    found = sent(only_changed(update([(0, 0, 10)], [Segment("abcde", RED), Segment("fghij", GREEN)])))
    assert "abcde\x1b[32mfghij" in found


def test_what_is_not_there_any_more_ends() -> None:
    row = [Segment("ab", BOLD), Segment("cd", GREEN), Segment("ef")]
    found = sent(only_changed(update([(0, 0, 6)], row)))
    assert "ab\x1b[0;32;40mcd\x1b[0mef" in found


def test_other_updates_are_sent_as_they_are() -> None:
    assert only_changed(None) is None
    assert only_changed("text") == "text"
