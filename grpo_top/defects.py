"""Where grpo-top itself fails: that part is switched off, named with where to report it, and the rest goes on."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

ISSUES = "the project's issue tracker"


@cache
def log() -> logging.Logger:
    """What grpo-top does, for `--debug`: by itself it goes nowhere, least of all over a screen."""
    import logging  # noqa: PLC0415  see `info`

    found = logging.getLogger("grpo_top.app")
    found.addHandler(logging.NullHandler())
    return found


@cache
def quoting() -> logging.Logger:
    """What may quote a rollout: off unless the user asks for it."""
    found = log().getChild("quoting")
    found.disabled = True
    return found


def info(message: str, *values: object) -> None:
    """Log what happens. Where logging is not loaded nobody listens, and to load it takes as long as 30 steps."""
    if "logging" in sys.modules:
        log().info(message, *values)


def defect(part: str, error: Exception, now: str) -> str:
    """One line for the user about a part that raised: what it is `now`, what was raised and where."""
    return described(part, error, now)


def described(part: str, error: BaseException, now: str) -> str:
    """As `defect`, of whatever failed.

    What was raised may quote what a model wrote, so only its type and place are told and logged.
    """
    import traceback  # noqa: PLC0415  mostly nothing fails

    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
    log().error("%s %s: %s at %s", part, now, type(error).__name__, " < ".join(reversed(places)))
    quoting().error("%s", error, exc_info=error)
    at = f" at {places[-1]}" if places else ""
    return (
        f"{part} {now}: {type(error).__name__}{at}, a defect of grpo-top; please report this line to {ISSUES}"
    )
