"""What leaves the screen: copied, written to a file that is named on the spot, or opened in a pager; always safe."""

from __future__ import annotations

import base64
import errno
import json
import os
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rollout_screens import Shown, cold_replay, lines, settled, shown
from runs import read as read_files
from textual.widgets import Input

from grpo_top.snapshot import Gone
from grpo_top.ui.rollouts.out import finding_document, group_document, rollout_document
from grpo_top.ui.rollouts.places import (
    belongs_to,
    clipboard_note,
    pager_command,
    proposed_path,
    usual_places,
)
from grpo_top.ui.screens import export
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.findings import FindingsScreen
from grpo_top.ui.screens.naming import NamingScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from grpo_top.snapshot import Snapshot

WIDE = (160, 45)
EVIL = "\x1b]52;c;eA==\x07\x9b31m\u202ea\u200b\ud800\U000e0041"


def hidden(text: str) -> set[str]:
    return {
        one
        for one in text
        if one != "\n" and unicodedata.category(one) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    }


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    run = {"kind": "run", "schema": "grpo-top/1", "run": f"r{EVIL}/../x", "group_size": 2}
    rollouts = [
        {
            "kind": "rollout",
            "step": 1,
            "group": f"g/{EVIL}",
            "index": index,
            "reward": float(index),
            "prompt": f"`a`\n```\n{EVIL}",
            "completion": f"{EVIL} {index}",
            "verifier": {"raw": EVIL, "error": None},
            "sampling": {"temperature": 0.5},
        }
        for index in range(2)
    ]
    directory = tmp_path_factory.mktemp("evil")
    records = [run, *rollouts, {"kind": "step", "step": 1, "metrics": {}}]
    (directory / "rollouts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return read_files(directory)


# ---- what is written


def test_a_rollout_as_json_is_all_of_it_under_the_names_of_the_log(cold: Snapshot) -> None:
    document = rollout_document(cold, 0)
    found = json.loads(document.as_json())
    logged = cold.read(0)
    assert not isinstance(logged, Gone)
    assert found["kind"] == "rollout"
    assert (found["step"], found["index"], found["reward"]) == (logged.step, 0, logged.reward)
    assert (found["prompt"], found["completion"]) == (logged.prompt, logged.completion)
    assert found["verifier"]["raw"] == logged.verifier_raw
    assert found["where"]["file"] == "rollouts.jsonl"
    assert found["sampling"]["temperature"] == 1.0
    assert None not in found.values()
    assert document.stem == "add-020b24-step1-1t-0-0"


def test_a_group_holds_its_rollouts_and_a_finding_those_that_prove_it(cold: Snapshot) -> None:
    batch = cold.batch(110)
    assert batch is not None
    group = json.loads(group_document(cold, batch.rows[:8].tolist()).as_json())
    assert (group["kind"], group["step"], group["group"], len(group["rollouts"])) == (
        "group",
        110,
        "110t-0",
        8,
    )
    finding = next(one for one in cold.findings if one.id == "SAMPLER_DRIFT")
    document = finding_document(cold, finding)
    written = json.loads(document.as_json())
    assert written["summary"] == finding.summary
    assert [one["step"] for one in written["rollouts"]] == [one.step for one in finding.rollouts]
    text = document.as_markdown()
    assert text.startswith("# fail: SAMPLER\\_DRIFT\n")
    assert "1. Pass temperature 1.0 with each request" in text
    assert text.count("## Rollout ") == len(finding.rollouts)


def test_turns_and_calls_are_written_out(tools: Snapshot) -> None:
    text = rollout_document(tools, 2).as_markdown()
    assert "## user\n\n```text\nWhat is 9 * 20?\n```" in text
    assert "calls multiply; the arguments are not valid JSON" in text
    assert json.loads(rollout_document(tools, 0).as_json())["messages"][1]["tool_calls"][0]["id"] == "call_0"


def test_what_is_left_of_a_rollout_whose_text_is_gone(
    cold: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = replace(cold, read=lambda _: Gone("rollouts.jsonl: shrunk since"))
    found = json.loads(rollout_document(gone, 5).as_json())
    assert (found["gone"], found["step"], found["index"]) == ("rollouts.jsonl: shrunk since", 1, 5)
    assert "completion" not in found
    assert (
        "Its text cannot be read any more: rollouts.jsonl: shrunk since"
        in rollout_document(gone, 5).as_markdown()
    )


def test_nothing_that_is_written_hides_or_acts_on_a_terminal(evil: Snapshot) -> None:
    documents = [rollout_document(evil, 0), group_document(evil, [0, 1])]
    for document in documents:
        assert not hidden(document.as_json())
        assert not hidden(document.as_markdown())
        assert set(document.stem) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
        document.as_json().encode()
    assert json.loads(documents[0].as_json())["completion"] == f"{EVIL.replace(chr(0xD800), '?')} 0"
    assert "````text\n`a`\n```\n" in documents[0].as_markdown()


# ---- where to


def test_the_path_that_is_proposed_is_never_in_the_run(tmp_path: Path) -> None:
    run, here, home = tmp_path / "run", tmp_path / "here", tmp_path / "home"
    for place in (run / "inner", here, home):
        place.mkdir(parents=True)
    assert proposed_path("a", [run], [here, home]) == here / "a.md"
    assert proposed_path("a", [run], [run, home]) == home / "a.md"
    assert proposed_path("a", [run], [run / "inner", home]) == home / "a.md"
    assert proposed_path("a", [run], [run, run, here]) == here / "a.md"
    assert belongs_to(run / "inner", [run])
    assert not belongs_to(tmp_path, [run])


def test_a_directory_that_was_removed_is_no_place_to_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert usual_places() == [tmp_path / "here", tmp_path]
    (tmp_path / "here").rmdir()
    assert usual_places() == [tmp_path]


def test_the_pager_is_the_users_own_then_less_then_more() -> None:
    assert pager_command({"PAGER": "bat -p"}, lambda _: "x") == ["bat", "-p"]
    assert pager_command({}, lambda _: "x") == ["less"]
    assert pager_command({"PAGER": "'"}, lambda name: name if name == "more" else None) == ["more"]
    assert pager_command({"PAGER": " "}, lambda _: None) is None


@pytest.mark.parametrize(
    ("environ", "note", "refused"),
    [
        ({"TERM": "xterm-kitty"}, "", False),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "", False),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "Terminal.app takes no text", True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7200"}, "a VTE terminal takes no text", True),
        ({"TERM": "linux"}, "the console takes no text", True),
        ({"TERM": "screen", "TMUX": "/tmp/x"}, "tmux hands it on only where set-clipboard is on", False),
        ({"TERM": "screen", "STY": "1.x"}, "screen does not hand it on", True),
        ({"TERM": "xterm-256color"}, "whether the terminal takes it cannot be known", False),
    ],
)
def test_what_is_known_of_a_terminals_clipboard_is_said(
    environ: dict[str, str], note: str, refused: bool
) -> None:
    said, refuses = clipboard_note(environ, 100)
    assert said.startswith(note)
    assert bool(said) == bool(note)
    assert refuses == refused
    assert not note or "w writes it to a file" in said


def test_a_large_text_is_said_to_be_large() -> None:
    assert "100 kB" in clipboard_note({"TERM": "xterm-kitty"}, 200_000)[0]


# ---- on the screen


async def notes(pilot: Pilot[Any]) -> str:
    await settled(pilot)
    return "\n".join(notification.message for notification in pilot.app._notifications)


async def test_w_asks_for_a_path_and_writes_there(
    cold: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Shown(cold, BrowserScreen).run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "enter", "w")
        assert isinstance(pilot.app.screen, NamingScreen)
        assert screen[-3].startswith(" write the group 110t-0 of step 110 to ")
        assert screen[-3].rstrip().endswith("enter write   tab JSON or Markdown   esc leave")
        assert screen[-2].split() == ["add-020b24-step110-110t-0.md"]
        await shown(pilot, "tab", "enter")
        assert isinstance(pilot.app.screen, BrowserScreen)
        path = tmp_path / "add-020b24-step110-110t-0.json"
        assert len(json.loads(path.read_text())["rollouts"]) == 8
        assert f"the group 110t-0 of step 110 is in {path}" in await notes(pilot)
        await shown(pilot, "right", "w", "enter")
        assert (tmp_path / "add-020b24-step110-110t-0-0.md").read_text().startswith("# Rollout 0 of step 110")


def refused(*_: object, **__: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_what_might_be_regretted_takes_a_second_enter(
    cold: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "there.md").write_text("mine")
    monkeypatch.chdir(run)
    monkeypatch.setenv("HOME", str(tmp_path))
    app = Shown(cold, BrowserScreen)
    app.where = (str(run),)
    async with app.run_test(size=WIDE) as pilot:
        screen = await shown(pilot, "w")
        assert screen[-2].split() == ["~/add-020b24-step110-110t-0.md"]
        said = {
            "x.txt": "the name ends in .md for Markdown or in .json",
            "no/x.md": "there is no directory no",
            "x" * 300 + ".md": "File name too long",
            "x.md": "that is the run's own directory; enter once more writes it all the same",
            "~/there.md": "there is such a file already; enter once more writes it all the same",
        }
        for path, words in said.items():
            pilot.app.screen.query_one(Input).value = path
            assert (await shown(pilot, "enter"))[-1].strip() == words
        assert (tmp_path / "there.md").read_text() == "mine"
        await shown(pilot, "enter")
        assert (tmp_path / "there.md").read_text().startswith("# Group 110t-0")
        await shown(pilot, "w", "escape")
        assert isinstance(pilot.app.screen, BrowserScreen)
        monkeypatch.setattr(Path, "write_text", refused)
        await shown(pilot, "w", "enter")
        assert (
            f"{tmp_path}/add-020b24-step110-110t-0.md is not written: No space left on device"
            in await notes(pilot)
        )
    assert list(run.iterdir()) == []


async def test_c_copies_a_text_made_safe_and_says_what_is_known_and_e_that_there_is_no_terminal(
    evil: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "linux")
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.delenv("TMUX", raising=False)
    sent: list[str] = []
    app = Shown(evil, BrowserScreen)
    async with app.run_test(size=WIDE) as pilot:
        monkeypatch.setattr(app._driver, "write", sent.append)
        await shown(pilot, "enter", "enter", "c")
        assert "copied the prompt and the completion; the console takes no text from programs" in await notes(
            pilot
        )
    (osc,) = [one for one in sent if one.startswith("\x1b]52;c;")]
    copied = base64.b64decode(osc.removeprefix("\x1b]52;c;").rstrip("\a")).decode()
    assert not hidden(copied)
    assert "␛]52;c;eA==␇" in copied


async def test_a_finding_is_written_with_its_proof(
    cold: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Shown(cold, FindingsScreen).run_test(size=WIDE) as pilot:
        await shown(pilot, "w")
        assert lines(pilot)[-3].startswith(" write the finding SAMPLER_DRIFT to ")
        await shown(pilot, "enter")
    assert (tmp_path / "add-020b24-SAMPLER_DRIFT.md").read_text().startswith("# fail: SAMPLER\\_DRIFT")


async def test_a_replayed_rollout_is_written_in_the_same_way(
    cold: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with cold_replay(cold).run_test(size=WIDE) as pilot:
        await shown(pilot, "w")
        assert lines(pilot)[-3].startswith(" write the rollout #1 of step 110 to ")
        await shown(pilot, "tab", "enter")
    written = json.loads((tmp_path / "add-020b24-step110-110t-3-1.json").read_text())
    assert (written["group"], written["completion"]) == ("110t-3", "<answer>31</answer>")


def test_a_pager_that_fails_says_so() -> None:
    assert export._run(["true"]) == ""
    assert export._run(["false"]) == "false ended with status 1"
    assert export._run(["/no/such/pager"]) == "/no/such/pager: No such file or directory"
