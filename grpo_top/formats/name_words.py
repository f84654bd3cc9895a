"""Metric names of loops that have no table of their own, read word by word: `train/avg_reward`, `kl_divergence`.

Only names whose every word is understood stand for a series: one word more may make it another thing
(`reward_baseline`, `kl_coef`), and such a number is kept under its own name.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|%")
_SAME = {
    word: meaning
    for meaning, words in {
        "reward": "rewards rew score scores",
        "return": "returns",
        "mean": "avg average",
        "std": "stdev stddev sd",
        "max": "maximum highest",
        "min": "minimum lowest",
        "length": "len lengths lens",
        "token": "tokens toks",
        "frac": "fraction ratio rate share prop proportion",
        "text": "completion completions response responses output outputs generation generations gen generated"
        " answer answers sequence sequences seq resp",
        "grad": "gradient gradients grads",
        "kl": "kld kldiv",
        "variance": "var",
        "advantage": "adv advantages advs",
        "truncated": "truncation trunc truncations overlong cutoff",
        "group": "groups prompt prompts",
        "accuracy": "acc",
        "staleness": "stale lag",
        "failure": "failures fail failed errors error",
        "median": "p50",
    }.items()
    for word in words.split()
}
_CONTEXT = frozenset(
    word
    for words in (
        "train training trainer learner actor policy student model grpo rl ppo optim optimizer",
        "rollout rollouts batch episode episodes env metric metrics stat stats global total num",
    )
    for word in words.split()
)
"""Words that say where a number was taken, not what it is."""
_EVALUATION = frozenset(
    ("eval", "evals", "evaluation", "val", "valid", "validation", "test", "heldout", "dev")
)
_SERIES: dict[str, str] = {
    "reward_mean": (
        "reward; reward mean; reward raw; reward raw mean; outcome reward; final reward; return; return mean"
    ),
    "reward_std": "reward std",
    "reward_min": "reward min",
    "reward_max": "reward max",
    "group_reward_std_mean": (
        "group reward std; group reward std mean; group std; group std mean; reward std within group; "
        "within group reward std; within group std; intra group std; in group std"
    ),
    "zero_variance_group_frac": (
        "zero std frac; zero variance frac; zero advantage frac; group zero std frac; group zero "
        "variance frac; group zero advantage frac; degenerate group frac; reward zero std frac; "
        "reward zero variance frac; dead group frac; flat group frac; group no signal frac; no signal "
        "group frac; uninformative group frac; no gradient group frac; uniform group frac; silent "
        "group frac; group reward zero std frac"
    ),
    "all_fail_group_frac": (
        "all failure frac; all wrong frac; all zero frac; solve none frac; solved none frac; all "
        "failure group frac; all wrong group frac; all incorrect frac; all bad frac"
    ),
    "all_pass_group_frac": (
        "all pass frac; all correct frac; all one frac; solve all frac; solved all frac; all pass "
        "group frac; all correct group frac; all right frac; all good frac"
    ),
    "trainable_ratio": (
        "trainable frac; trainable group frac; effective group frac; informative group frac; "
        "learnable group frac; kept group frac; mixed group frac; group kept frac"
    ),
    "adv_std": "advantage std",
    "success_rate": (
        "success frac; success; accuracy; accuracy mean; pass frac; solve frac; correct frac; correct "
        "mean; solved frac; success frac mean; correctness; win frac"
    ),
    "parse_failure_rate": (
        "parse failure frac; parse failure; format failure frac; parsing failure frac; unparsed frac; "
        "parser failure frac; extraction failure frac; invalid format frac"
    ),
    "truncation_rate": (
        "truncated frac; truncated; text truncated frac; truncated text frac; length truncated frac; "
        "text length truncated frac; max length frac; hit max length frac; hit length limit frac; "
        "length limit frac; hit max frac; length exceeded frac; at max length frac; text clip frac; "
        "length clip frac; text length clip frac; finish length frac; finish reason length frac; "
        "truncated mean; text clipped frac; clipped text frac"
    ),
    "completion_tokens_mean": (
        "text length mean; text length; length mean; length; text token mean; token mean; text token "
        "length mean; token length mean; token per text; text token length; text length token; token "
        "per text mean; length per text"
    ),
    "completion_tokens_p50": "text length median; length median",
    "completion_tokens_p95": "text length p 95; length p 95",
    "completion_tokens_max": "text length max; length max; text token max; text token length max",
    "kl": (
        "kl; kl mean; kl div; kl divergence; kl loss; kl penalty; kl ref; kl to ref; kl div mean; kl "
        "divergence mean; kl loss mean; kl penalty mean; kl reference"
    ),
    "kl_max": "kl max",
    "mismatch_kl": (
        "mismatch kl; sampler kl; kl mismatch; vllm kl; kl sampler; inference kl; mismatch kl mean; "
        "train inference kl"
    ),
    "entropy": "entropy; entropy mean; token entropy; token entropy mean",
    "clip_frac": (
        "clip frac; clipfrac; clip frac mean; clipfrac mean; clip fraction; pg clipfrac; frac clip; "
        "ratio clip frac"
    ),
    "grad_norm": "grad norm; norm grad; grad norm mean; gradnorm",
    "loss": "loss; pg loss; loss mean; surrogate loss; pg loss mean; loss pg",
    "learning_rate": "lr; learning frac; lr mean",
    "version_lag_mean": (
        "staleness; staleness mean; version staleness; version staleness mean; weight staleness; age "
        "mean; age; off steps; off steps mean; steps off; weight staleness mean"
    ),
    "version_lag_max": "staleness max; version staleness max; age max; off steps max; weight staleness max",
    "duplicate_frac": "duplicate frac; duplicate text frac; duplicates frac",
    "repetition_frac": "repetition frac; repetitive frac; repetition",
    "step_time": (
        "step time; time step; step time s; step seconds; sec per step; seconds per step; step "
        "duration; step duration s; step time sec"
    ),
}
"""Series → what its names say, in any order of words, the plainest first."""
_BY_WORDS = {
    " ".join(sorted(words.split())): (name, rank)
    for name, spellings in _SERIES.items()
    for rank, words in enumerate(spellings.split("; "))
}


@lru_cache(maxsize=8192)
def series_by_words(name: str) -> tuple[str, int] | None:
    """The series that a metric's name stands for and how plainly it says so (0 is plainest); None where none."""
    if len(name) > 80:
        return None
    words = [_SAME.get(word, word) for word in (found.lower() for found in _WORD.findall(name))]
    if not words or _EVALUATION.intersection(words) or "%" in words:
        return None
    said = [word for word in words if word not in _CONTEXT]
    return _BY_WORDS.get(" ".join(sorted(said)))
