"""Parquet tables of loops that have no format of their own: a row a rollout, columns by their usual names.

The names of the columns stand at a file's end, where nobody looks before a file is claimed: so the file's own name
must say that it may hold rollouts, and a table that turns out to hold something else gives nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from grpo_top.formats.base import Claim, Format
from grpo_top.formats.parquet import MAGIC, parquet_rows
from grpo_top.formats.plain import NAMED, claim_of
from grpo_top.formats.plain_fields import Fields
from grpo_top.formats.plain_places import place_of
from grpo_top.formats.plain_rows import Rows, RowsReader
from grpo_top.records import Location, Rollout, Skipped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

NAME = "parquet"
_SURE = 30
_ROLLOUTS = re.compile(
    r"(?:.*[-_.])?(?:rollouts?|completions?|trajector(?:y|ies)|generations?)(?:[-_.]?\d+)?", re.IGNORECASE
)
_NO_ROLLOUTS = "its columns are not those of rollouts with a step, a reward and a text"


class PlainParquet(Format):
    """Reads Parquet tables by the usual names of their columns, or by those that the user has set."""

    name: ClassVar[str] = NAME
    rollouts_hint: ClassVar[str] = (
        "write columns step, group, prompt, completion and reward, one rollout a row"
    )

    def __init__(self, by_user: Mapping[str, str] | None = None) -> None:
        self._fields = Fields(by_user)
        self.surest = NAMED if by_user else _SURE

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the file's name."""
        place = place_of(path)
        named = place.step is not None or _ROLLOUTS.fullmatch(path.name.partition(".")[0]) is not None
        if not head.startswith(MAGIC) or not (named or self._fields.by_user):
            return None
        writer = f"{NAME} {path}" if place.step is None else f"{NAME} {place.split} {place.within}"
        return Claim(self.surest, "whole", "rollouts", writer, 3)

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> TableReader:  # noqa: ARG002
        """A reader of rows."""
        return TableReader(path, Rows(context, self._fields, place_of(path)))


class TableReader(RowsReader):
    """Reads a row as the rollout that its columns show; a rollout's location is its row."""

    def __init__(self, path: PurePath, rows: Rows) -> None:
        self._path = path
        self._rows = rows
        self._note = ""

    def fresh(self) -> TableReader:
        """A reader that has read nothing."""
        return TableReader(self._path, self._rows.fresh())

    @property
    def note(self) -> str:
        """Why nothing is read of a table of something else."""
        return self._note

    def whole(self, data: bytes) -> list[Record]:
        """One rollout a row."""
        try:
            table = parquet_rows(data)
        except ValueError as error:
            return [Skipped(str(error), 0)]
        if claim_of(self._path, table[:5], self._rows.fields, NAME) is None:
            self._note = _NO_ROLLOUTS
            return []
        return self._rows.of_all(table)

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout of row `location.offset`, from the whole file."""
        for record in self.fresh().whole(data):
            if isinstance(record, Rollout) and record.location == location:
                return record
        return None
