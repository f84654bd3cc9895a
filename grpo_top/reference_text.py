"""Where a run parts from its reference, as lines of text and as JSON."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from grpo_top import numbers
from grpo_top.snapshot import WINDOW
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_top.reference import Parting, Reference

OTHERS_SHOWN = 12
"""Series that part later which the text names at most; the JSON holds them all."""
_SHARES = ("_frac", "_rate", "_ratio")


def reference_lines(reference: Reference) -> Iterator[str]:
    """What `check` prints of it."""
    name = safe(reference.name)
    if reference.problem:
        yield f"reference {name}: {safe(reference.problem)}"
        return
    yield f"reference {name}, laid behind this run by step"
    partings = reference.partings()
    alike = len(reference.comparable()) - len(partings)
    if not partings and not alike:
        from grpo_top.reference import LEAST_STEPS  # noqa: PLC0415  most runs have none behind them

        yield f"  ? no series that both have for {LEAST_STEPS} steps: it cannot be said where they part"
        return
    if not partings:
        yield f"  they part in none of {alike} series"
        return
    first, *others = partings.items()
    yield f"  they part at step {first[1].step}: {parting_words(*first)} (means of the {WINDOW} steps from there on)"
    for step, same in groupby(others[:OTHERS_SHOWN], lambda other: other[1].step):
        also = "also " if step == first[1].step else ""
        yield f"  {also}at {step}: {', '.join(_name(name) for name, _ in same)}"
    if len(others) > OTHERS_SHOWN:
        yield f"  and in {len(others) - OTHERS_SHOWN} series more"
    yield f"  alike in {alike} series" if alike else "  alike in none"


def parting_words(series: str, parted: Parting) -> str:
    """`reward mean 0.120 here, 0.850 there`."""
    write = numbers.share if series.endswith(_SHARES) else numbers.value
    return f"{_name(series)} {write(parted.here)} here, {write(parted.there)} there"


def reference_object(reference: Reference) -> dict[str, Any]:
    """What `check --json` holds of it."""
    partings = reference.partings()
    return {
        "name": reference.name,
        "where": reference.where,
        "parts": [
            {"series": name, "step": parted.step, "here": parted.here, "there": parted.there}
            for name, parted in partings.items()
        ],
        "alike": [name for name in reference.comparable() if name not in partings],
    }


def _name(series: str) -> str:
    return safe(series).replace("_", " ")
