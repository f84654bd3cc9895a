"""What goes to the terminal when cells change: those cells alone, and of their looks what is new."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.app import App
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Label

from grpo_top.ui.cell_screen import CellScreen
from grpo_top.ui.theme import DARK, css_variables
from grpo_top.ui.update import CellCompositor, ChangedCells, Look, _turn, only_changed
from grpo_top.ui.widgets.rows import Rows

if TYPE_CHECKING:
    import pytest
    from textual.app import ComposeResult

    from grpo_top.ui.widgets.strips import Run

RED, GREEN = Style(color="red", bgcolor="black"), Style(color="green", bgcolor="black")
BOLD = Style(color="green", bgcolor="black", bold=True)
LOOKS = st.builds(
    Look,
    st.sets(st.sampled_from(["1", "2", "3", "4", "5", "7", "9"])).map(lambda codes: tuple(sorted(codes))),
    st.sampled_from([(), ("31",), ("38", "5", "117")]),
    st.sampled_from([(), ("40",), ("48", "5", "233")]),
)
CONSOLE = Console(force_terminal=True, color_system="standard", width=20)


def update(spans: list[tuple[int, int, int]], *rows: list[Segment]) -> ChopsUpdate:
    """Rows of one widget that lies at the left and is 10 cells wide."""
    return ChopsUpdate([{0: Strip(row)} for row in rows], spans, [[10] for _ in rows])


def sent(renderable: object) -> str:
    """What the terminal is sent."""
    assert isinstance(renderable, ChangedCells)
    return renderable.render_segments(CONSOLE)


def places(sequences: str) -> list[tuple[str, str]]:
    """Where the cursor is moved, and the text that is written from there, without looks."""
    found, row, column = [], 0, 0
    moves = re.split(r"\x1b\[([\d;]+[HC])", sequences)[1:]
    for move, written in zip(moves[::2], moves[1::2], strict=True):
        if move.endswith("C"):
            column += int(move[:-1])
        else:
            row, column = map(int, move[:-1].split(";"))
        text = re.sub(r"\x1b\[[\d;]*m", "", written)
        found.append((f"{row};{column}", text))
        column += len(text)
    return found


def test_only_the_cells_that_changed_are_sent() -> None:
    row = [Segment("abcde", RED), Segment("fghij", GREEN)]
    found = sent(only_changed(update([(0, 2, 4), (0, 7, 10)], row)))
    assert places(found) == [("1;3", "cd"), ("1;8", "hij")]


def test_a_look_is_said_once_while_it_goes_on_from_row_to_row() -> None:
    rows = [[Segment("abcde", RED), Segment("fghij", GREEN)]] * 2
    found = sent(only_changed(update([(0, 6, 8), (1, 6, 8)], *rows)))
    assert places(found) == [("1;7", "gh"), ("2;7", "gh")]
    assert found.count("32") == 1
    assert found.endswith("\x1b[0m")


def test_of_a_look_only_what_differs_is_said() -> None:
    found = sent(only_changed(update([(0, 0, 10)], [Segment("abcde", RED), Segment("fghij", GREEN)])))
    assert "abcde\x1b[32mfghij" in found


def test_what_is_not_there_any_more_ends() -> None:
    row = [Segment("ab", BOLD), Segment("cd", GREEN), Segment("ef")]
    found = sent(only_changed(update([(0, 0, 6)], row)))
    assert "ab\x1b[22mcd\x1b[0mef" in found


@given(st.lists(LOOKS, min_size=1, max_size=8))
def test_after_any_turns_cells_look_as_they_should(looks: list[Look]) -> None:
    now: dict[str, object] = {}
    before = Look()
    for look in (*looks, Look()):
        for code in re.findall(r"\x1b\[([\d;]*)m", _turn(before, look)):
            obey(now, code.split(";"))
        wanted: dict[str, object] = dict.fromkeys(look.attributes, True)
        wanted |= {"color": look.color} if look.color else {}
        wanted |= {"ground": look.ground} if look.ground else {}
        assert now == wanted
        before = look
    assert _turn(before, before) == ""


def obey(now: dict[str, object], codes: list[str]) -> None:
    """What a terminal does on `SGR` with these parameters."""
    while codes:
        code = codes.pop(0)
        if code == "0":
            now.clear()
        elif code in ("38", "48"):
            now["color" if code == "38" else "ground"] = (code, *(codes.pop(0) for _ in range(2)))
        elif code in ("39", "49"):
            now.pop("color" if code == "39" else "ground", None)
        elif code[0] in "34" and len(code) == 2:
            now["color" if code[0] == "3" else "ground"] = (code,)
        elif code == "22":
            now.pop("1", None), now.pop("2", None)
        elif code in ("23", "24", "27", "29"):
            now.pop(code[1], None)
        else:
            now[code] = True


def test_other_updates_are_sent_as_they_are() -> None:
    assert only_changed(None) is None
    assert only_changed("text") == "text"


# ---- which cells


class Square(Rows):
    """Rows whose text says where they are; some are two cells wide a character."""

    def make_rows(self, width: int, height: int) -> list[list[Run]]:
        wide = "漢字" if self.name == "wide" else ""
        return [[(f"{self.name}{y}{wide}".ljust(width, "."), "text"), ("", "dim")] for y in range(height)]


class Layers(Screen[None]):
    """Widgets beside each other, one that is scrolled, and one on top of others."""

    DEFAULT_CSS = """
    Layers { layers: default above; }
    Layers #list { height: 6; width: 20; }
    Layers #list Square { height: 10; }
    Layers #wide { height: 5; width: 30; }
    Layers #top { layer: above; offset: 12 3; width: 15; height: 4; }
    Layers #label { layer: above; offset: 22 3; width: 6; height: 1; }
    """

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="list"):
            yield Square(name="scrolled")
        for name in ("wide", "top"):
            square = Square(name=name)
            square.id = name
            yield square
        yield Label("label", id="label")


class Layered(App[None]):
    def get_default_screen(self) -> Screen[None]:
        screen = Layers()
        screen._compositor = CellCompositor()
        return screen

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(DARK)


async def test_the_cells_of_an_update_are_those_of_the_whole_picture() -> None:
    chance = random.Random(1)
    app = Layered()
    async with app.run_test(size=(40, 12)) as pilot:
        app.query_one(VerticalScroll).scroll_to(y=3, animate=False)
        await pilot.pause()
        compositor = app.screen._compositor
        assert isinstance(compositor, CellCompositor)
        whole = compositor.render_strips()
        for _ in range(60):
            x, y = chance.randrange(39), chance.randrange(11)
            regions = {
                Region(x, y, chance.randint(1, 40 - x), chance.randint(1, 12 - y)),
                Region(chance.randrange(40), chance.randrange(12), 1, 1),
            }
            compositor._dirty_regions = set(regions)
            update = compositor.render_partial_update()
            assert update is not None
            drawn = {(at.y, at.x + cell) for at in update.pieces for cell in range(at.length)}
            assert drawn == {(row, column) for region in regions for column, row in cells(region)}
            assert len(drawn) == sum(at.length for at in update.pieces)
            for at in update.pieces:
                assert (
                    "".join(segment.text for segment in at.segments)
                    == whole[at.y].crop(at.x, at.x + at.length).text
                )
        assert compositor.render_partial_update() is None


def cells(region: Region) -> list[tuple[int, int]]:
    return [(column, row) for row in region.line_range for column in region.column_range]


async def test_a_row_that_stays_as_it_is_is_drawn_once() -> None:
    app = Layered()
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        square = app.query_one("#wide", Square)
        whole = Region(0, 0, *square.size)
        before = square.render_lines(whole)
        made = square.make_rows(*square.size)
        made[1] = [("other", "fail")]
        square.make_rows = lambda *_: made
        square.redraw()
        after = square.render_lines(whole)
        assert [old is new for old, new in zip(before, after, strict=True)] == [True, False, True, True, True]
        assert after[1].text == "other".ljust(30)
        assert square.render_lines(Region(2, 1, 3, 1))[0].text == "her"


# ---- what changed in the rows of a screen


class Cells(CellScreen):
    """Two widgets below each other; a label lies over a part of the second."""

    DEFAULT_CSS = """
    Cells { layers: default above; }
    Cells Square { height: 3; width: 30; }
    Cells Label { layer: above; offset: 4 4; width: 6; height: 1; }
    """

    def compose(self) -> ComposeResult:
        for name in ("free", "covered"):
            square = Square(name=name)
            square.id = name
            yield square
        yield Label("label")


class OfCells(Layered):
    def get_default_screen(self) -> Screen[None]:
        return Cells()


async def test_what_changes_together_is_sent_as_one_update_and_through_textual_where_something_is_on_top(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = OfCells()
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        screen, sent = app.screen, []
        assert isinstance(screen, Cells)
        monkeypatch.setattr(screen, "send", lambda pieces: sent.append(sorted(pieces)))
        free, covered = app.query_one("#free", Square), app.query_one("#covered", Square)

        def say(square: Square, text: str) -> None:
            rows = square.make_rows(*square.size)
            rows[1] = [(text, "text")]
            square.make_rows = lambda *_: rows  # type: ignore[method-assign]
            square.redraw()

        with screen.unsent.gathered():
            say(free, "free1 here")
            say(free, "free1 there")
            assert sent == []
        assert {(at.y, at.x, "".join(segment.text for segment in at.segments)) for at in sent.pop()} >= {
            (1, 6, "there")
        }
        say(free, "free1 alone")
        await pilot.pause()
        assert len(sent) == 1
        with screen.unsent.gathered():
            say(free, "free1 again")
            say(covered, "covered1 as well")
        assert len(sent) == 1
        await pilot.pause()
        shown = [strip.text for strip in screen._compositor.render_strips()]
        assert shown[1].startswith("free1 again")
        assert shown[4].startswith("covelabel")


async def test_rows_that_are_on_no_screen_any_more_harm_nobody() -> None:
    app = OfCells()
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        square = app.query_one("#free", Square)
        await square.remove()
        square.make_rows = lambda *_: [[("late", "text")]]  # type: ignore[method-assign]
        square.redraw()
        await pilot.pause()
        assert app.is_running
