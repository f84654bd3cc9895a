"""Asks for the name of a file, in lines at the bottom of the screen that it was called from."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from grpo_top.text import safe
from grpo_top.ui.rollouts.places import belongs_to
from grpo_top.ui.widgets.filter_line import Said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from grpo_top.ui.widgets.runs import Row

SUFFIXES = (".md", ".json")
_FORMATS = {".md": "Markdown", ".json": "JSON", ".html": "HTML"}


class NamingScreen(ModalScreen[Path | None]):
    """Comes back with a path to write to, or None. What might be regretted takes a second `enter`.

    Args:
        what: what is to be written.
        proposed: the path to begin with.
        run: directories of the run, which are written to only where the user insists.
        suffixes: the two ways in which it can be written.
    """

    DEFAULT_CSS = """
    NamingScreen { align: left bottom; background: transparent; }
    NamingScreen Vertical { height: 3; background: $surface; }
    NamingScreen Said { height: 1; background: $surface; }
    NamingScreen Input { height: 1; border: none; margin: 0 1; background: $raised; background-tint: $raised 0%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "leave"), ("tab", "other", "other format")]

    def __init__(
        self, what: str, proposed: Path, run: Sequence[Path], suffixes: tuple[str, str] = SUFFIXES
    ) -> None:
        super().__init__()
        self._suffixes = suffixes
        self._what = what
        self._proposed = proposed
        self._run = run
        self._asked = ""
        """What the next `enter` does all the same."""

    def compose(self) -> ComposeResult:
        """What is written, the path, and what there is to say of it."""
        self._path = Input(_short(self._proposed), compact=True, select_on_focus=False)
        self._path.cursor_blink = False
        head: Row = [(" write ", "dim"), (safe(self._what), "text bold"), (" to", "dim")]
        keys: Row = [
            *(("enter", "accent bold"), (" write   ", "dim")),
            *(("tab", "accent bold"), (f" {self._formats()}   ", "dim")),
            *(("esc", "accent bold"), (" leave ", "dim")),
        ]
        self._note = Said()
        with Vertical():
            yield Said(head, keys)
            yield self._path
            yield self._note

    def on_mount(self) -> None:
        """What was notified lies over these lines."""
        self.app.clear_notifications()

    def on_input_changed(self) -> None:
        """Another path: nothing has been asked about it."""
        self._asked = ""
        self._say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the path, unless it cannot be, or something was to be asked first."""
        try:
            self._take(event.value)
        except (OSError, RuntimeError, ValueError) as error:  # a name too long, no such user, a NUL
            self._say(str(getattr(error, "strerror", None) or error))

    def _take(self, written: str) -> None:
        path = Path(written.strip()).expanduser()
        if path.suffix.lower() not in self._suffixes:
            first, second = self._suffixes
            self._say(f"the name ends in {first} for {_FORMATS[first]} or in {second}")
        elif not path.parent.is_dir():
            self._say(f"there is no directory {path.parent}")
        elif path.is_dir():
            self._say("that is a directory")
        elif written != self._asked and (doubt := self._doubt(path)):
            self._asked = written
            self._say(f"{doubt}; enter once more writes it all the same")
        else:
            self.dismiss(path)

    def action_other(self) -> None:
        """The other format, by the name's ending."""
        path, line = Path(self._path.value), self._path
        if path.name:
            line.value = str(path.with_suffix(self._suffixes[path.suffix.lower() == self._suffixes[0]]))
            line.cursor_position = len(line.value)

    def action_leave(self) -> None:
        """Write nothing."""
        self.dismiss(None)

    def _doubt(self, path: Path) -> str:
        if path.exists():
            return "there is such a file already"
        return "that is the run's own directory" if belongs_to(path.parent, self._run) else ""

    def _formats(self) -> str:
        return " or ".join(_FORMATS[suffix] for suffix in reversed(self._suffixes))

    def _say(self, note: str) -> None:
        self._note.show([(f" {safe(note)}", "warn")] if note else [])


def _short(path: Path) -> str:
    """A path as it is best typed: from here, or from home."""
    with suppress(OSError):  # this directory has been removed
        if path.parent == Path.cwd():
            return path.name
    with suppress(RuntimeError):  # nobody's home is known
        if path.is_relative_to(Path.home()):
            return f"~/{path.relative_to(Path.home())}"
    return str(path)
