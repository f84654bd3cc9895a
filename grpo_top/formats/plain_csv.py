"""CSV files of loops that have no format of their own: a heading, then a row a rollout or a step.

Commas, semicolons or tabs, or the bars of a Markdown table. A text in quotes may go on over several lines. A file that
ends without a newline may have been cut in the middle of a number, so that its last row is not read.
"""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.plain import NAMED, claim_of
from grpo_top.formats.plain_fields import Fields
from grpo_top.formats.plain_rows import Rows
from grpo_top.records import Location, Rollout, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines

_DELIMITERS = ",;\t|"
_BAR = "|"
_RULE = frozenset("-: ")
"""What the line under a Markdown table's heading is made of."""
_MOST_LINES = 2_000
"""Lines that one row may go on for: past that a quote stands where none should."""
_MOST_BYTES = 4 << 20
_QUOTE = b'"'


class Csv(Format):
    """Reads CSV files by the usual names of their columns, or by those that the user has set."""

    name: ClassVar[str] = "csv"
    rollouts_hint: ClassVar[str] = (
        "write columns step, group, prompt, completion and reward, one rollout a row"
    )

    def __init__(self, by_user: Mapping[str, str] | None = None) -> None:
        self._fields = Fields(by_user)
        self.surest = NAMED if by_user else 40

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """A heading with a step, and with a reward and its text or numbers that are known by name."""
        first, newline, rest = head.partition(b"\n")
        columns = _columns(first) if newline and not first.startswith((b"{", b"[")) else None
        if columns is None:
            return None
        # Values matter little: a heading alone is as good as a file, which may just have begun.
        rows = [row for _, row in zip(range(5), _whole_rows(rest, columns), strict=False)]
        records = [columns.named(row) for row in rows if len(row) == len(columns.names)]
        return claim_of(path, records or [dict.fromkeys(columns.names, "0")], self._fields, self.name)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> CsvReader:  # noqa: ARG002
        """A reader of rows."""
        return CsvReader(context, self._fields)


class Columns:
    """The heading of a file."""

    def __init__(self, names: list[str], delimiter: str) -> None:
        self.names = names
        self.delimiter = delimiter

    def cells(self, text: bytes) -> list[str]:
        """The cells of one row; ValueError where it is none."""
        if self.delimiter == _BAR:
            row = text.decode("utf-8", "replace").strip().removeprefix(_BAR).removesuffix(_BAR)
            return [cell.strip() for cell in row.split(_BAR)]
        try:
            rows = list(
                csv.reader(io.StringIO(text.decode("utf-8", "replace"), newline=""), delimiter=self.delimiter)
            )
        except csv.Error as error:
            raise ValueError(f"not a row: {error}") from error
        if len(rows) > 1:
            raise ValueError("not a row: a line ends outside of any quotes")
        return rows[0] if rows else []

    def named(self, cells: list[str]) -> dict[str, Any]:
        """Cells by their columns, an empty one as unknown; ValueError where there are more or fewer."""
        if len(cells) != len(self.names):
            raise ValueError(f"row of {len(cells)} columns, where the heading has {len(self.names)}")
        return {name: cell or None for name, cell in zip(self.names, cells, strict=True)}


def _columns(line: bytes) -> Columns | None:
    """The heading that a line is; None where it is none."""
    text = line.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r")
    delimiter = max(_DELIMITERS, key=text.count)
    if delimiter not in text:
        return None
    try:
        names = [name.strip() for name in Columns([], delimiter).cells(text.encode())]
    except ValueError:
        return None
    names = _of_chart(names)
    if delimiter == _BAR and not text.lstrip().startswith(_BAR):
        return None
    plain = (
        all(names)
        and "".join(names).isprintable()
        and len(set(names)) == len(names)
        and not any(_is_number(name) for name in names)
    )
    return Columns(names, delimiter) if plain and len(names) > 1 else None


def _of_chart(names: list[str]) -> list[str]:
    """The names of a chart's table as W&B exports it for one run: `my-run - train/reward` is `train/reward`."""
    parts = [name.partition(" - ") for name in names[1:]]
    if names[0] != "Step" or len({run for run, _, _ in parts}) != 1:
        return names
    return [
        names[0],
        *(key if key and not key.endswith(("__MIN", "__MAX")) else f"{run} - {key}" for run, _, key in parts),
    ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole_rows(data: bytes, columns: Columns) -> Iterator[list[str]]:
    """The rows at the beginning of a file; the last line, which may be cut, is none."""
    text = b""
    for line in data.split(b"\n")[:-1]:
        text += line
        if text.count(_QUOTE) % 2:
            text += b"\n"
            continue
        if text.strip():
            with suppress(ValueError):
                yield columns.cells(text.rstrip(b"\r"))
        text = b""


class CsvReader(Reader):
    """Puts lines together into rows, and reads a row as the rollout, step or evaluation that its columns show."""

    def __init__(self, context: RunContext, fields: Fields | None = None) -> None:
        self._rows = Rows(context, fields or Fields())
        self._columns: Columns | None = None
        self._open: list[tuple[int, int, bytes]] = []
        """Lines of a row that goes on: offset, number, text."""
        self._quotes = 0
        self._bytes = 0

    def fresh(self) -> CsvReader:
        """A reader that has read nothing, so that it knows no columns."""
        return CsvReader(self._rows.context, self._rows.fields)

    @property
    def fields(self) -> Mapping[str, str | None]:
        """The columns → what each is read as."""
        return self._rows.read_as

    def feed(self, lines: Lines) -> list[Record]:
        """Records of the rows that end in these lines."""
        found: list[Record] = []
        offset = lines.offset
        for number, line in enumerate(lines.lines, lines.first_number):
            if self._columns is None:
                self._columns = _columns(line) if offset == 0 else None
                if self._columns is None:
                    found.append(Skipped("row before any heading", offset, number))
            else:
                self._add(offset, number, line)
                found += self._closed()
            offset += len(line) + 1
        return found

    def end(self) -> list[Record]:
        """The rows after a quote that nothing has closed."""
        found: list[Record] = []
        while self._open:
            found += self._begin_again("row with a quote that nothing closes")
        return found

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout of the row that `data` is."""
        if self._columns is None:
            return None
        records = self._rows.records(self._columns.named(self._columns.cells(data.rstrip(b"\r"))), location)
        return next((record for record in records if isinstance(record, Rollout)), None)

    def _add(self, offset: int, number: int, line: bytes) -> None:
        self._open.append((offset, number, line))
        self._quotes += line.count(_QUOTE)
        self._bytes += len(line) + 1

    def _closed(self) -> list[Record]:
        """The records of the open lines, where they are a whole row or can be none."""
        if self._quotes % 2 == 0:
            return self._row()
        if len(self._open) > _MOST_LINES or self._bytes > _MOST_BYTES:
            return self._begin_again(f"row of more than {_MOST_LINES:,} lines: a quote that nothing closes")
        return []

    def _row(self) -> list[Record]:
        columns = self._columns
        offset, number, _ = self._open[0]
        text = b"\n".join(line for _, _, line in self._open)
        if columns is None or not text.strip():
            return self._taken([])
        location = Location(offset, len(text))
        try:
            cells = columns.cells(text.rstrip(b"\r"))
            # A run that went on wrote its heading again; a Markdown table has a line under it.
            ruled = columns.delimiter == _BAR and _RULE.issuperset("".join(cells))
            again = ruled or cells == columns.names
            records = [] if again else list(self._rows.records(columns.named(cells), location))
        except ValueError as error:
            if len(self._open) > 1:
                return self._begin_again(str(error))
            records = [Skipped(str(error), offset, number)]
        return self._taken(records)

    def _taken(self, records: list[Record]) -> list[Record]:
        self._open, self._quotes, self._bytes = [], 0, 0
        return records

    def _begin_again(self, reason: str) -> list[Record]:
        """Give the first of the open lines up, and read the others as rows of their own."""
        (offset, number, _), *others = self._open
        found = self._taken([Skipped(reason, offset, number)])
        for other in others:
            self._add(*other)
            found += self._closed()
        return found
