"""Atropos: an environment's file of scored groups, one group a line, and its evaluations.

The file names no step, so groups are counted: `GROUPS_A_STEP` of them, in the order in which they were scored, are
read as one step. Groups whose scores are all equal are not written unless the environment is told to, so that the
share of groups without variance is unknown; a group with an answer as long as the limit is not written either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.atropos_evals import (
    EvaluationReader,
    SamplesReader,
    is_evaluation,
    is_sample,
    note_step,
)
from grpo_top.formats.base import Claim, Format, Reader, RunContext
from grpo_top.formats.conversation import conversation, spoken
from grpo_top.formats.decode import head_records, number
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.records import Rollout, Run, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from grpo_top.records import Location, Message, Record

NAME = "atropos"
GROUPS_A_STEP = 4
"""Few enough to see a change soon, many enough that one hard prompt does not make a step."""

_MASKED = -100
_FIELDS = frozenset(("tokens", "masks", "scores"))


class Atropos(Format):
    """Reads what Atropos' environments write."""

    name: ClassVar[str] = NAME
    surest: int = 90
    rollouts_hint: ClassVar[str] = "start the environment with --env.data_path_to_save_groups FILE.jsonl"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of a scored group; a line is often longer than the head."""
        records = head_records(head)
        if records and all(map(_is_group, records)):
            return Claim(90, "lines", "rollouts", f"{NAME} groups {path}", 3)
        if is_evaluation(head):
            return Claim(90, "whole", "evaluation", f"{NAME} evaluations {path.parent}", 4)
        if path.name == "samples.jsonl" and records and all(map(is_sample, records)):
            return Claim(70, "lines", "samples", f"{NAME} evaluations {path.parent}", 4, anew=True)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        match claim.role:
            case "evaluation":
                return EvaluationReader(context)
            case "samples":
                return SamplesReader(context)
            case _:
                return GroupsReader(path.stem, context)


def _is_group(record: Mapping[str, Any]) -> bool:
    whole = record.keys() >= _FIELDS
    cut = None in record.values() and next(iter(record)) == "tokens" and len(record) < len(_FIELDS)
    return whole or cut


class GroupsReader(JsonLinesReader):
    """Reads scored groups."""

    note = f"names no step: {GROUPS_A_STEP} groups are read as one; groups without variance are not written"

    def __init__(self, name: str, context: RunContext) -> None:
        self._name = name
        self._context = context
        self._groups = 0
        self._drops_flat: bool | None = None

    def fresh(self) -> GroupsReader:
        """A reader that has read nothing."""
        return GroupsReader(self._name, RunContext())

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """What the file leaves out, where that is new, and the rollouts of one group; `location.part` counts them."""
        scores = raw.get("scores")
        if not isinstance(scores, list):
            raise ValueError("group without scores")
        rewards = [number(score) for score in scores]
        drops_flat = self._drops_flat is not False and len(set(rewards)) > 1
        if drops_flat != self._drops_flat:
            self._drops_flat = drops_flat
            yield Run(framework=NAME, drops_flat_groups=drops_flat)
        group, self._groups = self._groups, self._groups + 1
        note_step(self._context, group // GROUPS_A_STEP + 1)
        for part, reward in enumerate(rewards):
            rollout = _rollout(raw, part)
            yield rollout._replace(
                step=group // GROUPS_A_STEP + 1,
                group=f"{self._name} {group + 1}",
                reward=reward,
                index=part,
                location=location._replace(part=part),
            )


def _rollout(raw: Mapping[str, Any], part: int) -> Rollout:
    """One rollout of a group, without what its place says."""
    turns = conversation(_of(raw, "messages", part)) or []
    mask = [value != _MASKED for value in _of(raw, "masks", part) or ()]
    answers = [turn for turn in turns if turn.role == "assistant"]
    advantages = [value for value in _of(raw, "advantages", part) or () if isinstance(value, int | float)]
    credited = [value for value in advantages if value]
    return Rollout(
        step=0,
        group=None,
        reward=None,
        prompt=_prompt(turns) if answers else None,
        completion="\n".join(map(spoken, answers or turns)) if turns else None,
        messages=turns or None,
        advantage=(sum(credited) / len(credited) if credited else 0.0) if advantages else None,
        prompt_tokens=mask.index(True) if True in mask else None,
        completion_tokens=sum(mask) if mask else None,
        sampling=normal_sampling(raw["generation_params"])
        if isinstance(raw.get("generation_params"), dict)
        else None,
        logprobs_sampler=_sampled(_of(raw, "inference_logprobs", part), mask),
    )


def _of(raw: Mapping[str, Any], name: str, part: int) -> list[Any] | None:
    """The list that a field holds for one rollout of the group."""
    values = raw.get(name)
    found = values[part] if isinstance(values, list) and part < len(values) else None
    return found if isinstance(found, list) else None


def _prompt(turns: list[Message]) -> str:
    given = []
    for turn in turns:
        if turn.role == "assistant":
            break
        given.append(turn.content)
    return "\n".join(given)


def _sampled(values: list[Any] | None, mask: list[bool]) -> list[float] | None:
    """Log-probabilities of the sampled tokens; those of the prompt are filled up with 1."""
    if values is None or len(values) != len(mask):
        return None
    kept = [value for value, sampled in zip(values, mask, strict=True) if sampled]
    return [float(value) for value in kept if isinstance(value, int | float)] or None
