"""The replay: a rollout played, its facts, its siblings and the difference to the best, at three widths."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rollout_screens import (
    Shown,
    cold_replay,
    line_with,
    lines,
    read,
    replay,
    row_of,
    settled,
    shown,
    tool_records,
)

from grpo_top.snapshot import Gone
from grpo_top.ui.screens.replay import ReplayScreen

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

WIDE, MIDDLE, NARROW = (160, 45), (120, 40), (80, 24)


# ---- the screen at three widths


async def test_a_wide_window_holds_text_facts_siblings_difference_and_groups(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert screen[2].startswith(" Rollouts › step 110 › 27+13= › #1 ")
    assert screen[3].startswith("┏━ Completion  policy v109 ━")
    assert "9 of 32 tokens   ended stop ━┓╭─ Facts ─" in screen[3]
    assert screen[4][:8] == "┃ user  "
    assert screen[5][:11] == "┃ ▏ 27+13= "
    assert screen[8][:24] == "┃ ▏ <answer>31</answer> "
    assert '▏ "31"  →  accuracy 0.550   format 0.200   reward 0.750' in line_with(screen, '"31"  →')
    assert "Siblings  group 110t-3" in line_with(screen, "Siblings")
    assert "mean 1.019   σ 0.171   4 texts of 8" in line_with(screen, "Siblings")
    assert line_with(screen, "│▸   1 ")[:77].rstrip() == (
        "│▸   1   0.750      −1.47     ─━━━━━┼──────    9  stop   <answer>31</answer>"
    )
    assert "<answer>41</answer>   best" in line_with(screen, "│    2 ")
    assert "Against the best sibling  #2" in line_with(screen, "Against")
    assert (
        "1 of 19 characters differs   accuracy 0.550 → 0.950   format 0.200 = 0.200   tokens 9 = 9"
        in line_with(screen, "differs")
    )
    assert "4 texts of 8 at temperature 0.15; carry groups held 6.2 of 8 at 1.0, steps 31–50" in line_with(
        screen, "groups held"
    )
    assert "▇▅▇▇▇▇▇▅   1.019   0.171  4/8   42 ×4  41 ×2  31 ×1  30 ×1" in line_with(screen, "▸  110t-3")
    assert "step 110 reward 0.986   flat groups 0 of 4   policy v109   32 rollouts, 288 tokens" in line_with(
        screen, "flat groups"
    )


async def test_the_facts_stand_in_a_fixed_order_and_say_what_is_not_logged(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    facts = [line[101:159].rstrip() for line in screen[4:39]]
    assert facts == [
        " reward        0.750   ━━━━━━━━━━━━╸───────        of 1.2",
        "   accuracy    0.550   ━━━━━━━━━───────────     0.50–0.95",
        "   format      0.200   ━━━─────────────────          flat",
        " advantage     −1.47   7th of 8 in its group   computed",
        "",
        "               raw verifier      parsed reward",
        ' verifier      "31"              0.550 accuracy',
        "   error       none              parsed yes",
        "",
        " length        9 of 32 tokens   ━━━━╸───────────",
        " ended         stop   termination not logged",
        "",
        " policy        v109   trainer v109   lag 0 of 2         ●",
        " sampler       unnamed",
        " seed          not logged                               ?",
        "",
        "   sampling     intended  deployed   since",
        " ✖ temperature       1.0      0.15      51  SAMPLER_DRIFT",
        " ● top_p             1.0       1.0       1",
        " ● top_k               0         0       1",
        " ● max_tokens         32        32       1",
        "",
        " versions      env add-1   reward r1",
        " task          add/27+13   family carry",
        " where         rollouts.jsonl   110t-3, #1",
        "               at byte 1,953,997, 469 bytes",
        "",
        " group                             bright: above the mean",
        "    ▅▅▅▅        ▆▆▆▆  ▆▆▆▆  ▅▅▅▅  ▅▅▅▅  ▅▅▅▅",
        "    ████  ▄▄▄▄  ████  ████  ████  ████  ████  ▂▂▂▂",
        "    ████  ████  ████  ████  ████  ████  ████  ████",
        "    ████  ████  ████  ████  ████  ████  ████  ████",
        "    1.10 ▸0.75  1.15  1.15  1.10  1.10  1.10  0.70",
        "",
        " hand score    g score 20 unseen   0 of 20",
    ]


async def test_a_middle_window_has_the_difference_in_the_text_and_the_siblings_under_both(
    cold: Snapshot,
) -> None:
    async with cold_replay(cold).run_test(size=MIDDLE) as pilot:
        screen = await shown(pilot)
    assert screen[3].startswith("┏━ Completion  policy v109 ━")
    assert "╭─ Facts ─" in screen[3]
    assert line_with(screen, "against the best sibling, #2  ─")
    assert "#2 1.150  <answer>41</answer>" in line_with(screen, "#2 1.150")
    assert "1 of 19 characters differs" in line_with(screen, "differs")
    assert " ✖ temperature       1.0      0.15      51 " in line_with(screen, "temperature")
    assert line_with(screen, "─ Siblings  group 110t-3 ─").startswith("╭")
    assert len(line_with(screen, "─ Siblings  group 110t-3 ─").rstrip()) == 120


async def test_a_narrow_window_keeps_what_matters(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=NARROW) as pilot:
        screen = await shown(pilot, "home", *["full_stop"] * 4)
    assert [line.rstrip() for line in screen[1:23]] == [
        " Rollouts › step 110 › 27+13= › #1                             2 of 8  tab next",
        "─ completion ────────────────────────────┬─ facts ──────────────────────────────",
        " user                                    │ reward      0.750 of 1.2",
        " ▏ 27+13=                                │   accuracy  0.550  format 0.200",
        "                                         │ advantage   −1.47  7th of 8",
        ' policy                                  │ verifier    "31" → 0.550',
        " ▏ <answer>31</answer>                   │ length      9 of 32 tokens",
        "                                         │ ended       stop",
        " verifier                                │ policy      v109  lag 0 of 2       ●",
        ' ▏ "31"  parsed yes  error none          │ seed        not logged             ?',
        "                                         │",
        " against the best sibling, #2            │ sampling     intended  deployed",
        " #1 0.75  <answer>31</answer>            │ temperature       1.0      0.15    ✖",
        " #2 1.15  <answer>41</answer>            │ top_p             1.0       1.0    ●",
        "                                         │ top_k               0         0    ●",
        " 1 of 19 characters differs              │ max_tokens         32        32    ●",
        "                                         │",
        "─ group 110t-3  mean 1.019  σ 0.171  4 texts of 8 ──────────────────────────────",
        "   0 1.10  ▸1 0.75   2 1.15   3 1.15   4 1.10   5 1.10   6 1.10   7 0.70",
        "     ▇▇▇▇     ▅▅▅▅     ▇▇▇▇     ▇▇▇▇     ▇▇▇▇     ▇▇▇▇     ▇▇▇▇     ▅▅▅▅",
        "",
        "   ×4  ~5/9 ━━━━━━━━●━━━━━━┤───────────────────────────────────────┤ budget 32",
    ]


@pytest.mark.parametrize("size", [(300, 80), (160, 12), (100, 10), (60, 8), (20, 5), (5, 2)])
async def test_a_window_of_any_size_is_drawn(cold: Snapshot, size: tuple[int, int]) -> None:
    async with cold_replay(cold).run_test(size=size) as pilot:
        assert all(len(line) == size[0] for line in await shown(pilot, "space", "tab", "down", "d"))


# ---- turns


async def test_a_conversation_is_shown_turn_by_turn_with_what_is_wrong_in_a_tool_call(
    tools: Snapshot,
) -> None:
    async with replay(tools, 1, "task-0", 2).run_test(size=MIDDLE) as pilot:
        screen = await shown(pilot, "comma")
    text = [line[:72] for line in screen[4:16]]
    assert [line[1:71].rstrip() for line in text] == [
        " user",
        " ▏ What is 9 * 20?",
        "",
        " 1 policy   tool call",
        " ▏ multiply(",
        ' ▏   {"a": 9, "b":',
        " ▏ )   ▲ the arguments are not valid JSON: they end at character 13",
        "",
        "▸2 tool     multiply   call_2",
        " ▏ Expecting value: line 1 column 15",
        "",
        " 3 policy",
    ]
    assert "turn 2 of 3   22 of 40 tokens   no_tools_called" in screen[3]
    assert "turns         2 policy, 1 tool" in line_with(screen, "turns    ")
    assert "multiply: invalid JSON" in line_with(screen, "▸   2 ")
    assert "multiply(9, 20)           180                 180" in line_with(screen, "│    0 ")
    assert "no call" in line_with(screen, "│    3 ")
    assert "turn 2 of 3" in screen[-3]
    assert line_with(screen[-2:-1], "user", "1 policy", "2 tool", "3 policy")


async def test_turns_are_compared_call_by_call(tools: Snapshot) -> None:
    async with replay(tools, 1, "task-0", 2).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert 'call   multiply({"a": 9, "b":' in line_with(screen, "#2 0.250  call")
    assert 'call   multiply({"a": 9, "b": 20})' in line_with(screen, "#0 1.250  call")
    assert "tool   180" in line_with(screen, "tool   180")


async def test_what_a_log_does_not_carry_stays_in_its_place(tools: Snapshot) -> None:
    async with replay(tools, 1, "task-0", 0).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    facts = [line[101:159] for line in screen]
    assert "in the group 0.25–1.25" in line_with(facts, " reward ", "in the group")
    assert line_with(facts, " policy ").split() == ["policy", "not", "logged", "?"]
    assert line_with(facts, "? temperature").split() == ["?", "temperature", "1.0", "?"]
    assert line_with(facts, " versions").split() == ["versions", "env", "?", "reward", "?"]


# ---- siblings, groups, evidence


async def test_tab_goes_round_the_group_and_shift_tab_back(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        assert "› #2" in (await shown(pilot, "tab"))[2]
        assert "› #1" in (await shown(pilot, "shift+tab"))[2]
        assert "› #7" in (await shown(pilot, "shift+tab", "shift+tab"))[2]
        assert "› #0" in (await shown(pilot, "tab"))[2]


async def test_the_best_one_is_held_against_the_worst(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "tab")
    assert "Against the worst sibling  #7" in line_with(screen, "Against")


async def test_where_all_rewards_are_the_same_there_is_nothing_to_hold_against(cold: Snapshot) -> None:
    async with replay(cold, 109, "109t-1", 0).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert "every known reward of the group is the same" in line_with(screen, "every known")
    assert "the group has no spread" in line_with(screen, "advantage   ", "spread")


async def test_d_takes_the_difference_away_and_brings_it_back(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        assert "Against the best sibling" in "".join(await shown(pilot))
        assert "Against the best sibling" not in "".join(await shown(pilot, "d"))
        assert "Against the best sibling" in "".join(await shown(pilot, "d"))


async def test_n_and_p_go_along_the_rollouts_that_one_came_with(cold: Snapshot) -> None:
    rows = (row_of(cold, 110, "110t-3", 1), row_of(cold, 90, "90t-0", 4))
    async with replay(cold, 110, "110t-3", 1, rows).run_test(size=WIDE) as pilot:
        assert "1 of 2 n p next, previous" in (await shown(pilot))[2]
        screen = await shown(pilot, "n")
        assert screen[2].startswith(" Rollouts › step 90 › ")
        assert "2 of 2 n p" in screen[2]
        assert "› #4" in (await shown(pilot, "n"))[2]
        assert "› step 110 ›" in (await shown(pilot, "p"))[2]


async def test_capital_n_and_p_go_through_the_groups_of_the_step(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "P")
        assert "› step 110 › 40+5= › #1" in screen[2]
        assert line_with(screen, "▸  110t-2")
        assert "› 27+13= ›" in (await shown(pilot, "N", "N"))[2]


async def test_a_held_out_rollout_has_its_own_group(cold: Snapshot) -> None:
    batch = cold.eval_batch(101)
    assert batch is not None
    row = int(batch.rows[0])
    async with Shown(cold, lambda: ReplayScreen(row, (row,))).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert "Rollouts › held-out step 101 ›" in screen[2]
    assert "Siblings" in "".join(screen)


# ---- texts


async def test_r_shows_the_record_as_json(cold: Snapshot) -> None:
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "r")
        assert "Record" in screen[3]
        shown_text = "\n".join(line[4:98] for line in screen[4:14])
        assert '"step": 110,' in shown_text
        assert '"group": "110t-3",' in shown_text
        copied: list[str] = []
        pilot.app.copy_to_clipboard = copied.append  # type: ignore[method-assign]
        await shown(pilot, "c")
        assert json.loads(copied[0])["completion"] == "<answer>31</answer>"
        assert "Completion" in (await shown(pilot, "r"))[3]


async def test_what_is_copied_is_made_safe(tmp_path: Path) -> None:
    records = tool_records()
    for record in records[1:-1]:
        record["messages"] = [{"role": "assistant", "content": "a\x1b]52;c;eA==\x07\u202eb\nc"}]
    snapshot = read(tmp_path, records)
    async with replay(snapshot, 1, "task-0", 0).run_test(size=NARROW) as pilot:
        copied: list[str] = []
        pilot.app.copy_to_clipboard = copied.append  # type: ignore[method-assign]
        await shown(pilot, "c")
    assert copied == ["a␛]52;c;eA==␇⟨U+202E⟩b\nc"]


async def test_a_text_that_is_gone_leaves_the_numbers(cold: Snapshot) -> None:
    gone = replace(cold, read=lambda row: Gone("rollouts.jsonl: rewritten since it was read"))
    async with cold_replay(gone).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "space", "r", "full_stop", "c")
    assert "the text is gone" in "".join(screen)
    assert "rollouts.jsonl: rewritten since it was read" in "".join(screen)
    assert "0.750" in line_with([line[101:] for line in screen], " reward ")
    assert "gone with the text" in line_with(screen, "verifier  ", "gone")


async def test_a_reader_that_fails_is_shown_and_not_raised(cold: Snapshot) -> None:
    def broken(row: int) -> object:
        raise EOFError("compressed file ended early")

    async with cold_replay(replace(cold, read=broken)).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
    assert "compressed file ended early" in "".join(screen)


async def test_a_long_text_scrolls_and_playing_keeps_its_word_in_sight(tmp_path: Path) -> None:
    records = tool_records()[:1]
    records.append(
        {
            "kind": "rollout",
            "step": 1,
            "group": "g",
            "index": 0,
            "prompt": "p",
            "completion": " ".join(f"w{number}" for number in range(3000)),
            "reward": 1.0,
        }
    )
    snapshot = read(tmp_path, [*records, {"kind": "step", "step": 1, "metrics": {}}])
    async with replay(snapshot, 1, "g", 0).run_test(size=NARROW) as pilot:
        assert "w0 w1 " in "".join(await shown(pilot))
        assert "w0 w1 " not in "".join(await shown(pilot, "pagedown", "pagedown"))
        await shown(pilot, "home")
        assert "w0 w1 " in "".join(lines(pilot))
        await shown(pilot, "end", "comma")
        assert "w2999" in "".join(lines(pilot))


async def test_ten_megabytes_do_not_keep_a_key_waiting(tmp_path: Path) -> None:
    records = tool_records()[:1]
    for index in range(2):
        records.append(
            {
                "kind": "rollout",
                "step": 1,
                "group": "g",
                "index": index,
                "prompt": "p",
                "completion": f"{index} a word and another, " * 500_000,
                "reward": float(index),
                "completion_tokens": 32_000,
            }
        )
    snapshot = read(tmp_path, [*records, {"kind": "step", "step": 1, "metrics": {}}])
    async with replay(snapshot, 1, "g", 0).run_test(size=WIDE) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, ReplayScreen)
        slowest = 0.0
        for action in (
            lambda: screen.action_step(-1),
            lambda: screen.action_ends(-1),
            lambda: screen.action_scroll_page(1),
            lambda: screen.action_ends(1),
        ):
            begun = time.perf_counter()
            action()
            slowest = max(slowest, time.perf_counter() - begun)
        assert slowest < 0.1
