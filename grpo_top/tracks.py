"""The detectors' tracks: every verdict at every judged step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from grpo_top.snapshot import DetectorTrack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from grpo_top.detectors.base import Detector


class Tracks(Mapping[str, DetectorTrack]):
    """The detectors' tracks by id, in triage order: each is made when it is asked for."""

    def __init__(
        self,
        places: Mapping[str, tuple[int, Detector]],
        needs: Mapping[str, tuple[str, ...]],
        steps: NDArray[np.int64],
        statuses: NDArray[np.uint8],
        values: NDArray[np.float64],
    ) -> None:
        self.needs = needs
        """Detector → the series that it cannot do without and that were never seen."""
        self._places = places
        self._rows = steps, statuses, values
        self._made: dict[str, DetectorTrack] = {}

    def __getitem__(self, id_: str) -> DetectorTrack:
        known = self._made.get(id_)
        if known is not None:
            return known
        place, detector = self._places[id_]
        steps, statuses, values = self._rows
        self._made[id_] = made = DetectorTrack(
            id=id_,
            stage=detector.stage,
            steps=steps,
            status=statuses[:, place],
            values=values[:, place],
            threshold=_threshold(detector),
            needs=self.needs[id_],
            expected=detector.expected,
        )
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _threshold(detector: Detector) -> float | None:
    """The limit to draw for a detector: its `threshold` knob, where it has one."""
    value = getattr(detector, "threshold", None)
    return None if value is None else float(value)
