"""Traces of verifiers 0.2 and later, as vf-eval and prime-rl write them: one, or an episode of several, a line.

A trace is a graph of messages (`nodes`), the calls to the model that made some of them (`calls`), and what they
earned (`rewards`: score and weight; before July 2026 their product). Reward and truncation are not written down
and computed here as verifiers computes them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.formats.conversation import as_message, spoken, texts
from grpo_top.formats.decode import integer, number, text, timestamp, written
from grpo_top.records import TRAIN, Rollout, Run, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grpo_top.records import Location, Sampling

LIMITS = frozenset(
    (
        "max_turns",
        "max_input_tokens",
        "max_output_tokens",
        "max_total_tokens",
        "context_length",
        "harness_timeout",
        "compaction_failed",
    )
)
"""Stop conditions that cut a trace short."""


class Place(NamedTuple):
    """Where an episode belongs, which its own line does not always say."""

    step: int
    split: str = TRAIN
    group: str | None = None
    trainer_version: int | None = None
    """The policy version that its batch trains."""


class Intended:
    """The sampling configs that a run's agents were given; the one that is met first is the run's.

    Environments of one run may be meant to sample differently, and the run has one config to be compared with: a
    setting that is as its own agent's config wants it, and only not as the run's, is not shown as deployed.
    """

    def __init__(self) -> None:
        self._of_agents: dict[tuple[str | None, str | None], Sampling] = {}
        self.of_run: Sampling | None = None
        self._first: tuple[str | None, str | None] | None = None

    def declare(self, sampling: Sampling | None) -> None:
        """Take the run's config from its own config file."""
        self.of_run = sampling or self.of_run

    def note(self, agent: tuple[str | None, str | None], sampling: Sampling | None) -> bool:
        """Take an agent's config in; whether the run's is another one now."""
        if not sampling or self._of_agents.get(agent) == sampling:
            return False
        self._first = self._first or agent
        self._of_agents[agent] = sampling
        changed = agent == self._first and self.of_run != sampling
        self.of_run = sampling if changed else self.of_run
        return changed

    def shown(self, own: Sampling | None, deployed: Sampling | None) -> Sampling | None:
        """What of a deployed config can be compared with the run's."""
        if not own or not deployed or own == self.of_run:
            return deployed
        run = self.of_run or {}
        return {
            name: value
            for name, value in deployed.items()
            if own.get(name) != value or run.get(name) == value
        } or None


def traces_of(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The traces of an episode that belong to the policy; a line that is a trace is its only one."""
    traces = raw.get("traces")
    found = (
        [trace for trace in traces if isinstance(trace, dict)] if isinstance(traces, list) else [dict(raw)]
    )
    return [trace for trace in found if mapping(trace.get("agent")).get("trainable") is not False]


def environment(raw: Mapping[str, Any]) -> str | None:
    """The name that an episode's environment goes by."""
    env, info = mapping(raw.get("env")), mapping(raw.get("info"))
    return text(env.get("name")) or text(env.get("id")) or text(raw.get("env_name") or info.get("env_name"))


def policy_span(raw: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """First and last policy version that sampled an episode."""
    policy = mapping(mapping(mapping(raw.get("run")).get("work")).get("policy"))
    start = integer(policy.get("start"))
    if start is None:
        start = integer(raw.get("policy_version", mapping(raw.get("info")).get("policy_version")))
    return start, integer(policy.get("end"))


def intended_of(trace: Mapping[str, Any]) -> Sampling | None:
    """The sampling config that a trace's agent was given."""
    agent = mapping(trace.get("agent"))  # up to 0.2 it had no config of its own
    return normal_sampling(
        mapping(mapping(agent.get("config")).get("sampling")) or mapping(agent.get("sampling"))
    )


def note_intended(raw: Mapping[str, Any], intended: Intended) -> Iterator[Run]:
    """The run's sampling config, where an episode is the first to tell it, or tells that it changed."""
    for trace in traces_of(raw):
        agent = (environment(raw), text(mapping(trace.get("agent")).get("name")))
        if intended.note(agent, intended_of(trace)):
            yield Run(sampling=intended.of_run)


def rollouts(
    raw: Mapping[str, Any], place: Place, location: Location, intended: Intended
) -> Iterator[Rollout]:
    """One rollout for each trace of the policy, in order; `location.part` counts them."""
    family, versions = environment(raw), policy_span(raw)
    for part, trace in enumerate(traces_of(raw)):
        yield _rollout(trace, raw, place, intended)._replace(
            family=_said(raw, trace, "family") or family,
            policy_version=versions[0],
            policy_version_end=versions[1],
            trainer_version=None if versions[0] is None else place.trainer_version,
            location=location._replace(part=part),
        )


def _rollout(
    trace: Mapping[str, Any], episode: Mapping[str, Any], place: Place, intended: Intended
) -> Rollout:
    nodes = _in_order(mappings(trace.get("nodes")))
    sampled = [node for node in nodes if node.get("sampled") is True]
    calls = mappings(trace.get("calls")) or [node for node in sampled if "usage" in node]
    messages = [message for node in nodes if (message := as_message(node.get("message")))]
    own = [message for node in sampled if (message := as_message(node.get("message")))]
    reward, rewards = _rewards(trace)
    answered = next((call for call in reversed(calls) if not call.get("error")), None)
    intended_ = intended_of(trace)
    deployed = _deployed(calls, intended_)
    parsed = number(mapping(trace.get("metrics")).get("parsed"))
    return Rollout(
        step=place.step,
        group=place.group,
        reward=reward,
        rewards=rewards,
        split=place.split,
        task=_task(episode, trace),
        tier=_said(episode, trace, "tier") or _said(episode, trace, "difficulty"),
        prompt=_prompt(nodes, trace),
        completion="\n".join(map(spoken, own)),
        messages=messages,
        verifier_raw=written(mapping(trace.get("info")).get("judge")),
        verifier_error=_verifier_error(trace),
        parsed={0.0: False, 1.0: True}.get(parsed) if parsed is not None else None,
        advantage=_advantage(trace, sampled),
        prompt_tokens=_prompt_tokens(calls),
        completion_tokens=_completion_tokens(trace, calls, sampled),
        finish_reason=text(answered.get("finish_reason")) if answered else None,
        truncated=_truncated(trace, answered),
        termination=_termination(trace, calls),
        sampling=intended.shown(intended_, deployed) if place.split == TRAIN else deployed,
        logprobs_sampler=_per_token(sampled, "logprobs"),
        logprobs_trainer=_per_token(sampled, "trainer_logprobs"),
        time=_time(trace, calls),
    )


def _deployed(calls: Sequence[Mapping[str, Any]], intended: Sampling | None) -> Sampling | None:
    """The settings that the calls were made with, the last one's; one that is not as intended in any call stays."""
    meant = intended or {}
    found: Sampling = {}
    for call in calls:
        if call.get("error"):
            continue
        for name, value in (normal_sampling(mapping(call.get("sampling"))) or {}).items():
            if name not in found or found[name] == meant.get(name, found[name]):
                found[name] = value
    return found or None


def _verifier_error(trace: Mapping[str, Any]) -> str | None:
    """What went wrong where scoring was cut short or failed."""
    stop = text(trace.get("stop_condition")) or ""
    if not stop.startswith("scoring"):
        return None
    errors = mappings(trace.get("errors"))
    return (text(errors[-1].get("type")) if errors else None) or stop


def _in_order(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of a graph branch by branch, each once: of a mere chain, as they are."""
    children: dict[int | None, list[int]] = defaultdict(list)
    for number_, node in enumerate(nodes):
        parent = node.get("parent")
        children[parent if isinstance(parent, int) and parent < number_ else None].append(number_)
    ordered, stack = [], children[None][::-1]
    while stack:
        number_ = stack.pop()
        ordered.append(nodes[number_])
        stack += reversed(children[number_])
    return ordered


def _rewards(trace: Mapping[str, Any]) -> tuple[float | None, dict[str, float | None] | None]:
    """Total and components, each score times its weight; unknown where scoring did not run."""
    found: dict[str, float | None] = {}
    for name, value in mapping(trace.get("rewards")).items():
        if isinstance(value, dict):
            score, weight = number(value.get("score")), number(value.get("weight", 1.0))
            found[name] = None if score is None or weight is None else score * weight
        else:
            found[name] = number(value)
    known = [value for value in found.values() if value is not None]
    return (sum(known) if known else None), found or None


def _task(episode: Mapping[str, Any], trace: Mapping[str, Any]) -> str | None:
    """The task's name, with the beginning of its content's hash, since names need not be unique."""
    task = mapping(trace.get("task")) or mapping(episode.get("task"))
    data = mapping(task.get("data"))
    key = text(task.get("key")) or text(task.get("hash"))
    name = text(data.get("name")) or text(data.get("idx"))
    return " ".join(part for part in (name, key[:8] if key else None) if part) or None


def _said(episode: Mapping[str, Any], trace: Mapping[str, Any], name: str) -> str | None:
    """What the task's own data says under a name."""
    task = mapping(trace.get("task")) or mapping(episode.get("task"))
    return text(mapping(task.get("data")).get(name))


def _prompt(nodes: Sequence[Mapping[str, Any]], trace: Mapping[str, Any]) -> str | None:
    given: list[object] = []
    for node in nodes:
        if node.get("sampled") is True:
            break
        given.append(node.get("message"))
    return texts(given) if given else texts(mapping(mapping(trace.get("task")).get("data")).get("prompt"))


def _advantage(trace: Mapping[str, Any], sampled: Sequence[Mapping[str, Any]]) -> float | None:
    """The scalar that prime-rl writes, else the mean of the tokens' advantages that are not 0."""
    said = number(mapping(trace.get("info")).get("advantage"))
    values = _per_token(sampled, "advantages")
    if said is not None or not values:
        return said
    credited = [value for value in values if value]
    return sum(credited) / len(credited) if credited else 0.0


def _per_token(sampled: Sequence[Mapping[str, Any]], name: str) -> list[float] | None:
    """Values of the sampled tokens, node after node; None where a node has none of them."""
    found: list[float] = []
    for node in sampled:
        values = node.get(name)
        if not isinstance(values, list) or (not values and node.get("token_ids")):
            return None
        found += [value for value in values if isinstance(value, int | float)]
    return found or None


def _prompt_tokens(calls: Sequence[Mapping[str, Any]]) -> int | None:
    for call in calls:
        usage = mapping(call.get("usage"))
        tokens = integer(usage.get("prompt_tokens"))
        if tokens is not None:
            return tokens + (integer(usage.get("cached_input_tokens")) or 0)
    return None


def _completion_tokens(
    trace: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], sampled: Sequence[Mapping[str, Any]]
) -> int | None:
    said = integer(trace.get("num_output_tokens"))
    if said is not None:
        return said
    used = [integer(mapping(call.get("usage")).get("completion_tokens")) for call in calls]
    known = [tokens for tokens in used if tokens is not None]
    if known:
        return sum(known)
    masks = [node["mask"] for node in sampled if isinstance(node.get("mask"), list)]
    return sum(mask.count(True) for mask in masks) if any(masks) else None


def _truncated(trace: Mapping[str, Any], answered: Mapping[str, Any] | None) -> bool | None:
    """By a limit of the framework, or because the last answer ends for its length."""
    stop = text(trace.get("stop_condition"))
    if stop in LIMITS:
        return True
    reason = text(answered.get("finish_reason")) if answered else None
    if reason is not None:
        return reason == "length"
    return False if answered is None and stop is not None else None


def _termination(trace: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> str | None:
    """The stop condition; where the last call or the whole trace failed, the error's type."""
    errors = mappings(trace.get("errors")) if trace.get("ok") is False else []
    failed = mapping(calls[-1].get("error")) if calls else {}
    error = failed or (errors[-1] if errors else {})
    return text(error.get("type")) or text(trace.get("stop_condition"))


def _time(trace: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> float | None:
    for span in (
        *(call.get("time") for call in reversed(calls)),
        mapping(trace.get("timing")).get("scoring"),
    ):
        if end := timestamp(mapping(span).get("end")):
            return end
    return None


def mapping(value: object) -> dict[str, Any]:
    """A JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """The JSON objects of a list, else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
