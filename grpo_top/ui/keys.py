"""Tables of keys: dispatch, the footer's line and the help screen all come from the same rows."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from textual.binding import Binding, BindingType

from grpo_top.screen_settings import shown_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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


ACTIONS = {
    "up": ("go(0,-1)", "move(-1)", "scroll(-1)", "setting(-1)"),
    "down": ("go(0,1)", "move(1)", "scroll(1)", "setting(1)"),
    "left": ("go(-1,0)", "column(-1)", "panel(-1)", "sampler(-1)"),
    "right": ("go(1,0)", "column(1)", "panel(1)", "sampler(1)"),
    "open": ("open", "disagreements"),
    "back": ("app.back", "back", "leave"),
    "findings": ("app.findings",),
    "rollouts": ("app.rollouts",),
    "search": ("app.search", "search", "filter"),
    "metrics": ("app.metrics",),
    "fleet": ("app.panel('fleet')",),
    "grade": ("app.grade",),
    "runs": ("app.runs",),
    "pause": ("app.pause",),
    "step_back": ("app.move(-1)",),
    "step_forward": ("app.move(1)",),
    "ten_steps_back": ("app.move(-10)",),
    "ten_steps_forward": ("app.move(10)",),
    "live": ("app.live",),
    "zoom_in": ("app.zoom(1)", "span(1)"),
    "zoom_out": ("app.zoom(-1)", "span(-1)"),
    "log_scale": ("app.scale",),
    "smooth": ("app.smooth",),
    "order": ("order",),
    "explain": ("explain",),
    "copy": ("copy",),
    "write": ("write",),
    "pager": ("pager",),
    "help": ("app.help",),
    "commands": ("app.command_palette",),
    "quit": ("app.quit",),
}
"""What `[keys]` calls the actions of the tables, see `screen_settings.ACTS`."""
_NAMES = {action: name for name, actions in ACTIONS.items() for action in actions}


def name_of(key: Key) -> str:
    """What `[keys]` calls it; empty where it has no name there."""
    return _NAMES.get(key.action, "")


def bindings(*tables: Iterable[Key]) -> list[BindingType]:
    """The bindings of key tables; what the user may give another key has its name as id."""
    return [
        Binding(
            key.keys,
            key.action,
            key.what or key.word,
            key_display=key.shown or None,
            show=False,
            id=name_of(key) or None,
        )
        for table in tables
        for key in table
    ]


def as_set(keys: Sequence[Key], own: Mapping[str, str]) -> list[Key]:
    """Rows of a table as they are shown where the user has keys of their own: by name, commas between."""
    if not own:
        return list(keys)
    found: list[Key] = []
    for at, key in enumerate(keys):
        # A row speaks for those after it that are not shown themselves.
        silent = takewhile(lambda other: not other.shown, keys[at + 1 :])
        spoken = [key, *silent] if key.shown else []
        names = [name_of(each) for each in spoken]
        if any(name in own for name in names):
            written = [
                shown_key(own.get(name, each.keys).split(",")[0])
                for name, each in zip(names, spoken, strict=True)
            ]
            found.append(key._replace(shown=" ".join(dict.fromkeys(written))))
        else:
            found.append(key)
    return found


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
ZOOM_KEYS = CHART_KEYS[:2]

TIME_KEYS_IN_SHORT: tuple[Key, ...] = tuple(
    key._replace(rank=0) if key.word == "time" else key._replace(word="") for key in TIME_KEYS
)
"""The same, with one word of them in the footer."""

PAUSED_KEYS: tuple[Key, ...] = (
    TIME_KEYS[1]._replace(word="one step", rank=0),
    TIME_KEYS[2],
    TIME_KEYS[3]._replace(word="10 steps"),
    TIME_KEYS[4],
    TIME_KEYS[5]._replace(word="go live"),
    TIME_KEYS[0]._replace(word="go on"),
)
"""The keys of time as they are called while the view is paused."""

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
DETAIL_KEYS: tuple[Key, ...] = (
    BACK_KEY,
    HELP_KEY,
    *(key._replace(word="") for key in (FINDINGS_KEY, ROLLOUTS_KEY, COMMANDS_KEY, QUIT_KEY)),
)
"""The last keys of a screen that shows one thing whole: the footer says how to leave it, the help says the rest."""
APP_KEYS: tuple[Key, ...] = (FINDINGS_KEY, ROLLOUTS_KEY, BACK_KEY, HELP_KEY, COMMANDS_KEY, QUIT_KEY)
"""Keys that mean the same everywhere, unless a screen takes one for itself."""


def with_app_keys(keys: Sequence[Key], name: str) -> list[Key]:
    """The keys of the screen of a name, and those of the app that it has not taken for itself: all that work there."""
    actions = {key.action for key in keys}
    taken = {name for key in keys for name in key.keys.split(",")}
    elsewhere = (key for key in APP_KEYS if key.word not in {name, BACK_KEY.word})
    others = (key for key in elsewhere if key.action not in actions)
    return [*keys, *(key for key in others if taken.isdisjoint(key.keys.split(",")))]
