"""The browser's search for texts: found on disk while one looks on, combined with fields, stopped at any time."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rollout_screens import Shown, filtered, line_with, lines, read, settled, shown
from textual.events import Key

from grpo_top.records import Message, Rollout
from grpo_top.scan import Looked
from grpo_top.snapshot import Gone
from grpo_top.ui.rollouts import pattern_process
from grpo_top.ui.rollouts.browse import Browse
from grpo_top.ui.rollouts.excerpts import glance_at
from grpo_top.ui.rollouts.filters import parse
from grpo_top.ui.rollouts.pattern_process import UNKNOWN, PatternProcess, TooSlow
from grpo_top.ui.rollouts.search import Progress, Search
from grpo_top.ui.rollouts.searching import Searching
from grpo_top.ui.screens.browser import BrowserScreen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from textual.pilot import Pilot

    from grpo_top.snapshot import Snapshot

WIDE, NARROW = (160, 45), (80, 24)
TEXTS = ("the Answer is 4", "I am sorry", "the answer is 12", "no idea")


def rollout(step: int, index: int, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "rollout",
        "step": step,
        "group": f"{step}-g",
        "index": index,
        "reward": index / 4,
        "prompt": f"What is {step} + 1?",
        "completion": text,
        **fields,
    }


def records(steps: int = 3) -> list[dict[str, Any]]:
    run = {"kind": "run", "schema": "grpo-top/1", "run": "searched", "group_size": 4}
    found = [run]
    for step in range(1, steps + 1):
        found += [rollout(step, index, text) for index, text in enumerate(TEXTS)]
        found.append({"kind": "step", "step": step, "metrics": {"loss": 0.1}})
    return found


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return read(tmp_path_factory.mktemp("searched"), records())


def hits(snapshot: Snapshot, text: str) -> list[int]:
    """The rows that a search finds, all of them looked at."""
    found: list[int] = []
    search = Search(parse(text).texts, np.arange(snapshot.rollouts.length), snapshot)
    search.run(lambda _, rows: found.extend(rows.tolist()))
    assert not search.progress.running
    assert search.progress.looked == search.progress.of == snapshot.rollouts.length
    assert search.progress.hits == len(found)
    return sorted(found)


def browser(snapshot: Snapshot, **options: Any) -> Shown:
    return Shown(snapshot, BrowserScreen, **options)


# ---- what is found


@pytest.mark.parametrize(
    ("text", "of_a_step"),
    [
        ("answer", [0, 2]),
        ("Answer", [0]),
        ('"answer is"', [0, 2]),
        ("answer 12", [2]),
        ("!answer", [1, 3]),
        ("idea !sorry", [3]),
        (r"/is \d$/", [0]),
        (r"/ANSWER IS \d\d/", []),
        (r"/answer is \d\d/ !Answer", [2]),
        ("!/answer/", [1, 3]),
        ('"+ 1?"', [0, 1, 2, 3]),
    ],
)
def test_words_phrases_and_patterns_are_found_in_prompts_and_completions(
    searched: Snapshot, text: str, of_a_step: list[int]
) -> None:
    assert hits(searched, text) == [4 * step + index for step in range(3) for index in of_a_step]


def test_turns_and_the_arguments_of_tools_are_looked_at(tools: Snapshot) -> None:
    assert hits(tools, r'/"a": 9/') == hits(tools, "multiply") == [0, 1, 2]
    assert hits(tools, "189") == [1]


def test_texts_that_cannot_be_scanned_are_read_one_by_one(searched: Snapshot) -> None:
    assert hits(replace(searched, scan=None), "sorry") == hits(searched, "sorry") == [1, 5, 9]


def test_what_cannot_be_read_is_counted_and_said(searched: Snapshot) -> None:
    gone = replace(searched, scan=None, read=lambda _: Gone("a.jsonl: No such file or directory"))
    search = Search(parse("sorry").texts, np.arange(3), gone)
    search.run(lambda *_: None)
    assert (search.progress.unread, search.progress.trouble) == (3, "a.jsonl: No such file or directory")


# ---- patterns


def test_a_pattern_that_never_ends_is_given_up_on_and_the_next_text_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pattern_process, "SECONDS", 0.1)
    with PatternProcess([(r"(a+)+$", False), ("B", True)], most_slow=2) as patterns:
        assert patterns.found(["aa", "a" * 40 + "!", "b\ud800", "x"]) == [1, UNKNOWN, 2, 0]
        assert patterns.slow == 1
        with pytest.raises(TooSlow):
            patterns.found(["a" * 40 + "!"])


def test_a_search_with_such_a_pattern_ends_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_process, "SECONDS", 0.05)
    evil = read(tmp_path, [records()[0], *(rollout(1, index, "a" * 40 + "!") for index in range(4))])
    search = Search(parse("/(a+)+$/").texts, np.arange(4), evil)
    search.run(lambda *_: None)
    assert search.progress.failed
    assert search.progress.trouble == "the pattern takes too long on these texts"


def test_a_row_shows_a_found_text_from_a_little_before_what_was_looked_for() -> None:
    long = "so it goes on " * 500
    said = Rollout(1, None, 0.0, prompt="a Needle", completion=f"{long}the needle {long}")
    seen = glance_at(parse("needle").texts)(said)
    assert seen.prompt == "a Needle"
    assert seen.completion.startswith("…goes on the needle so it")
    assert glance_at(parse(r"/need\w+ so/").texts)(said).completion.startswith("…goes on the needle so")
    assert glance_at(parse("!needle").texts)(said).completion.startswith("so it goes on")
    talk = said._replace(
        completion=None, messages=[Message("user", "needle"), Message("assistant", f"{long}needle")]
    )
    assert glance_at(parse("needle").texts)(talk).completion == "… it goes on needle"
    assert glance_at(parse("needle").texts)(Gone("gone")).gone == "gone"


# ---- what belongs to a filter


def begun(snapshot: Snapshot, text: str) -> tuple[Browse, Searching, list[Search]]:
    """A search that is begun, and runs when it is told to."""
    browse, started = Browse(snapshot), []
    browse.narrow(parse(text))
    searching = Searching(started.append)
    searching.begin(browse)
    return browse, searching, started


def test_only_rollouts_that_pass_the_columns_are_looked_at(searched: Snapshot) -> None:
    browse, searching, (search,) = begun(searched, "sorry step=2..3 reward<0.5")
    assert searching.running
    assert not len(browse.groups)
    search.run(lambda progress, rows: searching.told(search, progress, rows, browse))
    assert not searching.running
    assert search.progress.of == 4
    assert np.flatnonzero(browse.catalogue.matching).tolist() == [5, 9]


def test_another_filter_ends_the_search_and_what_it_still_finds_is_not_listed(searched: Snapshot) -> None:
    browse, searching, (search,) = begun(searched, "sorry")
    searching.drop()
    browse.narrow(parse("reward<0.1"))
    search.run(lambda progress, rows: searching.told(search, progress, rows, browse))
    assert not searching.running
    assert searching.words(browse) == []
    assert np.flatnonzero(browse.catalogue.matching).tolist() == [0, 4, 8]


def test_a_search_that_failed_begins_anew_and_one_that_is_done_does_not(searched: Snapshot) -> None:
    browse, searching, started = begun(searched, "sorry")
    searching.told(started[0], Progress(looked=12, of=12, hits=0, running=False), np.array([1]), browse)
    searching.begin(browse)
    assert len(started) == 1
    searching.told(
        started[0], Progress(of=12, running=False, failed=True, trouble="x"), np.array([], int), browse
    )
    assert searching.trouble == "x"
    searching.begin(browse)
    assert len(started) == 2
    assert searching.trouble == ""


# ---- in the browser


async def test_enter_searches_and_lists_what_is_found(searched: Snapshot) -> None:
    async with browser(searched).run_test(size=WIDE) as pilot:
        written = await shown(pilot, "slash", *"sorry")
        assert written[3].startswith(" / sorry ")
        assert written[3].rstrip().endswith("enter searches 12 texts   1 of 1 groups   4 of 4 rollouts")
        found = await shown(pilot, "enter")
        assert found[3].rstrip().endswith("3 found   1 of 1 groups   1 of 4 rollouts")
        inside = await shown(pilot, "right", "right")
        assert line_with(inside, "┃▸  1   0.250")
        assert "› #1" in inside[2]
        both = await filtered(pilot, "answer reward<0.1 step=2")
        assert both[3].rstrip().endswith("1 found   1 of 1 groups   1 of 4 rollouts")
        assert "1 of 3" in both[4]
        none = await filtered(pilot, "nowhere")
        assert any("no step matches" in line for line in none)
        wrong = await filtered(pilot, "/no(/")
        assert wrong[4].strip() == "^ not a pattern: missing ), unterminated subpattern"


async def test_what_is_typed_at_once_after_the_slash_is_the_filters(searched: Snapshot) -> None:
    async with browser(searched).run_test(size=WIDE) as pilot:
        await settled(pilot)
        for key in ("slash", *"corns", "backspace", "enter"):  # c and o are keys of the lists
            typed = Key(key, None if len(key) > 1 else key)
            typed.set_sender(pilot.app)
            pilot.app._driver.send_message(typed)
        await until(pilot, " / corn ")
        await settled(pilot)
        assert lines(pilot)[3].startswith(" / corn ")
        assert "0 found" in lines(pilot)[3]


async def test_at_80_columns_it_fits_as_well(searched: Snapshot) -> None:
    async with browser(searched).run_test(size=NARROW) as pilot:
        screen = await filtered(pilot, "sorry")
    assert screen[2].startswith(" / sorry ")
    assert screen[2].rstrip().endswith("3 found   1 of 1 groups   1 of 4 rollouts")


class Gated:
    """A search that goes on when it is told to: a hit a step, the newest first."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.gate = threading.Semaphore(0)
        self.asked: list[list[int]] = []

    def __call__(self, rows: Any, literals: Any) -> Iterator[Looked]:
        if not literals:  # no search: the newest groups' prompts
            return
        self.asked.append(sorted(rows.tolist()))
        for row in sorted(rows.tolist(), reverse=True)[2::4]:
            yield Looked(4, 100, [(row, self.snapshot.read(row))])
            self.gate.acquire(timeout=5)


async def until(pilot: Pilot[Any], words: str) -> list[str]:
    """The screen's lines once these words are in the filter's line."""
    end = time.monotonic() + 5
    while words not in (screen := lines(pilot))[3]:
        assert time.monotonic() < end, screen[3]
        await pilot.pause(0.01)
    return screen


async def test_the_first_hits_are_listed_while_it_goes_on_and_escape_stops_it(searched: Snapshot) -> None:
    gated = Gated(searched)
    async with browser(replace(searched, scan=gated)).run_test(size=WIDE) as pilot:
        await pilot.pause()
        await pilot.press("slash", *"sorry", "enter")
        first = await until(pilot, "searching 33%   1 found   esc stops")
        assert line_with(first, "┃▸    3 ")
        assert not any(line.startswith("┃     2 ") for line in first)
        await pilot.press("escape")
        stopped = await until(pilot, "stopped at 33%   1 found   1 of 1 groups   1 of 4 rollouts")
        assert line_with(stopped, "┃▸    3 ")
        gated.gate.release(20)
        await settled(pilot)
        assert "stopped at 33%   1 found" in lines(pilot)[3]
        await shown(pilot, "slash", "enter")
        assert "3 found" in lines(pilot)[3]
        assert "searching" not in lines(pilot)[3]
        cleared = await shown(pilot, "escape")
        assert "Steps" in cleared[3]
    assert gated.asked == [list(range(12))] * 2


async def test_what_is_written_after_the_search_is_searched_as_it_comes(
    tmp_path: Path, searched: Snapshot
) -> None:
    early = read(tmp_path, records(2))
    gated = Gated(searched)
    gated.gate.release(100)
    app = browser(early)
    async with app.run_test(size=WIDE) as pilot:
        await filtered(pilot, "sorry")
        assert "2 found" in lines(pilot)[3]
        app.take(replace(searched, version=early.version + 1, scan=gated))
        app._tick()
        await settled(pilot)
        assert "3 found" in lines(pilot)[3]
    assert gated.asked == [[8, 9, 10, 11]]


async def test_what_stands_in_the_way_is_said_under_the_filter(searched: Snapshot) -> None:
    gone = replace(searched, scan=None, read=lambda _: Gone("a.jsonl: No such file or directory"))
    async with browser(gone).run_test(size=WIDE) as pilot:
        screen = await filtered(pilot, "sorry")
    assert screen[4].strip() == "12 could not be read; a.jsonl: No such file or directory"


def test_a_search_that_is_stopped_before_it_begins_looks_at_little(searched: Snapshot) -> None:
    told: list[Progress] = []
    search = Search(parse("sorry").texts, np.arange(12), replace(searched, scan=None))
    search.stop()
    search.run(lambda progress, _: told.append(progress))
    assert (told[-1].stopped, told[-1].looked) == (True, 0)
