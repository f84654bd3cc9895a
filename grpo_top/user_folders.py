"""The user's own folders for grpo-top."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

_APP = "grpo-top"
_DEFAULTS = {"config": "~/.config", "state": "~/.local/state"}


def user_folder(kind: Literal["config", "state"]) -> Path:
    """Where the user's settings are, or what grpo-top keeps for them. Where platformdirs has them.

    It is asked where the answer is not plain: to import it takes 6 ms, and `check` on a short log 200.
    Source: XDG Base Directory Specification 0.8.
    """
    if sys.platform == "linux" and os.environ.get("HOME", "").startswith("/"):
        given = os.environ.get(f"XDG_{kind.upper()}_HOME", "")
        return Path(given if given.startswith("/") else _DEFAULTS[kind]).expanduser() / _APP
    import platformdirs  # noqa: PLC0415

    found = {"config": platformdirs.user_config_dir, "state": platformdirs.user_state_dir}
    return Path(found[kind](_APP))
