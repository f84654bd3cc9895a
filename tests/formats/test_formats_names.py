import math
import re

import pytest

from grpo_top.formats.names import (
    CANONICAL,
    DEFINITIONS,
    TABLES,
    canonical,
    canonical_keys,
    canonical_values,
    heldout_value,
)


def series(name: str) -> str:
    return re.sub(r"\{.*\}", "", name)


def test_tables_know_no_series_that_is_not_canonical():
    for framework, table in TABLES.items():
        unknown = {series(name) for name in table} - CANONICAL - {"component_mean", "termination"}
        assert not unknown, framework


def test_definitions_are_of_series_that_their_framework_has():
    for place in DEFINITIONS:
        framework, name = place.split(" ")
        assert framework in TABLES
        assert name in CANONICAL


@pytest.mark.parametrize(
    ("framework", "key", "expected"),
    [
        ("trl", "reward", "reward_mean"),
        ("trl", "train/reward", "reward_mean"),
        ("trl", "frac_reward_zero_std", "zero_variance_group_frac"),
        ("trl", "kl", "kl"),
        ("trl-async", "kl", "mismatch_kl"),
        ("trl", "completions/clipped_ratio", "truncation_rate"),
        ("trl", "completion_length", "completion_tokens_mean"),
        ("trl", "rewards/format_reward/mean", "component_mean{format_reward}"),
        ("trl", "rewards/format_reward", "component_mean{format_reward}"),
        ("trl", "rewards/format_reward/std", None),
        ("trl", "num_tokens", None),
        ("verl", "actor/kl_loss", "kl"),
        ("verl", "actor/ppo_kl", None),
        ("verl", "rollout_corr/kl", "mismatch_kl"),
        ("openrlhf", "vllm_kl", "mismatch_kl"),
        ("openrlhf", "kl", "kl"),
        ("nemo-rl", "train/gen_kl_error", "mismatch_kl"),
        ("prime-rl", "mismatch_kl/all/mean", "mismatch_kl"),
        ("prime-rl", "train/agg/effective/agent/reward/mean", "reward_mean"),
        ("prime-rl", "train/agg/all/agent/rewards/correct/mean", "component_mean{correct}"),
        ("rllm", "batch/termination_reason/env_done", "termination{env_done}"),
        ("tinker", "env/all/stop/max_tokens", None),
        ("ms-swift", "reward_std", "group_reward_std_mean"),
        ("art", "train/reward_std_dev", "group_reward_std_mean"),
        (None, "critic/score/mean", "reward_mean"),
        (None, "loss", "loss"),
        ("a framework of one's own", "truncation_rate", "truncation_rate"),
        ("verl", "nothing/known", None),
    ],
)
def test_a_key_means_what_its_framework_means_by_it(framework, key, expected):
    assert canonical(framework, key) == expected


def test_the_preferred_key_wins_whatever_their_order():
    values = {"rollout_corr/k3_kl": 2.0, "rollout_corr/kl": 1.0}
    assert (
        canonical_values("verl", values)
        == canonical_values("verl", dict(reversed(values.items())))
        == {"mismatch_kl": 1.0}
    )


def test_unknown_is_left_out_and_not_finite_stays():
    found = canonical_values("trl", {"kl": None, "loss": math.nan, "reward": math.inf})
    assert found.keys() == {"loss", "reward_mean"}
    assert math.isnan(found["loss"])


def test_a_preferred_key_that_is_unknown_leaves_room_for_the_next():
    assert canonical_values("verl", {"critic/score/mean": None, "critic/rewards/mean": 0.2}) == {
        "reward_mean": 0.2
    }


def test_an_async_row_is_known_by_its_staleness_so_its_kl_is_mismatch():
    row = {
        "kl": 0.01,
        "reward_std": 0.3,
        "ratio": 1.0,
        "sample/staleness_mean": 1.0,
        "sample/staleness_max": 2.0,
    }
    assert canonical_values("trl", row) == {
        "mismatch_kl": 0.01,
        "group_reward_std_mean": 0.3,
        "is_ratio_mean": 1.0,
        "version_lag_mean": 1.0,
        "version_lag_max": 2.0,
    }


def test_older_rows_are_known_by_their_length_so_their_std_is_of_groups():
    assert canonical_values("trl", {"completion_length": 40.0, "reward_std": 0.3}) == {
        "completion_tokens_mean": 40.0,
        "group_reward_std_mean": 0.3,
    }


def test_of_old_and_new_names_in_a_row_the_new_one_is_read():
    row = {"completion_length": 40.0, "completions/mean_length": 41.0}
    assert canonical_values("unsloth", row) == {"completion_tokens_mean": 41.0}


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_the_reward_std_of_trl_is_within_groups_up_to_the_version_that_times_its_steps(prefix):
    row = {f"{prefix}reward_std": 0.3, f"{prefix}frac_reward_zero_std": 0.5}
    known = {"zero_variance_group_frac": 0.5}
    assert canonical_values("trl", row) == known | {"group_reward_std_mean": 0.3}
    later = canonical_values("trl", row | {f"{prefix}step_time": 2.0})
    assert later == known | {"reward_std": 0.3, "step_time": 2.0}


@pytest.mark.parametrize(
    ("framework", "row", "expected"),
    [
        (
            "rllm",
            {"batch/solve_none": 3.0, "batch/solve_all": 1.0, "batch/solve_partial": 4.0},
            {"zero_variance_group_frac": 0.5},
        ),
        ("openrlhf", {"response_clip_ratio": 0.25}, {"truncation_rate": 0.25}),
        ("verl", {"critic/kl": 0.1, "mismatch/mismatch_kl": 0.2}, {"kl": 0.1, "mismatch_kl": 0.2}),
        (
            "nemo-rl",
            {"train/gen_tokens_per_sample/mean": 9.0, "train/gen_tokens_per_sample/max": 12.0},
            {"completion_tokens_mean": 9.0, "completion_tokens_max": 12.0},
        ),
        ("tinker", {"reward/total": 0.5}, {"reward_mean": 0.5}),
        (
            "areal",
            {
                "grpo_actor/task_reward/avg": 0.5,
                "grpo_actor/entropy/avg": 0.25,
                "grpo_actor/no_eos_ratios/avg": 0.125,
            },
            {"reward_mean": 0.5, "entropy": 0.25, "truncation_rate": 0.125},
        ),
        ("slime", {"rollout/truncated": 0.25}, {"truncation_rate": 0.25}),
        (
            "prime-rl",
            {"reward/mean": 0.5, "batch/solve_none": 0.25, "batch/solve_all": 0.125, "is_truncated/mean": 0.1}
            | {
                "batch/effective_batch_size": 0.625,
                "completion_len/mean": 9.0,
                "batch/off_policy_level/max": 2.0,
            },
            {
                "reward_mean": 0.5,
                "all_fail_group_frac": 0.25,
                "all_pass_group_frac": 0.125,
                "truncation_rate": 0.1,
            }
            | {"trainable_ratio": 0.625, "completion_tokens_mean": 9.0, "version_lag_max": 2.0}
            | {"zero_variance_group_frac": 0.375},
        ),
        (
            "prime-rl",
            {"reward/all/mean": 0.5, "decode_len/all/mean": 9.0, "stop_condition/all/max_turns": 0.5},
            {"reward_mean": 0.5, "completion_tokens_mean": 9.0, "termination{max_turns}": 0.5},
        ),
        (
            "trl",
            {
                "reward": 0.5,
                "reward/std": 0.25,
                "reward/format": 0.75,
                "tokens/completion": 9.0,
                "mismatch_kl": 0.1,
            },
            {
                "reward_mean": 0.5,
                "reward_std": 0.25,
                "component_mean{format}": 0.75,
                "completion_tokens_mean": 9.0,
                "mismatch_kl": 0.1,
            },
        ),
        (None, {"objective/kl": 0.1, "policy/clipfrac_avg": 0.25}, {"kl": 0.1, "clip_frac": 0.25}),
        (
            "nemo-rl",
            {"train/baseline_reward/pct_0": 30.0, "train/baseline_reward/pct_1": 10.0},
            {"zero_variance_group_frac": 0.4},
        ),
        (
            "miles",
            {"zero_std/all_zero_percentage": 50.0, "zero_std/all_one_percentage": 0.0},
            {"zero_variance_group_frac": 0.5},
        ),
        ("tinker", {"env/all/by_group/frac_mixed": 0.75}, {"zero_variance_group_frac": 0.25}),
        (
            "tinker",
            {"env/all/ac_tokens_per_turn": 50.0, "env/all/turns_per_episode": 2.0},
            {"completion_tokens_mean": 100.0},
        ),
        (
            "art",
            {"data/step_num_groups_trainable": 3.0, "data/step_num_groups_submitted": 4.0},
            {"trainable_ratio": 0.75, "zero_variance_group_frac": 0.25},
        ),
        ("art", {"data/step_num_groups_trainable": 0.0, "data/step_num_groups_submitted": 0.0}, {}),
        ("nemo-rl", {"train/baseline_reward/pct_0": 30.0}, {}),
    ],
)
def test_what_a_row_only_implies_is_worked_out(framework, row, expected):
    assert canonical_values(framework, row) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"reward": 0.4, "reward_std": 0.1, "loss": 0.2}, 0.4),
        ({"acc/mean@4": 0.5, "reward/mean@4": 0.9}, 0.5),
        ({"strict_accuracy": 0.9, "blind_judge": 0.3}, 0.9),
        ({"pass@1": 0.137}, 0.137),
        ({"agent/avg@4": 0.3, "agent/pass@4": 0.6}, 0.3),
        ({"reward_std": 0.1, "loss": 0.2}, None),
        ({"reward": None, "accuracy": 0.2}, 0.2),
        ({}, None),
    ],
)
def test_an_evaluation_has_one_score(metrics, expected):
    assert heldout_value(metrics) == expected


@pytest.mark.parametrize(
    "key",
    [
        "sample/staleness_mean",
        "train/sample/rollout_queue_size",
        "perf/weight_sync_s",
        "batch/groups_per_step",
    ],
)
def test_kl_of_trls_asynchronous_trainer_is_to_the_sampler_and_not_to_a_reference(key):
    values = canonical_values("trl", {"kl": 0.02, "reward_std": 0.4, key: 1.0})
    assert (values.get("kl"), values["mismatch_kl"], values["group_reward_std_mean"]) == (None, 0.02, 0.4)


@pytest.mark.parametrize(
    ("framework", "metrics"),
    [
        ("rllm", {"batch/solver/fractions/too_hard": 0.25, "batch/solver/fractions/too_easy": 0.5}),
        ("openrlhf", {"dynamic_filtering_pass_rate": 0.25}),
        ("tinker", {"env/all/by_group/frac_all_bad": 0.25, "env/all/by_group/frac_all_good": 0.5}),
    ],
)
def test_the_share_of_flat_groups_follows_from_those_that_fail_pass_or_can_be_learned_from(
    framework, metrics
):
    assert canonical_values(framework, metrics)["zero_variance_group_frac"] == 0.75


def test_partial_rollouts_of_verl_span_several_versions():
    assert canonical_values("verl", {"fully_async/partial/partial_ratio": 0.3})["mixed_version_frac"] == 0.3


@pytest.mark.parametrize(
    "key",
    ["frac_reward_zero_std_excluded", "skipped_zero_adv_batches", "replay_buffer_size", "reroll_buffer_size"],
)
def test_keys_that_unsloth_and_axolotl_add_keep_their_names(key):
    metrics = {"reward": 0.5, "frac_reward_zero_std": 0.25, key: 3.0}
    assert canonical_keys("trl", metrics)[key] is None
    assert canonical_values("trl", metrics)["zero_variance_group_frac"] == 0.25
