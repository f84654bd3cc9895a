"""Reads a rollout's text again from where it lies, when somebody wants to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    offset, length, part, step = (
        int(columns[name].view()[row]) for name in ("offset", "length", "part", "step")
    )
    location = Location(offset, length, part)
    try:
        data = read_range(intake.path, offset, length) if length else read_whole(intake.path)
    except OSError as error:
        return Gone(f"{intake.where}: {error.strerror or error}; its numbers still stand")
    found = intake.reader.replay(data, location)
    if found is None or found.step != step:
        return Gone(
            f"{intake.where}: rewritten since, offset {offset} holds something else; its numbers still stand"
        )
    return found
