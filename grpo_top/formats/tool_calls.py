"""Whether the tool calls in a completion can be read: `<tool_call>` tags around JSON, as Hermes and Qwen write them."""

from __future__ import annotations

import re

import orjson

_OPEN = "<tool_call>"
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.DOTALL)


def tool_calls_parse(completion: str | None) -> bool | None:
    """Whether every tool call in a text is one JSON object with a name; None where the text calls none."""
    if completion is None or _OPEN not in completion:
        return None
    return all(map(_is_call, _CALL.findall(completion)))


def _is_call(body: str) -> bool:
    try:
        call = orjson.loads(body.strip())
    except orjson.JSONDecodeError:
        return False
    return isinstance(call, dict) and isinstance(call.get("name"), str)
