"""`--debug`: what grpo-top did, in a file of the state directory. No secret is in it, and no text of a rollout."""

from __future__ import annotations

import logging
import platform
import sys
import time
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING

from grpo_top import __version__
from grpo_top.defects import info, quoting
from grpo_top.text import safe
from grpo_top.user_folders import user_folder

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "debug.log"
LARGEST, KEPT = 1 << 20, 3
"""Bytes of the file, and how many older ones stand beside it."""


def begin(verb: str, *, texts: bool, path: Path | None = None) -> Path:
    """Write a log from now on; its file. OSError where it cannot be written.

    Args:
        verb: what runs.
        texts: also what was raised, which may quote what a model wrote.
        path: the file; None takes the user's own.
    """
    path = path or user_folder("state") / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _Rotated(path, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8", errors="replace")
    handler.setFormatter(_OneLine("%(asctime)s %(process)d %(levelname)s %(threadName)s: %(message)s"))
    log = logging.getLogger("grpo_top")
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    quoting().disabled = not texts
    system = f"Python {platform.python_version()} on {sys.platform}"
    info("grpo-top %s, %s, %s", __version__, verb, system)
    return path


class _Rotated(RotatingFileHandler):
    """What cannot be written is let go: a full disk must not spoil the screen."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Do nothing."""


class _OneLine(logging.Formatter):
    """A record is one line, whatever it quotes: nobody but grpo-top begins one."""

    converter = time.gmtime  # type: ignore[assignment]  # the same, but that it needs no argument

    def format(self, record: logging.LogRecord) -> str:
        return safe(super().format(record).replace("\n", " | "))
