"""Trainers' metric names: one table a framework.

A table lists, for each canonical series, the trainer's keys in order of preference. `*` stands for one part of
a name between slashes, `{}` for the part that names a component or a reason. The words are the trainers' own:
two of them may call different things `kl`, and the tables say which one each means.
"""

from __future__ import annotations

Table = dict[str, tuple[str, ...]]

CANONICAL = frozenset(
    (
        "reward_mean",
        "reward_min",
        "reward_max",
        "reward_std",
        "group_reward_std_mean",
        "zero_variance_group_frac",
        "all_fail_group_frac",
        "all_pass_group_frac",
        "trainable_ratio",
        "adv_std",
        "success_rate",
        "parse_failure_rate",
        "truncation_rate",
        "completion_tokens_mean",
        "completion_tokens_p50",
        "completion_tokens_p95",
        "completion_tokens_max",
        "duplicate_frac",
        "repetition_frac",
        "kl",
        "kl_max",
        "entropy",
        "clip_frac",
        "grad_norm",
        "loss",
        "learning_rate",
        "version_lag_mean",
        "version_lag_max",
        "mixed_version_frac",
        "mismatch_kl",
        "logp_abs_diff",
        "is_ratio_mean",
        "effective_sample_size",
        "stale_dropped",
        "tokens",
        "step_time",
    )
)
"""Series that a trainer's log may carry; beside them `component_mean{NAME}` and `termination{REASON}`."""

_TRL: Table = {
    "reward_mean": ("reward",),
    "reward_std": ("reward_std", "reward/std"),
    "zero_variance_group_frac": ("frac_reward_zero_std",),
    "kl": ("kl",),
    "entropy": ("entropy", "entropy/mean"),
    "clip_frac": ("clip_ratio/region_mean", "cispo_clip_ratio", "clip_ratio"),
    "grad_norm": ("grad_norm",),
    "loss": ("loss",),
    "learning_rate": ("learning_rate",),
    "completion_tokens_mean": ("completions/mean_length", "completion_length", "tokens/completion"),
    "completion_tokens_max": ("completions/max_length",),
    "truncation_rate": ("completions/clipped_ratio",),
    "version_lag_mean": ("sample/staleness_mean",),
    "version_lag_max": ("sample/staleness_max",),
    "stale_dropped": ("sample/dropped_stale_total",),
    "mismatch_kl": ("rollout_correction/k3_kl", "rollout_correction/kl"),
    "logp_abs_diff": ("sampling/sampling_logp_difference/mean",),
    "is_ratio_mean": ("sampling/importance_sampling_ratio/mean", "importance_ratio"),
    "effective_sample_size": ("rollout_correction/ess",),
    "step_time": ("step_time", "perf/step_s"),
    "component_mean{}": ("rewards/{}/mean", "rewards/{}", "reward/{}"),
}
"""The last names of some series are those of verifiers' own trainer, which is built on the same one."""

_VERL: Table = {
    "reward_mean": ("critic/score/mean", "critic/rewards/mean"),
    "reward_min": ("critic/score/min", "critic/rewards/min"),
    "reward_max": ("critic/score/max", "critic/rewards/max"),
    "kl": ("actor/kl_loss", "actor/reward_kl_penalty", "critic/kl"),
    "entropy": ("actor/entropy", "actor/entropy_loss"),
    "clip_frac": ("actor/pg_clipfrac",),
    "grad_norm": ("actor/grad_norm",),
    "loss": ("actor/pg_loss",),
    "learning_rate": ("actor/lr",),
    "completion_tokens_mean": ("response_length/mean",),
    "completion_tokens_max": ("response_length/max",),
    "truncation_rate": ("response_length/clip_ratio",),
    "version_lag_mean": ("training/off_policy/trajectory_staleness/mean",),
    "version_lag_max": (
        "training/off_policy/trajectory_staleness_worst/max",
        "training/off_policy/trajectory_staleness/max",
    ),
    "mixed_version_frac": ("fully_async/partial/partial_ratio",),
    "stale_dropped": ("training/off_policy/evicted_samples", "fully_async/count/dropped_stale_samples"),
    "mismatch_kl": (
        "rollout_corr/kl",
        "rollout_corr/k3_kl",
        "mismatch/mismatch_kl",
        "mismatch/mismatch_k3_kl",
    ),
    "logp_abs_diff": ("training/rollout_probs_diff_mean",),
    "is_ratio_mean": ("rollout_corr/rollout_is_mean",),
    "effective_sample_size": ("rollout_corr/rollout_is_eff_sample_size",),
    "tokens": ("perf/total_num_tokens",),
    "step_time": ("timing_s/step", "perf/time_per_step"),
}

_PRIME_RL: Table = {
    "reward_mean": ("train/agg/all/*/reward/mean", "train/agg/effective/*/reward/mean", "Reward"),
    "zero_variance_group_frac": ("Zero Advantage",),
    "all_fail_group_frac": ("train/agg/all/*/solved_none", "train/agg/all/solved_none"),
    "all_pass_group_frac": ("train/agg/all/*/solved_all", "train/agg/all/solved_all"),
    "trainable_ratio": ("train/agg/all/*/is_trainable/mean", "train/agg/all/is_trainable/mean"),
    "kl": ("ref_kl/mean",),
    "entropy": ("entropy/all/mean", "Entropy"),
    "clip_frac": ("is_masked/mean",),
    "grad_norm": ("optim/grad_norm", "Grad. Norm"),
    "loss": ("loss/mean", "Loss"),
    "learning_rate": ("optim/lr", "LR"),
    "completion_tokens_mean": (
        "train/agg/all/num_output_tokens/mean",
        "train/agg/effective/num_output_tokens/mean",
    ),
    "completion_tokens_max": (
        "train/agg/all/num_output_tokens/max",
        "train/agg/effective/num_output_tokens/max",
    ),
    "truncation_rate": (
        "train/agg/all/*/is_truncated/mean",
        "train/agg/effective/*/is_truncated/mean",
        "Truncation",
    ),
    "version_lag_mean": (
        "off_policy/mean",
        "dispatcher/off_policy/mean",
        "dispatcher/off_policy_level_mean",
    ),
    "version_lag_max": (
        "off_policy/max",
        "dispatcher/off_policy/max",
        "dispatcher/off_policy_level_max",
        "Max Off-Policy",
        "Max. Off-Policy Level",
    ),
    "stale_dropped": ("off_policy/dropped",),
    "mismatch_kl": ("mismatch_kl/all/mean", "Mismatch KL"),
    "logp_abs_diff": ("token_export/logp_abs_diff/mean",),
    "is_ratio_mean": ("token_export/importance_ratio/mean",),
    "effective_sample_size": ("token_export/effective_sample_size",),
    "step_time": ("time/step", "Time"),
    "component_mean{}": ("train/agg/all/*/rewards/{}/mean", "train/agg/effective/*/rewards/{}/mean"),
    "termination{}": ("train/agg/all/*/stop_condition/{}", "train/agg/effective/*/stop_condition/{}"),
}
_PRIME_RL_OF_OLD: Table = {
    "reward_mean": ("reward/all/mean", "reward/mean"),
    "all_fail_group_frac": ("solve_none/all", "batch/solve_none"),
    "all_pass_group_frac": ("solve_all/all", "batch/solve_all"),
    "trainable_ratio": ("effective_batch_size/all", "batch/effective_batch_size"),
    "entropy": ("entropy/mean",),
    "completion_tokens_mean": ("decode_len/all/mean", "decode_len/mean", "completion_len/mean"),
    "completion_tokens_max": ("decode_len/all/max", "decode_len/max", "completion_len/max"),
    "truncation_rate": ("is_truncated/all/mean", "is_truncated/mean"),
    "version_lag_mean": ("off_policy_level/all/mean", "batch/off_policy_level/mean"),
    "version_lag_max": ("off_policy_level/all/max", "batch/off_policy_level/max"),
    "mismatch_kl": ("mismatch_kl/mean",),
    "is_ratio_mean": ("importance_ratio/mean",),
    "termination{}": ("stop_condition/all/{}",),
}
"""Names up to July 2026; the older ones are those of 2025. Lengths and truncation are means of the groups' means."""

TABLES: dict[str, Table] = {
    "trl": _TRL,
    "verl": _VERL,
    "ms-swift": {name: keys for name, keys in _TRL.items() if name != "reward_std"}
    | {"group_reward_std_mean": ("reward_std",), "step_time": ("step_time", "train_speed(s/it)")},
    "prime-rl": _PRIME_RL,
    "art": {
        "reward_mean": ("train/reward",),
        "group_reward_std_mean": ("train/reward_std_dev",),
        "kl": ("loss/kl_policy_ref", "loss/kl_div", "train/kl_div"),
        "entropy": ("loss/entropy",),
        "grad_norm": ("loss/grad_norm",),
        "loss": ("loss/train",),
        "learning_rate": ("loss/learning_rate",),
        "version_lag_mean": ("train/steps_off_policy",),
        "stale_dropped": ("train/discarded_stale_groups",),
        "completion_tokens_mean": ("train/completion_tokens",),
        "truncation_rate": ("train/truncated",),
        "tokens": ("data/step_trainer_tokens",),
        "step_time": ("time/step_wall_s",),
    },
    "nemo-rl": {
        "reward_mean": ("train/reward", "Avg Total Reward", "Avg Reward"),
        "kl": ("train/kl_penalty",),
        "entropy": ("train/approx_entropy",),
        "grad_norm": ("train/grad_norm",),
        "loss": ("train/loss", "Loss"),
        "learning_rate": ("train/lr",),
        "completion_tokens_mean": (
            *(
                "train/mean_gen_tokens_per_sample",
                "train/gen_tokens_per_sample/mean",
                "Mean Generation Length",
            ),
        ),
        "completion_tokens_max": ("train/max_gen_tokens_per_sample", "train/gen_tokens_per_sample/max"),
        "truncation_rate": ("train/truncation_rate",),
        "version_lag_mean": ("train/avg_trajectory_age", "Avg Trajectory Age"),
        "mismatch_kl": ("train/gen_kl_error", "Generation KL Error"),
        "is_ratio_mean": ("train/sampling_importance_ratio",),
        "tokens": ("train/total_num_tokens",),
        "step_time": ("timing/train/total_step_time", "Total step time"),
    },
    "openrlhf": {
        "reward_mean": ("rollout/reward_mean", "reward"),
        "reward_std": ("rollout/reward_std",),
        "group_reward_std_mean": ("group_reward_std",),
        "trainable_ratio": ("dynamic_filtering_pass_rate",),
        "kl": ("kl",),
        "entropy": ("entropy_loss",),
        "clip_frac": ("ppo_clip_ratio", "policy_clip_ratio"),
        "grad_norm": ("actor_grad_norm",),
        "loss": ("policy_loss",),
        "learning_rate": ("actor_lr",),
        "completion_tokens_mean": ("rollout/response_length_mean", "response_length"),
        "truncation_rate": ("rollout/truncated_rate", "truncated", "response_clip_ratio"),
        "mismatch_kl": ("vllm_kl",),
        "step_time": ("timing/step_total", "total_time"),
    },
    "skyrl": {
        "reward_mean": ("reward/avg_raw_reward",),
        "kl": ("policy/policy_kl", "loss/avg_kl"),
        "kl_max": ("loss/avg_kl_max",),
        "entropy": ("policy/policy_entropy",),
        "clip_frac": ("policy/loss_metrics/clip_ratio", "policy/ppo_clip_ratio"),
        "grad_norm": ("policy/grad_norm", "policy/raw_grad_norm"),
        "loss": ("policy/policy_loss",),
        "learning_rate": ("policy/policy_lr",),
        "completion_tokens_mean": ("generate/avg_num_tokens",),
        "completion_tokens_max": ("generate/max_num_tokens",),
        "version_lag_mean": ("async/staleness_mean",),
        "version_lag_max": ("async/staleness_max",),
        "logp_abs_diff": (
            "policy/rollout_train_logprobs_abs_diff_mean",
            "policy/rollout_train_prob_diff_mean",
        ),
        "is_ratio_mean": ("policy/tis_ratio_mean",),
        "step_time": ("timing/step",),
    },
    "slime": {
        "reward_mean": ("rollout/raw_reward",),
        "zero_variance_group_frac": ("rollout/zero_std/frac",),
        "kl": ("train/kl_loss",),
        "entropy": ("train/entropy_loss", "rollout/entropy"),
        "clip_frac": ("train/pg_clipfrac",),
        "grad_norm": ("train/grad_norm",),
        "loss": ("train/loss",),
        "learning_rate": ("train/lr-pg_0",),
        "completion_tokens_mean": ("rollout/response_len/mean", "rollout/response_lengths"),
        "completion_tokens_p50": ("rollout/response_len/median",),
        "completion_tokens_max": ("rollout/response_len/max",),
        "truncation_rate": ("rollout/truncated_ratio", "rollout/truncated"),
        "repetition_frac": ("rollout/repetition_frac",),
        "version_lag_mean": ("rollout/fully_async/avg_staleness",),
        "version_lag_max": ("rollout/fully_async/max_staleness",),
        "mixed_version_frac": (
            "rollout/weight_version/mixed_version_ratio",
            "weight_version/mixed_version_ratio",
        ),
        "stale_dropped": ("rollout/fully_async/stale_groups_filtered",),
        "mismatch_kl": ("train/train_rollout_kl",),
        "logp_abs_diff": ("train/train_rollout_logprob_abs_diff",),
        "is_ratio_mean": ("train/tis",),
        "effective_sample_size": ("train/ess_ratio",),
        "step_time": ("perf/step_time",),
    },
    "areal": {
        "reward_mean": ("ppo_actor/task_reward/avg", "rollout/reward"),
        "entropy": ("ppo_actor/update/entropy/avg",),
        "clip_frac": ("ppo_actor/update/clip_ratio/avg",),
        "grad_norm": ("ppo_actor/update/grad_norm",),
        "loss": ("ppo_actor/update/actor_loss/avg",),
        "learning_rate": ("ppo_actor/update/lr",),
        "truncation_rate": ("ppo_actor/no_eos_ratios/avg",),
        "version_lag_mean": ("ppo_actor/update/version_stats/sample_staleness_theta_avg",),
        "version_lag_max": ("ppo_actor/update/version_stats/sample_staleness_theta_max",),
        "mismatch_kl": ("ppo_actor/update/behave_approx_kl/avg",),
        "is_ratio_mean": ("ppo_actor/update/behave_imp_weight/avg",),
    },
    "tinker": {
        "reward_mean": ("env/all/reward/total", "reward/total"),
        "all_fail_group_frac": ("env/all/by_group/frac_all_bad",),
        "all_pass_group_frac": ("env/all/by_group/frac_all_good",),
        "kl": ("kl_policy_base",),
        "entropy": ("optim/entropy",),
        "learning_rate": ("optim/lr",),
        "version_lag_mean": ("async/staleness_mean",),
        "version_lag_max": ("async/staleness_max",),
        "mismatch_kl": ("optim/kl_sample_train_v2", "optim/kl_sample_train_v1"),
        "tokens": ("env/all/total_ac_tokens",),
        "step_time": ("time/total",),
        "component_mean{}": ("env/all/{}",),
    },
    "rllm": {
        **{name: keys for name, keys in _VERL.items() if name != "truncation_rate"},
        "reward_mean": ("reward/mean", "critic/score/mean", "env/all/reward/total"),
        "reward_std": ("reward/std",),
        "all_fail_group_frac": ("batch/*/fractions/too_hard",),
        "all_pass_group_frac": ("batch/*/fractions/too_easy",),
        "trainable_ratio": ("batch/*/fractions/effective",),
        "entropy": ("actor/entropy", "train/entropy", "optim/entropy"),
        "learning_rate": ("optim/lr", "actor/lr"),
        "completion_tokens_mean": (
            *(
                "batch/step_response_length/mean",
                "episode/response_tokens",
                "env/all/ac_tokens_per_trajectory",
            ),
        ),
        "completion_tokens_max": ("batch/step_response_length/max",),
        "truncation_rate": ("batch/termination_reason/max_response_length_exceeded",),
        "version_lag_mean": ("async/staleness_mean",),
        "version_lag_max": ("async/staleness_max",),
        "mismatch_kl": (
            *(
                "train/kl_sample_train_v2",
                "train/kl_sample_train_v1",
                "rollout_corr/kl",
                "rollout_corr/k3_kl",
            ),
            *("offpolicy/kl", "offpolicy/k3_kl"),
        ),
        "logp_abs_diff": ("training/rollout_probs_diff_mean", "offpolicy/logprob_abs_diff/mean"),
        "is_ratio_mean": ("rollout_corr/rollout_is_mean", "offpolicy/ratio/mean"),
        "termination{}": ("batch/termination_reason/{}",),
    },
    "atropos": {
        "completion_tokens_mean": ("train/completion_lengths",),
        "completion_tokens_p95": ("train/completion_lengths_p95",),
        "completion_tokens_max": ("train/completion_lengths_max",),
    },
    "torchforge": {
        "reward_mean": ("reward/evaluate_response/avg_total_reward",),
        "loss": ("rl_trainer/avg_loss",),
        "learning_rate": ("rl_trainer/learning_rate",),
        "completion_tokens_mean": ("generator/generate/avg_tokens_generated",),
        "version_lag_mean": ("buffer/sample/avg_sampled_policy_age",),
        "version_lag_max": ("buffer/sample/max_sampled_policy_age",),
    },
}
TABLES["prime-rl"] = {
    name: (*_PRIME_RL.get(name, ()), *_PRIME_RL_OF_OLD.get(name, ()))
    for name in {**_PRIME_RL, **_PRIME_RL_OF_OLD}
}
TABLES["areal"] = {
    name: (
        *keys,
        *(
            key.replace("ppo_actor/", "grpo_actor/").replace("/update/", "/")
            for key in keys
            if "actor/" in key
        ),
    )
    for name, keys in TABLES["areal"].items()
}  # what its scopes were called in 2025
TABLES["miles"] = TABLES["slime"]
TABLES["art-pipeline"] = TABLES["art"] | {
    "reward_mean": (),
    "completion_tokens_mean": (),
    "truncation_rate": (),
}
TABLES["trl-async"] = _TRL | {
    "mismatch_kl": ("kl",),
    "kl": (),
    "reward_std": (),
    "group_reward_std_mean": ("reward_std",),
    "is_ratio_mean": ("ratio",),
}
TABLES["trl-0.25"] = _TRL | {"reward_std": ("reward/std",), "group_reward_std_mean": ("reward_std",)}
TABLES["verl-v1"] = _VERL | {"truncation_rate": ()}

NO_SERIES = frozenset(
    (
        "env/all/ac_tokens_per_turn",
        "env/all/ob_tokens_per_turn",
        "env/all/turns_per_episode",
        "env/all/total_episodes",
        "env/all/total_turns",
        "env/all/total_ob_tokens",
        "env/all/total_cached_ob_tokens",
    )
)
"""Keys that a pattern fits although they stand for no series."""

OTHERS: Table = {
    "reward_mean": ("rewards/mean", "mean_reward", "objective/scores", "episode_reward"),
    "learning_rate": ("lr",),
    "kl": ("objective/kl",),
    "entropy": ("policy/entropy_avg",),
    "clip_frac": ("policy/clipfrac_avg",),
    "loss": ("loss/policy_avg",),
    "completion_tokens_mean": (
        "completion_length",
        "response_length/mean",
        "val/sequence_lengths",
        "Seq. Length",
    ),
    "version_lag_mean": ("rollout/policy_age/mean", "staleness/mean"),
    "version_lag_max": ("rollout/policy_age/max", "staleness/max"),
    "stale_dropped": ("rollout/groups_dropped_stale",),
    "mismatch_kl": ("inference_kld",),
    "logp_abs_diff": ("debug/vllm_vs_local_logprob_diff_mean",),
    "effective_sample_size": ("train/ess_fraction",),
}
"""Seen in trainers that have no table of their own."""

DEFINITIONS = {
    "trl reward_std": "sample std over the whole batch",
    "trl-0.25 group_reward_std_mean": "logged as `reward_std`: the mean of the groups' sample std, as Unsloth has it",
    "slime zero_variance_group_frac": "counts of flat groups by reward, of the groups that the arguments ask for",
    "trl kl": "KL to the reference policy; logged only where beta is not 0",
    "trl-async mismatch_kl": "logged as `kl`: between the current policy and the sampler, not to a reference",
    "trl-async group_reward_std_mean": "logged as `reward_std`: the group's std, averaged over samples",
    "trl truncation_rate": "share of completions whose last token is neither end nor padding",
    "ms-swift group_reward_std_mean": "mean of the groups' sample std",
    "verl reward_mean": "the score before a KL penalty; critic/rewards/mean is after it",
    "verl kl": "actor/kl_loss, KL to the reference policy; else the penalty that is taken from the reward",
    "verl truncation_rate": "share of responses as long as the padded batch; unknown where that is the longest",
    "verl logp_abs_diff": "difference of probabilities, never more than that of log-probabilities",
    "prime-rl clip_frac": "share of tokens masked by the trust region",
    "prime-rl reward_mean": "over all that arrived; what ships leaves out rollouts without advantage",
    "prime-rl zero_variance_group_frac": "printed only: share of rollouts whose advantage is 0",
    "nemo-rl reward_mean": "before filtering, where groups without variance are sampled anew",
    "nemo-rl zero_variance_group_frac": "share of prompts whose leave-one-out baseline is 0 or 1",
    "openrlhf trainable_ratio": "share of groups that pass dynamic filtering",
    "tinker mismatch_kl": "half the mean squared difference of log-probabilities (v2), else their mean difference (v1)",
    "areal truncation_rate": "share of responses without an end token",
    "art group_reward_std_mean": "mean of the groups' population std",
    "art-pipeline stale_dropped": "groups; means leave out groups without variance, so they are those of rollouts only",
}
"""What a series means where that is delicate, by framework and series."""
