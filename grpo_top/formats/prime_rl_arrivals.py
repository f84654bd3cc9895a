"""Which rollouts of a prime-rl run have arrived, so that groups stay whole and a shipped copy is known again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top.formats.verifiers_traces import Intended

if TYPE_CHECKING:
    from grpo_top.formats.base import RunContext
    from grpo_top.records import Rollout

WINDOWS = 32
"""Batches for which a group is remembered: none takes longer from its first rollout to the batch that ships it."""


class _Group(NamedTuple):
    step: int
    """The batch that was collecting when its first rollout arrived."""
    places: dict[str, int]
    """Trace → its number in the group."""


class _Shipped(NamedTuple):
    step: int
    advantage: float | None


class Arrivals:
    """The groups of the last batches.

    Rollouts of a group arrive over several batches, and the trainer needs them together: the whole group belongs to
    the batch in which its first rollout arrived.
    """

    def __init__(self) -> None:
        self.intended = Intended()
        self.logged: set[tuple[str, str]] = set()
        """Runs and splits of which a file holds all rollouts."""
        self._name: str | None = ""
        self._newest = 0
        self._groups: dict[tuple[str | None, str], _Group] = {}
        self._waiting: dict[str, _Shipped] = {}
        """Shipped copies whose rollouts have not arrived yet."""

    def announce(self, name: str | None) -> bool:
        """Whether a run's name was not said before."""
        new, self._name = name != self._name, name
        return new

    def placed(self, rollout: Rollout, trace: str) -> Rollout:
        """A rollout that completed, as the next of its group, with what its shipped copy has said before."""
        copy = self._waiting.pop(trace, None)
        if copy is not None:
            rollout = rollout._replace(advantage=copy.advantage, trainer_version=copy.step - 1)
        return self._put(rollout, trace)

    def shipped(self, rollout: Rollout, trace: str, alone: bool) -> Rollout | None:
        """A shipped copy in the place of its rollout.

        Where that has not arrived the copy is remembered until it does: None, or with `alone`, where nothing else is
        known to hold the rollouts, the copy itself as one that completed.
        """
        group = self._groups.get((rollout.split, rollout.group or ""))
        if group is None or trace not in group.places:
            self._waiting[trace] = _Shipped(rollout.step, rollout.advantage)
            return self._put(rollout, trace) if alone else None
        return self._put(rollout, trace)

    def _put(self, rollout: Rollout, trace: str) -> Rollout:
        if rollout.group is None:
            return rollout
        self._go_on_to(rollout.step)
        group = self._groups.setdefault((rollout.split, rollout.group), _Group(rollout.step, {}))
        return rollout._replace(step=group.step, index=group.places.setdefault(trace, len(group.places)))

    def _go_on_to(self, step: int) -> None:
        """Let go of the groups and copies of old batches when a new one begins."""
        if step > self._newest:
            self._newest, first = step, step - WINDOWS
            self._groups = {key: group for key, group in self._groups.items() if group.step >= first}
            self._waiting = {key: copy for key, copy in self._waiting.items() if copy.step >= first}


def arrivals_of(context: RunContext) -> Arrivals:
    """The one that a run's readers share."""
    known = context.notes.setdefault("prime-rl arrivals", Arrivals())
    return known if isinstance(known, Arrivals) else Arrivals()
