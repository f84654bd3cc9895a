"""Makes the README's pictures from the demo: `python screenshots/make.py`.

Each picture is the real app on a recorded real run, drawn without a terminal.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

from grpo_top.config import Settings
from grpo_top.demo.player import play_all
from grpo_top.demo.recordings import find
from grpo_top.monitor import Monitor
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.theme import DARK_NAME, LIGHT_NAME

HERE = Path(__file__).parent
CLOCK = 1_796_047_331.0
"""When the pictures are taken: a run's freshness is no part of what they show."""


class Picture(NamedTuple):
    """One picture: what is on the screen, and how to get there from the monitor."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    recording: str = "sampler_cold"
    theme: str = DARK_NAME


PICTURES = (
    Picture("monitor", (160, 45)),
    Picture("monitor-light", (160, 45), theme=LIGHT_NAME),
    Picture("monitor-120x40", (120, 40)),
    Picture("monitor-80x24", (80, 24)),
    Picture("monitor-healthy", (160, 45), recording="healthy"),
    Picture("panel", (160, 45), ("3", "enter")),
    Picture("findings", (120, 40), ("f",)),
    Picture("browser", (160, 45), ("s",)),
    Picture("replay", (160, 45), ("s", "enter", "enter", "enter", "end")),
)


async def take(picture: Picture) -> str:
    """The picture as SVG."""
    with tempfile.TemporaryDirectory(prefix="grpo-top-picture-") as name:
        play_all(find(picture.recording), Path(name))
        monitor = Monitor([name], Settings(), clock=lambda: CLOCK)
        monitor.read_all()
        app = GrpoTop(monitor.snapshot(), theme=picture.theme, clock=lambda: CLOCK + 0.3)
        async with app.run_test(size=picture.size) as pilot:
            await pilot.pause()
            for key in picture.keys:
                await pilot.press(key)
                await pilot.pause()
            return app.export_screenshot(title="grpo-top demo")


def main() -> None:
    """Write every picture beside this file."""
    for picture in PICTURES:
        (HERE / f"{picture.name}.svg").write_text(asyncio.run(take(picture)))
        print(f"{picture.name}.svg")


if __name__ == "__main__":
    main()
