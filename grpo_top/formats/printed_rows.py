"""Steps that loops of their own print on one line each, in whatever manner: pairs, or a JSON object.

`step 3/30 | reward 0.5 | kl 0.01`, `step=3 reward=0.5 kl=0.01`, `Step 3: loss: 0.1, reward: 0.5`, `{"step": 3, …}`
after a time and a level. A line counts where it names its step and, among its numbers, one that is known by name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grpo_top.formats.decode import integer, number, numbers, parse
from grpo_top.formats.names import canonical
from grpo_top.formats.plain_names import STEP_NAMES
from grpo_top.formats.plain_shapes import numbers_within

if TYPE_CHECKING:
    from collections.abc import Mapping

_STEP = re.compile(
    r"\b(?:(?:global|train|training|trainer|optimizer|update|grpo|rl)[ _]?)?(?:step|iteration|iter|update)"
    r"\s{0,3}(?:#|no\.?)?\s{0,3}[:=#]?\s{0,3}\[?\s{0,6}(?P<step>\d{1,12})(?:\s{0,3}(?:/|of)\s{0,3}\d{1,12})?\]?",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"(?:^|[\s|,;:\[({-])(?P<key>[A-Za-z][\w./@()-]{0,60}(?: [A-Za-z][\w./()-]{0,30}){0,3}?)"
    r"(?:\s{0,6}[:=]\s{0,6}|\s{1,6})"
    r"(?P<value>[-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,4})?|[-+]?nan|[-+]?inf)(?![\w./:%-]*[\w%])",
)
_BAR = re.compile(
    r"\d{1,3}%\|[^|]{0,400}\|\s{0,9}(?P<step>\d{1,12})/\d{1,12} \[[^\]]{0,80}?(?:it/s|s/it|\?it/s)(?=, )"
)
"""A progress bar with numbers after its speed."""
_EVALUATION = re.compile(r"\b(?:eval|evaluat(?:ion|ing|ed?)|val|validation|test)\b", re.IGNORECASE)
_LONGEST = 4_000
"""Longer lines are printed samples."""


def printed_row(text: str) -> tuple[int, dict[str, float | None], bool] | None:
    """The step, the numbers that a line gives, and whether it is of an evaluation; None where none are known."""
    if len(text) > _LONGEST:
        return None
    found = _of_json(text) or _of_pairs(text)
    if found is None or not _tells(found[1]):
        return None
    begin = text.find("{") if text.endswith("}") else -1
    return *found, _EVALUATION.search(text, 0, begin if begin >= 0 else len(text)) is not None


def _of_json(text: str) -> tuple[int, dict[str, float | None]] | None:
    begin = text.find('{"')
    end = text.rfind("}")
    if begin < 0 or end < begin:
        return None
    try:
        value = parse(text[begin : end + 1].encode())
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    row = dict(numbers_within(value))
    name = next((name for name in STEP_NAMES if integer(row.get(name)) is not None), None)
    step = _STEP.search(text[:begin]) if name is None else None
    at = integer(row.pop(name)) if name is not None else int(step["step"]) if step is not None else None
    return None if at is None else (at, numbers(row))


def _of_pairs(text: str) -> tuple[int, dict[str, float | None]] | None:
    step = _BAR.search(text) or _STEP.search(text)
    if step is None:
        return None
    row = {pair["key"].strip(): number(pair["value"]) for pair in _PAIR.finditer(text, step.end())}
    return int(step["step"]), row


def _tells(row: Mapping[str, float | None]) -> bool:
    """Whether at least two numbers are there, and one of them is known by name."""
    return len(row) > 1 and any(canonical(None, name) for name in row)
