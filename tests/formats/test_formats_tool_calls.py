"""Tool calls in a completion's text: whether they can be read, and that a text without one says nothing."""

from __future__ import annotations

import json

import pytest
from runs import read

from grpo_top.formats.tool_calls import tool_calls_parse

GOOD = '<tool_call>\n{"name": "lookup", "arguments": {"q": "wagon"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "parses"),
    [
        (GOOD, True),
        (f"I look it up. {GOOD} found 207 {GOOD}", True),
        (None, None),
        ("the answer is 4", None),
        ('<tool_call>{"name": "lookup", "arguments": {"q": "lantern}</tool_call>', False),
        ('<tool_call>{"tool": "lookup"}</tool_call>', False),
        ("<tool_call>lookup(saddle)</tool_call>", False),
        ('<tool_call>{"name": "a"} {"name": "b"}</tool_call>', False),
        ('<tool_call>{"name": "lookup", "arg', False),
        (f"{GOOD}<tool_call>[]</tool_call>", False),
    ],
)
def test_a_call_is_one_json_object_with_a_name(text, parses):
    assert tool_calls_parse(text) is parses


def test_verls_dumps_show_calls_that_cannot_be_read_as_parse_failures(tmp_path):
    broken = '<tool_call>{"name": "lookup", "arguments": {"q": "x}</tool_call>'
    rows = [
        {"input": "q", "output": GOOD if index == 0 else broken, "gts": "4", "score": 0.0, "step": 5}
        for index in range(8)
    ]
    path = tmp_path / "rollouts" / "5.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    snapshot = read(tmp_path)
    assert snapshot.series["parse_failure_rate"].values.tolist() == [0.875]
