"""What a run's config intends, in the words of each framework, under the names of grpo-top/1's run record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import integer, number, text
from grpo_top.records import Run, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.records import Sampling

_SAMPLING = (
    "data",
    "trl",
    "actor_rollout_ref.rollout",
    "policy.generation",
    "generator.sampling_params",
    "gconfig",
    "orchestrator.sampling",
    "orchestrator.train.sampling",
    "train.sampling",
    "sampling_params",
    "sampling",
    "generation_kwargs",
)
"""Sections that hold the sampling parameters; a later one stands above those before, and all above the top level."""
_SAMPLING_WORDS = {
    "rollout_temperature": "temperature",
    "rollout_top_p": "top_p",
    "rollout_top_k": "top_k",
    "rollout_max_response_len": "max_tokens",
    "max_generate_length": "max_tokens",
    "generate_max_len": "max_tokens",
}
_GROUP_SIZE = (
    "group_size",
    "num_generations",
    "actor_rollout_ref.rollout.n",
    "grpo.num_generations_per_prompt",
    "generator.n_samples_per_prompt",
    "n_samples_per_prompt",
    "gconfig.n_samples",
    "trl.num_generations",
    "env.group_size",
    "dataset_builder.group_size",
    "orchestrator.group_size",
    "orchestrator.rollouts_per_example",
    "rollouts_per_example",
)
_LAG_TOLERANCE = (
    "rollout.max_head_offpolicyness",
    "grpo.async_grpo.max_trajectory_age_steps",
    "trainer.fully_async.max_staleness_steps",
    "async_config.max_steps_off_policy",
    "orchestrator.max_off_policy_steps",
    "max_off_policy_steps",
    "orchestrator.max_async_level",
    "max_async_level",
    "max_staleness",
)
"""How many policy versions a rollout may be older than the one that it trains, before it is dropped."""
_TOTAL_STEPS = (
    "total_steps",
    "max_steps",
    "trainer.total_training_steps",
    "grpo.max_num_steps",
    "num_rollout",
)
_ALGORITHM = (
    "algorithm",
    "algorithm.adv_estimator",
    "advantage_estimator",
    "trainer.algorithm.advantage_estimator",
)
_OWN = ("version_lag_tolerance", "reward_range", "success", "env_version", "reward_version")
"""Fields of grpo-top/1's run record that nobody else uses the word for."""


def intended(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run record that a nested config tells; what it leaves out is not in there."""
    found: dict[str, Any] = {name: config[name] for name in _OWN if config.get(name) is not None}
    found["sampling"] = _sampling(config)
    found["group_size"] = _first_positive(config, _GROUP_SIZE)
    found["total_steps"] = _first_positive(config, _TOTAL_STEPS)
    lags = (number(_at(config, path)) for path in _LAG_TOLERANCE)
    found.setdefault("version_lag_tolerance", next((lag for lag in lags if lag is not None), None))
    named = (_at(config, path) for path in _ALGORITHM)
    found["algorithm"] = next(
        (name for value in named if isinstance(value, str) and (name := text(value))), None
    )
    if found["algorithm"] is None and {"num_generations", "loss_type"} <= config.keys():
        found["algorithm"] = "grpo"  # TRL's GRPOConfig, which has no word for it
    return {name: value for name, value in found.items() if value is not None}


def run_of(framework: str, config: Mapping[str, Any]) -> Run:
    """The run record of a framework's own config."""
    told = intended(nested(config))
    return Run(
        framework=framework,
        algorithm=told.get("algorithm"),
        group_size=told.get("group_size"),
        sampling=told.get("sampling"),
        version_lag_tolerance=number(told.get("version_lag_tolerance")),
        total_steps=told.get("total_steps"),
        config={name: value for name, value in config.items() if value is not None},
    )


def nested(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with `a.b` and `a/b` as `{a: {b: …}}`, since some trackers flatten it; not where `a` is a value."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        *sections, name = key.replace("/", ".").split(".")
        place = found
        for section in sections:
            inner = place.get(section, {})
            if not isinstance(inner, dict):
                break
            place[section] = place = dict(inner)
        else:
            place[name] = value
    return found


def _sampling(config: Mapping[str, Any]) -> Sampling | None:
    found: dict[str, Any] = {}
    for section in (config, *(_at(config, path) for path in _SAMPLING)):
        for name, value in section.items() if isinstance(section, dict) else ():
            of_prompt_too = name == "max_tokens" and "max_new_tokens" in section
            if isinstance(name, str) and not of_prompt_too and not isinstance(value, dict | list | None):
                found[_SAMPLING_WORDS.get(name, name)] = value
        if isinstance(section, dict) and section.get("greedy") is True:
            found["temperature"] = 0.0
    return normal_sampling(found)


def _first_positive(config: Mapping[str, Any], paths: tuple[str, ...]) -> int | None:
    return next((found for path in paths if (found := integer(_at(config, path)) or 0) > 0), None)


def _at(config: Mapping[str, Any], path: str) -> Any:
    """What lies at `a.b.c`; None where nothing does."""
    place: Any = config
    for part in path.split("."):
        place = place.get(part) if isinstance(place, dict) else None
    return place
