"""Where hand scores are kept: JSON lines in the user's state directory, never in a run directory."""

from __future__ import annotations

import errno
import math
import os
from typing import TYPE_CHECKING, Any

import orjson

from grpo_top.grades import HandScore
from grpo_top.user_folders import user_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_NAME = "hand-scores.jsonl"


class GradeStore:
    """One file for all runs; a line is added for each score, and of two that are of one rollout the later one holds.

    Args:
        path: the file; None takes the user's own.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or user_folder("state") / FILE_NAME

    def load(self) -> list[HandScore]:
        """What has been kept; lines that cannot be read are passed over, and a file that cannot be read holds none."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return []
        return list(_scores(data))

    def keep(self, score: HandScore) -> str:
        """Add a score; why it could not be kept, else empty."""
        line = orjson.dumps(score._asdict())
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                end = file.tell()
                if file.write(line + b"\n") > len(line):
                    return ""
                file.truncate(end)  # half a line would spoil the next one
        except OSError as error:
            return f"{self.path}: {error.strerror or error}"
        return f"{self.path}: {os.strerror(errno.ENOSPC)}"


def _scores(data: bytes) -> Iterator[HandScore]:
    for line in data.splitlines():
        try:
            raw = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        score = _score(raw) if isinstance(raw, dict) else None
        if score is not None:
            yield score


def _score(raw: dict[str, Any]) -> HandScore | None:
    content, step, index, score = (raw.get(name) for name in ("content", "step", "index", "score"))
    known = isinstance(content, str) and type(step) is int and type(index) is int
    if not known or not (score is None or _is_number(score)):
        return None
    words = {name: raw.get(name) for name in ("run", "group", "note")}
    run, group, note = (value if isinstance(value, str) else "" for value in words.values())
    time = raw.get("time")
    return HandScore(
        run,
        str(content),
        int(step),  # type: ignore[arg-type]  # seen above to be one
        group,
        int(index),  # type: ignore[arg-type]  # the same
        None if score is None else float(score),
        note,
        float(time) if _is_number(time) else None,  # type: ignore[arg-type]  # the same
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
