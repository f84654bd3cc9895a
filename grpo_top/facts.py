"""One finished step as the detectors see it, and the statistics that make its row of the step table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from grpo_top.history import History
    from grpo_top.records import Sampling, Success

FLAT_STD = 1e-8
"""A group whose population std of rewards is at most this has no variance."""
FLAT_ADVANTAGE = 1e-6
"""Where a source gives no total reward, a group is flat whose advantages are all within this of 0."""
ADVANTAGE_EPSILON = 1e-4
"""Added to the group's sample std in the advantage, as TRL does."""


class EvalPoint(NamedTuple):
    """One held-out evaluation of one suite."""

    suite: str
    step: int
    value: float


class RunChange(NamedTuple):
    """Something in the run record that changed inside one run."""

    what: str
    before: str
    after: str


@dataclass(slots=True)
class RunState:
    """What is declared of the run; None is unknown. The monitor keeps it up to date with the run records."""

    name: str | None = None
    framework: str | None = None
    algorithm: str | None = None
    group_size: int | None = None
    sampling: Sampling | None = None
    version_lag_tolerance: float | None = None
    reward_range: tuple[float, float] | None = None
    success: Success | None = None
    env_version: str | None = None
    reward_version: str | None = None
    total_steps: int | None = None
    finished: bool = False
    drops_flat_groups: bool = False
    recording: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RewardScale:
    """The range of rewards seen up to a step, and the definition of success that follows from it.

    Success where the run does not define it: of two values the higher; with a declared range its upper half;
    else a reward above the lowest possible or seen (0 for rewards that are never negative).
    """

    low: float = math.inf
    high: float = -math.inf
    values: tuple[float, ...] = ()
    """The distinct rewards seen, at most 3 of them."""
    count: int = 0

    def update(self, rewards: NDArray[np.float64]) -> None:
        """Take the finite rewards of a step in."""
        if not len(rewards):
            return
        self.count += len(rewards)
        self.low = min(self.low, float(rewards.min()))
        self.high = max(self.high, float(rewards.max()))
        if len(self.values) < 3:
            self.values = tuple(sorted({*self.values, *np.unique(rewards).tolist()}))[:3]

    def range(self, run: RunState) -> tuple[float, float] | None:
        """The declared range, else what has been seen."""
        if run.reward_range is not None:
            return run.reward_range
        return (self.low, self.high) if self.count else None

    def threshold(self, run: RunState) -> tuple[float, bool, str] | None:
        """(limit, whether the limit itself is a success, the rule in words) for the total reward."""
        if run.success is not None and run.success.of == "reward":
            return run.success.at_least, True, f"reward at least {run.success.at_least:g}, as declared"
        if len(self.values) == 2:
            return self.values[1], True, f"the higher of two rewards, {self.values[1]:g}"
        if run.reward_range is not None:
            low, high = run.reward_range
            return (low + high) / 2, True, f"the upper half of the declared range, from {(low + high) / 2:g}"
        if not self.count:
            return None
        lowest = min(self.low, 0.0) if self.low >= 0 else self.low
        return lowest, False, f"a reward above the lowest, {lowest:g}"

    def rule(self, run: RunState) -> str:
        """Which definition of success is in force, in words."""
        if run.success is not None and run.success.of != "reward":
            return f"{run.success.of} at least {run.success.at_least:g}, as declared"
        known = self.threshold(run)
        return known[2] if known else "no reward seen yet"


class Batch:
    """The train rollouts of one step as arrays, one element a rollout, with their groups."""

    def __init__(self, history: History, step: int, rows: NDArray[np.int64]) -> None:
        self._history = history
        self._step = step
        self.rows = rows
        """Rows of the history."""
        self.size = len(rows)
        self.reward: NDArray[np.float64] = self.column("reward")
        """NaN unknown, ±inf not finite."""
        self.known: NDArray[np.bool_] = np.isfinite(self.reward)
        self.advantage: NDArray[np.float64] = self.column("advantage")
        self.components: dict[str, NDArray[np.float64]] = {}
        for name, column in history.components.items():
            values = column.view()[rows]
            if np.isfinite(values).any():
                self.components[name] = values
        self.source_group, self.group = _groups(history, step, self.column("group"))
        """The history's group number of each dense group; each rollout's dense group number, 0 to groups - 1."""
        self.groups = len(self.source_group)
        self.group_size = np.bincount(self.group, minlength=self.groups)
        self.group_mean, self.group_std, self.judged, self.flat = self._spread()
        """Per group: mean and population std of known rewards (NaN unknown), whether spread is known, is none."""
        self.texts = self.column("text")
        self.distinct_texts, self.duplicates = _distinct(self.texts, self.group, self.groups)
        """Distinct texts of each group; whether another of its group has a rollout's text. None without texts."""
        self.success: NDArray[np.int8] = np.full(self.size, -1, np.int8)
        """1 yes, 0 no, -1 unknown; set once the scale of rewards up to this step is known."""

    def column(self, name: str) -> NDArray[Any]:
        """A column of the history for these rollouts, see `encode.COLUMNS`."""
        column: NDArray[Any] = self._history.columns[name].view()[self.rows]
        return column

    def names(self, column: str) -> Sequence[str]:
        """The names behind an id column."""
        return self._history.names[column].names

    def sampling(self, sampling_id: int) -> Sampling:
        """The deployed sampling config behind an id of the `sampling` column."""
        return self._history.samplings[sampling_id]

    def group_label(self, group: int) -> str:
        """The source's own id of a dense group, else its number."""
        labels = self._history.group_labels(self._step)
        number = int(self.source_group[group])
        return labels[number] if number < len(labels) else str(group)

    def advantages(self) -> NDArray[np.float64]:
        """Logged advantages, else (reward − group mean) / (group sample std + 1e-4); NaN unknown."""
        if np.isfinite(self.advantage).any():
            return self.advantage
        size = np.maximum(self.group_size, 2)
        spread = self.group_std * np.sqrt(size / (size - 1)) + ADVANTAGE_EPSILON
        computed: NDArray[np.float64] = (self.reward - self.group_mean[self.group]) / spread[self.group]
        return computed

    def component_std(self, name: str) -> NDArray[np.float64]:
        """Population std of a component within each group, NaN where fewer than two values are known."""
        return _spread(self.components[name], self.group, self.groups)[1]

    def _spread(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        mean, std = _spread(self.reward, self.group, self.groups)
        judged = ~np.isnan(std)
        flat = judged & (np.nan_to_num(std) <= FLAT_STD)
        if not judged.all():
            known = np.isfinite(self.advantage)
            enough = np.bincount(self.group[known], minlength=self.groups) >= 2
            largest = np.zeros(self.groups)
            np.maximum.at(largest, self.group[known], np.abs(self.advantage[known]))
            by_advantage = ~judged & enough
            flat |= by_advantage & (largest <= FLAT_ADVANTAGE)
            judged = judged | by_advantage
        return mean, std, judged, flat


@dataclass(slots=True)
class StepFacts:
    """One finished step as the detectors see it."""

    step: int
    run: RunState
    scale: RewardScale
    """Rewards seen up to and including this step."""
    values: Mapping[str, float]
    """Canonical series at this step, finite numbers only: from rollouts where they exist, else the trainer's."""
    nonfinite: tuple[str, ...] = ()
    """Series that were logged at this step and are not finite."""
    trainer: Mapping[str, float] = field(default_factory=dict)
    """The trainer's own numbers under canonical names, for comparison with those recomputed."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """Optimizer steps that a series' value stands for, where it is more than 1 (a trainer that logs every n steps)."""
    batch: Batch | None = None
    """The step's train rollouts, else its requests; None where there are none."""
    eval_batch: Batch | None = None
    """Held-out rollouts that came with this step."""
    requests: Batch | None = None
    """What inference engines logged for this step; held-out requests are among them."""
    evals: tuple[EvalPoint, ...] = ()
    """Evaluations made since the step before."""
    changes: tuple[RunChange, ...] = ()
    """What changed in the run record since the step before."""
    restarted_from: int | None = None
    """The step that had been reached before the writer went back to this one (a resume), else None."""
    unreadable: int = 0
    """Records skipped since the step before."""

    def get(self, name: str) -> float | None:
        """A series' finite value at this step; None where it is unknown or not finite."""
        return self.values.get(name)

    def stands_for(self, name: str) -> int:
        """Optimizer steps that the series' value at this step averages over, at least 1."""
        return self.gaps.get(name, 1)


def measure(batch: Batch, run: RunState, scale: RewardScale) -> dict[str, float]:
    """Every series that the rollouts of one step give. Sets the batch's `success`; `scale` already holds this step."""
    found: dict[str, float] = {"rollouts": float(batch.size), "groups": float(batch.groups)}
    _measure_rewards(batch, run, scale, found)
    _measure_groups(batch, run, found)
    _measure_components(batch, found)
    _measure_endings(batch, found)
    _measure_texts(batch, found)
    _measure_versions(batch, found)
    if np.isnan(batch.reward).sum() < (~batch.known).sum():
        found["reward_mean"] = math.inf
    return found


def _measure_rewards(batch: Batch, run: RunState, scale: RewardScale, found: dict[str, float]) -> None:
    known = batch.reward[batch.known]
    batch.success = _success(batch, run, scale)
    judged = batch.success >= 0
    if judged.any():
        found["success_rate"] = float(batch.success[judged].mean())
    if not len(known):
        return
    found["reward_mean"], found["reward_std"] = float(known.mean()), float(known.std())
    limits = scale.range(run)
    if limits is not None and limits[1] > limits[0]:
        found["reward_max_share"] = float((known >= limits[1] - 1e-9).mean())


def _measure_groups(batch: Batch, run: RunState, found: dict[str, float]) -> None:
    judged = int(batch.judged.sum())
    if not judged:
        return
    flat = batch.flat
    if not run.drops_flat_groups:
        found["zero_variance_group_frac"] = float(flat.sum() / judged)
        found["trainable_ratio"] = 1.0 - found["zero_variance_group_frac"]
    spread = batch.group_std[~np.isnan(batch.group_std)]
    if len(spread):
        found["group_reward_std_mean"] = float(spread.mean())
    advantages = batch.advantages()
    advantages = advantages[np.isfinite(advantages)]
    if len(advantages):
        found["adv_std"] = float(advantages.std())
    known = batch.success >= 0
    if known.any() and not run.drops_flat_groups:
        passed = np.bincount(batch.group[known], batch.success[known], batch.groups)
        of = np.bincount(batch.group[known], minlength=batch.groups)
        found["all_fail_group_frac"] = float((flat & (of > 0) & (passed == 0)).sum() / judged)
        found["all_pass_group_frac"] = float((flat & (of > 0) & (passed == of)).sum() / judged)
    lengths = batch.column("completion_tokens").astype(np.float64)
    correlation = _within_group_correlation(batch, lengths)
    if correlation is not None:
        found["reward_length_corr"] = correlation


def _measure_components(batch: Batch, found: dict[str, float]) -> None:
    for name, values in batch.components.items():
        finite = values[np.isfinite(values)]
        found[f"component_mean{{{name}}}"] = float(finite.mean())
        spread = batch.component_std(name)
        spread = spread[~np.isnan(spread)]
        if len(spread):
            found[f"component_zero_variance{{{name}}}"] = float((spread <= FLAT_STD).mean())
            found[f"component_std_mean{{{name}}}"] = float(spread.mean())


def _measure_endings(batch: Batch, found: dict[str, float]) -> None:
    for series, column in (("truncation_rate", "truncated"), ("_parsed", "parsed")):
        values = batch.column(column)
        known = values >= 0
        if known.any():
            found[series] = float((values[known] == 1).mean())
    if "_parsed" in found:
        found["parse_failure_rate"] = 1.0 - found.pop("_parsed")
    for column in ("termination", "finish"):
        reasons = batch.column(column)
        known = reasons >= 0
        if known.any():
            names = batch.names(column)
            for reason, count in enumerate(np.bincount(reasons[known]).tolist()):
                if count:
                    found[f"termination{{{names[reason]}}}"] = count / int(known.sum())
            break
    with_verifier = batch.column("verifier_known") == 1
    if with_verifier.any():
        found["verifier_error_rate"] = float((batch.column("verifier_error")[with_verifier] >= 0).mean())


def _measure_texts(batch: Batch, found: dict[str, float]) -> None:
    lengths = batch.column("completion_tokens")
    lengths = lengths[lengths >= 0]
    if len(lengths):
        found["completion_tokens_mean"] = float(lengths.mean())
        found["completion_tokens_p50"], found["completion_tokens_p95"] = (
            float(value) for value in np.percentile(lengths, (50, 95))
        )
        found["completion_tokens_max"] = float(lengths.max())
        found["tokens"] = float(lengths.sum())
    for series, column in (("repetition_frac", "loop"), ("gibberish_frac", "gibberish")):
        values = batch.column(column)
        known = values >= 0
        if known.any():
            found[series] = float((values[known] == 1).mean())
    if batch.distinct_texts is None or batch.duplicates is None:
        return
    several = batch.group_size >= 2
    if several.any():
        found["duplicate_frac"] = float(batch.duplicates[several[batch.group]].mean())
        found["distinct_texts_mean"] = float(batch.distinct_texts[several].mean())
        found["identical_group_frac"] = float((batch.distinct_texts[several] == 1).mean())


def _measure_versions(batch: Batch, found: dict[str, float]) -> None:
    start, end, trainer = (batch.column(name) for name in ("policy_start", "policy_end", "trainer_version"))
    if (end >= 0).any():
        found["policy_version"] = float(end.max())
    known = start >= 0
    if known.any():
        found["mixed_version_frac"] = float((end[known] != start[known]).mean())
        both = known & (trainer >= 0)
        if both.any():
            lag = trainer[both] - start[both]
            found["version_lag_mean"], found["version_lag_max"] = float(lag.mean()), float(lag.max())
            found["version_lag_min"] = float(lag.min())
    if (trainer >= 0).any():
        found["trainer_version"] = float(trainer.max())
    differences = batch.column("logp_diff")
    finite = differences[np.isfinite(differences)]
    if len(finite):
        found["logp_abs_diff"] = float(finite.mean())
    if np.isinf(differences).any():
        found["logp_length_mismatch_frac"] = float(np.isinf(differences).mean())


def _success(batch: Batch, run: RunState, scale: RewardScale) -> NDArray[np.int8]:
    success = np.full(batch.size, -1, np.int8)
    if run.success is not None and run.success.of != "reward":
        values = batch.components.get(run.success.of)
        if values is None:
            return success
        known = np.isfinite(values)
        success[known] = values[known] >= run.success.at_least
        return success
    rule = scale.threshold(run)
    if rule is None:
        return success
    limit, inclusive, _ = rule
    known = batch.known
    rewards = batch.reward[known]
    success[known] = rewards >= limit if inclusive else rewards > limit
    return success


def _spread(
    values: NDArray[np.float64], group: NDArray[np.int64], groups: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and population std of finite values within each group; NaN with fewer than 1 and 2 of them."""
    known = np.isfinite(values)
    if known.all():
        of, values_known = group, values
    else:
        of, values_known = group[known], values[known]
    count = np.bincount(of, minlength=groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(of, values_known, groups) / count
        centred = values_known - mean[of]
        std = np.sqrt(np.bincount(of, centred * centred, groups) / count)
    std[count < 2] = math.nan
    return mean, std


def _within_group_correlation(batch: Batch, lengths: NDArray[np.float64]) -> float | None:
    """Pooled correlation of reward and length after taking each group's means away; None without spread in both."""
    known = batch.known & (lengths >= 0)
    if int(known.sum()) < 4:
        return None
    group = batch.group[known]
    count = np.bincount(group, minlength=batch.groups)
    count = np.maximum(count, 1)
    centred = []
    for values in (batch.reward[known], lengths[known]):
        mean = np.bincount(group, values, batch.groups) / count
        centred.append(values - mean[group])
    rewards, tokens = centred
    spread = math.sqrt(float(rewards @ rewards) * float(tokens @ tokens))
    if spread <= 1e-9:
        return None
    return float(rewards @ tokens) / spread


def _distinct(
    texts: NDArray[np.int64], group: NDArray[np.int64], groups: int
) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None]:
    if not len(texts) or not (texts != 0).all():
        return None, None
    order = np.lexsort((texts, group))
    ordered_texts, ordered_groups = texts[order], group[order]
    first = np.ones(len(texts), np.bool_)
    first[1:] = (ordered_texts[1:] != ordered_texts[:-1]) | (ordered_groups[1:] != ordered_groups[:-1])
    distinct = np.bincount(ordered_groups[first], minlength=groups)
    of = np.cumsum(first) - 1
    copies = np.bincount(of)
    duplicates = np.empty(len(texts), np.bool_)
    duplicates[order] = copies[of] > 1
    return distinct, duplicates


def _groups(
    history: History, step: int, numbers: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Dense group numbers. Groups that are equal prompts are cut where one prompt was asked in several groups.

    They are cut only where the order of the rows is seen to keep groups together: where every run of equal prompts
    is as long as the usual group, or a multiple of it.
    """
    unique, dense = np.unique(numbers, return_inverse=True)
    dense = dense.astype(np.int64)
    if not history.grouped_by_prompt(step):
        return unique.astype(np.int64), dense
    starts = np.flatnonzero(np.diff(dense, prepend=-1))
    lengths = np.diff(starts, append=len(dense))
    usual = int(np.bincount(lengths).argmax())
    if usual < 2 or (lengths % usual).any() or len(dense) == usual * len(unique):
        return unique.astype(np.int64), dense
    cut = np.arange(len(dense)) // usual
    return unique[dense[::usual]].astype(np.int64), cut.astype(np.int64)
