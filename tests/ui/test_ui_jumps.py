"""The command palette: jumps to panels, steps, findings, rules and families, themes, and a report of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recorded import line_with, lines, still

from grpo_top.ui.jumps import jumps
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.findings import FindingsScreen
from grpo_top.ui.screens.help import HelpScreen
from grpo_top.ui.screens.monitor import MonitorScreen
from grpo_top.ui.screens.panel import PanelScreen

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from textual.pilot import Pilot

    from grpo_top.ui.app import GrpoTop


async def chosen(app: GrpoTop, pilot: Pilot, words: str) -> None:
    """Type words into the palette and take what it offers first."""
    await pilot.press("colon")
    await pilot.pause()
    app.screen.query_one("CommandInput").value = words
    for _ in range(100):
        await pilot.pause(0.02)
        if app.screen.query_one("CommandList").option_count:
            break
    await pilot.pause(0.05)
    await pilot.press("enter")
    await pilot.pause()


async def test_one_can_go_anywhere_by_its_name():
    app = still("sampler_cold")
    async with app.run_test(size=(120, 40)) as pilot:
        await chosen(app, pilot, "step 57")
        assert app.view.cursor == 57
        app.look_at(4000)
        assert app.view.cursor == 110
        await chosen(app, pilot, "finding sampler drift")
        assert isinstance(app.screen, FindingsScreen)
        assert "SAMPLER_DRIFT" in line_with(app, "▸")


async def test_what_the_palette_names_leads_there():
    app = still("sampler_cold")
    async with app.run_test(size=(120, 40)) as pilot:
        run = {jump.title: jump.run for jump in jumps(app, app.screen)}
        keys = {jump.title: jump.key for jump in jumps(app, app.screen)}
        assert (keys["Findings"], keys["Pause"], keys["Zoom out"], keys["Theme"]) == ("f", "space", "-", "")
        assert {"Theme: light", "Rule: LEAKAGE", "Report: Markdown", "Quit"} <= run.keys()
        run["Panel: Group variance"]()
        await pilot.pause()
        assert isinstance(app.screen, PanelScreen)
        assert app.screen.panel == "variance"
        for id_ in ("UNIFORM_COMPONENT", "SAMPLER_DRIFT"):
            run[f"Finding: {id_}"]()
            await pilot.pause()
            assert id_ in line_with(app, "▸")
        assert len(app.screen_stack) == 3, "one list of findings does not lie on another"
        run["Family: carry"]()
        await pilot.pause()
        assert isinstance(app.screen, BrowserScreen)
        assert 'family="carry"' in line_with(app, "family=")


async def test_a_report_is_written_where_one_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    app = still("healthy")
    async with app.run_test(size=(120, 40)) as pilot:
        await chosen(app, pilot, "report html")
        assert "write a report of the run to" in line_with(app, " write ")
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
    written = list(tmp_path.glob("*.html"))
    assert len(written) == 1
    assert written[0].read_text().startswith("<!doctype html>")


async def test_f1_and_the_wheel_work_in_the_help():
    app = still("healthy")
    async with app.run_test(size=(80, 13)) as pilot:
        await pilot.press("f1")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert lines(app)[0].split() == ["Keys", "monitor", "esc", "close"]
        assert "move the focus" in lines(app)[1]
        assert lines(app)[-1].split()[:2] == ["10", "more"]
        await pilot.press("pagedown")
        await pilot.pause()
        assert "▲ warn  ✖ fail" in lines(app)[-2]
        assert "a stage that is ok as far as" in lines(app)[-1]
        await pilot.press("f1")
        await pilot.pause()
        assert isinstance(app.screen, MonitorScreen)
