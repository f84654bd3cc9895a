"""A rollout at a glance where it was found by a search: its texts begin a little before what was looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.snapshot import Gone
from grpo_top.ui.rollouts.text_terms import folded
from grpo_top.ui.rollouts.texts import GLANCE_CHARACTERS, Glance, glance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grpo_top.records import Rollout
    from grpo_top.ui.rollouts.text_terms import TextTerm

_BEFORE = 12
"""Characters that are shown before it."""
_SEEN = 24
"""Of what stands so near to the beginning nothing is left out."""


def glance_at(terms: Sequence[TextTerm]) -> Callable[[Rollout | Gone], Glance]:
    """Makes glances; of a pattern only the letters that are certain are looked for."""
    needles = [
        (needle, term.any_case)
        for term in terms
        if term.wanted
        for needle in (term.certain[:1] if term.regex else (term.text,))
    ]

    def make(rollout: Rollout | Gone) -> Glance:
        seen = glance(rollout)
        if isinstance(rollout, Gone) or not needles:
            return seen
        prompt = _from_hit([rollout.prompt or seen.prompt], needles)
        said = [message.content for message in rollout.messages or () if message.role == "assistant"]
        completion = _from_hit([rollout.completion or "", *said], needles)
        return seen._replace(prompt=prompt or seen.prompt, completion=completion or seen.completion)

    return make


def _from_hit(texts: Sequence[str], needles: Sequence[tuple[str, bool]]) -> str:
    """The first text that holds a needle, from a little before it; empty where none does."""
    for text in texts:
        for needle, any_case in needles:
            at = (folded(text) if any_case else text).find(needle)
            if at > _SEEN:
                return f"…{text[at - _BEFORE : at + GLANCE_CHARACTERS]}"
            if at >= 0:
                return text[:GLANCE_CHARACTERS]
    return ""
