"""Reads a rollout's text again from where it lies, when somebody wants to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.encode import completion_of
from grpo_top.intake import Intake
from grpo_top.records import Location
from grpo_top.snapshot import Gone
from grpo_top.sources.access import is_packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.endpoints import Endpoint
    from grpo_top.history import History
    from grpo_top.records import Rollout
    from grpo_top.remote import Part

LET_GO = "its row was let go to bound memory: of the oldest rollouts only the steps' series are held"
_LONG = 1 << 18
"""Characters of a completion from which on its place and its length tell whether it is the same."""


def reread_row(history: History, intakes: Sequence[Intake | Endpoint | Part], row: int) -> Rollout | Gone:
    """The rollout of a row, or why it cannot be had."""
    if row < history.first:
        return Gone(LET_GO)
    source, offset, length, part, step, text = (
        int(history.columns[name].view()[row])
        for name in ("source", "offset", "length", "part", "step", "text")
    )
    return reread(intakes[source], Location(offset, length, part), step, text)


def raw_row(history: History, intakes: Sequence[Intake | Endpoint | Part], row: int) -> bytes | None:
    """The line that a row was read from; None where there is none, or none that can be read."""
    if row < history.first:
        return None
    source, *place = (
        int(history.columns[name].view()[row]) for name in ("source", "offset", "length", "part")
    )
    of = intakes[source]
    try:
        return of.raw(Location(*place)) if isinstance(of, Intake) else None
    except OSError:
        return None


def reread(intake: Intake | Endpoint | Part, location: Location, step: int, text: int) -> Rollout | Gone:
    """The rollout that lay there, or why it cannot be had: the file is gone, or holds something else there by now.

    `step` and `text` are what the columns of these names hold of it.
    """
    if location.offset < 0:
        return Gone(f"{intake.where}: only its settings were logged")
    found = find_again(intake, location, step, text)
    return Gone(f"{intake.where}: {found}; its numbers still stand") if isinstance(found, str) else found


def find_again(intake: Intake | Endpoint | Part, location: Location, step: int, text: int) -> Rollout | str:
    """The rollout that lay there, or in a few words why it cannot be had."""
    try:
        found = intake.find(location)
    except Exception as error:  # whatever lies there by now, it is not what was read
        return str(getattr(error, "strerror", None) or error or type(error).__name__)
    if found is None or not _is_the_same(intake, found, step, text):
        if isinstance(intake, Intake) and _lies_past_the_end(intake, location):
            return f"shrunk since, it lay at offset {location.offset}"
        return f"rewritten since, offset {location.offset} holds something else"
    return found._replace(step=step)


def _is_the_same(intake: Intake | Endpoint | Part, found: Rollout, step: int, text: int) -> bool:
    """Whether it has the text that was measured; where there was none, whether it is of the same step."""
    if text == 0:
        return found.step == step
    completion = completion_of(found)
    if completion is not None and len(completion) >= _LONG and found.step == step:
        return True  # a record as long as that one to the byte: measuring it would hold up who waits
    return completion is not None and intake.text_key(completion) == text


def _lies_past_the_end(intake: Intake, location: Location) -> bool:
    """Whether the file ends before a place in it."""
    if not location.length or is_packed(intake.path):
        return False
    try:
        return intake.path.stat().st_size < location.offset + location.length
    except OSError:  # it has vanished since it was read a moment ago
        return False
