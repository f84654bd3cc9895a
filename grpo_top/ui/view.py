"""What every screen is given to draw: a Snapshot, and where in time one looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.snapshot import WINDOW, Status
from grpo_top.ui.lens import Lens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.snapshot import Finding, Series, Snapshot


@dataclass(frozen=True, slots=True)
class View:
    """A Snapshot as seen at one step. Everything that a screen shows follows from this and its own selection."""

    snapshot: Snapshot
    cursor: int | None = None
    """The step at which the view is paused; None follows the run."""
    now: float = 0.0
    """Seconds since the epoch, for how fresh the data is; a test sets it."""
    error: str = ""
    """Why reading has ended, where it failed."""
    lens: Lens = field(default_factory=Lens)
    """How charts are looked at."""
    _statuses: dict[str, Status] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Worked out once, as all that follows: every panel asks for most of them."""
    _by_stage: dict[int, tuple[Status, bool]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _series: dict[str, Series | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _batches: dict[int, Batch | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def step(self) -> int | None:
        """The step that numbers and findings are of: the cursor's, else the last judged one."""
        return self.snapshot.judged_step if self.cursor is None else self.cursor

    @property
    def key(self) -> tuple[int, int | None]:
        """Views with equal keys show the same run data."""
        return self.snapshot.version, self.cursor

    def shows_what(self, other: View) -> bool:
        """Whether panels say the same of another view: at most how fresh the data is has changed."""
        same = self.snapshot is other.snapshot
        return same and self.cursor == other.cursor and self.lens == other.lens

    @property
    def steps(self) -> NDArray[np.int64]:
        """The judged steps, ascending, whatever the view's own step is."""
        track = next(iter(self.snapshot.tracks.values()), None)
        return np.empty(0, np.int64) if track is None else track.steps

    def series(self, name: str) -> Series | None:
        """A canonical series, None where it was never seen."""
        if name not in self._series:
            self._series[name] = self.snapshot.series.get(name)
        return self._series[name]

    def values(self, name: str, last: int | None = None) -> NDArray[np.float64]:
        """Finite values of a series up to the view's step: of its last `last` steps, else all."""
        series, step = self.series(name), self.step
        if series is None or step is None:
            return np.empty(0)
        end = int(series.steps.searchsorted(step, "right"))
        values = series.values[:end] if last is None else series.values[max(end - last, 0) : end]
        finite: NDArray[np.float64] = values[np.isfinite(values)]
        return finite

    def mean(self, name: str, last: int = WINDOW) -> float | None:
        """Mean over the last `last` steps; None where nothing is known."""
        values = self.values(name, last)
        return float(np.add.reduce(values) / len(values)) if len(values) else None  # `mean` looks at more

    def change(self, name: str, window: int = WINDOW) -> float | None:
        """Δ20: the mean of the last 20 steps minus that of the 20 before; None where either is missing."""
        values = self.values(name)
        if len(values) < window + 1:
            return None
        return float(values[-window:].mean() - values[-2 * window : -window].mean())

    def mean_between(self, name: str, first: int, last: int) -> float | None:
        """Mean over the steps first to last."""
        series = self.series(name)
        if series is None:
            return None
        values = series.values[(series.steps >= first) & (series.steps <= last)]
        values = values[np.isfinite(values)]
        return float(values.mean()) if len(values) else None

    @property
    def statuses(self) -> Mapping[str, Status]:
        """Every detector's status at the view's step, in triage order."""
        if not self._statuses:
            self._statuses.update(_statuses_at(self.snapshot, self.step, self.cursor))
        return self._statuses

    def status(self, id_: str) -> Status:
        """A detector's status at the view's step."""
        return self.statuses.get(id_, Status.UNKNOWN)

    def stage_status(self, stage: int) -> Status:
        """A stage's status at the view's step: the worst of the checks that could be made."""
        return self._stages().get(stage, (Status.UNKNOWN, False))[0]

    def stage_is_open(self, stage: int) -> bool:
        """Whether a check of the stage that could raise an alarm was not made by the view's step."""
        return self._stages().get(stage, (Status.UNKNOWN, False))[1]

    def _stages(self) -> Mapping[int, tuple[Status, bool]]:
        """Of each stage that has detectors: its status, and whether it is open."""
        if not self._by_stage:
            for id_, status in self.statuses.items():
                track = self.snapshot.tracks[id_]
                worst, is_open = self._by_stage.get(track.stage, (Status.UNKNOWN, False))
                unmade = track.expected and status is Status.UNKNOWN
                self._by_stage[track.stage] = max(worst, status), is_open or unmade
        return self._by_stage

    def findings(self) -> tuple[Finding, ...]:
        """Findings that had fired by the view's step."""
        if self.cursor is None:
            return self.snapshot.findings
        return tuple(finding for finding in self.snapshot.findings if finding.episodes[0][0] <= self.cursor)

    def is_active(self, finding: Finding) -> bool:
        """Whether a finding stands at the view's step."""
        return finding.active if self.cursor is None else self.status(finding.id) >= Status.INFO

    def first_cause(self) -> Finding | None:
        """The first cause at the view's step."""
        if self.cursor is None:
            return next((f for f in self.snapshot.findings if f.id == self.snapshot.first_cause), None)
        standing = [f for f in self.findings() if self.is_active(f) and self.status(f.id) >= Status.WARN]
        known = next((f for f in standing if f.id == self.snapshot.first_cause), None)
        return known or min(standing, key=lambda f: (f.stage, f.onset), default=None)

    def since(self, finding: Finding) -> int:
        """The step since which a finding stands, or stood last: where its streak began, seen from the view's step."""
        if self.cursor is None:
            return finding.onset
        begun = [first for first, _ in finding.episodes if first <= self.cursor]
        latest = begun[-1] if begun else finding.episodes[0][0]
        return finding.onset if latest == finding.first_step else latest

    @property
    def onset(self) -> int | None:
        """The first cause's first step."""
        first = self.first_cause()
        return None if first is None else first.onset

    def compared(self) -> tuple[str, int, int]:
        """What the late steps are compared with: a word and its first and last step.

        The 20 steps `before` the first cause; the `early` ones, the run's first 20, where nothing is wrong.
        """
        if (onset := self.onset) is not None:
            return "before", onset - WINDOW, onset - 1
        first = self.snapshot.run.first_step or 0
        return "early", first, first + WINDOW - 1

    def at(self, name: str) -> float | None:
        """A series' finite value at the view's step; None where it is unknown."""
        series = self.series(name)
        if series is None or self.step is None:
            return None
        row = int(np.searchsorted(series.steps, self.step))
        if row >= len(series.steps) or series.steps[row] != self.step or not np.isfinite(series.values[row]):
            return None
        return float(series.values[row])

    def lacks(self, name: str) -> bool:
        """Whether a series has no value at all up to the view's step."""
        return not len(self.values(name))

    def limit(self, id_: str) -> float | None:
        """The threshold of a detector; None where it has none, or is switched off."""
        track = self.snapshot.tracks.get(id_)
        return None if track is None else track.threshold

    def batch(self, step: int) -> Batch | None:
        """As `Snapshot.batch`, put together once however many panels ask for it."""
        if step not in self._batches:
            self._batches[step] = self.snapshot.batch(step)
        return self._batches[step]

    def batches(self, steps: int = WINDOW) -> list[Batch]:
        """The train rollouts of the last `steps` steps up to the view's, oldest first."""
        if self.step is None:
            return []
        known = self.snapshot.groups.columns["step"]
        numbers = np.unique(known[known <= self.step])[-steps:]
        found = [self.batch(int(number)) for number in numbers]
        return [batch for batch in found if batch is not None]


def _statuses_at(snapshot: Snapshot, step: int | None, cursor: int | None) -> Iterator[tuple[str, Status]]:
    row, steps = -1, None
    for id_, track in snapshot.tracks.items():
        if step is None or not len(track.steps):
            yield id_, Status.UNKNOWN
            continue
        if track.steps is not steps:
            steps = track.steps
            row = len(steps) - 1 if cursor is None else int(np.searchsorted(steps, cursor, side="right")) - 1
        yield id_, Status(int(track.status[row])) if row >= 0 else Status.UNKNOWN
