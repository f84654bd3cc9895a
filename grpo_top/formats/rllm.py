"""rLLM: one JSON file an episode, and the metrics of its file logger (verl's shape, its own keys).

Folders are `train_step_12_epoch_0` and `val_step_…`, the latter with the number of the training step before it. An
episode's id is its group's and its number in it. Log-probabilities and weight versions are not written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.conversation import as_message, spoken, task_name, texts
from grpo_top.formats.decode import bare, head_records, integer, number, numbers, parse_record, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.usual import filled
from grpo_top.records import EVAL, TRAIN, Eval, Location, Rollout, Run, Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Message, Record

NAME = "rllm"

_EPISODE = (b'"training_step"', b'"episode_id"')
_SUMMARY = (b'"training_step"', b'"episode_files"')
_FAMILIES = ("batch/", "episode/", "async/", "reward/mean", "groups/", "advantage/", "progress/batch")
"""Beginnings of keys that rLLM logs beside those of the verl that it is built on."""
_CUT = frozenset(("max_response_length_exceeded", "max_prompt_length_exceeded"))
_COUNTS = re.compile(r"(?:.*[_/])?(?:tokens|steps|turns|length|len|time|num|count)(?:[_/].*)?", re.IGNORECASE)
"""Metrics of an episode that count what happened: no part of its reward."""


class Rllm(Format):
    """Reads what rLLM writes."""

    name: ClassVar[str] = NAME
    surest: int = 92
    rollouts_hint: ClassVar[str] = "set rllm.episode_logging.log_episodes=true"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of an episode, or the keys of the metrics."""
        if bare(head[:4096]).startswith(b"{"):
            if all(word in head for word in _EPISODE):
                run = path.parent.parent
                return Claim(92, "whole", "rollouts", f"{NAME} {_split(path)} episodes {run}", 3)
            if path.name == "batch_summary.json" and all(word in head for word in _SUMMARY):
                return Claim(92, "none", "summary", f"{NAME} {path.parent.parent}", 3)
        records = head_records(head)
        if records and all(map(_is_metrics, records)):
            return Claim(92, "lines", "metrics", f"{NAME} metrics {path}", 2)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        return MetricsReader() if claim.role == "metrics" else EpisodeReader(_split(path))


def _split(path: PurePath) -> str:
    return EVAL if path.parent.name.startswith("val") else TRAIN


def _is_metrics(record: Mapping[str, Any]) -> bool:
    data = record.get("data")
    if record.keys() != {"step", "data"} or not isinstance(data, dict):
        return False
    return any(key.startswith(_FAMILIES) for key in data)


class MetricsReader(JsonLinesReader):
    """Reads the file logger's lines, `{"step": 12, "data": {…}}`."""

    def __init__(self) -> None:
        self._announced = False

    def fresh(self) -> MetricsReader:
        """A reader that has read nothing."""
        return MetricsReader()

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """A step, and one evaluation for each data source that was validated with it."""
        step, data = integer(raw.get("step")), raw.get("data")
        if step is None:
            raise ValueError("metrics without a step")
        if not isinstance(data, dict):
            raise ValueError("metrics line without data")
        if not self._announced:
            self._announced = True
            yield Run(framework=NAME)
        metrics = {key: value for key, value in numbers(data).items() if key != "step"}
        trained = {key: value for key, value in metrics.items() if not key.startswith("val/")}
        if trained:
            yield Step(step, trained, location=location)
        suites: dict[str, dict[str, float | None]] = {}
        for key in metrics.keys() - trained.keys():
            suite, _, name = key.removeprefix("val/").partition("/")
            suites.setdefault(suite if name else "heldout", {})[name or suite] = metrics[key]
        for suite, values in sorted(suites.items()):
            yield Eval(step, dict(sorted(values.items())), suite, location=location)


class EpisodeReader(Reader):
    """Reads one episode; each of its trajectories is a rollout, and of several every name is a group of its own."""

    def __init__(self, split: str) -> None:
        self._split = split

    def fresh(self) -> EpisodeReader:
        """A reader that has read nothing."""
        return EpisodeReader(self._split)

    def whole(self, data: bytes) -> list[Record]:
        """The rollouts of the episode."""
        try:
            episode = parse_record(bare(data))
        except ValueError as error:
            return [Skipped(str(error), 0)]
        step = integer(episode.get("training_step"))
        if step is None:
            return [Skipped("episode without a step", 0)]
        return list(_rollouts(episode, step, self._split))

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout of the trajectory `location.part`, from the whole file."""
        found = [record for record in self.whole(data) if isinstance(record, Rollout)]
        return found[location.part] if location.part < len(found) else None


def _rollouts(episode: Mapping[str, Any], step: int, split: str) -> Iterator[Rollout]:
    trajectories = _mappings(episode.get("trajectories"))
    prompt, _, index = (text(episode.get("episode_id")) or "").rpartition(":")
    task, metrics = episode.get("task"), numbers(episode.get("metrics"))
    described: Mapping[str, Any] = task if isinstance(task, dict) else {}
    reason = text(episode.get("termination_reason"))
    alone = len(trajectories) == 1
    components = {name: value for name, value in metrics.items() if not _COUNTS.fullmatch(name)}
    if not components and isinstance(episode.get("is_correct"), bool):
        components["is_correct"] = float(episode["is_correct"])
    for part, trajectory in enumerate(trajectories):
        steps = _mappings(trajectory.get("steps"))
        messages = _conversation(steps)
        answers = [answer for turn in steps if (answer := text(turn.get("model_response"))) is not None]
        spoken_ = [spoken(message) for message in messages if message.role == "assistant"]
        group, asked = prompt or text(episode.get("task_hash")), _prompt(messages, steps)
        rollout = Rollout(
            step=step,
            group=group if alone or group is None else f"{group} {text(trajectory.get('name')) or part}",
            reward=number(trajectory.get("reward")),
            index=integer(index) if alone else None,
            rewards=components or None,
            split=split,
            task=task_name(text(described.get("id")), asked) or text(episode.get("task_hash")),
            family=text(described.get("data_source")),
            tier=text(described.get("tier")) or text(described.get("difficulty")),
            prompt=asked,
            completion="\n".join(spoken_ or answers) if spoken_ or answers else None,
            messages=messages or None,
            prompt_tokens=integer(metrics.get("prompt_tokens")) if alone else None,
            completion_tokens=integer(metrics.get("response_tokens")) if alone else None,
            truncated=None if reason in {None, "unknown"} else reason in _CUT,
            termination=reason,
            location=Location(0, 0, part),
        )
        yield filled(rollout, {name: value for name, value in episode.items() if name != "task"})


def _conversation(steps: list[dict[str, Any]]) -> list[Message]:
    """The turns of a trajectory, each once: a step's messages often begin with all that came before it.

    A step's reward is that of the turn which ends it.
    """
    turns: list[object] = []
    rewards: dict[int, float | None] = {}
    for step in steps:
        seen = step.get("chat_completions")
        if not isinstance(seen, list) or not seen:
            continue
        new = seen[len(turns) :] if seen[: len(turns)] == turns else seen
        turns += new
        rewards[len(turns) - 1] = number(step.get("reward")) if len(steps) > 1 else None
    found = [(as_message(turn), rewards.get(place)) for place, turn in enumerate(turns)]
    return [message._replace(reward=reward) for message, reward in found if message]


def _prompt(messages: list[Message], steps: list[dict[str, Any]]) -> str | None:
    """What came before the first answer, else what the first step observed."""
    given = []
    for message in messages:
        if message.role == "assistant":
            break
        given.append(message.content)
    return "\n".join(given) if given else texts(steps[0].get("observation")) if steps else None


def _mappings(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
