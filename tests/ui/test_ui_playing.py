"""Playing a rollout: by words and by turns, the time bar, and how little of the screen it touches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rollout_screens import (
    cold_replay,
    line_with,
    lines,
    read,
    replay,
    settled,
    shown,
    tool_records,
)

from grpo_top.ui.cell_screen import Unsent
from grpo_top.ui.widgets.time_bar import TimeBar
from grpo_top.ui.widgets.wrapped_text import WrappedText

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from grpo_top.snapshot import Snapshot

WIDE, MIDDLE = (160, 45), (120, 40)


async def test_playing_turns_goes_on_turn_by_turn_and_stops_at_the_last(tools: Snapshot) -> None:
    async with replay(tools, 1, "task-0", 0).run_test(size=MIDDLE) as pilot:
        assert "turn 3 of 3" in (await shown(pilot))[-3]
        assert "turn 0 of 3" in (await shown(pilot, "home"))[-3]
        assert "turn 1 of 3" in (await shown(pilot, "full_stop"))[-3]
        await shown(pilot, "9", "space")
        await pilot.pause(0.6)
        screen = await shown(pilot)
        assert "turn 3 of 3" in screen[-3]
        assert "paused ×9" in screen[-3]


async def test_it_plays_by_words_and_the_current_one_is_marked(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        assert "token 9 of 9" in (await shown(pilot))[-3]
        assert "token 0 of 9" in (await shown(pilot, "home"))[-3]
        screen = await shown(pilot, *["full_stop"] * 4)
        assert "near token 5 of 9" in screen[-3]
        text = pilot.app.screen.query_one(WrappedText)
        reversed_ = [
            segment.text for segment in text.render_line(5) if segment.style and segment.style.reverse
        ]
        assert reversed_ == ["31"]
        assert "near token 4 of 9" in (await shown(pilot, "comma"))[-3]


async def test_space_plays_and_pauses_and_begins_anew_at_the_end(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        await shown(pilot, "1", "space")
        assert "▸ play   ×1" in lines(pilot)[-3]
        await pilot.pause(0.15)
        await pilot.press("space")
        await settled(pilot)
        assert "paused ×1" in lines(pilot)[-3]
        assert "token 9 of 9" not in lines(pilot)[-3]
        await shown(pilot, "9", "space")
        await pilot.pause(0.5)
        assert "token 9 of 9" in (await shown(pilot))[-3]


async def test_playing_repaints_the_rows_that_change_and_nothing_else(
    cold: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[tuple[str, int]] = []
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        await shown(pilot, "home", "full_stop")
        monkeypatch.setattr(
            Unsent, "add", lambda _, widget, spans: painted.append((type(widget).__name__, len(spans)))
        )
        pilot.app.screen.action_step(1)
        await pilot.pause()
    assert {name for name, _ in painted} == {"SearchedText", "TimeBar"}
    assert all(spans <= 6 for _, spans in painted)


async def test_the_time_bar_is_drawn_to_the_budget_and_shows_where_it_ended(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "home", *["full_stop"] * 4)
    bar, labels = screen[-3], screen[-2]
    start, end, budget = bar.index("━"), bar.index("┤"), bar.rindex("┤")
    assert bar.rstrip().endswith("┤ budget 32")
    assert abs((end - start) / (budget - start) - 9 / 32) < 0.02
    assert labels[end:].startswith("9 stop")
    assert bar[labels.index("5")] == "●"


async def test_a_completion_that_was_cut_off_ends_at_its_budget(truncated: Snapshot) -> None:
    async with replay(truncated, 2, "2t-0", 5).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert "ended         length ▲ cut off" in line_with(screen, "ended    ")
    assert "8 cut off" in screen[-2]
    assert "● budget 8" in screen[-3]


async def test_the_beginning_of_a_loop_is_marked(tmp_path: Path) -> None:
    records = tool_records()[:1]
    for index in range(2):
        text = "so it is " + ("again and again. " * 20 if index == 0 else "done")
        records.append(
            {
                "kind": "rollout",
                "step": 1,
                "group": "g",
                "index": index,
                "prompt": "p",
                "completion": text,
                "reward": float(index),
                "completion_tokens": 40,
            }
        )
    snapshot = read(tmp_path, [*records, {"kind": "step", "step": 1, "metrics": {}}])
    async with replay(snapshot, 1, "g", 0).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert "it ends in a loop" in line_with(screen, "loop")
    assert screen[-3][screen[-2].index("loop") + 2] == "┼"


async def test_there_is_one_timer_and_it_rests_while_nothing_plays(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        await settled(pilot)
        drawn = 0
        bar = pilot.app.screen.query_one(TimeBar)

        def counting(*_: Any, _show: Any = bar.show) -> None:
            nonlocal drawn
            drawn += 1
            _show(*_)

        bar.show = counting  # type: ignore[method-assign]
        await pilot.pause(0.35)
        assert drawn == 0
        await pilot.press("home", "space")
        await pilot.pause(0.35)
        assert drawn > 2
