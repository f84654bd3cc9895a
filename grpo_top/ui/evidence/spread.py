"""A distribution as bars: groups by spread, rollouts by reward, length or lag; now, and before something began."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.text import first_line
from grpo_top.ui.evidence.layout import Frame
from grpo_top.ui.widgets.axis import nice_ceiling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.evidence.pool import Pool
    from grpo_top.ui.evidence.windows import Windows
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

BINS = 7
_LABEL, _COUNT = 8, 7
_EIGHTHS = "▏▎▍▌▋▊▉█"
TITLES = {
    "σ": ("Groups by spread", "σ", "groups"),
    "texts": ("Groups by texts", "different", "groups"),
    "reward": ("Rollouts by reward", "", "rollouts"),
    "length": ("Rollouts by length", "tokens", "rollouts"),
    "lag": ("Rollouts by age", "versions", "rollouts"),
    "endings": ("Rollouts by ending", "", "rollouts"),
}
"""Title of the box, what is on its axis where the title does not say it, and what is counted."""


class Bins(NamedTuple):
    """The bars' labels, and how many fall into each: now and before."""

    labels: list[str]
    now: list[int]
    before: list[int]
    loud: int = -1
    """The bar that is what the panel is about."""


def bins_of(view: View, kind: str, now: Pool, before: Pool) -> Bins | None:
    """The distribution of a kind of `TITLES`; None where nothing of it is logged."""
    match kind:
        case "σ":
            return _spreads(view, now, before)
        case "texts":
            return _texts(now, before)
        case "endings":
            return _endings(now, before)
        case "reward":
            return _values(now.reward, before.reward, whole=False)
        case "length":
            return _values(now.length, before.length, whole=True)
        case "lag":
            return _values(now.lag, before.lag, whole=True)
        case _:
            return None


def unit_of_spread(view: View) -> float:
    """The width of a bar: a round number near a twelfth of the rewards' range."""
    limits = view.snapshot.run.reward_range
    reach = limits[1] - limits[0] if limits is not None else 1.0
    return nice_ceiling(reach / 12 * 0.999, (1, 2, 5, 10))


def _spreads(view: View, now: Pool, before: Pool) -> Bins | None:
    """No spread, less than half a unit, then whole units."""
    unit = unit_of_spread(view)
    edges = [unit / 2, unit, 2 * unit, 3 * unit, 4 * unit]
    decimals = max(0, 1 - math.floor(math.log10(unit)))
    written = [numbers.fixed(edge, decimals) for edge in edges]
    labels = ["0", f"< {written[0]}", *written[:-1], f"{written[-1]} +"]

    def count(pool: Pool) -> list[int]:
        std = pool.std[pool.judged & ~pool.flat & np.isfinite(pool.std)]
        bins = np.bincount(np.searchsorted(edges, std, side="right"), minlength=len(edges) + 1)
        return [int(pool.flat.sum()), *bins.tolist()]

    if not now.judged.any():
        return None
    return Bins(labels, count(now), count(before), 0)


def _texts(now: Pool, before: Pool) -> Bins | None:
    """By how many different texts a group holds."""
    known = now.texts[np.isfinite(now.texts)]
    if not len(known):
        return None
    most = int(max(now.size.max(), before.size.max(initial=0)))
    step = max(1, math.ceil(most / (BINS + 1)))
    starts = list(range(1, most + 1, step))
    labels = [numbers.span(start, min(start + step - 1, most)) for start in starts]

    def count(pool: Pool) -> list[int]:
        values = pool.texts[np.isfinite(pool.texts)].astype(np.int64)
        return [int(number) for number in np.bincount((values - 1) // step, minlength=len(starts))]

    return Bins(labels, count(now), count(before), 0)


def _endings(now: Pool, before: Pool) -> Bins | None:
    """By the reason for which a rollout ended."""
    column = next((name for name in ("termination", "finish") if (now.column(name) >= 0).any()), None)
    if column is None:
        return None
    names = now.names(column)
    counts = [np.bincount(_known(pool.column(column)), minlength=len(names)) for pool in (now, before)]
    order = np.argsort(-counts[0], kind="stable")[: BINS + 1]
    return Bins(
        [first_line(names[number], _LABEL) or "(empty)" for number in order],
        [int(counts[0][number]) for number in order],
        [int(counts[1][number]) for number in order],
    )


def _known(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    return ids[ids >= 0]


def _values(now: NDArray[np.float64], before: NDArray[np.float64], *, whole: bool) -> Bins | None:
    """By value, in bars of one round width; the last one holds what is larger."""
    both = np.concatenate([now, before])
    both = both[np.isfinite(both)]
    if not np.isfinite(now).any():
        return None
    low, high = float(both.min()), float(np.percentile(both, 99))
    width = nice_ceiling((high - low) / BINS, (1, 2, 2.5, 5, 10)) if high > low else 1.0
    width = max(1.0, math.ceil(width)) if whole else width
    start = math.floor(low / width + 1e-9) * width
    edges = [start + index * width for index in range(1, BINS)]
    decimals = 0 if whole else max(0, -math.floor(math.log10(width) + 1e-9)) + (width not in {1.0, 0.1, 0.01})
    labels = [numbers.fixed(edge - width, decimals) for edge in edges]
    labels.append(f"{numbers.fixed(edges[-1], decimals)} +")

    def count(values: NDArray[np.float64]) -> list[int]:
        known = values[np.isfinite(values)]
        places = np.searchsorted(np.array(edges) - 1e-9, known, side="right")
        return [int(number) for number in np.bincount(places, minlength=BINS)]

    return Bins(labels, count(now), count(before))


def spread_rows(
    view: View, kind: str, bins: Bins, windows: Windows, pools: tuple[Pool, Pool], width: int, glyphs: Glyphs
) -> list[Row]:
    """Both spans' bars on one scale."""
    what = TITLES[kind][2]
    room = width - _LABEL - _COUNT - 1
    most = max(max(bins.now, default=0), max(bins.before, default=0), 1)
    rows: list[Row] = []
    for span, counts, role, loud in (
        (windows.now, bins.now, "strip", bins.loud),
        (windows.before, bins.before, "series3", -1),
    ):
        if span is None or (span is windows.before and not sum(counts)):
            continue
        total = f"   {numbers.count(sum(counts))} {what}"
        rows += [[]] if rows else []
        rows.append([(glyphs.plain(span.words), "text"), (total, "dim")])
        for index, (label, count) in enumerate(zip(bins.labels, counts, strict=True)):
            own = "warn" if index == loud and count else role
            rows.append(
                [
                    (f"{glyphs.plain(label):>{_LABEL}} ", "dim"),
                    (f"{_bar(count / most, room, glyphs):<{room}}", own),
                    (f"{numbers.count(count):>{_COUNT}}", "warn bold" if own == "warn" else "text"),
                ]
            )
    if kind == "σ":
        rows += [[], _trainable(view, pools, glyphs)]
    return rows


def spread_frame(kind: str, glyphs: Glyphs) -> Frame:
    """The box of the bars."""
    title, axis, _ = TITLES[kind]
    return Frame([(title, "text bold")], [(glyphs.plain(axis), "dim")] if axis else [])


def _bar(share: float, width: int, glyphs: Glyphs) -> str:
    """A bar of at most `width` cells, to an eighth of a cell; anything at all is seen."""
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    if glyphs.ascii:
        return "#" * math.ceil(eighths / 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest - 1] if rest else "")


def _trainable(view: View, pools: Sequence[Pool], glyphs: Glyphs) -> Row:
    """The share of groups with a spread above one unit, before and now."""
    unit = unit_of_spread(view)
    shares = []
    for pool in (pools[1], pools[0]):
        known = pool.std[np.isfinite(pool.std)]
        shares.append(float((known > unit).mean()) if len(known) else None)
    said = f"trainable σ > {numbers.fixed(unit, max(1, -math.floor(math.log10(unit))))}"
    row: list[Run] = [(glyphs.plain(said), "dim"), ("   ", "")]
    if shares[0] is not None:
        row += [(glyphs.plain(numbers.share(shares[0])), "text"), (f" {glyphs.arrow} ", "dim")]
    fallen = shares[0] is not None and shares[1] is not None and shares[1] < shares[0] / 2
    return [*row, (glyphs.plain(numbers.share(shares[1])), "warn bold" if fallen else "text bold")]
