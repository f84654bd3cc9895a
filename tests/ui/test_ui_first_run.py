"""Where nothing was found: what was looked for, where, and what to do next."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from recorded import line_with, lines, log

from grpo_top.config import Settings
from grpo_top.first_run import LOOKED_FOR, next_commands
from grpo_top.formats.registry import FORMATS, TRACKERS
from grpo_top.monitor import Monitor
from grpo_top.ui.app import GrpoTop

if TYPE_CHECKING:
    from pathlib import Path


def app_at(place: Path) -> GrpoTop:
    monitor = Monitor([str(place)], Settings())
    monitor.look()
    return GrpoTop(monitor.snapshot(), monitor)


async def test_an_empty_place_names_what_is_looked_for_and_three_commands(tmp_path: Path):
    (tmp_path / "notes.jsonl").write_text('{"a": 1}\n')
    app = app_at(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert f"{tmp_path}: a directory with no log that is known"[:70] in line_with(app, "looked in")
        assert "[fields] in grpo-top.toml" in line_with(app, "notes.jsonl")
        assert "TRL, verl" in line_with(app, "looked for")
        assert [
            line.split("  ")[1].strip()[:16] for line in lines(app) if line.startswith("  grpo-top ")
        ] == [
            "grpo-top demo",
            "grpo-top PATH",
            "grpo-top inspect",
        ]
        await pilot.resize_terminal(60, 16)
        await pilot.pause()
        assert line_with(app, "  grpo-top demo")
        assert not line_with(app, "looked for")
        await pilot.resize_terminal(38, 10)
        await pilot.pause()
        assert "grpo-top demo" in " ".join(line.strip() for line in lines(app))
        await pilot.resize_terminal(120, 40)
        (tmp_path / "rollouts.jsonl").write_bytes(log("healthy", 5))
        for _ in range(200):
            await pilot.pause(0.05)
            if app.view.step is not None:
                break
        await pilot.pause()
        assert not line_with(app, "looked for")


def test_every_trainer_and_tracker_that_is_read_is_named() -> None:
    said = " ".join(LOOKED_FOR).lower().replace("w&b", "wandb")
    of_no_trainer = {"requests", "config", "console", "report", "jsonl"}
    for known in (*FORMATS, *TRACKERS):
        assert known.name in of_no_trainer or known.name in said, known.name


@pytest.mark.parametrize(
    ("name", "first"),
    [("my-rum", "grpo-top {place}/my-run"), ("else", "grpo-top PATH"), ("", "grpo-top demo")],
)
def test_a_place_that_is_not_there_is_likely_mistyped(tmp_path: Path, name: str, first: str) -> None:
    (tmp_path / "my-run").mkdir()
    commands = next_commands([str(tmp_path / name)])
    assert commands[0].command == first.format(place=tmp_path)
    assert "grpo-top demo" in [each.command for each in commands]
    assert len(commands) == 3


async def test_while_a_large_place_is_opened_the_files_are_counted(tmp_path: Path, monkeypatch):
    (tmp_path / "rollouts.jsonl").write_bytes(log("healthy", 2))
    go_on = threading.Event()
    look = Monitor.look

    def slow(self):
        self.looked_at = 12_345
        go_on.wait(5)
        look(self)

    monkeypatch.setattr(Monitor, "look", slow)
    app = GrpoTop(open_monitor=lambda: Monitor([str(tmp_path)], Settings()), where=[str(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(40):
            await pilot.pause(0.05)
            if "files so far" in lines(app)[0]:
                break
        assert "12,345 files so far" in lines(app)[0]
        go_on.set()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "files so far" not in lines(app)[0]
