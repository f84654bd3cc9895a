"""Takes what is on the screen out of it: to the clipboard, to a file that is named on the spot, to a pager."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from grpo_top.leaving import at_last
from grpo_top.text import safe
from grpo_top.ui.keys import Key
from grpo_top.ui.rollouts.places import clipboard_note, pager_command, proposed_path, usual_places
from grpo_top.ui.screens.naming import NamingScreen
from grpo_top.ui.screens.reading import ReadingScreen
from grpo_top.writing import write_whole

if TYPE_CHECKING:
    from textual.screen import Screen

    from grpo_top.ui.rollouts.out import Document
    from grpo_top.ui.screens.base import RunScreen

COPY_KEY = Key("c", "copy", "c", "copy", "copy the text, through the terminal", rank=2)
WRITE_KEY = Key("w", "write", "w", "write", "write it to a file as JSON or Markdown", rank=2)
PAGER_KEY = Key("e", "pager", "e", "pager", "open it in $PAGER", rank=3)

LONGEST_COPY = 1_000_000
"""Characters that are sent to the terminal at most: more would hold up everything behind it."""


class Exporting(ReadingScreen):
    """A screen that has something to give. A subclass says what in `document`, and lists the keys."""

    def document(self) -> Document | None:
        """What is written, or paged through; None where there is nothing, and the user has been told."""
        raise NotImplementedError

    def action_write(self) -> None:
        """Write it to a file."""
        if (document := self.document()) is not None:
            write(self, document)

    def action_pager(self) -> None:
        """Open it in a pager."""
        if (document := self.document()) is not None:
            page(self, document)


def copy(screen: Screen[None], what: str, text: str) -> None:
    """Send a text to the terminal's clipboard, safe to be pasted anywhere, and say what is known of its arrival."""
    if not text:
        screen.notify("there is no text to copy", severity="warning", markup=False)
        return
    if len(text) > LONGEST_COPY:
        said = f"{what}: {len(text):,} characters are more than terminals take; w writes it to a file"
        screen.notify(said, severity="warning", markup=False)
        return
    shown = safe(text, newlines=True)
    screen.app.copy_to_clipboard(shown)
    note, refused = clipboard_note(os.environ, len(shown.encode()))
    screen.notify(
        f"copied {safe(what)}{note and '; '}{note}",
        severity="warning" if refused else "information",
        markup=False,
    )


def write(screen: RunScreen, document: Document) -> None:
    """Ask where to, and write it there."""
    run = [Path(place) for place in screen.grpo_top.where]
    run += [Path(source.path).parent for source in screen.grpo_top.view.snapshot.sources]
    path = proposed_path(document.stem, run, (*usual_places(), Path(tempfile.gettempdir())))

    def take(chosen: Path | None) -> None:
        if chosen is not None:
            screen.run_worker(_write(screen, document, chosen), group="out")

    screen.app.push_screen(NamingScreen(document.what, path, run), take)


def page(screen: Screen[None], document: Document) -> None:
    """Open it in the user's pager, in place of the screen until that is left."""
    command = pager_command(os.environ, shutil.which)
    if command is None:
        screen.notify("there is no pager: neither $PAGER nor less nor more", severity="warning", markup=False)
        return
    screen.run_worker(_page(screen, document, command), group="out")


async def _write(screen: Screen[None], document: Document, path: Path) -> None:
    make = document.as_json if path.suffix.lower() == ".json" else document.as_markdown
    try:
        size = await asyncio.to_thread(lambda: write_whole(path, make()))
    except OSError as error:
        said = f"{safe(str(path))} is not written: {error.strerror or error}"
        screen.notify(said, severity="error", markup=False)
        return
    screen.notify(f"{safe(document.what)} is in {safe(str(path.absolute()))}, {size:,} bytes", markup=False)


async def _page(screen: Screen[None], document: Document, command: list[str]) -> None:
    text = await asyncio.to_thread(document.as_markdown)
    try:
        with tempfile.TemporaryDirectory(prefix="grpo-top-") as directory:
            path = Path(directory) / f"{document.stem}.md"
            path.write_text(text, encoding="utf-8")
            with screen.app.suspend():
                said = _run([*command, str(path)])
    except SuspendNotSupported:
        said = "this terminal cannot be given to a pager; w writes it to a file"
    except OSError as error:
        said = f"there is no room for the pager's copy in {tempfile.gettempdir()}: {error.strerror or error}"
    if said:
        screen.notify(said, severity="warning", markup=False)


def _run(command: list[str]) -> str:
    """Run a program in the terminal; what went wrong, else empty. Ctrl+c is for the program alone."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(command)  # noqa: S603  what the user has named as the pager
        with process, at_last(process.kill):
            status = process.wait()
    except OSError as error:
        return f"{shlex.join(command[:1])}: {error.strerror or error}"
    finally:
        signal.signal(signal.SIGINT, before)
    return f"{shlex.join(command[:1])} ended with status {status}" if status > 0 else ""
