"""What a row of a table shows of a rollout's texts: its prompt and its answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.snapshot import Gone

if TYPE_CHECKING:
    from grpo_top.records import Rollout

LENGTH = 400
"""Characters that are kept of a text: more than one row can show."""
KEPT = 4_000
"""Rollouts whose excerpts are kept."""

_ANSWERS = (
    re.compile(r"<answer>(.*?)</answer>", re.DOTALL),
    re.compile(r"\\boxed\{([^{}]*)\}"),
    re.compile(r"####\s*(\S.*)"),
)


class Excerpt(NamedTuple):
    """What a row of a table shows of one rollout's texts, as they were logged; None where there is none."""

    prompt: str | None
    answer: str | None
    """What the verifier read, else what the completion marks as its answer, else its last line."""
    gone: str = ""
    """Why the texts cannot be read any more."""


def excerpt(rollout: Rollout | Gone) -> Excerpt:
    """The prompt and the answer of a rollout."""
    if isinstance(rollout, Gone):
        return Excerpt(None, None, rollout.reason)
    messages = rollout.messages or ()
    asked = [message.content for message in messages if message.role == "user"]
    said = [message.content for message in messages if message.role == "assistant"]
    prompt = asked[-1] if rollout.prompt is None and asked else rollout.prompt
    completion = said[-1] if rollout.completion is None and said else rollout.completion
    return Excerpt(_short(prompt), _short(rollout.verifier_raw or _answer(completion)))


def _answer(completion: str | None) -> str | None:
    if completion is None:
        return None
    tail = completion[-10 * LENGTH :]
    for pattern in _ANSWERS:
        found = pattern.findall(tail)
        if found and found[-1].strip():
            return str(found[-1]).strip()
    lines = tail.split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _short(text: str | None) -> str | None:
    return None if text is None else text[:LENGTH]
