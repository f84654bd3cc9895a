"""What it costs to look at rollouts: lists over a million of them, texts in a file of 5 GB, and a search through it."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.records import Rollout
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.rollouts.browse import Browse
from grpo_top.ui.rollouts.filters import parse
from grpo_top.ui.rollouts.search import Search
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.replay import ReplayScreen
from tests.bench.figures import Figure
from tests.bench.inputs import RUN, Texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from grpo_top.snapshot import Snapshot

SIZE = (160, 45)
TEXT = 20_000
"""Characters of a completion in the large file."""
TEXTS = 5
"""Long texts that are opened."""


def browser(folder: Path, quick: bool) -> list[Figure]:
    """A history of 1,000,000 rollouts in 125,000 groups."""
    sys.path.append(str(Path(__file__).parent.parent / "ui"))
    from long_history import long_history  # noqa: PLC0415

    snapshot = long_history(3125)
    detail = f"{snapshot.rollouts.length:,} rollouts, {snapshot.groups.length:,} groups"
    lists = _quickest(lambda: Browse(snapshot), 5)
    evidence = _quickest(lambda: Browse(snapshot, tuple(range(900_000, 900_050))), 5)
    browse = Browse(snapshot)
    narrowed = _quickest(lambda: browse.narrow(parse("reward<0.5 truncated")), 3)
    tracemalloc.start()
    kept = Browse(snapshot)
    memory = tracemalloc.get_traced_memory()[1]
    kept.narrow(parse("reward<0.5 dup"))
    filtered = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    opened, key = asyncio.run(_screen_times(snapshot, 5 if quick else 9))
    return [
        Figure("browser over a million rollouts: its lists made", lists * 1e3, "ms", 50.0, detail),
        Figure(
            "browser over a million rollouts: opened, to its first rows",
            opened * 1e3,
            "ms",
            100.0,
            "the screen put up and drawn; median",
        ),
        Figure(
            "browser over a million rollouts: a key",
            key * 1e3,
            "ms",
            50.0,
            "the next step, its groups and rollouts drawn; median",
        ),
        Figure(
            "browser over a million rollouts: lists of a finding's evidence",
            evidence * 1e3,
            "ms",
            100.0,
            "50 rollouts of it",
        ),
        Figure(
            "browser over a million rollouts: a filter over all",
            narrowed * 1e3,
            "ms",
            None,
            "with every key in its line",
        ),
        Figure(
            "browser over a million rollouts: memory to open it",
            memory / 1e6,
            "MB",
            8.0,
            f"{filtered / 1e6:.0f} MB with a filter",
        ),
    ]


def large_file(folder: Path, quick: bool) -> list[Figure]:
    """A log of 5 GB."""
    log = folder / "rollouts.jsonl"
    _write(log, 6_000 if quick else 250_000)
    size = log.stat().st_size
    monitor = Monitor([str(log)], Settings())
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    rows = list(range(snapshot.rollouts.length - 1, 0, -snapshot.rollouts.length // 60))
    times = [_quickest(lambda row=row: _text(snapshot, row), 1) for row in rows]  # type: ignore[misc]
    keys = 10 if quick else 20
    key = asyncio.run(_text_times(snapshot, keys))
    detail = f"{snapshot.rollouts.length:,} rollouts in {size / 1e9:.1f} GB"
    found = [
        Figure(
            "any rollout's text, read",
            max(times) * 1e3,
            "ms",
            50.0,
            f"the slowest of {len(times)}; {detail}",
            unlike="too small a file to tell" if quick else "",
        ),
        Figure(
            "any rollout's text, from the key to the screen",
            key * 1e3,
            "ms",
            50.0,
            f"the next rollout in the browser; median of {keys}",
        ),
    ]
    for what, text in (
        ("a word that is nowhere", "zzqzz"),
        ("a word that a few hold", "needle"),
        ("a pattern without letters", r"/\d{9}/"),
    ):
        every = np.arange(snapshot.rollouts.length)
        if text.startswith("/"):
            every = every[-2_000 if quick else -10_000 :]
        search = Search(parse(text).texts, every, snapshot)
        search.run(lambda *_: None)
        progress = search.progress
        speed = progress.size / 1e6 / progress.seconds
        detail = f"{speed:,.0f} MB/s; {progress.hits:,} found in {progress.size / 1e9:.2f} GB"
        found.append(
            Figure(f"search: {what}", progress.seconds / (progress.size / 1e9), "s/GB", None, detail)
        )
    log.unlink()
    return found


def long_text(folder: Path, quick: bool) -> list[Figure]:
    """Texts of 600 kB and of 10 MB, opened: others each time."""
    chance = random.Random(5)
    line = Texts(chance).completion(7)
    figures = []
    for name, size in (("600 kB", 600_000), ("10 MB", 10_000_000)):
        text = (line * (size // len(line) + 1))[:size]
        log = folder / "rollouts.jsonl"
        log.write_bytes(
            b"".join(
                orjson.dumps(one) + b"\n" for one in _records(1, lambda index, text=text: f"{text}{index}")
            )
        )
        monitor = Monitor([str(log)], Settings())
        monitor.read_all()
        snapshot = monitor.snapshot(finished=True)
        read = _quickest(lambda snapshot=snapshot: _text(snapshot, 1), 5)  # type: ignore[misc]
        opened = asyncio.run(_replay_times(snapshot))
        detail = f"from enter to its first rows; median of {TEXTS}; {read * 1e3:.0f} ms to read it"
        figures.append(Figure(f"a text of {name}, opened", opened * 1e3, "ms", 100.0, detail))
        log.unlink()
    return figures


# ---- inside


def _quickest(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def _text(snapshot: Snapshot, row: int) -> str:
    found = snapshot.read(row)
    if not isinstance(found, Rollout) or found.completion is None:
        raise TypeError(found)
    return found.completion


def _records(steps: int, text: Callable[[int], str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [RUN]
    for step in range(1, steps + 1):
        for index in range(8):
            own = {
                "kind": "rollout",
                "step": step,
                "group": f"{step}-g",
                "index": index,
                "reward": float(index % 2),
            }
            found.append({**own, "prompt": f"task {step}", "completion": text(index)})
        found.append({"kind": "step", "step": step, "metrics": {"loss": 0.1}})
    return found


def _write(path: Path, rollouts: int) -> None:
    """A log of rollouts of 20 kB each; one in 5,000 holds the word `needle`."""
    chance = random.Random(3)
    texts = Texts(chance)
    stock = ["".join(texts.completion(n) for n in range(TEXT // 1_800)) for _ in range(64)]
    with path.open("wb") as log:
        log.write(orjson.dumps(RUN) + b"\n")
        for number in range(rollouts):
            step, index = divmod(number, 256)
            rare = f" needle {number}" if number % 5_000 == 17 else f" {number}"
            record = {
                "kind": "rollout",
                "step": step + 1,
                "group": f"{index // 8}",
                "index": index % 8,
                "reward": float(chance.random() < 0.5),
                "prompt": f"task {index // 8}",
                "completion": stock[number % 64] + rare,
            }
            log.write(orjson.dumps(record) + b"\n")
            if index == 255:
                log.write(orjson.dumps({"kind": "step", "step": step + 1, "metrics": {"loss": 0.1}}) + b"\n")


async def _drawn(pilot: Pilot[Any], screen: BrowserScreen | ReplayScreen, holds: Callable[[], bool]) -> None:
    """Wait until a screen is up and something holds, without the pauses of a test."""
    while not (pilot.app.screen is screen and screen._is_whole and holds()):
        await asyncio.sleep(0)


async def _screen_times(snapshot: Snapshot, times: int) -> tuple[float, float]:
    """Seconds from putting the browser up to its first rows, and of one key."""
    app = GrpoTop(snapshot)
    opened, keys = [], []
    async with app.run_test(size=SIZE) as pilot:
        for _ in range(times):
            screen = BrowserScreen()
            begin = time.perf_counter()
            app.push_screen(screen)
            await _drawn(pilot, screen, lambda: screen._browse is not None)  # noqa: B023
            opened.append(time.perf_counter() - begin)
            await pilot.pause()
            for _ in range(4):
                begin = time.perf_counter()
                screen.action_move(1)
                keys.append(time.perf_counter() - begin)
            app.pop_screen()
            await pilot.pause()
    return statistics.median(opened), statistics.median(keys)


async def _text_times(snapshot: Snapshot, count: int) -> float:
    """Seconds from a key in the list of rollouts to the text of the next one on the screen."""
    app, times = GrpoTop(snapshot), []
    async with app.run_test(size=SIZE) as pilot:
        screen = BrowserScreen()
        app.push_screen(screen)
        await pilot.pause()
        for _ in range(count):
            begin = time.perf_counter()
            screen.action_move(1)  # another step: nothing of it has been read
            row = screen._browse.row if screen._browse is not None else None
            await _drawn(pilot, screen, lambda: row is not None and screen.glances.get(row) is not None)  # noqa: B023
            times.append(time.perf_counter() - begin)
            await pilot.pause()
    return statistics.median(times)


async def _replay_times(snapshot: Snapshot) -> float:
    app, times = GrpoTop(snapshot), []
    async with app.run_test(size=SIZE) as pilot:
        for row in range(TEXTS):
            screen = ReplayScreen(row, (row,))
            begin = time.perf_counter()
            app.push_screen(screen)
            await _drawn(pilot, screen, lambda: screen.wholes.get(row) is not None)  # noqa: B023
            times.append(time.perf_counter() - begin)
            await pilot.pause()
            app.pop_screen()
            await pilot.pause()
    return statistics.median(times)
