"""Trainers' metric names → canonical series: look-up in the tables, and the few rows that need arithmetic."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from grpo_top.formats.name_tables import CANONICAL, DEFINITIONS, NO_SERIES, OTHERS, TABLES
from grpo_top.formats.name_words import series_by_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from grpo_top.formats.name_tables import Table

    _Derive = Callable[[Callable[[str], float | None]], float | None]

__all__ = [
    "CANONICAL",
    "DEFINITIONS",
    "TABLES",
    "canonical",
    "canonical_keys",
    "canonical_values",
    "heldout_value",
]


def canonical(framework: str | None, key: str) -> str | None:
    """The canonical series that a framework's key stands for, else None.

    An unknown framework is read with what all tables agree on, then word by word. `train/`, as trackers add it, does
    not matter.
    """
    found = _lookup(framework, key)
    return found[0] if found else None


def canonical_values(framework: str | None, metrics: Mapping[str, float | None]) -> dict[str, float]:
    """A trainer's row as canonical series; what is unknown is left out, what is not finite stays."""
    reads, derived = _plan(framework, tuple(metrics))
    found: dict[str, float] = {}
    ranks: dict[str, int] = {}
    for key, name, rank in reads:
        value = metrics[key]
        if value is not None and (name not in found or rank < ranks[name]):
            ranks[name] = rank
            found[name] = value
    for name, derive in derived:
        if name not in found and (value := derive(metrics.get)) is not None:
            found[name] = value
    if "zero_variance_group_frac" not in found and (flat := _flat_share(found)) is not None:
        found["zero_variance_group_frac"] = flat
    return found


@lru_cache(maxsize=256)
def _plan(
    framework: str | None, keys: tuple[str, ...]
) -> tuple[tuple[tuple[str, str, int], ...], tuple[tuple[str, _Derive], ...]]:
    """How rows with these keys are read: (key, series, preference), and the series that can be derived."""
    framework = _variant(framework, keys)
    found = ((key, _lookup(framework, key)) for key in keys)
    reads = tuple((key, *match) for key, match in found if match is not None)
    derived = tuple(of for of in _DERIVED.items() if not _asked_by(of[1]).isdisjoint(keys))
    return reads, derived


@cache
def _asked_by(derive: _Derive) -> frozenset[str]:
    """The keys that are asked for where there are none: of a row without them it can tell nothing either."""
    asked: set[str] = set()
    derive(asked.add)
    return frozenset(asked)


def _flat_share(found: Mapping[str, float]) -> float | None:
    """The share of groups without variance, by the shares of those that fail, pass, or can be learned from."""
    if "all_fail_group_frac" in found and "all_pass_group_frac" in found:
        return found["all_fail_group_frac"] + found["all_pass_group_frac"]
    return 1 - found["trainable_ratio"] if "trainable_ratio" in found else None


def canonical_keys(framework: str | None, metrics: Mapping[str, float | None]) -> dict[str, str | None]:
    """Each key of a trainer's row and the canonical series that it is read as, None where it is none."""
    framework = _variant(framework, metrics)
    found = {key: canonical(framework, key) for key in metrics}
    for name, derive in _DERIVED.items():
        asked: list[str] = []

        def get(key: str, asked: list[str] = asked) -> float | None:
            asked.append(key)
            return metrics.get(key)

        if derive(get) is not None:
            found |= {key: name for key in asked if key in found and found[key] is None}
    return found


def heldout_value(metrics: Mapping[str, float | None]) -> float | None:
    """The one number of an evaluation that says how good it was, None where there is none.

    What the trainer itself calls its score comes first: verl's core metric, then reward, accuracy, pass rate.
    """
    for pattern in map(_compiled, _HELDOUT):
        for key, value in metrics.items():
            if value is not None and pattern.fullmatch(key):
                return value
    return None


_HELDOUT = (
    r"acc/mean@\d+",
    r"(?:.*/)?reward(?:/mean|/total)?(?:@\d+)?",
    r"reward/mean@\d+",
    r"(?:.*[/_])?(?:accuracy|acc)(?:/mean)?",
    r"(?:.*/)?(?:avg|pass|mean)[@_]?1",
    r"(?:.*/)?(?:avg|mean)@\d+",
    r"(?:.*/)?pass@\d+",
    r"(?:.*[/_])?(?:score|correct|success|success_rate|solve_rate)(?:/mean)?",
    r"(?:acc|score|reward)/.*@\d+.*",
    r".*reward.*(?<!std)",
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when it is first asked for: a hundred of them take as long as a tenth of all imports."""
    return re.compile(pattern)


_OF_TRL_ASYNC = (
    "sample/staleness_mean",
    "sample/rollout_queue_size",
    "batch/groups_per_step",
    "rollout/generated_tok_s",
    "perf/weight_sync_s",
)
"""Keys that TRL's asynchronous trainer alone logs, beside the same words as the other."""


def _variant(framework: str | None, metrics: Collection[str]) -> str | None:
    """The table of a row: where versions of a framework use one word for two things, other keys tell them apart."""
    if framework in ("trl", "unsloth", "axolotl"):
        if any(key in metrics or f"train/{key}" in metrics for key in _OF_TRL_ASYNC):
            return "trl-async"
        return "trl" if any(key in metrics for key in ("step_time", "train/step_time")) else "trl-0.25"
    if framework == "art" and "train/discarded_stale_groups" in metrics:
        return "art-pipeline"
    if framework == "verl" and "training/off_policy/trajectory_staleness/mean" in metrics:
        return "verl-v1"
    return framework


@lru_cache(maxsize=8192)
def _lookup(framework: str | None, key: str) -> tuple[str, int] | None:
    exact, patterns = _index(framework if framework in TABLES else None)
    for candidate in (key, key.removeprefix("train/")):
        if candidate in exact:
            return exact[candidate]
        if candidate in NO_SERIES:
            return None
        for start, pattern, name, rank in patterns:
            if candidate.startswith(start) and (match := _compiled(pattern).fullmatch(candidate)):
                return name.replace("{}", f"{{{match['name']}}}") if "{}" in name else name, rank
    bare = key.removeprefix("train/")
    if bare in CANONICAL:
        return bare, 100
    by_words = None if framework in TABLES else series_by_words(bare)
    return by_words and (by_words[0], 200 + by_words[1])


_Index = tuple[dict[str, tuple[str, int]], list[tuple[str, str, str, int]]]


@cache
def _index(framework: str | None) -> _Index:
    """Key → (series, preference), and the same for keys with a wildcard: what is before it, and a pattern."""
    exact: dict[str, tuple[str, int]] = {}
    patterns: list[tuple[str, str, str, int]] = []
    for table in (TABLES[framework],) if framework else _known_to_all():
        for name, keys in table.items():
            for rank, key in enumerate(keys):
                if "*" in key or "{}" in key:
                    start = key.partition("*")[0].partition("{}")[0]
                    pattern = re.escape(key).replace(r"\*", "[^/]+").replace(r"\{\}", "(?P<name>[^/]+)")
                    patterns.append((start, pattern, name, rank))
                else:
                    exact.setdefault(key, (name, rank))
    return exact, patterns


def _known_to_all() -> list[Table]:
    variants = {"trl-async", "trl-0.25", "verl-v1", "ms-swift", "miles", "art-pipeline"}
    return [*(table for name, table in TABLES.items() if name not in variants), OTHERS]


def _mixed_share(get: Callable[[str], float | None]) -> float | None:
    mixed = get("env/all/by_group/frac_mixed")
    return None if mixed is None else 1 - mixed


def _percentages(get: Callable[[str], float | None]) -> float | None:
    for none, every in (
        ("train/baseline_reward/pct_0", "train/baseline_reward/pct_1"),
        ("rollout/zero_std/all_zero_percentage", "rollout/zero_std/all_one_percentage"),
        ("zero_std/all_zero_percentage", "zero_std/all_one_percentage"),
    ):
        low, high = get(none), get(every)
        if low is not None and high is not None:
            return (low + high) / 100
    return None


def _solved(get: Callable[[str], float | None]) -> float | None:
    none, every = get("train/agg/all/agent/solved_none"), get("train/agg/all/agent/solved_all")
    return None if none is None or every is None else none + every


def _solved_counts(get: Callable[[str], float | None]) -> float | None:
    """rLLM on verl counts the tasks that nobody, everybody and some of the group solved."""
    none, every, some = (get(f"batch/solve_{how}") for how in ("none", "all", "partial"))
    if none is None or every is None or some is None:
        return None
    total = none + every + some
    return (none + every) / total if total else None


def _trainable(get: Callable[[str], float | None]) -> float | None:
    trainable, submitted = get("data/step_num_groups_trainable"), get("data/step_num_groups_submitted")
    return trainable / submitted if trainable is not None and submitted else None


def _zero_variance(get: Callable[[str], float | None]) -> float | None:
    for derive in (_mixed_share, _percentages, _solved, _solved_counts):
        value = derive(get)
        if value is not None:
            return value
    ratio = _trainable(get)
    return None if ratio is None else 1 - ratio


def _completion_tokens(get: Callable[[str], float | None]) -> float | None:
    per_turn, turns = get("env/all/ac_tokens_per_turn"), get("env/all/turns_per_episode")
    return None if per_turn is None else per_turn * (1 if turns is None else turns)


def _correct(get: Callable[[str], float | None]) -> float | None:
    return get("env/all/correct")  # tinker-cookbook's; a component of its reward as well


def _stopped(get: Callable[[str], float | None]) -> float | None:
    stopped = get("val/stop_rate")
    return None if stopped is None else 1 - stopped


_DERIVED = {
    "success_rate": _correct,
    "zero_variance_group_frac": _zero_variance,
    "trainable_ratio": _trainable,
    "completion_tokens_mean": _completion_tokens,
    "truncation_rate": _stopped,
}
