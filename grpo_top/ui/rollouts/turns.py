"""A rollout as turns: who speaks, what is said, which tools are called, and what is wrong with a call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.records import Message, Rollout

POLICY = "policy"
"""What the screen calls the model that is trained; logs call it `assistant`."""


class Call(NamedTuple):
    """One tool call of the policy."""

    name: str
    arguments: str
    """As the policy wrote them."""
    id: str = ""
    problem: str = ""
    """What is wrong with the arguments, where they should be JSON and are not."""

    def in_one_line(self) -> str:
        """`multiply(9, 20)`: the values alone where the arguments are valid."""
        if self.problem:
            return f"{self.name}: invalid JSON"
        try:
            values = json.loads(self.arguments) if self.arguments else {}
        except ValueError:
            return f"{self.name}({self.arguments})"
        if isinstance(values, dict):
            return f"{self.name}({', '.join(map(_value, values.values()))})"
        return f"{self.name}({_value(values)})"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation, or a prompt, or a completion."""

    who: str
    """`user`, `policy`, `tool`, `system`, … as the log's role says, `policy` for `assistant`."""
    text: str
    number: int | None = None
    """From 1; None for what stands before the policy's first word."""
    calls: tuple[Call, ...] = ()
    answers: Call | None = None
    """The call that a tool's turn answers."""
    reward: float | None = None

    @property
    def policy(self) -> bool:
        """Whether the trained model wrote it."""
        return self.who == POLICY


def turns_of(rollout: Rollout) -> list[Turn]:
    """The turns of a conversation, else the prompt and the completion as two."""
    if rollout.messages:
        return _conversation(list(rollout.messages))
    turns = []
    if rollout.prompt is not None:
        turns.append(Turn("user", rollout.prompt))
    if rollout.completion is not None:
        turns.append(Turn(POLICY, rollout.completion, 1))
    return turns


def _conversation(messages: list[Message]) -> list[Turn]:
    turns: list[Turn] = []
    number = 0
    open_calls: list[Call] = []
    for message in messages:
        who = POLICY if message.role == "assistant" else message.role or "unnamed"
        calls = tuple(call for raw in message.tool_calls if (call := _call(raw)) is not None)
        number += 1 if number or who == POLICY else 0
        answers = open_calls.pop(0) if who == "tool" and open_calls else None
        open_calls += calls
        turns.append(Turn(who, message.content, number or None, calls, answers, message.reward))
    return turns


def _call(raw: Mapping[str, Any]) -> Call | None:
    """A call as the chat APIs write it (`{id, function: {name, arguments}}`), or flat (`{name, arguments}`)."""
    inner = raw.get("function")
    function = inner if isinstance(inner, dict) else raw
    name, arguments = function.get("name"), function.get("arguments")
    if name is None and arguments is None:
        return None
    id_ = raw.get("id")
    written = (
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    )
    if arguments is None:
        written = ""
    problem = _problem(written) if isinstance(arguments, str) else ""
    return Call(str(name or "unnamed"), written, "" if id_ is None else str(id_), problem)


def _problem(arguments: str) -> str:
    """What keeps a text from being JSON, in words; empty where it is."""
    if not arguments.strip():
        return ""
    try:
        json.loads(arguments)
    except json.JSONDecodeError as error:
        if error.pos >= len(arguments.rstrip()):
            return f"the arguments are not valid JSON: they end at character {len(arguments.rstrip())}"
        return f"the arguments are not valid JSON: {error.msg.lower()} at character {error.pos + 1}"
    except (ValueError, RecursionError):
        return "the arguments are not JSON that can be read"
    return ""


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
