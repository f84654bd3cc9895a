"""The frame of every reader whose files hold one JSON object a line."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from grpo_top.formats.base import Reader
from grpo_top.formats.decode import bare, parse_record
from grpo_top.records import Location, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines


class JsonLinesReader(Reader):
    """Reads one JSON object a line; a line that is none gives a `Skipped`, an empty one nothing."""

    @abstractmethod
    def records(self, raw: dict[str, Any], location: Location) -> Iterable[Record]:
        """The records that one object stands for; ValueError with a short reason where it stands for none."""

    def feed(self, lines: Lines) -> list[Record]:
        """Records of these lines, in order."""
        found: list[Record] = []
        offset = lines.offset
        for line_number, line in enumerate(lines.lines, lines.first_number):
            stripped = line if line.startswith(b"{") else bare(line)
            if stripped:
                try:
                    found.extend(self.records(parse_record(stripped), Location(offset, len(line))))
                except ValueError as error:
                    found.append(Skipped(str(error), offset, line_number))
            offset += len(line) + 1
        return found
