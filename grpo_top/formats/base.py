"""What a format is: a claim on a file, and a reader that turns its bytes into records.

A format knows nothing of tailing, of the history or of the screen. Its readers are fed whole lines, or whole
files, and answer with records; the same bytes give the same records however they were cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from grpo_top.records import Rollout
from grpo_top.sources.lines import Lines

if TYPE_CHECKING:
    from pathlib import PurePath

    from grpo_top.records import Location, Record


class Claim(NamedTuple):
    """That a format can read a file, how sure it is, and how it wants to be fed."""

    confidence: int
    """1 to 100; the highest claim wins. Content that only one framework writes is 90, a mere guess by fields 30."""
    feed: Literal["lines", "whole"]
    """`lines`: whole lines as they appear. `whole`: the file once it is complete, again when it is rewritten."""
    role: str
    """What the file holds, in a word: `rollouts`, `metrics`, `console`, `config`."""
    writer: str
    """Files of one writer share this name: a later step from it means that its earlier steps are finished."""
    order: int = 0
    """Files are first read in ascending order (config before metrics before rollouts before console)."""


@dataclass(slots=True)
class RunContext:
    """What the readers of one run tell each other: the little that one file needs to be understood by another."""

    framework: str | None = None
    logging_steps: int | None = None
    """Optimizer steps between two printed rows, where some file says so."""
    notes: dict[str, object] = field(default_factory=dict)


class Reader(ABC):
    """Turns one file's bytes into records. One instance a file; it may keep what it needs from earlier lines."""

    def feed(self, lines: Lines) -> list[Record]:
        """Records of these lines, in order. A line that cannot be read gives a `Skipped`, never an exception."""
        raise NotImplementedError

    def whole(self, data: bytes) -> list[Record]:
        """Records of a complete file."""
        raise NotImplementedError

    def end(self) -> list[Record]:
        """Records that were waiting for a line that did not come: the source has ended."""
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

    @abstractmethod
    def fresh(self) -> Reader:
        """A reader like this one that has read nothing."""


class Format(ABC):
    """One framework's or tool's way to write a run down."""

    name: ClassVar[str]
    rollouts_hint: ClassVar[str] = ""
    """Which setting of the framework makes it write rollouts, in one line."""

    @abstractmethod
    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Whether this format reads `path`, judged by its first bytes (up to 64 kB) and only then by its name."""

    @abstractmethod
    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for a file that was claimed."""
