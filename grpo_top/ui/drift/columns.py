"""The columns of the table: one a sampler where there is room, else one for all samplers of equal configs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.snapshot import Status
from grpo_top.ui.drift.samplers import ALL_ROLLOUTS, Cell
from grpo_top.ui.panels.sampler import config_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grpo_top.records import Sampling
    from grpo_top.ui.drift.samplers import Deployment, Sampler


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A sampler, or several that hold equal configs."""

    title: str
    members: tuple[Sampler, ...]
    cells: Mapping[str, Cell]
    hash: str
    """Of the config as far as it is known; empty where nothing is."""

    @property
    def status(self) -> Status:
        """The worst of its settings; unknown where none is known."""
        if not any(cell.value is not None for cell in self.cells.values()):
            return Status.UNKNOWN
        return max((cell.status for cell in self.cells.values() if cell.differs), default=Status.OK)

    @property
    def whole(self) -> bool:
        """Whether every setting is known."""
        return all(cell.value is not None for cell in self.cells.values())

    @property
    def differing(self) -> dict[str, Cell]:
        """The settings that are not as they should be."""
        return {name: cell for name, cell in self.cells.items() if cell.differs}


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Every column, in the order in which they stand."""

    columns: tuple[Column, ...]
    settings: tuple[str, ...]
    """The rows: names of settings."""
    hash: str
    """Of the config that all should hold."""

    @property
    def samplers(self) -> int:
        """How many samplers there are."""
        return sum(len(column.members) for column in self.columns)

    def count(self, status: Status) -> int:
        """How many samplers are at least as bad, or exactly unknown."""
        return sum(
            len(column.members)
            for column in self.columns
            if (column.status is status if status is Status.UNKNOWN else column.status >= status)
        )


def columns_of(deployment: Deployment, most: int) -> Columns:
    """The columns, where `most` of them can be seen at once.

    More samplers than that are put together where their configs are equal now: the largest party that is as it should
    be comes first, then those that differ, the largest first.
    """
    known = [
        (sampler, {name: deployment.cell(sampler, name) for name in deployment.names})
        for sampler in deployment.samplers
    ]
    parties: dict[object, list[tuple[Sampler, dict[str, Cell]]]] = {}
    for place, (sampler, cells) in enumerate(known):
        # 1 and 1.0 are one key, as they are one value.
        key = tuple(cell.value for cell in cells.values()) if len(known) > most else place
        parties.setdefault(key, []).append((sampler, cells))
    columns = [_column(deployment, party) for party in parties.values()]
    if len(known) > most:
        columns.sort(key=lambda column: (column.status > Status.OK, -len(column.members)))
    return Columns(
        tuple(columns), deployment.names, config_hash(deployment.reference) if deployment.reference else ""
    )


def _column(deployment: Deployment, party: Sequence[tuple[Sampler, dict[str, Cell]]]) -> Column:
    members = tuple(sampler for sampler, _ in party)
    cells = {name: _together([cells[name] for _, cells in party]) for name in deployment.names}
    config: Sampling = {name: cell.value for name, cell in cells.items() if cell.value is not None}
    title = members[0].name if len(members) == 1 else f"{numbers.count(len(members))} samplers"
    return Column(title, members, cells, config_hash(config) if config else "")


def _together(cells: Sequence[Cell]) -> Cell:
    """What several samplers hold that agree in a setting."""
    first = cells[0]
    if len(cells) == 1:
        return first
    since = [cell.since for cell in cells if cell.since is not None]
    return replace(
        first,
        since=min(since, default=None),
        last_since=max(since, default=None),
        first_look=any(cell.first_look for cell in cells),
        before=first.before if all(cell.before == first.before for cell in cells) else None,
        origin=first.origin if all(cell.origin == first.origin for cell in cells) else "",
        default=first.default if all(cell.default == first.default for cell in cells) else None,
    )


def subject(column: Column) -> tuple[str, str]:
    """How a column is spoken of, and the ending of its verb: `gpu3:8000 hold` + `s`, `2 samplers hold`."""
    if len(column.members) > 1:
        return column.title, ""
    return column.title, "" if column.title == ALL_ROLLOUTS else "s"
