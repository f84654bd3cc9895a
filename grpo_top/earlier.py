"""A run as it was read before its files were written anew, and where it goes another way since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top.table import SAMPLERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.snapshot import Series


class Earlier:
    """Compared with what comes: the numbers of a step are equal where it is the same one."""

    def __init__(self, series: Mapping[str, Series]) -> None:
        self._series = {name: of for name, of in series.items() if of.origin != SAMPLERS}
        self._compared = -1
        """The last step that is known to be the same."""
        steps: list[int] = next((of.steps.tolist() for of in self._series.values()), [])
        self.reached: int = steps[-1] if steps else -1
        """Its last step."""

    @property
    def is_over(self) -> bool:
        """Whether all of it is known to be the same."""
        return self._compared >= self.reached

    def parts_at(self, series: Mapping[str, Series], until: int) -> int | None:
        """The first step that another one has taken the place of, up to one; None where there is none so far."""
        parted = [
            step
            for name in self._series.keys() & series.keys()
            if (step := self._differs_at(self._series[name], series[name], until)) is not None
        ]
        self._compared = max(self._compared, until)
        return min(parted, default=None)

    def _differs_at(self, theirs: Series, ours: Series, until: int) -> int | None:
        first, last = np.searchsorted(ours.steps, [self._compared, until], side="right").tolist()
        steps, here, there = np.intersect1d(
            ours.steps[first:last], theirs.steps, assume_unique=True, return_indices=True
        )
        new, old = ours.values[first:last][here], theirs.values[there]
        differs: NDArray[np.bool_] = ~(np.isnan(new) | np.isnan(old)) & (new != old)
        return int(steps[np.argmax(differs)]) if differs.any() else None
