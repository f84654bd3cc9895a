"""Conversations as the chat APIs write them: lists of `{role, content, tool_calls}`."""

from __future__ import annotations

from grpo_top.formats.decode import number, text, written
from grpo_top.records import Message


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
    calls = turn.get("tool_calls")
    return Message(
        text(turn.get("role")) or "",
        content_text(turn.get("content")),
        [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else (),
        number(turn.get("reward")),
    )


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
