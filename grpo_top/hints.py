"""Which setting of a framework would log what is missing: one table, by framework and thing to log.

Read from the frameworks' sources (TRL 1.16, verl 0.9, prime-rl and slime of August 2026, …). What a framework's own
files cannot carry is said in grpo-top/1 records, which any loop can write beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

IN_RECORDS: dict[str, str] = {
    "reward": "`reward` on each `rollout` record",
    "family": "`family` on each `rollout` record",
    "verifier output": '`verifier: {"raw": …, "error": …}` on each `rollout` record',
    "zero-variance groups": "`rollout` records, a group at a time",
    "success": "`success` on the `run` record, `reward` on each `rollout` record",
    "tier": "`tier` on each `rollout` record",
    "parse failures": "`parsed` on each `rollout` record",
    "truncation": "`finish_reason` on each `rollout` record",
    "lengths": "`completion_tokens` on each `rollout` record",
    "rewards beside them": "`reward` on each `rollout` record",
    "kl": "`kl` in each `step` record's metrics",
    "entropy": "`entropy` in each `step` record's metrics",
    "termination": "`termination` on each `rollout` record",
    "policy version": "`policy_version` on each `rollout` record",
    "lag": "`policy_version` and `trainer_version` on each `rollout` record",
    "held-out": "`eval` records at a fixed cadence",
    "environment version": "`env_version` on the `run` record",
    "reward version": "`reward_version` on the `run` record",
    "sampler config": "`sampling` on the `run` record (intended) and on each `rollout` record (deployed)",
}
"""Thing to log → where grpo-top/1 records carry it. The names are those of `triage.TEN_THINGS`."""

_ENGINES = (
    "let the engine log its requests: SGLang --export-metrics-to-file --export-metrics-to-file-dir DIR, "
    "vLLM --enable-log-requests"
)
_ROWS = ("reward", "zero-variance groups", "success", "rewards beside them")
"""What rollouts give by themselves."""

_SUCCESS = 'success = {of = "NAME", at_least = 1} under [run] in grpo-top.toml'
_TRL_ROWS = "log_completions=True (TRL 0.28 or later)"
_VERL_ROWS = "trainer.rollout_data_dir=DIR"
_VERL_METRICS = 'trainer.logger=["console","file"]'
_SLIME_ROWS = "slime's own dumps are pickles, which are never loaded (miles writes --dump-details DIR)"

HINTS: dict[str, dict[str, str]] = {
    "trl": {
        **dict.fromkeys(_ROWS, _TRL_ROWS),
        "success": f"{_TRL_ROWS}, and with several reward functions {_SUCCESS}",
        "truncation": "logging_steps=1 (completions/clipped_ratio)",
        "lengths": "logging_steps=1 (completions/mean_length)",
        "kl": "beta above 0 (without it no KL is computed)",
        "entropy": "logging_steps=1",
        "policy version": 'AsyncGRPOTrainer with report_to="trackio" (model_version in its traces)',
        "lag": "AsyncGRPOTrainer (sample/staleness_max); the other trainer samples from its own policy",
        "held-out": 'eval_strategy="steps", eval_steps=20, and an eval_dataset',
        "sampler config": 'report_to="trackio" or "wandb" (intended), and ' + _ENGINES,
    },
    "verl": {
        **dict.fromkeys(_ROWS, _VERL_ROWS),
        "truncation": _VERL_METRICS,
        "lengths": _VERL_METRICS,
        "kl": "actor_rollout_ref.actor.use_kl_loss=True or algorithm.use_kl_in_reward=True",
        "entropy": _VERL_METRICS,
        "policy version": "trainer.use_v1=true (training/off_policy/*), or the fully asynchronous trainer",
        "lag": "trainer.use_v1=true (training/off_policy/trajectory_staleness)",
        "held-out": "trainer.test_freq=20 and trainer.validation_data_dir=DIR",
        "sampler config": _ENGINES,
    },
    "prime-rl": {
        **dict.fromkeys(
            (*_ROWS, "family", "truncation", "lengths", "termination", "policy version", "lag", "entropy"),
            "leave monitors.file on (it is by default since July 2026)",
        ),
        "sampler config": "leave monitors.file on: each call carries its sampling",
        "held-out": "an eval environment with an interval in the orchestrator's config",
    },
    "verifiers": {
        **dict.fromkeys((*_ROWS, "truncation", "lengths", "termination"), "vf-eval with --save-results"),
        "sampler config": "verifiers 0.2 or later (calls carry their sampling)",
    },
    "art": {
        **dict.fromkeys(_ROWS, "model.log(groups, split='train') with each step's trajectory groups"),
        "held-out": "model.log(groups, split='val')",
        "lag": "PipelineTrainer (train/steps_off_policy)",
    },
    "ms-swift": {
        **dict.fromkeys(_ROWS, "--log_completions true"),
        "success": f"--log_completions true, and with several reward functions {_SUCCESS}",
        "truncation": "--logging_steps 1 (completions/clipped_ratio)",
        "lengths": "--logging_steps 1 (completions/mean_length)",
        "kl": "--beta above 0",
        "entropy": "--log_entropy true",
        "held-out": "--eval_steps 20 and a --val_dataset",
        "sampler config": _ENGINES,
    },
    "openrlhf": {
        **dict.fromkeys(("truncation", "lengths", "kl"), "--logger.tensorboard_dir DIR"),
        "entropy": "--logger.tensorboard_dir DIR, and an entropy coefficient (without it none is logged)",
        "held-out": "--logger.tensorboard_dir DIR and an eval dataset",
        "sampler config": _ENGINES,
    },
    "nemo-rl": {
        **dict.fromkeys(_ROWS, "leave env.should_log_nemo_gym_responses at false"),
        **dict.fromkeys(
            ("truncation", "lengths", "kl", "entropy", "lag", "policy version"),
            "logger.tensorboard_enabled=true",
        ),
        "held-out": "grpo.val_period=20",
        "sampler config": _ENGINES,
    },
    "skyrl": {
        "held-out": "leave trainer.dump_eval_results=true",
        **dict.fromkeys(("kl", "entropy", "lengths", "lag"), "trainer.logger=tensorboard"),
        "sampler config": _ENGINES,
    },
    "slime": {
        **dict.fromkeys(_ROWS, _SLIME_ROWS),
        **dict.fromkeys(("truncation", "lengths", "kl", "entropy"), "--use-tensorboard"),
        "sampler config": _ENGINES,
    },
    "miles": {
        **dict.fromkeys((*_ROWS, "termination"), "--dump-details DIR"),
        **dict.fromkeys(
            ("truncation", "lengths", "kl", "entropy", "policy version", "lag"), "--use-miles-dashboard"
        ),
        "sampler config": _ENGINES,
    },
    "areal": {
        **dict.fromkeys((*_ROWS, "policy version"), "rollout.dump_to_file=true and rollout.tokenizer_path"),
        **dict.fromkeys(
            ("kl", "entropy", "truncation", "lengths", "lag"), "stats_logger.tensorboard.path=DIR"
        ),
        "held-out": "an evaluator; its rollouts go to eval-rollout/",
    },
    "tinker": {
        **dict.fromkeys((*_ROWS, "lengths", "policy version"), "leave rollout_json_export=True"),
        "family": "tags on the environments",
        "held-out": "an evaluator with eval_every=20",
        "kl": "a KL penalty above 0 (kl_policy_base)",
    },
    "rllm": {
        **dict.fromkeys((*_ROWS, "termination", "family"), "rllm.episode_logging.log_episodes=true"),
        **dict.fromkeys(("kl", "entropy", "lengths", "lag"), _VERL_METRICS),
    },
    "atropos": {
        "reward": "--env.data_path_to_save_groups FILE.jsonl",
        "zero-variance groups": "--env.ensure_scores_are_not_same false (else such groups are dropped before the log)",
        "held-out": "--env.data_dir_to_save_evals DIR",
    },
}
"""Framework → thing to log → the setting."""

_SAME = {
    "trl-async": "trl",
    "unsloth": "trl",
    "axolotl": "trl",
    "open-r1": "trl",
    "huggingface": "trl",
    "swift": "ms-swift",
    "openpipe-art": "art",
    "tinker-cookbook": "tinker",
    "verl-v1": "verl",
}


def hint(framework: str | None, thing: str) -> str:
    """How a framework would log a thing; where its own files cannot carry it, which grpo-top/1 field does."""
    name = (framework or "").lower().replace("_", "-")
    own = HINTS.get(_SAME.get(name, name), {}).get(thing)
    return own if own is not None else f"in grpo-top/1 records: {IN_RECORDS[thing]}"


def hints(framework: str | None, things: Iterable[str]) -> tuple[str, ...]:
    """One line a setting, with the things that it would log."""
    named: dict[str, list[str]] = {}
    for thing in things:
        named.setdefault(hint(framework, thing), []).append(thing)
    return tuple(f"{', '.join(of)}: {setting}" for setting, of in named.items())


def known_framework(framework: str | None, formats: Iterable[str]) -> str | None:
    """The framework as the run says it, else the first source's format that is one."""
    if framework is not None and framework != "grpo-top":
        return framework
    return next((name for name in formats if name in HINTS), framework)
