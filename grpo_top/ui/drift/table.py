"""The table: a row a setting, what is intended, and a column for each sampler or party of samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.snapshot import Status
from grpo_top.text import safe
from grpo_top.ui.drift.facts import NOT_ASKED, asked, counted, onset, policies, rollouts_of, weights
from grpo_top.ui.evidence.layout import Frame, on_ground, selectable
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.widgets.runs import cut, filled
from grpo_top.ui.widgets.strips import fit

if TYPE_CHECKING:
    from grpo_top.records import SamplingValue
    from grpo_top.ui.drift.columns import Column, Columns
    from grpo_top.ui.drift.samplers import Cell, Deployment
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_NAME, _INTENDED, _GAP = 18, 9, 2
_NARROW, _SHORT_NAME = 60, 12
"""Cells of a box below which names are cut rather than values, and what is left of them."""
_LEAD = 2
"""Cells of a row's mark, and of a column's."""
LEAST_COLUMN, _MOST_COLUMN = 15, 30
_SINCE = 17
"""Cells from which on a column has room for `since` beside a value."""
NOT_SET = "not set"
HOW_TO_ASK = "--sampler URL asks the server"


def columns_in(width: int) -> int:
    """How many columns of samplers a box of `width` cells has room for."""
    return max((_room(width)) // LEAST_COLUMN, 1)


def _room(width: int) -> int:
    return width - 4 - _LEAD - _name(width) - _INTENDED - _GAP


def _name(width: int) -> int:
    return _NAME if width >= _NARROW else _SHORT_NAME


@dataclass(frozen=True, slots=True)
class Selected:
    """Where the cursor is."""

    setting: int
    column: int
    first: int
    """The first column that is seen."""


class Table:
    """The rows of one view, for a box of a width.

    Args:
        deployment: what is known.
        columns: how it is put together.
        at: the cursor.
        width: cells of the box.
        glyphs: the set of marks.
    """

    def __init__(
        self, deployment: Deployment, columns: Columns, at: Selected, width: int, glyphs: Glyphs
    ) -> None:
        self._deployment, self._view, self._columns = deployment, deployment.view, columns
        self._at, self._width, self._glyphs = at, width, glyphs
        shown = min(columns_in(width), len(columns.columns))
        self._shown = columns.columns[at.first : at.first + shown]
        self._column = min(_room(width) // max(shown, 1), _MOST_COLUMN)

    def header(self) -> Row:
        """Titles with each column's verdict."""
        runs = self._begin("", "setting", "dim", "intended", "dim")
        for place, column in enumerate(self._shown, self._at.first):
            chosen = place == self._at.column
            status, glyphs = column.status, self._glyphs
            mark = glyphs.selected if chosen else " "
            role = (
                "accent bold"
                if chosen
                else f"{STATUS_ROLES[status]} bold"
                if status >= Status.WATCH
                else "text bold"
            )
            title = fit(column.title, self._column - 3, ellipsis=glyphs.ellipsis)
            runs += [
                (mark, "accent bold"),
                (glyphs.mark(status), STATUS_ROLES[status]),
                (" ", ""),
                (title, role),
            ]
        return self._aired(runs)

    def rule(self) -> Row:
        """A line between parts."""
        return self._aired([("  ", ""), (self._glyphs.box.horizontal * max(self._width - 8, 0), "border")])

    def settings(self) -> list[Row]:
        """A row each."""
        return [self._setting(place, name) for place, name in enumerate(self._columns.settings)]

    def foot(self) -> list[Row]:
        """Config hash, weights, when it was asked, and rollouts."""
        since = onset(self._columns)
        counts = counted(self._deployment, since)
        total = sum(counts.values())
        attributed = any(rollouts_of(column.members, counts) for column in self._columns.columns)
        versions, trainer = policies(self._view)
        rows = [
            self._facts("config hash", self._columns.hash, [self._hash(column) for column in self._shown]),
            self._facts(
                "weights",
                "" if trainer is None else f"v{trainer}",
                [(weights(self._view, column, versions), "text") for column in self._shown],
            ),
        ]
        if self._view.snapshot.samplers:
            told = [asked(self._view, column) for column in self._shown]
            rows.append(
                self._facts("asked", "", [(text, "info" if text == NOT_ASKED else "dim") for text in told])
            )
        if attributed:
            rollouts = [
                (
                    numbers.part_of(rollouts_of(column.members, counts), total),
                    STATUS_ROLES[column.status] if column.status >= Status.WATCH else "text",
                )
                for column in self._shown
            ]
            rows.append(self._facts("rollouts" if since is None else f"rollouts since {since}", "", rollouts))
        return rows

    def frame(self) -> Frame:
        """What the box says on its borders: how many differ, and how the selected value gets there."""
        status, words = verdict(self._columns)
        loud = f"{STATUS_ROLES[status]} bold" if status >= Status.WATCH else STATUS_ROLES[status]
        facts: Row = [(f"{self._glyphs.mark(status)} ", STATUS_ROLES[status]), (words, loud)]
        more = len(self._columns.columns) - len(self._shown)
        if more:
            last = self._at.first + len(self._shown)
            facts = [
                (
                    f"columns {self._at.first + 1}{self._glyphs.dash}{last} of {last + more - self._at.first}   ",
                    "dim",
                ),
                *facts,
            ]
        role = STATUS_ROLES[status] if status >= Status.WARN else "border"
        return Frame([("Intended and deployed", "text bold")], facts, self._reason(), role)

    def _reason(self) -> Row:
        """How the value under the cursor gets there."""
        if not self._columns.settings or not self._columns.columns:
            return []
        name = self._columns.settings[self._at.setting]
        column = self._columns.columns[self._at.column]
        words = reason(column, name, column.cells[name])
        lead: Row = [(f"{name} ", "text bold"), (f"on {column.title}: ", "dim")]
        return cut([*lead, (self._glyphs.plain(words), "text")], self._width - 8, self._glyphs.ellipsis)

    def _setting(self, place: int, name: str) -> Row:
        cells = [column.cells[name] for column in self._columns.columns]
        worst = max((cell.status for cell in cells if cell.differs), default=Status.OK)
        intended = self._deployment.intended.get(name)
        runs = self._begin(
            self._glyphs.mark(worst) if worst >= Status.WATCH else "",
            name,
            "text bold" if worst >= Status.WATCH or place == self._at.setting else "dim",
            NOT_SET if intended is None else self._plain(intended),
            "faint" if intended is None else "text",
            mark_role=STATUS_ROLES[worst],
        )
        for at, column in enumerate(self._shown, self._at.first):
            runs += self._cell(column.cells[name], at == self._at.column and place == self._at.setting)
        if place == self._at.setting:
            return selectable(runs, self._width, True, self._glyphs)
        if worst >= Status.FAIL:
            return [(" ", ""), *on_ground(filled(runs, self._width - 3, self._glyphs.ellipsis), "fail_bg")]
        return self._aired(runs)

    def _cell(self, cell: Cell, chosen: bool) -> Row:
        glyphs, room = self._glyphs, self._column
        value = numbers.UNKNOWN if cell.value is None else self._plain(cell.value)
        value = fit(value, min(len(value), room - 4), ellipsis=glyphs.ellipsis)
        if not cell.differs:
            role = "info" if cell.value is None else "text"
            return filled([("   ", ""), (value, f"{role} bold" if chosen else role)], room)
        role = STATUS_ROLES[cell.status]
        loud = f"{role} bold reverse" if cell.status is Status.FAIL else f"{role} bold"
        since = self._since(cell)
        return filled(
            [
                ("  ", ""),
                (f" {value} ", loud),
                *([(f" {glyphs.mark(cell.status)} {since}", role)] if since else []),
            ],
            room,
            glyphs.ellipsis,
        )

    def _since(self, cell: Cell) -> str:
        if cell.since is None or cell.last_since is None:
            return ""
        steps = self._glyphs.plain(numbers.span(cell.since, cell.last_since))
        if cell.first_look:
            return f"by {steps}"
        return f"since {steps}" if self._column >= _SINCE + len(steps) - 2 else steps

    def _hash(self, column: Column) -> Run:
        if not column.hash:
            return numbers.UNKNOWN, "info"
        glyphs, roomy = self._glyphs, self._column >= _SINCE
        if column.status >= Status.WATCH:
            word = f"{glyphs.separator} differs" if roomy else glyphs.mark(column.status)
            return f"{column.hash} {word}", STATUS_ROLES[column.status]
        word = "same" if column.whole else "in part"
        return f"{column.hash} {glyphs.separator} {word}" if roomy else column.hash, "text"

    def _facts(self, label: str, intended: str, values: list[Run]) -> Row:
        glyphs = self._glyphs
        runs = self._begin("", label, "dim", intended, "text")
        for text, role in values:
            shown: Run = (glyphs.plain(text), "info" if text == numbers.UNKNOWN else role)
            runs += filled([("   ", ""), *cut([shown], self._column - 4, glyphs.ellipsis)], self._column)
        return self._aired(runs)

    def _begin(
        self, mark: str, name: str, role: str, intended: str, intended_role: str, mark_role: str = "dim"
    ) -> Row:
        ellipsis = self._glyphs.ellipsis
        return [
            (f"{mark:<{_LEAD}}", mark_role),
            (fit(name, _name(self._width), ellipsis=ellipsis), role),
            (fit(intended, _INTENDED, right=True, ellipsis=ellipsis), intended_role),
            (" " * _GAP, ""),
        ]

    def _plain(self, value: SamplingValue) -> str:
        return self._glyphs.plain(safe(numbers.setting(value)))

    def _aired(self, runs: Row) -> Row:
        return selectable(runs, self._width, False, self._glyphs)


def verdict(columns: Columns) -> tuple[Status, str]:
    """How all samplers stand, in a few words."""
    total, differ, unknown = columns.samplers, columns.count(Status.WATCH), columns.count(Status.UNKNOWN)
    if not total:
        return Status.UNKNOWN, "nothing says how rollouts are sampled"
    if differ:
        worst = max(column.status for column in columns.columns)
        if total == 1:
            return worst, "not as intended"
        return worst, f"{differ:,} of {total:,} samplers differ{'s' if differ == 1 else ''}"
    if unknown == total:
        return Status.UNKNOWN, "unknown" if total == 1 else f"{total:,} samplers, all unknown"
    words = "as intended" if total == 1 else f"{total - unknown:,} samplers as intended"
    return Status.OK, f"{words}, {unknown:,} unknown" if unknown else words


def reason(column: Column, name: str, cell: Cell) -> str:
    """How a value gets there, as far as anything says so."""
    looked = [member.asked for member in column.members if member.asked is not None]
    if cell.value is None:
        gated = next((line for facts in looked for line in facts.unknown), "")
        return safe(gated) or (
            f"not in its answers; {name} is unknown" if looked else f"not logged; {HOW_TO_ASK}"
        )
    value = safe(numbers.setting(cell.value))
    if cell.default is not None:
        default = f"left out, the server would take {safe(numbers.setting(cell.default))}"
        return f"{value} is in the request; {default}" + (f", from {cell.origin}" if cell.origin else "")
    if cell.origin:
        return f"{value} from {cell.origin}"
    return f"{value}; what sets it is not known" + ("" if looked else f": {HOW_TO_ASK}")
