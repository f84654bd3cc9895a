"""Reads a rollout's text again from where it lies, when somebody wants to see it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from grpo_top.completions import text_key
from grpo_top.encode import completion_of
from grpo_top.records import Location
from grpo_top.snapshot import Gone
from grpo_top.sources.access import read_range, read_whole

if TYPE_CHECKING:
    from grpo_top.history import History
    from grpo_top.intake import Intake
    from grpo_top.records import Rollout


def reread(history: History, intake: Intake, row: int) -> Rollout | Gone:
    """The rollout of a row, or why it cannot be had: the file is gone, or holds something else there by now."""
    columns = history.columns
    offset, length, part, step, text = (
        int(columns[name].view()[row]) for name in ("offset", "length", "part", "step", "text")
    )
    if offset < 0:
        return Gone(f"{intake.where}: only its settings were logged")
    location = Location(offset, length, part)
    try:
        found = _found(intake, location)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        return Gone(f"{intake.where}: {reason}; its numbers still stand")
    if found is None or not _is_the_same(found, step, text):
        return Gone(
            f"{intake.where}: rewritten since, offset {offset} holds something else; its numbers still stand"
        )
    return found._replace(step=step)


def _found(intake: Intake, location: Location) -> Rollout | None:
    if intake.claim.feed == "database":
        return intake.reader.find(intake.path, location)
    offset, length = location.offset, location.length
    data = read_range(intake.path, offset, length) if length else read_whole(intake.path)
    return intake.reader.replay(data, location)


def _is_the_same(found: Rollout, step: int, text: int) -> bool:
    """Whether it has the text that was measured; where there was none, whether it is of the same step."""
    if text == 0:
        return found.step == step
    completion = completion_of(found)
    return completion is not None and text_key(completion) == text
