"""What a format is: a claim on a file, and a reader that turns its bytes into records.

A format knows nothing of tailing, of the history or of the screen. Its readers are fed whole lines, whole
files or pieces of a byte stream, and answer with records; the same bytes give the same records however they
were cut. A database is the exception: its reader is told where it lies and looks into it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from grpo_top.records import Rollout
from grpo_top.sources.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path, PurePath

    from grpo_top.bundle import Read
    from grpo_top.formats.choice import Choice
    from grpo_top.records import Location, Record


class Claim(NamedTuple):
    """That a format can read a file, how sure it is, and how it wants to be fed."""

    confidence: int
    """1 to 100; the highest claim wins. Content that only one framework writes is 90, a mere guess by fields 30."""
    feed: Literal["lines", "whole", "bytes", "database", "none"]
    """`lines`: whole lines as they appear. `whole`: the file once it is complete, again when it is rewritten.
    `bytes`: pieces of a binary stream as it grows. `database`: nothing, the reader looks itself (SQLite files,
    and stores of many small files). `none`: known, and read through another file or of no interest."""
    role: str
    """What the file holds, in a word: `rollouts`, `metrics`, `console`, `config`."""
    writer: str
    """Files of one writer share this name: a later step from it means that its earlier steps are finished."""
    order: int = 0
    """Files are first read in ascending order (config before metrics before rollouts before console)."""
    run: str = ""
    """Id of the run, of a tracker whose folder holds several: see `grpo_top.formats.choice`."""
    began: float = 0.0
    """When that run began: any number that grows from run to run."""
    anew: bool = False
    """Lines: a file that begins anew takes the place of all it held (a file a step), not only of what comes again."""
    called: str = ""
    """What people call that run, where the file says so."""


@dataclass(slots=True)
class RunContext:
    """What the readers of one run tell each other: the little that one file needs to be understood by another."""

    framework: str | None = None
    logging_steps: int | None = None
    """Optimizer steps between two printed rows, where some file says so."""
    to_end: bool = False
    """Everything is read once, to its end; nothing is followed."""
    wanted: str | None = None
    """Name or id of the run to read where one place holds several, if the user has said."""
    choices: dict[str, Choice] = field(default_factory=dict)
    """Tracker → which of its runs is read."""
    notes: dict[str, object] = field(default_factory=dict)


class Reader(ABC):
    """Turns one file's bytes into records. One instance a file; it may keep what it needs from earlier lines."""

    @property
    def note(self) -> str:
        """One line for the user about what is left out and why; empty where nothing is."""
        return ""

    @property
    def fields(self) -> Mapping[str, str | None]:
        """The file's own names → what each is read as, None where it is not; only where that was guessed or set."""
        return {}

    def feed(self, lines: Lines) -> list[Record]:
        """Records of these lines, in order. A line that cannot be read gives a `Skipped`, never an exception."""
        raise NotImplementedError

    def together(self, lines: Lines) -> list[Read]:
        """As `feed`, for a reader that is quicker so: neighbouring rollouts may come as bundles."""
        return list(self.feed(lines))

    def whole(self, data: bytes) -> list[Record]:
        """Records of a complete file."""
        raise NotImplementedError

    def feed_bytes(self, offset: int, data: bytes) -> list[Record]:
        """Records of the next piece, which begins at `offset` where the one before ended.

        What is not whole yet is kept for the next call. After a rewrite a new reader begins at offset 0.
        """
        raise NotImplementedError

    def poll(self, path: Path, last: bool = False) -> list[Record]:
        """The next new records of a store; empty where there are none now. Nothing is written or locked.

        `last`: nothing more will come, so that nothing is put off. OSError, with a reason for the user, where the
        store cannot be read now: it is polled again.
        """
        raise NotImplementedError

    def idle(self) -> list[Record]:
        """Records that are whole but wait for more of their step, now that nothing has come for a while."""
        return []

    def end(self) -> list[Record]:
        """Records that were waiting for what did not come: the source has ended. The second call gives nothing."""
        return []

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout at `location`, with its text, from `data`.

        `data` is the line's bytes where `location.length` is not 0, else the whole file's. The default feeds the
        line to a fresh reader of the same kind and takes the `part`-th rollout of it.
        """
        found = [
            record
            for record in self.fresh().feed(Lines(location.offset, [data], 1))
            if isinstance(record, Rollout)
        ]
        return found[location.part] if location.part < len(found) else None

    def find(self, path: Path, location: Location) -> Rollout | None:  # noqa: ARG002
        """The rollout at `location` of a store that the reader looks into itself; OSError where it cannot be read."""
        return None

    @abstractmethod
    def fresh(self) -> Reader:
        """A reader like this one that has read nothing."""


class Format(ABC):
    """One framework's or tool's way to write a run down."""

    name: ClassVar[str]
    rollouts_hint: ClassVar[str] = ""
    """Which setting of the framework makes it write rollouts, in one line."""
    surest: int = 100
    """The highest confidence of any of its claims: a file that another format claims as surely is not looked at."""

    @abstractmethod
    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Whether this format reads `path`, judged by its first bytes (up to 64 kB) and only then by its name.

        The head of a SQLite file is its magic and the names of its tables, one a line.
        """

    @abstractmethod
    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for a file that was claimed."""
