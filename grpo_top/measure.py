"""What the rollouts of one step give: the series that are computed here and not read from the trainer's log.

Steps are small, so what each call of NumPy costs decides: sums and counts stand where `mean` and `std` would read
better, at a third of the time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_top.batch import FLAT_STD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import RewardScale, RunState


def measure(batch: Batch, run: RunState, scale: RewardScale) -> dict[str, float]:
    """Every series that the rollouts of one step give. Sets the batch's `success`; `scale` already holds this step."""
    found: dict[str, float] = {"rollouts": float(batch.size), "groups": float(batch.groups)}
    batch.success = _success(batch, run, scale)
    _measure_rewards(batch, run, scale, found)
    _measure_groups(batch, run, found)
    _measure_components(batch, found)
    _measure_endings(batch, found)
    _measure_lengths(batch, found)
    _measure_texts(batch, found)
    _measure_versions(batch, found)
    if np.isinf(batch.reward).any():
        found["reward_mean"] = math.inf
    return found


def _measure_rewards(batch: Batch, run: RunState, scale: RewardScale, found: dict[str, float]) -> None:
    _note_share(found, "success_rate", batch, "success")
    known = batch.reward if batch.all_known else batch.reward[batch.known]
    if not len(known):
        return
    found["reward_mean"], found["reward_std"] = _mean_and_std(known)
    limits = scale.range(run)
    if limits is not None and limits[1] > limits[0]:
        found["reward_max_share"] = np.count_nonzero(known >= limits[1] - 1e-9) / len(known)


def _measure_groups(batch: Batch, run: RunState, found: dict[str, float]) -> None:
    judged = np.count_nonzero(batch.judged)
    if not judged:
        return
    flat = batch.flat
    if not run.drops_flat_groups:
        found["zero_variance_group_frac"] = np.count_nonzero(flat) / judged
        found["trainable_ratio"] = 1.0 - found["zero_variance_group_frac"]
    spread = batch.group_std[~np.isnan(batch.group_std)]
    if len(spread):
        found["group_reward_std_mean"] = _mean(spread)
    advantages = batch.advantages()
    finite = np.isfinite(advantages)
    if finite.any():
        found["adv_std"] = _mean_and_std(advantages[finite])[1]
    passed, of = batch.passed_of
    if of.any() and not run.drops_flat_groups:
        found["all_fail_group_frac"] = np.count_nonzero(flat & (of > 0) & (passed == 0)) / judged
        found["all_pass_group_frac"] = np.count_nonzero(flat & (of > 0) & (passed == of)) / judged
    correlation = _within_group_correlation(batch, batch.column("completion_tokens"))
    if correlation is not None:
        found["reward_length_corr"] = correlation


def _measure_components(batch: Batch, found: dict[str, float]) -> None:
    for name, values in batch.components.items():
        finite = np.isfinite(values)
        found[f"component_mean{{{name}}}"] = _mean(values if finite.all() else values[finite])
        spread = batch.component_std(name)
        spread = spread[~np.isnan(spread)]
        if len(spread):
            flat = np.count_nonzero(spread <= FLAT_STD)
            found[f"component_zero_variance{{{name}}}"] = flat / len(spread)
            found[f"component_std_mean{{{name}}}"] = _mean(spread)


def _measure_endings(batch: Batch, found: dict[str, float]) -> None:
    _note_share(found, "truncation_rate", batch, "truncated")
    parsed = batch.flags("parsed")
    if parsed.of:
        found["parse_failure_rate"] = 1.0 - parsed.hits / parsed.of
    if batch.reasons is not None:
        reasons, names = batch.reasons
        counts = np.bincount(reasons + 1)[1:].tolist()
        known = sum(counts)
        for reason, count in enumerate(counts):
            if count:
                found[f"termination{{{names[reason]}}}"] = count / known
    with_verifier = batch.column("verifier_known") == 1
    known = int(np.count_nonzero(with_verifier))
    if known:
        failed = with_verifier & (batch.column("verifier_error") >= 0)
        some = batch.extent("verifier_error")[1] >= 0
        found["verifier_error_rate"] = np.count_nonzero(failed) / known if some else 0.0


def _measure_lengths(batch: Batch, found: dict[str, float]) -> None:
    lengths = np.sort(batch.column("completion_tokens"))
    if len(lengths) and lengths[0] < 0:
        lengths = lengths[lengths >= 0]
    if not len(lengths):
        return
    ordered: list[int] = lengths.tolist()
    total = sum(ordered)
    found["completion_tokens_mean"] = total / len(ordered)
    found["completion_tokens_p50"] = _quantile(ordered, 0.5)
    found["completion_tokens_p95"] = _quantile(ordered, 0.95)
    found["completion_tokens_max"] = float(ordered[-1])
    found["tokens"] = float(total)


def _measure_texts(batch: Batch, found: dict[str, float]) -> None:
    _note_share(found, "repetition_frac", batch, "loop")
    _note_share(found, "gibberish_frac", batch, "gibberish")
    if batch.distinct_texts is None or batch.duplicates is None:
        return
    several = batch.group_size >= 2
    if not several.any():
        return
    distinct, duplicates = batch.distinct_texts, batch.duplicates
    if not several.all():
        distinct, duplicates = distinct[several], duplicates[several[batch.group]]
    found["duplicate_frac"] = np.count_nonzero(duplicates) / len(duplicates)
    found["distinct_texts_mean"] = _mean(distinct)
    found["identical_group_frac"] = np.count_nonzero(distinct == 1) / len(distinct)


def _measure_versions(batch: Batch, found: dict[str, float]) -> None:
    start, end, trainer = (batch.column(name) for name in ("policy_start", "policy_end", "trainer_version"))
    newest, trained = int(end.max()), int(trainer.max())
    if newest >= 0:
        found["policy_version"] = float(newest)
    known = start >= 0
    starts = np.count_nonzero(known)
    if starts:
        found["mixed_version_frac"] = np.count_nonzero((end != start) & known) / starts
        both = known & (trainer >= 0)
        if both.any():
            lag = trainer[both] - start[both]
            found["version_lag_mean"] = _mean(lag)
            found["version_lag_max"], found["version_lag_min"] = float(lag.max()), float(lag.min())
    if trained >= 0:
        found["trainer_version"] = float(trained)
    differences = batch.column("logp_diff")
    unknown = np.isnan(differences)
    if unknown.all():
        return
    finite = differences[np.isfinite(differences)]
    if len(finite):
        found["logp_abs_diff"] = float(finite.mean())
    if np.isinf(differences).any():
        found["logp_length_mismatch_frac"] = float(np.isinf(differences).mean())


def _success(batch: Batch, run: RunState, scale: RewardScale) -> NDArray[np.int8]:
    unknown = np.full(batch.size, -1, np.int8)
    if run.success is not None and run.success.of != "reward":
        values = batch.components.get(run.success.of)
        if values is None:
            return unknown
        return np.where(np.isfinite(values), values >= run.success.at_least, unknown)
    rule = scale.threshold(run)
    if rule is None:
        return unknown
    limit, inclusive, _ = rule
    passed = batch.reward >= limit if inclusive else batch.reward > limit
    return np.where(batch.known, passed, unknown)


def _within_group_correlation(batch: Batch, lengths: NDArray[np.int32]) -> float | None:
    """Pooled correlation of reward and length after taking each group's means away; None without spread in both."""
    known = batch.known & (lengths >= 0)
    count = np.count_nonzero(known)
    if count < 4:
        return None
    whole = count == batch.size
    group = batch.group if whole else batch.group[known]
    sizes = batch.group_size if whole else np.maximum(np.bincount(group, minlength=batch.groups), 1)
    centred = []
    for values in (batch.reward, lengths):
        of_known = values if whole else values[known]
        mean = np.bincount(group, of_known, batch.groups) / sizes
        centred.append(of_known - mean[group])
    rewards, tokens = centred
    spread = math.sqrt(float(rewards @ rewards) * float(tokens @ tokens))
    if spread <= 1e-9:
        return None
    return float(rewards @ tokens) / spread


def _note_share(found: dict[str, float], series: str, batch: Batch, column: str) -> None:
    """The share of 1 among flags that are known. Nothing where none is."""
    flags = batch.flags(column)
    if flags.of:
        found[series] = flags.hits / flags.of


def _mean(values: NDArray[Any]) -> float:
    return float(np.add.reduce(values)) / len(values)


def _mean_and_std(values: NDArray[np.float64]) -> tuple[float, float]:
    mean = _mean(values)
    centred = values - mean
    return mean, math.sqrt(_mean(centred * centred))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of ascending values, between two neighbours by the distance to each."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    first, second = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    return first + (second - first) * (place - low)
