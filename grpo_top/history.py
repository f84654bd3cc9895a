"""Columns of every rollout that was read, and where each text lies; no text.

About 110 bytes a rollout. Columns only grow; a row is never moved, and its only later change is that `live` falls
when a later record of the same rollout replaces it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top import text
from grpo_top.records import EVAL, TRAIN, Rollout
from grpo_top.snapshot import Rollouts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from grpo_top.records import Sampling

SPLIT_TRAIN, SPLIT_EVAL, SPLIT_UNSURE = 0, 1, 2

COLUMNS: dict[str, DTypeLike] = {
    "step": np.int32,
    "split": np.int8,  # 0 train, 1 eval, 2 the source cannot say
    "group": np.int32,  # number of the group within its step and split
    "index": np.int32,  # number of the rollout within its group
    "reward": np.float64,
    "advantage": np.float64,
    "prompt_tokens": np.int32,
    "completion_tokens": np.int32,
    "truncated": np.int8,  # 1 yes, 0 no, -1 unknown
    "parsed": np.int8,  # 1 yes, 0 no, -1 unknown
    "finish": np.int16,  # id in names["finish"]
    "termination": np.int16,
    "verifier_error": np.int16,  # id; -1 none or unknown (verifier_known says which)
    "verifier_known": np.int8,  # 1 where the record carries a verifier
    "verifier_raw": np.int64,  # hash of the raw verifier output, 0 unknown
    "policy_start": np.int32,
    "policy_end": np.int32,
    "trainer_version": np.int32,
    "sampling": np.int16,  # id in names["sampling"]
    "sampler": np.int16,
    "seed": np.int64,
    "env_version": np.int16,
    "reward_version": np.int16,
    "task": np.int32,  # id in names["task"]: the task's id, else the hash of its prompt
    "family": np.int16,
    "tier": np.int16,
    "text": np.int64,  # hash of the completion with white space folded, 0 unknown
    "loop": np.int8,  # 1 the completion ends in a loop, -1 no text
    "gibberish": np.int8,
    "logp_diff": np.float32,  # mean |log-probability difference| sampler to trainer; inf: lengths do not match
    "source": np.int16,
    "offset": np.int64,
    "length": np.int32,
    "part": np.int16,
    "live": np.int8,  # 0 where a later record replaced it
}
"""Column name → type. Integers hold -1 for unknown, floats NaN for unknown and ±inf for "not finite"."""

_FIRST_CAPACITY = 1024
_OPEN_STEPS = 32
_LABEL_END = "\x1f"
_BY_PROMPT = "\0"


class Column:
    """One growing array. `view` stays valid for the rows that it shows, whatever is appended later."""

    def __init__(self, dtype: DTypeLike, fill: float = 0) -> None:
        self._fill = fill
        self._data: NDArray[Any] = np.full(_FIRST_CAPACITY, fill, dtype)
        self.length = 0

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Append values, converted to the column's type."""
        end = self.length + len(values)
        self._reserve(end)
        self._data[self.length : end] = values
        self.length = end

    def pad(self, length: int) -> None:
        """Append the fill value until the column has `length` rows."""
        self._reserve(length)
        self.length = max(self.length, length)

    def view(self) -> NDArray[Any]:
        """The rows so far; writable by the history alone."""
        length = self.length  # read before the data, which another thread may just have let grow
        return self._data[:length]

    def cut(self, length: int) -> None:
        """Let the rows from `length` on fall."""
        self.length = min(self.length, length)

    def _reserve(self, length: int) -> None:
        if length > len(self._data):
            grown = np.full(max(length, 2 * len(self._data)), self._fill, self._data.dtype)
            grown[: self.length] = self._data[: self.length]
            self._data = grown


class Interner:
    """Small numbers for repeated names. Past `limit` names the rest share the last one, `(others)`."""

    def __init__(self, limit: int) -> None:
        self.names: list[str] = []
        self._ids: dict[str, int] = {}
        self._limit = limit

    def id(self, name: str | None) -> int:
        """The name's number, a new one where it has none yet; -1 for None."""
        if name is None:
            return -1
        known = self._ids.get(name)
        if known is not None:
            return known
        if len(self.names) >= self._limit:
            return self._limit - 1
        if len(self.names) == self._limit - 1:
            name = "(others)"
        self._ids[name] = len(self.names)
        self.names.append(name)
        return len(self.names) - 1


class StepRows:
    """Which rows belong to a step, and which rollout each of them is."""

    __slots__ = ("counts", "labels", "packed", "ranges", "seen")

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        """Half-open ranges of rows."""
        self.labels: dict[str, int] = {}
        """Split digit and group label → number of the group within the step."""
        self.seen: dict[tuple[int, int], tuple[int, int]] = {}
        """(group number, index) → row and task: the same place with another task is another rollout."""
        self.counts: dict[int, int] = {}
        """Group number → rollouts so far."""
        self.packed: str | None = None
        """The labels as one string while the step is closed: most steps of a long run are."""

    def close(self) -> None:
        """Give up what only new rows need."""
        self.packed = _LABEL_END.join(self.labels)
        self.labels, self.seen, self.counts = {}, {}, {}

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

    def add(self, rollouts: Iterable[Rollout], source: int) -> set[int]:
        """Append rollouts read from one source; the steps that they belong to."""
        rows: list[tuple[Any, ...]] = []
        components: dict[str, list[tuple[int, float]]] = {}
        touched: set[int] = set()
        row = self.length
        for rollout in rollouts:
            touched.add(rollout.step)
            rows.append(self._row(rollout, row, source))
            if rollout.rewards:
                for name, value in rollout.rewards.items():
                    if value is not None:
                        components.setdefault(name, []).append((row, value))
            row += 1
        if not rows:
            return touched
        for column, values in zip(self.columns.values(), zip(*rows, strict=True), strict=True):
            column.extend(values)
        for name, pairs in components.items():
            self._component(name, row, pairs)
        for column in self.components.values():
            column.pad(row)
        self.length = row
        if self._replaced_in_batch:
            self.columns["live"].view()[self._replaced_in_batch] = 0
            self.replaced += len(self._replaced_in_batch)
            self._replaced_in_batch = []
        while len(self._open) > _OPEN_STEPS:
            self._open.pop(next(iter(self._open))).close()
        return touched

    def rows_of(self, step: int, until: int | None = None) -> NDArray[np.int64]:
        """Rows of a step (before the row `until`) that no later record replaced, in order of arrival."""
        known = self.steps.get(step)
        if known is None:
            return np.empty(0, np.int64)
        rows = np.concatenate([np.arange(start, stop) for start, stop in known.ranges])
        rows = rows[rows < (self.length if until is None else until)]
        live: NDArray[np.int64] = rows[self.columns["live"].view()[rows] == 1]
        return live

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
        return known is not None and any(label[1:].startswith(_BY_PROMPT) for label in known.label_list())

    def forget(self, source: int, step: int | None = None) -> set[int]:
        """Let the rows of a source (of one of its steps) fall, since it was rewritten; the steps that lose rows."""
        live = self.columns["live"].view()
        of_source = (self.columns["source"].view() == source) & (live == 1)
        if step is not None:
            of_source &= self.columns["step"].view() == step
        rows = np.flatnonzero(of_source)
        live[rows] = 0
        self.replaced += len(rows)
        steps = {int(value) for value in np.unique(self.columns["step"].view()[rows])}
        for number in steps & self._open.keys():
            self._open.pop(number).close()
        return steps

    def begin_again(self, source: int) -> None:
        """Note that a source's file began anew: a step that it now writes again takes the place of its old rows.

        Rollouts with an index of their own need no such rule: the same rollout is replaced wherever it comes again.
        """
        self._began[source] = (self.length, set())

    def view(self) -> Rollouts:
        """The columns as they stand."""
        return Rollouts(
            length=self.length,
            columns={name: column.view() for name, column in self.columns.items()},
            components={name: column.view() for name, column in self.components.items()},
            names={name: interner.names for name, interner in self.names.items()},
            samplings=self.samplings,
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
        known.packed = None
        rows = self.rows_of(step)
        groups, indices, tasks = (
            self.columns[name].view()[rows].tolist() for name in ("group", "index", "task")
        )
        places = zip(groups, indices, strict=True)
        known.seen = dict(zip(places, zip(rows.tolist(), tasks, strict=True), strict=True))
        for group in groups:
            known.counts[group] = known.counts.get(group, 0) + 1

    def _row(self, rollout: Rollout, row: int, source: int) -> tuple[Any, ...]:
        completion = rollout.completion
        if completion is None and rollout.messages is not None:
            completion = "\n".join(
                message.content for message in rollout.messages if message.role == "assistant"
            )
        split = _SPLITS.get(rollout.split, SPLIT_UNSURE)
        task = self.names["task"].id(_task_name(rollout))
        group, index = self._place(rollout, row, split, task, source)
        start, end = rollout.policy_version, rollout.policy_version_end
        if completion is None:
            text_id, loop, gibberish = 0, -1, -1
        else:
            text_id = text.text_hash(completion)
            loop, gibberish = text.ends_in_loop(completion), text.gibberish(completion)
        truncated = rollout.truncated
        if truncated is None and rollout.finish_reason is not None:
            truncated = rollout.finish_reason == "length"
        names = self.names
        raw = rollout.verifier_raw
        return (
            rollout.step,
            split,
            group,
            index,
            _finite_or_inf(rollout.reward),
            _finite_or_inf(rollout.advantage),
            -1 if rollout.prompt_tokens is None else rollout.prompt_tokens,
            -1 if rollout.completion_tokens is None else rollout.completion_tokens,
            -1 if truncated is None else truncated,
            -1 if rollout.parsed is None else rollout.parsed,
            names["finish"].id(rollout.finish_reason),
            names["termination"].id(rollout.termination),
            names["verifier_error"].id(rollout.verifier_error),
            raw is not None or rollout.verifier_error is not None,
            0 if raw is None else hash(raw),
            -1 if start is None else start,
            (-1 if start is None else start) if end is None else end,
            -1 if rollout.trainer_version is None else rollout.trainer_version,
            self._sampling_id(rollout.sampling),
            names["sampler"].id(rollout.sampler),
            -1 if rollout.seed is None else rollout.seed,
            names["env_version"].id(rollout.env_version),
            names["reward_version"].id(rollout.reward_version),
            task,
            names["family"].id(rollout.family),
            names["tier"].id(rollout.tier),
            text_id,
            loop,
            gibberish,
            _logp_diff(rollout),
            source,
            rollout.location.offset,
            rollout.location.length,
            rollout.location.part,
            1,
        )

    def _place(self, rollout: Rollout, row: int, split: int, task: int, source: int) -> tuple[int, int]:
        """Group and index of a rollout within its step; the same rollout, if it is there already, is replaced."""
        step = rollout.step
        known = self._open.get(step) or self._opened(step)
        newest = self._newest.get(source, step)
        if step >= newest:
            self._newest[source] = step
        ranges = known.ranges
        if ranges and ranges[-1][1] == row:
            ranges[-1] = (ranges[-1][0], row + 1)
        else:
            ranges.append((row, row + 1))
        label = rollout.group
        key = f"{split}{label}" if label is not None else f"{split}{_BY_PROMPT}{hash(_prompt_of(rollout))}"
        group = known.labels.setdefault(key, len(known.labels))
        index = rollout.index
        if index is None:
            if source in self._began:
                self._forget_before(source, step, known)
            index = known.counts.get(group, 0)
            known.counts[group] = index + 1
        place = (group, index)
        before = known.seen.get(place)
        if before is not None and before[1] == task:
            self._replaced_in_batch.append(before[0])
            if step < newest:
                self.restarts.setdefault(step, newest)
        known.seen[place] = (row, task)
        return place

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

    def _component(self, name: str, length: int, pairs: list[tuple[int, float]]) -> None:
        column = self.components.get(name)
        if column is None:
            column = self.components[name] = Column(np.float64, fill=math.nan)
        column.pad(length)
        rows, values = zip(*pairs, strict=True)
        column.view()[list(rows)] = [_finite_or_inf(value) for value in values]

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


_SPLITS: dict[str | None, int] = {TRAIN: SPLIT_TRAIN, EVAL: SPLIT_EVAL}


def _finite_or_inf(value: float | None) -> float:
    """A column's number: NaN is unknown there, so a NaN that was logged is kept as infinite, "not finite"."""
    if value is None:
        return math.nan
    return value if math.isfinite(value) else math.inf


def _prompt_of(rollout: Rollout) -> str:
    if rollout.prompt is not None:
        return rollout.prompt
    if rollout.messages:
        return "\n".join(f"{message.role}: {message.content}" for message in rollout.messages[:1])
    return ""


def _task_name(rollout: Rollout) -> str | None:
    if rollout.task is not None:
        return rollout.task
    prompt = _prompt_of(rollout)
    return f"prompt {text.text_hash(prompt) & 0xFFFFFFFFFFFFFFFF:016x}" if prompt else None


def _logp_diff(rollout: Rollout) -> float:
    sampler, trainer = rollout.logprobs_sampler, rollout.logprobs_trainer
    if sampler is None or trainer is None:
        return math.nan
    if len(sampler) != len(trainer):
        return math.inf
    if not sampler:
        return math.nan
    difference = np.abs(np.asarray(sampler, np.float64) - np.asarray(trainer, np.float64)).mean()
    return float(difference) if math.isfinite(difference) else math.inf
