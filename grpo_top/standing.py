"""How far a picture is whole and fresh: what is behind, gone, down, or held no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grpo_top.snapshot import Snapshot, SourceFacts

NAMED = 5
"""Sources that are named; of more there is a count."""
QUIET_SECONDS = 10.0
"""A run whose steps are quick is quiet after this long without a record."""


class Standing(NamedTuple):
    """How a picture stands."""

    state: str
    """`reading` while it catches up, `gone` where every source is, `finished`, `waiting` before the first record,
    `quiet` where nothing came for longer than a step takes, `live`."""
    notes: tuple[str, ...]
    """Why the picture is not whole, one line each; empty where it is. Not safe for a terminal yet."""


def standing(snapshot: Snapshot, now: float | None = None) -> Standing:
    """How the picture stands at a time, by default when it was taken."""
    return Standing(_state(snapshot, snapshot.time if now is None else now), tuple(_notes(snapshot)))


def gone(snapshot: Snapshot) -> list[SourceFacts]:
    """Sources that were read and are there no more, where others still are."""
    return [source for source in snapshot.sources if source.state == "gone"]


def down(snapshot: Snapshot) -> list[SourceFacts]:
    """Sources that cannot be read now."""
    return [source for source in snapshot.sources if source.state == "error"]


def held(snapshot: Snapshot) -> tuple[int, int] | None:
    """How many rollouts are held, and from which step on; None where all are."""
    rollouts = snapshot.rollouts
    if rollouts.first == rollouts.length or not (rollouts.first or snapshot.let_go):
        return None
    return rollouts.length - rollouts.first, int(rollouts.columns["step"][rollouts.first])


def _state(snapshot: Snapshot, now: float) -> str:
    if snapshot.reading is not None:
        return "reading"
    if snapshot.sources and len(gone(snapshot)) == len(snapshot.sources):
        return "gone"
    if snapshot.finished:
        return "finished"
    if snapshot.last_record_time is None:
        return "waiting"
    longest = max(QUIET_SECONDS, 2 * (snapshot.run.step_seconds or 0.0))
    return "live" if now - snapshot.last_record_time < longest else "quiet"


def _notes(snapshot: Snapshot) -> Iterator[str]:
    yield from _named(down(snapshot), "cannot be read")
    yield from _named(gone(snapshot), "gone; what was read of it stands")
    if snapshot.rollouts.first and (kept := held(snapshot)) is not None:
        count, first = kept
        yield (
            f"the newest {count:,} of {snapshot.rollouts.length:,} rollouts are held, from step {first} on; of older "
            "ones their steps' series are ([memory] rollouts sets how many)"
        )
    if snapshot.let_go:
        yield (
            f"{snapshot.let_go:,} older rollouts were let go where the run is served, before they were asked for "
            "(`grpo-top serve --spool` sets how much is kept)"
        )
    if snapshot.rollouts.too_late:
        yield f"{snapshot.rollouts.too_late:,} rollouts came too late, for steps whose rollouts are held no more"


def _named(sources: Sequence[SourceFacts], what: str) -> Iterator[str]:
    for source in sources[:NAMED]:
        yield f"{source.where}: {source.note or what}"
    if len(sources) > NAMED:
        yield f"{len(sources) - NAMED:,} more sources: {what}"
