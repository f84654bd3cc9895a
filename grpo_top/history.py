"""Columns of every rollout that was read, and where each text lies; no text.

About 100 bytes a rollout, less where fields are missing. Columns only grow; a row is never moved, and its only later
change is that `live` falls when a later record of the same rollout replaces it.
"""

from __future__ import annotations

import math
from array import array
from itertools import chain, islice
from operator import ne
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top.bundle import Components, joined, transposed
from grpo_top.columns import Column, Interner
from grpo_top.encode import COLUMNS, encode, integers, numbers, prompts_of
from grpo_top.snapshot import Rollouts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.bundle import Bundle
    from grpo_top.records import Rollout, Sampling

_OPEN_STEPS = 32
_PROMPTS, _PROMPT_CHARACTERS = 256, 4000
_LABEL_END = "\x1f"
_BY_PROMPT = "\0"
_NO_REWARDS: Mapping[str, float | None] = {}
_NO_LABELS: dict[str, int] = {}
_NONE_SEEN: dict[int, dict[int, int]] = {}
_NO_COUNTS: dict[int, int] = {}
"""What closed steps share: a run has a hundred thousand of them."""


class StepRows:
    """Which rows belong to a step, and which rollout each of them is."""

    __slots__ = ("by_prompt", "counts", "labels", "packed", "ranges", "seen")

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        """Half-open ranges of rows."""
        self.labels: dict[str, int] = {}
        """Split digit and group label → number of the group within the step."""
        self.seen: dict[int, dict[int, int]] = {}
        """Group number → index → the newest row there: with another task it is another rollout."""
        self.counts: dict[int, int] = {}
        """Group number → rollouts so far."""
        self.by_prompt = False
        """Some groups are equal prompts."""
        self.packed: str | None = None
        """The labels as one string while the step is closed: most steps of a long run are."""

    def close(self) -> None:
        """Give up what only new rows need."""
        self.packed = _LABEL_END.join(self.labels)
        self.labels, self.seen, self.counts = _NO_LABELS, _NONE_SEEN, _NO_COUNTS

    def take(self, first: int, stop: int) -> None:
        """Note that the rows from `first` to `stop`, newer than any before, are of this step."""
        if self.ranges and self.ranges[-1][1] == first:
            self.ranges[-1] = (self.ranges[-1][0], stop)
        else:
            self.ranges.append((first, stop))

    def label_list(self) -> list[str]:
        """Labels in the order of the groups' numbers."""
        labels, packed = self.labels, self.packed
        if packed is not None:
            return packed.split(_LABEL_END) if packed else []
        return list(labels or self.labels)


class History:
    """Every rollout of a run as columns, and the names behind their ids."""

    def __init__(self) -> None:
        self.columns = {name: Column(dtype) for name, dtype in COLUMNS.items()}
        self.components: dict[str, Column] = {}
        self.names = {
            "task": Interner(2**31 - 1),
            "family": Interner(512),
            "tier": Interner(512),
            "finish": Interner(256),
            "termination": Interner(512),
            "verifier_error": Interner(1024),
            "sampling": Interner(4096),
            "sampler": Interner(4096),
            "env_version": Interner(4096),
            "reward_version": Interner(4096),
        }
        self.samplings: list[Sampling] = []
        """Sampling configs by their id in names["sampling"]."""
        self.steps: dict[int, StepRows] = {}
        self.length = 0
        self.first = 0
        """Rows before it were let go: they are 0 in every column but those of one value, and in `live`."""
        self._nothing: Rollouts | None = None
        """What is to be seen before the first of them: the same in every picture of a log without rollouts."""
        self.replaced = 0
        """Rows that a later record of the same rollout replaced."""
        self._sampling_ids: dict[tuple[tuple[str, Any], ...], int] = {}
        self._open: dict[int, StepRows] = {}
        self._replaced_in_batch: list[int] = []
        self._began: dict[int, tuple[int, set[int]]] = {}
        """Source that began anew → the row at which it did, and the steps that it has written again since."""
        self._newest: dict[int, int] = {}
        """Source → the newest step that it has written."""
        self.restarts: dict[int, int] = {}
        """Step that a source wrote again → the step that it had reached before it went back."""
        self.prompts: dict[int, str] = {}
        """See `Snapshot.prompts`."""

    def add(self, rollouts: Sequence[Rollout], source: int) -> set[int]:
        """Append rollouts read from one source; the steps that they belong to."""
        return set(self.add_of_several([(rollouts, source)]).steps) if rollouts else set()

    def add_of_several(self, parts: Sequence[tuple[Sequence[Rollout], int]]) -> Bundle:
        """Append rollouts, with the source of each part: what taking in costs by itself is shared by all of them.

        Gives them as one bundle.
        """
        bundle = joined([rollouts for rollouts, _ in parts])
        size = len(bundle)
        values = encode(bundle, self.names)
        sources = [source for _, source in parts]
        if sources.count(sources[0]) == len(sources):
            values["source"] = sources[0]
        else:
            values["source"] = list(chain.from_iterable([source] * len(part) for part, source in parts))
        values["sampling"] = self._sampling_ids_of(bundle)
        values["group"], indices = self._place(bundle, values)
        values["index"] = integers(indices, "index")
        first, self.length = self.length, self.length + size
        for name, column in self.columns.items():
            column.write(first, self.length, values[name])
        self._add_components(bundle, first)
        if self._replaced_in_batch:
            self.columns["live"].put(self._replaced_in_batch, 0)
            self.replaced += len(self._replaced_in_batch)
            self._replaced_in_batch = []
        while len(self._open) > _OPEN_STEPS:
            self._open.pop(next(iter(self._open))).close()
        return bundle

    def rows_of(self, step: int, until: int | None = None) -> NDArray[np.int64]:
        """Rows of a step (before the row `until`) that no later record replaced, in order of arrival."""
        known = self.steps.get(step)
        if known is None:
            return np.empty(0, np.int64)
        end = self.length if until is None else until
        ranges = [np.arange(start, min(stop, end)) for start, stop in known.ranges if start < end]
        if not ranges:
            return np.empty(0, np.int64)
        rows = np.concatenate(ranges) if len(ranges) > 1 else ranges[0]
        live = self.columns["live"].view()[rows[0] : rows[-1] + 1]
        if not live.all():
            rows = rows[live[rows - rows[0]] == 1]
        return rows

    def group_labels(self, step: int) -> list[str]:
        """Groups of a step by number: the source's own ids, else their numbers."""
        known = self.steps.get(step)
        if known is None:
            return []
        return [
            str(number) if label[1:].startswith(_BY_PROMPT) else label[1:]
            for number, label in enumerate(known.label_list())
        ]

    def grouped_by_prompt(self, step: int) -> bool:
        """Whether the step's groups are equal prompts, because the source gives no ids."""
        known = self.steps.get(step)
        return known is not None and known.by_prompt

    def forget(self, source: int, step: int | None = None) -> set[int]:
        """Let the rows of a source (of one of its steps) fall, since it was rewritten; the steps that lose rows."""
        of_source = (self.columns["source"].view() == source) & (self.columns["live"].view() == 1)
        if step is not None:
            of_source &= self.columns["step"].view() == step
        rows = np.flatnonzero(of_source)
        self.columns["live"].put(rows, 0)
        self.replaced += len(rows)
        steps = {int(value) for value in np.unique(self.columns["step"].view()[rows])}
        for number in steps & self._open.keys():
            self._open.pop(number).close()
        return steps

    def first_row_after(self, step: int) -> int:
        """The first row that belongs to a later step; `length` where none does."""
        later = (rows.ranges[0][0] for number, rows in self.steps.items() if number > step)
        return min(later, default=self.length)

    def let_go(self, step: int) -> None:
        """Let all rollouts of the steps up to `step` go, and the names of tasks that no other one has."""
        first = self.first_row_after(step)
        stragglers = [self.rows_of(number) for number in self.steps if number <= step]
        self.steps = {number: rows for number, rows in self.steps.items() if number > step}
        self._open = {number: rows for number, rows in self._open.items() if number > step}
        for name, column in self.columns.items():
            column.let_go(first, marked=name == "live")
        for column in self.components.values():
            column.let_go(first)
        late = np.concatenate([np.empty(0, np.int64), *stragglers])
        self.columns["live"].put(late[late >= first], 0)
        self.first = first
        tasks = np.unique(self.columns["task"].view()[first:])
        self.names["task"].keep(tasks.tolist())

    def begin_again(self, source: int) -> None:
        """Note that a source's file began anew: a step that it now writes again takes the place of its old rows.

        Rollouts with an index of their own need no such rule: the same rollout is replaced wherever it comes again.
        """
        self._began[source] = (self.length, set())

    def view(self, too_late: int = 0) -> Rollouts:
        """The columns as they stand. `too_late`: see `Rollouts.too_late`."""
        if self._nothing is not None and not self.length and too_late == self._nothing.too_late:
            return self._nothing
        found = self._view(too_late)
        if not self.length:
            self._nothing = found
        return found

    def _view(self, too_late: int) -> Rollouts:
        return Rollouts(
            length=self.length,
            columns={name: column.view() for name, column in self.columns.items()},
            components={name: column.view() for name, column in self.components.items()},
            names={name: interner.names for name, interner in self.names.items()},
            samplings=self.samplings,
            first=self.first,
            too_late=too_late,
        )

    def _opened(self, step: int) -> StepRows:
        """The step's rows, ready to take more."""
        known = self._open.get(step)
        if known is not None:
            return known
        known = self.steps.get(step)
        if known is None:
            known = self.steps[step] = StepRows()
        else:
            self._reopen(step, known)
        self._open[step] = known
        return known

    def _reopen(self, step: int, known: StepRows) -> None:
        known.labels = {label: number for number, label in enumerate(known.label_list())}
        known.packed, known.seen, known.counts = None, {}, {}
        rows = self.rows_of(step)
        groups, indices = (self.columns[name].view()[rows].tolist() for name in ("group", "index"))
        for group, index, row in zip(groups, indices, rows.tolist(), strict=True):
            known.seen.setdefault(group, {})[index] = row
            known.counts[group] = known.counts.get(group, 0) + 1

    def _place(self, bundle: Bundle, values: Mapping[str, Any]) -> tuple[array[int], list[int]]:
        """Group and index of each rollout within its step; the same rollout, if it is there already, is replaced."""
        size = len(bundle)
        labels = bundle.column("group")
        if by_prompt := None in labels:
            labels = [
                f"{_BY_PROMPT}{hash(prompt)}" if label is None else label
                for label, prompt in zip(labels, prompts_of(bundle), strict=True)
            ]
        steps, given = list(bundle.steps), list(bundle.column("index"))
        new = _New(labels, given, *(_every(values[name], size) for name in ("task", "source")))
        groups: array[int] = array("i")
        indices: list[int] = []
        are_given = None not in given
        splits = _every(values["split"], size)
        prompts = bundle.columns.get("prompt")
        varied = [values[name] for name in ("split", "source") if not isinstance(values[name], int)]
        for start, stop in _runs(list(zip(steps, *varied, strict=True)) if varied else steps):
            step, split, source = steps[start], splits[start], new.sources[start]
            known = self._open.get(step) or self._opened(step)
            self._newest[source] = max(self._newest.get(source, step), step)
            known.take(self.length + start, self.length + stop)
            for first, last in _runs(labels[start:stop], start):
                label = labels[first]
                known.by_prompt |= by_prompt and label.startswith(_BY_PROMPT)
                groups_before = len(known.labels)
                group = known.labels.setdefault(f"{split}{label}", groups_before)
                if group == groups_before and prompts is not None:
                    self._keep_prompt(self.length + first, prompts[first])
                found: Sequence[int] = given[first:last]
                if not are_given:
                    found = self._indices(known, group, found, source, step)
                self._replace(known.seen.setdefault(group, {}), found, new, first, step)
                groups.extend((group,) * (last - first))
                indices += found
        return groups, indices

    def _keep_prompt(self, row: int, prompt: str | None) -> None:
        if prompt is not None and len(prompt) <= _PROMPT_CHARACTERS:
            self.prompts[row] = prompt
            if len(self.prompts) > 2 * _PROMPTS:
                self.prompts = dict(islice(self.prompts.items(), _PROMPTS, None))

    def _indices(
        self, known: StepRows, group: int, given: Sequence[int | None], source: int, step: int
    ) -> Sequence[int]:
        """The indices of neighbouring rollouts of one group: their own, else counted."""
        if None not in given:
            return given  # type: ignore[return-value]
        if source in self._began:
            self._forget_before(source, step, known)
        found = []
        for index in given:
            if index is None:
                counted = known.counts.get(group, 0)
                known.counts[group] = counted + 1
            found.append(counted if index is None else index)
        return found

    def _replace(
        self, seen: dict[int, int], indices: Sequence[int], new: _New, start: int, step: int
    ) -> None:
        """Note where rollouts of one group lie, the `start`-th of the batch on; the same ones from before fall."""
        first, source = self.length + start, new.sources[start]
        if len(set(indices)) == len(indices) and (not seen or seen.keys().isdisjoint(indices)):
            seen.update(zip(indices, range(first, first + len(indices)), strict=True))
            return
        for row, index in enumerate(indices, first):
            before = seen.get(index)
            if before is not None and self._task(before, new.tasks) == new.tasks[row - self.length]:
                self._replaced_in_batch.append(before)
                if step < self._newest[source] and self._source(before, new.sources) == source:
                    self.restarts.setdefault(step, self._newest[source])
            seen[index] = row

    def _task(self, row: int, tasks: Sequence[int]) -> int:
        """The task of a row, which may be one of those that are just being added."""
        return tasks[row - self.length] if row >= self.length else int(self.columns["task"].view()[row])

    def _source(self, row: int, sources: Sequence[int]) -> int:
        """The source of a row, which may be one of those that are just being added."""
        return sources[row - self.length] if row >= self.length else int(self.columns["source"].view()[row])

    def _forget_before(self, source: int, step: int, known: StepRows) -> None:
        row, again = self._began[source]
        if step in again:
            return
        again.add(step)
        rows = self.rows_of(step, until=row)
        rows = rows[self.columns["source"].view()[rows] == source]
        if len(rows):
            self._replaced_in_batch += rows.tolist()
            known.counts = {}

    def _add_components(self, bundle: Bundle, first: int) -> None:
        if "rewards" in bundle.columns:
            rewards = bundle.columns["rewards"]
            if isinstance(rewards, Components):
                components: Mapping[str, Sequence[float | None]] = rewards.columns
            else:
                components = transposed([of_one or _NO_REWARDS for of_one in rewards])
            for name, values in components.items():
                column = self.components.get(name)
                if column is None:
                    column = self.components[name] = Column(np.float64, fill=math.nan)
                column.write(first, self.length, numbers(values))
        for column in self.components.values():
            column.pad(self.length)

    def _sampling_ids_of(self, bundle: Bundle) -> int | list[int]:
        samplings = bundle.column("sampling")
        if samplings.count(samplings[0]) == len(samplings):
            return self._sampling_id(samplings[0])
        return list(map(self._sampling_id, samplings))

    def _sampling_id(self, sampling: Sampling | None) -> int:
        if sampling is None:
            return -1
        key = tuple(sampling.items())
        known = self._sampling_ids.get(key)
        if known is None:
            ordered = dict(sorted(sampling.items()))
            name = " ".join(f"{setting} {value}" for setting, value in ordered.items())
            known = self.names["sampling"].id(name)
            if known == len(self.samplings):
                self.samplings.append(ordered)
            self._sampling_ids[key] = known
        return known


class _New(NamedTuple):
    """What is asked of rollouts that are being added, one element a rollout."""

    labels: Sequence[str]
    given: Sequence[int | None]
    """The indices that the source gives."""
    tasks: Sequence[int]
    sources: Sequence[int]


def _runs(values: Sequence[Any], first: int = 0) -> Iterator[tuple[int, int]]:
    """Where neighbours are equal: half-open ranges, counted from `first`."""
    start = first
    if values.count(values[0]) < len(values):
        for place, differs in enumerate(map(ne, values, islice(values, 1, None)), first + 1):
            if differs:
                yield start, place
                start = place
    yield start, first + len(values)


def _every(values: int | Sequence[int], size: int) -> Sequence[int]:
    """One value for each of `size` rollouts, where one may stand for all."""
    return [values] * size if isinstance(values, int) else values
