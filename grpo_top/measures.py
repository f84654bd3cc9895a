"""What each canonical series is called where a person reads it, and how its values are written."""

from __future__ import annotations

from typing import Literal, NamedTuple

from grpo_top import numbers
from grpo_top.text import safe

Kind = Literal["share", "value", "count", "seconds"]


class Measure(NamedTuple):
    """One series or number: its short name, and what kind of number it is."""

    label: str
    kind: Kind = "value"

    def write(self, number: float | None) -> str:
        """The number as the screens write it; `?` where it is unknown."""
        match self.kind:
            case "share":
                return numbers.share(number)
            case "count":
                return numbers.count(number)
            case "seconds":
                return numbers.pace(number)
            case _:
                return numbers.value(number)


_MEASURES: dict[str, Measure] = {
    "reward_mean": Measure("reward"),
    "reward_std": Measure("reward σ"),
    "reward_max_share": Measure("at the top", "share"),
    "success_rate": Measure("success", "share"),
    "heldout": Measure("held-out"),
    "verifier_error_rate": Measure("verifier errors", "share"),
    "zero_variance_group_frac": Measure("zero-variance", "share"),
    "all_fail_group_frac": Measure("all-fail groups", "share"),
    "all_pass_group_frac": Measure("all-pass groups", "share"),
    "trainable_ratio": Measure("trainable groups", "share"),
    "group_reward_std_mean": Measure("group σ"),
    "adv_std": Measure("advantage σ"),
    "duplicate_frac": Measure("duplicates", "share"),
    "distinct_texts_mean": Measure("texts a group"),
    "identical_group_frac": Measure("identical groups", "share"),
    "repetition_frac": Measure("loops", "share"),
    "gibberish_frac": Measure("gibberish", "share"),
    "parse_failure_rate": Measure("parse failures", "share"),
    "truncation_rate": Measure("truncated", "share"),
    "completion_tokens_mean": Measure("mean length"),
    "completion_tokens_p50": Measure("median length"),
    "completion_tokens_p95": Measure("length p95"),
    "completion_tokens_max": Measure("longest", "count"),
    "reward_length_corr": Measure("reward/length r"),
    "kl": Measure("KL"),
    "kl_max": Measure("KL max"),
    "entropy": Measure("entropy"),
    "clip_frac": Measure("clipped", "share"),
    "grad_norm": Measure("grad norm"),
    "loss": Measure("loss"),
    "learning_rate": Measure("learning rate"),
    "version_lag_mean": Measure("mean lag"),
    "version_lag_max": Measure("max lag"),
    "version_lag_min": Measure("min lag"),
    "mixed_version_frac": Measure("mixed versions", "share"),
    "policy_version": Measure("policy version", "count"),
    "trainer_version": Measure("trainer version", "count"),
    "mismatch_kl": Measure("mismatch KL"),
    "logp_abs_diff": Measure("|Δ logprob|"),
    "is_ratio_mean": Measure("importance ratio"),
    "effective_sample_size": Measure("effective samples", "share"),
    "stale_dropped": Measure("stale dropped", "count"),
    "step_time": Measure("step time", "seconds"),
    "rollouts": Measure("rollouts", "count"),
    "groups": Measure("groups", "count"),
    "tokens": Measure("tokens", "count"),
}

_FAMILIES: dict[str, tuple[str, Kind]] = {
    "component_mean": ("{}", "value"),
    "component_std_mean": ("σ of {}", "value"),
    "component_zero_variance": ("flat {}", "share"),
    "termination": ("ended {}", "share"),
    "heldout": ("held-out {}", "value"),
}
"""Series with a part of their own, `component_mean{NAME}`: label and kind."""


_FIELDS = {
    "hand_scores": "hand scores",
    "seed": "seeds",
    "sampling": "sampling config",
    "logp_abs_diff": "logprobs",
    "mismatch_kl": "logprobs",
    "heldout": "held-out evaluations",
    "policy_version": "policy versions",
    "version_lag_max": "policy versions",
    "termination": "endings",
    "distinct_texts_mean": "completions",
    "duplicate_frac": "completions",
    "repetition_frac": "completions",
    "gibberish_frac": "completions",
    "completion_tokens_mean": "lengths",
    "reward_length_corr": "lengths",
    "component_mean": "reward components",
    "component_zero_variance": "reward components",
    "clip_frac": "clip fraction",
    "task": "task ids",
}
"""What a log would have to hold for a series to be known, where that is not the series' own name."""


def field_of(series: str) -> str:
    """What is not logged where a series is missing."""
    return _FIELDS.get(series.partition("{")[0], measure_of(series).label)


def measure_of(series: str) -> Measure:
    """How a canonical series is called and written; one that is not in the table keeps its own name."""
    known = _MEASURES.get(series)
    if known is not None:
        return known
    name, brace, part = series.partition("{")
    if name in _FAMILIES:
        label, kind = _FAMILIES[name]
        return Measure(label.format(safe(part.removesuffix("}")) if brace else "component"), kind)
    return Measure(safe(series).replace("_", " "), kind_of(series))


def is_known(series: str) -> bool:
    """Whether the table has a name for it."""
    return series in _MEASURES or series.partition("{")[0] in _FAMILIES


def kind_of(name: str) -> Kind:
    """The kind of number that a name says it is."""
    if name in _MEASURES:
        return _MEASURES[name].kind
    if name.endswith(("_frac", "_rate", "_share")):
        return "share"
    return "seconds" if name.endswith("seconds") else "value"
