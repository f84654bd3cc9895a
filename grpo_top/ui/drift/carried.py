"""What rollouts say of how they were sampled: which sampler, at which step, with which config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top.detectors.sampler import FEW_BUDGETS
from grpo_top.encode import SPLIT_EVAL, SPLIT_REQUEST
from grpo_top.ui.panels.sampler import counted, same

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.records import Sampling, SamplingValue
    from grpo_top.snapshot import Rollouts

    Ints = NDArray[np.int64]

UNNAMED = -1
"""Number of the sampler of rollouts that do not name theirs."""


class Point(NamedTuple):
    """A setting's value from a step on."""

    step: int
    value: SamplingValue | None
    """None where it is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """Rollouts counted by sampler, step and config; one element of each array a combination, sorted so."""

    sampler: Ints
    """Place in `names`, `UNNAMED` where rollouts name none."""
    step: Ints
    config: Ints
    """Place in `configs`, -1 where rollouts do not say."""
    rollouts: Ints
    names: tuple[str, ...]
    configs: tuple[Sampling, ...]

    @property
    def samplers(self) -> list[int]:
        """Numbers of the samplers that any rollout is of."""
        return [int(number) for number in np.unique(self.sampler)]

    def settings(self) -> set[str]:
        """Names of the settings that any rollout carries."""
        used = np.unique(self.config)
        return {name for number in used[used >= 0].tolist() for name in self.configs[number]}

    def values(self, name: str, reference: SamplingValue | None) -> dict[int, list[Point]]:
        """A setting over time: each sampler's values one after another; on a mixed step one that differs.

        Many `max_tokens` on one step are budgets of requests: the largest stands for them.
        """
        known = {config[name] for config in self.configs if name in config}
        values = sorted(known, key=lambda value: (isinstance(value, str), value))
        places = {value: place for place, value in enumerate(values)}
        by_config = np.array([places.get(config.get(name, ""), -1) for config in self.configs] + [-1])
        wrong = np.array([not same(value, reference) for value in values] + [False])
        codes, starts = by_config[self.config], self._starts()
        if len(starts) < len(codes):
            # Of the values of one step one that differs is taken before one that does not.
            ranked = np.where(wrong[codes], codes + len(values) + 1, codes)
            if name == "max_tokens":
                sizes = np.diff(starts, append=len(codes))
                ranked = np.where(np.repeat(sizes > FEW_BUDGETS, sizes), codes, ranked)
            most = np.maximum.reduceat(ranked, starts)
            codes = np.where(most > len(values), most - len(values) - 1, most)
        sampler, step = self.sampler[starts], self.step[starts]
        turns = np.flatnonzero((np.diff(sampler, prepend=-2) != 0) | (np.diff(codes, prepend=-2) != 0))
        found: dict[int, list[Point]] = {}
        for number, begin, code in zip(
            sampler[turns].tolist(), step[turns].tolist(), codes[turns].tolist(), strict=True
        ):
            found.setdefault(number, []).append(Point(begin, values[code] if code >= 0 else None))
        return found

    def last_step(self, sampler: int) -> int:
        """The newest step that holds rollouts of a sampler that has some."""
        return int(self.step[np.searchsorted(self.sampler, sampler, side="right") - 1])

    def mixed(self, sampler: int | None, step: int, name: str) -> dict[SamplingValue, int]:
        """Rollouts of a step, of one sampler or of all, by the value of a setting; the most frequent first."""
        of = (self.step == step) & (self.config >= 0)
        if sampler is not None:
            of &= self.sampler == sampler
        found: dict[SamplingValue, int] = {}
        for config, rollouts in zip(self.config[of].tolist(), self.rollouts[of].tolist(), strict=True):
            value = self.configs[config].get(name)
            if value is not None:
                found[value] = found.get(value, 0) + rollouts
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def counted(self, first: int, last: int) -> dict[int, int]:
        """Rollouts of each sampler on the steps `first` to `last`."""
        within = (self.step >= first) & (self.step <= last)
        numbers, of = np.unique(self.sampler[within], return_inverse=True)
        sums = np.bincount(of, self.rollouts[within], len(numbers)).astype(np.int64)
        return dict(zip(numbers.tolist(), sums.tolist(), strict=True))

    def _starts(self) -> Ints:
        """Where each step of each sampler begins."""
        if not len(self.step):
            return np.empty(0, np.int64)
        further = (np.diff(self.sampler) != 0) | (np.diff(self.step) != 0)
        return np.flatnonzero(np.concatenate(([True], further)))


def carried(rollouts: Rollouts, last_step: int | None) -> Carried:
    """What the rollouts up to a step say. Train rollouts count; where there are none, an engine's requests."""
    columns = rollouts.columns
    names, configs = tuple(rollouts.names["sampler"]), tuple(rollouts.samplings)
    wanted = (columns["live"] == 1) & (columns["split"] != SPLIT_EVAL)
    if last_step is not None:
        wanted &= columns["step"] <= last_step
    trained = wanted & (columns["split"] != SPLIT_REQUEST)
    wanted = trained if trained.any() else wanted
    step, sampler, config = (
        columns[name][wanted].astype(np.int64) for name in ("step", "sampler", "sampling")
    )
    if not len(step):
        empty = np.empty(0, np.int64)
        return Carried(empty, empty, empty, empty, names, configs)
    first, steps, choices = int(step.min()), int(np.ptp(step)) + 1, len(configs) + 1
    keys = ((sampler + 1) * steps + (step - first)) * choices + config + 1
    found, of = counted(keys, (len(names) + 1) * steps * choices)
    return Carried(
        found // choices // steps - 1,
        found // choices % steps + first,
        found % choices - 1,
        of,
        names,
        configs,
    )
