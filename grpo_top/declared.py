"""What is declared of a run, by its log and by the user, and from which step on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grpo_top.facts import RunChange, RunState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.records import Run

OF_NOTE = ("env_version", "reward_version", "group_size", "sampling")
"""What must not change inside one run."""
JUDGED_BY = (
    *OF_NOTE,
    "version_lag_tolerance",
    "reward_range",
    "success",
    "drops_flat_groups",
    "some_rollouts",
)
"""What verdicts rest on."""
FACTS = (*JUDGED_BY, "framework", "algorithm", "total_steps", "recording")


class RunStates:
    """The run's state at each step.

    What was unknown and is said now holds for the whole run; what was said otherwise before holds from the next step
    on. What the user declares stands above both.
    """

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.latest = RunState()
        self._by_user = dict(declared)
        for name, value in self._by_user.items():
            setattr(self.latest, name, value)
        self._states: list[tuple[int, RunState]] = [(0, self.latest)]
        """The step from which on each holds, ascending."""
        self._said: dict[str, Any] = {}
        """What the log has said last, whatever the user declares."""

    def at(self, step: int) -> RunState:
        """The state that holds at a step."""
        return next((state for since, state in reversed(self._states) if since <= step), self._states[0][1])

    def take(self, record: Run, newest: int | None) -> tuple[tuple[RunChange, ...], int | None]:
        """Take a record in that came when `newest` was the newest step.

        Returns:
            What changed that must not, and the first step whose verdicts rest on something new, None where none does.
        """
        said = {name: value for name in FACTS if (value := getattr(record, name)) is not None}
        before = {name: self._said[name] for name in said if name in self._said}
        if "sampling" in before:
            said["sampling"] = {**before["sampling"], **said["sampling"]}
        changes = tuple(
            RunChange(name, str(before[name]), str(said[name]))
            for name in OF_NOTE
            if name in before and _is_other(before[name], said[name])
        )
        first = {name for name in said if name not in before or not _is_other(before[name], said[name])}
        self._said |= said
        new = {name: value for name, value in said.items() if name not in self._by_user}
        first = {name for name in first & new.keys() if getattr(self.latest, name) != new[name]}
        for _, state in self._states:
            for name in first:
                setattr(state, name, new[name])
        other = {name: value for name, value in new.items() if getattr(self.latest, name) != value}
        since = 0 if first & set(JUDGED_BY) else None
        if other.keys() & set(JUDGED_BY):
            following = 0 if newest is None else newest + 1
            if self._states[-1][0] < following:
                self._states.append((following, replace(self.latest)))
                self.latest = self._states[-1][1]
            since = following if since is None else since
        for name, value in other.items():
            setattr(self.latest, name, value)
        self._take_the_rest(record)
        return changes, since

    def _take_the_rest(self, record: Run) -> None:
        """What is no fact about the run's steps: its name, whether it has ended, its settings."""
        state = self.latest
        state.name = record.run or state.name
        state.finished = state.finished if record.finished is None else record.finished
        if record.config:
            config = {**state.config, **record.config}
            for _, of in self._states:
                of.config = config


def _is_other(before: Any, now: Any) -> bool:
    """Whether a value contradicts the one before; a sampling config that says more does not."""
    if isinstance(before, dict):
        return any(now.get(key) != value for key, value in before.items())
    return bool(before != now)
