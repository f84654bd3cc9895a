"""What the tests of the browser and of the replay share: snapshots of recorded runs, and screens as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from textual.widgets import Input

from grpo_top.config import Settings
from grpo_top.demo.recordings import find
from grpo_top.monitor import Monitor
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.glyphs import UNICODE
from grpo_top.ui.screens.replay import ReplayScreen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from textual.pilot import Pilot
    from textual.screen import Screen

    from grpo_top.snapshot import Snapshot

NOON = 1_700_000_000.0


def recorded(directory: Path, name: str, last_step: int) -> Snapshot:
    """A recorded run up to a step, read to its end."""
    records = [orjson.loads(line) for line in find(name).lines()]
    return read(directory, [record for record in records if record.get("step", 0) <= last_step])


def read(directory: Path, records: Iterable[dict[str, Any]]) -> Snapshot:
    """A log of these records, read to its end."""
    (directory / "rollouts.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    monitor = Monitor([str(directory)], Settings(), clock=lambda: NOON)
    monitor.read_all()
    return monitor.snapshot(finished=True)


def row_of(snapshot: Snapshot, step: int, group: str, index: int) -> int:
    """The row of a train rollout."""
    batch = snapshot.batch(step)
    assert batch is not None
    labels = np.array([batch.group_label(number) for number in range(batch.groups)])
    wanted = (labels[batch.group] == group) & (batch.column("index") == index)
    return int(batch.rows[wanted][0])


class Shown(GrpoTop):
    """The app with one screen over the monitor."""

    def __init__(self, snapshot: Snapshot, screen: Callable[[], Screen[None]], **options: Any) -> None:
        super().__init__(snapshot, clock=lambda: NOON, **{"glyphs": UNICODE, **options})
        self._first = screen

    def on_mount(self) -> None:
        super().on_mount()
        self.push_screen(self._first())


def tool_records() -> list[dict[str, Any]]:
    """One group of an agent that may call a tool; the third one's call is cut off."""
    run = {
        "kind": "run",
        "schema": "grpo-top/1",
        "run": "tiny_math",
        "framework": "verifiers",
        "group_size": 4,
        "sampling": {"temperature": 1.0, "max_tokens": 40},
    }
    attempts = [
        ('{"a": 9, "b": 20}', "180", "The result is <answer>180</answer>", 1.25, "180"),
        ('{"a": 9, "b": 21}', "189", "The result is <answer>189</answer>", 0.8, "189"),
        (
            '{"a": 9, "b": ',
            "Expecting value: line 1 column 15",
            "The result is <answer>1</answer>",
            0.25,
            "1",
        ),
        (None, None, "It is <answer>179</answer>", 1.2, "179"),
    ]
    rollouts = []
    for index, (arguments, says, last, reward, raw) in enumerate(attempts):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "What is 9 * 20?"}]
        if arguments is not None:
            function = {"name": "multiply", "arguments": arguments}
            calls = [{"id": f"call_{index}", "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages.append({"role": "tool", "content": says})
        messages.append({"role": "assistant", "content": last})
        rollouts.append(
            {
                "kind": "rollout",
                "step": 1,
                "group": "task-0",
                "index": index,
                "messages": messages,
                "reward": reward,
                "rewards": {"closeness": reward - 0.25},
                "verifier": {"raw": raw, "error": None},
                "parsed": True,
                "completion_tokens": 22,
                "termination": "no_tools_called",
            }
        )
    return [run, *rollouts, {"kind": "step", "step": 1, "metrics": {"loss": 0.1}}]


def replay(
    snapshot: Snapshot, step: int, group: str, index: int, rows: tuple[int, ...] = (), **options: Any
) -> Shown:
    row = row_of(snapshot, step, group, index)
    return Shown(snapshot, lambda: ReplayScreen(row, rows or (row,)), **options)


def cold_replay(cold: Snapshot, **options: Any) -> Shown:
    return replay(cold, 110, "110t-3", 1, **options)


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until texts that were asked for have been read and drawn."""
    await pilot.pause()
    for _ in range(20):
        if not pilot.app.workers:
            break
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()


async def shown(pilot: Pilot[Any], *keys: str) -> list[str]:
    """The screen's lines after some keys."""
    await settled(pilot)
    if keys:
        await pilot.press(*keys)
        await settled(pilot)
    return lines(pilot)


async def filtered(pilot: Pilot[Any], text: str) -> list[str]:
    """The screen's lines after a filter was written."""
    await pilot.press("slash")
    pilot.app.screen.query_one(Input).value = text
    return await shown(pilot, "enter")


def lines(pilot: Pilot[Any]) -> list[str]:
    """The screen as lines of text: what each widget draws, at its place."""
    screen = pilot.app.screen
    width, height = screen.size
    canvas = [[" "] * width for _ in range(height)]
    for widget in screen.walk_children():
        if widget.children or not widget.display or not widget.is_on_screen:
            continue
        region = widget.region
        for y in range(region.height):
            text = widget.render_line(y).text
            for x, character in enumerate(text[: region.width]):
                if region.y + y < height and region.x + x < width:
                    canvas[region.y + y][region.x + x] = character
    return ["".join(row) for row in canvas]


def line_with(screen: list[str], *words: str) -> str:
    """The first line that holds all of these words."""
    found = [line for line in screen if all(word in line for word in words)]
    assert found, (words, screen)
    return found[0]
