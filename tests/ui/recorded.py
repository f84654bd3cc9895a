"""Recorded runs for the screens' tests: cut at a step, with fields left out, and what a screen shows as lines."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from grpo_top.config import Settings
from grpo_top.demo.recordings import find
from grpo_top.monitor import Monitor
from grpo_top.ui.app import GrpoTop

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

PLANNED = 120


def log(name: str, until: int = 110, without: tuple[str, ...] = ()) -> bytes:
    """A recording up to a step, its steps without some of the trainer's metrics."""
    kept = []
    for line in find(name).lines():
        record = orjson.loads(line)
        if record.get("step", 0) > until:
            continue
        if record["kind"] == "run":
            record["total_steps"] = PLANNED
        for metric in without:
            record.get("metrics", {}).pop(metric, None)
        kept.append(orjson.dumps(record))
    return b"\n".join(kept) + b"\n"


@lru_cache(maxsize=16)
def snapshot(name: str, until: int = 110, without: tuple[str, ...] = ()) -> Snapshot:
    """The picture of a recording up to a step."""
    directory = Path(tempfile.mkdtemp(prefix="grpo-top-test-"))
    (directory / "rollouts.jsonl").write_bytes(log(name, until, without))
    monitor = Monitor([str(directory)], Settings())
    monitor.read_all()
    return monitor.snapshot()


def still(name: str, until: int = 110, without: tuple[str, ...] = (), **options) -> GrpoTop:
    """An app that shows a recording up to a step, 0.3 seconds after its last record."""
    picture = snapshot(name, until, without)
    return GrpoTop(picture, clock=lambda: (picture.last_record_time or 0) + 0.3, **options)


def lines(app: GrpoTop) -> list[str]:
    """What the screen shows."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def line_with(app: GrpoTop, text: str) -> str:
    """The first line that holds a text; empty where none does."""
    return next((line for line in lines(app) if text in line), "")
