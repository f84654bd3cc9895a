"""The state of many runs, one read after another: what the table of runs shows.

Each run is read by a monitor of its own, the newest run first; what is kept of it is a few numbers. A handful of
monitors stay open, those of runs that are being written.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.snapshot import WINDOW, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from grpo_top.monitor import Monitor
    from grpo_top.runs import FoundRun
    from grpo_top.snapshot import Finding, Snapshot

SCAN_SECONDS = 2.0
"""Between two looks at which runs there are."""
LIVE_SECONDS = 60.0
"""A run that was written within that time is being written."""
KEPT_OPEN = 4
"""Monitors of such runs that stay open; of more of them each is read anew when its turn comes."""
AGAIN_SECONDS = 2.0
"""Between two looks at a run whose monitor is open."""
REOPEN_SECONDS = 15.0
"""Between two readings of a run that is being written and whose monitor is closed."""
POINTS = 256
"""Of the reward that are kept at most."""


@dataclass(frozen=True, slots=True)
class RunState:
    """How one run stands, as far as it has been read."""

    run: FoundRun
    written: float | None = None
    """When one of its files was last written, in seconds since the epoch."""
    read: bool = False
    """Whether all that was there has been read once."""
    reading: float | None = None
    """Share that has been read, while it is being read for the first time."""
    name: str = ""
    """As the run's own log has it."""
    framework: str | None = None
    step: int | None = None
    total_steps: int | None = None
    step_seconds: float | None = None
    reward: float | None = None
    """Mean of the last 20 steps."""
    steps: NDArray[np.int64] | None = None
    rewards: NDArray[np.float64] | None = None
    """The reward over the run, by steps."""
    status: Status = Status.UNKNOWN
    """The worst of what stands."""
    first_cause: Finding | None = None
    explains: tuple[str, ...] = ()
    """Ids of the findings that the first cause explains."""
    finished: bool = False
    error: str = ""
    """Why it cannot be read."""


def state_of(run: FoundRun, written: float | None, snapshot: Snapshot, *, read: bool = True) -> RunState:
    """What a picture of a run says in one line."""
    facts = snapshot.run
    series = snapshot.series.get("reward_mean")
    steps, rewards = (None, None) if series is None else _fewer(series.steps, series.values)
    known = np.empty(0) if series is None else series.values[np.isfinite(series.values)][-WINDOW:]
    standing = [finding for finding in snapshot.findings if finding.active]
    return RunState(
        run,
        written,
        read=read,
        reading=snapshot.reading,
        name=facts.name,
        framework=facts.framework,
        step=facts.last_step if snapshot.judged_step is None else snapshot.judged_step,
        total_steps=facts.total_steps,
        step_seconds=facts.step_seconds,
        reward=float(known.mean()) if len(known) else None,
        steps=steps,
        rewards=rewards,
        status=_status(snapshot, standing),
        first_cause=next((finding for finding in standing if finding.id == snapshot.first_cause), None),
        explains=tuple(finding.id for finding in standing if finding.caused_by == snapshot.first_cause)
        if snapshot.first_cause
        else (),
        finished=snapshot.finished,
    )


def _status(snapshot: Snapshot, standing: list[Finding]) -> Status:
    worst = max((finding.severity for finding in standing), default=Status.OK)
    if worst >= Status.WARN or snapshot.judged_step is None:
        return worst if worst >= Status.WARN else Status.UNKNOWN
    return Status.WATCH if snapshot.watches else Status.OK


def _fewer(
    steps: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """At most POINTS of them, each the last of its part; copies, so that the run's own columns can go."""
    if len(steps) <= POINTS:
        return steps.copy(), values.copy()
    picked = np.linspace(0, len(steps) - 1, POINTS).astype(np.int64)
    return steps[picked], values[picked]


class _Entry:
    """A run and what is to be done about it."""

    def __init__(self, run: FoundRun, written: float | None) -> None:
        self.state = RunState(run, written)
        self.monitor: Monitor | None = None
        self.read_up_to: float | None = None
        """The time of writing that was current when it was last read."""
        self.due = 0.0
        """When it may be read again."""

    @property
    def is_unread(self) -> bool:
        return not self.state.read

    def has_grown(self, now: float) -> bool:
        return self.state.read and self.state.written != self.read_up_to and now >= self.due


class Overview:
    """Finds the runs and reads each in turn. Driven from one thread.

    Args:
        finder: a monitor of the place, which only looks at what is there.
        open_run: makes the monitor of one run; what it raises is shown as that run's error.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        finder: Monitor,
        open_run: Callable[[FoundRun], Monitor],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._finder = finder
        self._open_run = open_run
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        """By the run's key, the newest first as they were found; a run that comes later goes to the front."""
        self.wanted: str | None = None
        """Key of a run that is read before the others, since one looks at it. Safe from any thread."""
        self._current: _Entry | None = None
        self._next_scan = 0.0
        self._told: deque[RunState] = deque()
        self._find(self._clock())

    @property
    def states(self) -> tuple[RunState, ...]:
        """Every run as it stands."""
        return tuple(entry.state for entry in self._entries.values())

    def tell(self, state: RunState) -> None:
        """Take over how a run stands that was read elsewhere. Safe from any thread."""
        self._told.append(state)

    def work(self, seconds: float = 0.03) -> bool:
        """Read on for about that long; whether anything is new."""
        now = self._clock()
        changed = False
        while self._told:
            state = self._told.popleft()
            if (entry := self._entries.get(state.run.key)) is not None:
                entry.state, entry.read_up_to, changed = state, state.written, True
        if now >= self._next_scan:
            changed |= self._find(now)
        entry = self._current or self._next(now)
        if entry is None:
            return changed
        self._current = entry
        try:
            self._read(entry, seconds, now)
        except Exception as error:  # one run that cannot be read must not stop the others
            self._close(entry)
            entry.state = replace(
                entry.state, read=True, reading=None, error=str(error) or type(error).__name__
            )
            self._done(entry, now)
        return True

    def close(self) -> None:
        """Let everything go that is open."""
        for entry in self._entries.values():
            self._close(entry)
        self._finder.close()

    def _find(self, now: float) -> bool:
        """See which runs there are, and when each was last written."""
        self._next_scan = now + SCAN_SECONDS
        self._finder.selection.ask_again()
        self._finder.look()
        runs = self._finder.selection.runs
        written = runs.written()
        before = [(entry.state.run, entry.state.written) for entry in self._entries.values()]
        kept = {run.key: self._entries[run.key] for run in runs.all if run.key in self._entries}
        new = sorted(
            (run for run in runs.all if run.key not in kept),
            key=lambda run: written.get(run.key, 0.0),
            reverse=True,
        )
        for key, entry in self._entries.items():
            if key not in kept:
                self._close(entry)
        self._entries = {run.key: _Entry(run, written.get(run.key)) for run in new} | {
            key: entry for key, entry in self._entries.items() if key in kept
        }
        for run in runs.all:
            entry = self._entries[run.key]
            entry.state = replace(entry.state, run=run, written=written.get(run.key))
        if self._current is not None and self._current.state.run.key not in self._entries:
            self._current = None
        return before != [(entry.state.run, entry.state.written) for entry in self._entries.values()]

    def _next(self, now: float) -> _Entry | None:
        """The run to read next: one that has grown and is due, else of those that were not read yet the newest."""
        entries = self._entries.values()
        wanted = self._entries.get(self.wanted or "")
        if wanted is not None and wanted.is_unread:
            return wanted
        grown = next((entry for entry in entries if entry.has_grown(now)), None)
        return grown or next((entry for entry in entries if entry.is_unread), None)

    def _read(self, entry: _Entry, seconds: float, now: float) -> None:
        written = entry.state.written
        if entry.monitor is None:
            entry.monitor = self._open_run(entry.state.run)
        came = entry.monitor.poll(seconds)
        if came and entry.monitor.unfinished:
            if entry.is_unread:
                entry.state = replace(entry.state, reading=entry.monitor.reading or 0.0)
            return
        is_live = written is not None and now - written < LIVE_SECONDS
        if not is_live:
            entry.monitor.read_all()  # nothing more comes, so that its last step can be judged as well
        entry.state = state_of(entry.state.run, written, entry.monitor.snapshot())
        if not is_live or self._open_monitors() > KEPT_OPEN:
            self._close(entry)
        self._done(entry, now)

    def _done(self, entry: _Entry, now: float) -> None:
        entry.read_up_to = entry.state.written
        entry.due = now + (REOPEN_SECONDS if entry.monitor is None else AGAIN_SECONDS)
        self._current = None

    def _open_monitors(self) -> int:
        return sum(entry.monitor is not None for entry in self._entries.values())

    def _close(self, entry: _Entry) -> None:
        if entry.monitor is not None:
            entry.monitor.close()
            entry.monitor = None


class LiveOverview(threading.Thread):
    """The overview's own thread. It rests while one of the runs is open."""

    def __init__(
        self,
        overview: Overview,
        on_states: Callable[[tuple[RunState, ...]], None],
        rest_seconds: float = 0.25,
    ) -> None:
        super().__init__(name="grpo-top overview", daemon=True)
        self._overview = overview
        self._on_states = on_states
        self._rest_seconds = rest_seconds
        self._stopping = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Read until stopped. An error ends the reading and is kept in `error`."""
        try:
            self._on_states(self._overview.states)
            while not self._stopping.is_set():
                if not self._going.wait(self._rest_seconds):
                    continue
                changed = self._overview.work()
                if changed:
                    self._on_states(self._overview.states)
                # Half of the time is left to the screen: nobody waits for the last of 200 runs.
                self._stopping.wait(0.03 if changed else self._rest_seconds)
        except Exception as error:
            self.error = error
        finally:
            self._overview.close()

    def rest(self) -> None:
        """Read nothing until `go_on`."""
        self._going.clear()

    def go_on(self, state: RunState | None = None) -> None:
        """Read again; `state` is how the run stands that was open in the meantime."""
        if state is not None:
            self._overview.tell(state)
        self._going.set()

    def stop(self) -> None:
        """Stop reading; returns once the thread has ended."""
        self._stopping.set()
        self._going.set()
        self.join(timeout=2)
