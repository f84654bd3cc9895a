"""Windows of every size: nothing overflows, nothing breaks, and the first cause is the last thing to go."""

from __future__ import annotations

import pytest
from recorded import lines, still
from rich.cells import cell_len
from textual.events import Resize
from textual.geometry import Size

SIZES = ((20, 5), (39, 11), (40, 12), (80, 24), (110, 36), (160, 45), (300, 90))
SCREENS = {
    "panel": ("3", "p"),
    "findings": ("f",),
    "browser": ("s",),
    "replay": ("s", "enter", "enter", "enter"),
    "drift": ("4", "p"),
    "metrics": ("m",),
}


async def test_the_monitor_names_the_first_cause_at_every_size():
    app = still("sampler_cold")
    async with app.run_test(size=(160, 45)) as pilot:
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            shown = lines(app)
            assert [cell_len(line) for line in shown] == [width] * height
            assert any("SAMPLER_DRIFT" in line for line in shown), (width, height)


@pytest.mark.parametrize("keys", SCREENS.values(), ids=SCREENS)
async def test_every_screen_fits_the_smallest_and_the_largest_window(keys):
    app = still("sampler_cold")
    async with app.run_test(size=(160, 45)) as pilot:
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        for width, height in ((20, 5), (300, 90)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            assert [cell_len(line) for line in lines(app)] == [width] * height
            body = [line for line in lines(app)[:-1] if line.strip()]
            assert len(body) >= min(height - 1, 3), "there is something to see"


async def test_a_storm_of_sizes_leaves_what_the_last_one_shows():
    app = still("sampler_cold")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        calm = lines(app)
        for number in range(40):
            size = Size(*SIZES[number % len(SIZES)])
            app.post_message(
                Resize(size, size)
            )  # as they come while a window is dragged: none waits for another
        await pilot.resize_terminal(120, 40)
        await pilot.pause(0.05)
        assert lines(app) == calm
