"""Hand scores on the screen: a sitting, its end, and what the run makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rollout_screens import NOON, Shown, line_with, settled, shown, tool_records
from test_grades import log, written

from grpo_top.config import Settings
from grpo_top.grade_store import GradeStore
from grpo_top.monitor import Monitor
from grpo_top.ui.glyphs import ASCII
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.grading import GradingScreen
from grpo_top.ui.screens.replay import ReplayScreen

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

WIDE, MIDDLE, NARROW = (160, 45), (120, 40), (80, 24)


def watched(directory: Path, store: GradeStore, records: list[dict[str, Any]] | None = None) -> Monitor:
    monitor = Monitor(
        [str(written(directory / "run", records or log()))], Settings(), clock=lambda: NOON, grades=store
    )
    monitor.read_all()
    return monitor


def grading(monitor: Monitor, **options: Any) -> Shown:
    return Shown(monitor.snapshot(), GradingScreen, **options)


async def score_all(pilot: Pilot[Any]) -> list[str]:
    """Read each rollout, and score what it says of itself."""
    screen = await shown(pilot)
    while "Your score" in "".join(screen):
        said = line_with(screen, "answer ")
        screen = await shown(pilot, "1" if "right" in said else "0")
    return screen


async def test_a_sitting_hides_what_the_pipeline_says_and_ends_with_the_agreement(tmp_path: Path) -> None:
    store = GradeStore(tmp_path / "scores.jsonl")
    monitor = watched(tmp_path, store)
    async with grading(monitor).run_test(size=MIDDLE) as pilot:
        screen = await shown(pilot)
        assert "Hand scores › 1 of 20" in screen[2]
        assert "the pipeline's score is hidden" in "".join(screen)
        assert not any(word in "".join(screen) for word in ("advantage", "passed", "parsed"))
        assert "verifier" not in "".join(screen)
        assert line_with(screen, "family")
        screen = await score_all(pilot)
        assert "Hand scores › the end" in screen[2]
        assert "20 hand scores" in screen[3]
        agreed = line_with(screen, " agree with the pipeline's")
        assert "✖" in agreed
        assert "limit 90%" in agreed
        assert line_with(screen, "kappa")
        assert line_with(screen, "hand right")
        assert line_with(screen, "hand wrong").split()[3] == "0"
        count = int(line_with(screen, "disagreements").split("┃")[1].split()[0])
        assert line_with(screen, " right ", "failed 0")
        # The run takes them in, and `enter` opens them as a filtered set.
        monitor.poll()
        now = monitor.snapshot()
        assert {finding.id for finding in now.findings} >= {"HAND_SCORE_MISMATCH"}
        assert len(store.load()) == len(now.graded) == 20
        screen = await shown(pilot, "enter")
        assert isinstance(pilot.app.screen, BrowserScreen)
        assert "hand scores that disagree" in "".join(screen)
        row = next(graded.row for graded in now.graded)
    async with Shown(now, lambda: ReplayScreen(row)).run_test(size=WIDE) as pilot:
        facts = [line[101:159] for line in await shown(pilot)]
        assert line_with(facts, "hand score").split()[2] in {"right", "wrong"}
    assert count == 20 - int(agreed.split(" of ")[0].split()[-1])


async def test_numbers_notes_skips_and_second_thoughts(tmp_path: Path) -> None:
    store = GradeStore(tmp_path / "scores.jsonl")
    async with grading(watched(tmp_path, store), glyphs=ASCII).run_test(size=NARROW) as pilot:
        screen = await shown(pilot, "v", *"half", "enter")
        assert line_with(screen, "write a number, such as 0.5")
        screen = await shown(pilot, *["backspace"] * 4, *"0,5", "enter")
        assert "2 of 20" in screen[1]
        screen = await shown(pilot, "n", *"units", "enter")
        assert line_with(screen, "note", "units")
        screen = await shown(pilot, "s")
        assert "3 of 20" in screen[1]
        assert "vs>" in line_with(screen, "so far")
        screen = await shown(pilot, "u", "u", "0")
        assert "2 of 20" in screen[1]
        assert line_with(screen, "note", "units")
        # A number that is being written is given up, then the sitting ends, then the screen is left.
        assert line_with(await shown(pilot, "v", "7"), " number 7")
        assert "2 of 20" in (await shown(pilot, "escape"))[1]
        screen = await shown(pilot, "escape")
        assert "the end" in screen[1]
        assert "1 hand score" in screen[2]
        screen = await shown(pilot, "enter", "u")
        assert "2 of 20" in screen[1]
        await shown(pilot, "escape", "escape")
        assert not isinstance(pilot.app.screen, GradingScreen)
    kept = store.load()
    assert [score.score for score in kept] == [0.5, None, 0.0]
    assert [score.note for score in kept] == ["", "units", ""]
    assert kept[0].content == kept[2].content


async def test_a_second_sitting_draws_others_and_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monitor = watched(tmp_path, GradeStore(tmp_path / "file" / "scores.jsonl"), log(2))
    async with grading(monitor).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "1")
        assert line_with(screen, "not kept beyond this session")
        first = pilot.app.screen._sitting.rows  # type: ignore[attr-defined]
        await shown(pilot, *"1010101", "escape")
        screen = await shown(pilot, "g")
        assert "1 of 20" in screen[2]
        assert not set(first[:8]) & set(pilot.app.screen._sitting.rows)  # type: ignore[attr-defined]


async def test_a_run_with_nothing_to_score_says_so(tmp_path: Path) -> None:
    records = [{k: v for k, v in record.items() if k != "completion"} for record in log(1)]
    async with grading(watched(tmp_path, GradeStore(tmp_path / "s"), records)).run_test(size=NARROW) as pilot:
        screen = await shown(pilot, "enter", "1", "s", "n")
        assert line_with(screen, "no rollout has both a text to read and a score to compare")


async def test_a_conversation_shows_no_turn_rewards_and_a_text_that_is_gone_can_only_be_skipped(
    tmp_path: Path,
) -> None:
    records = tool_records()
    for record in records[1:-1]:
        record["messages"][-1]["reward"] = 0.777
    monitor = watched(tmp_path, GradeStore(tmp_path / "s"), records)
    async with grading(monitor).run_test(size=MIDDLE) as pilot:
        screen = await shown(pilot)
        assert "0.777" not in "".join(screen)
        assert line_with(screen, "What is 9 * 20?")
    (tmp_path / "run" / "rollouts.jsonl").unlink()
    async with grading(monitor).run_test(size=MIDDLE) as pilot:
        assert line_with(await shown(pilot), "the text is gone")
        assert "› 1 of " in (await shown(pilot, "1"))[2]
        assert "› 2 of " in (await shown(pilot, "s"))[2]


@pytest.mark.parametrize("size", [(200, 60), (40, 12), (20, 5)])
async def test_it_is_drawn_at_any_size_and_g_opens_it_from_the_replay(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    snapshot = watched(tmp_path, GradeStore(tmp_path / "s")).snapshot()
    async with Shown(snapshot, lambda: ReplayScreen(0)).run_test(size=size) as pilot:
        screen = await shown(pilot, "g")
        assert isinstance(pilot.app.screen, GradingScreen)
        for keys in (["0"], ["v"], ["escape", "escape"]):
            assert all(len(line) == size[0] for line in screen)
            screen = await shown(pilot, *keys)
        await settled(pilot)
