"""What trackers record becomes steps, evaluations and the run, in whichever framework's words."""

import math

import pytest

from grpo_top.formats.base import RunContext
from grpo_top.formats.names import canonical_values, heldout_value
from grpo_top.formats.telltales import framework_of_config, framework_of_keys
from grpo_top.formats.tracked import Rows, Tracked
from grpo_top.formats.tracked_config import intended, nested
from grpo_top.records import Eval, Run, Step, Success

TRL = {"train/reward": 0.5, "train/kl": 0.1, "train/frac_reward_zero_std": 0.0}


def rows(*logged, config=None):
    """Records of rows, each of them (tracker's step, numbers)."""
    tracked = Tracked(RunContext())
    found = list(tracked.about(config=config))
    for step, metrics in logged:
        found += tracked.row(step, metrics)
    return found


def steps(found):
    return [record.step for record in found if isinstance(record, Step)]


# The step


def test_the_trainers_own_step_counts_and_not_the_trackers():
    found = rows((22, TRL | {"train/global_step": 21.0}), (23, TRL | {"train/global_step": 22.0}))
    assert steps(found) == [21, 22]


def test_the_trackers_step_counts_in_a_run_that_never_logs_its_own():
    assert steps(rows((21, TRL), (22, TRL))) == [21, 22]


def test_a_row_without_the_trainers_step_is_of_the_row_before_it():
    found = rows((30, TRL | {"train/global_step": 10.0}), (31, {"train/entropy": 0.5}))
    assert steps(found) == [10, 10]


def test_a_row_that_only_counts_is_no_step():
    assert rows((135, {"train/epoch": 0.8, "train/global_step": 120.0})) == []


def test_a_row_without_any_step_is_refused():
    with pytest.raises(ValueError, match="row without a step"):
        rows((None, TRL))


@pytest.mark.parametrize(
    "key",
    [
        "trainer/global_step",
        "training/global_step",
        "rollout/step",
        "progress/batch",
        "trainer/step",
        "iteration",
    ],
)
def test_other_trainers_words_for_the_step_are_known(key):
    assert steps(rows((500, {"reward/mean": 0.5, key: 7.0}))) == [7]


# Steps and evaluations


def test_trls_names_are_bare_again_and_its_evaluation_is_one():
    _, step, evaluation = rows((20, TRL | {"eval/reward": 0.8, "eval/loss": 0.1, "train/epoch": 0.1}))
    assert step.metrics == {"reward": 0.5, "kl": 0.1, "frac_reward_zero_std": 0.0}
    assert (evaluation.suite, evaluation.metrics) == ("heldout", {"reward": 0.8, "loss": 0.1})
    assert step.rank == evaluation.rank == 1


def test_an_evaluation_of_several_sets_names_its_set():
    _, evaluation = rows(
        (20, {"eval/math_reward": 0.8, "eval/math_runtime": 1.0}),
        config={"num_generations": 8, "max_completion_length": 9},
    )
    assert (evaluation.suite, heldout_value(evaluation.metrics)) == ("math", 0.8)


def test_verls_validation_is_split_by_source_also_where_mlflow_took_no_at_sign():
    metrics = {"critic/score/mean": 0.5, "val-core/gsm8k/acc/mean_at_4": 0.7}
    run, step, evaluation = rows((3, metrics))
    assert run == Run(framework="verl")
    assert canonical_values("verl", step.metrics) == {"reward_mean": 0.5}
    assert (evaluation.suite, evaluation.metrics) == ("gsm8k", {"acc/mean@4": 0.7})


def test_evaluations_that_are_called_after_a_suite_are_apart():
    found = rows((3, {"off_policy/mean": 0.0, "eval/gsm8k/avg@8": 0.5, "eval/math/avg@8": 0.2}))
    assert {record.suite: heldout_value(record.metrics) for record in found if isinstance(record, Eval)} == {
        "gsm8k": 0.5,
        "math": 0.2,
    }


def test_a_suite_with_one_number_is_worth_that():
    found = rows((3, {"rollout/raw_reward": 0.4, "eval/gsm8k": 0.6}))
    assert [
        (record.suite, heldout_value(record.metrics)) for record in found if isinstance(record, Eval)
    ] == [("gsm8k", 0.6)]


@pytest.mark.parametrize(
    ("metrics", "suite", "value"),
    [
        ({"train/actor_lr": 1e-6, "eval/eval_gsm8k_pass1": 0.4}, "gsm8k", 0.4),
        ({"trainer/global_step": 3.0, "eval/gsm8k/avg_score": 0.4}, "gsm8k", 0.4),
        ({"env/all/reward/total": 0.5, "test/env/all/reward/total": 0.4}, "test", 0.4),
        ({"train/reward": 0.5, "train/gen_kl_error": 0.1, "validation/accuracy": 0.4}, "heldout", 0.4),
        ({"ppo_actor/update/lr": 1e-6, "eval-rollout/reward": 0.4}, "heldout", 0.4),
        ({"train/reward_std_dev": 0.1, "val/reward": 0.4}, "heldout", 0.4),
    ],
)
def test_each_frameworks_evaluations_are_read_as_in_its_own_files(metrics, suite, value):
    (evaluation,) = (record for record in rows((3, metrics)) if isinstance(record, Eval))
    assert (evaluation.suite, heldout_value(evaluation.metrics)) == (suite, value)


def test_a_framework_that_is_not_known_is_read_as_it_is():
    step, evaluation = rows((3, {"my/reward": 0.4, "validation/accuracy": 0.6}))
    assert step.metrics == {"my/reward": 0.4}
    assert evaluation.metrics == {"accuracy": 0.6}


def test_what_is_not_finite_stays_so():
    _, step = rows((3, TRL | {"train/kl": math.nan, "train/entropy": -math.inf, "train/loss": None}))
    assert math.isnan(step.metrics["kl"])
    assert step.metrics["entropy"] == -math.inf
    assert step.metrics["loss"] is None


def test_areals_trackers_count_from_0_and_its_steps_from_1():
    found = rows((0, {"ppo_actor/task_reward/avg": 0.5, "eval-rollout/reward": 0.4}))
    assert [record.step for record in found if isinstance(record, Step | Eval)] == [1, 1]


# The run


@pytest.mark.parametrize(
    "config",
    [
        {"gconfig": {}, "actor": {}, "rollout": {"max_head_offpolicyness": 4}},
        {"grpo": {"async_grpo": {"max_trajectory_age_steps": 4}}, "policy": {}},
        {"trainer": {"fully_async": {"max_staleness_steps": 4}}},
        {"async_config": {"max_steps_off_policy": 4}},
        {"orchestrator": {"max_off_policy_steps": 4}},
        {"num_generations": 8, "max_completion_length": 32, "max_staleness": 4},
        {"version_lag_tolerance": 4, "max_staleness": 9},
    ],
)
def test_how_old_a_rollout_may_be_is_said_under_many_names(config):
    (run,) = rows(config=config)
    assert run.version_lag_tolerance == 4.0


def test_trls_config_tells_what_was_intended():
    config = {
        "num_generations": 8,
        "max_completion_length": 32,
        "temperature": 1.0,
        "top_p": 0.9,
        "top_k": 0,
        "generation_kwargs": {"top_p": 0.8},
        "max_steps": 120,
        "loss_type": "dapo",
        "report_to": ["wandb"],
    }
    (run,) = rows(config=config)
    assert run == Run(
        framework="trl",
        algorithm="grpo",
        group_size=8,
        sampling={"temperature": 1.0, "top_p": 0.8, "top_k": 0, "max_tokens": 32},
        total_steps=120,
        config=config,
    )


def test_no_limit_on_steps_is_no_total():
    (run,) = rows(config={"num_generations": 8, "max_completion_length": 32, "max_steps": -1})
    assert run.total_steps is None


def test_the_words_of_grpo_tops_own_run_record_are_taken_from_a_config():
    config = {"reward_range": [0.0, 1.2], "success": {"of": "accuracy", "at_least": 1.0}, "group_size": 4}
    (run,) = rows(config=config)
    assert (run.reward_range, run.success, run.group_size) == ((0.0, 1.2), Success("accuracy", 1.0), 4)


def test_verls_sections_are_found_also_where_they_were_flattened():
    flat = {
        "actor_rollout_ref/rollout/temperature": 0.7,
        "actor_rollout_ref/rollout/n": 16,
        "actor_rollout_ref/rollout/response_length": 512,
        "algorithm/adv_estimator": "grpo",
        "trainer/total_training_steps": 300,
    }
    (run,) = rows(config=flat)
    assert (run.framework, run.algorithm, run.group_size, run.total_steps) == ("verl", "grpo", 16, 300)
    assert run.sampling == {"temperature": 0.7, "max_tokens": 512}


def test_a_value_is_no_section():
    assert nested({"model": "x", "model/size": 3, "a.b": 1, "a.c": 2}) == {
        "model": "x",
        "a": {"b": 1, "c": 2},
    }
    assert intended({"sampling": "greedy", "num_generations": "many"}) == {}


def test_the_run_is_said_again_only_where_something_is_new():
    tracked = Tracked(RunContext())
    assert list(tracked.about("x", {"temperature": 1.0})) != []
    assert list(tracked.about("x", {"temperature": 1.0})) == []
    (again,) = tracked.about(config={"temperature": 0.5})
    assert (again.run, again.sampling) == ("x", {"temperature": 0.5})


def test_transformers_says_when_training_has_ended():
    assert Run(framework="trl", finished=True) in rows((120, TRL), (120, {"train/train_runtime": 9.0}))


@pytest.mark.parametrize(
    ("keys", "framework"),
    [
        (["train/completions/mean_length"], "trl"),
        (["eval_rewards/accuracy/mean"], "trl"),
        (["train/frac_reward_zero_std", "train/memory(GiB)"], "ms-swift"),
        (["critic/score/mean"], "verl"),
        (["batch/default/fractions/effective", "actor/pg_loss"], "rllm"),
        (["train/agg/effective/agent/reward/mean"], "prime-rl"),
        (["train/reward", "train/gen_kl_error"], "nemo-rl"),
        (["trainer/global_step"], "skyrl"),
        (["rollout/raw_reward", "train/train_rollout_kl"], "miles"),
        (["rollout/raw_reward"], "slime"),
        (["ppo_actor/update/lr"], "areal"),
        (["env/all/reward/total"], "tinker"),
        (["train/reward", "train/reward_std_dev"], "art"),
        (["train/actor_lr"], "openrlhf"),
        (["loss", "accuracy"], None),
    ],
)
def test_a_framework_is_known_by_what_it_logs(keys, framework):
    assert framework_of_keys(keys) == framework


def test_a_config_that_tells_of_no_framework_is_of_none():
    assert framework_of_config({"temperature": 1.0, "lr": 1e-6}) is None


# Rows


def test_a_row_is_whole_when_another_step_begins():
    found = Rows()
    assert found.add(1, "a", 0.1, 5.0) is None
    assert found.add(1, "b", 0.2, 6.0) is None
    assert found.add(2, "a", 0.3, 7.0) == (1, {"a": 0.1, "b": 0.2}, 5.0)


def test_an_open_row_is_given_as_far_as_it_goes_and_again_when_it_has_grown():
    found = Rows()
    assert found.take() is None
    found.add(1, "a", 0.1, 5.0)
    assert found.take() == (1, {"a": 0.1}, 5.0)
    assert found.take() is None
    found.add(1, "b", 0.2, 6.0)
    assert found.take() == (1, {"a": 0.1, "b": 0.2}, 5.0)
