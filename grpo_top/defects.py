"""Where grpo-top itself fails: that part is switched off, named with where to report it, and the rest goes on."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

ISSUES = "the project's issue tracker"
log = logging.getLogger("grpo_top.app")
"""What grpo-top does, for `--debug`: by itself it goes nowhere, least of all over a screen."""
log.addHandler(logging.NullHandler())
QUOTING = logging.getLogger("grpo_top.app.quoting")
"""What may quote a rollout: off unless the user asks for it."""
QUOTING.disabled = True


def defect(part: str, error: Exception, now: str) -> str:
    """One line for the user about a part that raised: what it is `now`, what was raised and where."""
    return described(part, error, now)


def described(part: str, error: BaseException, now: str) -> str:
    """As `defect`, of whatever failed.

    What was raised may quote what a model wrote, so only its type and place are told and logged.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
    log.error("%s %s: %s at %s", part, now, type(error).__name__, " < ".join(reversed(places)))
    QUOTING.error("%s", error, exc_info=error)
    at = f" at {places[-1]}" if places else ""
    return (
        f"{part} {now}: {type(error).__name__}{at}, a defect of grpo-top; please report this line to {ISSUES}"
    )
