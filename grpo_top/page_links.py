"""From one detector's page to others: what it may follow from, what may follow from it, what to read next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top.detectors import BY_ID
from grpo_top.triage import CAUSES

if TYPE_CHECKING:
    from collections.abc import Collection

    from grpo_top.detectors.base import Detector


class Links(NamedTuple):
    """Ids of other detectors; none is in two of the first three."""

    causes: tuple[str, ...]
    """What may be the cause of it, by the cause table, in triage order."""
    effects: tuple[str, ...]
    """What may be an effect of it, by the same table."""
    related: tuple[str, ...]
    """Whatever else the page names, the nearest first."""
    read_next: str
    """The nearest cause, else the nearest of all."""


def links(detector: type[Detector]) -> Links:
    """Where a page leads."""
    related = detector.page.related
    causes = {id_ for id_, of in CAUSES.items() if detector.id in of}
    effects = CAUSES.get(detector.id, frozenset())
    return Links(
        _in_order(causes),
        _in_order(effects),
        tuple(id_ for id_ in related if id_ not in causes and id_ not in effects),
        next((id_ for id_ in related if id_ in causes), related[0]),
    )


def _in_order(ids: Collection[str]) -> tuple[str, ...]:
    return tuple(id_ for id_ in BY_ID if id_ in ids)
