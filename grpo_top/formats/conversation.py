"""Conversations as the chat APIs write them: lists of `{role, content, tool_calls}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import number, parse, text, written
from grpo_top.records import Message
from grpo_top.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Sequence


def conversation(*parts: object) -> list[Message] | None:
    """The turns of a prompt and a completion, each a list of messages or a string; None where there is none."""
    turns: list[object] = []
    for position, part in enumerate(parts):
        if isinstance(part, list):
            turns += part
        elif isinstance(part, str):
            turns.append({"role": "assistant" if position else "user", "content": part})
    return [message for turn in turns if (message := as_message(turn))] or None


def as_message(turn: object) -> Message | None:
    """One turn, or None where it is none."""
    if not isinstance(turn, dict):
        return None
    content = content_text(turn.get("content"))
    reasoning = turn.get("reasoning_content") or turn.get("reasoning")
    if isinstance(reasoning, str) and reasoning and reasoning not in content:
        content = f"<think>\n{reasoning}\n</think>\n{content}"
    return Message(
        text(turn.get("role")) or "", content, _tool_calls(turn.get("tool_calls")), number(turn.get("reward"))
    )


def _tool_calls(calls: object) -> Sequence[dict[str, Any]]:
    """The calls of a turn: objects, or JSON in strings, each for itself or all of them in one."""
    calls = _unquoted(calls)
    if not isinstance(calls, list):
        return ()
    return [call for quoted in calls if isinstance(call := _unquoted(quoted), dict)]


def _unquoted(value: object) -> object:
    try:
        return parse(value.encode()) if isinstance(value, str) else value
    except ValueError:
        return None


def spoken(message: Message) -> str:
    """All that a turn says: its text, and the tools that it calls as `name(arguments)`, a line each."""
    calls = (
        call["function"] if isinstance(call.get("function"), dict) else call for call in message.tool_calls
    )
    lines = [f"{call.get('name')}({written(call.get('arguments')) or ''})" for call in calls]
    return "\n".join([message.content, *lines] if message.content or not lines else lines)


def texts(turns: object) -> str | None:
    """A prompt or completion as one text: the contents of its messages, a line each; a string as it is."""
    if not isinstance(turns, list):
        return text(turns)
    return "\n".join(content_text(turn.get("content")) for turn in turns if isinstance(turn, dict))


def content_text(content: object) -> str:
    """The text of a message's content: a string, a list of typed parts, or nothing (a mere tool call)."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_part_text, content))
    return written(content) or ""


def _part_text(part: object) -> str:
    if isinstance(part, dict):
        if isinstance(part.get("text"), str):
            return str(part["text"])
        return f"[{part['type']}]" if isinstance(part.get("type"), str) else ""
    return part if isinstance(part, str) else ""


def task_name(name: str | None, prompt: str | None) -> str | None:
    """A task's name made unique by a hash of what is asked, since data sets count from 0 each; None without a name."""
    return name if name is None or prompt is None else f"{name} {text_hash(prompt) & 0xFFFFFFFF:08x}"
