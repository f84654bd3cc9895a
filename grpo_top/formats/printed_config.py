"""The settings that a trainer prints when it starts: one nested Python dict over many lines, as `pprint` writes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import python_value

if TYPE_CHECKING:
    from collections.abc import Callable

_BEGIN = "{'"
_PREFIX = re.compile(r"^\([^()]{1,80}\) ?")
"""Ray's, with the worker's name and process."""
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[{}]")
_LONGEST = 400_000
"""Characters of a dict; one that is longer, or does not end, is let go."""


class PrintedConfig:
    """Puts the lines of such a dict together, where others' lines may come between."""

    def __init__(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        self._wanted = wanted
        self._prefix: str | None = None
        """What begins each of its lines; None while there is none."""
        self._lines: list[str] = []
        self._length = self._depth = 0

    @property
    def is_open(self) -> bool:
        """Whether a dict has begun and not ended."""
        return self._prefix is not None

    def take(self, text: str) -> dict[str, Any] | None:
        """The dict that this line ends, where it is one that is wanted."""
        found = _PREFIX.match(text)
        prefix = found[0] if found else ""
        rest = text[len(prefix) :]
        if self._prefix is None:
            if not rest.startswith(_BEGIN):
                return None
            self._prefix, self._lines, self._length, self._depth = prefix, [], 0, 0
        elif prefix != self._prefix:
            return None
        self._lines.append(rest)
        self._length += len(rest)
        self._depth += sum({"{": 1, "}": -1}.get(token, 0) for token in _TOKEN.findall(rest))
        if self._depth > 0 and self._length <= _LONGEST:
            return None
        ended, self._prefix = self._depth == 0, None
        value = python_value("\n".join(self._lines)) if ended else None
        self._lines = []
        return value if isinstance(value, dict) and self._wanted(value) else None
