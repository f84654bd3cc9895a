"""The app: what it draws when, how a live run reaches it, and its keys."""

from __future__ import annotations

import time

from recorded import line_with, lines, log, snapshot, still
from textual.events import Key as KeyEvent

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.cell_screen import Unsent
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.keys import APP_KEYS, Key, bindings, with_app_keys
from grpo_top.ui.launch import theme_name
from grpo_top.ui.panels.catalogue import PANELS
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.findings import FindingsScreen
from grpo_top.ui.screens.help import HelpScreen, sections
from grpo_top.ui.screens.monitor import MonitorScreen
from grpo_top.ui.widgets.footer import key_runs
from grpo_top.ui.widgets.latest_groups import LatestGroups


def live(directory, **options) -> GrpoTop:
    monitor = Monitor([str(directory)], Settings())
    return GrpoTop(monitor.snapshot(), monitor, **options)


async def until(pilot, condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        await pilot.pause(0.05)


# ---- reading


async def test_before_there_is_a_log_the_screen_says_what_it_looks_for_and_where(tmp_path):
    app = live(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        shown = lines(app)

    assert "? waiting" in shown[0]
    assert shown[2].startswith(f"  ? No data yet   looking for a trainer's log in {tmp_path}"[:100])
    assert "a file that appears later is found" in shown[3]
    assert not any("╭" in line for line in shown)


async def test_nothing_is_read_before_the_first_frame(tmp_path, monkeypatch):
    (tmp_path / "rollouts.jsonl").write_bytes(log("healthy", 3))
    app = live(tmp_path)
    seen: list[bool] = []
    poll = Monitor.poll

    def polled(self, *args, **options):
        seen.append(app.screen.query_one("TitleLine").size.width > 0)
        return poll(self, *args, **options)

    monkeypatch.setattr(Monitor, "poll", polled)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.view.snapshot.judged_step is not None)

    assert seen[0]


async def test_a_log_that_appears_and_grows_is_followed(tmp_path):
    app = live(tmp_path)
    path = tmp_path / "rollouts.jsonl"
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        path.write_bytes(log("sampler_cold", 60))
        await until(pilot, lambda: (app.view.snapshot.judged_step or 0) >= 59)
        await until(pilot, lambda: "SAMPLER_DRIFT" in lines(app)[2])
        with path.open("ab") as file:
            file.write(log("sampler_cold", 70)[len(log("sampler_cold", 60)) :])
        await until(pilot, lambda: (app.view.snapshot.judged_step or 0) >= 69)
        await until(pilot, lambda: "step 69/120" in lines(app)[0] or "step 70/120" in lines(app)[0])


async def test_reading_goes_on_while_the_view_is_paused(tmp_path):
    app = live(tmp_path)
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(log("healthy", 20))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: (app.view.snapshot.judged_step or 0) >= 19)
        await pilot.press("space")
        held = app.view.cursor
        with path.open("ab") as file:
            file.write(log("healthy", 30)[len(log("healthy", 20)) :])
        await until(pilot, lambda: (app.view.snapshot.judged_step or 0) >= 29)
        await until(pilot, lambda: "live is" in lines(app)[0])

        assert app.view.cursor == held
        assert f"paused at step {held}" in lines(app)[0]


async def test_an_error_while_reading_is_shown_and_what_was_read_stands(tmp_path, monkeypatch):
    (tmp_path / "rollouts.jsonl").write_bytes(log("healthy", 20))
    app = live(tmp_path)

    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: (app.view.snapshot.judged_step or 0) >= 19)
        monkeypatch.setattr(Monitor, "poll", lambda *_: (_ for _ in ()).throw(OSError("the disk has gone")))
        await until(pilot, lambda: "reading stopped" in lines(app)[0])

        assert "the disk has gone" in lines(app)[2]
        assert "2 Reward and held-out" in line_with(app, "Reward")


async def test_the_monitor_ends_with_the_app(tmp_path):
    app = live(tmp_path)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app._live is not None and app._live.is_alive())
        await pilot.press("q")
        await pilot.pause()

    assert app._live is not None
    assert not app._live.is_alive()


# ---- drawing


async def test_nothing_is_painted_while_nothing_changes(monkeypatch):
    app = still("sampler_cold")
    async with app.run_test(size=(160, 45)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause(0.5)
        painted: list[str] = []
        monkeypatch.setattr(Unsent, "add", lambda _, widget, __: painted.append(type(widget).__name__))
        await pilot.pause(1.5)

    assert painted == []


async def test_only_what_changed_is_made_and_painted(monkeypatch):
    app = still("sampler_cold", 109)
    async with app.run_test(size=(160, 45)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause(0.3)
        cells: list[int] = []
        groups: list[list[str]] = []

        def count(self, widget, spans):
            if isinstance(widget, LatestGroups):
                groups.append([widget.text_of(y) for y in range(widget.size.height)])
            else:
                cells.append(sum(length for _, _, length in spans))

        monkeypatch.setattr(Unsent, "add", count)
        app.take(snapshot("sampler_cold", 110))
        await until(pilot, lambda: app.view.snapshot.judged_step == 110 and groups)
        asked: list[str] = []
        for panel in PANELS:
            monkeypatch.setattr(f"grpo_top.ui.panels.{panel.key}.note", lambda *_: asked.append("note"))
        await pilot.press("j")

    assert 0 < sum(cells) < 160 * 45 / 10
    # The newest groups come with their prompts, and not before them.
    assert groups[0][2].startswith("│  110 ")
    assert all(row[7:14].strip() for row in groups[0][2:] if row[40:].strip(" │╯─"))
    # Moving the focus makes no panel say anything anew.
    assert asked == []


async def test_only_the_newest_picture_is_drawn():
    app = still("sampler_cold", 100)
    async with app.run_test(size=(120, 40)) as pilot:
        app.take(snapshot("sampler_cold", 105))
        app.take(snapshot("sampler_cold", 110))
        await until(pilot, lambda: "step 110/120" in lines(app)[0])


# ---- keys


def test_bindings_and_the_footer_come_from_one_table():
    table = (Key("a,b", "go", "a", "word", "a sentence"), Key("c", "other"))

    made = bindings(table)

    assert [binding.key for binding in made] == ["a,b", "c"]
    assert made[0].description == "a sentence"
    assert "".join(text for text, _ in key_runs(table, 40, UNICODE)) == " a word"


def test_a_narrow_footer_drops_by_rank_and_then_from_the_right_but_keeps_the_help():
    keys = (
        Key("x", "x", "x", "first"),
        Key("y", "y", "y", "second"),
        Key("z", "z", "z", "rare", rank=2),
        Key("question_mark", "h", "?", "help", rank=-1),
    )

    def text(width: int) -> str:
        return "".join(part for part, _ in key_runs(keys, width, UNICODE))

    assert text(40) == " x first  y second  z rare  ? help"
    assert text(30) == " x first  y second  ? help"
    assert text(20) == " x first  ? help"
    assert text(8) == " ? help"


def test_arrows_have_names_in_ascii():
    assert Key("up", "go", "↑↓←→").label(ASCII) == "hjkl"
    assert Key("0", "stage", "0–8").label(ASCII) == "0-8"


async def test_every_action_of_every_key_exists():
    app = still("healthy")
    async with app.run_test():
        screen = app.screen
        for key in (*MonitorScreen.KEYS, *APP_KEYS):
            name = key.action.partition("(")[0]
            owner = app if name.startswith("app.") else screen
            assert hasattr(owner, f"action_{name.removeprefix('app.')}"), key


async def test_the_help_lists_the_keys_of_where_one_is_and_the_marks():
    app = still("healthy")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert "every finding, first cause first" in line_with(app, " f ")
        assert "▲ warn  ✖ fail" in line_with(app, "✖")
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, MonitorScreen)


async def test_f_and_s_lead_to_findings_and_rollouts_and_back():
    app = still("sampler_cold")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f")
        assert isinstance(app.screen, FindingsScreen)
        await pilot.press("escape")
        await pilot.press("s")
        assert isinstance(app.screen, BrowserScreen)
        await pilot.press("escape")
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, MonitorScreen)


async def test_the_palette_offers_this_apps_own_commands_with_a_steady_cursor():
    app = still("healthy")
    async with app.run_test(size=(80, 24)) as pilot:
        offered = [command.title for command in app.get_system_commands(app.screen)]
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        assert not app.screen.query_one("CommandInput").cursor_blink
        await pilot.press("escape")

    everywhere = [
        "Findings",
        "Rollouts",
        "Other metrics",
        "Hand scores",
        "Pause",
        "Go live",
        "Zoom in",
        "Zoom out",
        "Log scale",
        "Smoothing",
        "Theme",
        "Help",
        "Quit",
    ]
    assert offered == everywhere


async def test_q_and_ctrl_c_leave():
    for key in ("q", "ctrl+c"):
        app = still("healthy")
        async with app.run_test() as pilot:
            await pilot.press(key)
        assert app.return_code == 0


def test_no_colour_wins_over_a_theme_that_is_asked_for():
    assert theme_name("dark", {"NO_COLOR": "1"}) == "grpo-top-ansi"
    assert theme_name("light", {}) == "grpo-top-light"
    assert theme_name(None, {"COLORTERM": "truecolor"}) == "grpo-top-dark"


def test_the_help_of_a_screen_holds_the_keys_of_the_app_that_it_has_not_taken():
    own = (Key("s", "skip", "s", "skip"), Key("q", "app.quit", "q", "quit"))
    assert [key.shown for key in with_app_keys(own, "")] == ["s", "q", "f", "?", "ctrl+p"]
    assert "f" not in [key.shown for key in with_app_keys(own, "findings")]
    assert [title for title, _ in sections(with_app_keys(own, ""))] == ["here", "everywhere"]


async def test_keys_that_are_typed_ahead_of_a_screen_wait_for_it():
    app = still("sampler_cold")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for key in ("s", "enter", "enter"):
            app.post_message(KeyEvent(key, key if len(key) == 1 else None))
        for _ in range(20):
            await pilot.pause()
        assert isinstance(app.screen, BrowserScreen)
        assert "┏━ Rollouts " in lines(app)[2]
