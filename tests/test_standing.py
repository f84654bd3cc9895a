"""A picture that is not whole says so: in words, in the JSON and in the title, and one source of many is enough."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from runs import group, read, run_record, step_record, write_log

from grpo_top.alarms import Command
from grpo_top.check_text import check_text
from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.report import check_object, inspect_text
from grpo_top.snapshot import SourceFacts
from grpo_top.standing import standing
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.view import View
from grpo_top.ui.widgets.title import title_runs
from grpo_top.ui.widgets.triage_strip import strip_runs

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

NOW = 1_000_000.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    records = [
        run_record(group_size=2),
        *group(1, "a", (0, 1)),
        step_record(1, kl=0.1),
        *group(2, "a", (0, 1)),
    ]
    found = read(write_log(tmp_path_factory.mktemp("run") / "log.jsonl", records))
    return replace(found, finished=False, time=NOW, last_record_time=NOW - 1)


def _with(snapshot: Snapshot, *states: tuple[str, str], **changes: object) -> Snapshot:
    sources = [
        SourceFacts(f"{number}.jsonl", f"/run/{number}.jsonl", "native", "rollouts", 1, 1, 0, state, note)
        for number, (state, note) in enumerate(states)
    ]
    return replace(snapshot, sources=(*snapshot.sources, *sources), **changes)  # type: ignore[arg-type]


def _title(snapshot: Snapshot, width: int) -> str:
    return "".join(text for text, _ in title_runs(View(snapshot, None, NOW), width, UNICODE))


def test_a_whole_picture_needs_no_notes(whole: Snapshot) -> None:
    assert standing(whole) == ("live", ())
    assert check_object(whole)["standing"] == {
        "state": "live",
        "read": 1.0,
        "last_record_time": NOW - 1,
        "notes": [],
    }
    assert "not whole" not in check_text(whole) + inspect_text(whole)


@pytest.mark.parametrize(
    ("states", "changes", "state", "in_title", "note"),
    [
        ([("gone", "")], {}, "live", "1 gone", "0.jsonl: gone; what was read of it stands"),
        ([("error", "Permission denied")], {}, "live", "1 of 2 sources down", "0.jsonl: Permission denied"),
        ([("error", "down"), ("gone", "")], {}, "live", "1 gone", "0.jsonl: down"),
        ([("error", "down")], {"finished": True}, "finished", "1 down", "0.jsonl: down"),
        ([], {"reading": 0.25}, "reading", "reading 25%", ""),
        ([], {"last_record_time": None}, "waiting", "waiting", ""),
        ([], {"last_record_time": NOW - 3600}, "quiet", "quiet for", ""),
    ],
)
def test_what_keeps_it_from_being_whole_is_said_everywhere(
    whole: Snapshot,
    states: list[tuple[str, str]],
    changes: dict[str, object],
    state: str,
    in_title: str,
    note: str,
) -> None:
    snapshot = _with(whole, *states, **changes)
    stands = check_object(snapshot)["standing"]
    assert stands["state"] == state
    for width in (72, 80, 120, 160):
        assert in_title in _title(snapshot, width), width
    if note:
        assert note in stands["notes"]
        assert f"not whole: {note}" in check_text(snapshot)
        assert f"not whole: {note}" in inspect_text(snapshot)
        assert [source["state"] for source in check_object(snapshot)["sources"]][1:] == [
            name for name, _ in states
        ]


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_a_stage_that_was_checked_in_part_has_a_mark_of_its_own_at_every_width(
    width: int, whole: Snapshot
) -> None:
    for glyphs, mark in ((UNICODE, "○"), (ASCII, "o")):
        strip = "".join(text for text, _ in strip_runs(View(whole, None, NOW), width, glyphs))
        data, reward = (
            {60: "0", 80: "data", 120: " 0 data", 160: " 0 data"}[width],
            {60: "2", 80: "reward", 120: " 2 reward", 160: " 2 reward"}[width],
        )
        assert f"{glyphs.ok}{data}" in strip
        assert f"{mark}{reward}" in strip
    states = {stage["name"]: (stage["status"], stage["so_far"]) for stage in check_object(whole)["triage"]}
    assert states["data"] == ("ok", "ok")
    assert states["reward"] == ("unknown", "ok")


def test_a_source_that_goes_while_it_is_followed_is_seen(tmp_path: Path) -> None:
    records = [run_record(group_size=2), *group(1, "a", (0, 1)), step_record(1, kl=0.1)]
    kept, lost = write_log(tmp_path / "kept.jsonl", records), write_log(tmp_path / "lost.jsonl", records)
    monitor = Monitor([str(tmp_path)], Settings())
    while monitor.poll():
        pass
    lost.unlink()
    monitor.poll()
    assert standing(monitor.snapshot()).notes == ("lost.jsonl: gone; what was read of it stands",)
    kept.unlink()
    monitor.poll()
    assert standing(monitor.snapshot()).state == "gone"


def test_a_command_that_is_under_way_is_ended_with_what_follows_it() -> None:
    said: list[str] = []
    command = Command("sleep 60", said.append)
    command.tell(b"{}")
    begun = threading.Event()
    while command._running is None:
        begun.wait(0.01)
    command.end()
    command.close()
    assert not command._thread.is_alive()
    assert said == []
