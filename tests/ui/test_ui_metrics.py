"""The trainer's numbers that no series stands for can be seen, each on a chart of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runs import group, read, run_record, step_record, write_log

from grpo_top.ui.app import GrpoTop
from grpo_top.ui.screens.metrics import MetricsScreen
from grpo_top.ui.widgets.canvas import Canvas

if TYPE_CHECKING:
    from pathlib import Path


def lines(app: GrpoTop) -> list[str]:
    canvas = app.screen.query_one(Canvas)
    return ["".join(text for text, _ in row).rstrip() for row in canvas.make_rows(*canvas.size)]


async def test_metrics_without_a_series_are_listed_and_drawn_under_their_own_names(tmp_path: Path) -> None:
    records = [
        record
        for step in range(1, 31)
        for record in (
            *group(step, f"g{step}", (0.0, 1.0)),
            step_record(step, kl=0.1, **{"my/number": step / 10, "evil\x1b[31m": 1.0, "constant": 7.0}),
        )
    ]
    app = GrpoTop(read(write_log(tmp_path / "log.jsonl", [run_record(), *records])))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("m")
        await pilot.pause()
        assert isinstance(app.screen, MetricsScreen)
        shown = lines(app)
        assert any("evil" in line and "\x1b" not in line for line in shown)
        assert not any(line.strip("│▸ ").startswith("kl ") for line in shown)

        await pilot.press("pagedown")
        shown = lines(app)
        assert " my/number ─" in shown[1]
        row = next(line for line in shown if "▸my/number" in line)
        assert "2.05" in row, "the mean of the last 20 steps"
        await pilot.press("space", "left_square_bracket", "left_square_bracket")
        row = next(line for line in lines(app) if "▸my/number" in line)
        assert "2.80" in row

        await pilot.press("slash", *"my n", "backspace")
        await pilot.pause()
        assert any("─ 1 of 3 ─" in line for line in lines(app))
        assert not any("constant" in line for line in lines(app))
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert any(" constant " in line for line in lines(app)), "escape lists all of them again"
        await pilot.press("escape")
        assert not isinstance(app.screen, MetricsScreen)


async def test_where_every_number_is_a_series_that_is_said(tmp_path: Path) -> None:
    records = [run_record(), *group(1, "a", (0.0, 1.0)), step_record(1, kl=0.1)]
    app = GrpoTop(read(write_log(tmp_path / "log.jsonl", records)))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("m")
        await pilot.pause()
        assert "is read as a series" in lines(app)[2]
