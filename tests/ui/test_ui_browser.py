"""The browser: steps, groups and rollouts in columns, the preview, the filter, at three widths."""

from __future__ import annotations

import threading
import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rollout_screens import Shown, filtered, line_with, lines, read, recorded, row_of, settled, shown

from grpo_top.snapshot import Gone
from grpo_top.ui.glyphs import ASCII
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.replay import ReplayScreen
from grpo_top.ui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

LAST = 110
WIDE, MIDDLE, NARROW = (160, 45), (120, 40), (80, 24)


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return recorded(tmp_path_factory.mktemp("cold"), "sampler_cold", LAST)


def browser(snapshot: Snapshot, **options: object) -> Shown:
    return Shown(snapshot, BrowserScreen, **options)


# ---- three columns


async def test_a_wide_window_shows_steps_groups_rollouts_and_a_preview(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert "Monitor › Rollouts › step 110" in screen[2]
    assert "━ Steps ━" in screen[3]
    assert "─ Groups  step 110 ─" in screen[3]
    assert "─ Rollouts  step 110, 37+11= ─" in screen[3]
    assert line_with(screen, "37+11=", "plain").startswith(
        "┃▸  110   0.986   ▂▂▂▄      ·       ┃│▸  110  37+11=   plain   ▇▆▆▆▅▆▇▇   1.00  0.061    3/8   │"
    )
    assert "│▸  0   1.050  +0.76    9 stop    0  0.15  <answer>51</answer> │" in screen[5]
    assert any("Preview  #0" in line and "enter replay" in line for line in screen)


async def test_a_step_shows_its_reward_the_spread_of_its_groups_and_the_share_of_flat_ones(
    cold: Snapshot,
) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert line_with(screen, "┃   109 ")[:37] == "┃   109   1.042   ▅▁▂▁    50%       ┃"
    assert line_with(screen, "┃   100 ")[:37] == "┃   100   0.864   ▂▂▂▄      ·  ◆    ┃"


async def test_two_columns_fit_a_middle_window_and_they_move_with_the_cursor(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=MIDDLE) as pilot:
        screen = await shown(pilot)
        assert "Steps" in screen[3]
        assert "Groups" in screen[3]
        assert "Rollouts  step" not in screen[3]
        screen = await shown(pilot, "enter")
        assert "Steps" not in screen[3]
        assert "Groups" in screen[3]
        assert "Rollouts  step 110, 37+11=" in screen[3]
        assert any("beside its family" in line for line in screen)


async def test_a_narrow_window_shows_one_column_at_a_time(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=NARROW) as pilot:
        steps = await shown(pilot)
        assert "━ Steps ━" in steps[2]
        assert steps[3].split()[-5:] == ["success", "σ", "dup", "trunc", "┃"], "there is room for more"
        assert line_with(steps, "▸  110 ").split()[-4:-1] == ["0.0690", "91%", "0%"]
        groups = await shown(pilot, "enter")
        assert "━ Groups  step 110 ━" in groups[2]
        assert line_with(groups, "27+13=").rstrip() == (
            "┃   110  27+13=    carry   ▇▅▇▇▇▇▇▅   1.02  0.171    4/8  all-fail     ·   0   ┃"
        )
        rollouts = await shown(pilot, "enter")
        assert "━ Rollouts  step 110, 37+11= ━" in rollouts[2]
        assert any("Preview  #0" in line for line in rollouts)
        assert "esc back" in rollouts[-1]


async def test_the_preview_tells_what_is_known_of_the_rollout_and_sets_its_group_beside_its_family(
    cold: Snapshot,
) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "down", "o", "enter", "enter")
    preview = [line[97:159] for line in screen]
    assert line_with(preview, "task add/27+5", "family carry").startswith(" prompt ")
    assert line_with(preview, "9 of 32 tokens", "ended: stop").startswith(" completion ")
    assert line_with(preview, " verifier").rstrip() == ' verifier     "33"    parsed yes   error none'
    assert line_with(preview, " advantage").rstrip() == " advantage    0       the group has no spread"
    assert "temperature 0.15 ✖ 1.0  top_p 1.0  max 32" in line_with(preview, " sampling ")
    assert line_with(preview, "beside").rstrip() == " beside its family    group   carry 91–110   carry 31–50"
    assert line_with(preview, "texts of 8").split() == ["texts", "of", "8", "1.0", "2.9", "6.2"]
    assert line_with(preview, "success").split() == ["success", "0%", "17%", "9.1%"]


async def test_a_flat_group_says_that_it_teaches_nothing(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "down", "o")
    assert "8 rollouts, 1 text: the group teaches nothing" in line_with(screen, "teaches")
    assert "flat    1/8" in line_with(screen, "27+5=", "carry")


async def test_a_rollout_that_was_cut_off_says_so(truncated: Snapshot) -> None:
    async with browser(truncated).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert any(" length " in line[97:] for line in screen[5:13])
    assert "8 of 8 tokens   ended: length" in line_with(screen, "completion ", "ended")


@pytest.mark.parametrize("size", [(300, 80), (160, 12), (100, 10), (60, 8), (20, 5), (5, 2)])
async def test_a_window_of_any_size_is_drawn(cold: Snapshot, size: tuple[int, int]) -> None:
    async with browser(cold).run_test(size=size) as pilot:
        await filtered(pilot, "flat")
        assert all(len(line) == size[0] for line in await shown(pilot, "enter", "enter", "down", "pagedown"))


# ---- moving


async def test_the_newest_step_is_followed_until_one_moves_away(cold: Snapshot, tmp_path: Path) -> None:
    early = recorded(tmp_path, "sampler_cold", 100)
    later = replace(cold, version=early.version + 1)
    app = browser(early)
    async with app.run_test(size=WIDE) as pilot:
        assert "following  100" in (await shown(pilot))[3]
        app.take(later)
        app._tick()
        assert "▸  110 " in line_with(await shown(pilot), "┃▸ ")
        await shown(pilot, "down")
        app.take(replace(early, version=later.version + 1))
        app._tick()
        assert "┃▸  100 " in line_with(await shown(pilot), "┃▸ ")
        app.take(replace(cold, version=later.version + 2))
        app._tick()
        assert "┃▸  109 " in line_with(await shown(pilot), "┃▸ ")


async def test_arrows_and_letters_move_in_the_same_way(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        by_arrows = await shown(pilot, "down", "down", "right", "down")
        by_letters = await shown(pilot, "h", "home", "j", "j", "l", "j")
    assert by_arrows[4:44] == by_letters[4:44]
    assert "▸  108 " in by_arrows[7]


async def test_enter_goes_deeper_to_the_replay_and_escape_back_one_layer(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        await shown(pilot, "enter", "enter", "enter")
        assert isinstance(pilot.app.screen, ReplayScreen)
        await shown(pilot, "escape")
        assert isinstance(pilot.app.screen, BrowserScreen)
        assert "› #0" in lines(pilot)[2]
        await shown(pilot, "escape")
        assert "› #0" not in lines(pilot)[2]
        await shown(pilot, "escape", "escape")
        assert not isinstance(pilot.app.screen, BrowserScreen)


async def test_o_changes_the_order_of_the_groups_and_capital_o_turns_it_round(cold: Snapshot) -> None:
    def prompts(screen: list[str]) -> list[str]:
        return [line[46:54].strip() for line in screen[5:9]]

    async with browser(cold).run_test(size=WIDE) as pilot:
        newest = await shown(pilot)
        by_spread = await shown(pilot, "o")
        by_mean = await shown(pilot, "o")
        highest = await shown(pilot, "O")
        titles = [(await shown(pilot, "o"))[3] for _ in range(7)]
    assert "newest first o" in newest[3]
    assert prompts(newest) == ["37+11=", "16+17=", "40+5=", "27+13="]
    assert "σ, flat first o" in by_spread[3]
    assert prompts(by_spread) == ["40+5=", "16+17=", "37+11=", "27+13="]
    assert "mean, lowest first o" in by_mean[3]
    assert prompts(by_mean) == ["40+5=", "37+11=", "27+13=", "16+17="]
    assert "mean, highest first o" in highest[3]
    assert prompts(highest) == ["16+17=", "27+13=", "37+11=", "40+5="]
    words = (
        "length, longest",
        "duplicates, most",
        "truncated, most",
        "lag, longest",
        "task, a to z",
        "family, a to z",
    )
    assert all(word in title for word, title in zip(words, titles, strict=False))
    assert "newest first" in titles[-1]


async def test_groups_of_all_marked_steps_are_listed_the_newest_first(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, *["space"] * 20)
        assert "20 marked  of 110" in screen[3]
        assert "Groups  steps 91–110" in screen[3]
        assert "1 of 80" in screen[-2]
        assert "│▸  110 " in screen[5]
        assert "│   109 " in screen[9]
        assert "flat" in (await shown(pilot, "o"))[5]
        assert line_with(screen, "┃▌  110 ").startswith("┃▌")
        assert "2 steps" in (await shown(pilot, "a", "a", "home", "space", "down", "space"))[3]


async def test_n_goes_to_the_next_flat_group(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        await shown(pilot, "a", "o")
        screen = await shown(pilot, "n")
        assert "2 of 440" in screen[-2]
        assert "flat" in line_with([line[37:96] for line in screen], "▸")
        assert "1 of 440" in (await shown(pilot, "p"))[-2]


async def test_paused_in_the_past_nothing_later_is_listed(cold: Snapshot) -> None:
    app = browser(cold)
    async with app.run_test(size=WIDE) as pilot:
        await settled(pilot)
        app.look(cursor=50)
        screen = await shown(pilot)
    assert screen[5].startswith("┃▸   50 ")
    assert "1 of 50" in screen[-2]


async def test_a_click_moves_the_cursor_and_a_second_one_opens(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        await settled(pilot)
        await pilot.click("#body", offset=(10, 5))
        assert "┃▸  108 " in line_with(await shown(pilot), "┃▸ ")
        await pilot.click("#body", offset=(10, 5))
        assert "┏━ Groups  step 108" in (await shown(pilot))[3]


# ---- the filter


async def test_a_filter_narrows_steps_groups_and_rollouts_and_counts_what_is_left(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        await shown(pilot, *["space"] * 20)
        screen = await filtered(pilot, "std<0.1 temperature<1")
    assert screen[3].startswith(" / std<0.1 temperature<1 ")
    assert screen[3].rstrip().endswith("56 of 80 groups   448 of 640 rollouts")
    assert "1 of 56" in screen[-2]


async def test_the_filter_can_be_moved_through_while_it_is_written(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "slash", *"flat", "down", "down")
    assert screen[3].startswith(" / flat ")
    assert "▸  106 " in line_with(screen, "┃▸ ")


async def test_a_wrong_filter_points_at_the_column_and_the_last_good_one_stays(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        await filtered(pilot, "flat")
        screen = await filtered(pilot, "flat rewrad<1")
        assert screen[3].startswith(" / flat rewrad<1 ")
        assert screen[4].rstrip() == "        ^ there is no field rewrad; did you mean reward?"
        assert "of 20 groups" not in screen[3]
        assert "109 " in screen[7]
        cleared = await shown(pilot, "escape")
        assert cleared[3].startswith("┏━ Steps ")


async def test_tab_writes_a_field_out(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "slash")
        assert any("reward<0.5 family=carry, or words of the texts" in line for line in screen)
        assert screen[-1].startswith(" enter take it ")
        screen = await shown(pilot, *"temp", "tab")
    assert screen[3].startswith(" / temperature ")


async def test_rollouts_that_do_not_match_stay_beside_those_that_do(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        await filtered(pilot, "reward=0.75 step=110")
        screen = await shown(pilot, "end", "enter", "enter")
        listed = [line[97:] for line in screen if "<answer>" in line[97:] and "Preview" not in line]
        assert len(listed) >= 8
        first = next(line for line in listed if line.startswith("▸"))
        moved = [line[97:] for line in await shown(pilot, "n") if line[97:98] == "▸"]
        assert moved
        assert moved[0] != first


async def test_evidence_shows_only_its_own_groups(cold: Snapshot) -> None:
    rows = (row_of(cold, 110, "110t-3", 1), row_of(cold, 100, "100t-0", 2))
    app = Shown(cold, lambda: BrowserScreen(rows=rows, title="SAMPLER_DRIFT, 2 rollouts"))
    async with app.run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
        assert "Monitor › SAMPLER_DRIFT, 2 rollouts › 2 steps" in screen[2]
        assert "2 of 8 groups   2 of 64 rollouts" not in "".join(screen[4:])
        assert "1 of 2" in screen[-2]
        await shown(pilot, "enter", "enter")
        replay = await shown(pilot)
        assert isinstance(pilot.app.screen, ReplayScreen)
        assert "of 2 n p next, previous" in replay[2]


# ---- texts


async def test_texts_are_read_for_the_rows_that_are_seen_and_no_others(cold: Snapshot) -> None:
    asked: list[int] = []

    def counting(row: int) -> object:
        asked.append(row)
        return cold.read(row)

    app = browser(replace(cold, read=counting))
    async with app.run_test(size=WIDE) as pilot:
        await settled(pilot)
        asked.clear()
        await shown(pilot, "down", "up", "down", "up")
    batch = cold.batch(109)
    assert batch is not None
    assert 0 < len(asked) <= 4 + 8
    assert len(set(asked)) == len(asked)
    assert set(asked) <= set(batch.rows.tolist())


async def test_keys_do_not_wait_for_a_disk(cold: Snapshot) -> None:
    held = threading.Event()

    def slow(row: int) -> object:
        held.wait(10)
        return cold.read(row)

    app = browser(replace(cold, read=slow))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        await pilot.press("down", "down")
        await pilot.pause()
        screen = lines(pilot)
        assert "┃▸  108 " in line_with(screen, "┃▸ ")
        assert "24+32=" not in "".join(screen)
        held.set()
        assert "24+32=" in "".join(await shown(pilot))


async def test_a_file_that_is_gone_leaves_the_numbers_and_says_so(cold: Snapshot) -> None:
    app = browser(
        replace(cold, read=lambda row: Gone("rollouts.jsonl: No such file; its numbers still stand"))
    )
    async with app.run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert "1.00  0.061    3/8" in screen[5]
    assert "1.050  +0.76    9 stop" in screen[5]
    assert any("rollouts.jsonl: No such file" in line[97:] for line in screen)


# ---- what a model wrote


HOSTILE = {
    "escape": "\x1b[2J\x1b]52;c;ZXZpbA==\x07",
    "c1": "\x9b31m\x90q\x9c",
    "markup": "[/x] [bold]b[/bold] [@click=app.quit]q[/]",
    "bidi": "\u202eabc\u2066d\u2069",
    "hidden": "zero\u200bwidth\ufeff\u00ad",
    "lines": "a\rb\x0bc\x0cd\x85e\u2028f",
    "wide": "日本語のテキスト👩\u200d💻",
}


def hostile_records() -> list[dict[str, object]]:
    evil = "".join(HOSTILE.values())
    records: list[dict[str, object]] = [
        {
            "kind": "run",
            "schema": "grpo-top/1",
            "run": "evil",
            "group_size": 4,
            "sampling": {"temperature": 1.0, "max_tokens": 64},
        }
    ]
    for index in range(4):
        text = list(HOSTILE.values())[index]
        records.append(
            {
                "kind": "rollout",
                "step": 1,
                "group": f"g{evil}",
                "index": index,
                "reward": index / 4,
                "rewards": {f"acc{evil}": index / 4},
                "prompt": f"{evil}\n{text}",
                "completion": f"{text}\n{evil}{index}",
                "task": f"task{evil}",
                "family": f"family{evil}",
                "tier": f"tier{evil}",
                "verifier": {"raw": text, "error": evil if index else None},
                "parsed": True,
                "completion_tokens": 7,
                "finish_reason": f"stop{evil}",
                "termination": evil,
                "sampler": f"gpu{evil}",
                "sampling": {"temperature": 0.5, "max_tokens": 64},
                "env_version": evil,
                "reward_version": evil,
            }
        )
    return [*records, {"kind": "step", "step": 1, "metrics": {"loss": 0.1}}]


def unsafe(text: str) -> set[str]:
    return {
        character for character in text if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    }


@pytest.mark.parametrize("size", [WIDE, MIDDLE, NARROW])
async def test_nothing_that_a_model_wrote_reaches_the_terminal_raw(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = browser(read(tmp_path, hostile_records()))
    async with app.run_test(size=size) as pilot:
        for key in ("", "enter", "enter", "enter"):
            screen = await shown(pilot, *([key] if key else []))
            body = "".join(screen[1:])
            assert not unsafe(body)
            assert "␛" in body or key == ""
        assert isinstance(pilot.app.screen, ReplayScreen)
        for key in ("r", "r", "d", "home", "full_stop", "full_stop", "end", "tab"):
            assert not unsafe("".join((await shown(pilot, key))[1:]))


async def test_in_ascii_the_screen_itself_is_ascii(cold: Snapshot) -> None:
    async with browser(cold, glyphs=ASCII).run_test(size=WIDE) as pilot:
        screens = [
            await shown(pilot),
            await shown(pilot, "down", "enter", "enter"),
            await shown(pilot, "enter"),
        ]
    for screen in screens:
        assert {character for line in screen[2:] for character in line if not character.isascii()} <= set()


async def test_every_list_is_one_widget(cold: Snapshot) -> None:
    async with browser(cold).run_test(size=WIDE) as pilot:
        await shown(pilot, "a")
        lists = pilot.app.screen.query(VirtualList)
        assert len(lists) == 3
        assert not any(list_.children for list_ in lists)
