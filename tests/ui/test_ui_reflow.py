"""Windows of every size: nothing overflows, nothing breaks, and the first cause is the last thing to go."""

from __future__ import annotations

from recorded import lines, still
from rich.cells import cell_len
from textual.events import Resize
from textual.geometry import Size

from grpo_top.ui.screens.monitor import MonitorScreen

SIZES = ((20, 5), (40, 12), (80, 24), (110, 36), (300, 90))
SCREENS = (("3", "p"), ("f",), ("s",), ("m",))


async def test_the_monitor_names_the_first_cause_at_every_size():
    app = still("sampler_cold")
    async with app.run_test(size=(160, 45)) as pilot:
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            shown = lines(app)
            assert [cell_len(line) for line in shown] == [width] * height
            assert any("SAMPLER_DRIFT" in line for line in shown), (width, height)


async def test_every_screen_fits_the_smallest_and_the_largest_window():
    app = still("sampler_cold")
    async with app.run_test(size=(20, 5)) as pilot:
        for (width, height), screens in (((20, 5), SCREENS), ((300, 90), SCREENS[:1])):
            await pilot.resize_terminal(width, height)
            for keys in screens:
                await pilot.press(*keys)
                await pilot.pause()
                assert not isinstance(app.screen, MonitorScreen)
                assert [cell_len(line) for line in lines(app)] == [width] * height
                seen = [line for line in lines(app)[:-1] if line.strip()]
                assert len(seen) >= 3, "there is something to see"
                await pilot.press("escape")
                await pilot.pause()


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
