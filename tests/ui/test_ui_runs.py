"""The table of runs: what a place with several runs shows first, and the way into a run and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from runs import group, run_record, write_log

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.overview import RunState
from grpo_top.runs import FoundRun
from grpo_top.snapshot import Status
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.screens.help import HelpScreen
from grpo_top.ui.screens.monitor import MonitorScreen
from grpo_top.ui.screens.runs import RunsScreen
from grpo_top.ui.widgets.canvas import Canvas
from grpo_top.ui.widgets.runs_table import detail_rows, table_rows, title_row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.pilot import Pilot


def write_run(folder: Path, steps: int, reward: float, age: float) -> None:
    records = [record for step in range(1, steps + 1) for record in group(step, f"g{step}", (0.0, reward))]
    log = write_log(folder / "rollouts.jsonl", [run_record(run=folder.name), *records])
    written = log.stat().st_mtime - age
    os.utime(log, (written, written))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("grpo_top.overview.SCAN_SECONDS", 0.05)
    monkeypatch.setattr("grpo_top.reading.SCAN_SECONDS", 0.05)
    write_run(tmp_path / "good", 4, 1.0, age=4_000)
    write_run(tmp_path / "bad", 40, 0.0, age=2_000)
    return tmp_path


def app_of(place: Path, **options: Any) -> GrpoTop:
    """As the command line makes it."""
    settings = Settings()

    def open_run(found: FoundRun, whole: bool) -> tuple[Monitor, Settings]:
        return Monitor(found.where, settings, run=found.pick), settings

    return GrpoTop(
        open_monitor=lambda: Monitor([str(place)], settings, **options),
        open_run=open_run,
        where=[str(place)],
        settings=settings,
        redraws_per_second=50,
    )


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    for _ in range(400):
        if holds():
            return
        await pilot.pause(0.02)
    pytest.fail("waited in vain")


def lines(app: GrpoTop) -> list[str]:
    if not app.screen.query(Canvas):
        return []  # not there yet
    canvas = app.screen.query(Canvas).last()
    return ["".join(text for text, _ in row).rstrip() for row in canvas.make_rows(*canvas.size)]


async def test_a_place_of_several_runs_shows_them_opens_one_and_comes_back(place: Path) -> None:
    app = app_of(place)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        table = app.screen
        assert isinstance(table, RunsScreen)
        await until(pilot, lambda: "ok" in "".join(lines(app)[2:3]))
        heading, bad, good = (line.split() for line in lines(app)[:3])
        assert heading == ["state", "run", "trainer", "step", "reward", "written", "since", "first", "cause"]
        assert bad[:6] == ["▸", "✖", "FAIL", "bad", "trl", "40"]
        assert good[:5] == ["●", "ok", "good", "trl", "4"]
        assert f"read by  grpo-top {place / 'bad'}" in lines(app)[-1]

        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape", "f", "s", "space", "escape", "backspace", "o", "o")
        assert app.screen is table, "keys of a run do nothing here"
        assert table.selected is not None
        assert table.selected.run.name == "bad"

        await pilot.press("slash", *"oo")
        await pilot.pause()
        assert table.selected.run.name == "good", "what is written narrows the table"
        assert not any("bad" in line for line in lines(app)[2:-4])
        await pilot.press("escape")
        await pilot.pause()
        assert table.selected.run.name == "bad", "escape lists all of them again"

        await pilot.press("down", "enter")
        await until(
            pilot, lambda: isinstance(app.screen, MonitorScreen) and app.view.snapshot.judged_step == 4
        )
        assert app.view.snapshot.run.name == "good"
        write_run(place / "good", 6, 1.0, age=0)
        await until(pilot, lambda: app.view.snapshot.judged_step == 6)
        await pilot.press("f", "escape", "escape")
        assert isinstance(app.screen, MonitorScreen), "escape stays within the run"
        await pilot.press("f", "backspace")
        await until(pilot, lambda: app.screen is table and table.selected.step == 6)  # type: ignore[union-attr]
        assert table.selected.run.name == "good"

        write_run(place / "third", 3, 1.0, age=0)
        await until(pilot, lambda: len(lines(app)) > 3 and "third" in lines(app)[1])


async def test_a_run_that_is_asked_for_opens_at_once_and_the_table_lies_behind_it(place: Path) -> None:
    app = app_of(place, run="good")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(
            pilot, lambda: isinstance(app.screen, MonitorScreen) and app.view.snapshot.judged_step == 4
        )
        await pilot.press("backspace")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert {line.split()[-1] for line in lines(app)[1:3]} <= {"good", "bad", "▸"} | {
            word for line in lines(app) for word in line.split()
        }


async def test_a_name_that_no_run_has_is_said_over_the_table(place: Path) -> None:
    app = app_of(place, run="goood")
    told: list[str] = []
    app.notify = lambda message, **_: told.append(message)  # type: ignore[method-assign, assignment]
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert told == ["no run here is called goood; did you mean good?"]


async def test_a_place_of_one_run_has_no_table(place: Path) -> None:
    app = app_of(place / "good")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(
            pilot, lambda: isinstance(app.screen, MonitorScreen) and app.view.snapshot.judged_step == 4
        )
        await pilot.press("backspace")
        assert isinstance(app.screen, MonitorScreen)
        assert not app.has_runs


async def test_a_run_that_begins_beside_the_one_that_is_watched_is_named_and_opens_the_table(
    place: Path,
) -> None:
    app = app_of(place / "good")
    told: list[str] = []
    app.notify = lambda message, **_: told.append(message)  # type: ignore[method-assign, assignment]
    async with app.run_test(size=(80, 24)) as pilot:
        await until(
            pilot, lambda: isinstance(app.screen, MonitorScreen) and app.view.snapshot.judged_step == 4
        )
        write_run(place / "good" / "again", 3, 1.0, age=0)
        await until(pilot, lambda: bool(told))
        assert told == ["again: another run has begun here; backspace shows them all"]
        assert app.view.snapshot.run.last_step == 4
        await pilot.press("backspace")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and bool(lines(app)))
        assert {"good", "again"} <= {word for line in lines(app) for word in line.split()}


# drawing


def state(name: str, **of: Any) -> RunState:
    found = FoundRun(f"/logs/{name}", name, (f"/logs/{name}",), None, None, (), ("trl",))
    return RunState(found, **{"read": True, "written": 990.0} | of)


STATES = [
    state("a" * 60, status=Status.OK, step=12, total_steps=100, reward=0.5),
    state("evil\x1b[31m\u202e", status=Status.WATCH, step=3),
    state("waiting", read=False, written=None),
    state("half", read=False, reading=0.5),
    state("broken", error="permission denied\nsecond line"),
    state("done", status=Status.OK, finished=True, step=9),
    state("nothing", status=Status.UNKNOWN, written=1.0),
]


@pytest.mark.parametrize("width", [40, 60, 80, 110, 160, 300])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_any_state_fits_any_width_and_shows_no_control_character(width: int, glyphs: Any) -> None:
    rows = table_rows(STATES, range(len(STATES)), 1, 1000.0, width, glyphs)
    rows += [title_row(["/logs"], STATES, 1000.0, width, glyphs)]
    rows += [row for one in STATES for row in detail_rows(one, width, glyphs)]
    for row in rows:
        text = "".join(part for part, _ in row)
        assert len(text) <= width
        assert text.isprintable()
        assert glyphs is UNICODE or text.replace("…", "").isascii() or "evil" in text


def test_how_fresh_a_run_is_is_said_in_a_word() -> None:
    rows = ["".join(text for text, _ in row) for row in table_rows(STATES, range(7), 0, 1000.0, 200, UNICODE)]
    words = ["quiet 10 s", "quiet 10 s", "", "reading 50%", "permission denied", "finished", "quiet 16 m"]
    assert all(word in row for word, row in zip(words, rows[1:], strict=True))
