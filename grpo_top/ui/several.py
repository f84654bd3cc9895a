"""The other runs of the place: their states while the table shows them, and the run that was opened from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.overview import LiveOverview, state_of

if TYPE_CHECKING:
    from grpo_top.overview import Overview, RunState
    from grpo_top.runs import FoundRun
    from grpo_top.snapshot import Snapshot


class Several:
    """Reads the runs in turn while none of them is open."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self.states: tuple[RunState, ...] = overview.states
        """The newest states of all runs."""
        self._live = LiveOverview(overview, self._take)
        self._opened: FoundRun | None = None

    @property
    def error(self) -> str:
        """Why reading has ended, where it failed."""
        return "" if self._live.error is None else str(self._live.error) or type(self._live.error).__name__

    def start(self) -> None:
        """Begin to read."""
        self._live.start()

    def stop(self) -> None:
        """End the reading."""
        if self._live.is_alive():
            self._live.stop()

    def want(self, run: FoundRun) -> None:
        """Read this run before the others."""
        self._overview.wanted = run.key

    def opened(self, run: FoundRun) -> None:
        """One of the runs is open: the others wait."""
        self._opened = run
        self._live.rest()

    def closed(self, snapshot: Snapshot | None) -> None:
        """The run that was open is left, as the picture shows it; None where it could not be opened."""
        known = next((state for state in self.states if state.run == self._opened), None)
        if snapshot is None or known is None:
            self._live.go_on()
        else:
            self._live.go_on(state_of(known.run, known.written, snapshot))
        self._opened = None

    def _take(self, states: tuple[RunState, ...]) -> None:
        self.states = states
