"""What loops of their own call the fields of a rollout: the usual names, in order of preference."""

from __future__ import annotations

import re

from grpo_top.formats.usual import NAMES as USUAL
from grpo_top.formats.usual import names_of
from grpo_top.records import Rollout

STEP, REWARD = "step", "reward"
_NAMES: dict[str, tuple[str, ...]] = {
    STEP: (
        *("step", "global_step", "training_step", "train_step", "trainer/global_step", "train/global_step"),
        *(
            "iteration",
            "iter",
            "trainer_step",
            "optimizer_step",
            "update_step",
            "policy_step",
            "rollout_step",
        ),
        *("gradient_step", "opt_step", "outer_step", "rl_step", "grpo_step", "global_steps", "current_step"),
        *("train_iter", "training_iteration", "iter_num", "iteration_num", "iter_idx", "step_num", "n_iter"),
        *(
            "update",
            "update_idx",
            "num_updates",
            "it",
            "round",
            "batch",
            "batch_idx",
            "batch_id",
            "rollout_batch",
        ),
        *("_step", "epoch"),
    ),
    REWARD: (
        *("reward", "score", "total_reward", "reward_total", "final_reward", "reward_score", "reward_value"),
        *(
            "total_score",
            "overall_reward",
            "combined_reward",
            "reward_sum",
            "episode_reward",
            "return",
            "rew",
            "r",
        ),
        *("rewards", "scores"),
    ),
    "prompt": (
        *("prompt", "input", "question", "query", "problem", "instruction", "prompt_text", "input_text"),
        *("user_prompt", "task_prompt"),
    ),
    "completion": (
        *(
            "completion",
            "output",
            "response",
            "generation",
            "generated_text",
            "completion_text",
            "response_text",
        ),
        *("output_text", "model_output", "model_response", "generated"),
    ),
    "messages": ("messages", "conversation", "turns", "chat", "conversations", "dialogue"),
    "group": (
        *(
            "group",
            "group_id",
            "prompt_id",
            "group_idx",
            "group_index",
            "prompt_idx",
            "prompt_index",
            "group_uid",
        ),
        *("prompt_uid", "prompt_hash", "group_key"),
    ),
    "index": (
        *("index", "sample_idx", "sample_index", "rollout_idx", "rollout_index", "generation_idx"),
        *("generation_index", "completion_idx", "completion_index"),
    ),
    "rewards": (
        "rewards",
        "components",
        "reward_components",
        "component_rewards",
        "reward_breakdown",
        "scores",
    ),
    "split": ("split", "phase", "mode"),
    "task": ("task",),
    "family": ("env",),
    "advantage": ("adv",),
    "prompt_tokens": ("prompt_len", "n_prompt_tokens", "num_prompt_tokens", "input_len"),
    "completion_tokens": (
        *("completion_len", "response_len", "output_len", "output_length", "gen_len", "generation_length"),
        *("num_completion_tokens", "num_response_tokens", "num_generated_tokens", "n_completion_tokens"),
        *("generated_tokens", "gen_tokens", "n_tokens", "num_tokens", "token_count", "n_generated_tokens"),
        *("completion_num_tokens", "response_num_tokens", "num_gen_tokens", "n_gen_tokens", "length", "len"),
    ),
    "truncated": (
        *(
            "hit_max_tokens",
            "hit_max_length",
            "hit_max_len",
            "hit_length_limit",
            "hit_limit",
            "cut_off",
            "overlong",
        ),
        *("was_truncated", "length_exceeded", "max_length_reached", "reached_max_length", "truncation"),
    ),
    "finish_reason": ("finish", "stop", "end_reason"),
    "verifier_raw": ("verifier.raw",),
    "verifier_error": ("verifier.error",),
    "logprobs_sampler": ("logprobs.sampler", "sampling_logprobs", "sampler_logprobs", "old_logprobs"),
    "logprobs_trainer": ("logprobs.trainer", "trainer_logprobs"),
    "time": ("time", "ts", "timestamp", "_timestamp", "created_at", "wall_time"),
}
WEAK_STEPS = frozenset(("update", "it", "round", "batch", "batch_idx", "batch_id", "_step", "epoch"))
"""Names of a step that anything may have which counts: what they count is told by the rest of the record."""
LAST_REWARDS = (
    "correct",
    "is_correct",
    "success",
    "is_success",
    "solved",
    "passed",
    "accuracy",
    "acc",
    "correctness",
)
"""What counts as the reward where nothing else does."""
LAST_COMPLETIONS = (
    "text",
    "content",
    "answer",
    "solution",
    "prediction",
    "model_answer",
    "rollout",
    "trajectory",
    "sample",
)
"""What counts as the completion where nothing else does: in most data sets these are what is right."""
IDS = (
    "completion_ids",
    "response_ids",
    "output_ids",
    "completion_token_ids",
    "response_token_ids",
    "output_token_ids",
)
"""Token ids, of which there are as many as tokens."""
FIELDS = frozenset(name for name in Rollout._fields if name != "location")
CANDIDATES: dict[str, tuple[str, ...]] = {
    field: tuple(dict.fromkeys((field, *_NAMES.get(field, ()), *names_of(field))))
    for field in sorted(FIELDS, key=[*_NAMES, *sorted(FIELDS)].index)
}
"""Field of a rollout → its names in order of preference; fields in the order in which they take a name."""
STEP_NAMES = CANDIDATES[STEP]

_ABOUT = (
    *(
        "meta",
        "metadata",
        "info",
        "extra",
        "extra_info",
        "data",
        "result",
        "metrics",
        "stats",
        "usage",
        "sample",
    ),
    *("input", "output", "response", "completion", "generation", "verifier", "grading", "grade"),
)
"""Objects within a record that hold some of its fields under their usual names."""
_OF_ABOUT = (
    *(STEP, REWARD, "prompt", "completion", "messages", "group", "task", "family", "tier", "advantage"),
    *("prompt_tokens", "completion_tokens", "truncated", "finish_reason", "policy_version"),
)
"""Fields that are looked for in them."""
_WITHIN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    REWARD: (
        ("reward", "rewards", "score", "scores", "reward_breakdown", "reward_components"),
        ("total", "reward", "score", "value", "overall", "final", "combined", "sum", "total_reward"),
    ),
    "prompt": (("prompt", "input", "problem", "task"), ("text", "content", "question")),
    "completion": (
        ("completion", "output", "response", "generation", "result"),
        ("text", "content", "message"),
    ),
    "messages": (("prompt", "input"), ("messages",)),
}
"""Field → objects that are called after it, and what it is called in them."""


def within(field: str) -> tuple[str, ...]:
    """Where a field may be within the objects of a record, as names with a dot."""
    objects, names = _WITHIN.get(field, ((), ()))
    usual = [name for name in CANDIDATES[field] if name not in WEAK_STEPS] if field in _OF_ABOUT else []
    return (
        *(f"{outer}.{name}" for outer in objects for name in names),
        *(f"{outer}.{name}" for outer in _ABOUT for name in usual if "." not in name and name != "r"),
    )


_COMPONENT = re.compile(r"rewards?[/_.](?P<name>.+)|(?P<other>.+)[/_.]rewards?(?:_(?:func|fn|function))?")
_NO_COMPONENT = re.compile(
    r"(?:.*[/_.])?(?:std|mean|avg|min|max|sum|total|final|raw|group|batch|baseline|range"
    r"|fn|func|model|version|error|weight|kwargs|type|combined|overall)s?"
)
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\s-]+")


def component(name: str) -> str | None:
    """The part of the reward that a name stands for, None where it is none."""
    match = _COMPONENT.fullmatch(name)
    if match is None or name in USUAL or _NO_COMPONENT.fullmatch(match["name"] or match["other"]):
        return None
    return match["name"] or match["other"]


def spelled_plainly(name: str) -> str:
    """`globalStep`, `Global Step` and `global-step` as `global_step`."""
    return _BETWEEN.sub("_", _WORD_BEGINS.sub("_", name.strip())).lower()
