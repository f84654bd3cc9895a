"""The groups that make a panel what it is: all of the last 20 steps, the most telling first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.ui.evidence.groups import (
    answers_cell,
    mean_cell,
    prompt_cell,
    spread_cell,
    strip_cells,
    texts_cell,
)
from grpo_top.ui.evidence.layout import Column, Frame, table
from grpo_top.ui.evidence.pool import unknown_as_nan

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from grpo_top.ui.evidence.groups import GroupOf, Reading
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.evidence.pool import Pool
    from grpo_top.ui.evidence.windows import Windows
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Floats = NDArray[np.float64]


class Order(NamedTuple):
    """A way to sort groups: smallest key first, the newest first where keys are equal; NaN last."""

    words: str
    key: Callable[[Pool], Floats]
    title: str = ""
    """A column that shows what it sorts by, where the table has none."""
    cell: Callable[[GroupOf], str] | None = None


def _failed(pool: Pool) -> Floats:
    parsed = unknown_as_nan(pool.column("parsed"))
    return pool.group_mean(parsed)


def _errors(pool: Pool) -> Floats:
    known = pool.column("verifier_known") == 1
    return -pool.group_mean(np.where(known, pool.column("verifier_error") >= 0, np.nan))


def _share(column: str, wanted: int) -> Callable[[GroupOf], str]:
    """How many of a group's rollouts have a value: `3/8`."""

    def cell(group: GroupOf) -> str:
        values = group.column(column)
        known = [value for value in values if value >= 0]
        return (
            numbers.ratio(sum(value == wanted for value in known), len(values)) if known else numbers.UNKNOWN
        )

    return cell


def _verifier_errors(group: GroupOf) -> str:
    known = sum(value == 1 for value in group.column("verifier_known"))
    errors = sum(value >= 0 for value in group.column("verifier_error"))
    return numbers.ratio(errors, len(group.where)) if known else numbers.UNKNOWN


def _tokens(group: GroupOf) -> str:
    known = [value for value in group.column("completion_tokens") if value >= 0]
    return numbers.count(sum(known) / len(known)) if known else numbers.UNKNOWN


def _lag(group: GroupOf) -> str:
    pairs = zip(group.column("policy_start"), group.column("trainer_version"), strict=True)
    lags = [trainer - start for start, trainer in pairs if start >= 0 and trainer >= 0]
    return numbers.count(max(lags)) if lags else numbers.UNKNOWN


ORDERS: dict[str, Order] = {
    "σ": Order("σ, flat first", lambda pool: pool.std),
    "mean": Order("mean, lowest first", lambda pool: pool.mean),
    "texts": Order("texts, fewest first", lambda pool: pool.texts / np.maximum(pool.size, 1)),
    "newest": Order("newest first", lambda pool: -pool.step.astype(np.float64)),
    "unparsed": Order("unparsed, most first", _failed, "unparsed", _share("parsed", 0)),
    "errors": Order("verifier errors, most first", _errors, "errors", _verifier_errors),
    "truncated": Order(
        "truncated, most first",
        lambda pool: -pool.group_mean(unknown_as_nan(pool.column("truncated"))),
        "trunc",
        _share("truncated", 1),
    ),
    "length": Order("longest first", lambda pool: -pool.group_mean(pool.length), "tokens", _tokens),
    "loops": Order(
        "loops, most first",
        lambda pool: -pool.group_mean(unknown_as_nan(pool.column("loop"))),
        "loops",
        _share("loop", 1),
    ),
    "lag": Order("oldest first", lambda pool: -pool.group_mean(pool.lag), "lag", _lag),
}
"""By their names."""


def ordered(pool: Pool, order: str) -> list[int]:
    """The groups of a pool in an order."""
    if not pool.groups:
        return []
    key = np.round(ORDERS[order].key(pool), 9)
    places: list[int] = np.lexsort((np.arange(pool.groups), -pool.step, key)).tolist()
    return places


def worst_rows(
    view: View, pool: Pool, order: str, shown: list[int], width: int, read: Reading, glyphs: Glyphs
) -> list[Row]:
    """The header and a row for each group of `shown`, in lines of `width` cells."""
    chosen = ORDERS[order]
    most = max(width // 6, 8)
    columns = [
        Column("step", right=True, least=4),
        Column("prompt", most=most),
        Column("rewards"),
        Column("mean", right=True, rank=1),
        Column("σ", right=True, rank=2, least=5),
        Column("texts", rank=3),
        *([Column(chosen.title, right=True)] if chosen.cell else []),
        Column("most common answer" if width >= 64 and not chosen.cell else "answer", rank=4),
    ]
    body: list[list[list[Run]]] = []
    for number in shown:
        group = pool.at(number)
        cells = [
            [(str(group.step), "text")],
            prompt_cell(group, read, most, glyphs),
            strip_cells(view, group, glyphs),
            mean_cell(group, glyphs),
            spread_cell(group, glyphs),
            texts_cell(group),
            *([[(glyphs.plain(chosen.cell(group)), "text bold")]] if chosen.cell else []),
            answers_cell(group, read, max(width // 3, 12), glyphs, most=1),
        ]
        body.append(cells)
    return table(columns, body, width, glyphs)


def worst_frame(pool: Pool, order: str, windows: Windows, width: int, glyphs: Glyphs) -> Frame:
    """The list's box: how it is sorted, and how many of the groups are flat."""
    right: list[Run] = [
        (glyphs.plain(ORDERS[order].words), "text"),
        ("   o", "accent bold"),
        (" order", "dim"),
    ]
    judged = int(pool.judged.sum())
    steps = "" if windows.now is None else f", {glyphs.plain(windows.now.words)}"
    said = f"{numbers.count(int(pool.flat.sum()))} flat of {numbers.count(judged)}{steps}"
    foot: list[Run] = [(said, "dim")] if judged else []
    title = "Groups that make it so" if width >= 60 else "Groups"
    return Frame([(title, "text bold")], right, foot)
