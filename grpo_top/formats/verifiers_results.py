"""Rollouts as verifiers 0.1 writes them (`results.jsonl`), and prime-rl until July 2026: one flat object a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from grpo_top.formats.conversation import conversation, spoken, task_name, texts
from grpo_top.formats.decode import integer, number, numbers, text, timestamp
from grpo_top.formats.usual import NAMES, filled
from grpo_top.formats.verifiers_traces import mapping, mappings
from grpo_top.records import Rollout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.formats.verifiers_traces import Place
    from grpo_top.records import Location, Message

_COUNTS = re.compile(r"num_turns|total_tool_calls|.*_calls|.*(?:token|len|time).*", re.IGNORECASE)
"""Metrics that count what happened: no part of a reward."""
_OWN = frozenset(("is_completed", "metrics", "timing", "generation_ms", "scoring_ms", "trajectory", "task"))
"""Fields of which each version has one or another."""
_NO_METRICS = NAMES | {
    "example_id",
    "reward",
    "advantage",
    "off_policy_steps",
    "generation_ms",
    "scoring_ms",
    "total_ms",
    "is_completed",
    "answer",
    "temperature",
    "policy_version",
}
"""What is no metric where metrics stand among the other fields, as before 0.1.10."""
_KIND = re.compile(r"[A-Za-z_]\w*(?=\()")
"""`ToolCallError('…')`: early versions write an error as Python would print it."""


def is_output(record: Mapping[str, Any]) -> bool:
    """Whether a line is such a rollout."""
    needed = {"example_id", "prompt", "completion", "reward"}
    return needed <= record.keys() and not _OWN.isdisjoint(record)


def output_rollout(raw: Mapping[str, Any], place: Place, location: Location) -> Rollout:
    """The rollout of a line; ValueError where its reward is none.

    The package's own `is_truncated` is taken as it is: `max_turns_reached` is how a single turn normally ends.
    """
    reward = number(raw.get("reward"))
    if reward is None and raw.get("reward") is not None:
        raise ValueError(f"rollout whose reward is a {type(raw['reward']).__name__}")
    env, example = text(raw.get("env_name")) or text(raw.get("task")), text(raw.get("example_id"))
    example = " ".join(part for part in (env, example) if part) or None
    prompt = texts(raw.get("prompt"))
    info, usage, metrics = (
        mapping(raw.get("info")),
        mapping(raw.get("token_usage")),
        numbers(raw["metrics"] if "metrics" in raw else _among_others(raw)),
    )
    truncated, policy = raw.get("is_truncated"), integer(raw.get("policy_version"))
    rollout = Rollout(
        step=place.step,
        group=place.group or example,
        reward=reward,
        rewards={name: value for name, value in metrics.items() if not _COUNTS.fullmatch(name)} or None,
        split=place.split,
        task=task_name(example, prompt),
        family=text(info.get("family")) or env,
        tier=text(info.get("tier")) or text(info.get("difficulty")),
        prompt=prompt,
        completion=_said(raw.get("completion")),
        messages=_turns(raw),
        advantage=number(raw.get("advantage")),
        prompt_tokens=integer(usage.get("input_tokens")) if metrics.get("num_turns") == 1 else None,
        completion_tokens=integer(usage.get("output_tokens")),
        truncated=truncated if isinstance(truncated, bool) else None,
        termination=_termination(raw),
        policy_version=policy,
        trainer_version=None if policy is None else place.trainer_version,
        logprobs_sampler=_logprobs(raw),
        time=_time(mapping(raw.get("timing"))),
        location=location,
    )
    return filled(rollout, {name: value for name, value in raw.items() if name != "example_id"})


def _among_others(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if name not in _NO_METRICS and value is not None}


def _turns(raw: Mapping[str, Any]) -> list[Message] | None:
    return conversation(raw.get("prompt"), raw.get("completion"))


def _said(completion: object) -> str | None:
    if not isinstance(completion, list):
        return text(completion)
    return "\n".join(spoken(turn) for turn in conversation(completion) or () if turn.role == "assistant")


def _termination(raw: Mapping[str, Any]) -> str | None:
    """The stop condition, or the kind of error that ended it (a name, or an object that holds it)."""
    error = raw.get("error")
    kind = text(mapping(error).get("error")) or text(error)
    printed = _KIND.match(kind) if kind else None
    return printed[0] if printed else kind or text(raw.get("stop_condition"))


def _logprobs(raw: Mapping[str, Any]) -> list[float] | None:
    """Log-probabilities of all turns, where the state's column `trajectory` was asked for."""
    found: list[float] = []
    for turn in mappings(raw.get("trajectory")):
        values = mapping(turn.get("tokens")).get("completion_logprobs")
        if not isinstance(values, list):
            return None
        found += [value for value in values if isinstance(value, int | float)]
    return found or None


def _time(timing: Mapping[str, Any]) -> float | None:
    return timestamp(mapping(timing.get("scoring")).get("end")) or timestamp(timing.get("start_time"))
