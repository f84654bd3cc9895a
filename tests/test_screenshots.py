"""The pictures of the README: all are there, they fetch nothing, and they show the screens as they are now."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent.parent / "screenshots"
sys.path.insert(0, str(HERE))
import make  # noqa: E402
import svg  # noqa: E402

CHECKED = (make.Picture("monitor", (80, 24), "dark"), make.Picture("replay", (80, 24), "light"))
"""Few of them, since it takes time; `python screenshots/make.py --check` looks at all."""


def test_every_screen_is_there_at_two_sizes_in_both_themes_and_nothing_else() -> None:
    named = {one.name for one in make.PICTURES} | {make.PATH}
    assert {file.name for file in HERE.glob("*.svg")} == named
    for screen in ("monitor", "panel", "findings", "browser", "replay", "drift"):
        for size in ("160x45", "80x24"):
            assert {f"{screen}-{size}-dark.svg", f"{screen}-{size}-light.svg"} <= named


@pytest.fixture
def in_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_greenwich")
@pytest.mark.parametrize("one", CHECKED, ids=lambda one: one.name)
async def test_a_picture_shows_the_screen_as_it_is_now(one: make.Picture) -> None:
    made = await make.take(one)
    assert (HERE / one.name).read_text() == made, "run python screenshots/make.py"


def test_pictures_are_whole_and_need_no_network() -> None:
    for file in HERE.glob("*.svg"):
        text = file.read_text()
        ElementTree.fromstring(text)
        assert not re.findall(r"(?:href|src)=\"(?!#)|url\(|<script|@import", text), file.name
        assert len(text) < 300_000


def test_the_way_to_the_rollout_is_shown_scene_by_scene() -> None:
    text = (HERE / make.PATH).read_text()
    assert text.count('class="f"') == len(make.STORY)
    assert text.count("@keyframes") == len(make.STORY)


def test_lines_and_dots_are_shapes_and_letters_are_text_of_their_cells_width() -> None:
    palette = svg.Palette("#000000", "#ffffff")
    drawn = svg.row([Segment("⠁━▇ a<b", Style(color="#123456", bold=True))], palette)
    assert drawn.count("<path") == 3
    assert 'textLength="27"' in drawn
    assert ">a&lt;b</text>" in drawn
    assert palette.css() == ".c0{fill:#123456;stroke:#123456}"
    reversed_ = svg.row([Segment("x", Style(color="#123456", reverse=True))], palette)
    assert '<rect class="c0 r"' in reversed_


def test_where_no_png_can_be_made_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert make.png_writer() is None
    said = capsys.readouterr().out
    assert said.startswith("no PNG, SVG alone: cairosvg cannot be used here")
    assert said.count("\n") == 1
