"""What a user may set of the screen: its colours and marks, how often it is drawn, and which key does what."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

THEMES = ("dark", "light", "ansi")
SCREEN = {
    "theme": 'theme = "light", one of dark, light and ansi; --theme stands above it',
    "ascii": "ascii = true, to draw with plain ASCII marks, boxes and charts; --ascii does the same",
    "redraws_per_second": "redraws_per_second = 4, from 0.5 to 30; 2 over SSH unless it is set",
}
"""What `[screen]` may set → how it is written."""
KEYS_HELP = '"F", "ctrl+f", "f5", "?", or several as ["?", "f1"]'
"""How a key is written."""
_LEAST_REDRAWS, _MOST_REDRAWS = 0.5, 30


class Act(NamedTuple):
    """Something that a key does."""

    keys: str
    """The keys that do it unless the user has others, as `key_name` writes them, commas between."""
    what: str


ACTS = {
    "up": Act("up,k", "the row above"),
    "down": Act("down,j", "the row below"),
    "left": Act("left,h", "to the left"),
    "right": Act("right,l", "to the right"),
    "open": Act("enter", "open what is selected"),
    "back": Act("escape", "back to the screen before"),
    "findings": Act("f", "every finding"),
    "rollouts": Act("s", "steps, groups and rollouts"),
    "search": Act("slash", "search prompts, completions and fields"),
    "metrics": Act("m", "the trainer's other numbers"),
    "fleet": Act("F", "the fleet of samplers"),
    "grade": Act("g", "score rollouts by hand, from a replay"),
    "runs": Act("backspace", "the table of all runs"),
    "pause": Act("space", "hold the view at this step, or let it go on"),
    "step_back": Act("left_square_bracket", "one step back"),
    "step_forward": Act("right_square_bracket", "one step forward"),
    "ten_steps_back": Act("left_curly_bracket", "ten steps back"),
    "ten_steps_forward": Act("right_curly_bracket", "ten steps forward"),
    "live": Act("end", "follow the newest step again"),
    "zoom_in": Act("plus,equals_sign", "fewer steps in every chart"),
    "zoom_out": Act("minus", "more steps in every chart"),
    "log_scale": Act("L", "charts by powers of ten"),
    "smooth": Act("S", "the mean of another number of steps"),
    "order": Act("o", "the next order of a list"),
    "explain": Act("x", "the page of a rule"),
    "copy": Act("c", "copy"),
    "write": Act("w", "write to a file"),
    "pager": Act("e", "open in a pager"),
    "help": Act("question_mark,f1", "the keys of where one is"),
    "commands": Act("ctrl+p,colon", "find a command, panel, step, finding, rule or family"),
    "quit": Act("q", "leave grpo-top"),
}
"""What `[keys]` may set, by name."""
_SIGNS = {
    "!": "exclamation_mark",
    '"': "quotation_mark",
    "#": "number_sign",
    "$": "dollar_sign",
    "%": "percent_sign",
    "&": "ampersand",
    "'": "apostrophe",
    "(": "left_parenthesis",
    ")": "right_parenthesis",
    "*": "asterisk",
    "+": "plus",
    ",": "comma",
    "-": "minus",
    ".": "full_stop",
    "/": "slash",
    ":": "colon",
    ";": "semicolon",
    "<": "less_than_sign",
    "=": "equals_sign",
    ">": "greater_than_sign",
    "?": "question_mark",
    "@": "at",
    "[": "left_square_bracket",
    "\\": "backslash",
    "]": "right_square_bracket",
    "^": "circumflex_accent",
    "_": "underscore",
    "`": "grave_accent",
    "{": "left_curly_bracket",
    "|": "vertical_line",
    "}": "right_curly_bracket",
    "~": "tilde",
}
"""Signs → how the screen calls their keys."""
_NAMED = re.compile(
    r"up|down|left|right|enter|escape|tab|space|backspace|delete|insert|home|end|pageup|pagedown|f([1-9]|1\d|2[0-4])"
)
_MODIFIERS = re.compile(r"((?:ctrl\+|alt\+|shift\+)*)(.+)", re.DOTALL)


def screen_value(name: str, value: object) -> str | bool | float | None:
    """A value of `[screen]`; None where it is not of its form."""
    if name == "theme":
        return value if isinstance(value, str) and value in THEMES else None
    if name == "ascii":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if _LEAST_REDRAWS <= value <= _MOST_REDRAWS else None


def key_name(written: object) -> str | None:
    """A key as the screen calls it: `?` is `question_mark`, `ctrl+f` stays. None where it is no key."""
    found = _MODIFIERS.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        return None
    modifiers, key = found[1], found[2]
    if len(key) == 1:
        name = _SIGNS.get(key, "space" if key == " " else key if key.isalnum() else None)
    else:
        name = key if key in _SIGNS.values() or _NAMED.fullmatch(key) else None
    return None if name is None else modifiers + name


def key_names(written: object) -> str | None:
    """One key or a list of them, commas between; None where one is none."""
    keys = [key_name(key) for key in (written if isinstance(written, list) else [written])]
    return ",".join(key for key in keys if key) if keys and None not in keys else None


def shown_key(name: str, *, short: bool = True) -> str:
    """A key as it is written for people, `short` as on the screen, else as a settings file has it."""
    modifiers, _, key = name.rpartition("+")
    sign = next(
        (sign for sign, of in _SIGNS.items() if of == key), "esc" if short and key == "escape" else key
    )
    return f"{modifiers}+{sign}" if modifiers else sign


def taken(keys: Mapping[str, str]) -> tuple[str, str, str] | None:
    """A key that would do two things with the user's keys, and both of them; None where there is none."""
    owner: dict[str, str] = {}
    for act in (*keys, *(name for name in ACTS if name not in keys)):
        for key in (keys[act] if act in keys else ACTS[act].keys).split(","):
            if key in owner:
                return shown_key(key), owner[key], act
            owner[key] = act
    return None
