"""The replay's keys."""

from __future__ import annotations

from grpo_top.ui.keys import BACK_KEY, HELP_KEY, Key
from grpo_top.ui.screens.export import COPY_KEY, PAGER_KEY, WRITE_KEY

REPLAY_KEYS: tuple[Key, ...] = (
    Key("space", "play", "space", "play", "play and pause; at the end, from the beginning"),
    Key("comma", "step(-1)", ", .", "step", "one word, or one turn, back or on"),
    Key("full_stop", "step(1)"),
    Key("1,2,3,4,5,6,7,8,9", "speed", "1–9", "speed", "how fast it plays", rank=3),
    Key("home", "ends(-1)", "home end", "ends", "to the first word or turn; to the last one", rank=4),
    Key("end", "ends(1)"),
    Key("tab", "sibling(1)", "tab", "sibling", "the next rollout of its group; shift+tab the one before"),
    Key("shift+tab", "sibling(-1)"),
    Key("d", "diff", "d", "diff", "hold it against the best of its siblings, or not"),
    Key("D", "opponent", "D", "", "hold it against the next of its siblings"),
    Key(
        "b",
        "page('pair')",
        "b",
        "best/worst",
        "the best and the worst of the group side by side",
        rank=2,
    ),
    Key("equals_sign", "page('group')", "=", "all", "all completions of the group, aligned", rank=2),
    Key(
        "l",
        "tokens",
        "l",
        "logprobs",
        "colour tokens by their log-probabilities, and list the worst",
        rank=1,
    ),
    Key("m", "loops", "m", "loops", "mark what stands there again and again", rank=1),
    Key(
        "g",
        "app.grade",
        "g",
        "hand score",
        "score 20 rollouts unseen, and see how far the pipeline agrees",
    ),
    Key("r", "page('record')", "r", "raw", "the record as JSON", rank=1),
    Key("slash", "search", "/", "search", "search inside; n and N then go from hit to hit", rank=1),
    COPY_KEY._replace(what="copy the text, or the record, through the terminal"),
    WRITE_KEY,
    PAGER_KEY,
    Key("n", "next(1)", "n p", "", "the next or previous one of those that one came with"),
    Key("p", "along(-1)"),
    Key("N", "next(-1)", "N P", "", "the next or previous group of the step"),
    Key("P", "group(-1)"),
    Key("up,k", "scroll(-1)", "↑↓", "", "scroll the text"),
    Key("down,j", "scroll(1)"),
    Key("pageup", "scroll_page(-1)", "pgup pgdn", "", "scroll by a page"),
    Key("pagedown", "scroll_page(1)"),
    BACK_KEY._replace(action="leave"),
    HELP_KEY,
)
"""In the footer's order."""
