"""JSON files that are one value: a list of records, or an object with such a list, with columns, or by step."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import bare, first_fields, head_records, integer, parse
from grpo_top.formats.plain_shapes import has_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A string, which may be cut, or a bracket."""
_CLOSED_BY = {"[": "]", "{": "}"}
_STEP_KEY = re.compile(r"(?:step|iter|iteration|global_step)?[-_ ]?(?P<step>\d{1,9})", re.IGNORECASE)


def is_document(path: PurePath, head: bytes) -> bool:
    """Whether a file is one JSON value: a list, or an object that goes on over lines or is all there is."""
    start = bare(head[:256])
    if start.startswith(b"["):
        return bool(re.match(rb"\[\s*[{\]]", start))
    if not start.startswith(b"{"):
        return False
    name = path.name.lower().removesuffix(".gz")
    return name.endswith(".json") and len(head_records(head)) < 2


def is_lone_row(head: bytes, records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a file holds no more than one row: settings and results are such as well."""
    return bare(head[:256]).startswith(b"{") and len(records) < 2 and not any(map(has_parts, records))


@lru_cache(maxsize=4)
def document_records(head: bytes) -> tuple[Mapping[str, Any], ...]:
    """The first records of a file, of which `head` is the beginning."""
    value, cut = document(head)
    records = records_in(value)
    return tuple(records[: -1 if cut and len(records) > 1 else None][:5])


def long_record(head: bytes) -> dict[str, Any] | None:
    """The record that a file begins with, as far as the head goes; None where it is whole, or no object.

    What is cut has None.
    """
    if not bare(head[:256]).startswith(b"{"):
        return None
    value, cut = document(bare(head))
    if not cut:
        return None
    seen = first_fields(bare(head).decode("utf-8", "replace"))
    return seen | value if isinstance(value, dict) else seen or None


def document(data: bytes) -> tuple[Any, str]:
    """The value of a file and, where its end is missing or broken, why; then the value is as far as it goes."""
    try:
        return parse(data), ""
    except ValueError as error:
        text = data.decode("utf-8", "replace")
        try:
            return parse(_mended(text).encode()), str(error)
        except ValueError:
            return None, str(error)


def _mended(text: str) -> str:
    """The text up to the end of the last object or list in it that is whole, and all that is open closed."""
    open_: list[str] = []
    end, still = 0, ""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in _CLOSED_BY:
            open_.append(_CLOSED_BY[mark])
        elif open_ and mark == open_[-1]:
            open_.pop()
            end, still = token.end(), "".join(reversed(open_))
        elif mark in "]}":
            break
    return text[:end] + still


def records_in(value: Any) -> Sequence[Mapping[str, Any]]:
    """The records that a file's value holds; empty where it holds none."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    if not isinstance(value, dict) or not value:
        return []
    if (by_step := _by_step(value)) is not None:
        return by_step
    if set(value) == {"columns", "data"}:
        return _table(value)
    return [_columns_of_frames(value)] if has_parts(_columns_of_frames(value)) else [value]


def _by_step(value: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """`{"1": {…}, "2": [{…}, …]}` as records with their steps."""
    found: list[Mapping[str, Any]] = []
    for key, inner in value.items():
        match = _STEP_KEY.fullmatch(key)
        items = inner if isinstance(inner, list) else [inner]
        if match is None or not all(isinstance(item, dict) for item in items):
            return None
        found += [{"step": int(match["step"])} | item for item in items]
    return found


def _table(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """`{"columns": [names], "data": [rows]}`, as W&B and pandas write tables."""
    columns, rows = value["columns"], value["data"]
    if not isinstance(columns, list) or not isinstance(rows, list):
        return []
    whole = [row for row in rows if isinstance(row, list) and len(row) == len(columns)]
    return [dict(zip(map(str, columns), row, strict=True)) for row in whole]


def _columns_of_frames(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """`{"step": {"0": 1, "1": 2}, …}`, as pandas writes columns, as lists."""
    keys = [tuple(inner) if isinstance(inner, dict) else None for inner in value.values()]
    first = keys[0]
    if not first or any(other != first for other in keys) or any(integer(key) is None for key in first):
        return value
    return {name: list(inner.values()) for name, inner in value.items()}
