"""Files of any size: a million rollouts in the lists, 5 GB on disk, 10 MB of text, and files that change meanwhile."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from long_history import GROUPS, SIZE, long_history
from rollout_screens import NOON, Shown, filtered, line_with, read, shown
from textual.app import App, ComposeResult

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.records import Rollout
from grpo_top.snapshot import Gone
from grpo_top.ui.rollouts.browse import GROUPS as GROUPS_COLUMN
from grpo_top.ui.rollouts.browse import Browse
from grpo_top.ui.rollouts.catalogue import ORDERS
from grpo_top.ui.rollouts.filters import parse
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.replay import ReplayScreen
from grpo_top.ui.widgets.virtual_list import Listing, VirtualList

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

WIDE = (160, 45)
MILLION = 3125
"""Steps of a million rollouts."""
HOLE = 5 << 30
RUN = {"kind": "run", "schema": "grpo-top/1", "run": "large", "group_size": 2}


def quickest(work: Callable[[], object], times: int = 3) -> float:
    """Milliseconds of the quickest of some times, of this process alone: others may keep the machine busy."""
    taken = []
    for _ in range(times):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken) * 1e3


def record(step: int, index: int, text: str, **fields: Any) -> dict[str, Any]:
    own = {"kind": "rollout", "step": step, "group": f"{step}-g", "index": index, "reward": float(index)}
    return {**own, "prompt": f"prompt of {step}", "completion": text, **fields}


def records(steps: int, text: str = "text") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [RUN]
    for step in range(1, steps + 1):
        found += [record(step, index, f"{text} {step}.{index}") for index in range(2)]
        found.append({"kind": "step", "step": step, "metrics": {"loss": 0.1}})
    return found


# ---- a million rollouts


@pytest.fixture(scope="module")
def million() -> Snapshot:
    return long_history(MILLION)


def test_a_million_rollouts_are_listed_in_a_moment(million: Snapshot) -> None:
    assert million.rollouts.length == MILLION * GROUPS * SIZE == 1_000_000
    assert quickest(lambda: Browse(million)) < 50
    browse = Browse(million)
    assert len(browse.steps) == MILLION
    assert len(browse.groups) == GROUPS
    assert quickest(lambda: browse.move(1)) < 20
    browse.mark_all()
    assert len(browse.groups) == MILLION * GROUPS
    browse.column = GROUPS_COLUMN
    assert quickest(lambda: browse.move(1)) < 20


def test_their_memory_is_that_of_a_few_columns(million: Snapshot) -> None:
    tracemalloc.start()
    browse = Browse(million)
    opened = tracemalloc.get_traced_memory()[1]
    browse.narrow(parse("reward<0.5 dup"))
    narrowed = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert opened < 4e6
    assert narrowed < 32e6


def test_evidence_filters_and_orders_over_a_million(million: Snapshot) -> None:
    rows = tuple(range(900_000, 900_050))
    assert quickest(lambda: Browse(million, rows)) < 100
    browse = Browse(million)
    assert quickest(lambda: browse.narrow(parse("reward<0.5 truncated"))) < 150
    browse.mark_all()
    for _ in ORDERS:
        browse.next_order()
        assert quickest(lambda: browse.move(1), 1) < 400
    matching = browse.catalogue.matching
    columns = million.rollouts.columns
    assert (matching == ((columns["reward"] < 0.5) & (columns["truncated"] == 1))).all()


async def test_the_screen_over_a_million_shows_the_newest_step_and_moves(million: Snapshot) -> None:
    async with Shown(million, BrowserScreen).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
        assert "following  3,125" in screen[3]
        assert "1 of 40" in screen[-2]
        assert "prompt 9996" in "".join(screen)
        assert "1 of 125k" in (await shown(pilot, "a"))[-2]
        assert "┃▸    1 " in line_with(await shown(pilot, "end"), "┃▸ ")


async def test_a_million_rows_are_as_light_as_ten() -> None:
    made: set[int] = set()

    def row(position: int, width: int) -> list[tuple[str, str]]:
        made.add(position)
        return [(f"row {position}", "text")]

    class OneList(App[None]):
        def compose(self) -> ComposeResult:
            yield VirtualList()

    async with OneList().run_test(size=(40, 20)) as pilot:
        list_ = pilot.app.query_one(VirtualList)
        list_.show(Listing(1_000_000, row), 777_777)
        await pilot.pause()
        assert "row 777777" in list_.render_line(18).text
        assert len(made) <= 18


# ---- 5 GB on disk


@pytest.fixture
def sparse(tmp_path: Path) -> Snapshot:
    """A log of which the records lie past a hole of 5 GB, as if all that is there had been read."""
    path = tmp_path / "rollouts.jsonl"
    content = b"".join(orjson.dumps(one) + b"\n" for one in records(40, "needle " + "x" * 1500))
    path.write_bytes(content)
    monitor = Monitor([str(path)], Settings(), clock=lambda: NOON)
    monitor.read_all()
    offsets = monitor.ledger.history.columns["offset"]
    offsets.write(0, offsets.length, np.array(offsets.view()) + HOLE)
    with path.open("r+b") as file:
        file.truncate(HOLE)
        file.seek(HOLE)
        file.write(content)
    return monitor.snapshot(finished=True)


def test_any_text_of_a_huge_file_is_there_within_a_key_press(sparse: Snapshot) -> None:
    for row in (0, 41, sparse.rollouts.length - 1):
        found = sparse.read(row)
        assert isinstance(found, Rollout)
        assert found.completion is not None
        assert found.completion.endswith(f" {row // 2 + 1}.{row % 2}")
        assert quickest(lambda row=row: sparse.read(row)) < 50  # type: ignore[misc]


async def test_a_huge_file_is_searched_where_its_records_lie(sparse: Snapshot) -> None:
    async with Shown(sparse, BrowserScreen).run_test(size=WIDE) as pilot:
        screen = await filtered(pilot, 'needle "40.1"')
        assert "1 found" in screen[3]
        assert "needle xxx" in "".join(screen)


# ---- one text of 10 MB


@pytest.mark.parametrize("text", ["word and " * 1_111_112, "x" * 10_000_000, "日本 é " * 800_000])
def test_a_text_of_ten_megabytes_is_read_in_100_ms(tmp_path: Path, text: str) -> None:
    snapshot = read(tmp_path, [RUN, *(record(1, index, text) for index in range(2))])
    found = snapshot.read(1)
    assert isinstance(found, Rollout)
    assert found.completion == text
    assert quickest(lambda: snapshot.read(1)) < 100


async def test_it_is_browsed_and_replayed_like_any_other(tmp_path: Path) -> None:
    text = "no end to it " * 800_000
    snapshot = read(tmp_path, [RUN, *(record(1, index, f"{text}{index}") for index in range(2))])
    async with Shown(snapshot, BrowserScreen).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "enter", "enter")
        assert sum("no end to it no end" in line[97:] for line in screen) > 8
        replay = await shown(pilot, "enter")
        assert isinstance(pilot.app.screen, ReplayScreen)
        assert any("no end to it no end to it" in line for line in replay)


# ---- files that change while one looks


def broken(path: Path, how: str) -> None:
    match how:
        case "vanished":
            path.unlink()
        case "shrank":
            path.write_bytes(path.read_bytes()[:300])
        case "rotated":
            path.rename(path.with_suffix(".1"))
            path.write_bytes(
                orjson.dumps(RUN | {"run": "another"})
                + b"\n"
                + b"".join(orjson.dumps(record(step, 0, "else")) + b"\n" for step in range(60, 90))
            )


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("vanished", "rollouts.jsonl: No such file or directory"),
        ("shrank", "rollouts.jsonl: shrunk since, it lay at offset"),
        ("rotated", "rollouts.jsonl: rewritten since, offset"),
    ],
)
def test_a_text_that_is_there_no_more_is_said_to_be_gone_and_why(
    tmp_path: Path, how: str, words: str
) -> None:
    snapshot = read(tmp_path, records(12))
    broken(tmp_path / "rollouts.jsonl", how)
    found = snapshot.read(23)
    assert isinstance(found, Gone)
    assert found.reason.startswith(words)
    assert found.reason.endswith("its numbers still stand")


async def test_the_pane_says_what_became_of_the_file_and_shows_the_columns(tmp_path: Path) -> None:
    snapshot = read(tmp_path, records(12))
    broken(tmp_path / "rollouts.jsonl", "shrank")
    async with Shown(snapshot, BrowserScreen).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "enter", "enter")
        assert any("rollouts.jsonl: shrunk since, it lay at offset" in line[97:] for line in screen)
        assert "1.000" in line_with([line[97:] for line in screen], "  1   1.000")
        searched = await filtered(pilot, "text")
        assert "could not be read" in searched[4]
        assert "2 found" in searched[3]


async def test_a_file_that_grows_is_browsed_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in records(3)))
    monitor = Monitor([str(path)], Settings(), clock=lambda: NOON)
    monitor.poll(1.0)
    app = Shown(monitor.snapshot(), BrowserScreen)
    async with app.run_test(size=WIDE) as pilot:
        assert "following  3" in (await shown(pilot))[3]
        with path.open("ab") as file:
            file.writelines(orjson.dumps(one) + b"\n" for one in records(5)[-6:])
        monitor.poll(1.0)
        app.take(replace(monitor.snapshot(), version=1 << 40))
        app._tick()
        screen = await shown(pilot)
    assert "following  5" in screen[3]
    assert "text 5.0" in "".join(screen)
