"""What is shown where nothing was found: what was looked for, where, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.first_run import LOOKED_FOR, looked_at, next_commands
from grpo_top.text import safe
from grpo_top.ui.evidence.layout import wrapped
from grpo_top.ui.widgets.runs import cut
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.first_run import Next
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_LEFT_OUT_SHOWN = 4
_MARGIN = "  "
_LABEL = 12
_AGAIN_SECONDS = 2.0


class FirstRun(ViewRows):
    """Stands in place of the panels until there is a log."""

    DEFAULT_CSS = "FirstRun { height: 1fr; }"

    def __init__(self, where: Sequence[str]) -> None:
        super().__init__()
        self._where = tuple(where)
        self._looked = -_AGAIN_SECONDS
        self._places: list[tuple[str, str]] = []
        self._next: Sequence[Next] = ()

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The page; where rows are few, the commands are what stays."""
        self._look(view)
        room = min(width - len(_MARGIN) - _LABEL - 1, 100)
        where = [(f"{safe(place)}: {what}", "text") for place, what in self._places]
        left_out = view.snapshot.left_out
        where += [(safe(line), "dim") for line in left_out[:_LEFT_OUT_SHOWN]]
        if len(left_out) > _LEFT_OUT_SHOWN:
            where.append((f"and {len(left_out) - _LEFT_OUT_SHOWN:,} more", "dim"))
        known = [(line, "dim") for line in LOOKED_FOR]
        parts = [
            [*_labelled("looked for", known, room), []],
            [*_labelled("looked in", where, room), []],
            [[(f"{_MARGIN}next", "text bold")], *_commands(self._next, width - len(_MARGIN))],
        ]
        order = [1, 0, 2]
        while len(order) > 1 and sum(len(parts[at]) for at in order) + 1 > height:
            order.remove(min(order))
        rows: list[Row] = [[], *(row for at in order for row in parts[at])]
        return [
            cut([(glyphs.plain(text), role) for text, role in row], width, glyphs.ellipsis) for row in rows
        ]

    def _look(self, view: View) -> None:
        """Look at the places again, now and then: a disk is not asked with every frame."""
        if abs(view.now - self._looked) >= _AGAIN_SECONDS:
            self._looked = view.now
            self._places = [(place, looked_at(place)) for place in self._where]
            self._next = next_commands(self._where)


def _labelled(label: str, lines: Sequence[tuple[str, str]], room: int) -> list[Row]:
    """Lines in a column of their own, the label beside the first."""
    wrapped_lines = [row for text, role in lines for row in wrapped(text, room, role)]
    return [
        [(f"{_MARGIN}{label if not at else '':<{_LABEL}}", "dim"), *row]
        for at, row in enumerate(wrapped_lines)
    ]


def _commands(commands: Sequence[Next], room: int) -> list[Row]:
    """A command a row with its reason beside it, or below it where there is no room."""
    widest = max((len(each.command) for each in commands), default=0)
    fits = all(widest + 3 + len(each.why) <= room - len(_MARGIN) for each in commands)
    rows: list[Row] = []
    for each in commands:
        command = safe(each.command)
        if fits:
            rows.append(
                [(_MARGIN, ""), (f"{command:<{widest}}", "accent bold"), (f"   {safe(each.why)}", "dim")]
            )
        else:
            rows += [[(_MARGIN, ""), (command, "accent bold")], [(f"{_MARGIN}  {safe(each.why)}", "dim")]]
    return rows
