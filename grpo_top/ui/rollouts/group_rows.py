"""Rows of groups: in the browser's second column, and under a replay the groups of its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.text import first_line
from grpo_top.ui.rollouts.catalogue import ORDERS, members_of
from grpo_top.ui.rollouts.fact_parts import reward_span
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.rollouts.layout import cell
from grpo_top.ui.widgets.strips import reward_strip
from grpo_top.ui.widgets.virtual_list import Listing, cursor_mark

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from grpo_top.facts import Batch
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.browse import Browse
    from grpo_top.ui.rollouts.texts import Glance, Texts
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

STRIP = 16
"""Cells of a group's rewards at most; several rollouts share one where there are more."""


def groups_listing(
    view: View, browse: Browse, texts: Texts[Glance], glyphs: Glyphs, *, focused: bool
) -> Listing:
    """The list of groups: prompt, family, rewards, mean, spread, distinct texts."""
    rows = GroupRows(view, browse, texts, glyphs)
    right: Row = [(glyphs.plain(ORDERS[browse.order]), "text"), (" ", ""), ("o", "accent bold")]
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
        self._selected = browse.group_at
        size = view.snapshot.run.group_size or 8
        self._strip = min(max(size, 7), STRIP)
        self._family = family_width(view)

    def header(self, width: int) -> Row:
        """Titles of the columns."""
        prompt = self._prompt_width(width)
        family = f"{'family':<{self._family}}" if self._family else ""
        names = f"{'step':>6}  {'prompt':<{prompt}} {family}{'rewards':<{self._strip}}"
        return [(f"{names}{'mean':>7}{self._glyphs.sigma:>7}{'texts':>7}", "dim")]

    def row(self, position: int, width: int) -> Row:
        """One group."""
        glyphs, table = self._glyphs, self._view.snapshot.groups.columns
        at = int(self._browse.groups[position])
        key = self._browse.catalogue.key(at)
        here = position == self._selected
        flat = int(table["flat"][at]) == 1
        batch = self._browse.catalogue.batch(key.step)
        seen = self._texts.get(int(table["first_row"][at]))
        prompt = self._prompt_width(width)
        shown = "" if seen is None else first_line(seen.prompt or seen.gone, prompt)
        return [
            cursor_mark(here, glyphs),
            cell(numbers.count(key.step), 5, "dim", right=True),
            ("  ", ""),
            cell(shown, prompt, "dim" if seen is not None and seen.gone else "text", glyphs=glyphs),
            (" ", ""),
            *(
                [cell(family_of(batch, key.group), self._family, "dim", glyphs=glyphs)]
                if self._family
                else []
            ),
            *group_strip(self._view, batch, key.group, self._strip, glyphs),
            cell(glyphs.plain(numbers.fixed(float(table["mean"][at]), 2)), 7, "text", right=True),
            spread_cell(float(table["std"][at]), flat, 7),
            texts_cell(int(table["texts"][at]), int(table["size"][at]), 7, flat),
        ]

    def _prompt_width(self, width: int) -> int:
        return max(6, width - 1 - 5 - 2 - 1 - self._family - self._strip - 21 - 3)


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
    low, high = reward_span(view.snapshot.run) or (0.0, 1.0)
    mean = float(batch.group_mean[group])
    shown = rewards.tolist()
    if len(shown) > width:
        shown = [float(part.mean()) for part in np.array_split(rewards, width)]
    strip = reward_strip(shown, low, high, None if np.isnan(mean) else mean, glyphs)
    return [*strip, (" " * (width - len(strip)), "")]
