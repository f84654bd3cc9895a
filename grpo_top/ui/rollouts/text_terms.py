"""What a filter asks of texts: words, phrases and patterns, and what any log must hold of them to match."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_top.records import Rollout

_LONGEST = 3
"""Runs of letters of one term that a log is looked through for, at most."""
_RUN = re.compile(r"[0-9A-Za-z_]{2,}")
_PLAIN = re.compile(r"[0-9A-Za-z_]")
_GROUPED = re.compile(r"[|]|\(\?(?![:=!<P])")
"""Alternatives, and flags within a pattern: nothing is certain then."""
_REPEATED = re.compile(r"\{\d*,?\d*\}")
_ESCAPE = re.compile(r"\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|\d+|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TextTerm:
    """A text that a prompt or a completion must hold, or must not."""

    text: str
    """The words as they are, or the pattern."""
    regex: bool = False
    wanted: bool = True
    """False: those that do not hold it."""

    @property
    def any_case(self) -> bool:
        """Smart case: capitals are told from small letters only where the term has a capital."""
        letters = _ESCAPE.sub("", self.text) if self.regex else self.text
        return letters == letters.lower()

    @property
    def certain(self) -> tuple[str, ...]:
        """Runs of ASCII letters and digits that every text holds which matches, the longest first."""
        if not self.wanted:
            return ()
        runs = _runs_of_pattern(self.text) if self.regex else _RUN.findall(self.text)
        return tuple(sorted(runs, key=len, reverse=True)[:_LONGEST])


def folded(text: str) -> str:
    """A text in small letters."""
    return text.lower()


def texts_of(rollout: Rollout) -> Iterator[str]:
    """All that is searched of a rollout: the prompt, the completion, every turn, and what tools were called with."""
    if rollout.prompt:
        yield rollout.prompt
    if rollout.completion:
        yield rollout.completion
    for message in rollout.messages or ():
        if message.content:
            yield message.content
        for call in message.tool_calls:
            inner = call.get("function")
            function = inner if isinstance(inner, dict) else call
            yield from (str(function[part]) for part in ("name", "arguments") if function.get(part))


def _runs_of_pattern(pattern: str) -> list[str]:
    """Runs of letters that stand in every match of a pattern: outside of groups, classes and what may be left out."""
    if _GROUPED.search(pattern):
        return []
    runs: list[str] = [""]
    depth, at = 0, 0
    while at < len(pattern):
        character, size = pattern[at], 1
        if character == "\\":
            escape = _ESCAPE.match(pattern, at)
            size = 1 if escape is None else len(escape[0])
            character = ""
        elif character == "[":
            size = _end_of_class(pattern, at) - at
            character = ""
        elif repeated := _REPEATED.match(pattern, at):
            size = len(repeated[0])
            character = ""
        depth += (character == "(") - (character == ")")
        at += size
        following = pattern[at : at + 1]
        if not depth and _PLAIN.fullmatch(character) and following not in tuple("?*{"):
            runs[-1] += character
            if following == "+":
                runs.append("")
        else:
            runs.append("")
    return [run for run in runs if len(run) > 1]


def _end_of_class(pattern: str, start: int) -> int:
    """Where a `[…]` ends."""
    at = start + 1 + (pattern[start + 1 : start + 2] == "^")
    at += pattern[at : at + 1] == "]"
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1
