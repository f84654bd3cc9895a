"""Rows of groups: in the browser's second column, and under a replay the groups of its step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.text import first_line
from grpo_top.ui.rollouts.catalogue import members_of
from grpo_top.ui.rollouts.fact_parts import reward_span
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.rollouts.group_table import HELDOUT, REQUEST
from grpo_top.ui.rollouts.layout import cell
from grpo_top.ui.widgets.strips import reward_strip
from grpo_top.ui.widgets.virtual_list import Listing, cursor_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.browse import Browse
    from grpo_top.ui.rollouts.catalogue import GroupKey
    from grpo_top.ui.rollouts.texts import Glance, Texts
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

STRIP = 16
"""Cells of a group's rewards at most; several rollouts share one where there are more."""


def groups_listing(
    view: View, browse: Browse, texts: Texts[Glance], glyphs: Glyphs, *, focused: bool
) -> Listing:
    """The list of groups: prompt, family, rewards, mean, spread, distinct texts, and more where there is room."""
    rows = GroupRows(view, browse, texts, glyphs)
    right: Row = [(glyphs.plain(browse.order_words), "text"), (" ", ""), ("o", "accent bold")]
    return Listing(
        count=len(browse.groups),
        row=rows.row,
        header=rows.header,
        frame=Frame(
            [("Groups", "text bold"), (f"  {glyphs.plain(scope_words(browse.scope))}", "dim")],
            right,
            [(numbers.part_of(browse.group_at + 1, len(browse.groups)), "dim")] if len(browse.groups) else [],
            focused,
        ),
        empty="no group matches" if browse.catalogue.narrowed else "no groups here",
    )


def scope_words(steps: Collection[int]) -> str:
    """Which steps the groups are of: `step 109`, `steps 91–110`, `7 steps`."""
    if not steps:
        return ""
    first, last = min(steps), max(steps)
    if len(steps) > 1 and last - first + 1 != len(steps):
        return f"{numbers.count(len(steps))} steps"
    return f"step{'s' if len(steps) > 1 else ''} {numbers.span(first, last)}"


class GroupRows:
    """Makes the rows of groups."""

    def __init__(self, view: View, browse: Browse, texts: Texts[Glance], glyphs: Glyphs) -> None:
        self._view = view
        self._browse = browse
        self._texts = texts
        self._glyphs = glyphs
        self._columns = view.snapshot.rollouts.columns
        size = view.snapshot.run.group_size or 8
        self._strip = min(max(size, 7), STRIP)
        self._family = family_width(view)

    def header(self, width: int) -> Row:
        """Titles of the columns."""
        prompt, more = self._shares(width)
        family = f"{'family':<{self._family}}" if self._family else ""
        names = f"{'step':>6}  {'prompt':<{prompt}} {family}{'rewards':<{self._strip}}"
        further = "".join(extra.title(name) for name, extra in _MORE.items() if name in more)
        return [(f"{names}{'mean':>7}{self._glyphs.sigma:>7}{'texts':>7}{further}", "dim")]

    def row(self, position: int, width: int) -> Row:
        """One group."""
        glyphs, table = self._glyphs, self._browse.catalogue.table
        at = int(self._browse.groups[position])
        key = self._browse.catalogue.key(at)
        members = self._browse.catalogue.members(key)
        flat = int(table["flat"][at]) == 1
        prompt, more = self._shares(width)
        return [
            cursor_mark(position == self._browse.group_at, glyphs),
            cell(numbers.count(key.step), 5, "dim", right=True),
            ("  ", ""),
            *self._prompt(at, key, prompt),
            (" ", ""),
            *self._family_cell(members),
            *self._rewards(at, members, key),
            cell(glyphs.plain(numbers.fixed(float(table["mean"][at]), 2)), 7, "text", right=True),
            spread_cell(float(table["std"][at]), flat, 7),
            texts_cell(int(table["texts"][at]), int(table["size"][at]), 7, flat),
            *(run for name in more for run in _MORE[name].cells(self, at, members)),
        ]

    def outcome(self, at: int) -> tuple[str, str]:
        """Whether all of a group succeeded, or none, or some: amber where it has no spread."""
        table = self._browse.catalogue.table
        passed, size, flat = (int(table[name][at]) for name in ("passed", "size", "flat"))
        said = "all-fail" if passed == 0 else "all-pass" if passed == size else "mixed"
        if passed < 0:
            said = {1: "identical" if int(table["texts"][at]) == 1 else "flat", 0: "mixed"}.get(
                flat, numbers.UNKNOWN
            )
        return said, "warn" if flat == 1 else "info" if said == numbers.UNKNOWN else "dim"

    def cut_off(self, members: NDArray[np.int64]) -> tuple[str, str]:
        """How many of a group were truncated."""
        truncated = self._columns["truncated"][members]
        known = truncated >= 0
        if not known.any():
            return numbers.UNKNOWN, "info"
        cut = int((truncated == 1).sum())
        return (numbers.ratio(cut, int(known.sum())), "text") if cut else (self._glyphs.separator, "dim")

    def lag(self, members: NDArray[np.int64]) -> tuple[str, str]:
        """The longest lag of a group."""
        start, trainer = (self._columns[name][members] for name in ("policy_start", "trainer_version"))
        known = (start >= 0) & (trainer >= 0)
        if not known.any():
            return numbers.UNKNOWN, "info"
        lag, tolerance = int((trainer - start)[known].max()), self._view.snapshot.run.version_lag_tolerance
        return numbers.count(lag), "text" if tolerance is not None and lag > tolerance else "dim"

    def task(self, at: int) -> tuple[str, str]:
        """The group's task."""
        id_ = int(self._columns["task"][int(self._browse.catalogue.table["first_row"][at])])
        names = self._view.snapshot.rollouts.names["task"]
        return (first_line(names[id_], 24), "dim") if id_ >= 0 else (numbers.UNKNOWN, "info")

    def _shares(self, width: int) -> tuple[int, tuple[str, ...]]:
        """Cells of the prompt, and the columns that there is room for past those that are always there."""
        prompt = max(6, width - 1 - 5 - 2 - 1 - self._family - self._strip - 21 - 3)
        more = []
        for name, extra in _MORE.items():
            if prompt - extra.width < extra.leave:
                break
            prompt -= extra.width
            more.append(name)
        return prompt, tuple(more)

    def _prompt(self, at: int, key: GroupKey, width: int) -> Row:
        seen = self._texts.get(int(self._browse.catalogue.table["first_row"][at]))
        shown = "" if seen is None else first_line(seen.prompt or seen.gone, width)
        role = "dim" if seen is not None and seen.gone else "text"
        if key.kind == HELDOUT:
            mark = f"{self._glyphs.heldout} "
            return [(mark, "series2"), cell(shown, width - len(mark), role, glyphs=self._glyphs)]
        return [cell(shown, width, role, glyphs=self._glyphs)]

    def _family_cell(self, members: NDArray[np.int64]) -> Row:
        if not self._family:
            return []
        id_ = int(self._columns["family"][members[0]]) if len(members) else -1
        names = self._view.snapshot.rollouts.names["family"]
        shown = first_line(names[id_], 24) if id_ >= 0 else numbers.UNKNOWN
        return [cell(shown, self._family, "dim", glyphs=self._glyphs)]

    def _rewards(self, at: int, members: NDArray[np.int64], key: GroupKey) -> Row:
        if key.kind == REQUEST:
            return [cell("request" if len(members) == 1 else "requests", self._strip, "dim")]
        rewards = self._columns["reward"][members]
        mean = float(self._browse.catalogue.table["mean"][at])
        return strip_of(self._view, rewards, mean, self._strip, self._glyphs)


class _Extra(NamedTuple):
    """A column that is shown where there is room."""

    width: int
    leave: int
    """Cells that the prompt must keep."""
    right: bool
    make: Callable[[GroupRows, int, NDArray[np.int64]], tuple[str, str]]
    """What it says of a group: rows, its row of the table, its rollouts."""

    def title(self, name: str) -> str:
        """Over the column."""
        return f"{name:>{self.width}}" if self.right else f"  {name:<{self.width - 2}}"

    def cells(self, rows: GroupRows, at: int, members: NDArray[np.int64]) -> Row:
        """In the row of a group."""
        text, role = self.make(rows, at, members)
        if self.right:
            return [cell(text, self.width, role, right=True)]
        return [("  ", ""), cell(text, self.width - 2, role)]


_MORE: dict[str, _Extra] = {
    "outcome": _Extra(11, 10, False, lambda rows, at, _: rows.outcome(at)),
    "trunc": _Extra(5, 10, True, lambda rows, _, members: rows.cut_off(members)),
    "lag": _Extra(4, 9, True, lambda rows, _, members: rows.lag(members)),
    "task": _Extra(16, 20, False, lambda rows, at, _: rows.task(at)),
}
"""By title, the most telling first."""


def spread_cell(std: float, flat: bool, width: int) -> tuple[str, str]:
    """A group's σ; `flat` where there is none."""
    if flat:
        return cell("flat", width, "warn", right=True)
    return cell(numbers.fixed(std, 3), width, "info" if np.isnan(std) else "text", right=True)


def texts_cell(texts: int, size: int, width: int, flat: bool) -> tuple[str, str]:
    """How many distinct texts a group has, of how many rollouts."""
    if texts < 0:
        return cell(numbers.UNKNOWN, width, "info", right=True)
    return cell(numbers.ratio(texts, size), width, "warn" if flat and texts == 1 else "dim", right=True)


def family_width(view: View) -> int:
    """Cells of a column of families, one blank at its end; 0 where no family is known."""
    families = view.snapshot.run.families
    return min(max([6, *map(len, families)]), 10) + 2 if families else 0


def family_of(batch: Batch | None, group: int) -> str:
    """The family of a group's first rollout; `?` where it is unknown."""
    if batch is None:
        return ""
    return name_of(batch, "family", int(members_of(batch, group)[0]), 24) or numbers.UNKNOWN


def name_of(batch: Batch, column: str, at: int, width: int) -> str | None:
    """The name behind an id column for one rollout of a batch, safe to show; None unknown."""
    id_ = int(batch.column(column)[at])
    return first_line(batch.names(column)[id_], width) if id_ >= 0 else None


def group_strip(view: View, batch: Batch | None, group: int, width: int, glyphs: Glyphs) -> Row:
    """A group's rewards in `width` cells, one a rollout; where there are more, the mean of neighbours."""
    if batch is None:
        return [(" " * width, "")]
    rewards: NDArray[np.float64] = batch.reward[members_of(batch, group)]
    return strip_of(view, rewards, float(batch.group_mean[group]), width, glyphs)


def strip_of(view: View, rewards: NDArray[np.float64], mean: float, width: int, glyphs: Glyphs) -> Row:
    """Rewards in `width` cells, see `group_strip`; `mean` is NaN where it is unknown."""
    low, high = reward_span(view.snapshot.run) or (0.0, 1.0)
    shown = rewards.tolist()
    if len(shown) > width:
        shown = [float(part.mean()) for part in np.array_split(rewards, width)]
    strip = reward_strip(shown, low, high, None if np.isnan(mean) else mean, glyphs)
    return [*strip, (" " * (width - len(strip)), "")]
