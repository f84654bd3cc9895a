"""Tables of keys: dispatch, the footer's line and the help screen all come from the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpo_top.ui.glyphs import Glyphs


class Key(NamedTuple):
    """One row of a screen's key table."""

    keys: str
    """Keys as Textual names them, with commas between: `left,h`."""
    action: str
    shown: str = ""
    """How the key is written; empty where the row before speaks for this one too."""
    word: str = ""
    """What the footer says of it; empty keeps it to the help."""
    what: str = ""
    """What the help says of it."""
    rank: int = 0
    """Rows of higher rank leave a narrow footer first; among equals the one at the right."""

    def label(self, glyphs: Glyphs) -> str:
        """`shown` in a set of glyphs."""
        arrows = {"↑↓←→": glyphs.all_ways, "↑↓": glyphs.up_down, "←→": glyphs.left_right}
        return arrows.get(self.shown, glyphs.plain(self.shown))


def bindings(*tables: Iterable[Key]) -> list[BindingType]:
    """The bindings of key tables."""
    return [
        Binding(key.keys, key.action, key.what or key.word, key_display=key.shown or None, show=False)
        for table in tables
        for key in table
    ]


TIME_KEYS: tuple[Key, ...] = (
    Key(
        "space",
        "app.pause",
        "space",
        "pause",
        "hold the view at this step while reading goes on, or let it go on",
    ),
    Key("left_square_bracket", "app.move(-1)", "[ ]", "time", "one step back or forward in time", rank=3),
    Key("right_square_bracket", "app.move(1)"),
    Key("left_curly_bracket", "app.move(-10)", "{ }", "", "ten steps back or forward"),
    Key("right_curly_bracket", "app.move(10)"),
    Key("end", "app.live", "end", "", "go live: follow the newest step again"),
)
"""Keys that move the view in time; a screen that has no other use for them takes them in."""

CHART_KEYS: tuple[Key, ...] = (
    Key(
        "plus,equals_sign",
        "app.zoom(1)",
        "+ -",
        "zoom",
        "fewer or more steps in every chart, around the cursor",
        3,
    ),
    Key("minus", "app.zoom(-1)"),
    Key("L", "app.scale", "L", "", "charts by powers of ten, where all of their values are above 0"),
    Key("S", "app.smooth", "S", "", "the line as the mean of 20, 50, 1 or 5 steps"),
)
"""Keys that change how charts are looked at."""

PAUSED_KEYS: tuple[Key, ...] = (
    TIME_KEYS[1]._replace(word="one step", rank=0),
    TIME_KEYS[2],
    TIME_KEYS[3]._replace(word="10 steps"),
    TIME_KEYS[4],
    TIME_KEYS[5]._replace(word="go live"),
    TIME_KEYS[0]._replace(word="go on"),
)
"""The same, as they are called while the view is paused."""

FINDINGS_KEY = Key("f", "app.findings", "f", "findings", "every finding, first cause first")
ROLLOUTS_KEY = Key("s", "app.rollouts", "s", "rollouts", "steps, groups and rollouts")
BACK_KEY = Key("escape", "app.back", "esc", "back", "back to the screen before")
RUNS_KEY = Key(
    "backspace", "app.runs", "backspace", "runs", "back to the table of all runs of this place", rank=1
)
HELP_KEY = Key("question_mark,f1", "app.help", "?", "help", "these keys", rank=-1)
COMMANDS_KEY = Key(
    "ctrl+p,colon",
    "app.command_palette",
    "ctrl+p",
    "commands",
    "find a command, panel, step, finding, rule or family; also :",
    rank=4,
)
QUIT_KEY = Key("q", "app.quit", "q", "quit", "leave grpo-top", rank=2)
APP_KEYS: tuple[Key, ...] = (FINDINGS_KEY, ROLLOUTS_KEY, BACK_KEY, HELP_KEY, COMMANDS_KEY, QUIT_KEY)
"""Keys that mean the same everywhere, unless a screen takes one for itself."""
