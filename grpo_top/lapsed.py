"""Series that were logged and are no more: what they said of an earlier part of the run is not said of this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.snapshot import WINDOW, DetectorTrack, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from grpo_top.detectors.base import Detector
    from grpo_top.table import SeriesView

QUIET = 2 * WINDOW
"""Steps without a value from which on a series may count as logged no more."""
GAPS = 3
"""So many times its longest gap so far it must be quiet as well: some trainers log a number seldom."""


CARRIED_BY = {"reward_length_corr": "completion_tokens_mean"}
"""A number that there is not where all rewards are equal → the one that shows whether what it is made of is logged."""


class Lapse(NamedTuple):
    """What a detector lacks, and since when."""

    names: tuple[str, ...]
    row: int
    """The row, of the judged steps, from which on nothing is said by it."""


def lapses(detectors: tuple[Detector, ...], series: SeriesView, rows: int) -> dict[str, Lapse]:
    """The detectors that lack a series by now which they once had. `rows`: steps that were judged."""
    needed = _needed(detectors)
    asked = [name for name in series.parts if name in needed] if rows > QUIET else []
    silent = {
        name: row
        for name in asked
        if not series.is_said(name, rows - 1) and (row := _silent(series.of_parts(name), rows)) is not None
    }
    found: dict[str, Lapse] = {}
    for name, row in silent.items():
        for id_ in needed[name]:
            before = found.get(id_, Lapse((), row))
            found[id_] = Lapse((*before.names, name), min(before.row, row))
    return found


@lru_cache(maxsize=8)
def _needed(detectors: tuple[Detector, ...]) -> dict[str, list[str]]:
    """Series → the detectors that cannot do without it, but for those that have said all that they ever will."""
    found: dict[str, list[str]] = {}
    for detector in detectors:
        for name in () if detector.judges_once else detector.needs or detector.series:
            found.setdefault(CARRIED_BY.get(name, name), []).append(detector.id)
    return found


def _silent(columns: Sequence[NDArray[np.float64]], rows: int) -> int | None:
    """The row from which on none of a series' columns counts as logged; None where one does, or none ever was."""
    if any(not np.isnan(column[rows - QUIET : rows]).all() for column in columns):
        return None
    known = np.flatnonzero(np.logical_or.reduce([~np.isnan(column[:rows]) for column in columns]))
    if not len(known):
        return None
    longest = int(np.diff(known).max(initial=1))
    row = int(known[-1]) + max(QUIET, GAPS * longest)
    return row if row < rows else None


class LapsedTracks(Mapping[str, DetectorTrack]):
    """Tracks in which what was well is unknown from where its series had been quiet for so long."""

    def __init__(self, tracks: Mapping[str, DetectorTrack], lapses: Mapping[str, Lapse]) -> None:
        self._tracks, self._lapses = tracks, lapses

    def __getitem__(self, id_: str) -> DetectorTrack:
        track, lapse = self._tracks[id_], self._lapses.get(id_)
        if lapse is None:
            return track
        status = track.status.copy()
        late = status[lapse.row :]
        late[late == Status.OK] = Status.UNKNOWN
        return replace(track, status=status, needs=(*track.needs, *lapse.names))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tracks)

    def __len__(self) -> int:
        return len(self._tracks)
