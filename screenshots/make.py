"""Makes the README's pictures from the demo: `python screenshots/make.py`.

Each picture is the real app on a recorded real run, drawn without a terminal. `--check` makes nothing and names the
pictures that are not as they would be made now; `--png` writes each as PNG as well, where cairosvg is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from path import STORY, recording  # noqa: E402
from svg import Palette, picture  # noqa: E402

from grpo_top.config import Settings  # noqa: E402
from grpo_top.demo.player import play_all  # noqa: E402
from grpo_top.demo.recordings import find  # noqa: E402
from grpo_top.monitor import Monitor  # noqa: E402
from grpo_top.ui.app import GrpoTop  # noqa: E402
from grpo_top.ui.theme import DARK, DARK_NAME, LIGHT, LIGHT_NAME  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.pilot import Pilot

    from grpo_top.snapshot import Snapshot

CLOCK = 1_796_047_331.0
"""When the pictures are taken: a run's freshness is no part of what they show."""
THEMES = {"dark": (DARK_NAME, DARK), "light": (LIGHT_NAME, LIGHT)}
SIZES = ((160, 45), (80, 24))
WAYS = {
    "monitor": (),
    "panel": ("3", "p"),
    "findings": ("f",),
    "browser": ("s",),
    "replay": ("s", "enter", "enter", "enter", "end"),
    "drift": ("p",),
}
"""What is pressed on the monitor to come to each screen."""
PNG_SCALE = 2
"""Pixels of a PNG for one of its SVG, so that dots and letters stay sharp."""


class Picture(NamedTuple):
    """One picture: what is on the screen, and how to get there from the monitor."""

    screen: str
    size: tuple[int, int] = SIZES[0]
    theme: str = "dark"
    recording: str = "sampler_cold"

    @property
    def name(self) -> str:
        """Of its file."""
        run = "" if self.recording == "sampler_cold" else f"-{self.recording}"
        return f"{self.screen}{run}-{self.size[0]}x{self.size[1]}-{self.theme}.svg"


PICTURES = (
    *(Picture(*each) for each in product(WAYS, SIZES, THEMES)),
    Picture("monitor", recording="healthy"),
)
PATH = "path.svg"
"""The recording of the way from the first cause to the rollout that proves it."""


def main() -> int:
    """Write every picture beside this file, or check that each is what it would be now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name what is not current")
    parser.add_argument("--png", action="store_true", help="as PNG as well")
    options = parser.parse_args()
    os.environ["TZ"] = "UTC"  # the clock in the title
    time.tzset()
    os.environ.pop("NO_COLOR", None)
    as_png = png_writer() if options.png and not options.check else None
    stale = 0
    for name, made in made_now():
        file = HERE / name
        if options.check:
            if not file.is_file() or file.read_text() != made:
                stale += 1
                print(f"{name} is not current: run python screenshots/make.py")
            continue
        file.write_text(made)
        print(name)
        if as_png is not None and name != PATH:  # of what moves, PNG would hold an empty beginning
            as_png(file)
    return 1 if stale else 0


def made_now() -> Iterator[tuple[str, str]]:
    """Every picture with its name."""
    for one in PICTURES:
        yield one.name, asyncio.run(take(one))
    yield PATH, asyncio.run(take_path())


async def take(one: Picture) -> str:
    """A picture as SVG."""
    app = opened(one.recording, one.theme)
    async with app.run_test(size=one.size) as pilot:
        await press(app, pilot, WAYS[one.screen])
        palette = THEMES[one.theme][1]
        title = f"grpo-top: the {one.screen} screen on the recorded run {one.recording}"
        return picture(
            app.screen._compositor.render_strips(), Palette(palette.background, palette.text), title
        )


async def take_path() -> str:
    """The way from the first cause to the proving rollout as an animated SVG."""
    app = opened("sampler_cold", "dark")
    frames = []
    async with app.run_test(size=(110, 36)) as pilot:
        for scene in STORY:
            await press(app, pilot, scene.keys)
            frames.append((scene, app.screen._compositor.render_strips()))
    return recording(frames, Palette(DARK.background, DARK.text), DARK)


async def press(app: GrpoTop, pilot: Pilot[int], keys: tuple[str, ...]) -> None:
    """Press keys and wait until what they lead to is drawn, with the texts that are read for it."""
    await pilot.pause()
    for key in keys:
        await pilot.press(key)
        await app.workers.wait_for_complete()
        await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


def opened(name: str, theme: str) -> GrpoTop:
    """The app on a recorded run."""
    return GrpoTop(recorded(name), theme=THEMES[theme][0], clock=lambda: CLOCK + 0.3)


@lru_cache(maxsize=4)
def recorded(name: str) -> Snapshot:
    """A recorded run as it stands at its end; its files stay until the process ends."""
    directory = tempfile.TemporaryDirectory(prefix="grpo-top-picture-")
    _KEPT.append(directory)
    play_all(find(name), Path(directory.name))
    monitor = Monitor([directory.name], Settings(), clock=lambda: CLOCK)
    monitor.read_all()
    return monitor.snapshot()


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def png_writer() -> Callable[[Path], None] | None:
    """What writes an SVG file as PNG beside it; None, and why, where nothing here can."""
    try:
        import cairosvg  # noqa: PLC0415  nothing else needs it
    except (ImportError, OSError) as error:  # the package, or the library that it draws with
        print(f"no PNG, SVG alone: cairosvg cannot be used here: {str(error).splitlines()[0]}")
        return None

    def write(file: Path) -> None:
        cairosvg.svg2png(url=str(file), write_to=str(file.with_suffix(".png")), scale=PNG_SCALE)

    return write


if __name__ == "__main__":
    sys.exit(main())
