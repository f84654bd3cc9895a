"""Stage 8, held-out: are held-out tasks trained on, or a few train tasks over and over?"""

from __future__ import annotations

import math
from collections import deque
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import ROLLOUTS, UNKNOWN, Details, Detector, Knob, Page, Verdict, some_rows
from grpo_top.snapshot import WINDOW, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts

NAMES_KEPT = 20
"""Tasks that the evidence names, at most."""
FEW_PROMPTS = 4
"""Fewer different train prompts than this do not tell tasks apart: the task is not in the prompt."""


class TaskSet:
    """A set of task ids, which are small whole numbers: one byte for each id up to the highest."""

    def __init__(self) -> None:
        self._marked = np.zeros(1024, np.bool_)
        self.count = 0

    def add(self, tasks: NDArray[np.int32]) -> list[int]:
        """Put ids in; those that were not there yet, ascending."""
        if not len(tasks):
            return []
        highest = int(tasks.max())
        if highest >= len(self._marked):
            grown = np.zeros(max(2 * len(self._marked), highest + 1), np.bool_)
            grown[: len(self._marked)] = self._marked
            self._marked = grown
        new = sorted(set(tasks[~self._marked[tasks]].tolist()))
        self._marked[tasks] = True
        self.count += len(new)
        return new

    def held(self, tasks: list[int]) -> list[int]:
        """Those of some ids that are in it."""
        return (
            [task for task in tasks if task < len(self._marked) and self._marked[task]] if self.count else []
        )


class Leakage(Detector):
    """Held-out tasks are trained on, or train tasks come again and again.

    Its state grows with the number of different tasks, by two bytes a task: nothing less can tell whether one was seen.
    """

    id = "LEAKAGE"
    stage = 8
    severity = Status.FAIL
    series = ("task", "heldout")
    needs = ("task",)
    sees = frozenset({ROLLOUTS})
    knobs = (
        Knob("overlap", 1, "held-out tasks that were seen in training"),
        Knob("unique", 0.1, "unique tasks as a share of the groups of the last 20 steps"),
        Knob("min_groups", 40, "groups that the last 20 steps must hold"),
    )
    page = Page(
        what=(
            "Held-out tasks are trained on, or train tasks are so few that they can be learned by heart. "
            "Either way, results on them say nothing about other tasks."
        ),
        looks_like=(
            "One task id, or one prompt, among both train and held-out rollouts. Or the same few prompts in "
            "every step, with rewards that go to the top quickly."
        ),
        decides=(
            "Keeps which tasks were trained on and which were held out, by task id where there is one and "
            "else by prompt (white space normalised). Fails at `overlap` tasks that are both. Warns when "
            "unique tasks are under `unique` of the groups of the last 20 steps, with `min_groups` groups or "
            "more. Without held-out tasks it is never `ok`. Where prompts stand for tasks and there are fewer "
            "than 4 different ones, the task is not in the prompt, and nothing is judged."
        ),
        try_next=(
            (
                "Take the tasks named here out of the training set, and check how they came in: a split by "
                "row lets duplicates through"
            ),
            (
                "Split by source or template, not by row, and compare the two sets by normalised prompt "
                "before a run starts"
            ),
            "Evaluate old checkpoints again on tasks that are certain to be new; select among those",
            "If train tasks repeat, widen the set or mix it better before training on",
        ),
        mistaken_for=(
            "Several epochs over a large set: tasks come again, but many steps apart. Prompts of one "
            "template that differ in their numbers only: they are different tasks, though perhaps not "
            "different enough."
        ),
        related=("HELDOUT_FLAT", "GROUP_INTEGRITY", "SATURATED_REWARD"),
    )
    overlap: float
    unique: float
    min_groups: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._trained, self._heldout = TaskSet(), TaskSet()
        self._by_prompt = True
        """Every train task so far is known by its prompt only."""
        self._shared: list[int] = []
        """The first tasks that are both."""
        self._shared_count = 0
        self._since: int | None = None
        self._recent = RecentTasks()
        self._repeats_since: int | None = None
        self._names: Sequence[str] = ()
        self._rows: tuple[int, ...] = ()
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Note the tasks of a step, and whether any is on the wrong side."""
        if facts.batch is not None:
            tasks = facts.batch.column("task")[facts.batch.group_first]
            known = tasks if facts.batch.extent("task")[0] >= 0 else tasks[tasks >= 0]
            self._note(facts.batch, known, self._trained, self._heldout, facts.step)
            self._recent.add(known.tolist(), facts.step)
        if facts.eval_batch is not None:
            tasks = facts.eval_batch.column("task")
            self._note(facts.eval_batch, tasks[tasks >= 0], self._heldout, self._trained, facts.step)
        if facts.batch is not None or facts.eval_batch is not None:
            self._verdict = self._judge()
        return self._verdict

    def describe(self, facts: StepFacts) -> Details:
        """Which tasks are shared, or how few there are."""
        leaks = self._shared_count >= self.overlap
        groups, unique = self._recent.groups, self._recent.unique
        if leaks:
            number = numbers.count(self._shared_count)
            summary = (
                f"{number} of {numbers.count(self._heldout.count)} held-out tasks are in the training data"
            )
        else:
            summary = f"{numbers.count(unique)} different tasks in {numbers.count(groups)} groups of the last 20 steps"
        rows: tuple[int, ...] = self._rows
        if facts.batch is not None:
            names = facts.batch.names("task")
            if leaks:
                marked = np.isin(facts.batch.column("task"), self._shared)
                rows = self._rows = tuple(dict.fromkeys((*self._rows, *some_rows(facts.batch, marked))))[:50]
            else:
                rows = some_rows(facts.batch, np.ones(facts.batch.size, np.bool_))
            self._names = tuple(
                names[task] for task in (self._shared if leaks else self._recent.most_common())
            )
        return Details(
            summary,
            {
                "shared_tasks": self._shared_count,
                "heldout_tasks": self._heldout.count,
                "train_tasks": self._trained.count,
                "tasks": list(self._names),
                "known_by": "prompt" if self._by_prompt else "task id",
                "since": self._since if leaks else self._repeats_since,
                "unique_tasks_of_20_steps": unique,
                "groups_of_20_steps": groups,
            },
            rows,
            self.page.try_next[:3] if leaks else (self.page.try_next[3], *self.page.try_next[1:3]),
        )

    def _note(self, batch: Batch, tasks: NDArray[np.int32], own: TaskSet, other: TaskSet, step: int) -> None:
        """Put a step's tasks into the set that they belong to; remember those that are in the other one too."""
        new = own.add(tasks)
        if own is self._trained and self._by_prompt:
            names = batch.names("task")
            self._by_prompt = all(names[task].startswith("prompt ") for task in new)
        shared = other.held(new)
        if shared:
            self._shared_count += len(shared)
            self._shared = [*self._shared, *shared][:NAMES_KEPT]
            self._since = step if self._since is None else self._since
            self._rows = (*self._rows, *some_rows(batch, np.isin(batch.column("task"), shared)))[:50]

    def _judge(self) -> Verdict:
        if not self._trained.count or (self._by_prompt and self._trained.count < FEW_PROMPTS):
            return UNKNOWN
        if self._shared_count >= self.overlap:
            return Verdict(Status.FAIL, self._shared_count, self.overlap, self._since)
        groups = self._recent.groups
        share = self._recent.unique / groups if groups else math.nan
        few = groups >= self.min_groups and share < self.unique
        self._repeats_since = (self._repeats_since or self._recent.first_step) if few else None
        if few:
            return Verdict(Status.WARN, share, self.unique, self._repeats_since)
        if not self._heldout.count:
            return UNKNOWN  # that train tasks are many does not say that none of them is held out
        return Verdict(Status.OK, share if groups else None, self.unique)


class RecentTasks:
    """How many different tasks the groups of the late window hold."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._steps: deque[tuple[int, list[int]]] = deque()
        self.groups = 0

    def __deepcopy__(self, memo: dict[int, object]) -> RecentTasks:
        """The tasks of a step never change, so a copy need only have containers of its own."""
        copied = copy(self)
        copied._counts, copied._steps = self._counts.copy(), self._steps.copy()
        return copied

    def add(self, tasks: list[int], step: int) -> None:
        """Take the task of each group of a step in."""
        self._steps.append((step, tasks))
        self.groups += len(tasks)
        for task in tasks:
            self._counts[task] = self._counts.get(task, 0) + 1
        if len(self._steps) > WINDOW:
            _, old = self._steps.popleft()
            self.groups -= len(old)
            for task in old:
                left = self._counts[task] - 1
                if left:
                    self._counts[task] = left
                else:
                    del self._counts[task]

    @property
    def unique(self) -> int:
        """Different tasks in the window."""
        return len(self._counts)

    @property
    def first_step(self) -> int | None:
        """The oldest step in the window."""
        return self._steps[0][0] if self._steps else None

    def most_common(self) -> list[int]:
        """The tasks that repeat most."""
        return sorted(self._counts, key=lambda task: -self._counts[task])[:NAMES_KEPT]
