"""Conversations that a trainer logged to trackio as traces: those of TRL's asynchronous trainer are rollouts.

It logs a handful of the samples of every eighth policy version, with what is known of each: its messages, and as
metadata reward, advantage, group, lengths and the version that sampled it. The step under which they are logged is the
trainer's own policy version, one less than the step that they train.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.conversation import conversation, spoken
from grpo_top.formats.decode import integer, number, numbers, text
from grpo_top.formats.usual import filled
from grpo_top.records import TRAIN, Rollout, Run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.records import Location

FEW = Run(some_rollouts=True)
"""Said before them: they are not all of a step's rollouts."""
_COMPONENT = "rewards/"


def traced_rollout(
    step: int | None, messages: object, metadata: object, location: Location
) -> Rollout | None:
    """The rollout that a trace shows; None where it is another kind of conversation: it has no reward or no step."""
    said: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
    turns = conversation(messages)
    if step is None or "reward" not in said or not turns:
        return None
    asked = next((place for place, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
    components = {
        key.removeprefix(_COMPONENT): value
        for key, value in numbers(said).items()
        if key.startswith(_COMPONENT)
    }
    version = integer(said.get("model_version"))
    rollout = Rollout(
        step=step if version is None else step + 1,
        group=text(said.get("group_id")),
        reward=number(said["reward"]),
        rewards=components or None,
        split=TRAIN,
        prompt="\n".join(turn.content for turn in turns[:asked]),
        completion="\n".join(spoken(turn) for turn in turns[asked:] if turn.role == "assistant"),
        messages=turns,
        policy_version=version,
        trainer_version=None if version is None else step,
        location=location,
    )
    return filled(rollout, said)
