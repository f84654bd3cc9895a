"""Which framework trained a run, told by what it logs: a tracker's files do not say whose they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_KEYS = tuple(
    (framework, re.compile(pattern))
    for framework, pattern in (
        # The order matters: who builds on another logs the other's keys as well.
        ("ms-swift", r"(?:train/)?(?:train_speed\(.*|memory\(GiB\)|global_step/max_steps)"),
        (
            "rllm",
            r"batch/(?:[^/]+/fractions|termination_reason|step_response_length)/.*|episode/response_tokens",
        ),
        ("verl", r"critic/(?:score|rewards)/.*|actor/(?:pg_loss|ppo_kl|pg_clipfrac)|training/off_policy/.*"),
        ("openrlhf", r"(?:train/)?(?:actor_lr|ppo_clip_ratio|group_reward_std|vllm_kl)|rollout/reward_mean"),
        (
            "prime-rl",
            r"train/.+/(?:all|effective)/.+|mismatch_kl/.*|is_masked/.*|off_policy/mean|(?:batch/)?effective_batch_size(?:/all)?",
        ),
        ("nemo-rl", r"train/(?:gen_kl_error|token_mult_prob_error|baseline_reward/.*)|timing/train/.*"),
        (
            "skyrl",
            r"trainer/global_step|reward/avg_raw_reward|generate/avg_num_tokens|policy/policy_(?:kl|loss)",
        ),
        ("miles", r"train/(?:ess_ratio|train_rollout_kl)|rollout/(?:fully_async|weight_version)/.*"),
        ("slime", r"rollout/(?:raw_reward|response_len/.*)|train/train_rollout_logprob_abs_diff"),
        ("areal", r"(?:ppo|grpo)_actor/.*"),
        ("tinker", r"env/all/.*|optim/kl_sample_train_v\d"),
        ("art", r"train/reward_std_dev|loss/kl_policy_ref|data/step_num_groups_.*"),
        ("atropos", r"train/(?:completion_lengths.*|items_sent_to_api|items_rejected)"),
        ("torchforge", r"rl_trainer/.*|generator/generate/.*|buffer/sample/.*"),
        (
            "trl",
            r"(?:train/|eval/|eval_)?(?:frac_reward_zero_std|completions?[/_]\w*length|rewards/.+|sample/staleness_mean)",
        ),
    )
)
_CONFIG = (
    ("ms-swift", ("swift_version", "rlhf_type")),
    ("trl", ("num_generations", "max_completion_length")),
    ("rllm", ("actor_rollout_ref", "rllm")),
    ("verl", ("actor_rollout_ref",)),
    ("nemo-rl", ("grpo", "policy")),
    ("areal", ("gconfig", "actor")),
    ("skyrl", ("trainer", "generator", "environment")),
    ("axolotl", ("rl", "trl", "base_model")),
    ("openrlhf", ("n_samples_per_prompt", "rollout_batch_size", "micro_train_batch_size")),
    ("slime", ("n_samples_per_prompt", "rollout_batch_size", "num_rollout")),
)
"""Sections or settings that a framework's config always has."""


def framework_of_keys(keys: Iterable[str]) -> str | None:
    """The framework that logs such keys, None where they tell of none."""
    listed = list(keys)
    return next((name for name, key in _KEYS if any(map(key.fullmatch, listed))), None)


def framework_of_config(config: Mapping[str, Any]) -> str | None:
    """The framework whose config this is, None where it tells of none."""
    return next((name for name, needed in _CONFIG if all(key in config for key in needed)), None)
