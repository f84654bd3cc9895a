"""Where things go that leave the screen: which path is proposed, which pager is run, what the clipboard is worth."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_LARGE = 74_000
"""Bytes from which on many terminals take nothing: 100 kB in base64."""
_TAKES = ("kitty", "ghostty", "wezterm", "alacritty", "foot", "contour", "rio", "windows terminal")


def usual_places() -> list[Path]:
    """This directory and the user's home, as far as there are any."""
    found = []
    for place in (Path.cwd, Path.home):
        with suppress(OSError, RuntimeError):  # it has been removed; nobody's home is known
            found.append(place())
    return found


def proposed_path(stem: str, run: Sequence[Path], directories: Sequence[Path]) -> Path:
    """A new file in the first of these directories that is none of the run's and can be written to; else the last."""
    good = (place for place in directories if os.access(place, os.W_OK) and not belongs_to(place, run))
    return next(good, directories[-1]) / f"{stem}.md"


def belongs_to(place: Path, run: Iterable[Path]) -> bool:
    """Whether a directory is one of the run's, or lies in one."""
    at = place.resolve()
    return any(at == one or one in at.parents for one in (path.resolve() for path in run if path.is_dir()))


def pager_command(environ: Mapping[str, str], which: Callable[[str], str | None]) -> list[str] | None:
    """What `$PAGER` says, else less, else more; None where there is neither."""
    try:
        named = shlex.split(environ.get("PAGER", ""))
    except ValueError:
        named = []
    if named:
        return named
    return next(([name] for name in ("less", "more") if which(name)), None)


def clipboard_note(environ: Mapping[str, str], size: int) -> tuple[str, bool]:
    """What is known of a terminal's way with a text of so many bytes, in words, and whether it refuses it.

    Nothing is answered where a program hands a text to the terminal (OSC 52), so that only its name tells.
    """
    program, term = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    refuses = (
        "Terminal.app"
        if program == "Apple_Terminal"
        else "a VTE terminal"
        if environ.get("VTE_VERSION")
        else "the console"
        if term in {"linux", "dumb", ""}
        else "a JetBrains terminal"
        if "JetBrains" in environ.get("TERMINAL_EMULATOR", "")
        else ""
    )
    if refuses and not environ.get("TMUX"):
        return f"{refuses} takes no text from programs: w writes it to a file", True
    if environ.get("TMUX"):
        return "tmux hands it on only where set-clipboard is on; w writes it to a file", False
    if environ.get("STY"):
        return "screen does not hand it on: w writes it to a file", True
    if size > _LARGE:
        return "many terminals take 100 kB at most; w writes it to a file", False
    known = f"{program} {term}".lower()
    if any(name in known for name in _TAKES) or environ.get("WT_SESSION") or environ.get("KITTY_WINDOW_ID"):
        return "", False
    return "whether the terminal takes it cannot be known; w writes it to a file", False
