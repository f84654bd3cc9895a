"""Where the loop begins in which a completion ends."""

from __future__ import annotations

from grpo_top.text import ends_in_loop

_TAIL = 20_000
"""Characters at the end among which a loop's span is looked for."""
_NEEDLE = 16


def loop_start(text: str) -> int | None:
    """The offset at which the loop begins that `text` ends in; None where it ends in none, by `ends_in_loop`."""
    if not ends_in_loop(text):
        return None
    period = 1 if text.endswith(text[-1] * 12) else _period(text[-_TAIL:])
    if period is None:
        return None
    start = len(text) - period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return start


def _period(tail: str) -> int | None:
    """The length of the shortest span that stands three times at the end."""
    needle = tail[-_NEEDLE:]
    end = len(tail) - 1
    while (found := tail.rfind(needle, 0, end)) >= 0:
        period = len(tail) - len(needle) - found
        if period * 3 > len(tail):
            return None
        if tail[-3 * period : -period] == tail[-2 * period :]:
            return period
        end = found + len(needle) - 1
    return None
