"""A run whose log is written anew while it is looked at: no screen stands on rollouts that are other ones by now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rollout_screens import settled
from runs import read, recorded_lines

from grpo_top.ui.app import GrpoTop

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot


def picture(folder: Path, lines: int, epoch: int) -> Snapshot:
    """A part of a recorded run, as it is read the next time."""
    log = folder / "log.jsonl"
    log.write_bytes(b"\n".join(recorded_lines("sampler_cold")[:lines]) + b"\n")
    found = read(log)
    return replace(found, version=found.version + epoch * 10_000, epoch=epoch, finished=False)


async def test_screens_of_single_rollouts_are_left_and_the_others_go_on(tmp_path: Path) -> None:
    before = picture(tmp_path, 2000, 0)
    app = GrpoTop(before)
    async with app.run_test(size=(120, 40)) as pilot:
        for key in ("s", "enter", "enter", "enter", "g"):
            await pilot.press(key)
            await settled(pilot)
        assert [type(screen).__name__ for screen in app.screen_stack[-2:]] == [
            "ReplayScreen",
            "GradingScreen",
        ]
        for lines, epoch in ((1, 1), (900, 1), (2000, 2)):
            app.take(picture(tmp_path, lines, epoch))
            await settled(pilot)
            assert type(app.screen).__name__ == "BrowserScreen"
        await pilot.press("enter")
        await settled(pilot)
    assert not app.failed
