"""The keys of the browser, and of the line in which its filter is written."""

from __future__ import annotations

from grpo_top.ui.keys import HELP_KEY, Key
from grpo_top.ui.screens.export import COPY_KEY, PAGER_KEY, WRITE_KEY

BROWSER_KEYS: tuple[Key, ...] = (
    Key("left,h", "column(-1)", "←→", "column", "the list at the left or at the right"),
    Key("right,l", "column(1)"),
    Key("up,k", "move(-1)", "↑↓", "row", "the row above or below"),
    Key("down,j", "move(1)"),
    Key("pageup", "page(-1)", "pgup pgdn", "", "a page up or down"),
    Key("pagedown", "page(1)"),
    Key(
        "home,g",
        "move_to(0)",
        "home end",
        "",
        "the first or the last row; at the first step it follows the run",
    ),
    Key("end,G", "move_to(-1)"),
    Key("space", "mark", "space", "mark step", "list the groups of this step too", rank=1),
    Key("a", "mark_all", "a", "", "mark every step that is listed, or none"),
    Key("enter", "open", "enter", "open", "go deeper, and at last to the replay"),
    Key(
        "slash",
        "filter",
        "/",
        "filter",
        "list only what a filter leaves, such as reward<0.5 family=carry",
    ),
    Key("o", "order", "o", "order", "the next order of the groups; O the other way round"),
    Key("O", "turn_order"),
    Key(
        "n",
        "flagged(1)",
        "n p",
        "next, previous flagged",
        "the next group that matches, or is flat",
        rank=2,
    ),
    Key("p", "flagged(-1)"),
    COPY_KEY,
    WRITE_KEY,
    PAGER_KEY,
    Key("escape", "back", "esc", "back", "back one layer"),
    HELP_KEY,
    Key("tab", "complete", "tab", "", "in the filter: write the field out; else the next list"),
)
"""In the footer's order."""

FILTER_KEYS: tuple[Key, ...] = (
    Key("enter", "open", "enter", "take it", "list what it leaves, and search the texts for its words"),
    Key("tab", "complete", "tab", "complete", "write the field out"),
    Key("escape", "back", "esc", "leave the line", "back to the lists"),
)
"""While the filter is written, all others are letters."""
