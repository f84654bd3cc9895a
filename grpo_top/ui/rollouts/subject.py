"""One rollout, looked at: what its columns say, its group, and where it stands among its siblings."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.batch import ADVANTAGE_EPSILON
from grpo_top.encode import SPLIT_EVAL
from grpo_top.ui.rollouts.catalogue import members_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.grades import Graded
    from grpo_top.records import Sampling, SamplingValue
    from grpo_top.snapshot import Snapshot


class Subject:
    """A row of a Snapshot's rollouts. Everything is None, or empty, where it is unknown.

    Args:
        snapshot: the run.
        row: the rollout's row.
        before: the same rollout in an earlier Snapshot; what took long to find out then is taken over.
    """

    def __init__(self, snapshot: Snapshot, row: int, before: Subject | None = None) -> None:
        self.snapshot = snapshot
        self.row = row
        self.step = int(snapshot.rollouts.columns["step"][row])
        self.batch, self.at = self._find()
        """The step's rollouts and the position among them; None and -1 where a later record replaced this one."""
        self.group = -1 if self.batch is None else int(self.batch.group[self.at])
        """Its group's dense number within the batch."""
        self._since: dict[str, int] = before._since if before is not None and before.row == row else {}

    @cached_property
    def members(self) -> NDArray[np.int64]:
        """Positions within the batch of its group's rollouts, itself among them, by their index."""
        return np.empty(0, np.int64) if self.batch is None else members_of(self.batch, self.group)

    @cached_property
    def rows(self) -> list[int]:
        """Rows of its group's rollouts, by their index; itself alone where it has no group."""
        if self.batch is None:
            return [self.row]
        rows: list[int] = self.batch.rows[self.members].tolist()
        return rows

    @property
    def place(self) -> int:
        """Its position among `rows`."""
        return self.rows.index(self.row)

    @property
    def evaluation(self) -> bool:
        """Whether it was made for a held-out evaluation."""
        return int(self.snapshot.rollouts.columns["split"][self.row]) == SPLIT_EVAL

    @property
    def group_label(self) -> str:
        """The source's own id of its group, else its number."""
        return "" if self.batch is None else self.batch.group_label(self.group)

    @property
    def index(self) -> int:
        """Its number within its group."""
        return int(self.snapshot.rollouts.columns["index"][self.row])

    def whole(self, column: str) -> int | None:
        """A whole number of a column of `history.COLUMNS`."""
        value = int(self.snapshot.rollouts.columns[column][self.row])
        return None if value < 0 else value

    def flag(self, column: str) -> bool | None:
        """Yes or no of a column."""
        value = self.whole(column)
        return None if value is None else bool(value)

    def name(self, column: str) -> str | None:
        """The name behind an id column, as the log has it."""
        value = self.whole(column)
        return None if value is None else self.snapshot.rollouts.names[column][value]

    @property
    def reward(self) -> float:
        """NaN unknown, inf "not finite"."""
        return float(self.snapshot.rollouts.columns["reward"][self.row])

    @cached_property
    def components(self) -> dict[str, float]:
        """The reward's components that are known."""
        found = {name: float(values[self.row]) for name, values in self.snapshot.rollouts.components.items()}
        return {name: value for name, value in found.items() if not math.isnan(value)}

    @cached_property
    def advantages(self) -> NDArray[np.float64]:
        """Advantages of its group, in the order of `rows`; NaN unknown."""
        if self.batch is None:
            return np.array([float(self.snapshot.rollouts.columns["advantage"][self.row])])
        advantages: NDArray[np.float64] = self.batch.advantages()[self.members]
        return advantages

    @property
    def advantage_logged(self) -> bool:
        """Whether the log gives its advantage; else it is worked out from the group's rewards."""
        return bool(np.isfinite(self.snapshot.rollouts.columns["advantage"][self.row]))

    @property
    def advantage_computed(self) -> float:
        """Its advantage as its group's rewards make it; NaN unknown."""
        if self.batch is None or not math.isfinite(self.reward):
            return math.nan
        size = max(2, int(self.batch.group_size[self.group]))
        spread = float(self.batch.group_std[self.group]) * math.sqrt(size / (size - 1)) + ADVANTAGE_EPSILON
        return (self.reward - float(self.batch.group_mean[self.group])) / spread

    def component_range(self, name: str) -> tuple[float, float] | None:
        """The lowest and the highest of a component within its group; None with fewer than two that are known."""
        values = self.snapshot.rollouts.components[name][self.rows]
        known = values[np.isfinite(values)]
        return (float(known.min()), float(known.max())) if len(known) > 1 else None

    @cached_property
    def graded(self) -> Graded | None:
        """The hand score that it was given."""
        return next((one for one in self.snapshot.graded if one.row == self.row), None)

    @cached_property
    def rewards(self) -> NDArray[np.float64]:
        """Rewards of its group, in the order of `rows`."""
        if self.batch is None:
            return np.array([self.reward])
        rewards: NDArray[np.float64] = self.batch.reward[self.members]
        return rewards

    @property
    def merits(self) -> NDArray[np.float64]:
        """What its group is ordered by, in the order of `rows`: rewards; advantages where no reward is known."""
        return self.rewards if np.isfinite(self.rewards).any() else self.advantages

    @property
    def merit(self) -> float:
        """Its own."""
        return float(self.merits[self.place])

    @property
    def no_best(self) -> str:
        """Why there is none that is better than another, in words."""
        known = np.isfinite(self.merits).any()
        return "every known reward of the group is the same" if known else "no reward of the group is known"

    @property
    def rank(self) -> int | None:
        """Its place by reward within its group, from 1; equal rewards share the better place."""
        if not math.isfinite(self.reward) or len(self.rows) < 2:
            return None
        known = self.rewards[np.isfinite(self.rewards)]
        return int((known > self.reward).sum()) + 1

    @property
    def group_mean(self) -> float | None:
        """Mean reward of its group."""
        return _known(self.batch.group_mean[self.group]) if self.batch is not None else None

    @property
    def group_std(self) -> float | None:
        """Population std of its group's rewards."""
        return _known(self.batch.group_std[self.group]) if self.batch is not None else None

    @property
    def flat(self) -> bool:
        """Whether its group has no spread."""
        return self.batch is not None and bool(self.batch.flat[self.group])

    @property
    def texts(self) -> int | None:
        """Distinct texts of its group."""
        if self.batch is None or self.batch.distinct_texts is None:
            return None
        return int(self.batch.distinct_texts[self.group])

    @property
    def lag(self) -> int | None:
        """Trainer's version minus the policy's."""
        policy, trainer = self.whole("policy_start"), self.whole("trainer_version")
        return None if policy is None or trainer is None else trainer - policy

    @property
    def sampling(self) -> Sampling:
        """The deployed sampling config."""
        id_ = self.whole("sampling")
        return {} if id_ is None else self.snapshot.rollouts.samplings[id_]

    @property
    def intended(self) -> Sampling:
        """The intended sampling config."""
        return self.snapshot.run.sampling or {}

    @property
    def budget(self) -> int | None:
        """The most tokens that its completion could have."""
        value = self.sampling.get("max_tokens", self.intended.get("max_tokens"))
        return int(value) if isinstance(value, int | float) and math.isfinite(value) and value > 0 else None

    @property
    def source(self) -> str:
        """The file or endpoint that it was read from."""
        number = self.whole("source")
        sources = self.snapshot.sources
        return sources[number].where if number is not None and number < len(sources) else ""

    def since(self, setting: str) -> int | None:
        """The first of the steps on end, up to its own, in which its sampler ran with its value of a setting.

        With no sampler named, all rollouts count as of one.
        """
        value = self.sampling.get(setting)
        if value is None:
            return None
        if setting not in self._since:
            self._since[setting] = self._first_step_of(setting, value)
        return self._since[setting]

    def _first_step_of(self, setting: str, value: SamplingValue) -> int:
        columns, samplings = self.snapshot.rollouts.columns, self.snapshot.rollouts.samplings
        same_sampler = columns["sampler"] == columns["sampler"][self.row]
        mine = same_sampler & (columns["step"] <= self.step) & (columns["live"] == 1)
        mine &= (columns["split"] == SPLIT_EVAL) == self.evaluation
        same = np.array([sampling.get(setting) == value for sampling in samplings] + [False])
        steps, agrees = columns["step"][mine], same[columns["sampling"][mine]]
        others = steps[~agrees]
        last_other = int(others.max()) if len(others) else -(1 << 31)
        after = steps[steps > last_other]
        return int(after.min()) if len(after) else self.step

    def row_in_group(self, group: int) -> int | None:
        """The row in another group of its batch that has its own place there; None where there is no such group."""
        if self.batch is None or not 0 <= group < self.batch.groups:
            return None
        others = members_of(self.batch, group)
        return int(self.batch.rows[others[min(self.place, len(others) - 1)]])

    def best(self) -> int | None:
        """The row to hold it against: the best sibling; the worst where it is the best; None where all are equal."""
        merits = {row: float(merit) for row, merit in zip(self.rows, self.merits, strict=True)}
        own = merits.pop(self.row)
        known = {row: merit for row, merit in merits.items() if math.isfinite(merit)}
        if not known or not math.isfinite(own):
            return None
        best, worst = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
        if known[best] > own:
            return best
        return worst if known[worst] < own else None

    def extremes(self) -> tuple[int, int] | None:
        """Rows of the best and the worst of its group; None where all are equal, or nothing is known of them."""
        known = {row: float(merit) for row, merit in zip(self.rows, self.merits, strict=True)}
        known = {row: merit for row, merit in known.items() if math.isfinite(merit)}
        if not known:
            return None
        best, worst = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
        return (best, worst) if known[best] > known[worst] else None

    def _find(self) -> tuple[Batch | None, int]:
        kinds = (self.snapshot.eval_batch, self.snapshot.batch)
        for kind in kinds if self.evaluation else kinds[::-1]:
            batch = kind(self.step)
            if batch is not None:
                at = np.flatnonzero(batch.rows == self.row)
                if len(at):
                    return batch, int(at[0])
        return None, -1


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
