"""The replay's other pages and marks: search, tokens, loops, best and worst, all completions, siblings, the record."""

from __future__ import annotations

import math
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rollout_screens import Shown, line_with, read, replay, row_of, settled, shown, tool_records

from grpo_top.records import Rollout
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.rollouts.document import Document, Fixed, Passage, Place
from grpo_top.ui.rollouts.inside import Hit, hit_marker, search
from grpo_top.ui.rollouts.marks import Span, Spans
from grpo_top.ui.rollouts.texts import whole
from grpo_top.ui.rollouts.tokens import By, token_marker, token_section, tokens_of
from grpo_top.ui.screens.replay import ReplayScreen
from grpo_top.ui.widgets.searched_text import SearchedText

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from grpo_top.snapshot import Snapshot

WIDE, MIDDLE, NARROW = (160, 45), (120, 40), (80, 24)
BAR = ("|", "border")
SHARED = "Let us add the numbers one after another. "


def records(steps: int = 4) -> list[dict[str, Any]]:
    """A run in which each step asks the same again with the same seeds, and gets something else."""
    found: list[dict[str, Any]] = [
        {
            "kind": "run",
            "schema": "grpo-top/1",
            "run": "seeds",
            "group_size": 4,
            "reward_range": [0, 1],
            "sampling": {"temperature": 1.0, "max_tokens": 40},
        }
    ]
    endings = ("so it is four", "so it is five", "so it is five", "again and " * 13)
    for step in range(1, steps + 1):
        for index, ending in enumerate(endings):
            tokens = [f" {word}" for word in f"{SHARED}{ending}".split()]
            tokens[0] = tokens[0].strip()
            size = len(tokens)
            found.append(
                {
                    "kind": "rollout",
                    "step": step,
                    "group": f"g{step}",
                    "index": index,
                    "task": "add",
                    "prompt": "2 + 2",
                    "completion": "".join(tokens) + (f" at step {step}" if index == 0 else ""),
                    "reward": (1.0, 0.25, 0.25, 0.0)[index],
                    "rewards": {"accuracy": (1.0, 0.25, 0.25, 0.0)[index]},
                    "advantage": 0.5 - index,
                    "prompt_tokens": 5,
                    "completion_tokens": size,
                    "finish_reason": "length" if index == 3 else "stop",
                    "policy_version": 1,
                    "trainer_version": 1,
                    "seed": 100 + index,
                    "logprobs": {
                        "sampler": [-0.1] * (size - 1) + [-3.0],
                        "trainer": [-0.1] * (size - 1 - (index == 1)) + [-0.5],
                        **({} if index == 3 else {"tokens": tokens}),
                    },
                }
            )
        found.append({"kind": "step", "step": step, "metrics": {"loss": 0.1}})
    return found


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return read(tmp_path_factory.mktemp("seeds"), records())


def roles_of(pilot: Pilot[Any], text: str) -> set[str]:
    """The roles in which parts of the text pane are drawn that hold a text."""
    pane = pilot.app.screen.query_one(SearchedText)
    rows = pane.make_rows(*pane.size)
    return {role for row in rows for part, role in row if text in part}


# ---- marks


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=4),
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
)
@settings(max_examples=60)
def test_marks_change_roles_and_never_the_text(pairs: list[tuple[int, int]], cuts: list[int]) -> None:
    spans, at = [], 0
    for start, length in pairs:
        spans.append(Span(at + start, at + start + length, "warn"))
        at += start + length
    edges = sorted({0, 30, *cuts})
    parts = [(first, last, "text") for first, last in pairwise(edges)]
    drawn = Spans(spans).over(parts)
    assert [number for start, end, _ in drawn for number in range(start, end)] == list(range(30))
    for start, end, role in drawn:
        marked = {any(span.start <= number < span.end for span in spans) for number in range(start, end)}
        assert marked == {role == "warn"}


# ---- search inside


def test_a_search_finds_every_hit_of_passages_and_of_rows_that_stand_alone() -> None:
    document = Document(
        [
            Fixed(([("Head", "dim")],), 0, heading=True),
            Passage("one Two two\ntwo", BAR, 0),
            Fixed(([("call(", "dim"), ("two", "text")],), 0),
        ],
        20,
    )
    found = search(document, "two")
    assert found.hits == (Hit(1, 4, 7), Hit(1, 8, 11), Hit(1, 12, 15), Hit(2, 5, 8))
    assert search(document, "Two").hits == (Hit(1, 4, 7),)
    assert search(document, "head").hits == ()
    assert found.from_place(1, 9).at == 2
    assert found.from_place(1, 9).next(1).next(1).at == 0
    document.mark([hit_marker(found.from_place(1, 4))])
    assert document.row(Place(1, 0))[-3:] == [
        ("Two", "accent bold reverse"),
        (" ", "text"),
        ("two", "text reverse"),
    ]
    assert ("two", "text reverse") in document.row(Place(2, 0))


async def test_a_search_goes_from_hit_to_hit_and_leaves_the_keys_again(seeds: Snapshot) -> None:
    rows = (row_of(seeds, 1, "g1", 0), row_of(seeds, 2, "g2", 0))
    async with replay(seeds, 1, "g1", 0, rows).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "slash", *"the")
        assert "1 of 2" in line_with(screen, " / the")
        screen = await shown(pilot, "backspace", "enter")
        assert "1 of 2" in line_with(screen, " / th")
        assert roles_of(pilot, "th") >= {"accent bold reverse", "text reverse"}
        assert "2 of 2" in line_with(await shown(pilot, "n"), " / th")
        assert "1 of 2" in line_with(await shown(pilot, "n"), " / th")
        assert "2 of 2" in line_with(await shown(pilot, "N"), " / th")
        # It is searched again in another text, and in the record.
        assert "of 2" in line_with(await shown(pilot, "tab"), " / th")
        assert int(line_with(await shown(pilot, "r"), " / th").split(" of ")[1].split()[0]) > 2
        screen = await shown(pilot, "escape", "r", "shift+tab")
        assert not any(" / th" in line for line in screen)
        assert "› step 2 ›" in (await shown(pilot, "n"))[2]


# ---- tokens


def tokens_row(**fields: Any) -> Rollout:
    return Rollout(1, "g", 1.0, prompt="p", **fields)


def test_tokens_whose_lengths_do_not_match_are_not_coloured() -> None:
    found = tokens_of(
        whole(tokens_row(completion="a b", logprobs_sampler=[-1.0], logprobs_trainer=[-1.0, -2.0]))
    )
    assert found.problem == (
        "log-probabilities do not match: 1 of the sampler's, 2 of the trainer's; nothing is coloured"
    )
    assert not found.tokens
    assert tokens_of(whole(tokens_row(completion="a"))).problem == "no log-probabilities are logged"


def test_tokens_lie_where_their_texts_spell_what_was_said() -> None:
    row = tokens_row(
        completion="one two",
        logprobs_sampler=[-0.1, -5.0, 0.0],
        logprobs_trainer=[-0.1, -0.5, 0.0],
        tokens=["one", " two", "<end>"],
    )
    found = tokens_of(whole(row))
    assert found.spans == ((0, 1, 0, 3), (1, 1, 3, 7))
    assert [token.number for token in found.worst(By.DIFFERENCE, 2)] == [2, 1]
    piece = Passage("one two", BAR, 1, said=True)
    spans = token_marker(found, By.DIFFERENCE)(0, piece)
    assert spans is not None
    assert spans.over([(0, 7, "text")]) == [(0, 3, "text"), (3, 7, "fail bold")]
    other = tokens_of(whole(row._replace(tokens=["one", " too", ""])))
    assert not other.spans
    assert other.unplaced
    assert tokens_of(whole(row._replace(tokens=["one"]))).unplaced == "1 token texts for 3 log-probabilities"


@given(
    st.lists(st.one_of(st.floats(-50, 0), st.just(math.nan), st.just(-math.inf)), max_size=300),
    st.integers(20, 120),
    st.booleans(),
)
@settings(max_examples=40)
def test_a_strip_of_tokens_is_as_wide_as_it_may_be(values: list[float], width: int, plain: bool) -> None:
    found = tokens_of(
        whole(tokens_row(completion="x", logprobs_sampler=values, logprobs_trainer=values[::-1]))
    )
    for by in By:
        (section,) = token_section(found, by, width, ASCII if plain else UNICODE)
        assert isinstance(section, Fixed)
        turn = (ASCII if plain else UNICODE).turn
        strip = [row for row in section.rows if (turn, "border") in row]
        assert len(strip) <= 2
        assert all(sum(len(text) for text, _ in row) <= width + 20 for row in strip)


async def test_l_colours_tokens_one_way_after_another_and_lists_the_worst(seeds: Snapshot) -> None:
    async with replay(seeds, 1, "g1", 2).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "l")
        assert "|sampler − trainer|   12 tokens" in line_with(screen, "tokens  |")
        assert line_with(screen, "five", "×12.2").split()[1:6] == ["12", "five", "−3.000", "−0.500", "×12.2"]
        assert roles_of(pilot, " five") >= {"fail bold"}
        screen = await shown(pilot, "l")
        assert "sampler log-probability" in line_with(screen, "tokens  sampler")
        assert "tokens  sampler" not in "".join(await shown(pilot, "l"))
        # One of the group has another number of log-probabilities from the trainer.
        screen = await shown(pilot, "l", "shift+tab")
        assert "log-probabilities do not match: 12 of the sampler's, 11 of the trainer's" in line_with(
            screen, "do not match"
        )
        screen = await shown(pilot, "tab", "tab")
        assert line_with(screen, "no token texts are logged: the text is not coloured")


# ---- loops


async def test_m_marks_each_repeat_of_a_loop_and_says_where_it_begins(seeds: Snapshot) -> None:
    async with replay(seeds, 1, "g1", 3).run_test(size=MIDDLE) as pilot:
        assert "loop" in (await shown(pilot))[-2]
        screen = await shown(pilot, "m")
        assert "13 × " in line_with(screen, " loop   ")
        assert "on" in line_with(screen, "from character")
        assert roles_of(pilot, "again and") >= {"warn", "limit"}
        screen = await shown(pilot, "tab")
        assert line_with(screen, "no turn of the policy ends in one")
        assert " loops" not in "".join((await shown(pilot, "m"))[:38])


# ---- the group


async def test_b_shows_best_and_worst_and_equals_lists_all_with_what_they_share_folded(
    seeds: Snapshot,
) -> None:
    async with replay(seeds, 1, "g1", 1).run_test(size=MIDDLE) as pilot:
        screen = await shown(pilot, "b")
        assert "Best against worst" in screen[3]
        assert "best #0   1.000" in line_with(screen, "worst #3   0.000")
        assert "Facts" not in "".join(screen)
        assert roles_of(pilot, "four") == {"ok bold"}
        screen = await shown(pilot, "equals_sign")
        assert "All completions" in screen[3]
        assert "all 4 begin with the same 42 characters" in line_with(screen, "begin with")
        assert "one after another." in line_with(screen, "begin with")
        assert line_with(screen, "▸   1 ").split("▏")[1].startswith("so it is five")
        assert line_with(screen, "    2 ").split("▏")[1].startswith("the same as #1")
        again = line_with(screen, "    3 ")
        further = screen[screen.index(again) + 1]
        assert again.index("▏") == further.index("▏") == line_with(screen, "▸   1 ").index("▏")
        assert "Completion" in (await shown(pilot, "escape"))[3]
        screen = await shown(pilot, "b", "b")
        assert "Completion" in screen[3]


async def test_where_all_rewards_are_the_same_none_is_best(tools: Snapshot, tmp_path: Path) -> None:
    flat = tool_records()
    for record in flat[1:-1]:
        record["reward"] = 0.5
    snapshot = read(tmp_path, flat)
    async with replay(snapshot, 1, "task-0", 0).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "b")
        assert line_with(screen, "every known reward of the group is the same")
        screen = await shown(pilot, "D")
        assert "Against sibling  #1" in line_with(screen, "Against")


async def test_capital_d_holds_it_against_one_sibling_after_another(seeds: Snapshot) -> None:
    async with replay(seeds, 4, "g4", 1).run_test(size=WIDE) as pilot:
        assert "Against the best sibling  #0" in line_with(await shown(pilot), "Against")
        assert "Against sibling  #2" in line_with(screen := await shown(pilot, "D"), "Against")
        assert "the texts are the same" in line_with(screen, "the same", "accuracy")
        assert "Against sibling  #3" in line_with(await shown(pilot, "D"), "Against")
        assert "Against the best sibling  #0" in line_with(await shown(pilot, "D"), "Against")


# ---- replay from seed


async def test_a_replay_that_came_out_otherwise_is_held_against_its_pair(seeds: Snapshot) -> None:
    (found,) = [finding for finding in seeds.findings if finding.id == "NONDETERMINISTIC_REPLAY"]
    pair = tuple(reference.row for reference in found.rollouts[:2])
    columns = seeds.rollouts.columns
    assert columns["seed"][pair[0]] == columns["seed"][pair[1]]
    later = found.rollouts[1]
    async with replay(seeds, later.step, later.group, 0, pair).run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
        title = line_with(screen, "Against the same task and seed at step")
        assert "#0" in title
        assert "they part at character 65" in line_with(screen, "they part")
        assert "▲ not as the same task and seed" in line_with(screen, "seed          100")
        assert "Against the worst sibling" in line_with(await shown(pilot, "D"), "Against")


# ---- facts and the record


async def test_the_facts_hold_both_advantages_the_prompt_and_the_place(seeds: Snapshot) -> None:
    async with replay(seeds, 1, "g1", 0).run_test(size=WIDE) as pilot:
        screen = [line[101:159] for line in await shown(pilot)]
    assert "0.00–1.00" in line_with(screen, "accuracy    1.000")
    assert "+0.50   1st of 4   logged, recomputed +1.44" in line_with(screen, "advantage")
    assert line_with(screen, "  prompt").split() == ["prompt", "5", "tokens"]
    assert line_with(screen, "at byte").split()[:2] == ["at", "byte"]


async def test_the_record_is_the_line_as_it_lies_in_the_file(seeds: Snapshot) -> None:
    async with replay(seeds, 1, "g1", 0).run_test(size=WIDE) as pilot:
        await shown(pilot, "r")
        await settled(pilot)
        screen = await shown(pilot)
        assert "Record  at byte" in screen[3]
        assert '"kind": "rollout",' in "".join(screen)
        assert "1 of 1" in line_with(await shown(pilot, "slash", *"logprobs", "enter"), " / logprobs")


HOSTILE = "\x1b]52;c;eA==\x07\x1b[2J \u202eevil\u200b [bold red]x[/] \x9b31m \r\n" + "y" * 4000


def hostile_records() -> list[dict[str, Any]]:
    """Model text that would act on a terminal, in every field that a page shows."""
    found = tool_records()
    for record in found[1:-1]:
        record["task"] = record["family"] = record["termination"] = record["group"] = f"g {HOSTILE[:40]}"
        record["messages"][-1]["content"] = HOSTILE + str(record["index"])
        record["messages"][-1]["role"] = "assistant"
        record["logprobs"] = {"sampler": [-9.0, -1.0], "trainer": [-1.0, -1.0], "tokens": [HOSTILE, "z"]}
    return found


@pytest.mark.parametrize("size", [(160, 45), (20, 5)])
async def test_every_page_is_drawn_at_any_size_and_what_a_model_wrote_never_acts_on_the_terminal(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    snapshot = read(tmp_path, hostile_records())
    keys = ["l", "m", "b", "equals_sign", "r", "slash", "e", "D"]
    async with Shown(snapshot, lambda: ReplayScreen(1)).run_test(size=size) as pilot:
        for key in keys:
            screen = await shown(pilot, key)
            assert all(cell_len(line) == size[0] for line in screen)
            bad = {c for line in screen for c in line if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co"}}
            assert not bad
