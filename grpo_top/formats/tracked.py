"""What all trackers share: a run's config and its rows as records, whoever trained it.

A tracker's files carry the trainer's own names, mostly with `train/` and `eval/` before them, and a step that may
only count the tracker's log calls. The framework is told by the config or by the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import integer
from grpo_top.formats.miles_metrics import with_flat_share
from grpo_top.formats.native import NativeReader
from grpo_top.formats.telltales import framework_of_config, framework_of_keys
from grpo_top.formats.tracked_config import intended, nested
from grpo_top.formats.tracked_rows import only_counts, own_step, records_of
from grpo_top.records import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo_top.formats.base import RunContext
    from grpo_top.formats.tracked_rows import Row
    from grpo_top.records import Location, Record

_ENDED = frozenset(("train/train_runtime", "train_runtime"))
"""What Transformers' trainer logs when it has ended."""

_COUNT_FLAT = frozenset(("slime", "miles"))

WholeRow = tuple[int, "Row", float | None]
"""Step, numbers, and seconds since the epoch when the first of them was logged."""


class Tracked:
    """One run as a tracker recorded it. It remembers what it has said, and says what is new."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._native = NativeReader(context)
        self._config: dict[str, Any] = {}
        self._said: dict[str, Any] = {}
        self._step: int | None = None
        """The trainer's step of the last row that carried one."""

    def about(
        self, name: str | None = None, config: Mapping[str, Any] | None = None, finished: bool | None = None
    ) -> Iterator[Record]:
        """The run record, where something in it is new. `config` adds to what came before."""
        found: dict[str, Any] = {"run": name, "finished": finished}
        if config:
            self._config.update(config)
            sections = nested(self._config)
            found |= intended(sections) | {"config": dict(self._config)}
            context = self._context
            context.logging_steps = context.logging_steps or integer(config.get("logging_steps"))
            context.framework = context.framework or framework_of_config(sections)
        found["framework"] = self._context.framework
        said = self._said | {key: value for key, value in found.items() if value is not None}
        if said != self._said:
            self._said = said
            yield self._native.record({"kind": "run", **said}, NOWHERE)

    def row(
        self, tracker_step: int | None, metrics: Row, time: float | None = None, location: Location = NOWHERE
    ) -> Iterator[Record]:
        """The step and the evaluations of what was logged at once.

        The trainer's own step is in the row, or it is that of the row before; only in a run that never logs one is it
        the tracker's. ValueError where there is none at all.
        """
        own = own_step(metrics)
        self._step = self._step if own is None else own
        if only_counts(metrics):
            return
        step = tracker_step if self._step is None else self._step
        if step is None:
            raise ValueError("row without a step")
        if self._context.framework is None:
            self._context.framework = framework_of_keys(metrics)
        if self._context.framework in _COUNT_FLAT and self._config.get("advantage_estimator") != "ppo":
            metrics = with_flat_share(metrics, integer(self._config.get("rollout_batch_size")))
        yield from self.about(finished=None if _ENDED.isdisjoint(metrics) else True)
        for record in records_of(self._context.framework, step, metrics, location):
            yield record._replace(time=time)


class Rows:
    """Puts single numbers together into rows: all that was logged for a step, one after another.

    A row is whole when another step's number comes, or when nothing has come for a while. A number of a row that was
    given already opens it again, so that the whole row is given once more.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._row: Row = {}
        self._time: float | None = None
        self._given = 0
        """Numbers of the open row that were given."""

    def add(self, step: int, key: str, value: float | None, time: float | None) -> WholeRow | None:
        """Take a number in; the row before, where this one begins another."""
        whole = None
        if step != self._step:
            whole = self.take()
            self._step, self._row, self._time, self._given = step, {}, time, 0
        self._row[key] = value
        return whole

    def take(self) -> WholeRow | None:
        """The open row, where something in it is new."""
        if self._step is None or len(self._row) == self._given:
            return None
        self._given = len(self._row)
        return self._step, dict(self._row), self._time


def tracked_of(context: RunContext, run: str) -> Tracked:
    """The one `Tracked` that all readers of a run share, where it lies in several files."""
    known = context.notes.get(f"tracked {run}")
    if not isinstance(known, Tracked):
        known = context.notes[f"tracked {run}"] = Tracked(context)
    return known
